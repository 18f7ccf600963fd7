#!/usr/bin/env python3
"""--rope-config: the cases of rope_cases.py, which the exporter is held to as well, Hugging Face's own numbers, the way
there and back with --rope-json, and what is refused."""

import json
import os
import random
import shutil
import struct
import sys

import kept
import reference
from common import (GOLDEN, METHODS, ROOT, check, close, config, exports, good, in_work, main, one_line, perplexity,
                    random_ids, random_weights, run, table, takes_long, tiny_model, with_header, write, write_model)
from rope_cases import (ALIKE, BY_LAYER, CONTRADICTIONS, FAMILIES, LISTS, LONG, NO_CONTRADICTION, NOTHING, ORIGINAL,
                        PHI_REFUSED, REFUSED, SPELLINGS, changed, family)
from test_golden import exported

sys.path.insert(0, ROOT)
from export import common as export_common  # noqa: E402
from export.config import read_config  # noqa: E402

LLAMA = {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'hidden_size': 24, 'num_attention_heads': 4,
         'max_position_embeddings': 256, 'rope_theta': 10000.0}
# What the exporter wants of a config besides.
BESIDES = {'vocab_size': 40000, 'intermediate_size': 20, 'num_hidden_layers': 1, 'num_key_value_heads': 2}
CASES = [(name, changed(LLAMA, **changes), dict({'head_dim': 6}, **fields)) for name, changes, fields in SPELLINGS]
CASES += FAMILIES
BAD = [(name, changed(LLAMA, **changes), key) for name, changes, key in REFUSED] + PHI_REFUSED


def saved(values, name='config.json'):
    return write(in_work(name), values if isinstance(values, (str, bytes)) else json.dumps(values, indent=1))


def explained(*arguments):
    settings, _, rows = table(good('--explain', *arguments).out)
    return settings, [float(row['scaled_inv_freq']) for row in rows]


def exporter_says(values):
    """The exporter's fields, or the reason why not; its notes."""
    os.makedirs(in_work('folder'), exist_ok=True)
    write(os.path.join(in_work('folder'), 'config.json'), json.dumps(dict(BESIDES, **values)))
    job = export_common.Job()
    try:
        return vars(read_config(job, in_work('folder')).model), '', job.notes
    except export_common.Problem as problem:
        return None, str(problem), job.notes


def test_meaning():
    """The program's frequencies are those of the fields, by tests/reference.py, at every length; the exporter's fields
    are these fields."""
    for name, values, fields in CASES:
        fields = dict(NOTHING, **fields)
        expected = config(**{key: value for key, value in fields.items() if key not in ('short', 'long')},
                          short_factors=fields['short'], long_factors=fields['long'])
        L, path = fields['train_ctx'], saved(values)
        for length in (L, 3 * L + 1):
            settings, f = explained('--rope-config', path, '-n', length)
            close(f, reference.rope(expected, length)[0], 1e-9, 'frequencies at %d: %s' % (length, name))
            close([float(settings['attention_factor'])], [reference.rope(expected, length)[1]], 1e-9,
                  'attention factor at %d: %s' % (length, name))
        said = {'theta': fields['theta'], 'train_ctx': L, 'dynamic': fields['rope_dynamic']}
        said.update({'factor': fields['factor']} if fields['factor'] else {})
        close([float(settings[key]) for key in said], [float(value) for value in said.values()], 1e-9, name)
        found, problem, _ = exporter_says(values)
        if check(found, 'the exporter takes it: ' + name, problem):
            found = dict(NOTHING, **found, short=found.get('short_factor', []), long=found.get('long_factor', []))
            found['head_dim'] = found.get('rotary_dim') or found['head_dim']
            wrong = {key: (found[key], value) for key, value in fields.items() if found[key] != value}
            check(not wrong, 'the exporter\'s fields: ' + name, wrong)


