"""The tables of ./run as plot.py reads them."""
import math
import os
import sys

# The header rows of ./run and of experiments.py, by which a table is recognised. Tables of older versions end before
# the standard error (--ppl) or the base (--explain).
KINDS = {
    'ppl': ['method', 'from', 'to', 'tokens', 'nll', 'ppl', 'se'],
    'keys': ['method', 'tokens', 'nll', 'ppl', 'se', 'keys', 'key_nll', 'key_ppl', 'key_se'],
    'tasks': ['task', 'method', 'length', 'depth', 'trials', 'correct', 'accuracy'],
    'passkey': ['method', 'length', 'depth', 'trials', 'correct', 'accuracy'],
    'again': ['method', 'place', 'distance', 'tokens', 'first', 'second'],
    'stale': ['method', 'keys', 'length', 'texts', 'change'],
    'attention': ['method', 'distance', 'low', 'mean', 'high', 'weight'],
    'crowd': ['method', 'reading', 'length', 'tokens', 'nll'],
    'encodings': ['method', 'length', 'windows', 'nll', 'se'],
    'encodings-keys': ['method', 'length', 'trials', 'share'],
    'layers': ['method', 'reading', 'from', 'to', 'tokens', 'se', 'nll'],
    'explain': ['pair', 'inv_freq', 'wavelength', 'turns', 'ramp', 'scaled_inv_freq', 'scaled_wavelength', 'base'],
}
NAMES = 'task', 'method', 'keys', 'reading'  # columns of words; the keys of --keys are counts, and a number
EXPECTED = 'expected a table of ./run --ppl, --passkey, --tasks or --explain'


def fail(path, what):
    sys.exit('plot.py: %s: %s' % (path, what))


class Table:
    """kind, settings (the # lines, as text) and rows (dicts; all but names are numbers)."""

    def __init__(self, path, kind, settings):
        self.path, self.kind, self.settings, self.rows = path, kind, settings, []
        self.model = os.path.basename(settings.get({'ppl': 'perplexity', 'keys': 'perplexity'}.get(kind, kind), '?'))

    def methods(self):
        """{method: its rows}, in the table's order."""
        return {name: [r for r in self.rows if r['method'] == name]
                for name in dict.fromkeys(r['method'] for r in self.rows)}

    def number(self, key, default):
        return float(self.settings.get(key, default))


def of_older_versions(columns):
    return columns[:-1] if columns in (KINDS['ppl'], KINDS['explain']) else columns


def read_tables(path):
    try:
        with sys.stdin if path == '-' else open(path, encoding='utf-8', errors='replace') as file:
            lines = file.read().splitlines()
    except OSError as error:
        fail(path, error.strerror)
    tables, settings, table = [], {}, None
    for number, line in enumerate(lines, 1):
        cells = line.split('\t')
        kind = next((kind for kind, columns in KINDS.items() if cells in (columns, of_older_versions(columns))), None)
        if line.startswith('#'):
            if table:  # a line about the next one
                table, settings = None, {}
            key, _, value = line[1:].strip().partition('\t')
            settings[key] = value
        elif kind:
            table = Table(path, kind, settings)
            tables.append(table)
        elif line and not table:
            fail(path, 'line %d: %.60r is no header row that is known here (%s)' % (number, line, EXPECTED))
        elif line:
            columns = KINDS[table.kind]
            if len(cells) != len(columns) and len(cells) != len(of_older_versions(columns)):
                fail(path,
                     'line %d: %d columns (expected %d: %s)' % (number, len(cells), len(columns), ' '.join(columns)))
            try:
                table.rows.append({c: cell if c in NAMES else math.nan if cell == '-' else float(cell)
                                   for c, cell in zip(columns, cells)})
            except ValueError as error:
                fail(path, 'line %d: %s' % (number, error))
    if not tables:
        fail(path, 'there is no table in it (%s)' % EXPECTED)
    for table in tables:
        if not table.rows:
            fail(path, 'the table has no rows')
    return tables


def trained_length(tables, options):
    """As told, as the tables' # lines say, or as --passkey's lengths do, which begin at half of it. 0: unknown."""
    said = [t.number(key, 0) for t in tables for key in ('trained', 'train_ctx') if key in t.settings]
    guessed = 2 * tables[0].rows[0]['length'] if tables[0].kind in ('passkey', 'tasks') else 0
    return options.train_ctx or (said[0] if said else guessed)


def method_of(table):
    method, name = table.settings.get('method', '?'), table.settings.get('map')
    return method if not name else name if method == 'none' else '%s+%s' % (method, name)


def book_of(tables):
    """The text's name, as the tables' # lines say it: great-expectations.txt is Great Expectations."""
    names = (t.settings.get(key, '-') for t in tables for key in ('book', 'text'))
    said = next((name for name in names if name != '-'), 'a text')
    name = os.path.basename(said).replace('.txt', '')
    return name.replace('-', ' ').title() if '-' in name else name
