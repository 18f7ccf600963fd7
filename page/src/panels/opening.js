// The first picture: one beginning, as long as training was, written on by the model as it was trained and with YaRN,
// recorded. Below the line at 512 stand excerpts, each with the perplexity of its stretch. The mark of a token is its
// surprise to one judge for both, the model that reads in a window.
import { count, h } from '../dom.js';
import { colourOf } from '../methods.js';
import { prose } from '../terms.js';
import { markOf } from '../tints.js';

const MOST = 32, // tokens of an excerpt
    NAMES = ['none', 'yarn'],
    PER_TOKEN = 0.028; // seconds, when it types

// An excerpt that begins and ends with whole words; behind the line it begins with what comes first.
function whole(all, isBehind) {
    const tokens = all.slice(0, MOST),
        starts = ([text]) => /^\s+\p{L}/u.test(text);
    return tokens.slice(
        isBehind ? 0 : tokens.findIndex(starts),
        tokens.findLastIndex(([text]) => /^\s/.test(text)),
    );
}

export function opening({ recorded, shipped }) {
    const { given, excerpts, stretches, ...of } = recorded.first,
        edge = shipped.trainedContext,
        typed = { none: 0, yarn: 0 }; // tokens, which appear one by one
    const part = (name, i) => {
        const isBehind = excerpts[i][0] === edge;
        const appear = (one) => {
            one.style.animationDelay = `${(typed[name]++ * PER_TOKEN).toFixed(2)}s`;
            return one;
        };
        const spans = whole(of[name].excerpts[i], isBehind).map(([text, nll]) => {
            const mark = markOf(nll);
            return appear(h(mark ? `span.${mark}` : 'span', text));
        });
        return h('p', isBehind ? '' : appear(h('span', '… ')), spans, appear(h('span', ' …')));
    };
    const judged = (ppl) => h('span.ppl', prose('[perplexity] '), h('b', ppl.toFixed(ppl < 10 ? 1 : 0)));
    const rows = excerpts.flatMap((_, i) => [
        ...NAMES.map((name) => h('div.at', h('span', stretches[i].map(count).join(' to ')), judged(of[name].ppl[i]))),
        ...NAMES.map((name) => part(name, i)),
    ]);
    const name = (title, method) => {
        const head = h('h3', prose(title));
        head.style.setProperty('--mine', colourOf(method));
        return head;
    };
    const from = given.text.search(/\s\p{L}/u);
    return h(
        'div.opening',
        h('div.at.across', h('span', `one beginning for both, by a person: 0 to ${edge}`), judged(given.ppl)),
        h('p.across', `… ${given.text.slice(from + 1)}`),
        h('div.edge.across', `position ${edge}: training ended here`),
        h(
            'div.gradual.across',
            `It comes gradually. Right behind ${edge} only a few tokens are further back than training ever showed, and a text ` +
                'that the model writes itself surprises it less than a person’s. At 2,000 most are.',
        ),
        name('goes on as it was trained', 'none'),
        name('goes on with [YaRN|yarn]', 'yarn'),
        rows,
    );
}
