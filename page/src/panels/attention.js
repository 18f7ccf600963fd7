// Where a real head looks: a row for each query of a text, from the nearest token on the left to the furthest on the
// right. Up to 512 both pictures are alike; past it, plain RoPE looks where nothing was ever taught.
import { command, count, drawing, h, onceAFrame, rgb, stateChips, stateSlider, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, titleOf } from '../methods.js';
import { hasLeft } from '../numbers.js';
import { choice, number, state } from '../state.js';
import { prose } from '../terms.js';

const NAMES = ['none', 'yarn'];
const WHOLE = 0.34; // of a query's attention, which is drawn as the darkest

export function whereAHeadLooks({ engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        { bin, length, positions, characters, heads: known } = recorded.attention;
    const bins = Math.ceil(length / bin),
        edge = L / bin,
        heads = Object.keys(known),
        factor = Math.floor(length / L);
    state.add('looks', choice(heads), heads[0]);
    const past = positions.findIndex((position) => position > L),
        sum = (list) => list.reduce((a, b) => a + b, 0);
    // At first the row is marked that is most like all that are past the trained length.
    const shares = known[heads[0]].none.map(([, beyond]) => beyond),
        usual = sum(shares.slice(past)) / (shares.length - past);
    const off = (row) => (row < past ? 1 : Math.abs(shares[row] - usual));
    state.add(
        'row',
        number(0, positions.length - 1),
        shares.reduce((best, _, row) => (off(row) < off(best) ? row : best), 0),
    );
    const head = () => state.get('looks'),
        planned = (name) => (name === 'none' ? name : `${name}:factor=${factor}`);
    const measured = { none: [], yarn: [] }; // by method: a row's heads, as bins
    const status = statusLine(),
        line = command(),
        says = h('p.readout', { ariaLive: 'polite' });
    // What the chosen head does with one query: the weight on every so many distances, and the share beyond training.
    const of = (name, row) => {
        const [layer, one] = head().split('.'),
            here = measured[name][row]?.[layer][one];
        if (here) return { weights: here, beyond: sum(here.slice(edge)) };
        const [digits, beyond] = known[head()][name][row];
        return { weights: Array.from(digits, (digit) => (parseInt(digit, 36) / 35) ** 2), beyond };
    };

    const views = NAMES.map((name) => {
        const canvas = h('canvas', { width: bins, height: positions.length, role: 'img' });
        const over = drawing('over').attr('aria-hidden', 'true')
            .attr('preserveAspectRatio', 'none')
            .attr('viewBox', `0 0 ${bins} ${positions.length}`);
        over.append('line').attr('class', 'edge-line').attr('x1', edge).attr('x2', edge).attr('y2', positions.length);
        const mark = over.append('rect').attr('class', 'row-mark').attr('width', bins).attr('height', 1);
        const share = h('b'),
            mean = h('b'),
            bar = { near: h('i.near'), far: h('i.far') };
        const box = h('div.looks', canvas, over.node());
        const dot = h('i.dot');
        dot.style.background = colourOf(name);
        box.onpointermove = box.onpointerdown = (event) => {
            const area = box.getBoundingClientRect(),
                y = Math.floor(((event.clientY - area.top) / area.height) * positions.length);
            state.set('row', Math.max(0, Math.min(positions.length - 1, y)));
        };
        return {
            name,
            canvas,
            mark,
            share,
            mean,
            bar,
            figure: h(
                'figure',
                h(
                    'figcaption',
                    dot,
                    h('b', titleOf(name)),
                    ' ',
                    share,
                    ` of this row looks beyond ${L}; on average `,
                    mean,
                ),
                h('div.shares', bar.near, bar.far),
                box,
                h('div.axis-words', h('span', 'near'), h('span', `${L} back`), h('span', `${count(length)} back`)),
            ),
        };
    });

    function draw() {
        showCommands();
        const row = state.get('row'),
            [near, far, soft] = ['--blue', '--never', '--soft'].map(rgb);
        for (const { name, canvas, mark, share, mean, bar } of views) {
            const paint = canvas.getContext('2d'),
                image = paint.createImageData(bins, positions.length);
            positions.forEach((position, y) => {
                const { weights } = of(name, y);
                for (let x = 0; x * bin <= position; x++) {
                    const strength = Math.min(1, weights[x] / WHOLE) ** 0.45;
                    const at = 4 * (y * bins + x);
                    if (strength > 0.02) image.data.set([...(x < edge ? near : far), 20 + 235 * strength], at);
                    else image.data.set([...soft, 18], at);
                }
            });
            paint.putImageData(image, 0, 0);
            mark.attr('y', row);
            const { beyond } = of(name, row);
            share.textContent = `${Math.round(100 * beyond)} %`;
            const all = positions.map((_, y) => of(name, y).beyond).slice(past);
            mean.textContent = `${Math.round((100 * sum(all)) / all.length)} %`;
            bar.far.style.width = `${100 * beyond}%`;
            bar.near.style.width = `${100 * (1 - beyond)}%`;
            canvas.ariaLabel = `${titleOf(name)}, the query at ${positions[row]}: ${share.textContent} beyond ${L}`;
        }
        const lost = plain.filter((f) => hasLeft(f, L, positions[row] * f)).length;
        says.textContent =
            positions[row] < L
                ? `The query at ${count(positions[row])}: all distances are known from training.`
                : `The query at ${count(positions[row])}: of its first token, ${lost} of ${plain.length} hands stand ` +
                  'at angles that never came up in training.';
    }
    const plain = Array.from(page.plan('none', L).frequencies(L).plain);
    const redraw = onceAFrame(draw);

    // The weights of all heads for one query, in the recording's bins.
    const binned = (scores) => {
        const n = scores.length,
            max = scores.reduce((a, b) => Math.max(a, b)),
            out = Array(Math.ceil(n / bin)).fill(0);
        scores.forEach((s, j) => {
            out[Math.floor((n - 1 - j) / bin)] += Math.exp(s - max);
        });
        const all = sum(out);
        return out.map((weight) => weight / all);
    };
    const cut = (row) => {
        const words = book.slice(0, characters),
            end = Math.floor((words.length * (row + 1)) / positions.length);
        return words.slice(0, words.lastIndexOf(' ', end - 1));
    };
    const measuring = runs({
        engine,
        status,
        work: async (run) => {
            for (let row = positions.length - 1; row >= 0; row--) {
                status.say(`The query at ${count(positions[row])} …`);
                for (const name of NAMES) {
                    const { heads: all } = await run.ask('scores', {
                        model: 'model',
                        method: planned(name),
                        text: cut(row),
                        context: length,
                    });
                    measured[name][row] = all.map((layer) => layer.map(binned));
                }
                state.set('row', row);
                redraw();
            }
            status.say('Measured here, in this page.');
        },
    });
    const go = measuring.button(['Measure it here']);
    status.say('Recorded.');
    // The commands for the row that is marked, with the text up to it.
    const showCommands = () => {
        const name = 'row.txt',
            text = cut(state.get('row'));
        line.put(
            ...NAMES.map((method) => [
                `./run model.bin --attn ${head()} --rope ${planned(method)} -n ${length} --kv f32 -f ${name}`,
                [[name, text]],
            ]),
        );
    };
    const choices = stateChips(
        'head',
        'looks',
        heads.map((name) => [name, `layer ${name[0]}, head ${name[2]}`]),
    );
    state.on(['looks', 'row'], redraw);
    const rows = { min: 0, max: positions.length - 1, step: 1 },
        slider = stateSlider('which token looks', 'row', { ...rows, show: (row) => `position ${count(positions[row])}` });
    new ResizeObserver(redraw).observe(views[0].figure);
    return {
        id: 'attention',
        title: 'Where a head looks',
        body: [
            h(
                'p',
                prose(
                    'Each row is one [token] of a story; the story goes on from row to row. It looks back: near on the ' +
                        'left, far on the right. The darker, the more [attention] it pays.',
                ),
            ),
            h(
                'div.two.maps2',
                views.map(({ figure }) => figure),
            ),
            slider,
            says,
            h('div.row.middle', choices, go),
            status,
            line,
        ],
    };
}
