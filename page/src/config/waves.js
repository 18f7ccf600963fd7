// The wavelength of each pair, plain and as scaled, beside the trained length and the length that is wanted.
import { scaleLog } from 'd3-scale';
import { bands, count, drawing, elements, h, onceAFrame, short } from '../dom.js';
import { seenShare, TURN } from '../numbers.js';

const HEIGHT = 270,
    LEFT = 58, // room for the numbers of the axis
    SEEN = 0.98, // share of a pair's angles from which on they count as seen
    SQUARE = 5; // of a sliding layer's pair

const waveOf = (frequency) => TURN / frequency;

// What a dot says when it is pointed at.
const told = ({ plain, frequencies, trained }, share, i) =>
    `pair ${i}: wavelength ${short(waveOf(frequencies[i]), 4)} (plain ${short(waveOf(plain[i]), 4)}), ` +
    `${short((trained * plain[i]) / TURN)} turns in training, ${Math.round(share * 100)} % of its angles seen`;

// The scales of a picture that is so wide: pairs from left to right, waves upwards. A hand that never turns has no wavelength,
// and its dot is at the top.
function scalesOf({ plain, frequencies, sliding, want }, width) {
    const waves = [...plain, ...frequencies, ...sliding].map(waveOf).filter(isFinite);
    const high = Math.max(want * 2, ...waves);
    const x = bands()
        .domain(Array.from(plain, (_, i) => i))
        .range([LEFT, width - 8])
        .padding(0.3);
    const y = scaleLog()
        .domain([5, high * 1.4])
        .range([HEIGHT - 30, 10]);
    return { x, y, high, middle: (i) => x(i) + x.bandwidth() / 2 };
}

function drawPlain(group, { plain }, { y, high, middle }) {
    const cy = (f) => y(Math.min(high, waveOf(f)));
    elements(group, 'circle', Array.from(plain), { r: 2, cx: (_, i) => middle(i), cy, style: 'fill: var(--soft); opacity: 0.6' });
}

function drawScaled(group, picture, shares, { x, y, high, middle }) {
    const { frequencies, holds } = picture;
    const unseen = holds ? 'fill: var(--paper); stroke: var(--blue)' : 'fill: var(--never)';
    const circles = elements(group, 'circle', shares, {
        r: Math.min(5, Math.max(2.5, x.bandwidth() / 2.4)),
        cx: (_, i) => middle(i),
        cy: (_, i) => y(Math.min(high, waveOf(frequencies[i]))),
        style: (share) => (share >= SEEN ? 'fill: var(--blue)' : unseen),
    });
    elements(circles, 'title', (share, i) => [told(picture, share, i)], { text: String });
}

function drawSliding(group, { sliding }, { y, middle }) {
    elements(group, 'rect', sliding, {
        width: SQUARE,
        height: SQUARE,
        x: (_, i) => middle(i) - SQUARE / 2,
        y: (f) => y(waveOf(f)) - SQUARE / 2,
        style: 'fill: none; stroke: var(--soft)',
    });
}

// The two lengths as lines, with their names. Where the lines are close, the name of the trained one is below it.
function drawLengths(group, { trained, want }, width, { y }) {
    const below = want >= trained && want <= trained * 1.6;
    const rules = [
        { length: trained, name: `trained ${count(trained)}`, colour: 'var(--blue)', up: below ? -14 : 5 },
        {
            length: want,
            name: `wanted ${count(want)}`,
            colour: 'var(--vermillion)',
            ink: 'var(--vermillion-text)',
            up: 5,
        },
    ];
    const at = ({ length }) => y(length);
    elements(group, 'line', rules, {
        ...{ x1: LEFT, x2: width - 8, y1: at, y2: at, 'stroke-dasharray': '5 4' },
        style: ({ colour }) => `stroke: ${colour}`,
    });
    elements(group, 'text', rules, {
        x: LEFT + 6,
        y: ({ length, up }) => y(length) - up,
        text: ({ name }) => name,
        style: ({ colour, ink = colour }) => `fill: ${ink}`,
    });
}

function drawAxes(group, n, width, { y, high, middle }) {
    const ticks = [10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].filter((t) => t < high * 1.4);
    elements(group, 'text.y', ticks, {
        ...{ class: 'y', 'text-anchor': 'end', x: LEFT - 8, y: (t) => y(t) + 4 },
        text: (t) => (t >= 1e6 ? `${t / 1e6}M` : count(t)),
    });
    const every = Math.ceil(n / (width < 560 ? 8 : 16));
    const named = Array.from({ length: Math.ceil(n / every) }, (_, i) => i * every);
    elements(group, 'text.x', named, { class: 'x', 'text-anchor': 'middle', x: middle, y: HEIGHT - 8, text: String });
}

// { box, put }: the picture's place; and what is drawn there from now on, which is null for nothing, or the pairs'
// frequencies { plain, frequencies, sliding }, the lengths { trained, want }, `far`, below which all distances are, and
// whether the settings hold.
export function wavelengths() {
    const svg = drawing('bars', HEIGHT).attr('role', 'img');
    const [lengths, plainDots, dots, squares, axes] = Array.from({ length: 5 }, () => svg.append('g'));
    const box = h('div', svg.node());
    let picture = null;

    function draw() {
        const width = box.clientWidth || 600;
        svg.attr('width', width).attr('viewBox', `0 0 ${width} ${HEIGHT}`);
        if (!picture) return void svg.selectAll('g').selectAll('*').remove();
        const { plain, frequencies, trained, far } = picture;
        const shares = Array.from(frequencies, (f, i) => seenShare(plain[i], f, trained, far));
        const unseen = shares.filter((share) => share < SEEN).length;
        const scales = scalesOf(picture, width);
        svg.attr('aria-label', `wavelengths of ${plain.length} pairs; ${unseen} meet unseen angles`);
        drawPlain(plainDots, picture, scales);
        drawScaled(dots, picture, shares, scales);
        drawSliding(squares, picture, scales);
        drawLengths(lengths, picture, width, scales);
        drawAxes(axes, plain.length, width, scales);
    }
    const redraw = onceAFrame(draw);
    new ResizeObserver(redraw).observe(box);
    return {
        box,
        put(next) {
            picture = next;
            redraw();
        },
    };
}
