// A text that breaks: one beginning, as long as training was, written on by the model as it was trained and with YaRN,
// recorded: a stretch far past 512, with its perplexity. The mark of a token is its surprise to one judge for both, the model
// that reads in a window.
import { command, count, folded, h } from '../dom.js';
import { colourOf } from '../methods.js';
import { prose } from '../terms.js';
import { markOf } from '../tints.js';
import { writes } from './writing.js';

const MOST = 42, // tokens that are shown
    NAMES = ['none', 'yarn'];

// An excerpt that begins and ends with whole words.
function whole(all) {
    const tokens = all.slice(0, MOST);
    return tokens.slice(
        tokens.findIndex(([text]) => /^\s+\p{L}/u.test(text)),
        tokens.findLastIndex(([text]) => /^\s/.test(text)),
    );
}

// { id, title, body } of the panel. What is shown was recorded of the model that ships.
export function theText({ recorded, own }) {
    const { stretch } = recorded.first;
    const part = (name, title) => {
        const head = h('h4', prose(title)),
            { tokens, ppl } = recorded.first[name];
        head.style.setProperty('--mine', colourOf(name));
        const spans = whole(tokens).map(([text, nll]) => h('span', { className: markOf(nll) }, text));
        return h(
            'div',
            head,
            h('p', '… ', spans, ' …'),
            h('div.at', 'perplexity', h('b', ppl.toFixed(ppl < 10 ? 1 : 0))),
        );
    };
    return {
        id: 'text',
        title: 'Text breaks, too',
        body: [
            own && h('p', `This text was recorded with model.bin. All panels below run ${own.name}.`),
            h(
                'p',
                prose(
                    `The model goes on with a story. Here it is at tokens ${stretch.map(count).join(' to ')}. Highlighted is what ` +
                        'surprised a second reader, the same model in a [window] of 512; [perplexity] is its surprise in a number.',
                ),
            ),
            h('div.opening', part('none', 'as trained'), part('yarn', 'with [YaRN|yarn]')),
            folded(
                `Recorded with seed ${recorded.first.seed}: the commands`,
                h(
                    'p.fine',
                    'A terminal rounds otherwise, and writes other words with this seed. They break, and hold, in the same way.',
                ),
                command(...NAMES.map((method) => writes('model.bin', `--rope ${method}`, recorded.first))),
            ),
        ],
    };
}
