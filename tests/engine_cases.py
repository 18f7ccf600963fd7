"""Configs, and how engines read them: tests/engines/README.md. The recipes of tests/world write what packages computed;
how an older or an unpublished release reads a config was recorded before."""

import json
import os
import re

from common import RUN, ROOT, in_work, run, table, write

FOLDER = os.path.join(ROOT, 'tests', 'engines')
LOOSE = 2e-4  # between a frequency or a factor that was said and one that was computed, some in float32


def read_cases():
    """[{name, length, config}], one a line in the file."""
    with open(os.path.join(FOLDER, 'cases.json'), encoding='utf-8') as file:
        return json.load(file)


def rows_of(name):
    with open(os.path.join(FOLDER, name), encoding='utf-8') as file:
        header, *rows = [line.rstrip('\n').split('\t') for line in file]
    return [dict(zip(header, row)) for row in rows]


def cell_read(cell, lists):
    """[inverse frequencies, a] of `12 1.1386`; None for `-`: no RoPE."""
    number, _, a = cell.partition(' ')
    return None if cell == '-' else [lists[int(number)], float(a)]


def read_found():
    """{case: {engine: found}}; found is {'error'} or {'layers': {kind: [frequencies, a] or None}, 'max_len'}."""
    lists = [[float(x) for x in row['frequencies'].split()] for row in rows_of('frequencies.tsv')]
    out = {}
    for row in rows_of('readings.tsv'):
        for word in row['engines'].split():
            name, _, most = word.partition('/')
            if row['error']:
                found = {'error': row['error']}
            else:
                kinds = {'all': row['full']} if not row['sliding'] else {key: row[key] for key in ('full', 'sliding')}
                found = {'layers': {kind: cell_read(cell, lists) for kind, cell in kinds.items() if cell},
                         'max_len': int(most) if most else None}
            out.setdefault(row['case'], {})[name] = found
    return out


def same_list(x, y):
    return len(x) == len(y) and all(a == b or (b and abs(a / b - 1) < 1e-5) for a, b in zip(x, y))


def write_found(found, folder=FOLDER):
    """The inverse of read_found: engines that agree share a row, and lists that agree a number. A list that agrees with
    one that is recorded is that one, to the last digit, so that a new run changes only what changed."""
    recorded = [row['frequencies'] for row in rows_of('frequencies.tsv')]
    values_of = {words: [float(x) for x in words.split()] for words in recorded}
    lists, rows = [], []

    def apart(words, values):
        return max((abs(a / b - 1) for a, b in zip(values_of[words], values) if b), default=0)

    def number(values):
        values = without_still(values)
        alike = [words for words in dict.fromkeys(lists + recorded) if same_list(values_of[words], values)]
        words = min(alike, key=lambda one: apart(one, values)) if alike else ' '.join('%.7g' % x for x in values)
        values_of.setdefault(words, values)
        if words not in lists:
            lists.append(words)
        return lists.index(words)

    for case in [one['name'] for one in read_cases()]:
        shared = {}
        for name, one in found.get(case, {}).items():
            layers = one.get('layers', {})
            cells = {kind: '-' if value is None else '%d %.7g' % (number(value[0]), value[1])
                     for kind, value in layers.items()}
            full, sliding = cells.get('full', cells.get('all', '')), cells.get('sliding', '')
            error = ' '.join(one.get('error', '').split())[:100].rstrip()
            most = one.get('max_len')
            shared.setdefault((full, sliding, error), []).append(name + ('/%d' % most if most else ''))
        rows += [[case, *key, ' '.join(names)] for key, names in shared.items()]
    for name, header, lines in (
            ('readings.tsv', ['case', 'full', 'sliding', 'error', 'engines'], rows),
            ('frequencies.tsv', ['frequencies'], [[words] for words in lists])):
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write(''.join('\t'.join(line) + '\n' for line in [header] + lines))


