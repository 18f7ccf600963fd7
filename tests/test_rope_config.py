#!/usr/bin/env python3
"""--rope-config: the cases of rope_cases.py, which the exporter is held to as well, Hugging Face's own numbers, the way
there and back with --rope-json, and what is refused."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys

import reference
from common import (GOLDEN, METHODS, ROOT, check, close, config, good, in_work, main, one_line, perplexity, random_ids,
                    random_weights, run, table, tiny_model, with_header, write, write_model)
from rope_cases import FAMILIES, LISTS, LONG, NOTHING, ORIGINAL, PHI_REFUSED, REFUSED, SPELLINGS, changed, family
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
# The exporter takes a factor below 1, since the library does; what is tried here gets --factor's limits.
CASES = [case for case in CASES if case[0] != 'linear below 1']
BAD = [(name, changed(LLAMA, **changes), key) for name, changes, key in REFUSED] + PHI_REFUSED


def saved(values, name='config.json'):
    return write(in_work(name), values if isinstance(values, (str, bytes)) else json.dumps(values, indent=1))


def explained(*arguments):
    settings, _, rows = table(good('--explain', *arguments).out)
    return settings, [float(row['scaled_inv_freq']) for row in rows]


def exporter_says(values):
    """The exporter's fields, or the reason why not."""
    os.makedirs(in_work('folder'), exist_ok=True)
    write(os.path.join(in_work('folder'), 'config.json'), json.dumps(dict(BESIDES, **values)))
    try:
        return read_config(in_work('folder')), ''
    except export_common.Problem as problem:
        return None, str(problem)


def test_meaning():
    """The program's frequencies are those of the fields, by tests/reference.py, at every length; the exporter's fields
    are these fields."""
    for name, values, fields in CASES:
        fields = dict(NOTHING, **fields)
        expected = config(**{key: value for key, value in fields.items() if key not in ('short', 'long')},
                          short_factors=fields['short'], long_factors=fields['long'])
        L, path = fields['train_ctx'], saved(values)
        for length in (1, L, L + 1, 3 * L + 1):
            settings, f = explained('--rope-config', path, '-n', length)
            close(f, reference.rope(expected, length)[0], 1e-9, 'frequencies at %d: %s' % (length, name))
            close([float(settings['attention_factor'])], [reference.rope(expected, length)[1]], 1e-9,
                  'attention factor at %d: %s' % (length, name))
        said = {'theta': fields['theta'], 'train_ctx': L, 'dynamic': fields['rope_dynamic']}
        said.update({'factor': fields['factor']} if fields['factor'] else {})
        close([float(settings[key]) for key in said], [float(value) for value in said.values()], 1e-9, name)
        found, problem = exporter_says(values)
        if check(found, 'the exporter takes it: ' + name, problem):
            found = dict(NOTHING, **found, short=found.get('short_factor', []), long=found.get('long_factor', []))
            found['head_dim'] = found.get('rotary_dim') or found['head_dim']
            wrong = {key: (found[key], value) for key, value in fields.items() if found[key] != value}
            check(not wrong, 'the exporter\'s fields: ' + name, wrong)


def test_refused():
    for name, values, key in BAD:
        one_line(run('--explain', '--rope-config', saved(values)), 1, name, key + ' cannot be used', 'line ')
        found, problem = exporter_says(values)
        check(not found and key in problem, 'the exporter refuses it: ' + name, problem)
    block = {'rope_type': 'yarn', ORIGINAL: 64, 'rope_theta': 1e4}
    for key, value, found in (('factor', '"4"', '"4"'), ('factor', '0.5', '0.5'),
                              ('factor', 'true', 'true'), ('factor', 'NaN', 'NaN'),
                              ('factor', '-Infinity', '-Infinity'), ('factor', '1e999', '1e999'),
                              ('beta_fast', '[1]', 'a list'), ('factor', '9' * 5000, '9' * 40), ('mscale', '-1', '-1'),
                              ('truncate', '0', '0'),
                              (ORIGINAL, '64.0', '64.0'), (ORIGINAL, '9' * 30, '9' * 30),
                              ('rope_theta', 'null', 'null'),
                              ('attention_factor', '{}', 'an object'), ('beta_fats', '32', '32'), ('', '1', '1')):
        text = json.dumps(changed(block, **{key: '@'}), indent=1).replace('"@"', value)
        line = 1 + text[:text.index('"%s"' % key)].count('\n')
        one_line(run('--explain', '--head-dim', 8, '--rope-config', saved(text)), 1, '%s is %.20s' % (key, value),
                 'config.json: line %d: %s cannot be used (found %s, ' % (line, key, found), 'expected ')


