// What is measured of handles, when it is asked for: perplexity, and the program's own search for better ones.
import { count, fact, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, methodFor, titleOf } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText, SPAN } from '../reading.js';

const READS = 60, // windows that a search reads
    SEED = 7;

// Reads the book with the handles as they are. `named` tells the method whose places they have, '' where none has them.
// `result` and `live`, a chart, show what comes of it.
export function measureHandles({ engine, book, trained, n, named, result, live }) {
    const status = statusLine();
    const reading = runs({
        engine,
        status,
        inputs: ['slow', 'temper'],
        work: async (run) => {
            const method = methodFor(named() || 'yours');
            status.say(`Reading ${count(n)} tokens …`);
            await readText(run, { method, text: book, n }, (nlls) => {
                live.set('yours', movingPerplexity(nlls, SPAN, 16), { colour: colourOf('yours'), title: 'yours' });
                show(nlls);
            });
        },
    });
    function show(nlls) {
        const number = (value, name) => fact(Number.isFinite(value) ? value.toFixed(1) : '…', name);
        const past = Math.min(nlls.length, n - 1);
        result.replaceChildren(
            number(perplexity(nlls, trained / 2 - 1, Math.min(trained, past + 1) - 1), `perplexity up to ${trained}`),
            number(past > trained ? perplexity(nlls, trained - 1, past) : NaN, `past ${trained}`),
        );
    }
    return { status, again: reading.begin };
}

// --search with the handles' beginning, at a length. `better` gets the divisors and the attention factor of each that is
// better than those before. It runs in a worker of its own, which Stop ends: the best so far stays.
export function searchHandles({ engine, book, trained, n, named, better }) {
    const status = statusLine();
    // As many windows as the book has for it, half of which search.
    const settings = () => ({ context: n, windows: Math.floor((4 * trained) / n), reads: READS, seed: SEED });
    const hear = ({ done, nll, divisors, attention }) => {
        const percent = `${Math.round(100 * done)} % of the search is done.`;
        status.say(nll ? `Best so far past ${trained}: ${Math.exp(nll).toFixed(2)}. ${percent}` : percent);
        if (divisors) better(divisors, attention);
    };
    const searching = runs({
        engine,
        status,
        work: async (run) => {
            const apart = engine.apart(),
                method = methodFor(named() || 'yours');
            status.say('Opening the model once more …');
            const wish = { model: 'model', method, text: book, ...settings() };
            const { promise } = apart.ask('search', wish, run.heard(hear));
            try {
                const { lines } = await run.take({ promise, cancel: () => apart.close() });
                status.say(told(lines));
            } finally {
                apart.close();
            }
        },
    });
    function told(lines) {
        const [[, name, began], [, , best], [, , yarn], [, , judged]] = lines
            .map((line) => line.match(/^# \w+ (\S+) nll \S+ ppl (\S+)/))
            .filter(Boolean);
        return (
            `Past ${trained}: ${best}, begun with ${titleOf(name)} at ${began}. In windows that it did not search: ` +
            `${judged}, and YaRN ${yarn}.`
        );
    }
    return { status, settings, end: searching.end, isOn: searching.isOn, button: searching.button };
}
