"""Configs, and how engines read them: tests/conformance. The recipes of tests/world write the packages' results;
readings of older or unpublished releases were recorded before."""

import functools
import hashlib
import json
import os
import re

from common import RUN, ROOT, compiled, in_work, run, table, write

SET = os.path.join(ROOT, 'tests', 'conformance', 'cases.json')
LOOSE = 2e-4  # between a frequency or a factor that was said and one that was computed, some in float32
REFERENCES = 'hf5@5.24', 'hf4@4.57'  # the meaning of a config to transformers: the first that takes it
KINDS = 'all', 'full', 'sliding'
# Kinds of refusals, and words in their errors: the first that fits.
REFUSALS = {
    'too_long': 'greater than the derived',
    'unknown_model': 'rchitecture|[Mm]odel.type|[Mm]odel class',
    'unknown_rope_type': 'Unknown RoPE|Unknown rope_type|Unsupported',
    'missing_key': 'KeyError|[Mm]issing',
    'wrong_type': 'TypeError|AttributeError|StrictDataclass',
    'wrong_value': ''}


@functools.lru_cache(None)
def whole_set():
    with open(SET, encoding='utf-8') as file:
        return json.load(file)


def read_cases():
    """[{name, length, config}], one a line in the file, with the facts about its layers."""
    return [{key: value for key, value in one.items() if key not in ('meant', 'readings', 'max_len_of')}
            for one in whole_set()['cases']]


def read_found():
    """{case: {engine: found}}; found is {'error'} or {'layers': {kind: [frequencies, a] or None}, 'max_len'}."""
    lists, out = whole_set()['frequencies'], {}
    for one in whole_set()['cases']:
        known = out.setdefault(one['name'], {})
        for reading in one.get('readings', ()):
            for name in reading['engines']:
                layers = {kind: reading[kind] and [lists[reading[kind][0]], reading[kind][1]]
                          for kind in KINDS if kind in reading}
                known[name] = {'error': reading['error']} if 'error' in reading else {
                    'layers': layers, 'max_len': one.get('max_len_of', {}).get(name)}
    return out


def refusal_of(error, config):
    """The kind of a refusal. An error that is only a word names a model type or a rope_type that is not known."""
    word = re.fullmatch(r"\w+: '([\w.-]+)'", error)
    if word and '"%s"' % word.group(1) in re.findall(r'"\w*type": ("[^"]*")', json.dumps(config)):
        return 'unknown_model' if word.group(1) == config.get('model_type') else 'unknown_rope_type'
    return next(kind for kind, words in REFUSALS.items() if re.search(words, error))


def same_list(x, y):
    return len(x) == len(y) and all(a == b or (b and abs(a / b - 1) < 1e-5) for a, b in zip(x, y))


def rounded(x):
    return float('%.7g' % x)


class Lists:
    """Frequencies by a name that is made of them. A list that agrees with a recorded one is replaced by it, to the last
    digit, so that a new run changes only lists that differ."""

    def __init__(self):
        self.recorded, self.used = dict(whole_set()['frequencies']), {}

    def name(self, values):
        values = without_still(values)
        alike = [name for name, known in self.recorded.items() if same_list(known, values)]
        if not alike:
            values = [rounded(x) for x in values]
            alike = [hashlib.md5(json.dumps(values).encode()).hexdigest()[:8]]
            self.recorded[alike[0]] = values
        name = min(alike, key=lambda one: max((abs(a / b - 1) for a, b in zip(self.recorded[one], values) if b), default=0))
        self.used[name] = self.recorded[name]
        return name


def readings_of(config, found, lists):
    """The rows of a case: engines that agree share one."""
    shared = {}
    for name, one in found.items():
        error = ' '.join(one.get('error', '').split())[:100].rstrip()
        row = {'error': error, 'refusal': refusal_of(error, config)} if error else {
            kind: one['layers'][kind] and [lists.name(one['layers'][kind][0]), rounded(one['layers'][kind][1])]
            for kind in KINDS if kind in one['layers']}
        shared.setdefault(json.dumps(row), []).append(name)
    return [dict(json.loads(row), engines=names) for row, names in shared.items()]


