// Arithmetic that panels share: perplexities along a text, expected scores, what angles were seen.
export const TURN = 2 * Math.PI;

const POINTS = 120; // of a curve at most

// exp of the mean of the last `span` values at every `step`th place: [[place, perplexity]].
export function movingPerplexity(nlls, span, step = 8) {
    const out = [];
    let sum = 0;
    for (let i = 0; i < nlls.length; i++) {
        sum += nlls[i] - (i >= span ? nlls[i - span] : 0);
        if (i >= span / 2 && (i % step === 0 || i === nlls.length - 1))
            out.push([i + 1, Math.exp(sum / Math.min(i + 1, span))]);
    }
    return out;
}

// The mean of nlls[from ... to), and as a perplexity.
export function perplexity(nlls, from, to) {
    const part = nlls.slice(from, to);
    return part.length ? Math.exp(part.reduce((a, b) => a + b, 0) / part.length) : NaN;
}

// The score of a query and a key at a distance, when all pairs count alike: the mean of cos(d f_i), times a squared.
export function expectedScore(frequencies, distance, attention = 1) {
    let sum = 0;
    for (const f of frequencies) sum += Math.cos(distance * f);
    return (attention * attention * sum) / frequencies.length;
}

// Is this angle one that a hand of speed `plain` showed within the trained context?
export function isSeen(plain, trained, angle) {
    return plain * trained >= TURN || angle <= plain * trained || angle % TURN <= plain * trained;
}

// Has a hand, at this angle, been where training never had it? Once past its arc it stays so, though it comes round again.
export function hasLeft(plain, trained, angle) {
    return plain * trained < TURN && angle > plain * trained;
}

// The share of a hand's distances up to n that stand at seen angles.
export function seenShare(plain, frequency, trained, n) {
    if (plain * trained >= TURN) return 1;
    const steps = 256;
    let seen = 0;
    for (let k = 1; k <= steps; k++) seen += +isSeen(plain, trained, (frequency * n * k) / steps);
    return seen / steps;
}

// How much of plain RoPE's contrast between a token and its neighbor is left.
export function sharpness(plain, frequencies) {
    const contrast = (list) => list.reduce((sum, f) => sum + 1 - Math.cos(f), 0);
    return contrast(frequencies) / contrast(plain);
}

// A head's values by distance from the last token, the largest of every few neighbors, since one high score is what counts.
// Those in [from, to) are left out.
export function highest(values, from = values.length, to = from, points = POINTS) {
    const n = values.length,
        step = Math.max(1, Math.ceil(n / points)),
        out = [];
    for (let d = 1; d < n; d += step) {
        let most = -Infinity;
        for (let k = d; k < Math.min(n, d + step); k++) {
            const at = n - 1 - k;
            if (at < from || at >= to) most = Math.max(most, values[at]);
        }
        if (most > -Infinity) out.push([d + step / 2, most]);
    }
    return out;
}

// Scores as shares of all attention, in percent.
export function sharesOf(scores) {
    const max = scores.reduce((a, b) => Math.max(a, b)),
        weights = Array.from(scores, (score) => Math.exp(score - max)),
        sum = weights.reduce((a, b) => a + b);
    return weights.map((weight) => (100 * weight) / sum);
}
