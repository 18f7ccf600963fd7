// What is seen of handles: a stem and a dot for each pair, as high as the pair is slowed. They are painted, with a mouse or
// a finger; with the keyboard one is chosen
// and moved, and its height taken along.
import { scaleLog } from 'd3-scale';
import { pointer } from 'd3-selection';
import { attrs, drawing, elements, short } from '../dom.js';
import { kept } from '../place.js';

const HEIGHT = 150,
    LEFT = 34, // pixels, as of the bars and the clocks above
    LOWEST = 0.8;

/**
 * { box, draw }. All of these tell: `slow` how much each pair is slowed, `past` whose hand has passed its arc, `scale` by
 * how much the text is longer than trained, and `over` a list that is laid over as a curve, or null. `move` takes a new list.
 * @param {{ pairs: number, slow: () => number[], past: () => boolean[], scale: number, over: () => number[] | null,
 *     move: (slow: number[]) => void }} how
 */
export function handleBoard({ pairs, slow, past, scale, over, move }) {
    let chosen = pairs - 1,
        painted = null; // where the pointer was: { pair, value }
    const most = 2 * scale;
    const svg = attrs(drawing('handles', HEIGHT), {
        ...{ tabindex: 0, role: 'slider', 'aria-orientation': 'vertical' },
        'aria-label':
            'handles: left and right choose a pair, with Shift they take its height along; up and down slow it; Home and End are ' +
            'the first and last pair',
    });
    const [guides, laid, stems, dots] = Array.from({ length: 4 }, () => svg.append('g'));
    const y = scaleLog()
        .clamp(true)
        .domain([LOWEST, most])
        .range([HEIGHT - 12, 12]);
    let width = 600,
        isDrawn = false; // once, though it be hidden: then it has its parts and its name
    const step = () => (width - LEFT) / pairs,
        x = (i) => LEFT + (i + 0.5) * step();

    // A handle close to a line of its own snaps to it.
    const near = (v) =>
        Math.abs(Math.log(v)) < 0.05 ? 1 : Math.abs(Math.log(v / scale)) < 0.05 ? scale : +v.toPrecision(4);
    // Puts the handles from one pair to another on a line from value to value, in a logarithm.
    function put(from, to, before, value) {
        const list = [...slow()],
            way = Math.sign(to - from) || 1;
        for (let i = from; i !== to + way; i += way) {
            const share = from === to ? 1 : (i - from) / (to - from);
            list[i] = near(Math.min(most, Math.max(LOWEST, before * (value / before) ** share)));
        }
        move(list);
    }
    function paint(event) {
        const [px, py] = pointer(event, svg.node()),
            pair = Math.min(pairs - 1, Math.max(0, Math.floor((px - LEFT) / step()))),
            value = y.invert(py),
            from = painted ?? { pair, value };
        painted = { pair, value };
        chosen = pair;
        put(from.pair, pair, from.value, value);
    }
    svg.on('pointerdown', (event) => {
        svg.node().setPointerCapture(event.pointerId);
        painted = null;
        paint(event);
    })
        .on('pointermove', (event) => {
            if (event.buttons) paint(event);
        })
        .on('keydown', (event) => {
            const to = { ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: pairs - 1 }[event.key],
                by = { ArrowUp: 1.1, ArrowDown: 1 / 1.1, PageUp: 2, PageDown: 1 / 2 }[event.key];
            if (to === undefined && !by) return;
            event.preventDefault();
            const value = slow()[chosen] * (by ? (event.shiftKey ? by ** 4 : by) : 1),
                before = chosen;
            if (!by) chosen = Math.max(0, Math.min(pairs - 1, to));
            if (by || event.shiftKey) put(before, chosen, value, value);
            else draw();
        });

    function draw() {
        if (!width && isDrawn) return;
        isDrawn = true;
        const list = slow(),
            isPast = past(),
            shown = Array.from({ length: pairs }, (_, i) => i),
            curve = over();
        svg.attr('viewBox', `0 0 ${width} ${HEIGHT}`);
        elements(guides, 'line', [1, scale], { class: 'guide', x1: LEFT, x2: width, y1: y, y2: y });
        elements(guides, 'text', [1, scale], {
            ...{ x: LEFT - 6, y: (v) => y(v) + 4, 'text-anchor': 'end' },
            text: (v) => `${short(v)}×`,
        });
        const points = curve ? [shown.map((i) => `${x(i)},${y(curve[i])}`)] : [];
        elements(laid, 'path', points, { class: 'over', d: (all) => `M${all.join('L')}` });
        elements(stems, 'line', shown, { class: 'stem', x1: x, x2: x, y1: y(1), y2: (i) => y(list[i]) });
        elements(dots, 'circle', shown, {
            class: (i) => `dot${i === chosen ? ' chosen' : ''}${isPast[i] ? ' broken' : ''}`,
            r: Math.min(8, Math.max(3.5, step() / 3)),
            cx: x,
            cy: (i) => y(list[i]),
        });
        attrs(svg, {
            'aria-valuemin': LOWEST,
            'aria-valuemax': most,
            'aria-valuenow': +list[chosen].toPrecision(4),
            'aria-valuetext': `pair ${chosen}, slowed ${short(list[chosen])} times`,
        });
    }
    // Not of a board that another model's has replaced.
    const measure = kept(([entry]) => {
        width = entry.contentRect.width;
        draw();
    });
    new ResizeObserver(measure).observe(svg.node());
    return { box: svg.node(), draw };
}
