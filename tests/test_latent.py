#!/usr/bin/env python3
"""Latent attention in GGUF files: what llama.cpp multiplies scores with, computed here a second time from the keys that
go out; files of older and newer layouts; what is refused, or said, by name. And what --explain tells of the key-value
cache, of these models and of others."""

import json
import math
import os
import struct

import source_writers
from common import (ENGINES, check, close, config, export, good, in_work, main, one_line, perplexity, random_ids,
                    random_weights, read_model, run, table, write, write_model)
from test_doors import FACTS, RUN, Case, IS_YARN, folder_tensors
from test_layers import write_folder
from test_out import read_gguf

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
    """The file's settings, tensors and what was said."""
    done = export('--no-tokenizer', path, in_work('latent.gguf'))
    check(done.returncode == 0, what + ': goes out', done.stderr)
    return *read_gguf(in_work('latent.gguf')), done.stderr


def rewritten(settings, tensors):
    """A GGUF file with these settings and float32 tensors {name: (shape, numbers)}."""
    kinds = {bytes: source_writers.STRING, bool: source_writers.BOOL, int: source_writers.U32,
             float: source_writers.GF32}
    return write(in_work('rewritten.gguf'), source_writers.gguf(
        {key: (kinds[type(value)], value) for key, value in settings.items()},
        {name: (0, shape, struct.pack('<%df' % len(values), *values)) for name, (shape, values) in tensors.items()}))


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
    """The keys mean what the model does, and what comes back does the same."""
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


def test_groups_of_softmax():
    """Of DeepSeek V2 a group counts by its best expert, and of llama.cpp by its best two."""
    settings, tensors, _ = out(model_of('deepseek_v2', 'shared_expert')[0], 'deepseek_v2')
    settings.update({'deepseek2.expert_group_count': 2, 'deepseek2.expert_group_used_count': 1})
    back, said = comes_in('groups', rewritten(settings, numbers_of(tensors)))
    c, _ = read_model(back)
    check((c['router_groups'], c['router_group_best']) == (2, 1) and 'best two' in said, 'groups of DeepSeek V2', said)


# ---- what is said, and refused ----

def test_said():
    """What llama.cpp does not load, or does otherwise."""
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
    """Biases of latent attention are refused by name."""
    for name in LATENT:
        case = case_of(name, 'shared_expert')
        folder = write_folder(in_work('biased'), {**case.settings, 'attention_bias': True},
                              folder_tensors(case.facts, case.c, random_weights(case.c, 1)))
        done = export('--no-tokenizer', folder, in_work('biased.bin'))
        check(done.returncode == 2 and 'attention_bias cannot be used (found true, expected false)' in done.stderr,
              '%s with attention_bias' % name, done.stderr)


# ---- memory ----

BYTES = {'f16': 2, 'f32': 4, 'q8': 1}


def vectors(c):
    """The lengths of what a position keeps in a layer. Values fill whole vectors of 16."""
    if c['kv_rank']:
        return [c['kv_rank'] + c['rotary_dim']]
    value = c['value_dim'] or c['head_dim']
    return [c['head_dim'], (value + 15) // 16 * 16] * c['n_kv_heads']


def test_memory():
    """--explain's bytes, from the model's sizes."""
    cases = [config(n_layers=3), config(encoding='alibi', n_layers=3), case_of('deepseek_v3', 'shared_expert').c,
             case_of('olmo3', 'some_window', 'window').c, config(n_layers=3, sliding_window=9)]
    for c in cases:
        path = in_work('memory.bin')
        write_model(path, c, random_weights(c, 2))
        for kv, size in BYTES.items():
            what, own = 'cache of %s' % {key: c[key] for key in ('encoding', 'kv_rank', 'sliding_window')}, vectors(c)
            token = c['n_layers'] * (sum(own) * size + 4 * len(own) * (kv == 'q8'))
            found = table(good(path, '--explain', '--kv', kv, '-n', 60, '--tsv').out)[0]
            said = [found['cache'], int(found['cache_token_bytes']), int(found['cache_bytes'])]
            check(said == [kv, token, 64 * token], '%s, %s' % (what, kv), (said, token))
            check(('cache_latent' in found) == bool(c['kv_rank']), what + ': latent', found)
            full = sum(1 for flags in c.get('layers') or [0] * c['n_layers'] if flags & 1 or not c['sliding_window'])
            read = token // c['n_layers'] * (full * 60 + (c['n_layers'] - full) * 9)
            check(found.get('cache_read_bytes') == (str(read) if c['sliding_window'] else None), what + ': read',
                  (found, read))
            in_json = json.loads(good(path, '--explain', '--kv', kv, '-n', 60, '--json').out)
            check(in_json['cache_token_bytes'] == token, what + ': --json', in_json)
    found = good('--explain', '--head-dim', 8, '--theta', 1e4, '--train-ctx', 64)
    check('cache' not in found.out, 'none without a model', found)
    one_line(run(path, '--explain', '--kv', 'f8'), 2, 'an unknown type', 'f8', 'f16')


if __name__ == '__main__':
    main(globals())