def test_refused():
    for name, values, key in BAD:
        one_line(run('--explain', '--rope-config', saved(values)), 2, name, key + ' cannot be used', 'line ')
        found, problem, _ = exporter_says(values)
        check(not found and key in problem, 'the exporter refuses it: ' + name, problem)
    block = {'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 64, 'rope_theta': 1e4}
    for key, value, found in (('factor', '"4"', '"4"'), ('factor', '0.5', '0.5'),
                              ('factor', 'true', 'true'), ('factor', 'NaN', 'NaN'),
                              ('factor', '-Infinity', '-Infinity'), ('factor', '1e999', '1e999'),
                              ('beta_fast', '[1]', 'a list'), ('factor', '9' * 5000, '9' * 40), ('mscale', '-1', '-1'),
                              ('truncate', '0', '0'),
                              (ORIGINAL, '64.5', '64.5'), (ORIGINAL, '9' * 30, '9' * 30),
                              ('rope_theta', 'null', 'null'),
                              ('attention_factor', '{}', 'an object'), ('beta_fats', '32', '32'), ('', '1', '1')):
        text = json.dumps(changed(block, **{key: '@'}), indent=1).replace('"@"', value)
        line = 1 + text[:text.index('"%s"' % key)].count('\n')
        one_line(run('--explain', '--head-dim', 8, '--rope-config', saved(text)), 2, '%s is %.20s' % (key, value),
                 'config.json: line %d: %s cannot be used (found %s, ' % (line, key, found), 'expected ')


def warnings_of(lines, prefix):
    """The warnings about a config, without what stands before them."""
    return [line[len(prefix):] for line in lines if line.startswith(prefix)]


def both_warn(name, values):
    """What the program and the exporter warn of, which is the same."""
    path = saved(values)
    result = run('--explain', '--rope-config', path)
    ours = warnings_of(result.err.splitlines(), 'run: warning: %s: ' % path)
    found, problem, notes = exporter_says(values)
    theirs = warnings_of(notes, 'warning: %s: ' % os.path.join(in_work('folder'), 'config.json'))
    check(result.status == 0 and found, 'both take it: ' + name, (result, problem))
    check(ours == theirs, 'both warn of the same: ' + name, (ours, theirs))
    return ours


def test_contradictions():
    """Two settings that contradict each other: both readers say which one counts, in the same words, and it does."""
    for name, values, words in CONTRADICTIONS:
        values = values if 'model_type' in values else changed(LLAMA, **values)
        check(both_warn(name, values) == [words], 'the warning: ' + name, both_warn(name, values))
    for name, values in NO_CONTRADICTION:
        values = values if 'model_type' in values else changed(LLAMA, **values)
        check(not both_warn(name, values), 'nothing to warn of: ' + name, both_warn(name, values))
    many = dict(LLAMA, rope_theta=7.0, rope_parameters={'a': 1}, **{ORIGINAL: 128}, rope_scaling={
        'type': 'linear', 'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 64, 'rope_theta': 8})
    check(len(both_warn('many', many)) == 4, 'each has a line of its own', both_warn('many', many))
    for name, values, fields in CASES:
        told = [line for line in both_warn(name, values) if 'nor is there one beside it' not in line]
        check(len(told) == (name in (
            'rope_theta inside goes before beside', 'rope_theta inside rope_scaling too', 'rope_type goes before type',
            'rope_scaling goes before rope_parameters, rope_theta and all', 'original beside goes before inside')) or
            'rope_theta' in values and 'rope_theta' in str(values.get('rope_parameters')), 'warnings: ' + name, told)
    model = tiny_model('warned.bin', head_dim=6, dim=24, n_heads=4)
    path = saved(dict(LLAMA, rope_theta=7.0, rope_parameters={'rope_theta': 1e4}))
    for job in (['--explain'], ['--rope-json'], ['--ppl', write(in_work('ids.txt'), '1 2 3 4 5 6'), '--ids', '-n', 6]):
        result = good(model, *job, '--rope-config', path)
        check(result.err.count('warning: %s: rope_theta is 7 beside' % path) == 1, 'warned of in ' + job[0], result.err)
    result = good('--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config',
                  saved({'type': 'linear', 'rope_type': 'yarn', 'factor': 2}))
    check('type is linear and rope_type is yarn in the block: yarn counts' in result.err, 'in a block alone', result)


ODD = [None, True, [], {}, '', 'yarn', 'linear', 'su', 'default', 'dynamic', 'llama3', 'longrope', -1, 0, 0.5, 0.99,
       1, 4, 4.0, 64, 256, 1e-300, 1e12, 1e13, '4', [1.0, 1.5, 2], [1], {'a': 1}, {'a': {}}, 1 << 30, 1 << 31, 500000.0]
IN_BLOCK = ['rope_type', 'type', 'factor', 'truncate', 'mscale', 'mscale_all_dim', 'attention_factor', 'beta_fast',
            'beta_slow', 'low_freq_factor', 'high_freq_factor', ORIGINAL, 'partial_rotary_factor', 'short_factor',
            'long_factor', 'unscaled_positions', 'rope_theta', 'finetuned', 'attn_factor', 'name']
BESIDE = ['rope_theta', ORIGINAL, 'partial_rotary_factor', 'max_position_embeddings', 'rope_scaling', 'rope_parameters',
          'rope_local_base_freq', 'no_rope_layer_interval']


@takes_long
def test_random_changes():
    """Whatever is changed about RoPE's keys, both readers take it or neither does, and both warn of the same."""
    rng, taken = random.Random(11), 0
    sources = [values for _, values, _ in CASES + BAD]
    for _ in range(900):
        values = json.loads(json.dumps(rng.choice(sources)))
        for _ in range(rng.randrange(1, 3)):
            blocks = [values[key] for key in ('rope_scaling', 'rope_parameters') if isinstance(values.get(key), dict)]
            inner = blocks and rng.random() < 0.7
            place, key = (rng.choice(blocks), rng.choice(IN_BLOCK)) if inner else (values, rng.choice(BESIDE))
            place[key] = json.loads(json.dumps(rng.choice(ODD)))
        result = run('--explain', '--rope-config', saved(values))
        found, problem, _ = exporter_says(values)
        check((result.status == 0) == bool(found), 'both take it, or none: %s' % json.dumps(values),
              (result.err, problem))
        if result.status == 0:
            both_warn('changed', values)
            taken += 1
    check(taken > 150, 'many are taken', taken)


def test_by_layer():
    """What differs by layer or position is refused by its key, also where the config says no model_type, and no
    engine's reading is shown."""
    bare = changed(LLAMA, model_type=..., architectures=...)
    for name, changes in BY_LAYER:
        key = 'llama_4_scaling_beta' if 'slope' in name else list(changes)[-1]
        for values in dict(LLAMA, **changes), dict(bare, **changes):
            words = 'line ', key + ' cannot be used (found '
            one_line(run('--explain', '--rope-config', saved(values)), 2, name, *words)
            one_line(run('--engines', '--rope-config', saved(values)), 2, 'engines: ' + name, *words)
            one_line(run('--explain', '--reading', 'hf5', '--rope-config', saved(values)), 2, name, *words)
            found, problem, _ = exporter_says(values)
            check(not found and key + ' cannot be used' in problem, 'the exporter refuses it: ' + name, problem)
    for name, changes in ALIKE:
        good('--explain', '--rope-config', saved(dict(LLAMA, **changes)))
        good('--explain', '--rope-config', saved(dict(bare, **changes)))
        found, problem, _ = exporter_says(dict(LLAMA, **changes))
        check(found, 'the exporter takes it: ' + name, problem)
    smollm3 = family('smollm3', 'SmolLM3ForCausalLM', no_rope_layers=[1, 0], no_rope_layer_interval=2,
                     layer_types=['sliding_attention', 'full_attention'])
    good('--explain', '--rope-config', saved(smollm3))
    nested = '{"full_attention": {"rope_type": "linear", "factor": 2}, "sliding_attention": {"rope_theta": 500}}'
    given = ['--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config', saved(nested)]
    _, _, rows = table(good('--explain', *given).out)
    for kind, theta, s in ('full', 1e4, 2), ('sliding', 500, 1):
        close([float(row['scaled_inv_freq']) for row in rows if row['layers'] == kind],
              [theta ** (-i / 4) / s for i in range(4)], 1e-9, 'blocks alone: ' + kind)
    one_line(run('--engines', *given), 2, 'blocks alone have no family', 'model_type')
    one_line(run('--explain', '--rope-config', saved(dict(LLAMA, model_type='unknown_2', rope_local_base_freq=1e4))),
             2, 'a theta of some layers, of which nobody looked', 'rope_local_base_freq cannot be used')


def test_no_model_type():
    """A config without a family is a Llama's, and a line says so; a part of one is not warned about."""
    whole = changed(LLAMA, model_type=..., architectures=...)
    result = good('--explain', '--rope-config', saved(whole))
    check(result.err == "run: warning: %s: there is no model_type, so it is read as a Llama's\n"
          % in_work('config.json'), 'no model_type', result.err)
    expected = good('--explain', '--rope-config', saved(LLAMA))
    check(expected.out == result.out and not expected.err, 'and it is one', result.out)
    check(not good('--explain', '--rope-config', saved(changed(LLAMA, model_type=...))).err, 'architectures say it')
    model = tiny_model('part.bin', head_dim=8, n_heads=4)
    settings, _ = explained(model, '--rope-config', saved(changed(whole, rope_theta=..., hidden_size=32)))
    check((settings['theta'], settings['train_ctx'], settings['head_dim']) == ('10000', '256', '8'),
          "for a model what it leaves out is the model's", settings)
    for text in '{"rope_scaling": {"type": "linear", "factor": 2}}', '{"hidden_size": 32, ..., "rope_theta": 1e4}':
        check('no model_type' not in good(model, '--explain', '--rope-config', saved(text)).err, 'a part: ' + text)


def test_json():
    """What is JSON to Python is JSON here, and the other way round; but for what test_cards_as_copied has, an escape in
    a key, and more than there can be."""
    texts = ['', ' ', '{}', ' {} \n', '[]', '1', '"x"', '{"factor": 1}', '{"rope_theta": 1e4}', '{"rope_theta": 1E+4,, }',
             '{"rope_theta": 010}', '{"rope_theta": .5}', '{"rope_theta": 5.}', '{"rope_theta": 1e}',
             '{"rope_theta" 1}',
             '{"rope_theta": -}', '{"rope_theta": +1}', '{"rope_theta": 0x10}', '{rope_theta: 1}', '{"a": 1} 2',
             '{"rope_theta": 1e4', '{"rope_theta": 1e4]', '{"hidden_size": "\\q"}', '{"hidden_size": "\\',
             '{"x": "\n"}',
             '{"hidden_size": 1, "x": "\\u00e9\\n\\"", "y": [[], {}, [1, [null, true]], {"z": {}}]}', '{"a": nul}',
             '{"hidden_size": 1, "x": [1,]}', '{"hidden_size": 1, "x": [,1]}', '{"hidden_size": 1,, "x": 1}', '\0',
             '{"rope_theta": 2.5}\0', '\ufeff{}', "{'a': 1}", '{"a": 1 /**/}',
             '{"hidden_size": 1, "x": NaN, "y": [-Infinity, Infinity]}', '{"hidden_size": 1, "x": nan}', '[' * 100000]
    texts += ['{"hidden_size": 1, "x": %s}' % x for x in
              (r'"C:\\users"', r'"\\"', r'"\"', r'"\\\u00e9"', '1.5e-3', '-0', '-0.0', '00', '1 2', '"\u00e9"', 'true',
               'True', '"\t"', '"\\u00g0"', '"\\u12',
               '{"a": {"b": 1}, "b": {"a": 1}}')]
    for text in texts:
        result = run('--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config', saved(text))
        try:
            export_common.parse_json('x', text.encode())
            is_json = True
        except export_common.Problem:
            is_json = False
        refused = result.err.startswith('run: ') and ': line ' in result.err and 'cannot be used' not in result.err
        check(refused != is_json and result.status in (0, 2) and result.err.count('\n') <= 1, 'JSON %.60r' % text,
              result)
    base = ['--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config']
    for text in ('{"rope_theta": 2.5, "rope_theta": 2.5}', '{"rope_scaling": {}, "rope_scaling": {}}',
                 '{"max_position_embeddings": 9, "max_position_embeddings": 8}',
                 '{"factor": 2, "type": "linear", "factor": 2}'):
        one_line(run(*base, saved(text)), 2, 'a key twice: ' + text, 'appears twice')
    nest = saved('{"hidden_size": [[1, {"a": "]}", "b": [[], {}]}, "}"], -1.5e3]   , "rope_parameters":{"factor":2}}')
    settings, _ = explained(*base[1:], nest)
    check(settings['method'] == 'none', 'what stands behind a nest', settings)
    settings, _ = explained(*base[1:], saved('{"rope_type": "line\\u0061r", "\\u0066actor": 2}'))
    check((settings['method'], settings['factor']) == ('linear', '2'), 'escapes', settings)
    for depth, status in ((31, 0), (32, 2)):
        result = run(*base, saved('{"hidden_size": %s}' % ('[' * depth + ']' * depth)))
        check(result.status == status, '%d deep' % depth, result)
    spaces = json.dumps(LLAMA).replace('}', ' ' * 300000 + '}' + ' ' * 300000)
    check(run(*base[:1], *base[-1:], saved(spaces)).status == 0, 'many spaces take no time')
    for n, status in ((0, 0), (1, 2)):
        result = run(*base, saved('{}' + ' ' * ((1 << 20) - 2 + n)))
        check(result.status == status, '%d bytes more than there may be' % n, result)
    one_line(run(*base, in_work('absent')), 2, 'no file', 'absent: cannot open')
    one_line(run(*base, in_work('')), 2, 'a folder', 'cannot read')


def test_cards_as_copied():
    """Parts of a config as model cards show them, to the letter, mean what the whole block means."""
    base = ['--head-dim', 16, '--theta', 1e4, '--train-ctx', 64]
    block = '{"rope_type": "yarn", "factor": 4.0, "%s": 32}' % ORIGINAL
    expected = good('--explain', *base, '--rope-config', saved(block)).out
    lines = block.replace('{', '{\n    ').replace(', ', ',\n    ').replace('}', '\n  }')
    for text in ('"rope_scaling": ' + block, '"rope_scaling": %s,' % block, ' \n"rope_scaling": %s ,\n' % lines,
                 '{ ..., "rope_scaling": %s }' % block, '{\n  ...,\n  "rope_scaling": %s\n}\n' % lines,
                 '{\n  ...\n  "rope_scaling": %s\n}' % lines, '{\n  "rope_scaling": %s,\n  ...\n}' % lines,
                 '{"hidden_size": 64, ..., "rope_scaling": %s, ... }' % block, '..., "rope_scaling": %s, ...' % block,
                 '{"hidden_size": 64\n ...,\n "rope_scaling": %s}' % block, '{"rope_scaling": %s,}' % block,
                 block.replace('}', ',}'), lines.replace('32', '32,'), block[1:-1], block[1:-1] + ',', block + ',',
                 '{ \u2026, "rope_scaling": %s }' % block, '# from the card\n"rope_scaling": ' + block,
                 '{"x": "..., \\"", "y": ",}", "rope_scaling": %s}' % block,
                 '```json\n%s\n```' % block, '```\n"rope_scaling": %s,\n```\n\n' % lines, ' ```json\n' + lines,
                 '\n```jsonc\n# from the card\n{\n  ...,\n  "rope_scaling": %s\n}\n```' % lines, '```%s```' % block, 'Add it:\n\n```json\n%s\n```\nand more\n```\n{}\n```' % lines,
                 '~~~\n"rope_scaling": %s,\n~~~\nThat is all.' % block, '```\nrun\n```\n```\n%s\n```\n' % block):
        result = run('--explain', *base, '--rope-config', saved(text))
        check(result.out == expected and result.status == 0 and not result.err, 'as copied: %r' % text, result)
    for text, line, words in (
            ('{"rope_scaling": {...}}', 1, "'.' (expected a key"), ('{"type": "linear",\n"factor": ...}', 2, "'.'"),
            ('{"short_factor": [1, ..., 2]}', 1, "'.'"), ('{"long_factor": [1, 2,]}', 1, "']'"), ('{,}', 1, "','"),
            ('{\n"factor": 2,,\n}', 2, "','"), (',"factor": 2', 1, "','"), ('...', 1, "'.'"),
            ('{\n...,\n"type": "linear"\n"factor": 2}', 4, "'\"'"), ('"factor": 2}', 1, "'}'"),
            ('"type": "linear",\n"factor', 2, 'the text ends'), ('"rope_scaling": {"factor": 2', 1, 'the text ends'),
            ('{"factor": 2\n... "type": "linear"}', 2, "'\"'"), ('"x', 1, 'the text ends'), ('"a": 1\n\0', 2, ''),
            ('{"factor": 2}\n```', 2, "'`'"),
            ('```json\n{"factor": 2\n```', 3, "the text ends")):
        one_line(run('--explain', *base, '--rope-config', saved(text)), 2, 'no JSON for all that: %r' % text,
                 'config.json: line %d: ' % line, words)


def test_other_characters():
    """What an editor or a web page put in another character's place is named, by the exporter in the same words."""
    for text, line, found in (
            ('{"factor": 2}'.encode('utf-16'), 1, 'found a byte order mark of UTF-16'),
            ('{\n \u201cfactor\u201d: 2}', 2, 'found a curly quote, \u201c'),
            ('\u201crope_scaling\u201d: {}', 1, 'found a curly quote, \u201c'),
            ('{"type":\n\u2018yarn\u2019}', 2, 'found a curly quote, \u2018'),
            ('{\n\n\u00a0"factor": 2}', 3, 'found a no-break space'), ('{"factor": \u4e8c}', 1, "found '\u4e8c'"),
            (b'{"factor": \xe9}', 1, 'found byte E9'), (b'{"factor": \xe4\xba}', 1, 'found byte E4')):
        data = text if isinstance(text, bytes) else text.encode()
        one_line(run('--explain', '--head-dim', 8, '--rope-config', saved(data)), 2, '%r' % text,
                 'config.json: line %d: %s (expected ' % (line, found))
        try:
            problem = export_common.parse_json('x', data) and ''
        except export_common.Problem as error:
            problem = str(error)
        check('not valid JSON' in problem and ('line %d: %s' % (line, found) in problem or found[6] in "'b"),
              'the exporter: %r' % text, problem)


def test_no_json():
    """A whole config that is no JSON is read, and a warning says what was mended and who refuses it: no engine reads
    it. What a card shows of a config is no whole one."""
    whole = json.dumps(LLAMA, indent=1)
    expected = good('--explain', '--rope-config', saved(whole)).out
    comma = whole.replace('10000.0\n}', '10000.0,\n}')
    inner = json.dumps(dict(LLAMA, rope_scaling={'type': 'linear', 'factor': 2}), indent=1)
    nothing = 'a comma with nothing behind it'
    for text, line, what in ((comma, 9, nothing), (whole + ' ,', 10, nothing),
                             ('# mine\n' + whole, 1, 'a line that begins with #'),
                             (inner.replace('2\n', '2,\n'), 12, nothing)):
        path = saved(text)
        mended = 'line %d: %s' % (line, what)
        result = good('--explain', '--rope-config', path)
        words = '%s is no JSON: it is left out here, and all nine engines refuse the file\n' % mended
        check(result.err == 'run: warning: %s: %s' % (path, words) and (result.out == expected or 'linear' in text),
              'mended: %r' % text[-30:], result)
        result = run('--engines', '--rope-config', path)
        rows = table(result.out)[2]
        check(result.status == 1 and len(rows) == 9 and not result.err and all(
            row['verdict'] == 'refused' and row['note'] == 'JSONDecodeError: ' + mended for row in rows)
              and '# reference\tnone' in result.out, 'no engine takes it: %r' % text[-30:], result)
        one_line(run('--explain', '--reading', 'vllm', '--rope-config', path), 2, 'nor by --reading', 'vllm refuses',
                 mended)
        try:
            export_common.parse_json('x', text.encode())
            check(False, 'Python takes it: %r' % text)
        except export_common.Problem:
            check(True, 'Python refuses it')
    for text in '```json\n%s\n```' % whole, '{...,' + whole[1:].replace('\n}', ',\n}'), whole[1:-1] + ',', whole:
        result = good('--explain', '--rope-config', saved(text))
        check(not result.err and result.out == expected, 'a part, or JSON: %.20r' % text, result)
        check(run('--engines', '--rope-config', saved(text)).status == 0, 'and engines take it: %.20r' % text)


def test_no_type():
    """Settings without a type mean no scaling: said, with what Hugging Face 4 makes of it, and not failed."""
    base = ['--explain', '--head-dim', 16, '--theta', 1e4, '--train-ctx', 64, '--rope-config']
    for text in ('{"factor": 4.0}', '{"rope_scaling": {"factor": 4.0, "rope_theta": 1e4}}', '"factor": 4.0'):
        result = good(*base, saved(text))
        check('# method\tnone\n' in result.out and result.err.count('\n') == 1 and
              'without a rope_type means no scaling, and Hugging Face 4 refuses it: factor\n' in result.err,
              'no type: ' + text, result)
    for text in ('{"rope_parameters": {"rope_theta": 1e4}}', '{"rope_scaling": {}}', '{"rope_scaling": null}'):
        check(not good(*base, saved(text)).err, 'nothing to be without: ' + text)


def test_golden():
    """Hugging Face's numbers of five configs, from one model whose own config is plain."""
    for name in ('default', 'linear4', 'dynamic2', 'yarn4', 'llama3'):
        with open(os.path.join(GOLDEN, name, 'golden.json')) as file:
            expected = json.load(file)
        card = os.path.join(GOLDEN, name, 'config.json')
        found = perplexity(exported('default'), expected['ids'], '--kv', 'f32', '--rope-config', card)
        close(found, expected['nll'], 1e-4, name + ': nll')


def lists(n, seed):
    rng = random.Random(seed)
    return sorted(rng.uniform(1, 40) for _ in range(n))


def test_there_and_back():
    """--rope-json's block is the same when it is read back, to the last digit, and so are the numbers of the model."""
    c = config(head_dim=16, n_heads=2, n_kv_heads=1, seq_len=256, theta=12345.678901234567, short_factors=lists(8, 1),
               long_factors=lists(8, 2))
    model, plain = in_work('there.bin'), in_work('back.bin')
    weights = random_weights(c, 1)
    write_model(model, c, weights)
    write_model(plain, dict(c, n_longrope=0, short_factors=(), long_factors=()), weights)
    ids = random_ids(100, c['vocab_size'], 5)
    names = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'longrope', 'dynamic']
    settings = {'yarn': ['--beta-fast', 31.3, '--beta-slow', 1.1, '--attn-factor', 1.23456789012345678],
                'longrope': ['--attn-factor', 1 / 0.7], 'llama3': ['--low-freq-factor', 1.7, '--high-freq-factor', 5.3]}
    for name in names:
        for more in ([], settings.get(name, []) + ['--train-ctx', 77] + ['--factor', 7 / 3] * (name != 'none')):
            arguments = ['--rope', name, '-n', 200, *more]
            block = good(model, '--rope-json', *arguments).out
            path = saved(block, 'block')
            back = ['--rope-config', path] + (['--train-ctx', 77] if more else [])
            what = '%s %s' % (name, more)
            beside = '# beside the block: rope_theta, %s %d' % (ORIGINAL, 77 if more else 64)
            check((beside in block) == (name in ('yarn', 'ntk-by-parts', 'llama3', 'longrope')),
                  'the length beside the block is told: ' + what, block)
            check(good(plain, '--rope-json', *back).out == block, 'there and back: ' + what, block)
            first, again = perplexity(model, ids, *arguments[:2], *more), perplexity(plain, ids, *back)
            # Without a factor of its own the block has the one that 200 positions need.
            if more and name != 'ntk':
                check(first == again, 'the same numbers: ' + what, max(abs(x - y) for x, y in zip(first, again)))
    tuned = with_header(in_work('tuned.bin'), plain, dict(c, n_longrope=0, short_factors=(), long_factors=(),
                        rope_method=METHODS.index('yarn'), factor=40.0, mscale=0.707, mscale_all_dim=1.0, truncate=0))
    result = good(tuned, '--explain', '--rope-config', saved({'type': 'linear', 'factor': 4.0}, 'block'))
    check('warning: the model was tuned with rope yarn' in result.err, 'a block of another method', result)
    path = saved(good(tuned, '--rope-json').out, 'block')
    same = [float(good(m, '--explain', *a, '-n', 256).out.split('# attention_factor\t')[1].split('\n')[0])
            for m, a in ((tuned, ()), (plain, ('--rope-config', path)))]
    check(same[0] == same[1], 'mscale and truncate as attention_factor and truncate', same)


def test_precedence():
    """What is said on the command line goes before the file, and the file before the model."""
    plain = tiny_model('plain.bin', head_dim=16, dim=64, n_heads=4, n_kv_heads=1, theta=5e5)
    L = {'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 32}
    path = saved(L, 'block')
    settings, _ = explained(plain, '--rope-config', path)
    check((settings['method'], settings['theta'], settings['factor'], settings['train_ctx'], settings['length']) ==
          ('yarn', '500000', '4', '32', '64'), 'a block and what it does not say', settings)
    settings, _ = explained(plain, '--rope-config', path, '--factor', 8, '--theta', 1e4, '--train-ctx', 16)
    check((settings['factor'], settings['theta'], settings['train_ctx']) == ('8', '10000', '16'), 'said beside',
          settings)
    settings, _ = explained(plain, '--rope-config', path, '--rope', 'linear')
    check((settings['method'], settings['factor']) == ('linear', '4'), 'another method', settings)
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(200, 50, 3))))
    out = good(plain, '--ppl', ids, '--ids', '-n', 128, '--rope-config', path, '--rope', 'none,yarn,yarn:factor=2').out
    check(len({row['nll'] for row in table(out)[2] if (row['from'], row['to']) == ('1', '128')}) == 3,
          'in a list of methods', out)
    whole = saved(family('llama', 'LlamaForCausalLM', max_position_embeddings=512, head_dim=16))
    settings, _ = explained(plain, '--rope-config', whole)
    check((settings['theta'], settings['train_ctx'], settings['length']) == ('10000', '512', '512'),
          'a whole config says everything', settings)
    result = good(plain, '--explain', '--rope-config', saved(dict(L, low_freq_factor=2, finetuned=True), 'block'))
    check('low_freq_factor, finetuned' in result.err, 'keys without a use are named', result)
    text = '# a line\n#another\n' + json.dumps(L)
    settings, _ = explained(plain, '--rope-config', saved(text, 'block'))
    check(settings['method'] == 'yarn', 'lines in front', settings)
    one_line(run(plain, '--explain', '--rope-config', saved('#\n\n{"x": 1,', 'block')), 2, 'lines are counted',
             'line 3')
    result = good(plain, '--explain', '--rope-config', '-', stdin=json.dumps(L).encode())
    check('# method\tyarn' in result.out, 'from standard input', result)
    for other, line in (dict(LLAMA, head_dim=8), 10), (dict(LLAMA, hidden_size=32), 1):
        one_line(run(plain, '--explain', '--rope-config', saved(other)), 2, 'other heads', 'line %d: ' % line,
                 "another model's config: head_dim is 8, and the model's is 16", 'with its own model', 'with none',
                 '--explain or --rope-json')
    one_line(run(plain, '--explain', '--rope-config', saved(dict(LONG, **LISTS), 'block')), 2, 'other lists',
             'short_factor', '8 numbers')
    one_line(run('--explain', '--rope-config', saved(L, 'block')), 2, 'a block alone has no heads', 'head_dim')
    one_line(run('--explain', '--head-dim', 16, '--rope-config', saved(L, 'block')), 2, 'nor a theta', 'rope_theta')
    one_line(run('--explain', '--head-dim', 16, '--theta', 1e4, '--rope-config', saved({'type': 'linear', 'factor': 2},
             'block')), 2, 'nor a length', 'max_position_embeddings', '--train-ctx')
    settings, _ = explained('--head-dim', 16, '--theta', 1e4, '--rope-config', saved(L, 'block'))
    check((settings['train_ctx'], settings['length'], settings['theta']) == ('32', '32', '10000'),
          'a block, and the rest', settings)
    one_line(run('--rope-config', saved(L, 'block')), 2, 'text needs a model', 'no model file')


