// The text as a ribbon, which is the track of the slider: from its beginning at the left to the question at the right, lit
// where a head looks. Below it the words that matter: the gold sentence, the sentence of the winner elsewhere, the question.
import { count, h, percent } from '../dom.js';
import { wordAt } from '../words.js';

const THUMB = 44, // pixels, as in style.css
    TRACK = 34,
    LEADERS = 16, // below the track: lines from the places of words in the text to the words
    SEEN = 0.01; // weight from which on the winner is worth a word

// Words of a text's tokens [from, to), each shaded by what a head gives it.
function shaded(tokens, from, to, weightAt) {
    const words = [];
    for (let i = from; i < to;) {
        const { to: next } = wordAt(tokens, i),
            end = Math.min(next, to);
        let weight = 0;
        for (let k = i; k < end; k++) weight += weightAt(k);
        const word = h('span', tokens.slice(i, end).join('').trim());
        word.style.setProperty('--light', `${Math.round(100 * Math.min(1, weight) ** 0.6)}%`);
        words.push(word, ' ');
        i = end;
    }
    return words;
}

/**
 * { track, words, put }: the track, which lies below the slider `pull`, and the words below it. `put` takes what was found,
 * see `path` of the worker, the text's tokens, the places of the gold sentence in it, [from, to), and the distance at which
 * that is drawn, which may be on its way. `least` and `most` are the ends of the slider, as distances.
 * @param {{ pull: HTMLInputElement, trained: number, least: number, most: number }} how
 */
