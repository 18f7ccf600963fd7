#!/usr/bin/env python3
"""Latent attention in GGUF files: llama.cpp's factor of scores, computed here a second time from the exported keys;
files of older and newer layouts; refusals and notes, by name. And --explain's lines about the key-value cache, of
these models and of others."""

import json
import math
import os
import random
import struct

import blocks
import source_writers
from common import (ENGINES, check, close, config, export, good, in_work, main, one_line, perplexity, random_ids,
                    random_weights, read, read_model, run, shape_of, table, write, write_model)
from test_family_formats import FACTS, RUN, Case, IS_YARN, cut, folder_tensors
from folders import write_folder
from test_export_out import read_gguf

LATENT = [name for name in RUN if 'latent' in FACTS[name].always]
FACTOR = 4.0
# YaRN's pair, and a factor of its own.
PAIRS = [{}, dict(mscale=0.7), dict(mscale_all_dim=0.7), dict(mscale=0.9, mscale_all_dim=0.6),
         dict(mscale=1.0, mscale_all_dim=1.0), dict(mscale=0.707, mscale_all_dim=0.707), dict(attention_factor=0.9)]


def case_of(name, *features):
    return Case(FACTS[name], features)


def model_of(name, *features, **fields):
    """model.bin of a family, and its fields."""
    c = config(**{**case_of(name, *features).fields, **fields})
    path = in_work('latent.bin')
    write_model(path, c, random_weights(c, 5))
    return path, c


def out(path, what):
    """The file's settings, tensors and messages."""
    done = export('--no-tokenizer', path, in_work('latent.gguf'))
    check(done.returncode == 0, what + ': goes out', done.stderr)
    return *read_gguf(in_work('latent.gguf')), done.stderr


def rewritten(settings, tensors):
    """A GGUF file with these settings and float32 tensors {name: (shape, numbers)}."""
    return write(in_work('rewritten.gguf'), source_writers.gguf(typed(settings), {
        name: (0, shape, struct.pack('<%df' % len(values), *values)) for name, (shape, values) in tensors.items()}))


def typed(settings):
    kinds = {bytes: source_writers.STRING, bool: source_writers.BOOL, int: source_writers.U32,
             float: source_writers.GF32}
    return {key: (kinds[type(value)], value) for key, value in settings.items()}


def numbers_of(tensors):
    return {name: (shape, struct.unpack_from('<%df' % math.prod(shape), data))
            for name, (_, shape, data) in tensors.items()}


def comes_in(what, source):
    done = export('--no-tokenizer', source, in_work('back.bin'))
    check(done.returncode == 0, what + ': comes in', done.stderr)
    return in_work('back.bin'), done.stderr


# ---- YaRN ----

def grown(mscale):
    return 0.1 * mscale * math.log(FACTOR) + 1


def as_llama_cpp(architecture, settings):
    """By how much cos and sin, and queries and keys together, are multiplied: llama-context.cpp and
    models/deepseek2.cpp of v0.5.0, line by line."""
    multiplier = settings['%s.rope.scaling.yarn_log_multiplier' % architecture] / 0.1
    mscale = multiplier if architecture == 'deepseek2' and multiplier != 1 else 1.0
    factor = grown(mscale) / grown(multiplier) if multiplier else grown(1)
    factor *= settings['%s.rope.scaling.attn_factor' % architecture] / grown(1)
    original = factor * grown(1)
    return factor * grown(1), original * grown(multiplier)


def test_yarn():
    """The keys have the model's meaning, and the imported model gives the same."""
    ids = random_ids(20, 40, 3)
    for name in LATENT:
        for pair in PAIRS:
            what = '%s with %s' % (name, pair)
            scored = int('mscale_all_dim' in pair)
            path, c = model_of(name, 'shared_expert', **{
                **IS_YARN, 'mscale': 0, 'mscale_all_dim': 0, 'mscale_in_scores': scored, **pair})
            m, m_all = c['mscale'], c['mscale_all_dim']
            turned = c['attention_factor'] or (grown(m) / grown(m_all) if m and m_all else grown(1))
            settings, _, _ = out(path, what)
            close(as_llama_cpp(FACTS[name].gguf, settings), [turned, grown(m_all) if m_all else 1.0], 2e-6,
                  what + ': what llama.cpp makes of it')
            back, _ = comes_in(what, in_work('latent.gguf'))
            expected = perplexity(path, ids, *ENGINES[0])
            close(perplexity(back, ids, *ENGINES[0]), expected, 2e-3, what + ': there and back')


