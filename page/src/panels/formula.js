// A formula of the reader's own, for the speed of one pair, added to every chip and shared by the address.
import { chart, legend } from '../chart.js';
import { button, command, counts, fact, h, onceAFrame, stateChips, statusLine } from '../dom.js';
import { toC } from '../expression.js';
import { blockOf, colourOf, FIRST_FORMULA, lookOf, methodFor, plainSpeeds, speedsBy } from '../methods.js';
import { seenShare, sharpness } from '../numbers.js';
import { number, state } from '../state.js';

const EXAMPLES = [
    ['linear', 'plain / s'],
    ['by turns', 'plain / (turns < 1 ? s : turns > 32 ? 1 : s^(1 - log(turns)/log(32)))'],
    ['a power', FIRST_FORMULA],
    ['cut off', 'turns < 1 ? 0.000001 : plain'],
];

export function yourMethod({ file, page, shipped }) {
    const L = shipped.trainedContext,
        d = shipped.headDim;
    state.add('formula-n', number(L, 16 * L), 4 * L);
    const status = statusLine(),
        code = h('pre.block', { tabIndex: 0 }),
        line = command();
    const field = h('input', {
        value: state.get('f') || FIRST_FORMULA,
        size: 60,
        spellcheck: false,
        ariaLabel: 'the formula: what a pair’s speed becomes',
    });
    field.style.cssText = 'font-family:ui-monospace,Menlo,Consolas,monospace;width:100%';
    const plot = chart({
        label: 'What the formula makes of each pair',
        height: 220,
        x: { domain: [0, d / 2 - 1], label: 'pair', name: 'pair' },
        y: { log: true, label: 'times slower' },
        show: (v) => v.toFixed(2),
    });
    const numbers = h('div.numbers');
    const plain = plainSpeeds();

    function draw() {
        const n = state.get('formula-n'),
            s = state.get('factor') || n / L;
        plot.clear(false);
        for (const name of ['linear', 'yarn']) {
            const { frequencies } = page.plan(methodFor(name, n), n).frequencies(n);
            plot.set(
                `~${name}`,
                plain.map((f, i) => [i, f / frequencies[i]]),
                { ...lookOf(name), ghost: true, computed: true },
            );
        }
        try {
            const source = field.value.trim(),
                list = speedsBy(source, s);
            plot.set(
                'mine',
                list.map((f, i) => [i, plain[i] / f]),
                { colour: colourOf('mine'), title: 'yours' },
            );
            const shares = list.map((f, i) => seenShare(plain[i], f, L, n));
            numbers.replaceChildren(
                fact(`${Math.round(100 * Math.min(1, sharpness(plain, list)))} %`, 'neighbors stay sharp'),
                fact(
                    `${Math.round((100 * shares.reduce((a, b) => a + b)) / shares.length)} %`,
                    'of all angles were seen',
                ),
            );
            code.textContent =
                `// in rope.c, above the table\nstatic double mine(const RopePair *p) {\n${toC(source)}}\n\n// ` +
                `and at its end\n` +
                '    {"mine", mine, NULL, ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC, "my own", "mine", NULL, NULL},';
            status.say('');
            if (!state.put('f', source === FIRST_FORMULA ? '' : source))
                throw new Error(`this is not ${state.expects('f')}`);
            const block = blockOf('mine', n);
            line.put([`./run ${file} --ppl book.txt -n ${n} --kv f32 --rope-config ${block[0]}`, [block]]);
        } catch (error) {
            status.say(error.message, true);
            numbers.replaceChildren();
            code.textContent = '';
            line.put();
        }
    }
    const redraw = onceAFrame(draw);
    field.oninput = redraw;
    state.on(['formula-n', 'factor'], redraw);
    state.on('f', (v) => {
        if (document.activeElement !== field) {
            field.value = v || FIRST_FORMULA;
            redraw();
        }
    });
    redraw();
    const examples = h(
        'div.chips',
        EXAMPLES.map(([name, formula]) =>
            button(name, () => {
                field.value = formula;
                redraw();
            }),
        ),
    );
    return {
        id: 'formula',
        title: 'Your method',
        body: [
            h(
                'p',
                'A method is one line: what a pair’s speed becomes. You have ',
                h('code', 'plain'),
                ', its speed as trained; ',
                h('code', 'turns'),
                ', how often it went round; ',
                h('code', 's'),
                ', how much longer the text is; ',
                h('code', 'L'),
                ', ',
                h('code', 'i'),
                ' and ',
                h('code', 'd'),
                '.',
            ),
            field,
            examples,
            stateChips('length', 'formula-n', counts([2 * L, 4 * L, 8 * L])),
            status,
            plot,
            legend([
                { title: 'yours', colour: colourOf('mine') },
                { title: 'linear', colour: colourOf('linear') },
                { title: 'yarn', colour: colourOf('yarn') },
            ]),
            numbers,
            h(
                'p',
                'It stands among the chips of the race and the key as “your formula”, and in this page’s address. At a terminal:',
            ),
            line,
            h('p', 'To keep it:'),
            code,
        ],
    };
}
