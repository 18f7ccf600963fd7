// The first picture: one opening, written on by the plain model and by YaRN, recorded; the line at 512; and what is left
// of both far behind it.
import { count, h } from '../dom.js';
import { colourOf } from '../methods.js';
import { tint } from '../tints.js';

const PER_TOKEN = 0.028; // seconds, when it types

// Excerpts as they stand in the recording: up to the line, behind it, and further on.
export function opening({ recorded, shipped }) {
    const { first } = recorded,
        edge = shipped.trainedContext;
    const part = (name, excerpt) => {
        const [from] = first.excerpts[excerpt],
            behind = first.excerpts[excerpt][1] > edge;
        const before = first.excerpts.slice(1, excerpt).reduce((sum, [a, b]) => sum + b - a, 0);
        return h(
            'p',
            { ariaLabel: `${name === 'none' ? 'plain' : 'YaRN'}, from position ${from}` },
            from > 0 ? '… ' : '',
            first[name][excerpt].map(([text, nll], i) => {
                const token = h(`span.t${tint(nll)}`, text);
                if (behind) token.style.animationDelay = `${((before + i) * PER_TOKEN).toFixed(2)}s`;
                return token;
            }),
            ' …',
        );
    };
    const rows = first.excerpts.flatMap(([from], excerpt) => [
        excerpt === 1
            ? h('div.edge.across', `position ${edge}: training ended here`)
            : excerpt > 1
              ? h('div.at.across', `position ${count(from)}`)
              : null,
        part('none', excerpt),
        part('yarn', excerpt),
    ]);
    const name = (title, method) => {
        const head = h('h3', title);
        head.style.setProperty('--mine', colourOf(method));
        return head;
    };
    return h('div.opening', name('as it was trained', 'none'), name('with YaRN', 'yarn'), rows);
}
