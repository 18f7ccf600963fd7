#!/usr/bin/env python3
"""The meanings of configs: the rows of tests/readings (see readings.py) by the program, the exporter and the engines'
readings, against tests/reference.py."""

import json
import math
import os
import re

from common import METHODS, ROOT, case, check, close, main, one_line, run, says, table, tiny_model
from readings import FAMILIES, FULL, SLIDING, base, config_of, exporter_says, reading, rows, saved, turning

WITHOUT_ROPE, TURNS_AS_SLIDING = 2, 4
FIELDS = ['rope_method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow',
          'attention_factor', 'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor']
UNSEEN = 'not looked at'


def refusal(row):
    """The words of it."""
    said = row['refused']
    return said if isinstance(said, list) else [said if ' ' in said else said + ' cannot be used']


def warnings_of(result, path):
    before = 'run: warning: %s: ' % path
    return [line[len(before):] for line in result.err.splitlines() if line.startswith(before)]


# ---- the doors ----

def lengths_of(row):
    """The lengths of a short and a long text, and between them the length that the settings are for."""
    if 'n' in row:
        return row['n'] if isinstance(row['n'], list) else [row['n']]
    meant = [reading(row, row[kind]) for kind in ('full', 'sliding') if row.get(kind)]
    most = min(max(c['train_ctx'] for c in meant), 1 << 17)
    by_length = any(c['rope_dynamic'] or c['n_longrope'] for c in meant)
    return [1, most, 3 * most + 1] if by_length else [most + 1]


def explain(row, path):
    """--explain --rope-config: frequencies and attention factors of each kind of layers, notes and warnings."""
    asked = ['--explain', *row.get('given', '').split(), '--rope-config', path]
    if 'refused' in row:
        one_line(run(*asked), 2, row['name'], *refusal(row), *['line '] * ('text' in row))
        return None
    kinds = {kind: row[kind] for kind in ('full', 'sliding') if kind in row}
    alone = 'full' if kinds.get('full') or not kinds else 'sliding'  # of which kind a table without layers is
    for n in lengths_of(row) if kinds else [100]:
        result = run(*asked, '-n', n)
        if not check(result.status == 0, row['name'] + ' is taken', result):
            return None
        notes, _, found = table(result.out)
        turn = {kind for kind in kinds if kinds[kind]}
        check(not kinds or {each.get('layers', alone) for each in found} == turn, 'kinds of layers that turn', notes)
        for kind in turn:
            c = reading(row, kinds[kind])
            f, a = turning(c, n)
            close([float(each['scaled_inv_freq']) for each in found if each.get('layers', alone) == kind], f, 1e-9,
                  '%s: frequencies of %s layers at %d' % (row['name'], kind, n))
            close([float(notes.get('attention_factor_' + kind, notes['attention_factor']))], [a], 1e-9,
                  '%s: attention factor of %s layers at %d' % (row['name'], kind, n))
            if kind == alone:
                check_columns(row, c, notes, [each for each in found if each.get('layers', alone) == kind])
        if 'full' in kinds and not kinds['full'] and 'said' in row:
            check(notes['full'].startswith('no RoPE'), row['name'] + ': full layers have no RoPE', notes)
    wrong = {key: notes.get(key) for key, value in row.get('said', {}).items() if notes.get(key) != value}
    check(not wrong, row['name'] + ': what is said', wrong)
    check('layers' not in row or float(notes.get('temperature_beta', 0)) == row.get('beta', 0), row['name'] + ': beta',
          notes)
    for words in row.get('remarks', ()):
        check(words in result.err, '%s: %s' % (row['name'], words), result.err)
    return warnings_of(result, path)


