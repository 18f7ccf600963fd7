// What a head and a model make of a hidden key, as the scene draws it and as recorded.json has it: few numbers.
import { highest } from './numbers.js';

export const KEY = '73914',
    DEPTH = 0; // of the key in its text: first of all, so that its distance is the length
const POINTS = 60, // of a curve
    WORDS = 5;

const round = (x, digits) => (Number.isFinite(x) ? +x.toFixed(digits) : null);

/**
 * Of the worker's answer to `path`: where the key stands, scores of other tokens (the highest of some neighbors) and of the
 * key's, the logarithm of the sum over all, the key's share, words and answer.
 * @param {any} found
 */
export function packed({ n, from, to, layer, head, scores, share, words, answer }) {
    const all = Array.from(scores),
        max = Math.max(...all),
        sum = all.reduce((total, score) => total + Math.exp(score - max), 0);
    return {
        ...{ n, from, layer, head, answer },
        others: highest(all, from, to, POINTS).map(([d, score]) => [round(d, 0), round(score, 1)]),
        key: all.slice(from, to).map((score) => round(score, 2)),
        all: round(max + Math.log(sum), 2),
        share: round(share, 4),
        words: words.slice(0, WORDS).map(({ text, p }) => [text, round(p, 4)]),
    };
}

// The curves of what was packed, by distance: of scores, and of shares of attention in percent.
export function curvesOf({ n, from, others, key, all }) {
    const ofKey = key.map((score, i) => [n - 1 - from - i, score]);
    const shares = (points) => points.map(([d, score]) => [d, score === null ? 0 : 100 * Math.exp(score - all)]);
    return { others, key: ofKey, otherShares: shares(others), keyShares: shares(ofKey) };
}
