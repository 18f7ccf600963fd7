// A key is hidden in filler and asked for at the end. Whoever only sees the last 512 tokens cannot know it.
import { command, count, counts, folded, foldedChips, h, onceAFrame, predict, stateChips, statusLine } from '../dom.js';
import { build } from '../haystack.js';
import { runs } from '../job.js';
import { colourOf, methodChoices, methodFor, optionsFor, SIX, titleOf } from '../methods.js';
import { choice, number, state } from '../state.js';
import { keyGrid } from './grid.js';
import { hayPicture } from './hay.js';

const NAMES = [...SIX.slice(0, 5), 'dynamic-yarn', 'window', 'yours', 'mine'];
const EXCERPT = 90; // characters on either side of the key
// Tokens of the task's text in front of the filler, and of all that is no filler.
const BEFORE = 45,
    NO_FILLER = 92;
const key5 = {
    read: (written) => (/^[1-9]\d{4}$/.test(written) ? written : undefined),
    write: String,
    expects: 'five digits, the first of which is not 0',
};

export function hideAKey({ file, engine, page, shipped, recorded }) {
    const L = shipped.trainedContext;
    const names = [...NAMES, ...page.maps().map((map) => map.name)];
    state.add('key-n', number(128, 8 * L), 4 * L);
    state.add('depth', number(0, 1, false), 0.25);
    state.add('digits', key5, '73914');
    state.add('asked', choice(names), 'yarn');
    const n = () => state.get('key-n');

    // ---- what is known: where the key stands, a share of the text, for a share of the filler, and back

    const standsAt = (depth) => (BEFORE + depth * (n() - NO_FILLER)) / n();
    const limited = (depth) => +Math.min(1, Math.max(0, depth)).toFixed(3);
    const depthAt = (share) => limited((share * n() - BEFORE) / (n() - NO_FILLER));
    const sentences = () => Math.max(1, Math.round((n() - 80) / 5.2)); // about, for the excerpt alone

    // ---- what is seen

    const status = statusLine(),
        line = command(),
        answer = h('p.digits', { ariaLive: 'polite' }),
        excerpt = h('p.excerpt');
    let seen = { read: 0, look: null, total: 1 };
    const hay = hayPicture({
        trained: L,
        place: () => ({
            share: standsAt(state.get('depth')),
            depth: state.get('depth'),
            digits: state.get('digits'),
        }),
        put: (share) => state.set('depth', depthAt(share)),
        nudge: (by) => state.set('depth', limited(state.get('depth') + by)),
        window: () => Math.min(1, L / n()),
    });
    function draw() {
        hay.draw(seen);
        const [before, needle, behind] = build(sentences(), state.get('depth'), state.get('digits'));
        excerpt.replaceChildren(`… ${before.slice(-EXCERPT)}`, h('mark', needle), `${behind.slice(0, EXCERPT)} …`);
        showCommand();
    }
    function showCommand() {
        const name = state.get('asked'),
            [[options, files] = ['', []]] =
                name === 'window' ? [[`--rope none --window ${L}`, []]] : optionsFor([name], n());
        const hidden = { length: n(), depth: state.get('depth'), key: state.get('digits') };
        const haystack = async () => (await engine.ask('haystack', { model: 'model', ...hidden }).promise).text;
        line.put([
            `./run ${file} -n ${n()} -t 0 --kv f32 ${options} -f haystack.txt`,
            [['haystack.txt', haystack], ...files],
        ]);
    }
    const redraw = onceAFrame(draw);
    function show(digits, key, name, isFinal) {
        const marks = Array.from(digits.slice(0, key.length), (c, i) =>
            h(c === key[i] ? 'span.right' : 'span.wrong', c),
        );
        const verdict = isFinal ? (digits === key ? ': right' : ': wrong') : ' …';
        answer.replaceChildren(...marks, h('small', `  ${titleOf(name)}${verdict}`));
    }

    // ---- what is measured

    const asking = runs({
        engine,
        status,
        inputs: ['depth', 'digits', 'asked', 'key-n', 'factor'],
        work: ask,
        stale: () => {
            clear();
            status.say('');
            if (document.activeElement !== digits) digits.value = state.get('digits');
        },
    });
    function clear() {
        seen = { read: 0, look: null, total: 1 };
        answer.replaceChildren();
        redraw();
    }
    async function ask(run) {
        const { digits: key, asked: name, depth } = run.input,
            length = n();
        clear();
        if (key5.read(digits.value) === undefined) throw new Error('The key must be five digits, the first not 0.');
        status.say(`${titleOf(name)} reads ${count(length)} tokens …`);
        const hidden = { length, depth, key, context: length, looks: true };
        const wish = { model: 'model', method: methodFor(name, length), ...hidden };
        const found = await run.ask('hide', wish, ({ read, of, look, answer: part }) => {
            if (of) seen = { ...seen, read: read / of, total: of };
            if (look) seen = { ...seen, look };
            if (part !== undefined) show(part, key, name, false);
            redraw();
        });
        show(found.answer, key, name, true);
        const back = found.n - found.needle; // as From score to word counts it
        status.say(
            found.answer === key
                ? `Found, ${count(back)} tokens back.`
                : name === 'window' && back > L
                  ? `It stood ${count(back)} tokens back: out of the window's sight, so it makes something up.`
                  : 'Not found.',
        );
    }
    const renewFor = (name) => () => state.get('asked') === name && asking.renew();
    state.on(['slow', 'temper'], renewFor('yours'));
    state.on('f', renewFor('mine'));

    const digits = h('input', {
        value: state.get('digits'),
        inputMode: 'numeric',
        maxLength: 5,
        size: 6,
        ariaLabel: 'five digits',
    });
    digits.oninput = () => state.put('digits', digits.value) || asking.renew();
    const guess = predict(
        `Perplexity likes the window best of all. Who finds a key that stands ${count(3 * L)} tokens back?`,
        ['the window', 'plain', 'YaRN, without any training'],
        {
            say: (guessed) =>
                `${guessed === 2 ? 'Yes' : 'No: YaRN does'}. The window does not see it, and plain sees it at angles that mean ` +
                'nothing to it. Ask each of them.',
        },
    );
    const box = h('div', hay.node);
    new ResizeObserver(redraw).observe(box);
    return {
        id: 'key',
        title: 'Hide a key',
        body: [
            h(
                'p',
                'Put the key where you like: drag it. Another number, a longer text, another method: who finds it?',
            ),
            guess,
            h(
                'div.row.middle',
                h('label.field', h('span', 'the key'), digits),
                stateChips('length', 'key-n', counts([L, 2 * L, 4 * L, 8 * L])),
            ),
            foldedChips('method', 'asked', methodChoices(names), ['none', 'yarn', 'window'], { colour: colourOf }),
            box,
            excerpt,
            h('div.row.middle', asking.button(['Ask for the key'], { primary: true })),
            answer,
            status,
            folded('The command that asks', line),
            keyGrid({ engine, recorded, file, trained: L }),
        ],
    };
}