def check_columns(row, c, notes, found):
    """The other values in a table of one kind of layers."""
    said = {key: c[key] for key in ('theta', 'train_ctx', 'head_dim')}
    said.update({'factor': c['factor']} if c['factor'] else {}, dynamic=c['rope_dynamic'])
    wrong = {key: notes.get(key) for key in said if not math.isclose(float(notes.get(key, 'nan')), said[key])}
    check(not wrong, row['name'] + ': notes', (wrong, said))
    turn = [{key: float(value) for key, value in each.items() if key not in ('layers', 'ramp', 'base')} for each in found
            if float(each['scaled_inv_freq'])]
    of = c['head_dim'] if METHODS[c['rope_method']] == 'proportional' else c['rotary_dim'] or c['head_dim']
    f = [c['theta'] ** (-2 * i / of) for i in range(len(turn))]
    for column, expected in (('inv_freq', f), ('turns', [c['train_ctx'] * x / 2 / math.pi for x in f]),
                             ('wavelength', [2 * math.pi / x for x in f]),
                             ('scaled_wavelength', [2 * math.pi / each['scaled_inv_freq'] for each in turn])):
        close([each[column] / x for each, x in zip(turn, expected)], [1] * len(turn), 1e-9,
              '%s: %s' % (row['name'], column))