def exporter_keeps_them():
    folder, out = in_work('kept'), in_work('kept.bin')
    shutil.copytree(os.path.join(GOLDEN, 'default'), folder)
    shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
    path = os.path.join(folder, 'config.json')
    with open(path) as file:
        values = dict(json.load(file), rope_scaling={
            'rope_type': 'longrope', 'short_factor': lists(8, 4), 'long_factor': lists(8, 4), 'unscaled_positions': 5,
            ORIGINAL: 64, 'factor': 4.0})
    write(path, json.dumps(values))
    exports('--no-tokenizer', folder, out)
    ids = random_ids(100, 100, 8)
    found = perplexity(exported('default'), ids, '--rope-config', path)
    check(perplexity(out, ids) == found != perplexity(exported('default'), ids), 'unscaled positions, exported', found)
    check('# unscaled_positions\t5\n' in good(out, '--explain').out, '--explain says them')


def test_another_model():
    """A whole config of another model is refused, also where its heads are the same: every size that differs is named.
    A block alone is taken."""
    model = tiny_model('own.bin', head_dim=8, dim=32, n_heads=4, n_kv_heads=2, n_layers=2)
    own = dict(LLAMA, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
               rope_scaling={'type': 'linear', 'factor': 2.0})
    ids = write(in_work('own.txt'), '1 2 3 4 5 6')
    jobs = (['--explain'], ['--ppl', ids, '--ids', '-n', 6], ['--rope-json'], ['--engines'],
            ['--explain', '--reading', 'hf5'])
    for job in jobs:
        result = run(model, *job, '--rope-config', saved(own))
        check(result.status in (0, 1), 'its own config: ' + job[0], result)
    for changes, words in (
            ({'hidden_size': 64, 'head_dim': 8}, ['hidden_size is 64 (expected 32)']),
            ({'num_hidden_layers': 3}, ['num_hidden_layers is 3 (expected 2)']),
            ({'num_attention_heads': 8, 'head_dim': 8}, ['num_attention_heads is 8 (expected 4)']),
            ({'num_key_value_heads': 4}, ['num_key_value_heads is 4 (expected 2)']),
            ({'hidden_size': 2048, 'head_dim': 8, 'num_hidden_layers': 16},
             ['hidden_size is 2048 (expected 32), num_hidden_layers is 16 (expected 2)'])):
        for job in jobs:
            one_line(run(model, *job, '--rope-config', saved(dict(own, **changes))), 2, 'another model: %s' % words,
                     'line ', "another model's config", 'give its block of them alone', *words)
        good('--explain', '--rope-config', saved(dict(own, **changes)))
    settings, _ = explained(model, '--rope-config', saved(own['rope_scaling'], 'block'))
    check(settings['method'] == 'linear', 'its block alone', settings)


