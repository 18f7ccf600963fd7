// Reading a text with a method, for the panels that measure: -ln p token by token as it comes.
import { methodFor } from './methods.js';

export const SPAN = 128; // tokens that a point of a curve is the mean of

// Reads the first `n` tokens of the text in a run. `grow` gets all of -ln p so far, of positions 1, 2, ..., which also is
// what comes of it. Ids may stand for the text, and the wish `steps` for reading it in one go.
/**
 * @typedef {{ divisors: ArrayLike<number>, attention: number }} Own
 * @typedef {{ full: string, sliding: string }} ByLayer
 * @param {import('./job.js').Run} run
 * @param {{ wish?: string, model?: string, name?: string, method?: string | ByLayer | Own, text?: string, n: number,
 *     stale?: boolean, ids?: ArrayLike<number> }} what
 * @param {(nlls: number[]) => void} [grow]
 * @returns {Promise<number[]>}
 */
export async function readText(run, { wish = 'nll', model = 'model', name, method, text, n, ...rest }, grow) {
    const nlls = [];
    const how = method ?? methodFor(name);
    await run.ask(wish, { model, method: how, text: text?.slice(0, 40 * n), context: n, ...rest }, ({ from, nll }) => {
        for (let i = 0; i < nll.length; i++) nlls[from - 1 + i] = nll[i];
        grow?.(nlls);
    });
    return nlls;
}
