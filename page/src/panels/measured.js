// What is measured of handles, when it is asked for: perplexity.
import { count, fact, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, methodFor } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText, SPAN } from '../reading.js';

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
