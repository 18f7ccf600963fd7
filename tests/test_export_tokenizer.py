#!/usr/bin/env python3
"""Tests the tokenizers that model_export.py writes from sentencepiece's, and random damage. See export_common.py."""

import math
import os
import struct
import subprocess
import sys

from export_common import (EXPORTER, LLAMA, LONG, NORMALIZER, PIECES, SHARED, TRAINER, Case, changed, check, field,
                           main, make_tensors, message, read_tokenizer, refused, safetensors, sentencepiece, skip,
                           varint)


# ---- tests: tokenizers ----

def test_tokenizer_alone():
    case = Case(LLAMA, tokenizer__model=sentencepiece())
    source, out = os.path.join(case.folder, 'tokenizer.model'), os.path.join(case.results, 't.bin')
    run = case.run('--tokenizer', source, out)
    check(run.returncode == 0 and case.left() == ['t.bin'], '--tokenizer', run.stderr)
    tokens, t = read_tokenizer(out, len(PIECES))
    check(tokens == [(text.replace('\u2581'.encode(), b' '), score) for text, score, _ in PIECES], 'tokens')
    check(t['types'] == [kind for _, _, kind in PIECES], 'types')
    check((t['flags'], t['bos_id'], t['unk_id'], t['eos_ids']) == (3, 1, 0, [2]), 'trailer', t)
    plain = PIECES[:3] + PIECES[259:]
    variants = [
        ('no dummy prefix', sentencepiece(normalizer={**NORMALIZER, 3: 0}), PIECES, {'flags': 2}),
        ('dummy prefix by default', sentencepiece(normalizer={4: 0}), PIECES, {'flags': 3}),
        ('no byte fallback', sentencepiece(plain, {3: 2}), plain, {'flags': 1}),
        ('other names', sentencepiece([(b'<begin>', 0.0, 3), (b'<end>', 0.0, 3), (b'?', 0.0, 2)] + PIECES[259:],
                                      {3: 2, 46: b'<begin>', 47: b'<end>'}),
         plain, {'bos_id': 0, 'eos_ids': [1], 'unk_id': 2}),
        ('no bos', sentencepiece([p for p in plain if p[0] != b'<s>'], {3: 2}), plain[1:],
         {'bos_id': -1, 'eos_ids': [1]}),
        ('no eos', sentencepiece([p for p in plain if p[0] != b'</s>'], {3: 2}), plain[1:],
         {'bos_id': 1, 'eos_ids': []}),
        ('a <s> that is no control piece',
         sentencepiece([p if p[0] != b'<s>' else (b'<s>', 0.0, 1) for p in plain], {3: 2}), plain, {'bos_id': -1}),
        ('in parts, with fields unknown to us',
         sentencepiece(trainer={3: 2}, rest=field(2, message([(35, 1), (99, b'x')])) + field(4, b'test') +
                       varint(77 << 3 | 1) + bytes(8)),
         PIECES, {'flags': 3}),
    ]
    for name, data, pieces, fields in variants:
        case.put('tokenizer.model', data)
        run = case.run('--tokenizer', source, out)
        if run.returncode:
            check(False, 'tokenizer: ' + name, run.stderr)
            continue
        _, t = read_tokenizer(out, len(pieces))
        check(all(t[key] == value for key, value in fields.items()), 'tokenizer: ' + name, t)
    case.close()


