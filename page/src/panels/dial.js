// A clock: the face of one pair, the arc that training showed of it, and what lies past it. And many of them, small.
import { h } from '../dom.js';
import { isSeen, TURN } from '../numbers.js';

const NS = 'http://www.w3.org/2000/svg';
const R = 26,
    SMALL = 9;
// Pairs that are always shown, of 32; of another number those as far along.
const LARGE = { 0: 'fast', 10: 'middle', 18: 'slow', 31: 'slowest' };

export const shortTurns = (t) =>
    t === 0 ? '0' : t < 0.01 ? '< 0.01' : t < 1 ? t.toFixed(2) : t < 10 ? t.toFixed(1) : String(Math.round(t));

// What a large clock is called; undefined: pair i of so many is none.
export const nameOfLarge = (i, pairs) =>
    Object.entries(LARGE).find(([of32]) => Math.round((+of32 / 31) * (pairs - 1)) === i)?.[1];

// The part of a dial between two angles, from the top, clockwise.
export function sector(from, to, radius = R) {
    if (to - from >= TURN - 1e-9)
        return `M0 ${-radius}A${radius} ${radius} 0 1 1 0 ${radius}A${radius} ${radius} 0 1 1 0 ${-radius}Z`;
    const sweep = to - from,
        end = from + sweep;
    const at = (a) => `${(radius * Math.sin(a)).toFixed(2)} ${(-radius * Math.cos(a)).toFixed(2)}`;
    return sweep <= 0 ? '' : `M0 0L${at(from)}A${radius} ${radius} 0 ${sweep > Math.PI ? 1 : 0} 1 ${at(end)}Z`;
}

function face(half) {
    const svg = document.createElementNS(NS, 'svg');
    svg.setAttribute('viewBox', `${-half} ${-half} ${2 * half} ${2 * half}`);
    svg.setAttribute('aria-hidden', 'true');
    const add = (tag, name) => {
        const part = svg.appendChild(document.createElementNS(NS, tag));
        part.setAttribute('class', name);
        return part;
    };
    return { svg, add };
}
const turnTo = (hand, angle, radius) => {
    hand.setAttribute('x2', radius * Math.sin(angle));
    hand.setAttribute('y2', -radius * Math.cos(angle));
};

// The clock of pair i: { box, put }. `put` takes the pair's speed, its plain one, and where key and query stand; it tells
// whether the query's hand stands where training never had it.
export function dial(i, pairs, trained) {
    const large = nameOfLarge(i, pairs),
        { svg, add } = face(31);
    add('circle', 'back').setAttribute('r', R);
    const parts = { seen: add('path', 'seen'), strange: add('path', 'strange'), between: add('path', 'between') };
    add('circle', 'face').setAttribute('r', R);
    for (const hand of ['key', 'query']) parts[hand] = add('line', hand);
    const turns = h('span'),
        name = h('span.name', large && h('b', large), `${large ? ' ' : ''}pair ${i}`),
        box = h(large ? 'div.dial.large' : 'div.dial', svg, name, h('br'), turns);
    return {
        box,
        put({ speed, plain, from, to }) {
            const seen = Math.min(TURN, plain * trained),
                angle = (to - from) * speed,
                rest = angle % TURN,
                base = from * speed, // what was seen is seen of differences
                isNew = !isSeen(plain, trained, angle);
            turnTo(parts.query, to * speed, R - 4);
            turnTo(parts.key, base, R - 4);
            parts.seen.setAttribute('d', sector(base, base + seen));
            parts.strange.setAttribute('d', isNew ? sector(base + seen, base + rest) : '');
            parts.between.setAttribute('d', from ? sector(base, base + rest, 11) : '');
            box.classList.toggle('new', isNew);
            turns.textContent = `${shortTurns(angle / TURN)} turns`;
            return isNew;
        },
    };
}

// All clocks of a head, as small as can be: { box, put }. `put` takes the speeds, the plain ones and a distance, and tells
// how many stand where training never had them.
export function smallDials(pairs, trained) {
    const all = Array.from({ length: pairs }, () => {
        const { svg, add } = face(SMALL + 1.5);
        add('circle', 'rim').setAttribute('r', SMALL);
        return { svg, hand: add('line', 'hand') };
    });
    const box = h(
        'div.small-dials',
        { role: 'img' },
        all.map(({ svg }) => svg),
    );
    return {
        box,
        put(speeds, plain, distance) {
            let strange = 0;
            all.forEach(({ svg, hand }, i) => {
                const angle = distance * speeds[i],
                    isNew = !isSeen(plain[i], trained, angle);
                turnTo(hand, angle, SMALL - 1.5);
                svg.setAttribute('class', isNew ? 'new' : '');
                strange += +isNew;
            });
            box.ariaLabel = `${pairs} clocks, ${strange} of them where training never had them`;
            return strange;
        },
    };
}