def test_unknown_families():
    """A model_type without a row is read as a Llama's or DeepSeek's where the keys suffice, and a line says what was
    taken for granted; engines were not looked at with it. The exporter, which cannot run it, says how to see that.
    Families that are explained and not run say so."""
    yarn = {'type': 'yarn', 'factor': 40, ORIGINAL: 4096}
    for values, head, turns, theta, most, words in (
            ({'model_type': 'unknown_k2', 'hidden_size': 7168, 'num_attention_heads': 128, 'qk_rope_head_dim': 64,
              'max_position_embeddings': 163840, 'rope_theta': 10000, 'rope_scaling': yarn}, 192, 64, 1e4, 163840,
             "DeepSeek's: 64 of 192"),
            ({'model_type': 'unknown_oss', 'hidden_size': 5120, 'num_attention_heads': 80, 'head_dim': 128,
              'max_position_embeddings': 524288, 'rope_theta': 10000000.0, 'rope_scaling': {'rope_type': 'default'}},
             128, 128, 1e7, 524288, "a Llama's: 128 of 128"),
            ({'model_type': 'unknown_1', 'hidden_size': 4096, 'num_attention_heads': 32,
              'max_position_embeddings': 131072, 'partial_rotary_factor': 0.5, 'layer_types': ['x', 'y']},
             128, 64, 1e4, 131072, 'theta 10000 (no key says it)'),
            ({'model_type': 'gptj', 'n_embd': 4096, 'n_head': 16, 'rotary_dim': 64, 'n_positions': 2048},
             256, 64, 1e4, 2048, "a Llama's: 64 of 256"),
            ({'architectures': ['Neox'], 'hidden_size': 6144, 'num_attention_heads': 64, 'rotary_pct': 0.25,
              'rotary_emb_base': 25000, 'max_position_embeddings': 2048}, 96, 24, 25000, 2048, 'model_type Neox'),
            ({'model_type': 'unknown_vl', 'thinker_config': {'text_config': {
                'hidden_size': 2048, 'num_attention_heads': 16, 'max_position_embeddings': 128000, 'rope_parameters': {
                    'rope_theta': 1e6, 'type': 'mrope', 'mrope_section': [16, 24, 24]}}}}, 128, 128, 1e6, 128000,
             'model_type unknown_vl')):
        path = saved(values)
        result = good('--explain', '--rope-config', path)
        settings = table(result.out)[0]
        found = settings['head_dim'], settings.get('rotary_dim', settings['head_dim']), float(settings['theta'])
        check(found == (str(head), str(turns), theta) and result.err.count('\n') == 1 and words in result.err, words,
              (settings, result.err))
        engines = run('--engines', '--rope-config', path)
        check({row['verdict'] for row in table(engines.out)[2]} == {'not looked at'} and words in engines.err, words,
              engines)
        check('no engine was looked at' in good('--rope-json', '--rope-config', path).out, 'rope-json: ' + words)
        _, problem, _ = exporter_says(values)
        check('docs/checkpoints.md' in problem and '--explain --rope-config' in problem, 'the exporter: ' + words,
              problem)
    one_line(run('--explain', '--rope-config', saved({'model_type': 'nobody'})), 2, 'no keys of a Llama',
             'model_type cannot be used')
    settings = table(good('--explain', '--rope-config', saved({
        'model_type': 'olmo_any', 'head_dim': 128, 'rope_parameters': {'rope_theta': None}})).out)[0]
    check('no RoPE' in settings.get('layers', ''), 'a theta of null is no RoPE', settings)


