// What is measured of keys: all lengths and depths for three methods, a cell at a time, beside what was recorded.
import { command, count, folded, h, statusLine } from '../dom.js';
import { DEPTHS } from '../haystack.js';
import { runs } from '../job.js';
import { titleOf } from '../methods.js';
import { mostRead } from '../numbers.js';

const NAMES = ['none', 'yarn', 'window'],
    SEED = 1,
    SHORTEST = 128; // positions in which the task fits

// From half of the trained length to eight of it; of a large model as far as it is read.
function lengthsOf(facts) {
    const most = Math.min(8 * facts.trainedContext, mostRead(facts));
    return [most / 16, most / 8, most / 4, most / 2, most].filter((n) => n >= SHORTEST);
}

/**
 * What was recorded of keys: { box, lengths, cellOf, mark }. `recorded` has rows of a method, a length, a depth and whether
 * the key was found; of a length without a row nothing is shown.
 * @param {{ trainedContext: number, bytes?: number }} facts @param {any[][]} recorded
 */
export function recordedGrid(facts, recorded) {
    const lengths = lengthsOf(facts),
        cells = new Map(), // by method, length and number of the depth
        named = (name, length, i) => `${name} ${length} ${i}`;
    const mark = (cell, right, title) => {
        cell.className = right ? 'yes' : 'no';
        cell.textContent = right ? '✓' : '·';
        cell.title = title;
    };
    const made = (name, length, i) => {
        const cell = h('td.ghost'),
            known = recorded.find(([m, n, d]) => m === name && n === length && d === DEPTHS[i]);
        cells.set(named(name, length, i), cell);
        if (known) mark(cell, known[3] === 1, `recorded: ${known[3] === 1 ? 'found' : 'not found'}`);
        cell.classList.add('ghost');
        return cell;
    };
    const heads = ['%', ...DEPTHS.map((depth) => String(100 * depth))];
    const table = (name) => {
        const rows = lengths.map((length) => h('tr', h('th', count(length)), DEPTHS.map((_, i) => made(name, length, i))));
        const head = h('tr', heads.map((one) => h('th', one)));
        return h('div.grid', h('table', h('caption', titleOf(name)), h('thead', head), h('tbody', rows)));
    };
    return {
        box: h('div.grids', NAMES.map(table)),
        lengths,
        cellOf: (name, length, i) => cells.get(named(name, length, i)),
        mark,
    };
}

export function keyGrid({ engine, recorded, file, shipped }) {
    const { box, lengths, cellOf, mark } = recordedGrid(shipped, recorded.passkey),
        longest = lengths.at(-1),
        status = statusLine();
    const asking = runs({ engine, status, work: askAll });
    async function askAll(run) {
        let right = 0,
            all = 0;
        for (const length of lengths)
            for (const name of NAMES)
                for (const [i, depth] of DEPTHS.entries()) {
                    const cell = cellOf(name, length, i),
                        hidden = { length, depth: i, seed: SEED, context: longest };
                    cell.classList.add('now');
                    status.say(`${titleOf(name)}, ${count(length)} tokens, the number at ${100 * depth} % …`);
                    try {
                        const { answer, key } = await run.ask('hide', { model: 'model', method: name, ...hidden });
                        mark(cell, answer === key, `${key}, answer ${answer}`);
                        right += +(answer === key);
                        all++;
                    } finally {
                        cell.classList.remove('now');
                    }
                }
        status.say(`${right} of ${all} found.`);
    }
    const how = `-n ${longest} --trials 1 -s ${SEED} --kv f32 --rope ${NAMES.join(',')}`;
    const all = h(
        'div',
        h('h3', 'Five lengths, five depths'),
        h(
            'p.fine',
            'Rows: length of the text. Columns: how far into it the number is, in percent. Pale cells were recorded; solid ones were run here.',
        ),
        box,
        asking.button(['Run the grid']),
        status,
        folded('The command that fills the grid', command(`./run ${file} --passkey ${how}`)),
    );
    return { box: all, lengths };
}
