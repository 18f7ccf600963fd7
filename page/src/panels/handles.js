// What is seen of handles: a stem and a dot for each pair, as high as the pair is slowed. With a mouse they are painted,
// with the keyboard one is chosen and moved. A finger chooses a pair, and moves it in a strip where handles are as wide
// as a finger; anywhere else it scrolls the page.
import { drag } from 'd3-drag';
import { scaleLog } from 'd3-scale';
import { pointer } from 'd3-selection';
import { bands, button, drawing, h, short } from '../dom.js';

const HEIGHT = 230,
    FINGER = 44, // pixels
    SEEN_ENOUGH = 0.98;

// One picture of the handles of some pairs: `draw` puts it up to date, `at` tells what is at a point.
function picture(svg) {
    const [guides, laid, stems, dots, labels] = Array.from({ length: 5 }, () => svg.append('g'));
    const x = bands().padding(0.2),
        y = scaleLog().clamp(true);
    /**
     * @param {{ slow: number[], shares: number[], from: number, to: number, chosen: number, scale: number, most: number,
     *     width: number, words: any[][], over: number[] | null, knob?: boolean }} look
     */
    function draw({ slow, shares, from, to, chosen, scale, most, width, words, over, knob }) {
        const pairs = Array.from({ length: to - from }, (_, k) => from + k);
        svg.attr('width', width).attr('height', HEIGHT);
        x.domain(pairs).range([38, width - 6]);
        y.domain([0.8, Math.max(2.2, most)]).range([HEIGHT - 26, 12]);
        const cx = (i) => x(i) + x.bandwidth() / 2;
        const lines = scale > 1.01 ? [1, scale] : [1];
        guides
            .selectAll('line')
            .data(lines)
            .join('line')
            .attr('class', 'guide')
            .attr('x1', 36)
            .attr('x2', width)
            .attr('y1', (v) => y(v))
            .attr('y2', (v) => y(v));
        guides
            .selectAll('text')
            .data(lines)
            .join('text')
            .attr('x', 32)
            .attr('text-anchor', 'end')
            .attr('y', (v) => y(v) + 4)
            .text((v) => `${short(v)}×`);
        laid.selectAll('path')
            .data(over ? [pairs.map((i) => `${cx(i)},${y(over[i])}`)] : [])
            .join('path')
            .attr('class', 'over')
            .attr('d', (points) => `M${points.join('L')}`);
        stems
            .selectAll('line')
            .data(pairs)
            .join('line')
            .attr('class', 'stem')
            .attr('x1', cx)
            .attr('x2', cx)
            .attr('y1', y(1))
            .attr('y2', (i) => y(slow[i]));
        const dot = dots
            .selectAll('g')
            .data(pairs)
            .join((enter) => {
                const g = enter.append('g');
                g.append('circle').attr('class', 'grip');
                g.append('circle').attr('class', 'dot');
                return g;
            })
            .attr('class', (i) => (i === chosen ? 'handle chosen' : 'handle'))
            .attr('transform', (i) => `translate(${cx(i)},${y(slow[i])})`);
        dot.select('.grip').attr('r', knob ? FINGER / 2 : 0);
        dot.select('.dot')
            .attr('r', knob ? 11 : Math.min(8, Math.max(3.5, x.bandwidth() / 2)))
            .classed('broken', (i) => shares[i] < SEEN_ENOUGH);
        labels
            .selectAll('text')
            .data(words)
            .join('text')
            .attr('x', ([i]) => (i === 'left' ? 38 : i === 'right' ? width - 6 : cx(+i)))
            .attr('text-anchor', ([i]) => ({ left: 'start', right: 'end' })[i] ?? 'middle')
            .attr('y', HEIGHT - 6)
            .text(([, text]) => text);
        return dot;
    }
    const at = (event) => {
        const [px, py] = pointer(event, svg.node()),
            [first, last] = [x.domain()[0], x.domain().at(-1)];
        const pair = first + Math.floor((px - x.range()[0]) / x.step());
        return { pair: Math.min(last, Math.max(first, pair)), value: y.invert(py) };
    };
    return { draw, at, slowAt: (py) => y.invert(py) };
}

