// The text that broke, written again with the reader's handles: its last tokens, as they come. Once all are there, what a
// reader of the last ones did not expect is marked, and its perplexity is shown beside that of the text as it broke.
import { command, count, h, onceAFrame, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { blockOfHandles, methodFor } from '../methods.js';
import { mostRead, perplexity } from '../numbers.js';
import { markOf, marks } from '../tints.js';
import { HOW, PAST_TRAINED, writes } from './writing.js';

const TAIL = 50, // tokens that are shown
    PICTURE_MS = 100;

const spansOf = (tokens) => tokens.map(([text, nll]) => h('span', { className: nll === undefined ? '' : markOf(nll) }, text));

/**
 * { box, line, begin }: where the text is shown, and the command that writes it; `begin` writes it anew.
 * @param {{ engine: import('../engine.js').Engine, file: string, book: string, shipped: any, recorded: any, own: any }} how
 */
export function rewrite({ engine, file, book, shipped, recorded, own }) {
    const { first } = recorded,
        L = shipped.trainedContext,
        past = L + PAST_TRAINED,
        characters = own ? Math.round((0.9 * first.characters * L) / 512) : first.characters,
        [from, to] = first.excerpt.map((place) => place + past - first.length),
        stretch = first.stretch.map((place) => place + past - first.length),
        broke = first.none.ppl;
    const title = h('span'),
        status = statusLine(),
        line = command(),
        tail = h('div.tail', { tabIndex: 0, role: 'group', ariaLabel: 'the end of the text' });
    const over = `over tokens ${stretch.map(count).join(' to ')}`;
    const showBroken = () => {
        title.textContent = `The text that broke: perplexity ${broke.toFixed(0)} ${over}`;
        tail.replaceChildren('… ', ...spansOf(first.none.tokens), ' …');
    };
    const isTooLong = past > mostRead(shipped);
    if (isTooLong) title.textContent = `To write ${count(past)} tokens with ${file} would take hours here. The command below does it.`;
    else if (own) title.textContent = 'Move a handle, and the model writes a text with it.';
    else showBroken();

    const writing = runs({ engine, status, inputs: ['slow', 'temper'], work: write });
    async function write(run) {
        const wish = { model: 'model', method: methodFor('yours'), prompt: book.slice(0, characters), seed: first.seed },
            texts = [],
            nlls = [];
        const block = blockOfHandles();
        line.put([writes(file, `--rope-config ${block[0]}`, { characters, length: past, seed: first.seed }), [block]]);
        const draw = onceAFrame(() => {
            title.textContent = `Written again with your handles: ${count(Math.min(past, texts.length))} of ${count(past)} tokens`;
            tail.replaceChildren('… ', texts.slice(-TAIL).join(''));
        }, PICTURE_MS);
        if (isTooLong) return;
        await run.ask('write', { ...wish, ...HOW, context: past }, (part) => {
            part.nll?.forEach((nll, i) => (nlls[part.from + i] = nll));
            if (!part.texts) return;
            texts.push(...part.texts);
            draw();
        });
        const shown = texts.slice(from, to).map((text, i) => [text, nlls[from + i]]),
            now = perplexity(nlls, ...stretch),
            was = own ? '' : `; it was ${broke.toFixed(0)}`;
        title.textContent = `With your handles: perplexity ${now.toFixed(0)} ${over}${was}`;
        tail.replaceChildren('… ', ...spansOf(shown), ' …');
    }
    return {
        box: h('div.rewrite', h('p.fine', title, marks()), tail, status),
        line,
        begin: writing.begin,
        end() {
            writing.end();
            if (!own) showBroken();
        },
    };
}