export function ribbon({ pull, trained, least, most }) {
    const canvas = h('canvas', { role: 'img' }),
        track = h('div.track', canvas, pull),
        column = (name) => {
            const words = h('p'),
                caption = h('small');
            return { box: h(`div.${name}`, words, caption), words, caption };
        };
    const gold = column('gold'),
        rival = column('rival'),
        asks = column('asks'),
        words = h('div.ribbon', gold.box, rival.box, asks.box);
    let shown = null;

    // The slider is narrower than the ribbon, so that its thumb is where the gold sentence is. What is measured and read of
    // the style sheet is kept: a picture has to be quick.
    let width = 600,
        middles = { gold: 0, rival: 0, asks: 0 },
        colours = {};
    function places() {
        const share = least / (most - least),
            right = Math.max(0, (share * (width - THUMB) - THUMB / 2) / (1 + share)),
            perToken = (width - right - THUMB) / (most - least);
        return { right, x: (distance) => width - right - THUMB / 2 - (distance - least) * perToken };
    }

    // Lights of the track, and lines from there to the words.
    function paint() {
        const { x } = places(),
            scale = devicePixelRatio || 1,
            brush = canvas.getContext('2d');
        if (!brush) return;
        brush.setTransform(scale, 0, 0, scale, 0, 0);
        brush.clearRect(0, 0, width, TRACK + LEADERS);
        const edge = x(trained);
        brush.save();
        brush.beginPath();
        brush.roundRect(0, 0, width, TRACK, 8);
        brush.clip();
        brush.fillStyle = colour('--past-edge');
        brush.fillRect(0, 0, edge, TRACK);
        brush.fillStyle = colour('--seen');
        brush.fillRect(edge, 0, width - edge, TRACK);
        brush.restore();
        brush.fillStyle = colour('--blue');
        brush.fillRect(edge - 1, 0, 2, TRACK);
        if (!shown) return;
        const { found, d, from, to } = shown,
            isGold = (distance) => found.n - 1 - distance >= from && found.n - 1 - distance < to;
        brush.globalAlpha = found.isStale ? 0.4 : 1;
        for (const [distance, weight] of found.looks) {
            if (isGold(distance)) continue; // the thumb glows
            const high = Math.max(3, TRACK * Math.min(1, weight) ** 0.5);
            brush.fillStyle = colour('--vermillion');
            brush.fillRect(x(distance) - 1.5, TRACK - high, 3, high);
        }
        brush.globalAlpha = 1;
        const line = (middle, at, name) => {
            brush.strokeStyle = colour(name);
            brush.lineWidth = 1.5;
            brush.beginPath();
            brush.moveTo(at, TRACK);
            brush.bezierCurveTo(at, TRACK + 10, middle, TRACK + 6, middle, TRACK + LEADERS);
            brush.stroke();
        };
        line(middles.gold, x(d), '--gold');
        if (rival.caption.textContent) line(middles.rival, x(found.rivalAt), '--vermillion');
        if (middles.asks > 0) line(middles.asks, x(0), '--blue');
    }
    function measure() {
        const scale = devicePixelRatio || 1,
            left = track.getBoundingClientRect().x,
            middle = ({ box }) => {
                const its = box.getBoundingClientRect();
                return its.width ? its.x - left + Math.min(its.width / 2, 60) : 0;
            };
        width = track.clientWidth || width;
        middles = { gold: middle(gold), rival: middle(rival), asks: middle(asks) };
        colours = {};
        pull.style.width = `${width - places().right}px`;
        canvas.width = width * scale;
        canvas.height = (TRACK + LEADERS) * scale;
        paint();
    }
    const colour = (name) => (colours[name] ??= getComputedStyle(track).getPropertyValue(name));
    new ResizeObserver(measure).observe(track);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', measure);

    // The sentence around a token.
    function sentenceAt(tokens, i) {
        const isStop = (k) => tokens[k].trim().endsWith('.');
        let from = i,
            to = i;
        while (from > 0 && !isStop(from - 1)) from--;
        while (to < tokens.length - 1 && !isStop(to)) to++;
        return [from, to + 1];
    }

    let wordsOf = null; // what they were last made of
    function write() {
        const { found, tokens, from, to } = shown;
        if (wordsOf === (found.of ?? found)) return;
        wordsOf = found.of ?? found;
        const weights = new Map(found.looks.map(([distance, weight]) => [found.n - 1 - distance, weight])),
            weightAt = (i) => weights.get(i) ?? 0,
            at = found.n - 1 - found.rivalAt,
            { word } = wordAt(tokens, at),
            isLit = found.itsWord >= SEEN,
            [a, b] = isLit ? sentenceAt(tokens, at) : [to, to + 10];
        gold.words.replaceChildren(...shaded(tokens, from, to, weightAt));
        gold.caption.textContent = `${count(found.d)} back, ${percent(found.share)}`;
        rival.words.replaceChildren(
            '… ',
            ...shaded(tokens, a, Math.min(b, tokens.length), isLit ? weightAt : () => 0),
            '…',
        );
        rival.caption.textContent = !isLit
            ? ''
            : found.everywhere > 1.3 * found.itsWord
              ? `“${word}” everywhere, ${percent(found.everywhere)}`
              : `“${word}”, ${count(found.rivalAt)} back, ${percent(found.itsWord)}`;
        const ends = tokens.findLastIndex((token) => token.trim().endsWith('.'));
        asks.words.textContent = tokens
            .slice(ends + 1)
            .join('')
            .trim();
        canvas.ariaLabel =
            `The text. Of the gold sentence, ${count(found.d)} tokens back, the head sees ${percent(found.share)}` +
            (isLit ? `; of “${word}”, ${count(found.rivalAt)} tokens back, ${percent(found.itsWord)}.` : '.');
    }
    // Nothing is known, or told: neither words nor light of what was drawn last.
    function clear() {
        if (!wordsOf) return;
        wordsOf = null;
        for (const { words: its, caption } of [gold, rival, asks]) {
            its.replaceChildren();
            caption.textContent = '';
        }
        canvas.ariaLabel = 'The text.';
    }
    return {
        track,
        words,
        put(found, tokens, [from, to], d) {
            shown = found && { found, tokens, from, to, d };
            if (shown) write();
            else clear();
            track.style.setProperty('--glow', `${Math.round(100 * (found?.share ?? 0) ** 0.6)}%`);
            words.classList.toggle('stale', !!found?.isStale);
            paint();
        },
    };
}
