// The table of what --check says of a config's settings, without any weights.
import { count, h, listing, short } from '../dom.js';

// What is compared, in words: value and limit.
const CHECKS = {
    window: 'positions that a layer sees, and those you want',
    reach: 'positions that the settings are made for, and those you want',
    method: 'as chosen, and as in the file: a model tuned with one method is a different model with another',
    context: 'positions that the file promises, and those that its settings are made for',
    temperature: 'as in the file, and what its lengths give',
    'llama3-factors': 'how many of three the file says',
};
const COLUMNS = ['check', 'value', 'limit', 'verdict'];

const shown = (x) => (isNaN(x) ? x : Number.isInteger(+x) ? count(+x) : short(+x, 6));

// A row for each of --check's: { check, value, limit, verdict }.
export function verdictTable(rows) {
    if (!rows.length) return '';
    const cells = rows.map(({ check, value, limit, verdict }) => [
        [h('b', check), h('br'), h('span.fine', CHECKS[check] ?? '')],
        shown(value),
        shown(limit),
        h('b', verdict),
    ]);
    return listing(COLUMNS, cells, (i) => rows[i].verdict);
}
