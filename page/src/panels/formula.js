// 14: a formula of the reader's own, for the speed of one pair, added to every chip and shared by the address.
import { chart, legend } from '../chart.js';
import { button, fact, h, onceAFrame, statusLine } from '../dom.js';
import { parse, toC } from '../expression.js';
import { colourOf, methodFor, own, titleOf } from '../methods.js';
import { seenShare, sharpness, TURN } from '../numbers.js';
import { state, text } from '../state.js';

const FIRST = 'plain / s^((2*i/d)^2)';
const EXAMPLES = [
    ['linear', 'plain / s'],
    ['by turns', 'plain / (turns < 1 ? s : turns > 32 ? 1 : s^(1 - log(turns)/log(32)))'],
    ['a power', FIRST],
    ['cut off', 'turns < 1 ? 0.000001 : plain'],
];
const NAMES = ['plain', 'turns', 's', 'L', 'i', 'd'];

export function yourMethod({ page, shipped, joined }) {
    const L = shipped.trainedContext,
        d = shipped.headDim;
    state.add('f', text(300), '');
    const status = statusLine(),
        code = h('pre.block', { tabIndex: 0 });
    const field = h('input', {
        value: state.get('f') || FIRST,
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
    const numbers = h('div.numbers', { ariaLive: 'polite' });
    page.plan('none', L);
    const plain = Array.from(page.frequencies(L).plain);

    // The speeds, or why there are none.
    function speeds(source, s) {
        const formula = parse(source, NAMES);
        return plain.map((f, i) => {
            const speed = formula({ plain: f, turns: (L * f) / TURN, s, L, i, d });
            if (!(speed > 0) || !Number.isFinite(speed))
                throw new Error(`pair ${i} gets the speed ${speed} (a number above 0 expected)`);
            if (speed > 100 || f / speed > 1e9)
                throw new Error(
                    `pair ${i} gets the speed ${speed.toExponential(2)}, out of all proportion to ` +
                        `${f.toExponential(2)}`,
                );
            return speed;
        });
    }
    own.mine = () => {
        const s = state.get('factor') > 0 ? state.get('factor') : Math.max(1, state.get('n') / L);
        try {
            return { divisors: speeds(state.get('f') || FIRST, s).map((f, i) => plain[i] / f), attention: 1 };
        } catch {
            return undefined;
        }
    };
    function draw() {
        const s = Math.max(1.5, state.get('n') / L),
            n = s * L;
        plot.clear(false);
        for (const name of ['linear', 'yarn']) {
            page.plan(methodFor(name), n);
            const { frequencies } = page.frequencies(n);
            plot.set(
                `~${name}`,
                plain.map((f, i) => [i, f / frequencies[i]]),
                { colour: colourOf(name), title: titleOf(name), ghost: true },
            );
        }
        try {
            const source = field.value.trim(),
                list = speeds(source, s);
            plot.set(
                'mine',
                list.map((f, i) => [i, plain[i] / f]),
                { colour: colourOf('mine'), title: 'yours' },
            );
            const shares = list.map((f, i) => seenShare(plain[i], f, L, n));
            numbers.replaceChildren(
                fact(`${Math.round(100 * Math.min(1, sharpness(plain, list)))} %`, 'neighbours stay sharp'),
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
            state.set('f', source === FIRST ? '' : source);
        } catch (error) {
            status.say(error.message, true);
            numbers.replaceChildren();
            code.textContent = '';
        }
    }
    const redraw = onceAFrame(draw);
    field.oninput = redraw;
    state.on('n', redraw);
    state.on('f', (v) => {
        if (document.activeElement !== field) {
            field.value = v || FIRST;
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
        number: 14,
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
            status,
            plot,
            legend([
                { title: 'yours', colour: colourOf('mine') },
                { title: 'linear', colour: colourOf('linear') },
                { title: 'yarn', colour: colourOf('yarn') },
            ]),
            numbers,
            h('p', 'It stands among the chips of 7 and 8 as “your formula”, and in this page’s address. To keep it:'),
            code,
        ],
    };
}