def test_linear():
    """llama.cpp multiplies scores there as well, which a key takes back."""
    path, _ = model_of('deepseek_v3', 'shared_expert', method='linear', factor=FACTOR)
    settings, tensors, _ = out(path, 'linear')
    multiplier = settings['deepseek2.rope.scaling.yarn_log_multiplier'] / 0.1
    close([grown(1) * grown(multiplier), settings['deepseek2.rope.scaling.attn_factor']], [1, 1], 2e-6, 'linear')
    back, said = comes_in('linear', in_work('latent.gguf'))
    check(read_model(back)[0]['rope_method'] == 1 and 'multiplies' not in said, 'linear, there and back', said)
    del settings['deepseek2.rope.scaling.yarn_log_multiplier']
    _, said = comes_in('linear, by the converter', rewritten(settings, numbers_of(tensors)))
    check('multiplies the scores' in said and said.count('\n') == 2, 'what llama.cpp does otherwise is said', said)


def test_temperature():
    settings, tensors, _ = out(model_of('mistral4', 'shared_expert')[0], 'mistral4')
    close([settings['mistral4.attention.temperature_scale']], [0.3], 1e-6, 'the temperature')
    check(settings['mistral4.attention.temperature_length'] == 16, 'its length', settings)
    settings['mistral4.attention.temperature_length'] = 8
    done = export('--no-tokenizer', rewritten(settings, numbers_of(tensors)), in_work('x.bin'))
    check(done.returncode == 2 and 'temperature_length cannot be used (found 8' in done.stderr, 'two lengths',
          done.stderr)


# ---- layouts ----

def older(c, settings, tensors):
    """Keys and values in one matrix, none of the newer keys."""
    heads, rank, d, value = c['n_heads'], c['kv_rank'], c['head_dim'], c['value_dim'] or c['head_dim']
    still, found = d - c['rotary_dim'], dict(tensors)
    for layer in range(c['n_layers']):
        keys, values = (found.pop('blk.%d.attn_%s_b.weight' % (layer, part))[1] for part in 'kv')
        rows = []
        for head in range(heads):
            own = keys[head * rank * still:][:rank * still]  # (rank, still)
            rows += [own[row * still + column] for column in range(still) for row in range(rank)]
            rows += values[head * value * rank:][:value * rank]
        found['blk.%d.attn_kv_b.weight' % layer] = [heads * (still + value), rank], rows
    settings = {key: value for key, value in settings.items() if not key.endswith('_mla')}
    settings.update({'deepseek2.attention.key_length': d, 'deepseek2.attention.value_length': value,
                     'deepseek2.attention.head_count_kv': heads})
    return settings, found


def test_layouts():
    """An older file, and one with a layer that predicts further tokens, are the same model."""
    for features in ['shared_expert'], ['shared_expert', 'q_latent', 'dense_between', 'groups', 'renormalized']:
        path, c = model_of('deepseek_v3', *features)
        settings, tensors, _ = out(path, 'deepseek_v3')
        tensors, expected = numbers_of(tensors), read_model(path)[1]
        back, _ = comes_in('an older file', rewritten(*older(c, settings, tensors)))
        check(read_model(back)[1] == expected, 'an older file: the same weights')
        more = {name.replace('blk.3.', 'blk.4.'): found for name, found in tensors.items() if 'blk.3.' in name}
        more['blk.4.nextn.eh_proj.weight'] = [16, 32], [0.0] * 512
        counted = {**settings, 'deepseek2.block_count': 5, 'deepseek2.nextn_predict_layers': 1}
        back, _ = comes_in('a layer behind the last', rewritten(counted, {**tensors, **more}))
        check(read_model(back) == read_model(comes_in('without it', in_work('latent.gguf'))[0]),
              'a layer behind the last is left out')
        silent = {key: value for key, value in settings.items() if 'gating_func' not in key}
        back, _ = comes_in('without a gating function', rewritten(silent, tensors))
        check(read_model(back)[0]['router'] == 2, 'a bias of the choice goes with sigmoids')


