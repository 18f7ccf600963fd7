// What a config promises, and the block to paste elsewhere: the file's own where nothing better can be had.
import { count } from '../dom.js';

// The rope block of a config; null without one, or where this is no JSON.
function ropeBlock(pasted) {
    let all;
    try {
        all = JSON.parse(pasted);
    } catch {
        return null;
    }
    const text = all?.text_config ?? all;
    return text?.rope_parameters ?? text?.rope_scaling ?? (text?.rope_type ? text : null);
}

// Does it say how long the model was trained before anything was scaled?
export function hasOriginal(pasted) {
    const block = ropeBlock(pasted);
    return !!block && 'original_max_position_embeddings' in block;
}

// How many positions a config promises: its max_position_embeddings, or, where these are the ones of training, so many
// times the factor.
export function promiseOf(pasted, { maxPositions, trainedContext, factor }) {
    if (maxPositions > trainedContext) return maxPositions;
    const scaled = trainedContext * Math.max(1, factor);
    return maxPositions && !hasOriginal(pasted) ? maxPositions : scaled;
}

/**
 * The block to paste: what --rope-json says, or the file's own block where that is read by more engines, or where the
 * other promises more positions than the file. `pasted` is empty where another method was chosen.
 * @param {string[]} published
 * @param {string} pasted
 * @param {{ maxPositions: number, trainedContext: number, factor: number }} told
 * @param {number} alike engines that read the file as it is meant
 * @returns {{ lines: string[], words: string, isOwn: boolean }}
 */
export function blockToPaste(published, pasted, told, alike) {
    const own = ropeBlock(pasted),
        said = published.join('\n'),
        [, readers] = said.match(/so (\d+) of \d+ engines/) ?? [],
        [, reach] = said.match(/max_position_embeddings (\d+);/) ?? [];
    const isFewer = +readers < alike,
        isMore = +reach > promiseOf(pasted, told);
    if (!own || !(isFewer || isMore)) return { lines: published, words: '', isOwn: false };
    const why = isFewer
        ? `${alike} engines read it as it is meant, and another spelling would be read by ${readers}.`
        : 'It says the length that the file promises.';
    const reaches = told.trainedContext * Math.max(1, told.factor),
        isShort = told.maxPositions > 0 && told.maxPositions < reaches && hasOriginal(pasted),
        change = isShort
            ? `only max_position_embeddings has to be raised, to ${count(reaches)}`
            : 'nothing needs to be changed';
    return {
        lines: JSON.stringify(own, null, 1).split('\n'),
        words: `This is the file's own block: ${change}. ${why}`,
        isOwn: true,
    };
}

// A config in a command line, as vllm serve MODEL --hf-overrides '{...}' has one; of anything else the same words.
export function jsonIn(words) {
    const [, found] = words.match(/^\s*[\w.$/-]+ [^{]*?['"]?(\{[^]*\})['"]?/) ?? [];
    try {
        JSON.parse(found);
        return found;
    } catch {
        return words;
    }
}
