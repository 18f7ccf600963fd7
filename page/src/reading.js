// Reading a text with a method, for the panels that measure: -ln p token by token as it comes.

export const SPAN = 128; // tokens that a point of a curve is the mean of

/**
 * Reads the first `n` tokens of the text in a run. `grow` gets all of -ln p so far, of positions 1, 2, ..., which also is
 * what comes of it.
 * @typedef {{ divisors: ArrayLike<number>, attention: number }} Own
 * @typedef {{ full: string, sliding: string }} ByLayer
 * @param {import('./job.js').Run} run
 * @param {{ model?: string, method: string | ByLayer | Own, text: string, n: number }} what
 * @param {(nlls: number[]) => void} grow
 * @returns {Promise<number[]>}
 */
export async function readText(run, { model = 'model', method, text, n }, grow) {
    const nlls = [];
    await run.ask('nll', { model, method, text: text.slice(0, 40 * n), context: n }, ({ from, nll }) => {
        for (let i = 0; i < nll.length; i++) nlls[from - 1 + i] = nll[i];
        grow(nlls);
    });
    return nlls;
}
