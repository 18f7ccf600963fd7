// What the engines that people serve with make of a config: a sentence each, the one that is furthest off first.
import { count, h, short } from '../dom.js';
import { nameOf } from './names.js';
import { inWords } from './words.js';

const DOES = { refused: 'refuses it', ignored: 'ignores it', differs: 'reads it otherwise' };

const UNSEEN = 'not looked at';
const TOO_LONG = 'too long'; // read as it is meant, by an engine that does not take such a text

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

// The engines that read it as it is meant, a line for each length and reason where some of them stop. None of them knows how
// far the settings reach.
function alikeLines(same, length, reach) {
    const limitOf = ({ most }) => (most < length ? most : Infinity);
    const reasonOf = ({ verdict, note }) => (verdict === TOO_LONG ? note.slice(note.indexOf(': ') + 2) : '');
    const groups = new Map();
    for (const row of [...same].sort((a, b) => limitOf(b) - limitOf(a))) {
        const key = `${limitOf(row)} ${reasonOf(row)}`;
        groups.set(key, [...(groups.get(key) ?? []), row]);
    }
    return [...groups.values()].map((rows) => {
        const limit = limitOf(rows[0]),
            reason = reasonOf(rows[0]);
        const s = rows.length > 1 ? '' : 's';
        const reads = `${rows.map(nameOf).join(', ')} read${s} it as it is meant`;
        if (limit === Infinity) {
            const ends = `${reads}, and do${s && 'es'} not stop you past ${count(reach)}.`;
            return h('li.same', length > reach ? ends : `${reads}, for all ${count(length)} positions.`);
        }
        const why = reason && ` (${inWords(reason)})`;
        return h('li.differs', `${reads}, but stop${s} at ${count(limit)} positions${why}.`);
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
        .filter((row, i) => !['same', TOO_LONG].includes(row.verdict) && !alikeIn(row, rows[i - 1]))
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
