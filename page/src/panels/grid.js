// What is measured of keys: all lengths and depths for three methods, a cell at a time, beside what was recorded.
import { command, count, folded, h, statusLine } from '../dom.js';
import { DEPTHS, keyOf } from '../haystack.js';
import { runs } from '../job.js';
import { titleOf } from '../methods.js';

const NAMES = ['none', 'yarn', 'window'],
    SEED = 1;

export function keyGrid({ engine, recorded, file, trained }) {
    const LENGTHS = [trained / 2, trained, 2 * trained, 4 * trained, 8 * trained],
        LONGEST = 8 * trained;
    const status = statusLine(),
        line = command(),
        cells = {}; // by method, length and number of the depth
    const mark = (cell, right, title) => {
        cell.className = right ? 'yes' : 'no';
        cell.textContent = right ? '✓' : '·';
        cell.title = title;
    };
    const cellOf = (name, length, i) => {
        const cell = (cells[`${name} ${length} ${i}`] = h('td.ghost'));
        const known = recorded.passkey.find(([m, n, d]) => m === name && n === length && d === DEPTHS[i]);
        if (!known) return cell;
        mark(cell, known[3] === 1, `recorded: ${known[3] === 1 ? 'found' : 'not found'}`);
        cell.classList.add('ghost');
        return cell;
    };
    const row = (name, length) =>
        h(
            'tr',
            h('th', count(length)),
            DEPTHS.map((_, i) => cellOf(name, length, i)),
        );
    const head = () =>
        h(
            'tr',
            h('th', '%'),
            DEPTHS.map((d) => h('th', String(100 * d))),
        );
    const tables = NAMES.map((name) =>
        h(
            'div.grid',
            h(
                'table',
                h('caption', titleOf(name)),
                h('thead', head()),
                h(
                    'tbody',
                    LENGTHS.map((length) => row(name, length)),
                ),
            ),
        ),
    );
    const asking = runs({ engine, status, work: askAll });
    async function askAll(run) {
        let right = 0,
            all = 0;
        for (const length of LENGTHS)
            for (const name of NAMES)
                for (const [i, depth] of DEPTHS.entries()) {
                    const cell = cells[`${name} ${length} ${i}`],
                        key = keyOf(SEED, length, i, 0),
                        hidden = { length, depth, key, context: LONGEST };
                    cell.classList.add('now');
                    status.say(`${titleOf(name)}, ${count(length)} tokens, the key at ${100 * depth} % …`);
                    try {
                        const { answer } = await run.ask('hide', { model: 'model', method: name, ...hidden });
                        mark(cell, answer === key, `key ${key}, answer ${answer}`);
                        right += +(answer === key);
                        all++;
                    } finally {
                        cell.classList.remove('now');
                    }
                }
        status.say(`${right} of ${all} keys found.`);
    }
    line.put(`./run ${file} --passkey -n ${LONGEST} --trials 1 -s ${SEED} --kv f32 --rope ${NAMES.join(',')}`);
    return h(
        'div',
        h('h3', 'Every length, every depth'),
        h(
            'p.fine',
            'Rows: the length of the text. Columns: how deep the key stands, in percent. Pale cells are recorded, full ones yours.',
        ),
        h('div.grids', tables),
        asking.button(['Run the grid']),
        status,
        folded('The command that fills the grid', line),
    );
}
