// A text that breaks: one beginning, as long as training was, written on by the model as it was trained and with YaRN,
// recorded. Below the line at 512 stand excerpts, each with the perplexity of its stretch. The mark of a token is its
// surprise to one judge for both, the model that reads in a window.
import { command, count, folded, h } from '../dom.js';
import { colourOf } from '../methods.js';
import { prose } from '../terms.js';
import { markOf } from '../tints.js';
import { writes } from './writing.js';

const MOST = 32, // tokens of an excerpt
    NAMES = ['none', 'yarn'];

// An excerpt that begins and ends with whole words; behind the line it begins with what comes first.
function whole(all, isBehind) {
    const tokens = all.slice(0, MOST),
        starts = ([text]) => /^\s+\p{L}/u.test(text);
    return tokens.slice(
        isBehind ? 0 : tokens.findIndex(starts),
        tokens.findLastIndex(([text]) => /^\s/.test(text)),
    );
}

// { id, title, body } of the panel. What stands there was recorded of the model that ships.
export function theText({ recorded, own }) {
    const { given, excerpts, stretches, ...of } = recorded.first,
        edge = 512; // where its training ended
    const part = (name, i) => {
        const isBehind = excerpts[i][0] === edge;
        const spans = whole(of[name].excerpts[i], isBehind).map(([text, nll]) => {
            const mark = markOf(nll);
            return h(mark ? `span.${mark}` : 'span', text);
        });
        return h('p', isBehind ? '' : '… ', spans, ' …');
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
    const picture = h(
        'div.opening',
        h('div.at.across', h('span', `the same beginning for both, by a person: 0 to ${edge}`), judged(given.ppl)),
        h('p.across', `… ${given.text.slice(from + 1)}`),
        h('div.edge.across', `position ${edge}: training ended here`),
        h(
            'div.gradual.across',
            `The break comes gradually. Right after ${edge}, few tokens are further back than any in training, and text that the ` +
                'model writes itself surprises it less than a person’s text. By 2,000, most tokens are too far back.',
        ),
        name('continues as trained', 'none'),
        name('continues with [YaRN|yarn]', 'yarn'),
        rows,
    );
    // From the fewest to the most of so many seeds.
    const range = (counts) => [...new Set([Math.min(...counts), Math.max(...counts)])].join(' to '),
        { none, yarn, window } = recorded.seeds,
        to = count(excerpts.at(-1)[1]);
    return {
        id: 'text',
        title: 'Text breaks, too',
        body: [
            own && h('p', `This text was recorded with model.bin. All panels below run ${own.name}.`),
            h(
                'p',
                'The model continues a story. Highlighted is what surprised a second reader: the same model, seeing only the ' +
                    'last 512 tokens.',
            ),
            picture,
            h(
                'p',
                `This is no single case: with ${none.length} random seeds, up to token ${to}, plain RoPE writes ${range(none)} ` +
                    'tokens to which that reader gave less than one chance in 10,000. YaRN writes ' +
                    `${range(yarn)}, and a window of 512 writes ${range(window)}.`,
            ),
            folded(
                `Recorded with seed ${recorded.first.seed}: the commands that wrote it`,
                command(...NAMES.map((method) => writes('model.bin', `--rope ${method}`, recorded.first))),
            ),
        ],
    };
}