def test_refused_tokenizers():
    good = sentencepiece()
    cases = [('unigram', sentencepiece(trainer={**TRAINER, 3: 1}), 'unigram'),
             ('unigram by default', sentencepiece(trainer={35: 1}), 'unigram'),
             ('word', sentencepiece(trainer={**TRAINER, 3: 3}), 'model_type'),
             ('suffix', sentencepiece(trainer={**TRAINER, 24: 1}), 'treat_whitespace_as_suffix'),
             ('charsmap', sentencepiece(normalizer={**NORMALIZER, 2: b'abc'}), 'precompiled_charsmap'),
             ('extra whitespaces', sentencepiece(normalizer={**NORMALIZER, 4: 1}), 'remove_extra_whitespaces'),
             ('extra whitespaces by default', sentencepiece(normalizer={3: 1}), 'remove_extra_whitespaces'),
             ('plain whitespaces', sentencepiece(normalizer={**NORMALIZER, 5: 0}), 'escape_whitespaces'),
             ('denormalizer', sentencepiece(rest=field(5, field(2, b'abc'))), 'denormalizer_spec'),
             ('a space', sentencepiece(PIECES + [(b'a b', 0.0, 1)]), 'piece 266'),
             ('not UTF-8', sentencepiece(PIECES + [(b'\xff', 0.0, 1)]), 'piece 266'),
             ('twice', sentencepiece(PIECES + [(b'he', 0.0, 1)]), 'piece 266'),
             ('nothing', sentencepiece(PIECES + [(b'', 0.0, 1)]), 'piece 266'),
             ('too long', sentencepiece(PIECES + [(b'a' * 1025, 0.0, 1)]), 'piece 266'),
             ('type 9', sentencepiece(PIECES + [(b'x', 0.0, 9)]), 'piece 266'),
             ('score NaN', sentencepiece(PIECES + [(b'x', math.nan, 1)]), 'piece 266'),
             ('two unknowns', sentencepiece(PIECES + [(b'x', 0.0, 2)]), 'unknown'),
             ('no unknown', sentencepiece(PIECES[1:]), 'unknown'),
             ('a byte missing', sentencepiece(PIECES[:100] + PIECES[101:]), 'byte'),
             ('bytes without fallback', sentencepiece(trainer={3: 2}), 'byte'),
             ('empty', b'', 'tokenizer.model'), ('text', b'IQ== 0\nIg== 1\nIw== 2\n', 'tokenizer.model'),
             ('zeros', bytes(100), 'tokenizer.model'), ('endless number', b'\x08' + b'\xff' * 50, 'tokenizer.model'),
             ('wrong wire type', field(1, 5), 'tokenizer.model'),
             ('huge length', varint(10) + varint(1 << 62), 'tokenizer.model')]
    cases += [('cut at %d' % n, good[:n], 'tokenizer.model') for n in (1, 2, 5, 50, len(good) // 2, len(good) - 1)]
    for name, data, key in cases:
        case = Case(LLAMA, tokenizer__model=data)
        refused('tokenizer: ' + name, case, key, '--tokenizer', os.path.join(case.folder, 'tokenizer.model'),
                os.path.join(case.results, 't.bin'))
    refused('tokenizer: missing', Case(LLAMA), 'no such file', '--tokenizer', '/nonexistent/tokenizer.model',
            '/nonexistent/t.bin')


def test_folder_with_tokenizer():
    n = len(PIECES)
    config = changed(LLAMA, vocab_size=n + 6, eos_token_id=[2, n + 1])
    tensors = safetensors(make_tensors(config))

    def added(**entries):
        return {'added_tokens_decoder': {id.strip('_'): entry for id, entry in entries.items()}}

    def folder(name, tokenizer_config=None, model=sentencepiece(), config=config, out='model.bin', arguments=(),
               **files):
        if tokenizer_config is not None:
            files['tokenizer_config__json'] = tokenizer_config
        case = Case(config, tensors, tokenizer__model=model, **files)
        run = case.run(case.folder, os.path.join(case.results, out),
                       *(a.replace('OUT', case.results) for a in arguments))
        left = case.left()
        check(run.returncode == 0 and len(left) == 2, 'folder: ' + name, run.stderr or left)
        other = [f for f in left if f != out]
        result = read_tokenizer(os.path.join(case.results, other[0]),
                                config['vocab_size']) if other and not run.returncode else None
        case.close()
        return (*result, other[0], run.stderr.splitlines()) if result else ([], {}, '', [])

    tokens, t, name, _ = folder('padded')
    check(tokens[n:] == [(b'', 0.0)] * 6 and t.get('types', [])[n:] == [5] * 6, 'padded with unused tokens',
          t.get('types', [])[n:])
    check(t.get('eos_ids') == [2, n + 1] and name == 'tokenizer.bin', 'the end tokens are the model\'s',
          (t.get('eos_ids'), name))
    check(folder('beside', out='tiny.bin')[2] == 'tiny.tokenizer.bin', 'beside another name')
    check(folder('placed', arguments=('--tokenizer-out', 'OUT/here.tok'))[2] == 'here.tok', '--tokenizer-out')

    same = {'content': '<s>', 'special': True, 'lstrip': False, 'rstrip': False, 'single_word': False,
            'normalized': False}
    im_end = {'content': '<|im_end|>', 'special': True, 'lstrip': True}
    tool = {'content': '<tool\u2581x>', 'special': False, 'normalized': False}
    word = {'content': 'he', 'special': False}
    tokens, t, _, _ = folder('added', added(_1=same,
                                            **{'_%d' % (n + 1): im_end, '_%d' % (n + 3): tool,
                                               '_%d' % PIECES.index((b'he', -1.0, 1)): word}))
    check([text for text, _ in tokens[n:]] == [b'', b'<|im_end|>', b'', b'<tool x>', b'', b''] and
          t.get('types', [])[n:] == [5, 3, 5, 4, 5, 5] and t['types'][1] == 3
          and t['types'][PIECES.index((b'he', -1.0, 1))] == 4, 'added tokens',
          tokens[n:])
    user = PIECES.index((b'[user]', -4.0, 4))
    for special, kind in (True, 3), (False, 4):  # Gemma's turns are user-defined in tokenizer.model
        t = folder('user-defined', added(**{'_%d' % user: {'content': '[user]', 'special': special}}))[1]
        check(t.get('types', {})[user] == kind, 'user-defined, special %s' % special, t.get('types'))
    tokens, t, _, _ = folder('added_tokens.json', added_tokens__json={'<x>': n})
    check(tokens and tokens[n][0] == b'<x>' and t['types'][n] == 4, 'added_tokens.json')
    _, _, _, lines = folder('beyond', added(**{'_%d' % (n + 6): im_end}))
    check("'<|im_end|>', is left out" in str(lines) and
          "b'" not in str(lines), 'a token beyond the model is left out and said', lines)
    _, t, _, _ = folder('no bos', {'add_bos_token': False, 'add_prefix_space': False})
    check(t.get('bos_id') == -1 and t.get('flags') == 2, 'add_bos_token and add_prefix_space', t.get('flags'))

    for name, settings, key in (('another text', added(_1={'content': '<x>', 'special': True}), 'added token 1'),
                                ('stripping', added(**{'_%d' % n: {'content': 'x', 'lstrip': True}}), 'lstrip'),
                                ('no content', added(**{'_%d' % n: {}}), 'content'),
                                ('id', added(_x={'content': 'x'}), 'added tokens'),
                                ('a list', {'added_tokens_decoder': []}, 'added_tokens_decoder'),
                                ('kind', {'add_bos_token': 'no'}, 'add_bos_token')):
        left_out('added: ' + name,
                 Case(config, tensors, tokenizer__model=sentencepiece(), tokenizer_config__json=settings), key)
    small = changed(LLAMA, vocab_size=33)
    left_out('more tokens than the model', Case(small, make_tensors(small), tokenizer__model=sentencepiece()),
             'more tokens')
    left_out('a tokenizer that cannot be', Case(config, tensors, tokenizer__model=b'x'), 'tokenizer.model')
    for name, files, arguments in (('no tokenizer.model', {}, ()),
                                   ('--no-tokenizer', {'tokenizer__model': b'x'}, ('--no-tokenizer',))):
        case = Case(config, tensors, **files)
        run = case.run(case.folder, case.out, *arguments)
        check(run.returncode == 0 and case.left() == ['model.bin']
              and ('no tokenizer written' in run.stderr) == (not files), name, run.stderr)
        case.close()


def left_out(what, case, key):
    """Refuses the tokenizer by this key, and writes the model."""
    run = case.run()
    check(run.returncode == 0 and case.left() == ['model.bin'], what + ': the model is written', run.stderr)
    lines = [line for line in run.stderr.splitlines() if 'warning: no tokenizer written: ' in line]
    check(len(lines) == 1 and key in lines[0] and '--ids' in lines[0], what + ': and the line says why', run.stderr)
    case.close()


def test_way_out():
    """A refused tokenizer keeps the model, and the line names the jobs that work without one, which do."""
    tensors = {name: (kind, shape, struct.pack('<f', 0.1) * math.prod(shape))
               for name, (kind, shape, _) in make_tensors(LLAMA).items()}
    bad = Case(LLAMA, tensors, tokenizer__model=b'x')
    said = bad.run('--tokenizer', os.path.join(bad.folder, 'tokenizer.model'), bad.out)
    check(said.returncode == 2 and said.stderr.count('\n') == 1, 'a tokenizer alone is refused', said.stderr)
    said = bad.run()
    check(said.returncode == 0 and '--ppl FILE --ids' in said.stderr and 'earlier export' not in said.stderr,
          'the line of a refused tokenizer says what works', said.stderr)
    with open(os.path.join(bad.results, 'model.tokenizer.bin'), 'w') as file:
        file.write('of another model')
    said = bad.run()
    check('model.tokenizer.bin is there from an earlier export' in said.stderr, 'an older tokenizer is named', said.stderr)
    os.remove(os.path.join(bad.results, 'model.tokenizer.bin'))
    bad.put('ids.txt', ' '.join(map(str, range(32))))
    program = os.path.join(os.path.dirname(EXPORTER), 'run')
    for what, arguments, status, words in (
            ('ids are read', ('--ppl', os.path.join(bad.folder, 'ids.txt'), '--ids', '-n', '16'), 0, ''),
            ('no text is', ('-i', 'Hi'), 2, 'or FOLDER/tokenizer.model if that is refused; without one, --ppl')):
        run = subprocess.run([program, bad.out, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             universal_newlines=True)
        check(run.returncode == status and words in run.stderr, 'without a tokenizer ' + what, run.stderr)
    bad.close()


def test_real_tokenizer():
    source = os.path.join(SHARED, 'models', 'llama2_tokenizer.model')
    if not os.path.exists(source):
        return skip('the Llama 2 tokenizer is not here')
    case = Case(LLAMA)
    out = os.path.join(case.results, 't.bin')
    run = case.run('--tokenizer', source, out)
    check(run.returncode == 0, 'Llama 2 tokenizer', run.stderr)
    if run.returncode == 0:
        tokens, t = read_tokenizer(out, 32000)
        found = [tokens[i][0] for i in (0, 1, 2, 3, 13, 258, 29871, 29900)]
        check(found == [b'<unk>', b'<s>', b'</s>', b'<0x00>', b'<0x0A>', b'<0xFF>', b' ', b'0'], 'Llama 2 tokens',
              found)
        check((t['flags'], t['bos_id'], t['unk_id'], t['eos_ids']) == (3, 1, 0, [2]) and
              t['types'] == [2, 3, 3] + 256 * [6] + (32000 - 259) * [1], 'Llama 2 trailer', t['flags'])
    case.close()


# ---- tests: damage of any kind ----

DAMAGE = '''
import importlib.util, io, os, random, sys
spec = importlib.util.spec_from_file_location('exporter', sys.argv[1])
exporter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exporter)
from export import tensors
folder, out, rounds = sys.argv[2], sys.argv[3], int(sys.argv[4])
rng, stderr = random.Random(5), sys.stderr
for name, reach in (('config.json', 1 << 20), ('model.safetensors', 2400), ('tokenizer.model', 1 << 20),
                    ('tokenizer_config.json', 1 << 20)):
    path = os.path.join(folder, name)
    whole = open(path, 'rb').read()
    for round in range(rounds):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(min(len(data), reach))
            kind = rng.randrange(4)
            if kind == 0: data[at] ^= 1 << rng.randrange(8)
            elif kind == 1: data[at] = rng.choice(b'0123456789"{}[],:-.e\\x00\\xff')
            elif kind == 2: del data[at:at + rng.randrange(1, 9)]
            else: data[at:at] = data[at:at + rng.randrange(1, 30)]
        open(path, 'wb').write(data)
        tensors.opened.cache_clear()
        sys.stderr = io.StringIO()
        try:
            status = exporter.main([folder, out])
        except BaseException as error:
            status = repr(error)
        said, sys.stderr = sys.stderr.getvalue(), stderr
        left = sorted(os.listdir(os.path.dirname(out)))
        refused = status == 2 and not left and said.count('\\n') == 1 and said.startswith('model_export: ')
        without = left == ['model.bin'] and 'warning: no tokenizer written: ' in said
        if not (status == 0 and (len(left) == 2 or without) or refused):
            print(name, round, status, left, ascii(said)[:300])
        for file in left: os.unlink(os.path.join(os.path.dirname(out), file))
    open(path, 'wb').write(whole)
'''


def test_damage():
    """A few hundred random damages: each ends in a good file or in one line, never in a traceback."""
    n = len(PIECES)
    config = changed(LLAMA, vocab_size=n + 4, rope_scaling=dict(LONG, factor=4.0), num_hidden_layers=1)
    settings = {'added_tokens_decoder': {str(n): {'content': '<x>', 'special': False, 'lstrip': False}},
                'add_bos_token': True}
    case = Case(config, make_tensors(config), tokenizer__model=sentencepiece(), tokenizer_config__json=settings)
    run = subprocess.run([sys.executable, '-I', '-S', '-B', '-c', DAMAGE, EXPORTER, case.folder, case.out,
                          os.environ.get('DAMAGE_ROUNDS', '150')],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    check(run.returncode == 0 and not run.stdout, 'damage', run.stdout[:600] or run.stderr)
    case.close()


if __name__ == '__main__':
    main(globals())
