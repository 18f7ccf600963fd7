// Arithmetic that panels share: perplexities along a text, expected scores, what angles were seen.
export const TURN = 2 * Math.PI;

export const percent = (share) => `${Math.round(100 * share)} %`;

const LARGE_BYTES = 20e6, // of a model of which a browser reads some hundred tokens a second
    READ_OF_LARGE = 1024;
// How many positions of a text panels read with a model: all that they show, or, of a large one, what some seconds allow.
export const mostRead = ({ trainedContext, bytes = 0 }) => (bytes > LARGE_BYTES ? READ_OF_LARGE : 16 * trainedContext);

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

// Has a hand, at this angle, been where training never had it? Once past its arc it stays so, though it comes round again.
export function hasLeft(plain, trained, angle) {
    return plain * trained < TURN && angle > plain * trained;
}

// The share of a hand's distances up to n at which it has not passed the arc that training showed.
export function seenShare(plain, frequency, trained, n) {
    return plain * trained >= TURN ? 1 : Math.min(1, (plain * trained) / (frequency * n));
}

// How much of plain RoPE's contrast between a token and its neighbor is left.
export function sharpness(plain, frequencies) {
    const contrast = (list) => list.reduce((sum, f) => sum + 1 - Math.cos(f), 0);
    return contrast(frequencies) / contrast(plain);
}