def test_json():
    """What is JSON to Python is JSON here, and the other way round; but for what test_cards_as_copied has, an escape in
    a key, and more than there can be."""
    texts = ['', ' ', '{}', ' {} \n', '[]', '1', '"x"', '{"a": 1}', '{"rope_theta": 1e4}', '{"rope_theta": 1E+4,, }',
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
        check(refused != is_json and result.status in (0, 1) and result.err.count('\n') <= 1, 'JSON %.60r' % text,
              result)
    base = ['--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64, '--rope-config']
    for text in ('{"rope_theta": 2.5, "rope_theta": 2.5}', '{"rope_scaling": {}, "rope_scaling": {}}',
                 '{"max_position_embeddings": 9, "max_position_embeddings": 8}',
                 '{"factor": 2, "type": "linear", "factor": 2}'):
        one_line(run(*base, saved(text)), 1, 'a key twice: ' + text, 'appears twice')
    nest = saved('{"hidden_size": [[1, {"a": "]}", "b": [[], {}]}, "}"], -1.5e3]   , "rope_parameters":{"factor":2}}')
    settings, _ = explained(*base[1:], nest)
    check(settings['method'] == 'none', 'what stands behind a nest', settings)
    one_line(run(*base, saved('{"\\u0066actor": 2}')), 1, 'an escape in a key', 'cannot be used')
    for depth, status in ((31, 0), (32, 1)):
        result = run(*base, saved('{"hidden_size": %s}' % ('[' * depth + ']' * depth)))
        check(result.status == status, '%d deep' % depth, result)
    for n, status in ((0, 0), (1, 1)):
        result = run(*base, saved('{}' + ' ' * ((1 << 20) - 2 + n)))
        check(result.status == status, '%d bytes more than there may be' % n, result)
    one_line(run(*base, in_work('absent')), 1, 'no file', 'absent: cannot open')
    one_line(run(*base, in_work('')), 1, 'a folder', 'cannot read')


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
                 '{"x": "..., \\"", "y": ",}", "rope_scaling": %s}' % block):
        result = run('--explain', *base, '--rope-config', saved(text))
        check(result.out == expected and result.status == 0 and not result.err, 'as copied: %r' % text, result)
    for text, line, words in (
            ('{"rope_scaling": {...}}', 1, "'.' (expected a key"), ('{"type": "linear",\n"factor": ...}', 2, "'.'"),
            ('{"short_factor": [1, ..., 2]}', 1, "'.'"), ('{"long_factor": [1, 2,]}', 1, "']'"), ('{,}', 1, "','"),
            ('{\n"factor": 2,,\n}', 2, "','"), (',"factor": 2', 1, "','"), ('...', 1, "'.'"),
            ('{\n...,\n"type": "linear"\n"factor": 2}', 4, "'\"'"), ('"factor": 2}', 1, "'}'"),
            ('"type": "linear",\n"factor', 2, 'the text ends'), ('"rope_scaling": {"factor": 2', 1, 'the text ends'),
            ('{"factor": 2\n... "type": "linear"}', 2, "'\"'"), ('"x', 1, 'the text ends'), ('"a": 1\n\0', 2, '')):
        one_line(run('--explain', *base, '--rope-config', saved(text)), 1, 'no JSON for all that: %r' % text,
                 'config.json: line %d: ' % line, words)


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
    plain = tiny_model('plain.bin', head_dim=16, n_heads=2, n_kv_heads=1, theta=5e5)
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
    one_line(run(plain, '--explain', '--rope-config', saved('#\n\n{"x": 1,', 'block')), 1, 'lines are counted',
             'line 3')
    result = good(plain, '--explain', '--rope-config', '-', stdin=json.dumps(L).encode())
    check('# method\tyarn' in result.out, 'from standard input', result)
    for other, line in (dict(LLAMA, head_dim=8), 10), (dict(LLAMA, hidden_size=32), 1):
        one_line(run(plain, '--explain', '--rope-config', saved(other)), 1, 'other heads', 'line %d: ' % line,
                 "another model's config: head_dim is 8, and the model's is 16", 'with its own model', 'with none',
                 '--explain or --rope-json')
    one_line(run(plain, '--explain', '--rope-config', saved(dict(LONG, **LISTS), 'block')), 1, 'other lists',
             'short_factor', '8 numbers')
    one_line(run('--explain', '--rope-config', saved(L, 'block')), 1, 'a block alone has no heads', 'head_dim')
    one_line(run('--explain', '--head-dim', 16, '--rope-config', saved(L, 'block')), 1, 'nor a theta', 'rope_theta')
    one_line(run('--explain', '--head-dim', 16, '--theta', 1e4, '--rope-config', saved({'type': 'linear', 'factor': 2},
             'block')), 1, 'nor a length', 'max_position_embeddings', '--train-ctx')
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
    subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), '--no-tokenizer', folder, out], check=True,
                   stderr=subprocess.DEVNULL)
    ids = random_ids(100, 100, 8)
    found = perplexity(exported('default'), ids, '--rope-config', path)
    check(perplexity(out, ids) == found != perplexity(exported('default'), ids), 'unscaled positions, exported', found)
    check('# unscaled_positions\t5\n' in good(out, '--explain').out, '--explain says them')


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
            expected = reference.nll(dict(c, unscaled_positions=n), weights, ids)
            close(found, expected, 1e-4, '%d unscaled' % n)
            write_model(in_work('in_file.bin'), dict(c, version=4, unscaled_positions=n), weights)
            close(perplexity(in_work('in_file.bin'), ids, '--kv', 'f32'), expected, 1e-4, '%d unscaled, in a file' % n)
    exporter_keeps_them()
    path = saved(dict(block, long_factor=[1, 2, 4, 9]), 'block')
    one_line(run(in_work('unscaled.bin'), '--explain', '--rope-config', path), 1, 'unscaled with two lists',
             'unscaled_positions', 'are not the same')
    out = good(in_work('unscaled.bin'), '--rope-json', '--rope-config', saved(block, 'block')).out
    check('"unscaled_positions": 64' in out, 'unscaled in --rope-json', out)
    for bad in ('-1', '1.5', 'null', '"4"'):
        text = json.dumps(dict(block, unscaled_positions='@')).replace('"@"', bad)
        one_line(run(in_work('unscaled.bin'), '--explain', '--rope-config', saved(text, 'block')), 1,
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