def without_still(frequencies):
    """Without the pairs at the end that are at rest, which some engines list and others do not."""
    n = len(frequencies)
    while n and frequencies[n - 1] == 0:
        n -= 1
    return list(frequencies[:n])


# ---- what ./run says ----

def told(name, case):
    return name + (':max_len=%d' % case['max_len'] if case.get('max_len') else '')


def says(names, case, program=RUN):
    """{name: what --engines says}: the JSON of each kind's row, as {'verdict', 'max_len', 'notes', ...}; and for those that
    are not refused what --explain --reading says: 'layers'."""
    path = write(in_work('case.json'), json.dumps(case['config']))
    length, out = case['length'], {}
    for start in range(0, len(names), 8):
        some = [told(name, case) for name in names[start:start + 8]]
        result = run('--engines=' + ','.join(some), '--json', '--rope-config', path, '-n', length, program=program)
        rows = json.loads(result.out)['rows']
        for name in some:
            own = [row for row in rows if row['engine'] == name]
            out[name] = {'verdicts': {row['verdict'] for row in own}, 'notes': [row['note'] for row in own if row['note']],
                         'max_len': own[0]['max_len'] if own else None, 'words': result.out[-300:]}
    for name, one in out.items():
        if one['verdicts'] & {'refused', 'not looked at'} or not one['verdicts']:
            continue
        result = run('--explain', '--reading', name, '--rope-config', path, '-n', length, '--tsv', program=program)
        notes, _, rows = table(result.out) if not result.status else ({}, [], [])
        layers = {}
        for row in rows:
            layers.setdefault(row.get('layers', 'full'), []).append(float(row['scaled_inv_freq']))
        one['layers'] = {kind: [values, float(notes.get('attention_factor_' + kind, notes.get('attention_factor', 1)))]
                         for kind, values in layers.items()}
        one['trouble'] = result.err.strip()
    return out


def of_kind(layers, kind):
    """What an engine has for a kind of layers; one that has one RoPE has it for all."""
    return layers[kind] if kind in layers else layers.get('all')


def key_of(error):
    return re.sub(r'^\w*ValidationError$', 'ValueError', error.split(':')[0])


def differences(said, found):
    """In words, where what is said is not what was computed. A refusal is compared by the class of its error."""
    if said['verdicts'] == {'not looked at'} or not said['verdicts']:
        return ['said nothing (%s)' % said['words'], 'true %s' % (found.get('error') or 'taken')]
    is_refused = 'refused' in said['verdicts']
    if is_refused or 'error' in found:
        here, there = (said['notes'] or ['taken'])[0] if is_refused else 'taken', found.get('error', 'taken')
        return [] if key_of(here) == key_of(there) else ['said %s' % here, 'true %s' % there]
    out = [said['trouble']] if not said['layers'] and any(found['layers'].values()) else []
    for kind, (here, a) in said['layers'].items():
        true = of_kind(found['layers'], kind)
        if true is None:
            out.append('%s layers turn, true they do not' % kind)
            continue
        x, y = without_still(here), without_still(true[0])
        if len(x) != len(y):
            out.append('%s: %d pairs turn, true %d' % (kind, len(x), len(y)))
        else:
            worst = max(range(len(x)), key=lambda i: abs(x[i] / y[i] - 1), default=None)
            if x and abs(x[worst] / y[worst] - 1) > LOOSE:
                out.append('%s: pair %d turns by %.6g, true %.6g' % (kind, worst, x[worst], y[worst]))
        if abs(a / true[1] - 1) > LOOSE:
            out.append('%s: a %.6g, true %.6g' % (kind, a, true[1]))
    for kind, true in found['layers'].items():
        if true and kind != 'all' and len(said['layers']) > 1 and kind not in said['layers']:
            out.append('%s layers do not turn, true they do' % kind)
    if found.get('max_len') and said['max_len'] != found['max_len']:
        out.append('max_len %s, true %s' % (said['max_len'], found['max_len']))
    return out