def export(row, path):
    """The exporter: a header's fields, refusals, remarks."""
    found, problem, notes, warned = exporter_says(row['text'] if 'text' in row else config_of(row))
    if 'refused' in row:
        check(not found and all(says(problem, words) for words in refusal(row)) and '\n' not in problem,
              'the exporter refuses it: ' + row['name'], problem or found)
        return None
    if not check(found, 'the exporter takes it: ' + row['name'], problem):
        return None
    for words in row.get('remarks', ()):
        check(words in notes + warned, 'the exporter, %s: %s' % (row['name'], words), notes)
    first = row.get('full', row.get('full_unused')) or row.get('sliding')
    wrong = differing(found, reading(row, first), '') if first else {}
    wrong.update(differing(found, reading(row, row['sliding']), 'sliding_') if row.get('sliding') else {})
    check(not wrong, "the exporter's fields: " + row['name'], wrong)
    wrong = {key: found[key] for key, value in row.get('fields', {}).items() if found[key] != value}
    check(not wrong, "the exporter's other fields: " + row['name'], wrong)
    if 'layers' in row:
        flags = found['layers'] or [0] * len(row['layers'])
        said = ''.join('FS'[flag // TURNS_AS_SLIDING] for flag in flags)
        still = [flag & WITHOUT_ROPE for flag in flags if not flag & TURNS_AS_SLIDING]
        check((said, found['sliding_window'], found.get('temperature_beta', 0)) == (
            row['layers'], row.get('window', 0), row.get('beta', 0)), row['name'] + ': layers, window, beta',
            (said, found['sliding_window'], found.get('temperature_beta')))
        check(bool(found.get('sliding_rope')) == ('S' in said) and all(still) == (not row.get('full')) or not still,
              row['name'] + ': what turns', flags)
    return warned


def differing(found, c, prefix):
    """Fields that differ from a reading's meaning; of sliding layers, those with that prefix."""
    names = {field: prefix + field.replace('rope_', '') if prefix else field for field in FIELDS}
    wrong = {name: (found.get(name, 0), c[field]) for field, name in names.items() if found.get(name, 0) != c[field]}
    if not prefix:
        own = {'rope_dynamic': c['rope_dynamic'], 'short_factor': c.get('short_factors', []),
               'long_factor': c.get('long_factors', [])}
        wrong.update({name: (found.get(name), value) for name, value in own.items() if (found.get(name) or 0) != (
            value or 0)})
        if found.get('rotary_dim') or found['head_dim'] != (c['rotary_dim'] or c['head_dim']):
            check(found['rotary_dim'] == (c['rotary_dim'] or c['head_dim']), 'what turns of a head', found['rotary_dim'])
    return wrong


def engines(row, path):
    said = row['refused'] if isinstance(row['refused'], list) else [row['refused']]
    one_line(run('--engines', *row.get('given', '').split(), '--rope-config', path), 2, 'engines: ' + row['name'], *said)


def in_force(row, path):
    one_line(run('--explain', '--reading', 'hf5', '--rope-config', path), 2, 'hf5: ' + row['name'], row['refused'])


DOORS = {'explain': explain, 'export': export, 'engines': engines, 'reading': in_force}


def ask(row):
    with case(row['name']):
        path = saved(row['text'] if 'text' in row else config_of(row))
        told = {door: DOORS[door](row, path) for door in row.get('doors', 'explain export').split()}
        told = {door: lines for door, lines in told.items() if lines is not None}
        if 'warned' in row:
            check(all(lines == row['warned'] for lines in told.values()), 'the warnings: ' + row['name'], told)
        elif 'explain' in told:  # of settings that are there twice, and no others
            lines = [line for line in told['explain'] if not line.endswith('is explained, and not run yet') and
                     'nor is there one beside it' not in line]
            check('remarks' in row or len(lines) == row.get('warnings', 0), 'warnings: ' + row['name'], lines)
        check('remarks' in row or len({json.dumps(lines) for lines in told.values()}) <= 1, 'all warn of the same', told)


def test_meanings():
    for row in rows('meanings'):
        ask(row)


def test_layered():
    for row in rows('layered'):
        ask(row)


def test_explained():
    for row in rows('explained'):
        ask(row)


def test_refused():
    for row in rows('refused'):
        ask(row)


def test_warned():
    for row in rows('warned'):
        ask(row)


# ---- keys of other families ----

def of_family(family, **more):
    values = {'model_type': family.model_type, 'hidden_size': 512, 'num_attention_heads': 8, 'num_hidden_layers': 2, **more}
    if family.rope.only_key not in ('', 'rope_theta'):
        values[family.rope.only_key] = 'rope'
    if family.rope.grows:
        values['rope_parameters'] = {**family.default('rope_parameters'), 'original_max_position_embeddings': 1024}
    return values


def explained(values):
    done = run('--explain', '--rope-config', saved(values), '-n', 10)
    return done, [line for line in done.out.splitlines() if not line.startswith('# length')]


def test_foreign():
    """In every family a key of another one is named, or refused, or read: its row has it, or it changes what is
    explained."""
    for row in rows('foreign'):
        asked = 0
        for family in FAMILIES.values():
            plain, lines = explained(of_family(family))
            if family.own or family.rope.none or family.model_type == 'zamba2':  # whose own key says whether it turns
                continue
            asked += 1
            for some in [{key: value} for key, value in row['with'].items()] if 'one_by_one' in row else [row['with']]:
                done, found = explained({**of_family(family), **some})
                what = '%s, %s' % (row['name'], family.model_type)
                if 'silent' in row:
                    check(done.status == 0 and found == lines and done.err == plain.err, what, done)
                    continue
                missed = [key for key in some if not re.search(r'\b%s\b' % key, done.err) and
                          key not in family.keys.by_layer]
                check(not missed or done.status == 0 and found != lines, what, (missed, done))
        check(asked > 90, 'families', asked)


# ---- engines ----

def of_kinds(lines):
    return lines if isinstance(lines, dict) else {'full': lines}


def check_reading(row, engine, lines, path):
    """The settings in force by --reading ENGINE."""
    what, n = '%s, %s' % (row['name'], engine), row['n']
    done = run('--explain', '--reading', engine, '--rope-config', path, '-n', n)
    if lines is None or str(lines).startswith('!'):
        one_line(done, 2, what + ' refuses', *([engine, 'refuses this config'] if not lines else [lines[2:]]))
        return
    if not check(done.status == 0, what + ' takes it', done):
        return
    notes, _, found = table(done.out)
    for kind, line in of_kinds(lines).items():
        f, a = turning(reading(row, line), n)
        own = [float(each['scaled_inv_freq']) for each in found if each.get('layers', 'full') == kind]
        check(len(own) == len(f) and all(x == y or y and abs(x / y - 1) < 1e-6 for x, y in zip(own, f)),
              '%s: frequencies of %s layers' % (what, kind), (own[:3], f[:3]))
        close([float(notes.get('attention_factor_' + kind, notes.get('attention_factor')))], [a], 1e-6,
              '%s: attention factor of %s layers' % (what, kind))


def test_engines():
    """The engines' readings of a config: verdicts, notes, lengths, and the settings in force."""
    for row in rows('engines'):
        with case(row['name']):
            path = saved(config_of(row))
            names = list(dict.fromkeys(name for key in ('read', 'verdicts', 'notes', 'max_len') for name in row.get(key, ())))
            result = run('--engines=' + ','.join(name for name in names if name != 'rope.c'), '--rope-config', path, '-n',
                         row.get('n', 100))
            notes, _, found = table(result.out)
            check(result.status in (0, 1, 3) and found, row['name'] + ': a table', result)
            check('reference' not in row or notes['reference'] == row['reference'], row['name'] + ': reference', notes)
            check('status' not in row or result.status == row['status'], row['name'] + ': status', result)
            for engine, lines in row.get('read', {}).items():
                check_reading(row, engine, lines, path)
            for key, column in ('verdicts', 'verdict'), ('methods', 'method'), ('max_len', 'max_len'):
                for engine, value in row.get(key, {}).items():
                    own = {each[column] for each in found if each['engine'] == engine}
                    check(own == {str(value)}, '%s, %s: %s' % (row['name'], engine, column), own)
            for engine, words in row.get('notes', {}).items():
                told = ' '.join(each['note'] for each in found if each['engine'] == engine)
                check(all(word in told for word in ([words] if isinstance(words, str) else words)),
                      '%s, %s: the note' % (row['name'], engine), told)
            others = {each['engine'] for each in found if each['verdict'] not in ('same', 'taken', UNSEEN)}
            check(others <= {each['engine'] for each in found if each['note'] != '-'}, 'a note says why', found)


# ---- families without a row, and layers without RoPE ----

def test_unknown_families():
    """A model_type without a row is interpreted as a Llama or DeepSeek's where the keys suffice, and a line names the
    assumptions; engines were not looked at with it. The exporter, which cannot run it, says how to see that."""
    for row in rows('unknown'):
        ask(dict(row, doors='explain'))
        with case(row['name'] + ', by others'):
            path = saved(config_of(row))
            done = run('--engines', '--rope-config', path)
            check({each['verdict'] for each in table(done.out)[2]} == {UNSEEN} and row['remarks'][0] in done.err,
                  row['name'], done)
            check('no engine was looked at' in run('--rope-json', '--rope-config', path).out, 'its block', row['name'])
            problem = exporter_says(config_of(row))[1]
            check('docs/checkpoints.md' in problem and '--explain --rope-config' in problem, 'the exporter', problem)


def test_explained_alone():
    """Families that are explained and not run: each door says so."""
    for row in rows('alone'):
        with case(row['name']):
            values = config_of(row)
            result = run('--explain', '--rope-config', saved(values))
            words = 'model_type %s is explained, and not run yet' % values['model_type']
            check(result.status == 0 and words in result.err, row['name'], result.err)
            problem = exporter_says(values)[1]
            check('this one is explained: ./run --explain --rope-config' in problem and '\n' not in problem,
                  'the exporter', problem)


def test_still():
    """Families without RoPE, and layers that have none by their config: --explain says so, and there is nothing to
    write or to try."""
    for row in rows('still'):
        with case(row['name']):
            path = saved(config_of(row))
            result = run('--explain', '--rope-config', path, '-n', 100000)
            settings, _, found = table(result.out)
            check(not found and settings['layers'].startswith('no RoPE'), row['name'], result.out)
            check('try --rope' not in result.err, 'no advice', result.err)
            if row.get('doors') == 'explain':
                continue
            result = run('--rope-json', '--rope-config', path)
            check(result.status == 2 and 'its family has no RoPE' in result.err and not result.out, 'to write', result)
            done = run('--engines', '--rope-config', path)
            check(done.status in (0, 1, 3) and 'no RoPE' in done.out, 'engines, which may have no class for it', done)
            one_line(run(tiny_model('still.bin'), '--explain', '--rope-config', path), 2, 'nothing to try', 'model_type')


def test_padded_numbers():
    """Numbers of layers as the library writes them for more than ten layers: "05" is layer 5."""
    types = [FULL if layer % 6 == 5 else SLIDING for layer in range(12)]
    shown = [run('--explain', '--rope-config', saved(base(
        'small', model_type='gemma4_text', num_hidden_layers=12, layer_types=types, per_layer_config={
            form % layer: {'head_dim': 512} for layer in (5, 11)})), '-n', 4096).out for form in ('%d', '%02d', '%04d')]
    check(shown[0] == shown[1] == shown[2] and shown[0].count('\nfull\t') == 256, 'layers under padded numbers', shown)


def test_unseen():
    """Unverified facts of families that are only explained are not printed."""
    folder = os.path.join('tests', 'configs', 'explained')
    check({row['file'] for row in rows('explained') if 'file' in row} | {folder + '/granite-hybrid-tiny.json'} == {
        os.path.join(folder, name) for name in os.listdir(os.path.join(ROOT, folder))}, 'a row for each file')
    for name in os.listdir(os.path.join(ROOT, folder)):
        found = table(run('--engines', '--rope-config', os.path.join(ROOT, folder, name)).out)[2]
        family = family_in(name)
        seen = {engine.partition('@')[0] for engine in family.seen} if family else set()
        check({each['verdict'] for each in found if each['engine'] not in seen} <= {UNSEEN}, 'verdicts of ' + name, found)
        check(all(each['facts'] == '-' for each in found if each['verdict'] == UNSEEN), 'facts of ' + name, found)


def family_in(name):
    """The family of a config of tests/configs/explained."""
    with open(os.path.join(ROOT, 'tests', 'configs', 'explained', name), encoding='utf-8') as file:
        whole = json.load(file)
    inside = next((whole[key] for key in ('text_config', 'llm_config') if isinstance(whole.get(key), dict)), whole)
    kinds = {inside.get('model_type'), whole.get('model_type')}
    return next((family for family in FAMILIES.values()
                 if kinds & {family.model_type, *family.aliases, *family.wrapped_in}), None)


# ---- the tables of tests/configs, and docs/explained.tsv ----

def document(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


def cards(table):
    """(name of a config, cells) of the rows of a table of tests/configs."""
    for line in document('tests', 'configs', table + '.tsv').splitlines()[1:]:
        file, _, *cells = line.split('\t')
        yield os.path.basename(file)[:-len('.json')], cells


def whole(text):
    return int(text.split()[0].replace(',', ''))


def as_written(cell, values, what):
    """The numbers of a cell are these, rounded to the digits that are there."""
    found = re.findall(r'\d[\d,]*(?:\.\d+)?', cell)
    bad = [(text, value) for text, value in zip(found, values)
           if abs(float(text.replace(',', '')) - value) > 0.5001 * 10.0 ** -len(text.partition('.')[2])]
    check(len(found) == len(values) and not bad, what, '%s: %s, not %s' % (cell, bad, values))


def waves(f):
    return [2 * math.pi / f[0], 2 * math.pi / f[-1]]


def test_cards():
    """A row for each published config, and its cells are the config's meaning."""
    check({row['file'] for row in rows('cards')} == {'tests/configs/' + name for name in os.listdir(os.path.join(
        ROOT, 'tests', 'configs')) if name.endswith('.json')} == {
            'tests/configs/%s.json' % name for name, _ in cards('meaning')}, 'a row for each config, and a config for each row')
    for row in rows('cards'):
        ask(row)
    for name, cells in cards('meaning'):
        block = re.search(r'(\{.*\})', cells[0])
        block = json.loads('{%s}' % block.group(1)[1:-1]) if block else None
        row = next(row for row in rows('cards') if row['file'] == 'tests/configs/%s.json' % name and row.get(
            'with', {}).get('rope_scaling') == block)
        with case('%s at %s' % (row['name'], cells[1])):
            check_card(row, block, cells)


def check_card(row, block, cells):
    _, at, method, wave, turns, divisors, attention, window, layers = cells
    c, n, fields, name = reading(row, row['full']), whole(at), row['fields'], METHODS[reading(row, row['full'])['rope_method']]
    f, (scaled, a) = turning(dict(c, rope_method=0), n)[0], turning(c, n)
    if block:  # alone, beside the rest of the config's settings
        whole_one, alone = (run('--explain', *given, '-n', n, '--rope-config', path).out for given, path in (
            ([], saved(config_of(row))), (['--head-dim', c['head_dim'], '--theta', c['theta']], saved(block, 'block'))))
        check(table(whole_one)[2] == table(alone)[2], 'the block alone', alone)
    check(method.split()[0] == name, 'the method of the table', method)
    as_written(method.replace('llama3', ''), [c['train_ctx']] + [c['factor']] * (name != 'none'), 'factor')
    as_written(wave, waves(f) + waves(scaled) * (f != scaled), 'wavelengths')
    as_written(turns, [c['train_ctx'] / x for x in waves(f)], 'turns')
    e = [x / y for x, y in zip(f, scaled)]
    kept, divided = sum(abs(x - 1) < 1e-9 for x in e), sum(abs(x / c['factor'] - 1) < 1e-9 for x in e) if c['factor'] else 0
    as_written(divisors, [e[0], e[-1]] if name == 'longrope' else [kept] if name == 'none' else [
        kept, len(e) - kept - divided, divided], 'divisors')
    as_written(attention, [a], 'attention factor')
    as_written(window, [fields['sliding_window']] * (fields['sliding_window'] > 0), 'window')
    still = sum(flag > 0 for flag in fields['layers'])
    as_written(layers, [fields['n_layers'] - still] + [fields['n_layers']] * (still > 0), 'layers')


def test_cards_of_layers():
    """Readings of configs whose layers differ."""
    check({row['file'] for row in rows('by_layer')} == {'tests/configs/by_layer/' + name for name in os.listdir(
        os.path.join(ROOT, 'tests', 'configs', 'by_layer'))}, 'a row for each config')
    for row in rows('by_layer'):
        ask(row)
    found = dict(cards('meaning_by_layer'))
    check(len(found) == len(rows('by_layer')), 'a row of the document for each', list(found))
    for row in rows('by_layer'):
        at, full, attention, sliding, window, layers, times = found[os.path.basename(row['file'])[:-5]]
        with case(row['name'] + ' in the document'):
            n, c = whole(at), reading(row, row['full'])
            for kind, cell in ('full', full), ('sliding', sliding):
                check_kind(row.get(kind), reading(row, row[kind]) if kind in row else None, n, cell)
            as_written(attention, [turning(c, n)[1]], 'a')
            as_written(window, [row.get('window')] * ('sliding' in row), 'window')
            beta = row.get('beta', 0)
            as_written(times, [1 + beta * math.log(1 + (n - 1) // c['train_ctx'])], 'growth')
            check(layers == row.get('said', {}).get('layers_full', 'all'), 'layers', layers)


def check_kind(line, c, n, cell):
    """A cell about layers of one kind."""
    if not c:
        check(cell == 'all alike', 'one kind', cell)
        return
    method, f = line.split()[0], turning(c, n)[0]
    turn = [x for x in f if x]
    check(re.split('[ ,]', cell)[0] == method, 'method', cell)
    said = [c['train_ctx']] * (method == 'yarn') + [c['factor']] * (c['factor'] > 1) + [c['theta']] + waves(turn)
    as_written(cell, said + [len(turn), len(f)] * (len(f) > len(turn)), 'a kind')


def test_commands():
    """Those of the document that need nothing of the reader's own."""
    found = re.findall(r'^    \./run (--explain --rope-config tests/.*)$', document('docs', 'checkpoints.md'), re.M)
    check(len(found) == 3, 'commands of the document', found)
    for command in found:
        done = run(*[os.path.join(ROOT, word) if '/' in word else word for word in command.split()])
        check(done.status == 0, command, done)


def test_list():
    """docs/explained.tsv names the families that are explained and not run, and no others."""
    rows = [line.split('\t') for line in document('docs', 'explained.tsv').splitlines() if line[0] != '#'][1:]
    told = {row[0] for row in rows}
    check(all(len(row) == 3 for row in rows), 'three columns', rows)
    alone = [family for family in FAMILIES.values() if not family.runs]
    names = {name for family in alone for name in (family.model_type, *family.aliases, *family.wrapped_in)}
    check(told == names, 'docs/explained.tsv has too many, and too few', (told - names, names - told))


if __name__ == '__main__':
    main(globals())
