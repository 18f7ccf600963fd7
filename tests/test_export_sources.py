#!/usr/bin/env python3
"""Every kind of source that model_export.py reads: the same small model, written in each layout, is the same model.bin
and scores the same when it runs. The writers are in source_writers.py."""

import json
import os
import shutil
import struct

import source_writers as w
from common import (BF16, F16, F32, SHARED, check, close, config, good, in_work, main, perplexity, random_ids, read,
                    skip, table, write_model)
from export_common import PIECES, read_tokenizer
from source_writers import ARRAY, BOOL, GF32, I32, STRING, U32, WEIGHTS, C, Place, exact_weights
from test_legacy import write_legacy

IDS = random_ids(40, 52, 61)


def scores(path):
    return perplexity(path, IDS, '--kv', 'f32')


def same_model(what, place, weights=WEIGHTS, weight_type=F32, c=C, source=None, arguments=()):
    """The exported file has these weights bit by bit, and scores as they do in float32."""
    if place.exported(what, source, *arguments):
        write_model(in_work('expected.bin'), dict(c, weight_type=weight_type), weights)
        check(read(place.out)[256:] == read(in_work('expected.bin'))[256:], 'tensors of ' + what)
        same_scores(what, place, weights, c)


def same_scores(what, place, weights, c=C):
    write_model(in_work('expected.bin'), dict(c, weight_type=F32, types=(), type_table=0), weights)
    close(scores(place.out), scores(in_work('expected.bin')), 1e-5, 'scores of ' + what)


# ---- the same model from every source ----

def test_huggingface():
    for kind, shards, dtype, weight_type in (('safetensors', 1, 'F32', F32), ('safetensors', 3, 'BF16', BF16),
                                             ('bin', 1, 'F32', F32), ('bin', 3, 'F16', F16)):
        place = Place()
        w.write_huggingface(place.source, C, w.huggingface_tensors(C, WEIGHTS, dtype), kind, shards)
        same_model('%d %s in %s' % (shards, kind, dtype), place, WEIGHTS, weight_type)


def test_spellings_of_torch():
    """Variations of torch.save: protocols, views of one storage, parameters, zip64, padded entries, no mark of the byte
    order."""
    tensors = w.huggingface_tensors(C, WEIGHTS, 'F32')
    expected = None
    padding = struct.pack('<2H', 0x4246, 21) + b'Z' * 21
    for what, data in (('protocol 2', w.torch_file(tensors)), ('protocol 4', w.torch_file(tensors, 4)),
                       ('protocol 5', w.torch_file(tensors, 5)), ('one storage', w.torch_file(tensors, shared=True)),
                       ('parameters', w.torch_file(tensors, parameters=True)),
                       ('zip64', w.in_zip64(w.torch_file(tensors))),
                       ('padded entries', w.torch_file(tensors, extra=padding)),
                       ('padded zip64', w.in_zip64(w.torch_file(tensors, extra=padding)))):
        place = Place()
        place.put('config.json', json.dumps(w.huggingface_config(C)))
        place.put('pytorch_model.bin', data)
        if place.exported('torch.save, ' + what):
            expected = expected or read(place.out)
            check(read(place.out) == expected, 'torch.save, ' + what)


def test_gguf():
    for dtype, weight_type, version in (('F32', F32, 3), ('F16', F16, 3), ('BF16', BF16, 2)):
        place = Place()
        data = w.gguf(w.gguf_settings(C), w.gguf_tensors(C, WEIGHTS, dtype), version)
        same_model('GGUF in ' + dtype, place, WEIGHTS, weight_type, source=place.put('a.gguf', data))
    tied = config(dim=32, hidden_dim=96, n_heads=4, n_kv_heads=2, head_dim=8, vocab_size=52, shared_classifier=1)
    weights = {name: values for name, values in WEIGHTS.items() if name != 'classifier'}
    place = Place()
    data = w.gguf(w.gguf_settings(C), w.gguf_tensors(C, weights, 'F16'))
    same_model('GGUF without output.weight', place, weights, F16, tied, place.put('a.gguf', data))
    mixed = {**w.gguf_tensors(C, WEIGHTS, 'F32'),
             **{name: t for name, t in w.gguf_tensors(C, WEIGHTS, 'F16').items() if 'ffn' in name}}
    place, types = Place(), [F32] + 2 * (4 * [F32] + 3 * [F16]) + [F32]
    same_model('GGUF in F32 and F16', place, c=config(**{**C, 'types': types, 'type_table': 1, 'version': 4}),
               source=place.put('a.gguf', w.gguf(w.gguf_settings(C), mixed)))
    check('float32 and float16' in place.lines, 'both types are said', place.lines)


