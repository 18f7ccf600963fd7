// What RoPE is, in two pictures: an arrow that is turned by its position; two of them, whose product knows the distance
// alone. Below them the formula, its parts in the pictures' colours; the clocks of the scene are its pairs.
import { scaleLinear } from 'd3-scale';
import { line } from 'd3-shape';
import { attrs, button, drawing, elements, fixed, h, onceAFrame, stateSlider } from '../dom.js';
import { TURN } from '../numbers.js';
import { number, state } from '../state.js';
import { prose } from '../terms.js';

const WORDS = 'The pass key is 73914. Remember it. What is the pass key? The pass key is'.split(' '); // the scene's, without its middle
const SPEED = 0.42, // radians per position, of the one pair that the first two pictures have
    LAST = WORDS.length - 1,
    FAR = 40, // distances in the curves
    R = 84;

const tip = (angle, radius = R) => [radius * Math.sin(angle), -radius * Math.cos(angle)];

// A plane with a circle, in which arrows are drawn.
function plane(label) {
    const svg = drawing('plane').attr('viewBox', '-100 -100 200 200').attr('role', 'img').attr('aria-label', label);
    svg.append('circle').attr('class', 'rim').attr('r', R);
    svg.append('line').attr('class', 'cross').attr('x1', -R).attr('x2', R);
    svg.append('line').attr('class', 'cross').attr('y1', -R).attr('y2', R);
    return svg;
}
function arrow(svg, name, part) {
    const g = svg.append('g').attr('class', `arrow ${name}`).attr('data-part', part);
    g.append('line').attr('y2', -R + 8);
    g.append('path').attr('d', `M0 ${-R}L-6.5 ${-R + 13}L6.5 ${-R + 13}Z`);
    return { turn: (angle) => g.attr('transform', `rotate(${(angle * 360) / TURN})`), g };
}
// The part of a circle between two angles.
function wedge(from, to, radius) {
    const [a, b] = [from, to].sort((x, y) => x - y),
        big = (b - a) % TURN > Math.PI ? 1 : 0;
    if (b - a < 1e-6) return '';
    return `M0 0L${tip(a, radius)}A${radius} ${radius} 0 ${big} 1 ${tip(b, radius)}Z`;
}
// A curve by distance with a dot where we are.
function curve(label, low) {
    const WIDE = 200,
        HIGH = 62;
    const svg = attrs(drawing('by-distance'), { viewBox: `0 0 ${WIDE} ${HIGH + 16}`, role: 'img', 'aria-label': label });
    const x = scaleLinear([0, FAR], [4, WIDE - 4]),
        y = scaleLinear([low, 1], [HIGH, 4]);
    attrs(svg.append('line'), { class: 'cross', x1: 4, x2: WIDE - 4, y1: y(0), y2: y(0) });
    const path = svg.append('path').attr('class', 'wave'),
        stem = svg.append('line').attr('class', 'stem'),
        dot = svg.append('circle').attr('r', 4.5);
    attrs(svg.append('text'), { x: WIDE - 4, y: HIGH + 13, 'text-anchor': 'end', text: 'distance m − n →' });
    return {
        node: svg.node(),
        put(at, distance) {
            const steps = Array.from({ length: 161 }, (_, k) => (k * FAR) / 160);
            path.attr('d', line()(steps.map((d) => [x(d), y(at(d))])));
            attrs(dot, { cx: x(distance), cy: y(at(distance)) });
            attrs(stem, { x1: x(distance), x2: x(distance), y1: y(0), y2: y(at(distance)) });
        },
    };
}

// The formula's parts: what is shown, the picture's colour, and what it means.
const PARTS = {
    score: ['score', 'How well a query fits a key: their dot product. Attention goes by it.'],
    sum: ['Σ', 'All pairs of a head add up: a clock each, in the scene.'],
    a: ['a', 'How long the two arrows of a pair are. The words decide it; positions do not change it.'],
    m: ['m', 'The position of the query.'],
    n: ['n', 'The position of the key. Only the difference counts.'],
    f: ['f', 'The speed of pair i: how far it turns from one position to the next.'],
    phi: ['φ', 'The angle between the two arrows before they are turned. The words decide it, too.'],
    theta: ['θ', 'The base, 10,000 in this model. The larger it is, the slower the slow pairs.'],
    i: ['−2i/d', 'Pair 0 is the fastest. Each of the 32 is a quarter slower than the one before. d is 64.'],
};

