// The first picture: one opening, written on by the plain model and by YaRN, recorded; the line at 512; and what is left
// of both far behind it. The mark of a token is its surprise to one judge, the model that reads in a window.
import { count, h } from '../dom.js';
import { colourOf } from '../methods.js';
import { prose } from '../terms.js';

const MOST = 40, // tokens of an excerpt
    PER_TOKEN = 0.028; // seconds, when it types
const MARKED = [4.5, 6.5]; // -ln p from which a token is marked, and marked darkly

// An excerpt as it can be read: it begins and ends with whole words, but where it meets the line at 512.
function whole(all, isBefore, isBehind) {
    const tokens = isBefore ? all.slice(-MOST) : all.slice(0, MOST);
    const starts = ([text]) => /^\s+\p{L}/u.test(text);
    const from = isBehind ? 0 : tokens.findIndex(starts),
        to = tokens.findLastIndex(([text]) => (isBefore ? /\p{L}|\n/u : /^\s/).test(text));
    return tokens.slice(from, isBefore && tokens[to][0] !== '\n' ? to + 1 : to);
}

export function opening({ recorded, shipped }) {
    const { first } = recorded,
        edge = shipped.trainedContext;
    const shown = { none: 0, yarn: 0 }; // tokens behind the line, which appear one by one
    const part = (name, [from, to], tokens) => {
        const isBefore = to === edge,
            isBehind = from === edge;
        const spans = whole(tokens, isBefore, isBehind).map(([text, nll]) => {
            const token = h(nll >= MARKED[1] ? 'span.t5' : nll >= MARKED[0] ? 'span.t2' : 'span', text);
            if (!isBefore) token.style.animationDelay = `${(shown[name]++ * PER_TOKEN).toFixed(2)}s`;
            return token;
        });
        return h('p', isBehind ? '' : '… ', spans, isBefore ? '' : ' …');
    };
    const judged = (tokens) => Math.exp(tokens.reduce((sum, [, nll]) => sum + nll, 0) / tokens.length).toFixed(0);
    const rows = first.excerpts.flatMap((excerpt, i) => {
        const [from] = excerpt,
            texts = ['none', 'yarn'].map((name) => first[name][i]);
        const surprise = texts.map((tokens) => h('small', prose(`[perplexity] ${judged(tokens)}`)));
        const heads =
            i < 1
                ? []
                : i === 1
                  ? [h('div.edge.across', `position ${edge}: training ended here`)]
                  : surprise.map((words) => h('div.at', h('span', `position ${count(from)}`), words));
        return [...heads, part('none', excerpt, texts[0]), part('yarn', excerpt, texts[1])];
    });
    const name = (title, method) => {
        const head = h('h3', prose(title));
        head.style.setProperty('--mine', colourOf(method));
        return head;
    };
    return h('div.opening', name('as it was trained', 'none'), name('with [YaRN|yarn]', 'yarn'), rows);
}
