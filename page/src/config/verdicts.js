// The table of what --check says of a config's settings, without any weights.
import { h, short } from '../dom.js';

// What is compared, in words: value and limit.
const CHECKS = {
    reach: 'positions that the settings are made for, and those you want',
    method: 'as chosen, and as in the file: a model tuned with one is another with another',
    context: 'positions that the file promises, and those that its settings are made for',
    temperature: 'as in the file, and what its lengths give',
    'llama3-factors': 'how many of three the file says',
};
const COLUMNS = ['check', 'value', 'limit', 'verdict'];

const shown = (x) => h('td', isNaN(x) ? x : short(+x, 6));

// A row for each of --check's: { check, value, limit, verdict }.
export function verdictTable(rows) {
    if (!rows.length) return '';
    const head = COLUMNS.map((name) => h('th', name));
    const body = rows.map(({ check, value, limit, verdict }) =>
        h(
            `tr.${verdict}`,
            h('td', h('b', check), h('br'), h('span.fine', CHECKS[check] ?? '')),
            shown(value),
            shown(limit),
            h('td', h('b', verdict)),
        ),
    );
    return h('table.list', h('thead', h('tr', head)), h('tbody', body));
}
