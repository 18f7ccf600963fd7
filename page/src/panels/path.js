// From score to share to next word, for the head that searches and one key: near, far back by plain RoPE, and far back by
// YaRN. The axes stay, so that what moves is the key.
import { chart } from '../chart.js';
import { command, count, h, stateChips, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { methodFor, optionsFor } from '../methods.js';
import { highest, sharesOf } from '../numbers.js';
import { kept } from '../place.js';
import { choice, state } from '../state.js';
import { prose } from '../terms.js';

const KEY = '73914',
    DEPTH = 0.25,
    WORDS = 5; // that are shown

// Bars of the words that are likeliest to come next; those with which the key begins are gold.
function wordBars() {
    const rows = Array.from({ length: WORDS }, () => {
        const name = h('b'),
            bar = h('i'),
            value = h('small');
        return { row: h('div', name, h('span', bar), value), name, bar, value };
    });
    const box = h(
        'div.chances',
        { role: 'img', ariaLabel: 'the words that are likeliest to come next' },
        h('p.fine', 'next word: probability, %'),
        rows.map(({ row }) => row),
    );
    return {
        box,
        put(words, key) {
            rows.forEach(({ row, name, bar, value }, i) => {
                const { text = '', p = 0 } = words[i] ?? {};
                name.textContent = text;
                bar.style.width = `${100 * p}%`;
                value.textContent = (100 * p).toFixed(p < 0.1 ? 1 : 0);
                row.className = text && key.startsWith(text) ? 'right' : '';
            });
            box.ariaLabel = `likeliest to come next: ${words
                .slice(0, WORDS)
                .map(({ text, p }) => `${text} ${Math.round(100 * p)} %`)
                .join(', ')}`;
        },
    };
}

export function fromScoreToWord({ engine, file, shipped }) {
    const L = shipped.trainedContext,
        MOST = 4 * L,
        CASES = { near: ['none', L], far: ['none', MOST], mended: ['yarn', MOST] };
    state.add('path', choice(Object.keys(CASES)), 'near');
    const status = statusLine(),
        line = command(),
        says = h('p.told', { ariaLive: 'polite' });
    const known = {}; // by case and factor, what the worker found
    const now = () => `${state.get('path')} ${state.get('factor')}`;

    const small = (label, y, show) =>
        chart({
            label,
            height: 210,
            x: { domain: [0, MOST], label: 'tokens back', name: 'tokens back' },
            y,
            rule: { at: L, text: 'never in training' },
            show,
        });
    const scores = small('Score of each token by its distance', { label: 'score', domain: [-20, 30] }, (v) =>
            v.toFixed(1),
        ),
        shares = small(
            'Share of attention by distance',
            { label: 'share of attention, %', domain: [0, 102] },
            (v) => `${v.toFixed(1)} %`,
        );
    const words = wordBars();

    function draw() {
        const found = known[now()];
        if (!found) return;
        const { n, from, to, layer, head, share, answer } = found,
            all = Array.from(found.scores),
            parts = sharesOf(all),
            low = Math.min(...all),
            high = Math.max(...all);
        scores.widen([low, high]);
        for (const [plot, values] of [
            [scores, all],
            [shares, parts],
        ]) {
            plot.set('others', highest(values, from, to), { colour: 'var(--grey)', title: 'other tokens' });
            plot.set(
                'key',
                Array.from({ length: to - from }, (_, i) => [n - 1 - from - i, values[from + i]]),
                { colour: 'var(--gold)', title: 'the key' },
            );
        }
        words.put(found.words, KEY);
        says.textContent =
            `The key ${KEY} stands ${count(n - from)} tokens back. Head ${head} of layer ${layer} gives it ` +
            `${(100 * share).toFixed(0)} % of its attention. The model answers “${answer}”` +
            `${answer === KEY ? ': found.' : ': not found.'}`;
        showCommand(found);
    }
    function showCommand({ text, layer, head }) {
        const [name, length] = CASES[state.get('path')],
            [[options, files]] = optionsFor([name], length),
            saved = [['key.txt', text], ...files],
            how = `-n ${length} --kv f32 ${options} -f key.txt`;
        line.put(
            [`./run ${file} --attn ${layer}.${head} ${how}`, saved],
            [`./run ${file} -t 0 ${how}`, saved],
        );
    }
    const reading = runs({ engine, status, inputs: ['path', 'factor'], work: read, stale: () => reading.begin() });
    async function read(run) {
        const [name, length] = CASES[run.input.path],
            mine = now();
        if (known[mine]) return draw();
        status.say(`Reading ${count(length)} tokens …`);
        const hidden = { length, depth: DEPTH, key: KEY };
        known[mine] = await run.ask('path', { model: 'model', method: methodFor(name, length), ...hidden });
        status.say('');
        return draw();
    }
    const cases = stateChips('where the key stands', 'path', [
        ['near', 'near, plain'],
        ['far', 'far back, plain'],
        ['mended', 'far back, YaRN'],
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
        h('figure', h('figcaption', h('b', '3'), 'What was looked at decides which word comes next.'), words.box),
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
