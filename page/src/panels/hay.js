// What is seen of a haystack: a bar with the key on it, to be dragged, how far the text is read, what a window sees, and
// where a head looks.
import { drag } from 'd3-drag';
import { scaleLinear } from 'd3-scale';
import { pointer } from 'd3-selection';
import { drawing } from '../dom.js';

const FINGER = 44, // pixels
    WEAKEST = 0.01; // share of a head's attention that is drawn

// { place, put, window }: `place` tells where the key stands, { share: of the text, depth: of the filler, digits }; `put`
// moves it to a share of the text, or by a share of the filler; `window` is the share that a window sees.
export function hayPicture({ place, put, nudge, window, trained }) {
    const svg = drawing('hay', 150);
    const x = scaleLinear().domain([0, 1]).clamp(true);
    const straw = svg.append('rect').attr('class', 'straw'),
        done = svg.append('rect').attr('class', 'read');
    const reach = svg.append('rect').attr('class', 'reach'),
        reachText = svg.append('text').attr('text-anchor', 'end').attr('y', 126);
    const arcs = svg.append('g'),
        arcText = svg.append('text').attr('x', 16).attr('y', 140).style('fill', 'var(--blue)');
    const pin = svg
        .append('g')
        .attr('class', 'needle')
        .attr('tabindex', 0)
        .attr('role', 'slider')
        .attr('aria-label', 'where the key is hidden')
        .attr('aria-valuemin', 0)
        .attr('aria-valuemax', 100);
    pin.append('circle')
        .attr('class', 'grip')
        .attr('r', FINGER / 2);
    pin.append('path').attr('d', 'M0 8L9 -6A10.8 10.8 0 1 0 -9 -6Z');
    pin.append('text').attr('text-anchor', 'middle').style('fill', 'var(--ink)').attr('y', -24);
    pin.call(
        drag()
            .container(svg.node())
            .on('drag', (event) => put(x.invert(event.x))),
    );
    pin.on('keydown', (event) => {
        const by = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        nudge(by);
    });
    straw.on('click', (event) => put(x.invert(pointer(event)[0])));

    // How much is read, and { layer, head, share, keys } of the head that looks at the key, of a text of `total` tokens.
    function draw({ read, look, total }) {
        const width = svg.node().clientWidth || 600,
            { share, depth, digits } = place();
        x.range([16, width - 16]);
        for (const bar of [straw, done, reach]) bar.attr('y', 92).attr('height', 18).attr('rx', 9);
        straw.attr('x', 16).attr('width', width - 32);
        done.attr('x', 16)
            .attr('width', (width - 32) * read)
            .attr('pointer-events', 'none');
        reach
            .attr('x', x(1 - window()))
            .attr('width', x(1) - x(1 - window()))
            .attr('pointer-events', 'none');
        reachText.attr('x', x(1)).text(`a window of ${trained} sees this much`);
        const percent = Math.round(100 * depth);
        pin.attr('transform', `translate(${x(share)},84)`)
            .attr('aria-valuenow', percent)
            .attr('aria-valuetext', `${percent} % into the text`);
        pin.select('text')
            .text(digits)
            .attr('dx', x(share) < 36 ? 14 : x(share) > width - 36 ? -14 : 0);
        drawArcs(look, total);
    }
    function drawArcs(look, total) {
        const from = x(1),
            height = (to) => 88 - Math.min(120, 16 + (from - to) * 0.3);
        arcs.selectAll('path')
            .data((look?.keys ?? []).filter(([, weight]) => weight > WEAKEST).map(([key, w]) => [x(key / total), w]))
            .join('path')
            .attr('class', 'arc')
            .attr('stroke-width', ([, weight]) => 1 + 7 * weight)
            .style('opacity', ([, weight]) => 0.25 + 0.75 * weight)
            .attr('d', ([to]) => `M${from} 88Q${(from + to) / 2} ${height(to)} ${to} 88`);
        arcText.text(
            look
                ? `layer ${look.layer}, head ${look.head}: ${Math.round(100 * look.share)} % of its attention is on the key`
                : '',
        );
    }
    return { node: svg.node(), draw };
}
