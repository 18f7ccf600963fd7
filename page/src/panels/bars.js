// What each pair gives to the key's score, a bar each, and below them what it comes to, beside the best of all other tokens.
import { drawing, fixed, h } from '../dom.js';

const HEIGHT = 92,
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
    const mine = meter('mine', 'all together, the score'),
        best = meter('best', 'the best other token’s');
    const totals = h('div.totals', mine.row, best.row),
        box = h('div.bars-of-pairs', svg.node(), totals);
    let most = 5, // of the axis, which never shrinks
        widest = 30,
        shown = null;

    function draw() {
        const width = svg.node().clientWidth || 600,
            { terms, score, rival, past } = shown ?? { terms: [], score: NaN, rival: NaN, past: [] };
        most = Math.max(most, Math.ceil(Math.max(0, ...terms.map(Math.abs))));
        widest = Math.max(widest, Math.ceil(Math.max(score || 0, rival || 0) / 10) * 10);
        const step = (width - LEFT) / pairs,
            y = (v) => HEIGHT / 2 - (v / most) * (HEIGHT / 2 - 4),
            scale = [most, -most];
        zero.attr('x1', LEFT).attr('x2', width).attr('y1', y(0)).attr('y2', y(0));
        ticks
            .selectAll('text')
            .data(scale)
            .join('text')
            .attr('x', LEFT - 6)
            .attr('text-anchor', 'end')
            .attr('y', (v) => y(v) + (v > 0 ? 9 : 0))
            .text((v) => (v > 0 ? `+${v}` : fixed(v, 0)));
        bars.selectAll('rect')
            .data(terms)
            .join('rect')
            .attr('class', (_, i) => (past[i] ? 'new' : ''))
            .attr('x', (_, i) => LEFT + i * step + step * 0.16)
            .attr('width', step * 0.68)
            .attr('y', (v) => y(Math.max(0, v)))
            .attr('height', (v) => Math.abs(y(v) - y(0)));
        bars.selectAll('rect')
            .selectAll('title')
            .data((v, i) => [`pair ${i}: ${fixed(v, 2)}`])
            .join('title')
            .text((words) => words);
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
                ? `what ${pairs} pairs give to the score of the key: ${fixed(score, 1)} in all, ${minus} of them less than ` +
                      `nothing; the best other token has ${fixed(rival, 1)}`
                : 'what each pair gives to the score: not measured yet',
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
