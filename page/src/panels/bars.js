// What each pair gives to the score of the number's token, a bar each, over outlines of what it gave close by; below them
// what it comes to, beside the best of all other tokens.
import { attrs, drawing, elements, fixed, h } from '../dom.js';

const HEIGHT = 92, // where the style has no other
    LEFT = 34; // pixels, as of the handles and the clocks

// { box, put }. `put` takes { terms, near, score, rival, word, past, isStale }: `near` are the terms close by, or null, `word`
// is the winner's elsewhere,
// `past` tells whose hand has passed its arc, and what is stale is of the angles alone, not measured; or nothing.
export function termBars(pairs) {
    const svg = drawing('terms', HEIGHT).attr('role', 'img'),
        zero = svg.append('line').attr('class', 'zero'),
        ticks = svg.append('g'),
        indices = Array.from({ length: pairs }, (_, i) => i),
        bars = elements(svg.append('g'), 'rect', indices, {}),
        titles = elements(bars, 'title', (i) => [i], {}),
        outlines = elements(svg.append('g'), 'rect', indices, { class: 'near' });
    const meter = (name, title) => {
        const level = h('i'),
            value = h('b');
        const label = h('span', title);
        return { row: h(`div.${name}`, label, h('span.track-of-sum', level), value), label, level, value };
    };
    const mine = meter('mine', 'sum: the number’s score'),
        best = meter('best', 'best score elsewhere');
    const totals = h('div.totals', mine.row, best.row),
        box = h('div.bars-of-pairs', svg.node(), totals);
    let most = 3, // of the axis, which never shrinks
        widest = 30,
        shown = null,
        width = 600,
        height = HEIGHT;

    const yOf = (v) => height / 2 - (v / most) * (height / 2 - 4);
    // Where a bar is, and as high as a term is.
    function place(rects, terms) {
        const step = (width - LEFT) / pairs,
            middle = yOf(0);
        rects.each(function put(i) {
            const end = terms ? yOf(terms[i]) : middle;
            this.setAttribute('x', (LEFT + i * step + step * 0.16).toFixed(2));
            this.setAttribute('width', (step * 0.68).toFixed(2));
            this.setAttribute('y', Math.min(middle, end).toFixed(2));
            this.setAttribute('height', Math.abs(end - middle).toFixed(2));
        });
    }
    function draw() {
        const {
            terms = null,
            near = null,
            score = NaN,
            rival = NaN,
            word = '',
            past = [],
            isStale = false,
        } = shown ?? {};
        most = Math.max(most, Math.ceil(Math.max(0, ...[...(terms ?? []), ...(near ?? [])].map(Math.abs))));
        widest = Math.max(widest, Math.ceil(Math.max(score || 0, rival || 0) / 10) * 10);
        attrs(zero, { x1: LEFT, x2: width, y1: yOf(0), y2: yOf(0) });
        elements(ticks, 'text', [most, -most], {
            ...{ x: LEFT - 6, y: (v) => yOf(v) + (v > 0 ? 9 : 0), 'text-anchor': 'end' },
            text: (v) => (v > 0 ? `+${v}` : fixed(v, 0)),
        });
        place(bars, terms);
        place(outlines, near);
        bars.attr('class', (i) => (past[i] ? 'new' : ''));
        titles.text((i) => (terms ? `pair ${i}: ${fixed(terms[i], 2)}` : ''));
        box.classList.toggle('stale', isStale);
        for (const [{ level, value }, x] of /** @type {[any, number][]} */ ([
            [mine, score],
            [best, rival],
        ])) {
            level.style.width = `${Math.max(0, Math.min(1, (x || 0) / widest)) * 100}%`;
            value.textContent = Number.isFinite(x) ? fixed(x, 1) : '…';
        }
        const label = word ? `best elsewhere: “${word}”` : 'best score elsewhere';
        if (best.label.textContent !== label) best.label.textContent = label;
        totals.classList.toggle('lost', rival > score);
        const minus = (terms ?? []).filter((v) => v < 0).length;
        svg.attr(
            'aria-label',
            terms
                ? `what ${pairs} pairs add to the number’s score: ${fixed(score, 1)} in total, ${minus} of them negative; the ` +
                      `best other token scores ${fixed(rival, 1)}`
                : 'what each pair adds to the score: not measured yet',
        );
    }
    new ResizeObserver(([entry]) => {
        width = entry.contentRect.width || width;
        height = entry.contentRect.height || height;
        draw();
    }).observe(svg.node());
    return {
        box,
        put(next) {
            shown = next?.terms ? next : null;
            draw();
        },
    };
}
