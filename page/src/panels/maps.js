// Distance maps. Not the speed of the hands is changed, but the distance that they turn by.
import { chart } from '../chart.js';
import { command, count, counts, h, onceAFrame, rgb, short, stateChips } from '../dom.js';
import { colourOf } from '../methods.js';
import { choice, number, state } from '../state.js';

const CELLS = 96;

export function distances({ file, page, shipped }) {
    const L = shipped.trainedContext,
        maps = page.maps();
    state.add('map', choice(['none', ...maps.map((map) => map.name)]), maps[0]?.name ?? 'none');
    state.add('length-of-map', number(2 * L, 16 * L), 4 * L);
    const line = command(),
        says = h('p.readout', { ariaLive: 'polite' }),
        about = h('p.fine');
    const canvas = h('canvas.map', {
        tabIndex: 0,
        role: 'img',
        ariaLabel: 'the distance that every query and key turn by',
    });
    const plot = chart({
        label: 'The distance that a query and a key turn by',
        height: 260,
        x: { domain: [0, state.get('length-of-map')], label: 'how far apart they are, i − j', name: 'apart' },
        y: { label: 'the distance that they turn by, D', domain: [0, state.get('length-of-map')] },
        level: { at: L, text: 'never seen above' },
        show: (v) => short(v, 4),
    });
    let at = [CELLS - 1, 0];
    const place = (k) => Math.round(((k + 0.5) * state.get('length-of-map')) / CELLS);

    function draw() {
        const n = state.get('length-of-map'),
            name = state.get('map'),
            plan = page.plan(name, n);
        canvas.width = canvas.height = CELLS;
        const paint = canvas.getContext('2d'),
            image = paint.createImageData(CELLS, CELLS);
        const near = rgb('--blue'),
            far = rgb('--never');
        let unseen = 0,
            pairs = 0;
        for (let r = 0; r < CELLS; r++)
            for (let c = 0; c <= r; c++) {
                const d = plan.distance(place(r), place(c));
                if (d < 0) continue;
                pairs++;
                unseen += +(d >= L);
                const colour = d < L ? near : far,
                    alpha = d < L ? 40 + (215 * d) / L : 120 + 135 * Math.min(1, d / n);
                image.data.set([...colour, alpha], 4 * (r * CELLS + c));
            }
        // The same for one query, by the distance of its keys: where it does not see one the line breaks.
        const query = place(at[0]),
            byDistance = Array.from({ length: 257 }, (_, k) => Math.round((k * query) / 256)).map((d) => {
                const turned = plan.distance(query, query - d);
                return [d, turned < 0 ? NaN : turned];
            });
        plot.change({ x: { domain: [0, n] }, y: { domain: [0, name === 'none' ? n : 2 * L] } });
        const alike = [
            [0, 0],
            [query, query],
        ];
        plot.set('none', alike, { colour: 'var(--soft)', dash: '2 3', title: 'plain' });
        plot.set('map', byDistance, { colour: colourOf(name), title: name === 'none' ? '' : name });
        paint.putImageData(image, 0, 0);
        paint.strokeStyle = getComputedStyle(canvas).color;
        paint.strokeRect(at[1] + 0.5, at[0] + 0.5, 1, 1);
        const [i, j] = [place(at[0]), place(at[1])],
            d = j > i ? null : plan.distance(i, j);
        says.textContent =
            d === null
                ? 'A query sees no later key.'
                : `Query ${count(i)}, key ${count(j)}: ${count(i - j)} apart, ` +
                  `${d < 0 ? 'not seen' : `turned by ${short(d, 5)}${d >= L ? ', which was never seen' : ''}`}.`;
        const map = maps.find((m) => m.name === name);
        about.textContent = map
            ? `${map.name}: ${map.summary} (${map.source}). ` +
              (unseen
                  ? `${Math.round((100 * unseen) / pairs)} % of what is seen is at unseen distances.`
                  : 'No distance is new.')
            : `Plain: ${Math.round((100 * unseen) / pairs)} % of all pairs are at distances that training never ` +
              `showed.`;
        line.put(`./run ${file} --ppl book.txt -n ${n} --kv f32 --rope none,window${map ? `,${map.name}` : ''}`);
    }
    const redraw = onceAFrame(draw);
    canvas.onpointermove = (event) => {
        const box = canvas.getBoundingClientRect();
        at = [
            Math.min(CELLS - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * CELLS))),
            Math.min(CELLS - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * CELLS))),
        ];
        redraw();
    };
    canvas.onkeydown = (event) => {
        const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        if (!by) return;
        event.preventDefault();
        at = at.map((v, k) => Math.min(CELLS - 1, Math.max(0, v + by[k] * (event.shiftKey ? 8 : 1))));
        redraw();
    };
    const chosen = stateChips('distance map', 'map', [
        ['none', 'plain'],
        ...maps.map((m) => [m.name, m.name, m.summary]),
    ]);
    const lengths = stateChips('length', 'length-of-map', counts([2 * L, 4 * L, 8 * L, 16 * L]));
    state.on(['map', 'length-of-map'], redraw);
    redraw();
    return {
        id: 'maps',
        title: 'Distances',
        body: [
            h(
                'p',
                'Leave the hands alone, and lie about the distance. A row is a query, a column a key. Blue distances ' +
                    'were seen in training, red ones never.',
            ),
            chosen,
            lengths,
            h('div.two', h('div', canvas, says), plot),
            about,
            line,
        ],
    };
}
