// 4: the scores of a real head against distance, beside the curve that frequencies alone would give.
import { chart, legend } from '../chart.js';
import { button, command, count, fact, h, onceAFrame, orSay, predict, stateChips, statusLine } from '../dom.js';
import { colourOf, methodChoices, methodFor, spelled, titleOf } from '../methods.js';
import { expectedScore } from '../numbers.js';
import { number, state, text } from '../state.js';

const CHARACTERS = 5300,
    N = 1536,
    BIN = 16; // read of the book, positions for them, and those that a point is the mean of

export function whyScoresGoWrong({ engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext;
    state.add('layer', number(0, 63), 3);
    state.add('head-of', number(0, 63), 1);
    state.add('scored', text(160), 'none');
    const status = statusLine(),
        line = command('');
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
        const known = recorded.scores[`${layer}.${head}`] ?? {};
        for (const name of Object.keys(known))
            plot.set(`~${name}`, known[name], { colour: colourOf(name), title: titleOf(name), ghost: true });
        for (const [name, heads] of Object.entries(results)) {
            const scores = heads[layer]?.[head];
            if (!scores) continue;
            plot.set(name, points(scores), { colour: colourOf(name), title: titleOf(name) });
            numbers.append(
                fact(`${(100 * beyond(scores)).toFixed(1)} %`, `of ${titleOf(name)}'s attention is beyond ${L}`),
            );
        }
        expected.clear(false);
        for (const name of new Set(['none', state.get('scored')])) {
            page.plan(methodFor(name), N);
            const { frequencies, attention } = page.frequencies(N);
            expected.set(
                name,
                Array.from({ length: 300 }, (_, k) => [
                    (k * N) / 300,
                    expectedScore(frequencies, (k * N) / 300, attention),
                ]),
                { colour: colourOf(name), title: titleOf(name) },
            );
        }
        line.put(
            `head -c ${CHARACTERS} book.txt | ./run model.bin --attn ${layer}.${head} --rope ` +
                `${spelled(state.get('scored'))} -n ${N} -f -`,
        );
    }
    const redraw = onceAFrame(draw);

    async function read() {
        const name = state.get('scored');
        if (results[name]) return void redraw();
        status.say(`${titleOf(name)} reads ${count(N)} tokens …`);
        await orSay(status, async () => {
            const done = await engine.ask('scores', {
                model: 'model',
                method: methodFor(name),
                text: book.slice(0, CHARACTERS),
                context: N,
            }).promise;
            results[name] = done.heads;
            status.say('');
            redraw();
        });
    }
    const numbered = (what, n) => Array.from({ length: n }, (_, i) => [String(i), `${what} ${i}`]);
    const layers = stateChips('layer', 'layer', numbered('layer', 6));
    const heads = stateChips('head', 'head-of', numbered('head', 4));
    const methods = stateChips('method', 'scored', methodChoices(['none', 'linear', 'ntk', 'yarn']), {
        onset: read,
        colour: colourOf,
    });
    state.on(['layer', 'head-of', 'scored'], redraw);
    const guess = predict(
        `A head learnt which scores to give up to ${L}. What will it give a token 1,000 back?`,
        ['a low one: far is unimportant', 'anything: nobody taught it'],
        {
            onanswer: () => {
                guess.say(
                    'The model never had to keep these scores in check. Slow hands stand where no weight was ' +
                        'trained for.',
                );
                read();
            },
        },
    );
    draw();
    return {
        number: 4,
        id: 'scores',
        title: 'Why scores go wrong',
        body: [
            h(
                'p',
                'One query, the last token of a piece of the story, and its score with every token before it: above, a real ' +
                    'head; below, what the hands alone would say.',
            ),
            guess,
            h('div.row.middle', button('Read the story', read, { primary: true }), methods),
            layers,
            heads,
            status,
            plot,
            numbers,
            expected,
            legend([
                { title: 'plain', colour: colourOf('none') },
                { title: 'the method', colour: colourOf('yarn') },
            ]),
            line,
        ],
    };
}
