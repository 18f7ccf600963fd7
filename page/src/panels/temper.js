// 6: the attention factor. Too soft and attention spreads over everything, too sharp and it sees one thing.
import { chart } from '../chart.js';
import { command, count, fact, h, short, stateSlider, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf } from '../methods.js';
import { perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { number, state } from '../state.js';

const SWEEP = [0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5],
    PAIR = 'ntk-by-parts';

export function temperature({ file, engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        n = 4 * L,
        s = n / L,
        advised = 0.1 * Math.log(s) + 1;
    state.add('a', number(0.5, 2, false), 1);
    const status = statusLine(),
        line = command(),
        numbers = h('div.numbers', { ariaLive: 'polite' });
    const measured = new Map(),
        entropies = new Map();
    const look = {
        height: 220,
        x: { domain: [0.75, 1.55], label: 'a: cos and sin are multiplied by it', name: 'a' },
        rule: { at: advised, text: `0.1 ln s + 1 = ${advised.toFixed(3)}` },
    };
    const plot = chart({
        ...look,
        label: 'Perplexity by attention factor',
        y: { label: `perplexity past ${L}, of ${count(n)} tokens` },
        show: (v) => v.toFixed(2),
    });
    const spread = chart({
        ...look,
        label: 'Entropy by attention factor',
        y: { label: 'tokens that a head looks at: exp of its entropy, all heads' },
        show: (v) => v.toFixed(1),
    });
    plot.set('~yours', recorded.temper, { colour: colourOf('yarn'), title: 'perplexity', ghost: true });
    const { frequencies, plain } = page.plan(PAIR, n).frequencies(n);
    const method = (a) => ({ divisors: Array.from(plain, (f, i) => f / frequencies[i]), attention: a });

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
        const sorted = (map) => [...map].sort((x, y) => x[0] - y[0]);
        plot.set('yours', sorted(measured), { colour: colourOf('yarn'), title: 'perplexity' });
        spread.set('yours', sorted(entropies), { colour: colourOf('llama3'), title: 'tokens' });
        const a = state.get('a');
        numbers.replaceChildren(
            fact(measured.has(a) ? measured.get(a).toFixed(2) : '…', `perplexity past ${L} at a = ${short(a, 4)}`),
            fact(entropies.has(a) ? entropies.get(a).toFixed(1) : '…', 'tokens that a head looks at'),
            fact(`× ${(a * a).toFixed(3)}`, 'scores'),
        );
        line.put(`./run ${file} --ppl book.txt -n ${n} --kv f32 --rope yarn:attn-factor=${short(a, 4)}`);
    }
    async function measure(a, run) {
        if (measured.has(a)) return void draw();
        const wish = { model: 'model', method: method(a), text: book.slice(0, 9000), context: n };
        const [nlls, { heads }] = await Promise.all([
            readText(run, { method: method(a), text: book, n }),
            run.ask('scores', wish),
        ]);
        const all = heads.flat();
        measured.set(a, perplexity(nlls, L - 1, n));
        entropies.set(a, Math.exp(all.reduce((sum, scores) => sum + entropy(scores), 0) / all.length));
        draw();
    }
    const measuring = runs({
        engine,
        status,
        work: async (run) => {
            sweeping.end();
            status.say(`Reading ${count(n)} tokens at a = ${short(state.get('a'), 4)} …`);
            await measure(state.get('a'), run);
        },
    });
    const sweeping = runs({
        engine,
        status,
        work: async (run) => {
            measuring.end();
            for (const a of SWEEP) {
                status.say(`a = ${a} …`);
                state.set('a', a);
                await measure(a, run);
            }
            const best = [...measured].sort((x, y) => x[1] - y[1])[0];
            status.say(`Least perplexed at a = ${short(best[0], 4)}; the formula says ${advised.toFixed(3)}.`);
        },
    });
    const one = measuring.button(['Measure']),
        sweep = sweeping.button(['Try ten of them'], { primary: true });
    const control = stateSlider('a', 'a', { min: 0.8, max: 1.5, step: 0.01, show: (v) => v.toFixed(2) });
    state.on('a', draw);
    draw();
    return {
        number: 6,
        id: 'temper',
        title: 'Temperature',
        body: [
            h(
                'p',
                'More tokens to look at spread attention thinner. YaRN turns the scores up a little, all of them ' +
                    'alike: that is all the difference between it and “by parts”.',
            ),
            h('div.row.middle', control, one, sweep),
            status,
            numbers,
            h('div.two', plot, spread),
            line,
        ],
    };
}
