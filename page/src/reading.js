// Reading a text with a method, for the panels that measure: -ln p token by token as it comes, and the command for it.
import { methodFor } from './methods.js';

export const SPAN = 128; // tokens that a point of a curve is the mean of

// Reads the first `n` tokens of the text. `grow` gets all of -ln p so far, of positions 1, 2, ... Returns
// { promise, cancel } of all of them.
export function readText(engine, { model = 'model', name, method, text, n }, grow) {
    const nlls = [];
    const job = engine.ask(
        'nll',
        { model, method: method ?? methodFor(name), text: text.slice(0, 40 * n), context: n },
        ({ from, nll }) => {
            for (let i = 0; i < nll.length; i++) nlls[from - 1 + i] = nll[i];
            grow?.(nlls);
        },
    );
    return { promise: job.promise.then(() => nlls), cancel: job.cancel };
}