def test_other_files():
    """What is no config.json is named, by both readers; a Python dict and a printed config as well."""
    for text, words in (
            ('{"dim": 64, "n_layers": 2, "n_heads": 4, "yarn": {"factor": 16}}', "a params.json, Mistral's or Meta's"),
            ('{"added_tokens": [], "model": {"type": "BPE"}}', 'a tokenizer.json'),
            ('{"weight_map": {}}', 'an index of safetensors'), ('{"peft_type": "LORA"}', 'an adapter_config.json'),
            ("{'model_type': 'llama'}", 'found a single quote, as Python has it'),
            ('{"model_type": None}', 'found None, as Python has it'),
            ('LlamaConfig {"model_type": "llama"}', 'found LlamaConfig, as print shows a config')):
        for job in '--explain', '--engines':
            one_line(run(job, '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config', saved(text)), 2,
                     words, words, 'line 1')
        os.makedirs(in_work('folder'), exist_ok=True)
        write(os.path.join(in_work('folder'), 'config.json'), text)
        try:
            read_config(export_common.Job(), in_work('folder'))
            problem = ''
        except export_common.Problem as refused:
            problem = str(refused)
        check(words in problem, 'the exporter: ' + words, problem)
    marked = b'\xef\xbb\xbf' + json.dumps(dict(LLAMA, rope_scaling={'rope_\u0074ype': 'linear', 'factor': 2})).encode()
    marked = marked.replace(b'rope_type', b'rope_\\u0074ype')
    result = good('--explain', '--rope-config', saved(marked))
    check(table(result.out)[0]['method'] == 'linear' and 'a byte order mark is no JSON' in result.err,
          'an escape in a key, and a byte order mark', result)