def test_llama2c():
    for version, group in ((0, 0), (1, 0), (2, 32), (2, 16)):
        for shared in (0, 1):
            c, place = dict(C, shared_classifier=shared), Place()
            weights = {name: values for name, values in WEIGHTS.items() if not shared or name != 'classifier'}
            what = 'version %d of llama2.c%s, %s classifier' % (version, ' in groups of %d' % group if group else '',
                                                                'shared' if shared else 'separate')
            source = os.path.join(place.source, 'old.bin')
            stored = write_legacy(source, c, weights, version, group)
            if version < 2:
                same_model(what, place, weights, F32, c, source)
            elif place.exported(what, source):
                check(place.header()['group_size'] == group, what, place.header())
                same_scores(what, place, stored, c)


def test_llama2c_as_it_runs():
    """A copy in version 3 scores as the file itself, in groups of 64 (where activations are rounded
    too) and when it was trained."""
    c = config(dim=64, hidden_dim=128, n_heads=4, n_kv_heads=2, head_dim=16, vocab_size=52)
    original = os.path.join(SHARED, 'models', 'stories260K.bin')
    if not os.path.exists(original):
        skip('version 3 of stories260K (no ../shared/models)')
    for what, source in (('groups of 64', in_work('groups.bin')), ('stories260K', original)):
        write_legacy(in_work('groups.bin'), c, exact_weights(c, 64), 2, 64)
        place = Place()
        if os.path.exists(source) and place.exported(what, source):
            close(scores(place.out), scores(source), 1e-6, 'a version 3 copy: ' + what)


# ---- settings ----