export function whatRopeIs() {
    state.add('m', number(0, LAST), LAST);
    state.add('k', number(0, LAST), WORDS.indexOf('73914.'));
    const words = h(
        'div.words',
        { role: 'group', ariaLabel: 'the query is at' },
        WORDS.map((word, at) =>
            h('button', { type: 'button', onclick: () => state.set('m', at) }, word, h('small', String(at))),
        ),
    );

    const one = plane('an arrow turned by its position');
    const trail = one.append('g').attr('class', 'trail'),
        swept = one.append('path').attr('class', 'swept').attr('data-part', 'f');
    const single = arrow(one, 'query', 'm'),
        oneText = h('p.readout');

    const two = plane('a query and a key, both turned, and the angle between them');
    const between = two.append('path').attr('class', 'between');
    const key = arrow(two, 'key', 'n'),
        query = arrow(two, 'query', 'm');
    const twoText = h('p.readout', { ariaLive: 'polite' }),
        product = curve('the product of the two by their distance', -1);

    const both = (by) => {
        const step = Math.max(-state.get('k'), Math.min(LAST - state.get('m'), by));
        state.set('k', state.get('k') + step);
        state.set('m', state.get('m') + step);
    };
    // A query sees no later key: one pushes the other along.
    state.on('m', (m) => state.get('k') > m && state.set('k', m));
    state.on('k', (n) => state.get('m') < n && state.set('m', n));
    const control = (label, name) => stateSlider(label, name, { min: 0, max: LAST, step: 1, show: String });

    function draw() {
        const m = state.get('m'),
            n = state.get('k'),
            d = m - n;
        [...words.children].forEach((word, at) => {
            word.className = at === m ? 'query' : at === n ? 'key' : '';
            word.setAttribute('aria-pressed', at === m);
        });
        const before = Array.from({ length: m }, (_, p) => tip(p * SPEED, R - 6));
        elements(trail, 'line', before, { x2: ([x]) => x, y2: ([, y]) => y });
        swept.attr('d', m ? wedge((m - 1) * SPEED, m * SPEED, R) : '');
        single.turn(m * SPEED);
        oneText.textContent = `“${WORDS[m]}” is at ${m}: turned ${m} times by the same angle.`;
        query.turn(m * SPEED);
        key.turn(n * SPEED);
        between.attr('d', wedge(n * SPEED, m * SPEED, 30));
        const fits = Math.cos(d * SPEED);
        product.put((x) => Math.cos(x * SPEED), d);
        twoText.textContent = `${d} apart: product ${fixed(fits, 2)}`;
    }
    const redraw = onceAFrame(draw);
    state.on(['m', 'k'], redraw);
    redraw();

    // The formula: a part that is pressed, or pointed at, lights up in the pictures.
    const means = h('p.means', { ariaLive: 'polite' }, 'Touch a part of the formula.');
    const part = (name) =>
        h(
            `button.part.${name}`,
            { type: 'button', onclick: () => light(name), onmouseenter: () => light(name), onfocus: () => light(name) },
            PARTS[name][0],
            name === 'a' || name === 'phi' || name === 'f' ? h('sub', 'i') : null,
        );
    const sup = (name) => h('sup', part(name));
    const formula = h(
        'div.formula',
        h(
            'p',
            part('score'),
            ' = ',
            part('sum'),
            ' ',
            part('a'),
            ' cos( (',
            part('m'),
            ' − ',
            part('n'),
            ') · ',
            part('f'),
            ' + ',
            part('phi'),
            ' )',
        ),
        h('p', part('f'), ' = ', part('theta'), sup('i')),
    );
    const light = (name) => {
        pictures.dataset.lit = name;
        means.textContent = PARTS[name][1];
        for (const each of formula.querySelectorAll('.part'))
            each.classList.toggle('on', each.classList.contains(name));
    };
    formula.onmouseleave = () => delete pictures.dataset.lit;

    const pictures = h(
        'div.pictures',
        h(
            'figure',
            h('figcaption', h('b', '1'), prose('A [token] becomes a list of numbers. Two of them make an arrow.')),
            one.node(),
            oneText,
        ),
        h(
            'figure',
            h(
                'figcaption',
                h('b', '2'),
                prose('A [query] and a [key] turn at one speed. Their product depends on the distance alone.'),
            ),
            two.node(),
            twoText,
            product.node,
            h(
                'div.row.middle',
                button('◂', () => both(-1), { ariaLabel: 'both one back' }),
                'move both',
                button('▸', () => both(1), { ariaLabel: 'both one on' }),
            ),
        ),
    );
    return {
        id: 'arrows',
        title: 'An arrow, turned by its position',
        body: [
            h(
                'p',
                prose(
                    'Attention compares two tokens by a dot product, which does not know where they are. *Rotary position ' +
                        'embedding* (RoPE) tells it: it turns every arrow by its [position]. A clock is the angle between two.',
                ),
            ),
            words,
            h('div.row', control('query at m', 'm'), control('key at n', 'k')),
            pictures,
            formula,
            means,
        ],
    };
}
