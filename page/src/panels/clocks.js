// One dial for each pair of a head, four of them large. The clocks play by themselves, until they are touched: the query
// goes from 0 past the trained context, and slow hands leave the arcs that training showed. Then a token is dragged, and
// the hands turn; two are dragged together, and their difference stays.
import { drag } from 'd3-drag';
import { scaleLinear } from 'd3-scale';
import { pointer } from 'd3-selection';
import {
    button,
    command,
    count,
    drawing,
    fact,
    fixed,
    h,
    onceAFrame,
    reducedMotion,
    short,
    stateChips,
} from '../dom.js';
import { methodChoices, methodFor, SIX } from '../methods.js';
import { expectedScore, hasLeft, isSeen, TURN } from '../numbers.js';
import { kept } from '../place.js';
import { number, state } from '../state.js';

const NS = 'http://www.w3.org/2000/svg';
const R = 26;
// Pairs that are always shown, of 32; of another number those as far along.
const LARGE = { 0: 'fast', 10: 'middle', 18: 'slow', 31: 'slowest' };

const shortTurns = (t) =>
    t === 0 ? '0' : t < 0.01 ? '< 0.01' : t < 1 ? t.toFixed(2) : t < 10 ? t.toFixed(1) : count(t);

// The film: positions, in trained contexts, by milliseconds. It rests where training ended.
const FILM = [
    [0, 0],
    [5000, 1],
    [7000, 1],
    [13000, 4],
];
function filmAt(ms) {
    const next = FILM.findIndex(([time]) => ms < time);
    if (next < 0) return FILM.at(-1)[1];
    const [[t0, p0], [t1, p1]] = [FILM[next - 1], FILM[next]];
    return p0 + ((p1 - p0) * (ms - t0)) / (t1 - t0);
}

// The part of a dial between two angles, from the top, clockwise.
function sector(from, to, radius = R) {
    if (to - from >= TURN - 1e-9)
        return `M0 ${-radius}A${radius} ${radius} 0 1 1 0 ${radius}A${radius} ${radius} 0 1 1 0 ${-radius}Z`;
    const sweep = to - from,
        end = from + sweep;
    const at = (a) => `${(radius * Math.sin(a)).toFixed(2)} ${(-radius * Math.cos(a)).toFixed(2)}`;
    return sweep <= 0 ? '' : `M0 0L${at(from)}A${radius} ${radius} 0 ${sweep > Math.PI ? 1 : 0} 1 ${at(end)}Z`;
}

function dial(i, pairs) {
    const large = Object.entries(LARGE).find(([of32]) => Math.round((+of32 / 31) * (pairs - 1)) === i)?.[1];
    const svg = document.createElementNS(NS, 'svg');
    svg.setAttribute('viewBox', '-31 -31 62 62');
    svg.setAttribute('aria-hidden', 'true');
    const add = (tag, name) => {
        const part = svg.appendChild(document.createElementNS(NS, tag));
        part.setAttribute('class', name);
        return part;
    };
    add('circle', 'back').setAttribute('r', R);
    const parts = { seen: add('path', 'seen'), strange: add('path', 'strange'), between: add('path', 'between') };
    add('circle', 'face').setAttribute('r', R);
    for (const hand of ['key', 'query']) parts[hand] = add('line', hand);
    const turns = h('span');
    const name = large ? [h('b', large), ` pair ${i}`] : [`pair ${i}`];
    const box = h(large ? 'div.dial.large' : 'div.dial', svg, name, h('br'), turns);
    const turn = (hand, angle) => {
        parts[hand].setAttribute('x2', (R - 4) * Math.sin(angle));
        parts[hand].setAttribute('y2', -(R - 4) * Math.cos(angle));
    };
    return { box, parts, turn, turns };
}

