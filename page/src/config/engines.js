// What the engines that people serve with make of a config: a sentence each, the one that is furthest off first.
import { count, h, short } from '../dom.js';
import { nameOf } from './names.js';
import { inWords } from './words.js';

const DOES = { refused: 'refuses it', ignored: 'ignores it', differs: 'reads it otherwise' };

const UNSEEN = 'not looked at';

const stops = ({ most }, length) => (most < length ? ` It stops at ${count(most)} positions.` : '');

// An engine that refuses a config refuses it for all of its layers; and it may read all of them otherwise in one way.
const alikeIn = (a, b) => a?.engine === b?.engine && a.verdict === b.verdict && a.note === b.note;

// How far a reading is from the reference's.
function distanceFrom(reference, { verdict, times, attention }) {
    if (verdict === 'refused') return 1e-9;
    return Math.abs(Math.log(times)) + Math.abs(Math.log(attention / reference.attention) || 0);
}

// How much faster or slower the pair turns that differs most.
function turns({ pair, times }) {
    if (pair === null) return '';
    return times > 1
        ? ` Pair ${pair} turns ${short(times)} times as fast.`
        : ` Pair ${pair} turns ${short(1 / times)} times as slowly.`;
}

// An engine that does something else: what, in which layers, why.
function sentence(row, rows, length) {
    const { version, verdict, note, layers } = row;
    const inAll = rows.some((other) => other !== row && alikeIn(row, other));
    const where = layers && verdict !== 'refused' ? ` in ${inAll ? 'all' : layers} layers` : '';
    const why = note === '-' ? '' : ` (${inWords(note)})`;
    const words = ` ${version} ${DOES[verdict]}${where}${why}.${turns(row)}${stops(row, length)}`;
    return h(`li.${verdict}`, h('b', nameOf(row)), words);
}

// The engines that read it as it is meant, a line for each length where some of them stop. None of them knows how far the
// settings reach.
function alikeLines(same, length, reach) {
    const limitOf = ({ most }) => (most < length ? most : Infinity);
    const limits = [...new Set(same.map(limitOf))].sort((a, b) => b - a);
    return limits.map((limit) => {
        const names = same.filter((row) => limitOf(row) === limit).map(nameOf);
        const s = names.length > 1 ? '' : 's';
        const reads = `${names.join(', ')} read${s} it as it is meant`;
        return limit === Infinity
            ? h(
                  'li.same',
                  length > reach
                      ? `${reads}, and do${s && 'es'} not stop you past ${count(reach)}.`
                      : `${reads}, for all ${count(length)} positions.`,
              )
            : h('li.differs', `${reads}, but stop${s} at ${count(limit)} positions.`);
    });
}

// The engines that are neither alike nor different.
function unseenLine(rows) {
    const names = new Set(rows.filter((row) => row.verdict === UNSEEN).map(nameOf));
    return names.size ? [h('li.unseen', `Nobody has looked at what ${[...names].join(', ')} would make of it.`)] : [];
}

// { items, alike }: a list of sentences for what plan.engines says of a length, and how many engines read it as it is meant.
// `reach` is how far the settings go.
export function engineReadings(all, length, reach) {
    const rows = all.filter((row) => row.verdict !== UNSEEN);
    const reference = rows.find((row) => row.verdict === 'same') ?? rows[0];
    const far = (row) => distanceFrom(reference, row);
    const others = rows
        .filter((row, i) => row.verdict !== 'same' && !alikeIn(row, rows[i - 1]))
        .sort((a, b) => far(b) - far(a));
    const odd = new Set(others.map(({ engine }) => engine));
    const same = rows.filter((row, i) => !odd.has(row.engine) && rows[i - 1]?.engine !== row.engine);
    const readings = others.map((row) => sentence(row, rows, length));
    const none = rows.length && !same.length ? [h('li.differs', 'None of them reads it as it is meant.')] : [];
    return {
        items: [...readings, ...none, ...alikeLines(same, length, reach), ...unseenLine(all)],
        alike: same.length,
    };
}
