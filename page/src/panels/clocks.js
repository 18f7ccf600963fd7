// One clock for each pair of a head. A token is dragged, and the hands turn; two are dragged together, and their
// difference stays.
import { drag } from 'd3-drag';
import { scaleLinear } from 'd3-scale';
import { pointer } from 'd3-selection';
import { button, command, count, drawing, fact, fixed, h, onceAFrame, short, stateChips } from '../dom.js';
import { methodChoices, methodFor, SIX } from '../methods.js';
import { expectedScore, hasLeft } from '../numbers.js';
import { number, state } from '../state.js';
import { dial } from './dial.js';

export function clocks({ file, page, shipped }) {
    const L = shipped.trainedContext,
        pairs = shipped.headDim / 2,
        MOST = 4 * L;
    state.add('query', number(0, MOST), Math.round((900 / 512) * L));
    state.add('key', number(0, MOST), 0);
    const inOrder = () => state.get('key') > state.get('query') && state.set('key', state.get('query')); // an address may not be
    const dials = Array.from({ length: pairs }, (_, i) => dial(i, pairs, L));
    const method = stateChips('method', 'method', methodChoices(SIX));
    const numbers = h('div.numbers');
    const line = command();
    // A query sees no later token: the key stops at the query, and the query at the key.
    const limits = { key: () => [0, state.get('query')], query: () => [state.get('key'), MOST] };
    const put = (which, at) => {
        const [low, high] = limits[which]();
        state.set(which, Math.round(Math.min(high, Math.max(low, at))));
    };

    // The ruler with the two tokens and the band between, each to be dragged or moved with the arrow keys.
    const svg = drawing('ruler');
    const x = scaleLinear().domain([0, MOST]).clamp(true);
    const track = svg.append('rect').attr('class', 'track'),
        trained = svg.append('rect').attr('class', 'trained');
    const trainedText = svg.append('text').attr('y', 70);
    const band = svg
        .append('rect')
        .attr('class', 'band')
        .attr('tabindex', 0)
        .attr('role', 'slider')
        .attr('aria-label', 'both tokens together');
    const token = (key, name, colour) => {
        const g = svg
            .append('g')
            .attr('class', 'token')
            .attr('tabindex', 0)
            .attr('role', 'slider')
            .attr('aria-label', name)
            .attr('aria-valuemin', 0)
            .attr('aria-valuemax', MOST);
        g.append('circle').attr('class', 'grip').attr('r', 22).attr('cy', 30);
        g.append('circle').attr('r', 13).attr('cy', 30).style('fill', colour);
        g.append('text').attr('y', 8).attr('text-anchor', 'middle');
        g.call(
            drag()
                .container(svg.node())
                .on('drag', (event) => put(key, x.invert(event.x))),
        );
        g.on('keydown', (event) => keyed(event, (by) => put(key, state.get(key) + by)));
        return g;
    };
    function keyed(event, move) {
        const by = {
            ArrowLeft: -1,
            ArrowDown: -1,
            ArrowRight: 1,
            ArrowUp: 1,
            PageUp: 64,
            PageDown: -64,
            Home: -MOST,
            End: MOST,
        }[event.key];
        if (!by) return;
        event.preventDefault();
        move(by * (event.shiftKey ? 16 : 1));
    }
    function moveBoth(by) {
        const low = Math.min(state.get('query'), state.get('key')),
            high = Math.max(state.get('query'), state.get('key'));
        const step = Math.round(Math.max(-low, Math.min(MOST - high, by)));
        for (const which of step > 0 ? ['query', 'key'] : ['key', 'query']) put(which, state.get(which) + step);
    }
    let grip = null;
    band.call(
        drag()
            .container(svg.node())
            .on('start', (event) => {
                grip = { x: x.invert(event.x), at: state.get('query') };
            })
            .on('drag', (event) => moveBoth(grip.at + x.invert(event.x) - grip.x - state.get('query'))),
    );
    band.on('keydown', (event) => keyed(event, moveBoth));
    const key = token('key', 'a key: the token that is looked at', 'var(--gold)');
    const query = token('query', 'the query: the token that looks', 'var(--blue)');
    track.on('click', (event) => put('query', x.invert(pointer(event)[0])));

    function draw() {
        const width = svg.node().clientWidth || 600,
            at = state.get('query'),
            from = state.get('key'),
            d = Math.abs(at - from);
        x.range([14, width - 14]);
        track
            .attr('x', 14)
            .attr('width', width - 28)
            .attr('y', 22)
            .attr('height', 16)
            .attr('rx', 8);
        trained
            .attr('x', 14)
            .attr('width', x(L) - 14)
            .attr('y', 22)
            .attr('height', 16)
            .attr('rx', 8)
            .attr('pointer-events', 'none');
        trainedText.attr('x', x(L)).attr('text-anchor', 'middle').text(`trained: ${L}`);
        band.attr('x', x(Math.min(at, from)))
            .attr('width', Math.max(1, Math.abs(x(at) - x(from))))
            .attr('y', 18)
            .attr('height', 24)
            .attr('aria-valuenow', Math.min(at, from))
            .attr('aria-valuemin', 0)
            .attr('aria-valuemax', MOST);
        for (const [g, p, title] of [
            [query, at, 'query'],
            [key, from, 'key'],
        ]) {
            g.attr('transform', `translate(${x(p)},0)`).attr('aria-valuenow', p);
            g.select('text')
                .text(`${title} ${p}`)
                .attr('text-anchor', x(p) < 40 ? 'start' : x(p) > width - 40 ? 'end' : 'middle')
                .attr('dx', x(p) < 40 ? -12 : x(p) > width - 40 ? 12 : 0)
                .style('display', title === 'key' && Math.abs(x(at) - x(from)) < 74 ? 'none' : null);
        }
        const name = state.get('method');
        const { frequencies, plain, attention, scale } = page.plan(methodFor(name, MOST), MOST).frequencies(MOST);
        let strange = 0,
            left = 0;
        dials.forEach(({ put: turn }, i) => {
            strange += +turn({ speed: frequencies[i], plain: plain[i], from, to: at });
            left += +hasLeft(plain[i], L, d * frequencies[i]);
        });
        numbers.replaceChildren(
            fact(count(d), 'positions apart'),
            fact(`${strange} of ${pairs}`, 'hands where they never stood'),
            fact(fixed(expectedScore(frequencies, d, attention), 2), productIs(attention)),
            fact(`${left} of ${pairs}`, 'have been past their arc: some came round again'),
        );
        line.put(
            `./run ${file} --explain --rope ${methodFor(name, MOST)} -n ` +
                `${MOST}${name !== 'none' ? `   # factor ${short(scale)}` : ''}`,
        );
    }
    const redraw = onceAFrame(draw);
    const productIs = (attention) =>
        `mean of all pairs, each from −1 to 1: what a query and a key alike in all of them would score${attention === 1 ? '' : `, grown by YaRN's ${short(attention ** 2, 3)}`}`;

    inOrder();
    state.on(['query', 'key', 'method', 'factor'], () => {
        inOrder();
        redraw();
    });
    const box = h('div', svg.node());
    const dialRow = h(
        'div.dials',
        dials.map((d) => d.box),
    );
    const all = button(`all ${pairs} clocks`, () => {
        all.textContent = dialRow.classList.toggle('all') ? 'four clocks' : `all ${pairs} clocks`;
    });
    new ResizeObserver(redraw).observe(box);
    return {
        id: 'clocks',
        title: 'The clocks',
        body: [
            h(
                'p',
                'Each pair is a clock: a blue hand for the query, a dashed gold one for the key. A blue arc is what training ' +
                    'showed. Red is an angle that no weight was trained for.',
            ),
            box,
            numbers,
            dialRow,
            all,
            h(
                'p',
                'Drag the query and the key, or the band between the two: then all hands move, and nothing that attention ' +
                    'sees. Then slow them:',
            ),
            method,
            line,
        ],
    };
}