def test_blocks():
    """Keys in blocks, which lie along the rows that become columns: their values by a second derivation."""
    path, c = model_of('deepseek_v3', 'shared_expert', head_dim=36)  # 32 of which do not turn
    settings, tensors, _ = out(path, 'wider heads')
    heads, rank, still, rng = c['n_heads'], c['kv_rank'], 32, random.Random(3)
    for kind in ('Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'IQ4_NL'):
        packed = {name: (0, shape, struct.pack('<%df' % len(values), *values))
                  for name, (shape, values) in numbers_of(tensors).items()}
        data = blocks.random_blocks(kind, heads * rank, rng)
        packed['blk.2.attn_k_b.weight'] = blocks.GGML_NUMBERS[kind], [heads, rank, still], bytes(data)
        back, _ = comes_in(kind, write(in_work('blocks.gguf'), source_writers.gguf(typed(settings), packed)))
        own = blocks.decode(kind, data)
        rows = [own[(head * rank + i) * still + column] for head in range(heads) for column in range(still)
                for i in range(rank)]
        close(read_model(back)[1]['wk.2'], rows, 1e-8, 'keys of %s' % kind)
    data = bytes(84 * heads * rank // 8)
    packed['blk.2.attn_k_b.weight'] = blocks.GGML_NUMBERS['Q2_K'], [heads, rank, still], data
    done = export('--no-tokenizer', write(in_work('blocks.gguf'), source_writers.gguf(typed(settings), packed)),
                  in_work('x.bin'))
    check(done.returncode == 2 and done.stderr.count('\n') == 1, 'other blocks', done.stderr)


def test_groups_of_softmax():
    """Of DeepSeek V2 a group counts by its best expert, and of llama.cpp by its best two."""
    settings, tensors, _ = out(model_of('deepseek_v2', 'shared_expert')[0], 'deepseek_v2')
    settings.update({'deepseek2.expert_group_count': 2, 'deepseek2.expert_group_used_count': 1})
    back, said = comes_in('groups', rewritten(settings, numbers_of(tensors)))
    c, _ = read_model(back)
    check((c['router_groups'], c['router_group_best']) == (2, 1) and 'best two' in said, 'groups of DeepSeek V2', said)


# ---- notes and refusals ----

def test_said():
    """Settings that llama.cpp does not load, or reads differently."""
    for name, features, fields, words in (
            ('deepseek_v3', [], {}, 'does not load architecture deepseek2 without a shared expert'),
            ('mistral4', [], {}, 'does not load architecture mistral4 without a shared expert'),
            ('minimax_m2', [], dict(shared_classifier=1), 'minimax-m2 without a classifier of its own'),
            ('deepseek_v3', ['shared_expert', 'q_latent'], dict(n_layers=26), 'since it has 26 layers'),
            ('deepseek_v3', ['shared_expert'], {}, 'the norms of latent vectors, 1e-06')):
        _, _, said = out(model_of(name, *features, **fields)[0], name)
        check(words in said, '%s: %s' % (name, words), said)
    _, _, said = out(model_of('deepseek_v3', 'shared_expert', norm_eps=1e-6)[0], 'one epsilon')
    check(said.count('\n') == 1, 'and nothing more', said)


def refused(what, path, *words):
    done = export('--no-tokenizer', path, in_work('none.gguf'))
    check(done.returncode == 2 and done.stderr.count('\n') == 1 and not os.path.exists(in_work('none.gguf')), what,
          done.stderr)
    check(all(word in done.stderr for word in words), what + ': words', (words, done.stderr))


def test_refused():
    refused('FlexOlmo', model_of('flex_olmo')[0], "is FlexOlmo, but of no family of llama.cpp's")
    refused('DeepSeek V2 with groups', model_of('deepseek_v2', 'groups')[0], 'is DeepSeek V2', 'groups of experts')
    refused('GLM without a shared expert', model_of('glm4_moe')[0], 'is GLM-4.5')
    refused('groups by their best', model_of('deepseek_v3', 'groups', router_group_best=1)[0], 'their best 1')


def test_biases():
    """Biases of latent attention that a config speaks of and a folder has not; and GGUF has no name for them."""
    for name in LATENT:
        case = case_of(name, 'shared_expert', 'latent_bias', 'q_latent')
        tensors = folder_tensors(case.facts, case.c, random_weights(case.c, 1))
        del tensors['model.layers.1.self_attn.kv_a_proj_with_mqa.bias']
        done = export('--no-tokenizer', write_folder(in_work('biased'), case.settings, tensors), in_work('biased.bin'))
        check(done.returncode == 2 and 'layers.1.self_attn.kv_a_proj_with_mqa.bias is missing' in done.stderr,
              '%s without a bias' % name, done.stderr)
        done = export('--no-tokenizer', model_of(name, 'shared_expert', 'latent_bias')[0], in_work('biased.gguf'))
        check(done.returncode == 2 and 'biases of latent attention' in done.stderr, name + ': to GGUF', done.stderr)


def test_pairs_in_halves():
    """A folder with rope_interleave false has the rotated part of a head in halves, of weights and of biases."""
    def apart(rows):
        """The rotated part, at the end of each head's rows, in halves."""
        still = len(rows) - case.c['rotary_dim']
        return rows[:still] + rows[still::2] + rows[still + 1::2]

    for name in (name for name in LATENT if FACTS[name].row['latent'] == 'interleave'):
        case = case_of(name, 'shared_expert', 'latent_bias', 'q_latent')
        tensors = folder_tensors(case.facts, case.c, random_weights(case.c, 1))
        usual, there = comes_in(name, write_folder(in_work('pairs'), case.settings, tensors))
        expected = read(usual)
        for part, shape, heads in [(part, *tensors[part][:1], n) for part in tensors for end, n in (
                ('q_b_proj.weight', case.c['n_heads']), ('kv_a_proj_with_mqa.weight', 1),
                ('kv_a_proj_with_mqa.bias', 1)) if part.endswith(end)]:
            rows = cut(list(tensors[part][1]), shape[1] if len(shape) > 1 else 1)
            each = len(rows) // heads
            rows = [row for h in range(heads) for row in apart(rows[h * each:(h + 1) * each])]
            tensors[part] = shape, [x for row in rows for x in row]
        folder = write_folder(in_work('halves'), {**case.settings, 'rope_interleave': False}, tensors)
        check(read(comes_in(name + ' in halves', folder)[0]) == expected, name + ': pairs in halves')


# ---- memory ----

def vectors(c, layer):
    """The lengths of the vectors that a position keeps in a layer; none if it reads an earlier layer's."""
    _, n_kv_heads, head_dim, _, kv_layer = shape_of(c, layer)
    if c['kv_rank']:
        return [c['kv_rank'] + c['rotary_dim']]
    return [head_dim, c['value_dim'] or head_dim] * n_kv_heads if kv_layer == layer else []


def bytes_of(c, layer, kv, whole=16):
    """Of a token. Values fill vectors of `whole` numbers; a vector of q8 has a scale, and 32 numbers of q4 have one. A
    value of q4 is whole blocks of 32."""
    own = vectors(c, layer)
    if kv == 'q4':
        return sum(((n + 31) // 32 * 16 if i % 2 else n // 2) + (n + 31) // 32 * 2 for i, n in enumerate(own))
    kept = [n if i % 2 == 0 else (n + whole - 1) // whole * whole for i, n in enumerate(own)]
    return sum(kept) * {'f16': 2, 'f32': 4, 'q8': 1}[kv] + 4 * len(own) * (kv == 'q8')


def test_memory():
    """--explain's bytes, from the model's sizes."""
    borrowed = [(4, 2, 8, 44, 0), (4, 2, 8, 44, 0), (4, 1, 16, 44, 2)]
    for c in (config(n_layers=3), config(encoding='alibi', n_layers=3), case_of('deepseek_v3', 'shared_expert').c,
              case_of('olmo3', 'some_window', 'window').c, config(n_layers=3, sliding_window=9),
              config(n_layers=3, shapes=borrowed, head_dim=16, rotary_dim=8)):
        path, layers = in_work('memory.bin'), range(c['n_layers'])
        write_model(path, c, random_weights(c, 2))
        for kv in 'f16', 'f32', 'q8', 'q4':
            what = 'cache of %s, %s' % ({key: c[key] for key in ('encoding', 'kv_rank', 'sliding_window')}, kv)
            token, window = sum(bytes_of(c, layer, kv) for layer in layers), c['sliding_window']
            found = table(good(path, '--explain', '--kv', kv, '-n', 60, '--tsv').out)[0]
            said = [found['cache'], int(found['cache_token_bytes']), int(found['cache_bytes'])]
            whole, n_keys = 64 * token, 0
            if kv == 'q4' and not c['kv_rank']:  # the first block is float16, as wide, and each key has a mean
                n_keys = sum(sum(vectors(c, layer)[::2]) for layer in layers)
                whole = 64 * sum(bytes_of(c, layer, 'f16', 32) for layer in layers) + 4 * n_keys
            check(said[:2] == [kv, token] and 0 <= said[2] - whole < 64 * len(layers), what, (said, token, whole))
            check(('cache_latent' in found) == bool(c['kv_rank']), what + ': latent', found)
            check(found.get('cache_borrowing_layers') == ('1' if 'shapes' in c else None), what + ': shared', found)
            flags = c.get('layers') or [0] * c['n_layers']
            read = sum(bytes_of(c, layer, kv) * (9 if window and not flags[layer] & 1 else 60) for layer in layers)
            check(found.get('cache_read_bytes') == (str(read) if window else None), what + ': read', (found, read))
            in_json = json.loads(good(path, '--explain', '--kv', kv, '-n', 60, '--json').out)
            check(in_json['cache_token_bytes'] == token, what + ': --json', in_json)
    found = good('--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64)
    check('cache' not in found.out, 'none without a model', found)
    one_line(run(path, '--explain', '--kv', 'f8'), 2, 'an unknown type', 'f8', 'f16')


if __name__ == '__main__':
    main(globals())