def releases_of(found):
    """{engine: which packages computed its readings, or that they were recorded}, those first that are pinned."""
    with open(os.path.join(ROOT, 'tests', 'world.json')) as file:
        pinned = json.load(file)['engines']
    names = {name for one in found.values() for name in one}
    in_order = [name for name in pinned if name in names] + sorted(names - set(pinned))
    return {name: {'packages': pinned[name]} if name in pinned else {'recorded': 'tests/engines/sources.tsv'}
            for name in in_order}


def write_found(found, path=SET):
    """The inverse of read_found."""
    lists, cases, releases = Lists(), [], releases_of(found)
    for one in read_cases():
        of_case = found.get(one['name'], {})
        known = {name: of_case[name] for name in releases if name in of_case}
        meant = [name for name in REFERENCES if 'layers' in known.get(name, {})]
        most = {name: value['max_len'] for name, value in known.items() if value.get('max_len')}
        cases.append(dict(one, meant=meant[0] if meant else None, readings=readings_of(one['config'], known, lists), max_len_of=most))
    parts = dict(whole_set(), releases=releases, frequencies=dict(sorted(lists.used.items())), cases=cases)
    with open(path, 'w', encoding='utf-8') as file:
        file.write('{\n' + ',\n'.join(' %s: %s' % (json.dumps(key), laid_out(value)) for key, value in parts.items()))
        file.write('\n}\n')


def laid_out(value):
    """JSON with a line for each part of a list or an object."""
    if isinstance(value, dict):
        rows = ['%s: %s' % (json.dumps(key), json.dumps(one)) for key, one in value.items()]
        return '{\n' + ',\n'.join('  ' + row for row in rows) + '\n }'
    if isinstance(value, list):
        return '[\n' + ',\n'.join('  ' + json.dumps(one) for one in value) + '\n ]'
    return json.dumps(value)


def without_still(frequencies):
    """Without the pairs at the end that are at rest, which some engines list and others do not."""
    n = len(frequencies)
    while n and frequencies[n - 1] == 0:
        n -= 1
    return list(frequencies[:n])


# ---- the answers of ./run ----

def told(name, case):
    return name + (':max_len=%d' % case['max_len'] if case.get('max_len') else '')


def says(names, case, program=RUN):
    """{name: the answer of --engines}: the JSON of each kind's row, as {'verdict', 'max_len', 'notes', ...}; and for
    those that are not refused the output of --explain --reading: 'layers'."""
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


def says_in_c(asked):
    """The result of `says`, for many (names, case) in one process, by the functions that ./run calls."""
    texts = ['%s\n%d\n%s' % (','.join(told(name, case) for name in names), case['length'], json.dumps(case['config']))
             for names, case in asked]
    path = write(in_work('asked'), ''.join(text + '\0' for text in texts))
    lines = iter(run(path, program=compiled('tests/read_engines.c', 'same')).out.splitlines())
    all_said = []
    for names, case in asked:
        out = {told(name, case): {'verdicts': set(), 'notes': [], 'max_len': None, 'layers': {}, 'trouble': ''} for name in names}
        for line in lines:
            if '\t' not in line:
                break
            name, kind, verdict, most, note, *values = line.split('\t')
            one = out[name]
            if not one['verdicts']:
                one['max_len'] = int(most) or None
            one['verdicts'].add(verdict)
            one['notes'] += [note] if note else []
            if values:
                one['layers'][kind] = [[float(x) for x in values[1].split()], float(values[0])]
        for one in out.values():
            one['words'] = line
        all_said.append(out)
    return all_said


def of_kind(layers, kind):
    """An engine's values for a kind of layers; an engine with one RoPE has it for all."""
    return layers[kind] if kind in layers else layers.get('all')


def key_of(error):
    return re.sub(r'^\w*ValidationError$', 'ValueError', error.split(':')[0])


def differences(said, found):
    """In words, the differences between ./run's answer and the computed result. A refusal is compared by the class of
    its error."""
    if not said['verdicts'] and 'error' not in found and not any(found['layers'].values()):
        return []  # no layer turns, and there is no row
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