// { pairs, slow, shares, scale, most, over, move }: functions that tell how much each pair is slowed, what share of its
// angles was seen, by how much the text is longer than trained, the highest that a handle goes, and a list that is laid
// over as a curve, or null; `move` takes a new list.
export function handleBoard({ pairs, slow, shares, scale, most, over, move }) {
    let chosen = 0,
        painted = null, // the pair that the mouse was at
        first = 0, // of the strip
        byFinger = false;
    const svg = drawing('handles', HEIGHT)
        .attr('tabindex', 0)
        .attr('role', 'slider')
        .attr('aria-orientation', 'vertical')
        .attr('aria-label', 'handles: left and right choose a pair, up and down slow it');
    const board = picture(svg),
        close = drawing('knobs', HEIGHT).attr('aria-hidden', 'true'), // the same, for fingers
        strip = picture(close);
    const where = h('span.fine');
    const turn = (by) => () => {
        first += by * fitting();
        draw();
    };
    const box = h('div', svg.node()),
        zoom = h(
            'div.zoom',
            h(
                'div.row.middle',
                button('‹', turn(-1), { ariaLabel: 'pairs before' }),
                where,
                button('›', turn(1), { ariaLabel: 'pairs behind' }),
            ),
            close.node(),
        );

    const width = () => box.clientWidth || 600;
    const fitting = () => Math.max(3, Math.min(pairs, Math.floor((width() - FINGER) / (FINGER * 1.2))));
    const LOWEST = 0.8;
    // A handle close to a line of its own snaps to it.
    const near = (v) =>
        Math.abs(Math.log(v)) < 0.05 ? 1 : Math.abs(Math.log(v / scale())) < 0.05 ? scale() : +v.toPrecision(4);
    function put(from, to, value) {
        const list = [...slow()];
        for (let i = Math.min(from, to); i <= Math.max(from, to); i++)
            list[i] = near(Math.min(most(), Math.max(LOWEST, value)));
        move(list);
    }
    function paint(event) {
        const { pair, value } = board.at(event),
            from = painted ?? pair;
        painted = chosen = pair;
        put(from, pair, value);
    }
    svg.on('pointerdown', (event) => {
        byFinger = event.pointerType === 'touch';
        if (byFinger) return;
        svg.node().setPointerCapture(event.pointerId);
        painted = null;
        paint(event);
    })
        .on('pointermove', (event) => {
            if (event.buttons && !byFinger) paint(event);
        })
        .on('click', (event) => {
            if (!byFinger) return;
            chosen = board.at(event).pair;
            first = chosen - Math.floor(fitting() / 2);
            draw();
        })
        .on('keydown', (event) => {
            const aside = { ArrowLeft: -1, ArrowRight: 1 }[event.key],
                up = { ArrowUp: 1, ArrowDown: -1 }[event.key],
                far = { Home: LOWEST, End: most() }[event.key];
            if (!aside && !up && !far) return;
            event.preventDefault();
            if (aside) {
                chosen = Math.max(0, Math.min(pairs - 1, chosen + aside));
                draw();
            } else put(chosen, chosen, far ?? slow()[chosen] * (event.shiftKey ? 1.5 : 1.1) ** up);
        });
    const knobs = drag()
        .container(close.node())
        .on('drag', (event, pair) => {
            chosen = pair;
            put(pair, pair, strip.slowAt(event.y));
        });

    function draw() {
        const look = { slow: slow(), shares: shares(), chosen, scale: scale(), most: most(), over: over() };
        const ends = [
            ['left', 'fast hands'],
            ['right', 'slow hands'],
        ];
        board.draw({ ...look, from: 0, to: pairs, width: width(), words: ends });
        const many = fitting();
        first = Math.max(0, Math.min(pairs - many, first));
        const inside = Array.from({ length: many }, (_, k) => [first + k, String(first + k)]);
        strip.draw({ ...look, from: first, to: first + many, width: width(), words: inside, knob: true }).call(knobs);
        where.textContent = `pairs ${first} to ${first + many - 1} of ${pairs}`;
        svg.attr('aria-valuemin', LOWEST)
            .attr('aria-valuemax', +most().toPrecision(4))
            .attr('aria-valuenow', +slow()[chosen].toPrecision(4))
            .attr('aria-valuetext', `pair ${chosen}, slowed ${short(slow()[chosen])} times`);
    }
    return { body: h('div', box, zoom), box, draw };
}