def float32(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def llama3_divisors(theta, factor, d):
    """rope_freqs.weight as llama.cpp's converter makes it of rope_type llama3, in float32 throughout."""
    pi, out = 3.141592653589793, []
    for i in range(d // 2):
        wavelength = float32(2 * pi / float32(1 / float32(theta ** float32(2 * i / d))))
        smooth = float32(float32(float32(8192 / wavelength) - 1) / 3)
        out.append(1.0 if wavelength < 2048 else factor if wavelength > 8192
                   else float32(1 / float32(float32((1 - smooth) / factor) + smooth)))
    return out


def test_gguf_settings():
    tensors = w.gguf_tensors(C, WEIGHTS, 'F32')

    def check_rope(what, settings, fields, extra=()):
        place = Place()
        settings = w.gguf_settings(C, **{'llama.' + key: value for key, value in settings.items()})
        divisors = {name: (0, (len(values),), struct.pack('<%df' % len(values), *values))
                    for name, values in dict(extra).items()}
        place.arguments = place.put('a.gguf', w.gguf(settings, {**tensors, **divisors})),
        place.has('GGUF: ' + what, **{'theta': 10000.0, 'seq_len': 64, 'train_ctx': 64, 'rope_method': 0, 'factor': 0.0,
                                      'attention_factor': 0.0, 'beta_fast': 0.0, **fields})
        return place

    kind, factor, original = 'rope.scaling.type', 'rope.scaling.factor', 'rope.scaling.original_context_length'
    plain = check_rope('as llama.cpp fills it in',
                       {'rope.freq_base': ..., 'attention.head_count_kv': (U32, 2), 'rope.dimension_count': ...},
                       {'bos_id': 1, 'eos_ids': [2], 'n_kv_heads': 2})
    check('no tokenizer' in plain.lines, 'GGUF without a tokenizer says so', plain.lines)
    check_rope('a factor alone is linear', {factor: (GF32, 4.0)}, {'rope_method': 1, 'factor': 4.0})
    check_rope('the old key', {'rope.scale_linear': (GF32, 2.0)}, {'rope_method': 1, 'factor': 2.0})
    check_rope('none has no factor', {kind: (STRING, 'none'), factor: (GF32, 4.0)}, {})
    check_rope('linear, attention',
               {kind: (STRING, 'linear'), factor: (GF32, 2.0), 'rope.scaling.attn_factor': (GF32, 1.5)},
               {'rope_method': 6, 'factor': 1.0, 'attention_factor': 1.5, 'short': [2.0] * 4,
                'long': [2.0] * 4})
    yarn = {kind: (STRING, 'yarn'), factor: (GF32, 4.0), original: (U32, 16)}
    check_rope('yarn', {**yarn, 'rope.scaling.yarn_beta_fast': (GF32, 16.0)},
               {'rope_method': 4, 'factor': 4.0, 'train_ctx': 16, 'beta_fast': 16.0})
    silent = check_rope('yarn without an original', {kind: (STRING, 'yarn'), factor: (GF32, 4.0)},
                        {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64})
    check('there is no %s: YaRN counts from context_length, 64' % original in silent.lines, 'which is said', silent.lines)
    silent = check_rope('yarn without a factor', {kind: (STRING, 'yarn'), original: (U32, 16)},
                        {'rope_method': 4, 'factor': 1.0, 'train_ctx': 16})
    check('there is no %s: the factor is 1' % factor in silent.lines, 'which is said, too', silent.lines)
    check_rope('a whole number as a fraction', {'rope.dimension_count': (GF32, 8.0)}, {'head_dim': 8})
    for key, value, words in (
            (factor, (w.ARRAY, (GF32, [4.0])), 'found a list, expected a number'),
            ('rope.scaling.yarn_beta_fast', (GF32, 0.5), 'found 0.5, expected no less than yarn_beta_slow')):
        place = Place()
        settings = {kind: (STRING, 'yarn'), factor: (GF32, 4.0), key: value}
        place.refused('GGUF: ' + key, words, place.put('a.gguf', w.gguf(w.gguf_settings(C, **{
            'llama.' + each: value for each, value in settings.items()}), tensors)))
    check_rope('yarn, attention', {**yarn, 'rope.scaling.attn_factor': (GF32, 0.5)},
               {'rope_method': 4, 'factor': 4.0, 'train_ctx': 16, 'attention_factor': 0.5 * 1.1386294361119891})
    check_rope('longrope', {kind: (STRING, 'longrope'), original: (U32, 16), 'rope.scaling.attn_factor': (GF32, 1.25)},
               {'rope_method': 6, 'factor': 4.0, 'train_ctx': 16, 'attention_factor': 1.25,
                'short': [1.0, 1.5, 2.0, 4.0], 'long': [1.0, 2.0, 8.0, 16.0]},
               {'rope_factors_short.weight': [1, 1.5, 2, 4], 'rope_factors_long.weight': [1, 2, 8, 16]})
    check_rope('divisors of 1', {}, {}, {'rope_freqs.weight': [1, 1, 1, 1]})
    # Llama 3.1's divisors are recognized as the rule they come from, whatever float32 made of them.
    for theta, s in ((500000.0, 8.0), (500000.0, 32.0), (1000000.0, 4.0)):
        check_rope('llama3 by its divisors, theta %g, factor %g' % (theta, s), {'rope.freq_base': (GF32, theta)},
                   {'theta': theta, 'rope_method': 5, 'factor': s, 'train_ctx': 8192, 'low_freq_factor': 1.0,
                    'high_freq_factor': 4.0},
                   {'rope_freqs.weight': llama3_divisors(theta, s, 8)})
    # Any others are kept, and used at every length.
    odd = [1.0, 3.0, float32(1.1), 7.0]
    place = check_rope('divisors of no rule', {}, {'rope_method': 6, 'factor': 1.0, 'attention_factor': 1.0,
                                                   'short': odd, 'long': odd}, {'rope_freqs.weight': odd})
    for length in (50, 500):
        rows = table(good(place.out, '--explain', '-n', length).out)[2]
        close([float(row['scaled_inv_freq']) for row in rows], [10000.0 ** (-i / 4) / e for i, e in enumerate(odd)],
              1e-9, 'frequencies by divisors at %d' % length)
    worst = 0.0  # the converter's float32 against the rule in double, for the head sizes there are
    for d in (64, 80, 128):
        for s in (8.0, 32.0):
            for i, found in enumerate(llama3_divisors(500000.0, s, d)):
                kept = min(max((8192 * 500000.0 ** (-2 * i / d) / 6.283185307179586 - 1) / 3, 0), 1)
                worst = max(worst, abs(found * ((1 - kept) / s + kept) - 1))
    check(worst < 2e-6, 'llama3 in float32 is within what is recognized', worst)


def test_gguf_tokenizer():
    c = config(dim=32, hidden_dim=32, n_layers=1, n_heads=4, n_kv_heads=4, head_dim=8, vocab_size=len(PIECES) + 3)
    tensors = w.gguf_tensors(c, exact_weights(c, 63), 'F16')
    texts = [text for text, _, _ in PIECES] + [b'[PAD266]', b'two words']
    keys = {'tokenizer.ggml.model': (STRING, 'llama'), 'tokenizer.ggml.tokens': (ARRAY, (STRING, texts)),
            'tokenizer.ggml.scores': (ARRAY, (GF32, [score for _, score, _ in PIECES] + [-1000.0, -1000.0])),
            'tokenizer.ggml.token_type': (ARRAY, (I32, [kind for _, _, kind in PIECES] + [5, 4])),
            'tokenizer.ggml.eot_token_id': (U32, 7), 'tokenizer.ggml.merges': (ARRAY, (STRING, [b'a b', b'c d']))}

    def exported(what, **changes):
        place = Place()
        changed = {**keys, **{'tokenizer.ggml.' + key: value for key, value in changes.items()}}
        place.exported(what, place.put('a.gguf', w.gguf(w.gguf_settings(c, **changed), tensors)))
        made = os.path.join(place.results, 'tokenizer.bin')
        return place.header(), place.lines, read_tokenizer(made, c['vocab_size']) if os.path.exists(made) else None

    header, _, (tokens, t) = exported('a tokenizer of GGUF')
    check(header['eos_ids'] == [2, 7] == t['eos_ids'] and header['bos_id'] == t['bos_id'] == 1 and t['flags'] == 3
          and t['unk_id'] == 0, 'trailer of a tokenizer of GGUF', (header, t))
    check(tokens == [(text.replace('\u2581'.encode(), b' '), score) for text, score,
                     _ in PIECES] + [(b'[PAD266]', -1000.0), (b'two words', -1000.0), (b'', 0.0)] and
          t['types'] == [kind for _, _, kind in PIECES] + [5, 4, 5], 'tokens of a tokenizer of GGUF', tokens[-5:])
    _, _, (_, t) = exported('no prefix', add_space_prefix=(BOOL, False), add_bos_token=(BOOL, False))
    check(t['flags'] == 2 and t['bos_id'] == -1, 'add_space_prefix and add_bos_token', t)
    _, lines, made = exported('another kind', model=(STRING, 'bert'))
    check(made is None and 'no tokenizer written' in lines and 'bert' in lines,
          'a tokenizer of another kind is left out, and said', lines)
    types, scores = [kind for _, _, kind in PIECES] + [5, 4], [score for _, score, _ in PIECES] + [-1000.0, -1000.0]
    byte_less = [1 if kind == 6 else kind for kind in types]
    empty = texts[:-2] + [b'', b'two words']
    # For keys that the file lacks or spells otherwise, llama.cpp's values count.
    for what, expected, changes in (
            ('no scores', {}, {'scores': ...}),
            ('scores as whole numbers', {}, {'scores': (ARRAY, (I32, [int(s) for s in scores]))}),
            ('no types', {'types': [1 if kind in (4, 5) else kind for kind in types] + [5]},
             {'token_type': ..., 'tokens': (ARRAY, (STRING, texts[:-1] + [b'one']))}),
            ('bytes as ordinary pieces', {}, {'token_type': (ARRAY, (I32, byte_less))}),
            ('an undefined piece', {'types': types[:-2] + [1, 4, 5]},
             {'token_type': (ARRAY, (I32, types[:-2] + [0, 4]))}),
            ('an unknown control piece by its spelling', {}, {'token_type': (ARRAY, (I32, [3] + types[1:]))}),
            ('an unknown control piece by its id', {'types': [3] + types[1:-2] + [2, 4, 5], 'unk_id': len(PIECES)},
             {'token_type': (ARRAY, (I32, [3] + types[1:])), 'unknown_token_id': (U32, len(PIECES))}),
            ('two of type unknown', {'types': types[:-2] + [3, 4, 5]},
             {'token_type': (ARRAY, (I32, types[:-2] + [2, 4])), 'unknown_token_id': (U32, 0)}),
            ('an empty piece', {}, {'tokens': (ARRAY, (STRING, empty))}),
            ('a BOS of -1', {'bos_id': 1}, {'bos_token_id': (U32, 2 ** 32 - 1)}),
            ('an EOT beyond', {'eos_ids': [2]}, {'eot_token_id': (U32, 1000)}),
            ('extra whitespace', {}, {'remove_extra_whitespaces': (BOOL, True)})):
        _, lines, made = exported('GGUF tokenizer: ' + what, **changes)
        found = made[1] if made else {}
        usual = {'types': types + [5], 'bos_id': 1, 'unk_id': 0, 'eos_ids': [2, 7], 'flags': 3}
        check({key: found.get(key) for key in usual} == {**usual, **expected}, 'GGUF tokenizer: ' + what, (found, lines))
        said = {'an EOT beyond': 'eot_token_id, 1000, names none', 'extra whitespace': 'remove_extra_whitespaces'}
        check(said.get(what, 'wrote') in lines and 'names none of' not in lines.replace('eot_token_id, 1000', '') or
              what in said, 'GGUF tokenizer: %s is said' % what, lines)
    nine_more = {'tokens': (ARRAY, (STRING, [text for text, _, _ in PIECES] + [b'a%d' % i for i in range(9)])),
                 'scores': (ARRAY, (GF32, [0.0] * (len(PIECES) + 9))),
                 'token_type': (ARRAY, (I32, [kind for _, _, kind in PIECES] + [1] * 9))}
    for what, key, changes in (('lists of different lengths', 'token_type', {'scores': (ARRAY, (GF32, [0.0]))}),
                               ('tokens of numbers', 'tokens', {'tokens': (ARRAY, (I32, [1, 2]))}),
                               ('more tokens than rows', 'more tokens', nine_more)):
        _, lines, made = exported('GGUF tokenizer: ' + what, **changes)
        check(made is None and 'warning: no tokenizer written: ' in lines and key in lines and '--ids' in lines,
              'GGUF tokenizer: ' + what, lines)
    place = Place()
    settings = w.gguf_settings(c, **{**keys, 'tokenizer.ggml.bos_token_id': (STRING, 'x')})
    place.refused('GGUF tokenizer: a BOS of another kind', 'bos_token_id', place.put('a.gguf', w.gguf(settings, tensors)))


def test_other_tokenizers():
    """Byte-level ones, from GGUF and from a folder's tokenizer.json, reach tokenizer.bin; how they are
    read is test_bytelevel.py's."""
    alphabet = [chr(b) if 0x21 <= b < 0x7f or 0xa1 <= b < 0xad or b > 0xad else None for b in range(256)]
    moved = iter(range(256, 512))
    alphabet = [c or chr(next(moved)) for c in alphabet]
    vocab = alphabet + ['he', '<|end|>', '<|pad|>']
    c = config(dim=32, hidden_dim=32, n_layers=1, n_heads=4, n_kv_heads=4, head_dim=8, vocab_size=len(vocab) - 1)
    weights, place = exact_weights(c, 65), Place()
    keys = {'model': (STRING, 'gpt2'), 'pre': (STRING, 'llama-bpe'),
            'tokens': (ARRAY, (STRING, [text.encode() for text in vocab])), 'merges': (ARRAY, (STRING, [b'h e'])),
            'token_type': (ARRAY, (I32, [1] * 257 + [3, 3])), 'eos_token_id': (U32, 257), 'bos_token_id': (U32, 257)}
    place.put('a.gguf', w.gguf(w.gguf_settings(c, **{'tokenizer.ggml.' + key: value for key, value in keys.items()}),
                               w.gguf_tensors(c, weights, 'F16')))
    tokenizer = {'version': '1.0',
                 'model': {'type': 'BPE', 'vocab': {text: i for i, text in enumerate(vocab[:257])},
                           'merges': ['h e'], 'ignore_merges': True},
                 'added_tokens': [{'id': 257 + i, 'content': text, 'special': True}
                                  for i, text in enumerate(vocab[257:])],
                 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': True},
                 'decoder': {'type': 'ByteLevel'}}
    w.write_huggingface(place.source, c, w.huggingface_tensors(c, weights, 'F16'), 'safetensors', 1)
    place.put('tokenizer.json', json.dumps(tokenizer))
    # The second one is another tokenizer, and so does not take the first one's name.
    for source, bos_id, name in ((os.path.join(place.source, 'a.gguf'), 257, 'tokenizer.bin'),
                                 (place.source, -1, 'model.tokenizer.bin')):
        if place.exported('a byte-level tokenizer', source):
            data = read(os.path.join(place.results, name))
            kind, flags, bos, unk, n_eos, split, n_merges = struct.unpack_from('<2I2i3I', data, data.index(b'TKT1') + 4)
            found = kind, flags & 8, bos, unk, n_eos, n_merges
            check(found == (1, 8, bos_id, -1, 1, 1) and 'left out' in place.lines, 'trailer of a byte-level tokenizer',
                  (found, place.lines))
            good(place.out, '-z', os.path.join(place.results, 'tokenizer.bin'), '-i', 'he', '-n', 4)
    # A BOS that tokenizer_config.json asks for, and post_processor has not.
    for what, settings, bos_id in (('add_bos_token', {'add_bos_token': True, 'bos_token': '<|end|>'}, 257),
                                   ('an object', {'add_bos_token': True, 'bos_token': {'content': '<|end|>'}}, 257),
                                   ('add_bos_token false', {'add_bos_token': False, 'bos_token': '<|end|>'}, -1),
                                   ('nothing', {'bos_token': '<|end|>'}, -1),
                                   ('a BOS that is no token', {'add_bos_token': True, 'bos_token': '<s>'}, None)):
        place.put('tokenizer_config.json', json.dumps(settings))
        shutil.rmtree(place.results)
        os.mkdir(place.results)
        if bos_id is None:
            run = place.export(None)
            check('no tokenizer written' in run.stderr and 'bos_token' in run.stderr, what, run.stderr)
        elif place.exported(what, place.source):
            data = read(os.path.join(place.results, 'tokenizer.bin'))
            check(struct.unpack_from('<i', data, data.index(b'TKT1') + 12)[0] == bos_id and
                  ('a BOS is put' in place.lines) == (bos_id >= 0), 'BOS: ' + what, place.lines)
    os.remove(os.path.join(place.source, 'tokenizer_config.json'))
    place.put('tokenizer.model', 'IQ== 0\nIg== 1\n')
    run = place.export(None)
    check(run.returncode == 0 and 'warning: no tokenizer written' in run.stderr and 'Llama 3' in run.stderr,
          "ranks of tiktoken that are not Llama 3's", run.stderr)
    for what, changes, bos_id, eos_ids in (
            ('no types', {'token_type': ..., 'tokens': (ARRAY, (STRING, keys['tokens'][1][1][:-1]))}, 257, [257]),
            ('types undefined and unknown', {'token_type': (ARRAY, (I32, [0] * 257 + [2, 3]))}, 257, [257]),
            ('another name', {'pre': (STRING, 'pixtral')}, 257, [257]),
            ('a BOS of -1', {'bos_token_id': (U32, 2 ** 32 - 1)}, -1, [257])):
        told = {**keys, **changes}
        place = Place()
        place.put('a.gguf', w.gguf(w.gguf_settings(c, **{'tokenizer.ggml.' + key: v for key, v in told.items()}),
                                   w.gguf_tensors(c, weights, 'F16')))
        if place.exported('byte-level GGUF: ' + what, os.path.join(place.source, 'a.gguf')):
            data = read(os.path.join(place.results, 'tokenizer.bin'))
            at = data.index(b'TKT1')
            _, flags, bos, _, n_eos, _, _ = struct.unpack_from('<2I2i3I', data, at + 4)
            ends = list(struct.unpack_from('<%di' % n_eos, data, at + 32))
            types = data[at + 32 + 4 * n_eos:][:258]
            check((bos, ends, flags & 8) == (bos_id, eos_ids, 8) and types == bytes([1] * 257 + [3]),
                  'byte-level GGUF: ' + what, (bos, ends, flags, types[250:]))


if __name__ == '__main__':
    main(globals())
