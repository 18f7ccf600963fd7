// Which hand breaks the head: for each, how much of its attention is on the number's sentence if that hand alone is slowed;
// and the clock of the one that brings most back, enlarged. page/record.py recorded it.
import { attrs, drawing, elements, h, percent } from '../dom.js';
import { TURN } from '../numbers.js';
import { clock } from './dial.js';

const HEIGHT = 40, // pixels, as in style.css
    WHOLE = 0.5, // from this share on nothing is lost
    LEFT = 34, // as of the bars and the clocks
    HELPS = 0.1; // share that a hand must bring back to be named as the one that does

/**
 * What is said of a stop, a sentence or two: it follows from the recorded shares alone.
 * @param {{ alone: number[], all: number, without: number }} light @param {number} share without any hand slowed
 * @param {{ times: number, turns: number, worst: number }} of the hand that brings most, and its turns from the mark
 */
export function tellHands({ alone, all, without }, share, { times, turns, worst }) {
    const best = alone[worst];
    if (share >= WHOLE) return 'Nothing is lost here: the light is on the sentence.';
    if (best - share < HELPS)
        return `No hand alone brings the light back. All slow ones together, turned ${times} times slower: ${percent(all)}.`;
    return (
        `Pair ${worst} alone, turned ${times} times slower, brings back ${percent(best)} of the light. ` +
        `All slow hands but this one: ${percent(without)}. It is ${turns.toFixed(2)} of a turn past the mark.`
    );
}

/**
 * { box, put }. `put` takes the recorded shares of a stop, the share without any hand slowed, the hands' speeds, the distance
 * and the trained length; or nothing, where nothing was recorded.
 * @param {number} pairs @param {number} times how much slower a hand turns that is slowed
 */
export function slowedHands(pairs, times) {
    const indices = Array.from({ length: pairs }, (_, i) => i),
        svg = drawing('alone', HEIGHT).attr('role', 'img').attr('aria-label', 'the light if one hand alone is slowed'),
        line = svg.append('line').attr('class', 'zero'),
        bars = elements(svg.append('g'), 'rect', indices, {}),
        titles = elements(bars, 'title', (i) => [i], {}),
        face = clock(),
        told = h('p.told-hands'),
        box = h(
            'div.hands-alone',
            h('p.fine', `How much of the light is on the sentence if this hand alone turns ${times} times slower.`),
            svg.node(),
            h('div.row.middle', h('div.worst-clock', face.svg), told),
        );
    face.svg.setAttribute('aria-hidden', 'true');
    let shown = null,
        width = 600;
    function draw() {
        box.hidden = !shown;
        if (!shown) return;
        const { light, share, speeds, d, trained } = shown,
            { alone } = light,
            worst = alone.indexOf(Math.max(...alone)),
            step = (width - LEFT) / pairs,
            tall = (i) => Math.max(1, alone[i] * (HEIGHT - 4)),
            isNamed = share < WHOLE && alone[worst] - share >= HELPS;
        attrs(line, { x1: LEFT, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 });
        attrs(bars, {
            x: (i) => LEFT + i * step + step * 0.16,
            width: step * 0.68,
            y: (i) => HEIGHT - tall(i),
            height: tall,
            class: (i) => (isNamed && i === worst ? 'worst' : ''),
        });
        titles.text((i) => `pair ${i}: ${percent(alone[i])}`);
        const angle = d * speeds[worst],
            words = tellHands(light, share, { times, worst, turns: (angle / TURN) % 1 });
        face.put(angle, trained * speeds[worst], angle > trained * speeds[worst]);
        face.svg.parentElement.hidden = !isNamed;
        told.textContent = words;
        svg.attr('aria-label', `the light on the sentence if one hand alone is slowed, of ${pairs} hands. ${words}`);
    }
    new ResizeObserver(([entry]) => {
        width = entry.contentRect.width || width;
        draw();
    }).observe(svg.node());
    return {
        box,
        put(next) {
            shown = next;
            draw();
        },
    };
}
