// The attention factor. Too soft and attention spreads over everything, too sharp and it sees one thing.
import { chart, legend } from '../chart.js';
import { command, count, fact, h, short, stateChips, stateSlider, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf } from '../methods.js';
import { perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { choice, number, state } from '../state.js';

const SWEEP = [1, 0.9, 0.95, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5],
    TIMES = [4, 16], // the trained length
    PAIR = 'ntk-by-parts';
const LOOKS = { 4: { colour: colourOf('ntk'), title: '4 times' }, 16: { colour: colourOf('yarn'), title: '16 times' } };

export function temperature({ file, engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        advised = (times) => 0.1 * Math.log(times) + 1;
    state.add('a', number(0.5, 2, false), 1);
    state.add('times', choice(TIMES), 16);
    const status = statusLine(),
        line = command(),
        numbers = h('div.numbers');
    // By how many times as long: perplexity past L, and the tokens that a head looks at, by a.
    const measured = { 4: new Map(), 16: new Map() };
    const plot = chart({
        label: 'Perplexity by attention factor',
        height: 250,
        x: { domain: [0.88, 1.52], label: 'a: cos and sin are multiplied by it', name: 'a' },
        y: { label: `perplexity past ${L}, in shares of the one at a = 1`, domain: [0.9, 1.2] },
        level: { at: 1, text: 'as without temperature' },
        show: (v) => v.toFixed(3),
    });
    const shares = (all) => {
        const one = all.find(([a]) => a === 1);
        return one ? all.map(([a, value]) => [a, value / one[1]]).sort((x, y) => x[0] - y[0]) : [];
    };
    for (const times of TIMES)
        plot.set(`~${times}`, shares(recorded.temper[times] ?? []), { ...LOOKS[times], dash: '', ghost: true });

    const entropy = (scores) => {
        const max = scores.reduce((a, b) => Math.max(a, b));
        let sum = 0,
            product = 0;
        for (const x of scores) {
            const w = Math.exp(x - max);
            sum += w;
            product += w ? w * (x - max) : 0;
        }
        return Math.log(sum) - product / sum;
    };
    function draw() {
        const a = state.get('a'),
            times = state.get('times');
        for (const [each, found] of Object.entries(measured))
            if (found.size) plot.set(each, shares([...found].map(([x, { ppl }]) => [x, ppl])), LOOKS[each]);
        plot.change({ rule: { at: advised(times), text: `0.1 ln ${times} + 1 = ${advised(times).toFixed(3)}` } });
        const here = measured[times].get(a);
        numbers.replaceChildren(
            fact(here ? here.ppl.toFixed(2) : '…', `perplexity past ${L} at a = ${short(a, 4)}`),
            fact(here ? here.looks.toFixed(1) : '…', 'tokens that a head looks at'),
            fact(`× ${(a * a).toFixed(3)}`, 'scores'),
        );
        line.put(`./run ${file} --ppl book.txt -n ${times * L} --kv f32 --rope yarn:attn-factor=${short(a, 4)}`);
    }
    async function measure(times, a, run) {
        if (measured[times].has(a)) return void draw();
        const n = times * L,
            { frequencies, plain } = page.plan(PAIR, n).frequencies(n),
            method = { divisors: Array.from(plain, (f, i) => f / frequencies[i]), attention: a };
        const [nlls, { heads }] = await Promise.all([
            readText(run, { method, text: book, n }),
            run.ask('scores', { model: 'model', method, text: book.slice(0, 4 * n), context: n }),
        ]);
        const all = heads.flat();
        measured[times].set(a, {
            ppl: perplexity(nlls, L - 1, n),
            looks: Math.exp(all.reduce((sum, scores) => sum + entropy(scores), 0) / all.length),
        });
        draw();
    }
    const measuring = runs({
        engine,
        status,
        inputs: ['times'],
        work: async (run) => {
            sweeping.end();
            const { times } = run.input;
            status.say(`Reading ${count(times * L)} tokens at a = ${short(state.get('a'), 4)} …`);
            await measure(times, state.get('a'), run);
            status.say('');
        },
    });
    const sweeping = runs({
        engine,
        status,
        inputs: ['times'],
        work: async (run) => {
            measuring.end();
            const { times } = run.input;
            for (const a of SWEEP) {
                status.say(`a = ${a}, ${count(times * L)} tokens …`);
                state.set('a', a);
                await measure(times, a, run);
            }
            const [best, { ppl }] = [...measured[times]].sort((x, y) => x[1].ppl - y[1].ppl)[0];
            const gain = 100 * (1 - ppl / measured[times].get(1).ppl);
            status.say(
                `Least perplexed at a = ${short(best, 4)}, by ${gain.toFixed(1)} %; the formula says ` +
                    `${advised(times).toFixed(3)}.`,
            );
        },
    });
    const one = measuring.button(['Measure']),
        sweep = sweeping.button(['Try nine of them'], { primary: true });
    const control = stateSlider('a', 'a', { min: 0.9, max: 1.5, step: 0.01, show: (v) => v.toFixed(2) });
    const lengths = stateChips(
        'how much longer',
        'times',
        TIMES.map((times) => [String(times), `${times} times as long`]),
    );
    state.on(['a', 'times'], draw);
    draw();
    return {
        id: 'temper',
        title: 'Temperature',
        body: [
            h(
                'p',
                'The longer the text, the thinner attention spreads. YaRN turns all scores up a little. At 16 times the ' +
                    'length that matters.',
            ),
            h('div.row.middle', lengths, control, one, sweep),
            status,
            numbers,
            legend(TIMES.map((times) => LOOKS[times])),
            plot,
            line,
        ],
    };
}
