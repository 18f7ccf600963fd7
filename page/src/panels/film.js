// The first screen: one recorded text scrolls through the position where training ended, the clocks of a head beside it,
// and stops behind the word where it breaks: the first that the model itself gave less than one chance in ten thousand.
import { button, count, h, reducedMotion } from '../dom.js';
import { kept } from '../place.js';
import { markOf } from '../tints.js';
import { smallDials } from './dial.js';

const SPEED = 30, // tokens in a second
    REST_MS = 1400; // where training ended

// The text's token at so many milliseconds: it rests at the edge.
const tokenAt = (ms, before) => {
    const toEdge = (1000 * before) / SPEED;
    return Math.floor((SPEED * (ms < toEdge ? ms : Math.max(toEdge, ms - REST_MS))) / 1000);
};
const chance = (nll) => `1 in ${count(+Math.exp(nll).toPrecision(1))}`;

/** @param {{ recorded: any, shipped: { theta: number, headDim: number, trainedContext: number } }} context */
export function film({ recorded, shipped: { theta, headDim, trainedContext: L } }) {
    const { from, at, word, tokens } = recorded.first.film,
        pairs = headDim / 2,
        speeds = Array.from({ length: pairs }, (_, i) => theta ** ((-2 * i) / headDim)),
        dials = smallDials(pairs, L),
        position = h('b'),
        hands = h('span'),
        text = h('div'), // stands on the bottom of its box
        frameOf = h('div.film-text', { role: 'img', tabIndex: 0 }, text);
    const breaks = h('mark.breaks');
    const spans = tokens.map(([token, nll], i) => {
        const isWord = from + i >= at - word + 1 && from + i <= at;
        const span = h('span', token);
        if (from + i < L) span.className = 'given';
        else if (!isWord) span.className = markOf(nll);
        return span;
    });
    const label = h('small', chance(tokens[at - from][1]));
    const edge = h('span.film-edge', `${L}`);
    frameOf.ariaLabel = `A text that the model wrote past position ${L}, as it was trained. At ${count(at)} it writes a word that is none.`;

    let shown = 0; // tokens
    function show(n) {
        if (n < shown) {
            text.replaceChildren();
            breaks.replaceChildren();
            shown = 0;
        }
        for (; shown < Math.min(n, spans.length); shown++) {
            const place = from + shown;
            if (place === L) text.append(edge);
            if (place > at - word && place <= at) {
                if (!breaks.isConnected) text.append(breaks);
                breaks.append(spans[shown]);
            } else text.append(spans[shown]);
            if (place === at) breaks.append(label);
        }
        const here = from + shown - 1,
            strange = dials.put(speeds, speeds, here);
        position.textContent = count(here);
        hands.textContent = `${strange} of ${pairs} clocks where training never had them`;
        hands.className = strange ? 'strange' : '';
    }

    let began = 0, // when its first picture was due; 0: it rests
        done = 0; // milliseconds that were shown before
    const frame = kept((now) => {
        if (!began) return;
        show(reducedMotion() ? spans.length : Math.max(1, tokenAt(done + Math.max(0, now - began), L - from)));
        if (shown < spans.length) requestAnimationFrame(frame);
        else rest(true);
    });
    function play() {
        if (shown >= spans.length) done = 0;
        began = performance.now();
        go.textContent = 'Pause';
        requestAnimationFrame(frame);
    }
    function rest(isOver) {
        if (!isOver) done += performance.now() - began;
        began = 0;
        go.textContent = isOver ? 'Play again' : 'Play';
    }
    const go = button('Play', () => (began ? rest(false) : play()));
    if (reducedMotion()) {
        show(spans.length);
        rest(true);
    } else {
        show(L - from >> 1);
        play();
    }
    return {
        box: h('div.film', frameOf, h('div.film-side', h('p.film-at', h('small', 'position'), position), dials.box, hands)),
        go,
    };
}
