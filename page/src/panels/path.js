// From score to share to next word, for one head and one key: near, far back by plain RoPE, and far back by YaRN.
import { chart } from '../chart.js';
import { command, count, h, stateChips, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { methodFor } from '../methods.js';
import { kept } from '../place.js';
import { choice, state } from '../state.js';
import { prose } from '../terms.js';

const LAYER = 4,
    HEAD = 1, // which looks for what stood behind the same words before
    KEY = '73914',
    DEPTH = 0.25,
    POINTS = 120; // of a curve

export function fromScoreToWord({ engine, file, shipped }) {
    const L = shipped.trainedContext,
        CASES = { near: ['none', L], far: ['none', 4 * L], yarn: ['yarn', 4 * L] };
    state.add('path', choice(Object.keys(CASES)), 'near');
    const status = statusLine(),
        line = command(),
        says = h('p.told', { ariaLive: 'polite' });
    const known = {}; // by case and factor, what the worker found
    const now = () => `${state.get('path')} ${state.get('factor')}`;

    const small = (label, y, show) =>
        chart({ label, height: 210, x: { domain: [0, L], label: 'tokens back', name: 'tokens back' }, y, show });
    const scores = small('Score of each token by its distance', { label: 'score' }, (v) => v.toFixed(1)),
        shares = small(
            'Share of attention by distance',
            { label: 'share of attention, %', domain: [0, 102] },
            (v) => `${v.toFixed(1)} %`,
        );
    const bars = Array.from({ length: 10 }, (_, digit) => {
        const bar = h('i'),
            value = h('small');
        return { row: h('div', h('b', String(digit)), h('span', bar), value), bar, value };
    });
    const words = h(
        'div.chances',
        { role: 'img', ariaLabel: 'probability of each digit to come next' },
        h('p.fine', 'next word: probability, %'),
        bars.map(({ row }) => row),
    );
    bars[+KEY[0]].row.className = 'right';

    // The largest of every few neighbors: a key of a few tokens must not vanish in a mean.
    function curve(values, from, to) {
        const n = values.length,
            step = Math.max(1, Math.ceil(n / POINTS)),
            out = [];
        for (let d = 1; d < n; d += step) {
            let most = -Infinity;
            for (let k = d; k < Math.min(n, d + step); k++) {
                const at = n - 1 - k;
                if (at < from || at >= to) most = Math.max(most, values[at]);
            }
            if (most > -Infinity) out.push([d + step / 2, most]);
        }
        return out;
    }
    function draw() {
        const found = known[now()];
        if (!found) return;
        const { n, from, to, chances } = found,
            all = Array.from(found.scores),
            max = Math.max(...all),
            weights = all.map((score) => Math.exp(score - max)),
            sum = weights.reduce((a, b) => a + b),
            parts = weights.map((weight) => (100 * weight) / sum);
        for (const [plot, values] of [
            [scores, all],
            [shares, parts],
        ]) {
            plot.change({ x: { domain: [0, n] } });
            plot.set('others', curve(values, from, to), { colour: 'var(--grey)', title: 'other tokens' });
            plot.set(
                'key',
                Array.from({ length: to - from }, (_, i) => [n - 1 - from - i, values[from + i]]),
                { colour: 'var(--gold)', title: 'the key' },
            );
        }
        chances.forEach((p, digit) => {
            bars[digit].bar.style.width = `${100 * p}%`;
            bars[digit].value.textContent = (100 * p).toFixed(p < 0.1 ? 1 : 0);
        });
        const share = parts.slice(from, to).reduce((a, b) => a + b),
            right = 100 * chances[+KEY[0]];
        says.textContent =
            `The key ${KEY} stands ${count(n - 1 - from)} tokens back. It gets ${share.toFixed(0)} % of this head's attention, ` +
            `and its first digit, ${KEY[0]}, a probability of ${right.toFixed(right < 10 ? 1 : 0)} %.`;
        showCommand(found.text);
    }
    function showCommand(text) {
        const [name, length] = CASES[state.get('path')];
        line.put([
            `./run ${file} --attn ${LAYER}.${HEAD} -n ${length} --kv f32 --rope ${methodFor(name, length)} -f key.txt`,
            [['key.txt', text]],
        ]);
    }
    const reading = runs({ engine, status, inputs: ['path', 'factor'], work: read, stale: () => reading.begin() });
    async function read(run) {
        const [name, length] = CASES[run.input.path],
            mine = now();
        if (known[mine]) return draw();
        status.say(`Reading ${count(length)} tokens …`);
        const hidden = { length, depth: DEPTH, key: KEY, layer: LAYER, head: HEAD };
        known[mine] = await run.ask('path', { model: 'model', method: methodFor(name, length), ...hidden });
        status.say('');
        return draw();
    }
    const cases = stateChips('where the key stands', 'path', [
        ['near', 'near, plain'],
        ['far', 'far back, plain'],
        ['yarn', 'far back, YaRN'],
    ]);
    const pictures = h(
        'div.three',
        h(
            'figure',
            h('figcaption', h('b', '1'), prose('The last [token] gives each token before it a score.')),
            scores,
        ),
        h(
            'figure',
            h('figcaption', h('b', '2'), prose('Scores become shares of [attention]: the highest take nearly all.')),
            shares,
        ),
        h('figure', h('figcaption', h('b', '3'), 'What was looked at decides which word comes next.'), words),
    );
    // The first case is read when it is seen for the first time.
    const seen = new IntersectionObserver(
        kept(([entry]) => {
            if (!entry.isIntersecting) return;
            seen.disconnect();
            if (!known[now()] && !reading.isOn()) reading.begin();
        }),
    );
    seen.observe(pictures);
    return {
        id: 'path',
        title: 'From score to word',
        body: [
            h(
                'p',
                'Five digits were hidden in a text, and its last line asks for them. One head searches. Gold is the key. Move it ' +
                    'further back than training went, and see what becomes of score, share and word:',
            ),
            cases,
            pictures,
            says,
            status,
            line,
        ],
    };
}
