// What each pair gives to the key's score, a bar each, and below them what it comes to, beside the best of all other tokens.
import { attrs, drawing, elements, fixed, h } from '../dom.js';

const HEIGHT = 92, // where the style has no other
    LEFT = 34; // pixels, as of the handles and the clocks

// { box, put }. `put` takes { terms, score, rival, past }, of which `past` tells whose hand has passed its arc; or nothing.
export function termBars(pairs) {
    const svg = drawing('terms', HEIGHT).attr('role', 'img'),
        zero = svg.append('line').attr('class', 'zero'),
        ticks = svg.append('g'),
        bars = svg.append('g');
    const meter = (name, title) => {
        const level = h('i'),
            value = h('b');
        return { row: h(`div.${name}`, h('span', title), h('span.track', level), value), level, value };
    };
    const mine = meter('mine', 'sum: the key’s score'),
        best = meter('best', 'best score elsewhere');
    const totals = h('div.totals', mine.row, best.row),
        box = h('div.bars-of-pairs', svg.node(), totals);
    let most = 5, // of the axis, which never shrinks
        widest = 30,
        shown = null;

    function draw() {
        const width = svg.node().clientWidth || 600,
            height = svg.node().clientHeight || HEIGHT,
            { terms, score, rival, past } = shown ?? { terms: [], score: NaN, rival: NaN, past: [] };
        most = Math.max(most, Math.ceil(Math.max(0, ...terms.map(Math.abs))));
        widest = Math.max(widest, Math.ceil(Math.max(score || 0, rival || 0) / 10) * 10);
        const step = (width - LEFT) / pairs,
            y = (v) => height / 2 - (v / most) * (height / 2 - 4),
            scale = [most, -most];
        attrs(zero, { x1: LEFT, x2: width, y1: y(0), y2: y(0) });
        elements(ticks, 'text', scale, {
            ...{ x: LEFT - 6, y: (v) => y(v) + (v > 0 ? 9 : 0), 'text-anchor': 'end' },
            text: (v) => (v > 0 ? `+${v}` : fixed(v, 0)),
        });
        const all = elements(bars, 'rect', terms, {
            class: (_, i) => (past[i] ? 'new' : ''),
            x: (_, i) => LEFT + i * step + step * 0.16,
            y: (v) => y(Math.max(0, v)),
            width: step * 0.68,
            height: (v) => Math.abs(y(v) - y(0)),
        });
        elements(all, 'title', (v, i) => [`pair ${i}: ${fixed(v, 2)}`], { text: String });
        for (const [{ level, value }, x] of [
            [mine, score],
            [best, rival],
        ]) {
            level.style.width = `${Math.max(0, Math.min(1, (x || 0) / widest)) * 100}%`;
            value.textContent = Number.isFinite(x) ? fixed(x, 1) : '…';
        }
        totals.classList.toggle('lost', rival > score);
        const minus = terms.filter((v) => v < 0).length;
        svg.attr(
            'aria-label',
            terms.length
                ? `what ${pairs} pairs add to the key’s score: ${fixed(score, 1)} in total, ${minus} of them negative; the ` +
                      `best other token scores ${fixed(rival, 1)}`
                : 'what each pair adds to the score: not measured yet',
        );
    }
    new ResizeObserver(draw).observe(svg.node());
    return {
        box,
        put(next) {
            shown = next?.terms ? next : null;
            draw();
        },
    };
}