def test_explained_alone():
    for kind, architecture in (('afmoe', 'AfmoeForCausalLM'), ('vaultgemma', 'VaultGemmaForCausalLM')):
        values = family(kind, architecture, num_hidden_layers=4, layer_types=['full_attention'] * 4)
        result = good('--explain', '--rope-config', saved(values))
        check('model_type %s is explained, and not run yet' % kind in result.err, kind, result.err)
        _, problem, _ = exporter_says(values)
        check('this one is explained: ./run --explain --rope-config' in problem, 'the exporter: ' + kind, problem)


def test_fragment():
    """Qwen 3.6's fragment of YaRN, as its card has it: with --head-dim alone a share of the head turns. Engines read it
    as of its family."""
    fragment = {'mrope_interleaved': True, 'mrope_section': [11, 11, 10], 'rope_type': 'yarn', 'rope_theta': 10000000,
                'partial_rotary_factor': 0.25, 'factor': 4.0, ORIGINAL: 262144}
    for head_dim in 256, 64:
        settings, f = explained('--head-dim', head_dim, '--theta', 1e7, '--train-ctx', 262144, '--rope-config',
                                saved(fragment))
        check((settings['head_dim'], settings['rotary_dim']) == (str(head_dim), str(head_dim // 4)), 'a share',
              settings)
        meant = config(method='yarn', factor=4.0, theta=1e7, train_ctx=262144, head_dim=head_dim // 4)
        close(f, reference.rope(meant, 100)[0], 1e-9, 'frequencies of a share of %d' % head_dim)
    rows = table(run('--engines', '--rope-config', in_work('config.json'), '--head-dim', 256, '--theta', 1e7,
                     '--train-ctx', 262144).out)[2]
    verdicts = {row['engine']: row['verdict'] for row in rows}
    check((verdicts['hf5'], verdicts['vllm'], verdicts['hf4'], verdicts['llama.cpp']) ==
          ('same', 'same', 'refused', 'same'), 'as Qwen 3.5', verdicts)
    check('rotation fails' not in str(rows), 'not as a Llama', rows)
    model = tiny_model('whole.bin', head_dim=8)
    one_line(run(model, '--explain', '--rope-config', saved(dict(fragment, factor=2.0))), 2, 'a model turns as it does',
             'partial_rotary_factor', '8 of head_dim 8')


def test_unscaled_positions():
    """The first positions turn as in plain RoPE; the others, and only they, by longrope's list."""
    for window in 0, 20:
        c = config(method='longrope', head_dim=8, factor=4.0, short_factors=[1.0, 1.5, 4, 9], train_ctx=16,
                   long_factors=[1.0, 1.5, 4, 9], seq_len=64, sliding_window=window)
        weights = random_weights(c, 3)
        weights = write_model(in_work('unscaled.bin'), c, weights)
        ids = random_ids(60, 50, 9)
        for n in (0, 1, 7, 64):
            block = {'rope_type': 'longrope', 'short_factor': [1.0, 1.5, 4, 9], 'long_factor': [1.0, 1.5, 4, 9],
                     'factor': 4.0, ORIGINAL: 16, 'unscaled_positions': n}
            found = perplexity(in_work('unscaled.bin'), ids, '--kv', 'f32', '--rope-config', saved(block, 'block'))
            expected = kept.nll(dict(c, unscaled_positions=n), weights, ids)
            close(found, expected, 1e-4, '%d unscaled' % n)
            write_model(in_work('in_file.bin'), dict(c, version=4, unscaled_positions=n), weights)
            close(perplexity(in_work('in_file.bin'), ids, '--kv', 'f32'), expected, 1e-4, '%d unscaled, in a file' % n)
    exporter_keeps_them()
    path = saved(dict(block, long_factor=[1, 2, 4, 9]), 'block')
    one_line(run(in_work('unscaled.bin'), '--explain', '--rope-config', path), 2, 'unscaled with two lists',
             'unscaled_positions', 'are not the same')
    out = good(in_work('unscaled.bin'), '--rope-json', '--rope-config', saved(block, 'block')).out
    check('"unscaled_positions": 64' in out, 'unscaled in --rope-json', out)
    for bad in ('-1', '1.5', 'null', '"4"'):
        text = json.dumps(dict(block, unscaled_positions='@')).replace('"@"', bad)
        one_line(run(in_work('unscaled.bin'), '--explain', '--rope-config', saved(text, 'block')), 2,
                 'unscaled_positions of ' + bad, 'unscaled_positions cannot be used')


def test_quantized_copy():
    """--quantize writes both lists of the block, which lie apart in memory, and not the model's."""
    short, long = [1.0, 1.5, 4, 9], [2.0, 3, 5, 11]
    model = tiny_model('plain.bin', head_dim=8, train_ctx=16, seq_len=64)
    block = {'rope_type': 'longrope', 'short_factor': short, 'long_factor': long, 'factor': 4.0, ORIGINAL: 16}
    good(model, '--quantize', 'q8', in_work('copy.bin'), '--rope-config', saved(block, 'block'))
    with open(in_work('copy.bin'), 'rb') as file:
        found = struct.unpack_from('<8d', file.read(), 256)
    check(list(found) == short + long, '--quantize with a block keeps its lists', found)


if __name__ == '__main__':
    main(globals())
