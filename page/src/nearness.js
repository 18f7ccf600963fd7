// How near the reader's handles are to a method's places, and what to do about the rest, in words.
import { count, short } from './dom.js';
import { TURN } from './numbers.js';

const BUILT = 1.1, // times that handles are off, on the mean, when they are said to be the method's
    BUILT_WORST = 1.6, // and the worst of them
    NEAR = 1.5,
    SLOWED = 1.001; // times from which on a pair counts as slowed

const mean = (list) => list.reduce((a, b) => a + b, 0) / Math.max(1, list.length);

// Which pairs went round how often in training, and what a method does with them: runs of pairs, in their order.
function groups(target, plain, trained) {
    const kind = (i) => (plain[i] * trained < TURN ? 'never' : target[i] > SLOWED ? 'some' : 'often');
    const all = { often: [], some: [], never: [] };
    for (let i = 0; i < plain.length; i++) all[kind(i)].push(i);
    return all;
}

/**
 * How near handles are: `off` is how many times they are off on the mean, `stage` is built, near or ''. `where` is the
 * group of pairs that is furthest off, as { name, pairs, by }, of which `by` is below 1 where they are slowed too little.
 * @param {number[]} slow @param {number[]} target @param {number[]} plain @param {number} trained
 */
export function nearness(slow, target, plain, trained) {
    const logs = slow.map((s, i) => Math.log(s / target[i])),
        sizes = logs.map(Math.abs),
        off = Math.exp(mean(sizes)),
        worst = Math.exp(Math.max(...sizes));
    const isTouched = slow.some((s) => s > SLOWED);
    const parts = Object.entries(groups(target, plain, trained))
        .filter(([, pairs]) => pairs.length)
        .map(([name, pairs]) => ({ name, pairs, by: Math.exp(mean(pairs.map((i) => logs[i]))) }))
        .sort((a, b) => Math.abs(Math.log(b.by)) - Math.abs(Math.log(a.by)));
    const isBuilt = off < BUILT && worst < BUILT_WORST;
    return { off, worst, stage: !isTouched ? '' : isBuilt ? 'built' : off < NEAR ? 'near' : '', where: parts[0] };
}

const range = (pairs) => (pairs.length === 1 ? `pair ${pairs[0]}` : `pairs ${pairs[0]} to ${pairs.at(-1)}`);

// What is still to be done, a sentence. `target` is where the method has the handles.
export function nudge({ where: { name, pairs, by } }, target) {
    const [first, last] = [target[pairs[0]], target[pairs.at(-1)]].map((x) => short(x));
    const lead = 'You are near YaRN.';
    if (name === 'often') return `${lead} It leaves the fastest hands alone: ${range(pairs)} stay at 1×.`;
    if (name === 'never')
        return `${lead} It slows the hands that never went round ${by < 1 ? 'more' : 'less'}: ${range(pairs)}, ${last}×.`;
    return by < 1
        ? `${lead} It also slows the hands that went round a few times, ${range(pairs)}: ${first}× at first, up to ${last}×.`
        : `${lead} It slows the hands between less: ${range(pairs)} climb from ${first}× to ${last}×.`;
}

// That it is reached. `temper` is the reader's temperature, `its` the method's.
export function reached({ off }, { temper, its }, n) {
    const percent = Math.max(1, Math.round((off - 1) * 100));
    const heat =
        Math.abs(temper / its - 1) < 0.01
            ? ''
            : ` It also makes scores a little larger: temperature ${short(its, 4)}, where you have ${short(temper, 4)}.`;
    return `You built YaRN for ${count(n)} tokens: your handles are ${percent} % off its own.${heat}`;
}
