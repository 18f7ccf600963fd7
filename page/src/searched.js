// What a head and a model make of a hidden key, as the scene draws it and as scene.json has it.
export const KEY = '73914',
    DEPTH = 0; // of the key in its text: first of all, so that its distance is the length

const round = (x, digits) => (Number.isFinite(x) ? +x.toFixed(digits) : null);

/**
 * Of the worker's answer to `path`, as few numbers as will do: the distance d from the query to the key's token, that token's
 * score and what each pair gives to it, the best score of all tokens outside the key's sentence, the sentence's share of
 * attention, and the answer.
 * @param {any} found
 */
export const packed = ({ d, layer, head, share, score, rival, terms, answer }) => ({
    ...{ d, layer, head, answer },
    share: round(share, 4),
    score: round(score, 2),
    rival: round(rival, 2),
    terms: terms && Array.from(terms, (term) => round(term, 2)),
});
