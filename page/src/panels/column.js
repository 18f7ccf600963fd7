// A text as it grows, token by token, with what a reader of its last tokens did not expect marked.
import { count, h, onceAFrame } from '../dom.js';
import { colourOf, titleOf } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { SPAN } from '../reading.js';
import { markOf } from '../tints.js';

export const PICTURE_MS = 120; // between two pictures: laying out and painting long texts costs more than writing them
const FAR = 1e9;

// The text of a method, with a line where training ended.
export function column(name, edge) {
    const at = h('small'),
        scroll = h('div.scroll', { tabIndex: 0, ariaLabel: `text by ${titleOf(name)}` });
    const box = h('div.column', h('h3', titleOf(name), at), scroll);
    box.style.setProperty('--mine', colourOf(name));
    let position = 0, // of the next token
        first = Infinity, // that is judged
        nlls = [], // of the tokens from there on
        fresh = [];
    const spans = new Map(); // by position, of what was written
    let read = 0; // positions
    let follows = true; // the text's end, unless the reader has scrolled away from it
    scroll.onscroll = () => {
        follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    };
    const draw = () => {
        scroll.append(...fresh);
        fresh = [];
        const last = nlls.slice(-SPAN);
        at.textContent =
            (read ? `position ${count(read)}` : '') +
            (last.length > SPAN / 4 ? ` · perplexity ${perplexity(last, 0).toFixed(1)}` : '');
        if (follows) scroll.scrollTop = FAR; // beyond its end
    };
    const flush = onceAFrame(draw, PICTURE_MS);
    function mark(place, nll) {
        const part = spans.get(place);
        if (!part) return;
        part.className = markOf(nll);
        part.title = `position ${place}: -ln p = ${nll.toFixed(2)} to a reader of the last ${edge}`;
        first = Math.min(first, place);
        nlls.push(nll);
    }
    return Object.assign(box, {
        draw, // at once: the text stops for a while
        reset() {
            position = 0;
            first = Infinity;
            spans.clear();
            nlls = [];
            fresh = [];
            follows = true;
            scroll.replaceChildren();
            at.textContent = '';
        },
        // More tokens; or what a reader of the last ones makes of those that are there, from one place on.
        push({ tokens = [], position: now = read, from, nll }) {
            read = now;
            nll?.forEach((one, i) => mark(from + i, one));
            for (const token of tokens) {
                if (position === edge) fresh.push(h('div.edge', `position ${edge}: training ended here`));
                const part = h('span', token.text);
                if (token.given) part.className = 'given';
                else spans.set(position, part);
                fresh.push(part);
                position++;
            }
            flush();
        },
        curve: () => movingPerplexity(nlls, SPAN).map(([x, y]) => [x + first, y]),
        // The perplexity of what was written at positions from ... to.
        between: (from, to) => perplexity(nlls, from - first, to - first),
    });
}