export function clocks({ file, page, shipped }) {
    const L = shipped.trainedContext,
        pairs = shipped.headDim / 2,
        MOST = 4 * L;
    const still = Math.round((900 / 512) * L); // what those see who want no motion
    state.add('query', number(0, MOST), still);
    state.add('key', number(0, MOST), 0);
    const inOrder = () => state.get('key') > state.get('query') && state.set('key', state.get('query')); // an address may not be
    const dials = Array.from({ length: pairs }, (_, i) => dial(i, pairs));
    const method = stateChips('method', 'method', methodChoices(SIX));
    const numbers = h('div.numbers', { ariaLive: 'polite' });
    const line = command(),
        caption = h('p.film');
    let played = null, // the position that the film shows in the query's place
        ended = -1; // where it left the query; what it said there stays until the query moves
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
            at = played ?? state.get('query'),
            from = played === null ? state.get('key') : 0,
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
        dials.forEach(({ box, parts, turn, turns }, i) => {
            const seen = Math.min(TURN, plain[i] * L),
                angle = d * frequencies[i],
                isNew = !isSeen(plain[i], L, angle);
            strange += +isNew;
            left += +hasLeft(plain[i], L, angle);
            turn('query', at * frequencies[i]);
            turn('key', from * frequencies[i]);
            const base = from * frequencies[i]; // what was seen is seen of differences
            parts.seen.setAttribute('d', sector(base, base + seen));
            parts.strange.setAttribute(
                'd',
                isNew ? sector(base + seen, base + (angle % TURN)) : '',
            );
            const rest = angle % TURN;
            parts.between.setAttribute(
                'd',
                from ? sector(base, base + rest, 11) : '',
            );
            box.classList.toggle('new', isNew);
            turns.textContent = `${shortTurns((d * frequencies[i]) / TURN)} turns`;
        });
        if (played !== null) caption.textContent = told(d, strange, left);
        else if (at !== ended) caption.textContent = '';
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
    const told = (d, strange, left) =>
        d < L
            ? 'The query walks away from a key at 0. Every angle so far is one that training showed.'
            : d === L
              ? `${count(L)}: training ended here. The slow hands stand at the end of their blue arcs.`
              : `Past ${count(L)}: ${strange} of ${pairs} hands point where they never pointed` +
                (left > strange ? `; ${left - strange} did, and came round into their arc again.` : '.');
    const productIs = (attention) =>
        `mean of all pairs, each from −1 to 1: what a query and a key alike in all of them would score${attention === 1 ? '' : `, grown by YaRN's ${short(attention ** 2, 3)}`}`;

    // ---- the film

    let began = 0, // when the film's first picture was due; 0: it does not play
        isOver = false; // it has been seen, or stopped by the reader
    const frame = kept((now) => {
        if (!began) return;
        const ms = Math.max(0, now - began); // a picture may be due before the press that began it
        played = Math.round(L * filmAt(ms));
        draw();
        if (ms < FILM.at(-1)[0]) requestAnimationFrame(frame);
        else stop();
    });
    function play() {
        state.set('key', 0);
        watch.textContent = 'Stop';
        began = performance.now();
        requestAnimationFrame(frame);
    }
    // The reader takes over where the film is.
    function stop() {
        if (!began) return;
        began = 0;
        isOver = true;
        ended = played ?? 0;
        watch.textContent = 'Play it again';
        played = null;
        put('query', ended);
        draw();
    }
    const watch = button('Play', () => (began ? stop() : play()));
    inOrder();
    state.on(['query', 'key', 'method', 'factor'], () => {
        inOrder();
        if (began) return;
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
    // It begins when it is seen for the first time, but not for those who want no motion or come by a link.
    const isLinked = state.get('query') !== still || state.get('key') !== 0;
    const seen = new IntersectionObserver(
        kept(([entry]) => {
            if (!entry.isIntersecting || isOver || began || reducedMotion() || isLinked) return;
            seen.disconnect();
            play();
        }),
        { threshold: 0.9 },
    );
    seen.observe(dialRow);
    for (const part of [box, dialRow, method])
        for (const touch of ['pointerdown', 'keydown', 'focusin']) part.addEventListener(touch, () => stop());
    return {
        id: 'clocks',
        title: 'The clocks',
        body: [
            h(
                'p',
                'Each pair is a clock: a blue hand for the query, a dashed gold one for the key. A blue arc is what training ' +
                    'showed. Red is an angle that no weight was trained for.',
            ),
            h('div.row.middle', watch, caption),
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
