// A clock: the face of one pair of a head. Up is the key; the hand is how far the query has turned since. Shaded is the arc
// that training showed, and red what lies past it.
import { h } from '../dom.js';
import { hasLeft, TURN } from '../numbers.js';

const NS = 'http://www.w3.org/2000/svg';
const R = 10;

// The part of a face between two angles, from the top, clockwise.
function sector(from, to) {
    if (to - from >= TURN - 1e-9) return `M0 ${-R}A${R} ${R} 0 1 1 0 ${R}A${R} ${R} 0 1 1 0 ${-R}Z`;
    const at = (a) => `${(R * Math.sin(a)).toFixed(2)} ${(-R * Math.cos(a)).toFixed(2)}`;
    return to <= from ? '' : `M0 0L${at(from)}A${R} ${R} 0 ${to - from > Math.PI ? 1 : 0} 1 ${at(to)}Z`;
}

// One clock: { svg, put }.
export function clock() {
    const svg = document.createElementNS(NS, 'svg');
    svg.setAttribute('viewBox', '-12 -12 24 24');
    const add = (tag, name, attributes = {}) => {
        const part = svg.appendChild(document.createElementNS(NS, tag));
        part.setAttribute('class', name);
        for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
        return part;
    };
    add('circle', 'face', { r: R });
    const seen = add('path', 'seen'),
        strange = add('path', 'strange');
    add('line', 'key', { y1: -R - 1.5, y2: -R + 3 });
    const hand = add('line', 'query', { y2: -(R - 1.5) });
    let arc = NaN; // that is drawn
    return {
        svg,
        // The hand at an angle, NaN for none, past an arc of so much.
        put(angle, trained, isPast) {
            const end = Math.min(TURN, trained);
            if (arc !== end) seen.setAttribute('d', sector(0, (arc = end)));
            strange.setAttribute('d', isPast ? sector(end, Math.min(angle, TURN)) : '');
            hand.setAttribute('transform', `rotate(${(((angle || 0) * 360) / TURN).toFixed(2)})`);
            hand.toggleAttribute('hidden', Number.isNaN(angle));
            svg.setAttribute('class', isPast ? 'new' : '');
        },
    };
}

// All clocks of a head: { box, put }. `put` takes the speeds, the plain ones and a distance (NaN: the key is not seen, and
// there are no hands), and tells of each whether its hand has passed the arc that training showed.
export function clocks(pairs, trained) {
    const all = Array.from({ length: pairs }, clock),
        box = h(
            'div.clocks',
            { role: 'img' },
            all.map(({ svg }) => svg),
        );
    return {
        box,
        put(speeds, plain, distance) {
            const past = all.map(({ put }, i) => {
                const angle = distance * speeds[i],
                    isPast = hasLeft(plain[i], trained, angle);
                put(angle, trained * plain[i], isPast);
                return isPast;
            });
            const many = past.filter(Boolean).length,
                label = Number.isNaN(distance)
                    ? `${pairs} clocks without hands: the sentence is not seen`
                    : `${pairs} clocks; ${many} hands are past the arc that they covered in training`;
            if (box.ariaLabel !== label) box.ariaLabel = label;
            return past;
        },
    };
}
