// What a head and a model make of a hidden key, as the scene draws it, and as it is recorded: scene.json has plain RoPE for
// the first screen, recorded.json what the later chapters' chips choose.
export const KEY = '73914',
    DEPTH = 0; // of the key in its text: first of all, so that its distance is the length

const MOST_LOOKS = 10, // tokens whose weight is recorded
    PARTS = { cents: 100, mills: 1000 };

const whole = (list, parts) => list && Array.from(list, (x) => Math.round(x * parts));

/**
 * Of the worker's answer to `path`, as few numbers as will do: of terms hundredths, of weights and shares thousandths.
 * `crosses` tells whether pairs may be turned further.
 * @param {any} found @param {boolean} [crosses]
 */
export const packed = (found, crosses) => ({
    ...{ n: found.n, d: found.d, a: found.answer, f: [found.layer, found.head] },
    s: whole([found.score, found.rival], PARTS.cents),
    r: found.rivalAt,
    w: whole([found.share, found.itsWord, found.everywhere, found.near], PARTS.mills),
    l: found.looks.slice(0, MOST_LOOKS).flatMap(([d, weight]) => [d, Math.round(weight * PARTS.mills)]),
    h: whole(found.shares, PARTS.cents),
    t: whole(found.terms, PARTS.cents),
    ...(crosses ? { c: whole(found.crosses, PARTS.cents) } : {}),
});

const shares = (list, parts) => list?.map((x) => x / parts);

/** The worker's answer again, without the text. @param {any} kept */
export function unpacked({ n, d, a, f, s, r, w, l, h, t, c }) {
    const [layer, head] = f,
        [score, rival] = shares(s, PARTS.cents),
        [share, itsWord, everywhere, near] = shares(w, PARTS.mills),
        looks = Array.from({ length: l.length / 2 }, (_, i) => [l[2 * i], l[2 * i + 1] / PARTS.mills]);
    return {
        ...{ n, d, answer: a, layer, head, score, rival, rivalAt: r, share, itsWord, everywhere, near, looks },
        ...{ shares: shares(h, PARTS.cents), terms: shares(t, PARTS.cents), crosses: shares(c, PARTS.cents) ?? null },
    };
}

/**
 * The tokens of the scene's text, from its parts in tokens: what is before the first filler, the sentences of filler, which
 * follow one another, and the question. As many as there are in all.
 * @param {{ start: string[], filler: string[][], end: string[] }} parts @param {number} n
 */
export function textOf({ start, filler, end }, n) {
    const all = [...start];
    for (let i = 0; all.length < n - end.length; i++) all.push(...filler[i % filler.length]);
    return [...all, ...end];
}
