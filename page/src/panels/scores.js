// The scores of a real head against distance, beside the curve that frequencies alone would give.
import { chart, legend } from '../chart.js';
import { command, count, fact, h, onceAFrame, predict, stateChips, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, lookOf, methodChoices, methodFor, titleOf } from '../methods.js';
import { expectedScore } from '../numbers.js';
import { choice, number, state } from '../state.js';

const CHARACTERS = 5300 / 512, // read of the book for a position of the trained context: enough for three times as many
    BIN = 16, // positions that a point is the mean of
    NAMES = ['none', 'linear', 'ntk', 'yarn'];

export function whyScoresGoWrong({ file, engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        N = 3 * L,
        characters = Math.round(CHARACTERS * L),
        { layers: LAYERS = 6, heads: HEADS = 4 } = shipped;
    state.add('layer', number(0, LAYERS - 1), LAYERS >> 1);
    state.add('head-of', number(0, HEADS - 1), 1 % HEADS);
    state.add('scored', choice(NAMES), 'none');
    const status = statusLine(),
        line = command(),
        keys = h('div');
    const results = {}; // by method: heads
    const plot = chart({
        label: 'Scores of a head by distance',
        height: 280,
        x: { domain: [0, N], label: 'distance from the query', name: 'distance' },
        y: { label: `score q·k/√d, mean of ${BIN}` },
        rule: { at: L, text: 'distances never seen' },
        show: (v) => v.toFixed(2),
    });
    const expected = chart({
        label: 'Expected score by distance',
        height: 160,
        x: { domain: [0, N], label: 'distance', name: 'distance' },
        y: { label: 'what the frequencies alone give', domain: [-0.4, 1] },
        rule: { at: L, text: '' },
        show: (v) => v.toFixed(2),
    });
    const numbers = h('div.numbers', { ariaLive: 'polite' });

    // Means of the scores over distances; the query itself and what it does not see are left out.
    function points(scores) {
        const n = scores.length,
            out = [];
        for (let d = 1; d + BIN <= n; d += BIN) {
            let sum = 0,
                all = 0;
            for (let k = d; k < d + BIN; k++)
                if (Number.isFinite(scores[n - 1 - k])) {
                    sum += scores[n - 1 - k];
                    all++;
                }
            if (all) out.push([d + BIN / 2, sum / all]);
        }
        return out;
    }
    // The share of attention that falls on distances beyond training.
    function beyond(scores) {
        const n = scores.length,
            max = scores.reduce((a, b) => Math.max(a, b));
        let far = 0,
            all = 0;
        scores.forEach((s, j) => {
            const w = Math.exp(s - max);
            all += w;
            if (n - 1 - j >= L) far += w;
        });
        return far / all;
    }

    function draw() {
        const layer = state.get('layer'),
            head = state.get('head-of');
        plot.clear(false);
        numbers.replaceChildren();
        const drawn = new Set();
        const known = recorded.scores[`${layer}.${head}`] ?? {};
        for (const name of Object.keys(known)) {
            plot.set(`~${name}`, known[name], { ...lookOf(name), ghost: true });
            drawn.add(name);
        }
        for (const [name, heads] of Object.entries(results)) {
            const scores = heads[layer]?.[head];
            if (!scores) continue;
            plot.set(name, points(scores), lookOf(name));
            drawn.add(name);
            numbers.append(
                fact(`${(100 * beyond(scores)).toFixed(1)} %`, `of ${titleOf(name)}'s attention is beyond ${L}`),
            );
        }
        expected.clear(false);
        for (const name of new Set(['none', state.get('scored')])) {
            const { frequencies, attention } = page.plan(methodFor(name, N), N).frequencies(N);
            drawn.add(name);
            expected.set(
                name,
                Array.from({ length: 300 }, (_, k) => [
                    (k * N) / 300,
                    expectedScore(frequencies, (k * N) / 300, attention),
                ]),
                lookOf(name),
            );
        }
        keys.replaceChildren(legend([...drawn].map(lookOf)));
        line.put(
            `head -c ${characters} book.txt | ./run ${file} --attn ${layer}.${head} -n ${N} --kv f32 --rope ` +
                `${methodFor(state.get('scored'), N)} -f -`,
        );
    }
    const redraw = onceAFrame(draw);

    const reading = runs({
        engine,
        status,
        inputs: ['factor'],
        work: read,
        stale: () => {
            for (const name of Object.keys(results)) delete results[name];
            redraw();
        },
    });
    async function read(run) {
        const name = state.get('scored');
        if (results[name]) return redraw();
        status.say(`${titleOf(name)} reads ${count(N)} tokens …`);
        const wish = { model: 'model', method: methodFor(name, N), text: book.slice(0, characters), context: N };
        const { heads } = await run.ask('scores', wish);
        results[name] = heads;
        return redraw();
    }
    const numbered = (what, n) => Array.from({ length: n }, (_, i) => [String(i), `${what} ${i}`]);
    const layers = stateChips('layer', 'layer', numbered('layer', LAYERS));
    const heads = stateChips('head', 'head-of', numbered('head', HEADS));
    const methods = stateChips('method', 'scored', methodChoices(NAMES), {
        onset: () => reading.begin(),
        colour: colourOf,
    });
    state.on(['layer', 'head-of', 'scored'], redraw);
    const guess = predict(
        `A head learned which scores to give up to ${L}. What will it give a token 1,000 back?`,
        ['a low one: far is unimportant', 'anything: nobody taught it'],
        {
            onanswer: () => {
                guess.say(
                    'The model never had to keep these scores in check. Slow hands stand where no weight was ' +
                        'trained for.',
                );
                reading.begin();
            },
        },
    );
    draw();
    return {
        id: 'scores',
        title: 'Why scores go wrong',
        body: [
            h(
                'p',
                'One query, the last token of a piece of the story, and its score with every token before it: above, a real ' +
                    'head; below, what the hands alone would say.',
            ),
            guess,
            h('div.row.middle', reading.button(['Read the story'], { primary: true }), methods),
            layers,
            heads,
            status,
            plot,
            numbers,
            expected,
            keys,
            line,
        ],
    };
}
