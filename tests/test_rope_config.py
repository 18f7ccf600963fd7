#!/usr/bin/env python3
"""--rope-config beside the questions of test_readings.py: JSON and a card's parts of it, Hugging Face's own numbers,
the way there and back with --rope-json, and precedence."""

import json
import os
import random
import shutil
import struct
import sys

import kept
import reference
from common import (GOLDEN, METHODS, ROOT, check, close, config, exports, good, in_work, main, one_line, perplexity,
                    processor_seconds, random_ids, random_weights, run, table, takes_long, tiny_model, with_header, write, write_model)
from readings import BESIDES, FULL, ORIGINAL, SLIDING, base, changed, config_of, exporter_says, load, rows, saved
from test_golden import exported

sys.path.insert(0, ROOT)
from export import common as export_common  # noqa: E402

LLAMA = base('llama')


def explained(*arguments):
    settings, _, rows = table(good('--explain', *arguments).out)
    return settings, [float(row['scaled_inv_freq']) for row in rows]


def test_numbers():
    """An impossible number is shown as it is spelled in the file, with its line."""
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


def test_warnings():
    """Each contradiction has a line of its own, in every job that reads the file, and in a block by itself."""
    many = dict(LLAMA, rope_theta=7.0, rope_parameters={'a': 1}, **{ORIGINAL: 128}, rope_scaling={
        'type': 'linear', 'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 64, 'rope_theta': 8})
    said = good('--explain', '--rope-config', saved(many)).err
    check(said.count('warning: ') == len(exporter_says(many)[3]) == 4, 'each has a line of its own', said)
    model = tiny_model('warned.bin', head_dim=6, dim=24, n_heads=4)
    path = saved(dict(LLAMA, rope_theta=7.0, rope_parameters={'rope_theta': 1e4}))
    for job in (['--explain'], ['--rope-json'], ['--ppl', write(in_work('ids.txt'), '1 2 3 4 5 6'), '--ids', '-n', 6]):
        result = good(model, *job, '--rope-config', path)
        check(result.err.count('warning: %s: rope_theta is 7 beside' % path) == 1, 'warned of in ' + job[0], result.err)
    result = good('--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config',
                  saved({'type': 'linear', 'rope_type': 'yarn', 'factor': 2}))
    check('type is linear and rope_type is yarn in the block: yarn counts' in result.err, 'in a block alone', result)


@takes_long
def test_random_changes():
    """Whatever is changed about RoPE's keys, both readers take it or neither does, and both warn of the same."""
    random_changes(random.Random(11), 900)


def test_some_random_changes():
    random_changes(random.Random(7), 120)


def random_changes(rng, times):
    odd, taken = load('odd'), 0
    sources = [config_of(row) for name in ('meanings', 'layered', 'refused') for row in rows(name) if 'of' in row and 'doors' not in row]
    for _ in range(times):
        values = json.loads(json.dumps(rng.choice(sources)))
        for _ in range(rng.randrange(1, 3)):
            blocks = [values[key] for key in ('rope_scaling', 'rope_parameters') if isinstance(values.get(key), dict)]
            blocks += [block[kind] for block in blocks for kind in (FULL, SLIDING) if isinstance(block.get(kind), dict)]
            place, keys = (rng.choice(blocks), 'in_block') if blocks and rng.random() < 0.7 else (values, 'beside')
            place[rng.choice(odd[keys])] = json.loads(json.dumps(rng.choice(odd['values'])))
        path = saved(values)
        result = run('--explain', '--rope-config', path)
        found, problem, notes, warned = exporter_says(values)
        check((result.status == 0) == bool(found) and result.status in (0, 2),
              'both take it, or none: %s' % json.dumps(values), (result.err, problem))
        if result.status == 0:
            before = 'run: warning: %s: ' % path
            ours = [line[len(before):] for line in result.err.splitlines() if line.startswith(before)]
            # The exporter notes keys that a family does not read.
            check(sorted(line for line in ours if line not in notes) == sorted(warned), 'both warn of the same: %s' % json.dumps(
                values), (ours, warned))
            taken += 1
    check(taken > times / 10, 'many are taken', taken)


# ---- JSON, and a card's parts of it ----

BLOCK_ALONE = ['--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config']


def test_alike():
    """Values by which layers do not differ are nothing to refuse, with and without a model_type."""
    for row in rows('alike'):
        values = config_of(row)
        good('--explain', '--rope-config', saved(values))
        if row.get('doors') != 'explain':
            good('--explain', '--rope-config', saved(changed(values, model_type=..., architectures=...)))
            found, problem, *_ = exporter_says(values)
            check(found, 'the exporter takes it: ' + row['name'], problem)
    nested = '{"full_attention": {"rope_type": "linear", "factor": 2}, "sliding_attention": {"rope_theta": 500}}'
    found = table(good(*BLOCK_ALONE, saved(nested)).out)[2]
    for kind, theta, s in ('full', 1e4, 2), ('sliding', 500, 1):
        close([float(row['scaled_inv_freq']) for row in found if row['layers'] == kind],
              [theta ** (-i / 4) / s for i in range(4)], 1e-9, 'blocks alone: ' + kind)
    one_line(run('--engines', *BLOCK_ALONE[1:], saved(nested)), 2, 'blocks alone have no family', 'model_type')


def test_inside_an_object():
    """A config in a member of an object that is not one: the exporter finds it where ./run does."""
    inside = {**BESIDES, **LLAMA, 'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}}
    found, problem, *_ = exporter_says({'name': 'a copy', 'hf_config': inside})
    check(found and (found['rope_method'], found['factor']) == (1, 4), 'inside an object', problem or found)


def test_hostile():
    """Whatever a config is, the answer is quick and of one line: the file's size, its depth, a key as often as there
    can be, control characters in keys and values."""
    huge = in_work('huge.json')
    with open(huge, 'wb') as file:
        file.write(b'{"rope_theta": ')
        file.truncate(100 << 20)
    often = '{"model_type": "llama", %s"x": 1}'
    for what, text, words in (
            ('100 MB', None, 'more than 1048576 bytes'),
            ('a million letters', '{"%s": 1}' % ('rope_' * 200000), ''),
            ('a list of half a million', '{"a": [%s1]}' % ('1,' * 500000), ''),
            ('lists in lists', '[' * 1000000, 'no more lists in lists'),
            ('one key', often % ('"rope_theta": 5, ' * 60000), 'it once, and it appears twice'),
            ('a key without meaning', often % ('"a": 5, ' * 120000), ''),
            ('a new line in a key', json.dumps(dict(LLAMA, head_dim=8, rope_scaling={
                'rope_type': 'yarn', 'factor': 2, 'fac\nxtor': 4})),
             'fac?xtor cannot be used'),
            ('a bell', json.dumps(dict(LLAMA, head_dim=8, model_type='\a\x7f\u001b[31m')), ''),
            ('an escaped key', '{"rope_type": "linear", "f\\u0061ctor": 2, "factor": 3}', 'appears twice'),
            ('a zero in a key', '{"rope_type": "linear", "factor": 2, "factor\\u0000x": 2}', 'factor?x cannot be used')):
        before = processor_seconds()
        result = run(*BLOCK_ALONE, huge if text is None else saved(text))
        lines = result.err.splitlines()
        check(result.status == (2 if words else result.status) and words in result.err and len(lines) <= 2 and
              all(line.startswith('run: ') and line.isprintable() for line in lines), what,
              (result.status, result.err[:300]))
        check(processor_seconds() - before < 1, what + ' is quick', processor_seconds() - before)


def test_json():
    """Text that is JSON to Python is JSON here, and the other way round; except for the cases of test_cards_as_copied,
    an escape in a key, and more values than memory holds."""
    for text in load('json')['json_or_none'] + ['[' * 100000]:
        result = run(*BLOCK_ALONE, saved(text))
        try:
            export_common.parse_json('x', text.encode())
            is_json = True
        except export_common.Problem:
            is_json = False
        refused = result.err.startswith('run: ') and ': line ' in result.err and 'cannot be used' not in result.err
        check(refused != is_json and result.status in (0, 2) and result.err.count('\n') <= 1, 'JSON %.60r' % text,
              result)
    for text in load('json')['a_key_twice']:
        one_line(run(*BLOCK_ALONE, saved(text)), 2, 'a key twice: ' + text, 'appears twice')
    nest = saved('{"hidden_size": [[1, {"a": "]}", "b": [[], {}]}, "}"], -1.5e3]   , "rope_parameters":{"factor":2}}')
    settings, _ = explained(*BLOCK_ALONE[1:], nest)
    check(settings['method'] == 'none', 'what stands behind a nest', settings)
    settings, _ = explained(*BLOCK_ALONE[1:], saved('{"rope_type": "line\\u0061r", "\\u0066actor": 2}'))
    check((settings['method'], settings['factor']) == ('linear', '2'), 'escapes', settings)
    for depth, status in ((31, 0), (32, 2)):
        result = run(*BLOCK_ALONE, saved('{"hidden_size": %s}' % ('[' * depth + ']' * depth)))
        check(result.status == status, '%d deep' % depth, result)
    spaces = json.dumps(LLAMA).replace('}', ' ' * 300000 + '}' + ' ' * 300000)
    check(run('--explain', '--rope-config', saved(spaces)).status == 0, 'many spaces take no time')
    for n, status in ((0, 0), (1, 2)):
        result = run(*BLOCK_ALONE, saved('{}' + ' ' * ((1 << 20) - 2 + n)))
        check(result.status == status, '%d bytes more than there may be' % n, result)
    one_line(run(*BLOCK_ALONE, in_work('absent')), 2, 'no file', 'absent: cannot open')
    one_line(run(*BLOCK_ALONE, in_work('')), 2, 'a folder', 'cannot read')


def test_cards_as_copied():
    """Parts of a config as in model cards, to the letter, have the meaning of the whole block."""
    given = ['--head-dim', 16, '--theta', 1e4, '--train-ctx', 64]
    block = '{"rope_type": "yarn", "factor": 4.0, "%s": 32}' % ORIGINAL
    lines = block.replace('{', '{\n    ').replace(', ', ',\n    ').replace('}', '\n  }')
    expected = good('--explain', *given, '--rope-config', saved(block)).out
    shown = [text.replace('BLOCK', block).replace('LINES', lines) for text in load('json')['as_copied']]
    for text in shown + [block.replace('}', ',}'), lines.replace('32', '32,'), block[1:-1], block[1:-1] + ',']:
        result = run('--explain', *given, '--rope-config', saved(text))
        check(result.out == expected and result.status == 0 and not result.err, 'as copied: %r' % text, result)
    for text, line, words in load('json')['not_as_copied']:
        one_line(run('--explain', *given, '--rope-config', saved(text)), 2, 'no JSON for all that: %r' % text,
                 'config.json: line %d: ' % line, words)


def test_no_model_type():
    """A config without a family is a Llama's, and a line says so; a part of one is not warned about."""
    whole = changed(LLAMA, model_type=..., architectures=...)
    result = good('--explain', '--rope-config', saved(whole))
    check(result.err == "run: warning: %s: model_type is missing, so it is interpreted as a Llama\n"
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


def test_other_characters():
    """A character that an editor or a web page put in another one's place is named."""
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


def test_no_json():
    """A whole config that is no JSON is read, and a warning names the repair and the programs that refuse it: no engine
    reads it. A card's part of a config is no whole one."""
    whole = json.dumps(LLAMA, indent=1)
    expected = good('--explain', '--rope-config', saved(whole)).out
    comma = whole.replace('10000.0\n}', '10000.0,\n}')
    inner = json.dumps(dict(LLAMA, rope_scaling={'type': 'linear', 'factor': 2}), indent=1)
    nothing = 'a comma after the last value'
    for text, line, what in ((comma, 9, nothing), (whole + ' ,', 10, nothing),
                             ('# mine\n' + whole, 1, 'a line that begins with #'),
                             (inner.replace('2\n', '2,\n'), 12, nothing)):
        path = saved(text)
        mended = 'line %d: %s' % (line, what)
        result = good('--explain', '--rope-config', path)
        words = '%s is not JSON: it is left out here, and all nine engines refuse the file\n' % mended
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
    """Settings without a type mean no scaling: said, with Hugging Face 4's reading, and not failed."""
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
    settings = {'yarn': ['--beta-fast', 31.3, '--beta-slow', 1.1, '--attention-factor', 1.23456789012345678],
                'longrope': ['--attention-factor', 1 / 0.7], 'llama3': ['--low-freq-factor', 1.7, '--high-freq-factor', 5.3]}
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
    """The command line takes precedence over the file, and the file over the model."""
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
    whole = saved(changed(LLAMA, hidden_size=64, max_position_embeddings=512, head_dim=16, rope_theta=...))
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
    one_line(run(plain, '--explain', '--rope-config', saved({'rope_type': 'longrope', 'short_factor': [1.0, 1.1, 1.2], 'long_factor': [1.0, 3.0, 9.0], ORIGINAL: 64}, 'block')), 2, 'other lists',
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
                     'line ', "another model's config", 'give only its block', *words)
        good('--explain', '--rope-config', saved(dict(own, **changes)))
    settings, _ = explained(model, '--rope-config', saved(own['rope_scaling'], 'block'))
    check(settings['method'] == 'linear', 'its block alone', settings)


def test_an_escape_in_a_key():
    """And a byte order mark before it."""
    marked = b'\xef\xbb\xbf' + json.dumps(dict(LLAMA, rope_scaling={'rope_\u0074ype': 'linear', 'factor': 2})).encode()
    marked = marked.replace(b'rope_type', b'rope_\\u0074ype')
    result = good('--explain', '--rope-config', saved(marked))
    check(table(result.out)[0]['method'] == 'linear' and 'a byte order mark is not JSON' in result.err,
          'an escape in a key, and a byte order mark', result)


def test_fragment():
    """Qwen 3.6's fragment of YaRN, as in its card: with --head-dim alone a share of the head turns. Engines read it
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
