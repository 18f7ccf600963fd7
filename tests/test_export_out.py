#!/usr/bin/env python3
"""Exported models: the files of model_export.py for Hugging Face and for llama.cpp are read here by readers made from
the formats' descriptions, and compared, tensor by tensor and key by key, with the layouts of folders.py, which
follow the converters' own; then they are imported again, and must score the same. Tokenizers are exported in
test_bytelevel.py."""

import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import time

import kept
import common
from common import (BLOCK_MODELS, ENGINES, EXPORT, F32, Q4, Q8, ROOT, block_weights, check, close, config, in_work,
                    main, perplexity, random_ids, random_weights, read, run, takes_long, tiny_model, with_header, write,
                    write_model)
from export_common import LLAMA, Case, as_float32, make_tensors
from folders import gguf_of, header_of, hf_tensors
from test_families import METHODS, VARIANTS
from test_legacy import write_legacy

sys.path.insert(0, ROOT)
from export.common import Job, Problem  # noqa: E402
from export.model import Model  # noqa: E402
from export.out_tokenizer import gguf_tokenizer, tokenizer_json  # noqa: E402
from export.tokenizer import write_tokenizer  # noqa: E402
from export.tokenizer_bin import read_tokenizer_bin  # noqa: E402

FULL, SLIDING = 'full_attention', 'sliding_attention'
SHAPE = dict(head_dim=10, n_heads=4, n_kv_heads=2, dim=32, theta=50.0)


def export(*arguments, program=None):
    if not program:
        return common.export(*arguments)
    return subprocess.run([sys.executable, '-S', program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)


def carried(what, *arguments):
    done = export(*arguments)
    return check(done.returncode == 0 and not done.stdout, what, done.stderr)


def refused(what, word, *arguments, flags=('--no-tokenizer',)):
    """One line that has the word, and nothing is left where it was to be."""
    before = sorted(os.listdir(os.path.dirname(arguments[1].rstrip('/'))))
    done = export(*flags, *arguments)
    lines = done.stderr.splitlines()
    check(done.returncode == 2 and len(lines) == 1 and lines[0].startswith('model_export: ') and word in lines[0],
          'refused: ' + what, (done.returncode, done.stderr))
    check(sorted(os.listdir(os.path.dirname(arguments[1].rstrip('/')))) == before, 'refused, nothing left: ' + what)


# ---- readers ----

def read_safetensors(path):
    """{name: (type, shape, bytes)}"""
    data = read(path)
    length, = struct.unpack_from('<Q', data)
    head = json.loads(data[8:8 + length])
    check(head.pop('__metadata__') == {'format': 'pt'} and length % 8 == 0, 'safetensors say whose they are')
    check(max(entry['data_offsets'][1] for entry in head.values()) == len(data) - 8 - length, 'safetensors end')
    return {name: (entry['dtype'], entry['shape'], data[8 + length + entry['data_offsets'][0]:
                                                        8 + length + entry['data_offsets'][1]])
            for name, entry in head.items()}


def read_gguf(path):
    """Settings {key: value} and tensors {name: (ggml's type, shape, the rest of the file from where it lies)}."""
    data, at = read(path), 24
    magic, version, n_tensors, n_settings = struct.unpack_from('<4sIQQ', data)
    check((magic, version) == (b'GGUF', 3), 'GGUF of version 3', (magic, version))

    def take(form):
        nonlocal at
        value, = struct.unpack_from('<' + form, data, at)
        at += struct.calcsize('<' + form)
        return value

    def value(kind):
        nonlocal at
        if kind == 8:
            length = take('Q')
            at += length
            return data[at - length:at]
        if kind == 9:
            item, count = take('I'), take('Q')
            return [value(item) for _ in range(count)]
        return take({4: 'I', 5: 'i', 6: 'f', 7: '?'}[kind])

    settings = {}
    for _ in range(n_settings):
        key = value(8).decode()
        settings[key] = value(take('I'))
    places = {}
    for _ in range(n_tensors):
        name = value(8).decode()
        shape = [take('Q') for _ in range(take('I'))][::-1]
        places[name] = take('I'), shape, take('Q')
    start = at + -at % 32
    check(all(offset % 32 == 0 for _, _, offset in places.values()) and len(data) % 32 == 0, 'GGUF tensors lie aligned')
    return settings, {name: (kind, shape, data[start + offset:]) for name, (kind, shape, offset) in places.items()}


# ---- every family, against converters of its own ----

ALL = [1, 1, 1]
LISTS = dict(short_factors=[1.0, 1.2, 1.9, 2.0, 2.5], long_factors=[1.1, 3.0, 9.0, 9.5, 10.0])
# Other programs' names of the variants of test_families.py: model_type, and the keys that tell it.
HUGGING_FACE = {
    'plain': ('llama', {}), 'tied': ('llama', dict(tie_word_embeddings=True)),
    'a window': ('mistral', dict(sliding_window=9)),
    'biases': ('qwen2', dict(use_sliding_window=False, layer_types=[FULL] * 3)),
    'a bias of wo': ('seed_oss', dict(attention_bias=False, attention_out_bias=True, mlp_bias=False)),
    'all biases': ('llama', dict(attention_bias=True, mlp_bias=False)),
    'head norms': ('qwen3', dict(attention_bias=False, use_sliding_window=False)),
    'head norms and biases': ('qwen3', dict(attention_bias=True)),
    'a part turns': ('phi3', dict(sliding_window=None, architectures=['Phi3ForCausalLM'], partial_rotary_factor=0.6)),
    'one pair turns': ('phi3', {}),
    'longrope': ('phi3', dict(sliding_window=9, architectures=['Phi3ForCausalLM'], partial_rotary_factor='none',
                              original_max_position_embeddings=16, rope_scaling=dict(
                                  type='longrope', short_factor=LISTS['short_factors'],
                                  long_factor=LISTS['long_factors']))),
    'longrope and head norms': ('qwen3', dict(architectures=['Qwen3ForCausalLM'], rope_scaling=dict(
        rope_type='longrope', factor=4.0, original_max_position_embeddings=16, short_factor=LISTS['short_factors'],
        long_factor=LISTS['long_factors']))),
    'layers without rope': ('smollm3', dict(no_rope_layers=[1, 0, 1], use_sliding_window=False, attention_bias=False)),
    'layers that see all': ('smollm3', dict(use_sliding_window=True, sliding_window=9, no_rope_layers=ALL,
                                            layer_types=[SLIDING, FULL, SLIDING])),
    'upper layers slide': ('qwen2', dict(use_sliding_window=True, sliding_window=9, max_window_layers=2,
                                         layer_types=[FULL, FULL, SLIDING]))}
# llama.cpp loads Qwen 2 only with heads that are as wide together as the model, which these are not.
LLAMA_CPP = {'plain': 'llama', 'tied': 'llama', 'a window': 'llama', 'biases': 'seed_oss', 'all biases': 'llama',
             'a bias of wo': 'llama', 'head norms': 'qwen3', 'a part turns': 'phi3', 'one pair turns': 'phi3',
             'longrope': 'phi3',
             'every fourth layer without rope': 'smollm3'}
CASES = {**VARIANTS, 'plain': {}, 'tied': dict(shared_classifier=1), 'a window': dict(sliding_window=9),
         'longrope': dict(method='longrope', factor=4.0, train_ctx=16, sliding_window=9, **LISTS),
         'longrope and head norms': dict(method='longrope', factor=4.0, train_ctx=16, qk_norm=1, **LISTS),
         'all biases': dict(qkv_bias=1, o_bias=1), 'head norms and biases': dict(qk_norm=1, qkv_bias=1, o_bias=1),
         'upper layers slide': dict(qkv_bias=1, layers=[1, 1, 0], sliding_window=9),
         'every fourth layer without rope': dict(n_layers=5, layers=[0, 0, 0, 2, 0])}


def models(names):
    for seed, name in enumerate(sorted(names)):
        c = config(**dict(SHAPE, **dict({'n_layers': 3}, **CASES[name])))
        weights = random_weights(c, seed)
        write_model(in_work('m.bin'), c, weights)
        yield name, c, weights


def same_model(what, source, c, weights, tolerance=1e-6):
    """Brought in again it is the same: the fields of the header, the numbers, and those of the plain reference."""
    if not carried(what + ': in again', '--no-tokenizer', source, in_work('again.bin')):
        return
    ids = random_ids(30, 50, 3)
    found = perplexity(in_work('again.bin'), ids, '--kv', 'f32')
    close(found, perplexity(in_work('m.bin'), ids, '--kv', 'f32'), tolerance, what + ': in again')
    close(found, kept.nll(c, weights, ids), 1e-4, what + ': as the plain reference')


def test_huggingface():
    for name, c, weights in models(HUGGING_FACE):
        family, keys = HUGGING_FACE[name]
        what, folder = 'Hugging Face, %s' % name, in_work('hf %s/' % name)
        if not carried(what, '--no-tokenizer', in_work('m.bin'), folder):
            continue
        check(sorted(set(os.listdir(folder)) - {'rope.README'}) == ['config.json', 'generation_config.json',
                                                                    'model.safetensors'], what)
        found = json.loads(read(folder + 'config.json'))
        wanted = dict(keys, model_type=family, hidden_size=32, head_dim=10, num_attention_heads=4, rope_theta=50.0,
                      num_key_value_heads=2, num_hidden_layers=c['n_layers'], vocab_size=50, torch_dtype='float32',
                      max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=None)
        check({key: found.get(key, 'none') for key in wanted} == wanted, what + ': config.json', found)
        check(json.loads(read(folder + 'generation_config.json')) == {'bos_token_id': 1, 'eos_token_id': 2}, what)
        tensors = read_safetensors(folder + 'model.safetensors')
        expected = hf_tensors(c, weights, fused=family == 'phi3')
        expected.pop('lm_head.weight', None) if c['shared_classifier'] else None
        check(set(tensors) == set(expected), what + ': tensors', set(tensors) ^ set(expected))
        for tensor, (shape, values) in expected.items():
            good = tensors.get(tensor) == ('F32', shape, struct.pack('<%df' % len(values), *values))
            check(good, '%s: %s' % (what, tensor))
        same_model(what, folder, c, weights)
        check({key: value for key, value in header_of(in_work('again.bin')).items()} == header_of(in_work('m.bin')),
              what + ': the header again')


def test_gguf():
    for name, c, weights in models(LLAMA_CPP):
        family, what, out = LLAMA_CPP[name], 'GGUF, %s' % name, in_work('m.gguf')
        if not carried(what, '--no-tokenizer', in_work('m.bin'), out):
            continue
        settings, tensors = read_gguf(out)
        check(settings['general.architecture'].decode() == family, what, settings['general.architecture'])
        write(in_work('theirs.gguf'), gguf_of('smollm3' if family == 'llama' else family, c, weights))
        _, expected = read_gguf(in_work('theirs.gguf'))
        if family == 'seed_oss':  # which calls this norm otherwise
            expected = {tensor.replace('ffn_norm', 'post_attention_norm'): e for tensor, e in expected.items()}
        check(set(tensors) == set(expected), what + ': tensors', set(tensors) ^ set(expected))
        for tensor, (kind, shape, data) in expected.items():
            size = 4 * shape[0] * (shape[1] if shape[1:] else 1)
            found = tensors.get(tensor, (None, None, b''))
            check(found[:2] == (kind, shape) and found[2][:size] == data[:size], '%s: %s' % (what, tensor), found[:2])
        wanted = {'context_length': 64, 'embedding_length': 32, 'block_count': c['n_layers'], 'feed_forward_length': 44,
                  'attention.head_count': 4, 'attention.head_count_kv': 2, 'attention.key_length': 10,
                  'rope.dimension_count': c['rotary_dim'] or 10, 'rope.freq_base': 50.0}
        check({key: settings.get('%s.%s' % (family, key)) for key in wanted} == wanted, what + ': settings', settings)
        check(settings['tokenizer.ggml.model'] == b'no_vocab' and settings['tokenizer.ggml.bos_token_id'] == 1, what)
        same_model(what, out, c, weights, 1e-4)


def test_no_such_family():
    for name, _, _ in models({'everything'}):
        refused('%s, Hugging Face' % name, 'no family', in_work('m.bin'), in_work('refused/'))
    for name, _, _ in models(set(CASES) - set(LLAMA_CPP)):
        word = 'fourth' if name == 'layers without rope' else 'no family'
        refused('%s, GGUF' % name, word, in_work('m.bin'), in_work('refused.gguf'))
    tiny_model('logn.bin', logn=1)
    refused('logn', 'logn', in_work('logn.bin'), in_work('refused/'))
    refused('logn, GGUF', 'logn', in_work('logn.bin'), in_work('refused.gguf'))


# ---- RoPE ----

YARN = dict(METHODS['yarn'])
# Fields, the rope_scaling that they are, and the keys and tensors of GGUF; None: refused with this word.
ROPE = [
    (dict(method='linear', factor=4.0), dict(rope_type='linear', factor=4.0),
     {'rope.scaling.type': b'linear', 'rope.scaling.factor': 4.0}),
    (dict(method='ntk', factor=4.0), None, {'rope.freq_base': 50.0 * 4 ** (10 / 8)}),
    (dict(method='ntk', rope_dynamic=1, factor=2.0), dict(rope_type='dynamic', factor=2.0), 'dynamic'),
    (dict(method='ntk', rope_dynamic=1), dict(rope_type='dynamic', factor=1.0), 'dynamic'),
    (YARN, dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16, beta_fast=32, beta_slow=1),
     {'rope.scaling.type': b'yarn', 'rope.scaling.factor': 4.0, 'rope.scaling.original_context_length': 16}),
    (dict(YARN, attention_factor=1.5), dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16,
                                            beta_fast=32, beta_slow=1, attention_factor=1.5),
     {'rope.scaling.attn_factor': 1.5 / 1.138629436}),
    (dict(YARN, method='ntk-by-parts'), dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16,
                                             beta_fast=32, beta_slow=1, attention_factor=1.0),
     {'rope.scaling.attn_factor': 1 / 1.138629436}),
    (dict(YARN, truncate=0, beta_fast=16.0, beta_slow=2.0),
     dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16, beta_fast=16, beta_slow=2, truncate=False),
     'pairs'),
    (dict(YARN, beta_fast=16.0, beta_slow=2.0),
     dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16, beta_fast=16, beta_slow=2),
     {'rope.scaling.yarn_beta_fast': 16.0, 'rope.scaling.yarn_beta_slow': 2.0}),
    (dict(method='llama3', factor=4.0, train_ctx=16, low_freq_factor=1.0, high_freq_factor=4.0),
     dict(rope_type='llama3', factor=4.0, original_max_position_embeddings=16, low_freq_factor=1, high_freq_factor=4),
     {}),
    (dict(method='longrope', factor=4.0, train_ctx=16, **LISTS),
     dict(type='longrope', short_factor=LISTS['short_factors'], long_factor=LISTS['long_factors']),
     {'rope.scaling.attn_factor': 1.5 ** 0.5}),
    (dict(method='longrope', factor=2.0, train_ctx=16, **LISTS),
     dict(type='longrope', short_factor=LISTS['short_factors'], long_factor=LISTS['long_factors']),
     {'rope.scaling.attn_factor': 1.25 ** 0.5}),
    (dict(method='longrope', factor=4.0, train_ctx=16, rotary_dim=6, **{k: v[:3] for k, v in LISTS.items()}),
     dict(type='longrope', short_factor=LISTS['short_factors'][:3], long_factor=LISTS['long_factors'][:3]),
     {'rope.scaling.attn_factor': 1.5 ** 0.5}),
    (dict(YARN, mscale=1.0, mscale_all_dim=2.0), dict(
        rope_type='yarn', factor=4.0, original_max_position_embeddings=16, beta_fast=32, beta_slow=1,
        attention_factor=1.1386294361119891 / 1.2772588722239782), {})]


def read_as_transformers_4(config):
    """L and the attention factor of longrope as Transformers 4.57 takes them from config.json: L from beside the block
    alone, and the factor from it; Phi-3's class refuses a block that is not its type and its lists."""
    block, longest = config['rope_scaling'], config['max_position_embeddings']
    if config['model_type'] == 'phi3' and (len(block) != 3 or block.get('type') != 'longrope'):
        return None
    length = config.get('original_max_position_embeddings')
    factor = longest / length if length else block.get('factor', 1.0)
    length = length or longest
    return length, block.get('attention_factor') or math.sqrt(1 + math.log(factor) / math.log(length))


def test_longrope_for_transformers_4():
    """Longrope goes out as a Phi-3, and in a family with head norms, with factors of its own and without: all get what
    the model has, in Transformers 4, too, but for a Phi-3 with an attention factor, which is said."""
    for rotary_dim, qk_norm in (0, 0), (6, 0), (0, 1):
        lists = {k: v[:rotary_dim // 2 or 5] for k, v in LISTS.items()}
        for factor, attention in (4.0, 0.0), (2.0, 0.0), (4.0, 1.5), (1.0, 0.0):
            what = 'longrope of factor %g, attention factor %g, %d turn%s' % (
                factor, attention, rotary_dim or 10, ', head norms' * qk_norm)
            tiny_model('m.bin', **dict(SHAPE, method='longrope', factor=factor, train_ctx=16, rotary_dim=rotary_dim,
                                       attention_factor=attention, qk_norm=qk_norm, **lists))
            folder = in_work('longrope %d %d %g %g/' % (rotary_dim, qk_norm, factor, attention))
            done = export('--no-tokenizer', in_work('m.bin'), folder)
            found = json.loads(read(folder + 'config.json')) if check(done.returncode == 0, what, done.stderr) else {}
            told = 'Transformers 4 will refuse' in done.stderr
            expected = 16, attention or (1 + math.log(factor) / math.log(16)) ** 0.5
            seen = found and read_as_transformers_4(found)
            good = told if not qk_norm and attention else seen and not told and \
                seen[0] == 16 and abs(seen[1] / expected[1] - 1) < 1e-12
            check(found.get('original_max_position_embeddings') == 16 and good, what, (found, done.stderr))
            inside = found.get('rope_scaling', {}).get('original_max_position_embeddings')
            check(inside == (16 if qk_norm or attention else None), what + ': L in the block', inside)


def test_rope():
    for fields, block, keys in ROPE:
        c = config(**dict(SHAPE, **fields))
        weights = random_weights(c, 5)
        write_model(in_work('m.bin'), c, weights)
        folder, what = in_work('rope %d/' % ROPE.index((fields, block, keys))), str(sorted(fields.items()))[:90]
        if carried(what, '--no-tokenizer', in_work('m.bin'), folder):
            found = json.loads(read(folder + 'config.json'))
            if block and 'attention_factor' in block:  # said again as vLLM and SGLang, and MLX-LM, know it
                a, own = block['attention_factor'], 0.1 * math.log(block['factor'])
                block = dict(block, attn_factor=a / (own + 1), **({'mscale': (a - 1) / own} if a >= 1 else {}))
            scaling = found.get('rope_scaling')
            check(not block == (not scaling) and all(scaling[k] == v or abs(scaling[k] - v) < 1e-12
                                                     for k, v in (block or {}).items())
                  and len(scaling or {}) == len(block or {}), 'rope_scaling of ' + what, scaling)
            check(block or found['rope_theta'] == 50.0 * 4 ** 1.25, 'rope_theta of ' + what, found)
            same_model(what, folder, c, weights)
        if isinstance(keys, str):
            refused('GGUF, ' + what, keys, in_work('m.bin'), in_work('refused.gguf'))
        elif carried('GGUF, ' + what, '--no-tokenizer', in_work('m.bin'), in_work('m.gguf')):
            settings, tensors = read_gguf(in_work('m.gguf'))
            family = settings['general.architecture'].decode() + '.'
            for key, value in keys.items():
                good = settings.get(family + key) == value or isinstance(value, float) and abs(
                    settings.get(family + key, 0) / value - 1) < 1e-6
                check(good, 'GGUF, %s of %s' % (key, what), settings.get(family + key))
            check(('rope_freqs.weight' in tensors) == (c['rope_method'] == 5), 'GGUF, divisors of ' + what)
            same_model('GGUF, ' + what, in_work('m.gguf'), c, weights, 1e-4)
    for fields, word in (
            (dict(method='yarn', rope_dynamic=1, factor=2.0), 'dynamic-yarn'), (dict(YARN, ramp=1), 'ramp'),
            (dict(method='linear'), 'factor'), (dict(method='linear', factor=2.0, attention_factor=1.5), 'attention'),
            (dict(YARN, rotary_dim=6), 'Phi-3')):
        tiny_model('m.bin', **dict(SHAPE, **fields))
        refused(str(fields), word, in_work('m.bin'), in_work('refused/'))


def test_shares():
    """partial_rotary_factor is a share of a head, which readers cut to a whole number of elements."""
    hard = [(head, turning) for head in range(2, 258, 2) for turning in range(2, head + 1, 2)
            if int(head * round(turning / head, 12)) != turning]
    for head, turning in hard[::20]:
        path = write(in_work('share.json'), json.dumps({
            'model_type': 'phi3', 'head_dim': head, 'hidden_size': head, 'num_attention_heads': 1,
            'partial_rotary_factor': turning / head + 1e-9}))
        found = json.loads(run('--rope-json=phi3', '--rope-config', path).out or '{}').get('partial_rotary_factor', 1)
        check(int(head * found) == turning and len(str(found)) < 16, '%d of %d' % (turning, head), found)


def test_end_tokens():
    """All of them are in config.json, and come in again."""
    for ids in [2], [2, 30, 31]:
        model, folder = in_work('ends.bin'), in_work('ends/')
        c = config(n_eos=len(ids), eos_ids=tuple(ids + [0] * (8 - len(ids))))
        write_model(model, c, random_weights(c, 1))
        carried('%d end tokens' % len(ids), '--no-tokenizer', '--force', model, folder)
        said = json.loads(read(os.path.join(folder, 'config.json')))['eos_token_id']
        check(said == (ids if ids[1:] else ids[0]), '%d end tokens' % len(ids), said)
        carried('%d end tokens, in again' % len(ids), '--no-tokenizer', '--force', folder, model)
        check(header_of(model)['eos_ids'][:len(ids)] == tuple(ids), '%d end tokens, in again' % len(ids))


def test_phi3_through_gguf():
    """A Phi-3 whose whole heads turn stays one through every format: the file's factor, in float32, is longrope's own,
    so that Transformers 4 takes the folder."""
    c = config(**dict(SHAPE, method='longrope', factor=4.0, train_ctx=16, **LISTS))
    weights = random_weights(c, 5)
    write_model(in_work('m.bin'), c, weights)
    for out in in_work('phi.gguf'), in_work('phi/'):
        done = export('--no-tokenizer', in_work('m.bin'), out)
        notes = [line for line in done.stderr.splitlines() if 'heads of 40 together' not in line]
        check(done.returncode == 0 and len(notes) == 1, 'Phi-3 out to ' + out[-5:], done.stderr)
        done = export('--no-tokenizer', '--force', out, in_work('m.bin'))
        check(done.returncode == 0, 'Phi-3 in from ' + out[-5:], done.stderr)
    found = json.loads(read(in_work('phi/config.json')))
    check(found['architectures'] == ['Phi3ForCausalLM'] and set(found['rope_scaling']) == {
        'type', 'short_factor', 'long_factor'}, 'Phi-3 through GGUF', found)
    same_model('Phi-3 through GGUF', in_work('phi/'), c, weights)


# ---- GGUF of families whose layers differ ----

SLIDES = dict(sliding_window=9, sliding_rope=1, sliding_theta=50.0, sliding_train_ctx=64)
GEMMA = dict(norm_place=2, qk_norm=1, activation=1, embedding_scale=32 ** 0.5)
EXAONE = dict(norm_place=1, qk_norm=1, sliding_theta=50.0)
GPT_OSS = dict(n_experts=3, n_experts_used=2, expert_hidden_dim=44, activation=2, router_bias=1, expert_bias=1,
               attention_sinks=1, qkv_bias=1, o_bias=1)
FOURTH = [4, 4, 4, 3]
# Name, fields, whether each layer slides by the file's list, by what queries' norms are multiplied, and the words of a
# note. In llama.cpp v0.5.0 those without words score as here, and so do those of lists and scales; EXAONE is 1 nat and
# more off where a note is.
IN_GGUF = [
    ('gemma3', dict(GEMMA, layers=[4, 4, 4, 4, 4, 1], **SLIDES), None, 1, ''),
    ('gemma3', dict(GEMMA, layers=[1, 4, 4, 1, 1, 4], **SLIDES), [False, True, True, False, False, True], 1,
     'are not each sixth: llama.cpp v0.5.0'),
    ('gemma3', dict(GEMMA, layers=[4, 4, 4], **SLIDES), None, 1, ''),
    ('gemma3', dict(GEMMA, layers=[4, 4, 4, 4, 4, 1], score_scale=1 / 16, **SLIDES), None, 10 ** 0.5 / 16,
     'attn_q_norm.weight is multiplied by 0.197642'),
    ('gemma3', dict(GEMMA, n_layers=2, score_scale=0.7), None, 0.7 * 10 ** 0.5, 'score scale of 0.7'),
    # 27B is known by its layers, and llama.cpp scales its scores by dim / n_heads.
    ('gemma3', dict(GEMMA, layers=(5 * [4] + [1]) * 10 + [4, 4], score_scale=8 ** -0.5, **SLIDES), None, 1, ''),
    ('gemma3', dict(GEMMA, layers=(5 * [4] + [1]) * 10 + [4, 4], **SLIDES), None, 0.8 ** 0.5, 'score scale of 0.3'),
    ('olmo2', dict(norm_place=1, qk_norm=2, layers=[1, 4, 4, 1], **SLIDES), [False, True, True, False], 1, ''),
    ('gpt-oss', dict(GPT_OSS, layers=[4, 1, 4, 1], **SLIDES), None, 1, ''),
    ('gpt-oss', dict(GPT_OSS, layers=[1, 4, 4, 1], **SLIDES), [False, True, True, False], 1,
     'are not each second: llama.cpp v0.5.0'),
    ('exaone4', dict(EXAONE, layers=2 * FOURTH, **SLIDES), 2 * [True, True, True, False], 1,
     'does not slide in architecture exaone4 with 8 layers, only with 64'),
    ('exaone4', dict(EXAONE, layers=16 * FOURTH, **SLIDES), 16 * [True, True, True, False], 1, ''),
    ('exaone4', dict(norm_place=1, qk_norm=1, n_layers=8), None, 1, ''),
    ('exaone4', dict(norm_place=1, qk_norm=1, n_layers=64), None, 1, 'each fourth one will be without RoPE'),
    # attn_factor multiplies cos and sin in every architecture, so nothing is lost.
    ('llama', dict(METHODS['yarn'], attention_factor=1.5), None, 1, ''),
    ('qwen3', dict(METHODS['yarn'], attention_factor=1.5, qk_norm=1), None, 1, ''),
    ('gemma3', dict(GEMMA, attention_factor=1.5, n_layers=2, **METHODS['yarn']), None, 1, ''),
    ('olmo2', dict(METHODS['yarn'], method='ntk-by-parts', norm_place=1, qk_norm=2), None, 1, '')]


@takes_long
def test_layers_in_gguf():
    """The meaning of the keys and the norms of queries, the notes, and that both engines score the same after
    import."""
    for seed, (family, fields, slides, times, words) in enumerate(IN_GGUF):
        c = config(**{**SHAPE, 'n_layers': len(fields.get('layers', [0, 0])), **fields})
        what, weights = '%s, %d' % (family, seed), random_weights(c, seed)
        write_model(in_work('m.bin'), c, weights)
        done = export('--no-tokenizer', in_work('m.bin'), in_work('m.gguf'))
        notes = [line for line in done.stderr.splitlines()[:-1] if 'heads of 40 together' not in line]
        check(done.returncode == 0 and len(notes) == bool(words) and all(words in note for note in notes),
              what + ': notes', done.stderr)
        settings, tensors = read_gguf(in_work('m.gguf'))
        check(settings['general.architecture'].decode() == family, what, settings['general.architecture'])
        check(settings.get(family + '.attention.sliding_window_pattern') == slides, what + ': which layers slide',
              settings.get(family + '.attention.sliding_window_pattern'))
        for part in 'qk':
            own = weights.get(part + '_norm.1') if fields.get('qk_norm') == 1 else None
            if own:
                found = struct.unpack_from('<10f', tensors['blk.1.attn_%s_norm.weight' % part][2])
                close(found, [x * (times if part == 'q' else 1) for x in own[::2] + own[1::2]], 1e-6,
                      '%s: the norm of %s' % (what, part))
        if carried(what + ': in again', '--no-tokenizer', in_work('m.gguf'), in_work('again.bin')):
            ids = random_ids(30, 50, 3)
            for engine in ENGINES:
                close(perplexity(in_work('again.bin'), ids, *engine), perplexity(in_work('m.bin'), ids, *engine), 2e-5,
                      '%s: in again, %s' % (what, engine[0]))


# ---- types of weights ----

def test_types():
    """Floats as they are; q8 and q4 as float16; blocks as themselves in GGUF, as float16 in a folder."""
    for kind, group in ((0, 0), (1, 0), (2, 0), (Q8, 64), (Q4, 32)):
        c = config(dim=64, hidden_dim=64, weight_type=kind, group_size=group)
        weights = write_model(in_work('m.bin'), c, random_weights(c, 7))
        names = {0: ('F32', 0), 1: ('F16', 1), 2: ('BF16', 30), Q8: ('F16', 1), Q4: ('F16', 1)}[kind]
        plain = dict(c, weight_type=F32, group_size=0)
        for what, out in ('Hugging Face', in_work('type %d/' % kind)), ('GGUF', in_work('type.gguf')):
            if not carried('%s, weights of type %d' % (what, kind), '--no-tokenizer', in_work('m.bin'), out):
                continue
            found = ({t[0] for t in read_safetensors(out + 'model.safetensors').values() if len(t[1]) == 2}
                     if out[-1] == '/' else {t[0] for t in read_gguf(out)[1].values() if len(t[1]) == 2})
            check(found == {names[out[-1] != '/']}, '%s, type %d' % (what, kind), found)
            carried('in again', '--no-tokenizer', out, in_work('again.bin'))
            ids = random_ids(30, 50, 3)
            close(perplexity(in_work('again.bin'), ids, '--kv', 'f32', '--activations', 'f32'),
                  kept.nll(plain, weights, ids), 1e-2 if kind > 2 else 1e-4,
                  '%s, scores of type %d' % (what, kind))
    for name, c in BLOCK_MODELS.items():
        source = write_model(in_work('m.bin'), c, block_weights(c, random_weights(c, 3), 3))
        ids = random_ids(20, 9, 3)
        for what, out in ('Hugging Face', in_work(name + '/')), ('GGUF', in_work('type.gguf')):
            if carried('%s, %s' % (what, name), '--no-tokenizer', in_work('m.bin'), out) and carried(
                    'in again', '--no-tokenizer', out, in_work('again.bin')):
                close(perplexity(in_work('again.bin'), ids, '--kv', 'f32', '--activations', 'f32'), kept.nll(dict(
                    c, weight_type=F32), source, ids), 0.05 if what[0] == 'H' else 2e-3, '%s, %s' % (what, name))
        _, tensors = read_gguf(in_work('type.gguf'))
        types = {8, 2, 3, 6, 7, 39} if name == 'blocks' else {14, 12, 13, 10, 11, 20, 23}
        check(types <= {t[0] for t in tensors.values()}, 'GGUF keeps ' + name, {t[0] for t in tensors.values()})


def test_half_floats():
    """A folder in float16 or bfloat16 comes out as it was, vectors, too, which model.bin has in float32. A norm that
    the type does not hold stays float32, and so do all beside matrices of several types."""
    for kind, of_norm, of_last in (('BF16', 'BF16', 'BF16'), ('F16', 'F16', 'F16'), ('BF16', 'F32', 'BF16'),
                                   ('F16', 'F32', 'F16'), ('F16', 'BF16', 'F16'), ('BF16', 'BF16', 'F32')):
        types = {'model.norm.weight': of_norm, 'lm_head.weight': of_last}
        case = Case(LLAMA, make_tensors(LLAMA, lambda name: types.get(name, kind)))
        out = os.path.join(case.results, 'out/')
        for done in case.run('--no-tokenizer', case.folder, case.out), case.run('--no-tokenizer', case.out, out):
            check(done.returncode == 0, 'floats of half the size', done.stderr)
        before, after = (read_safetensors(os.path.join(place, 'model.safetensors')) for place in (case.folder, out))
        for name, (dtype, shape, data) in before.items():
            fits = kind == of_last and (dtype == kind or 'norm' not in name)
            wide = name[-4:] != 'bias' and len(shape) == 1 and not fits
            expected = ('F32', shape, as_float32(dtype, data)) if wide else (dtype, shape, data)
            check(after.get(name) == expected, '%s, %s of norm, %s of head: %s' % (kind, of_norm, of_last, name),
                  after.get(name, ())[:2])
        named = {'BF16': 'bfloat16', 'F16': 'float16'}[kind] if kind == of_last else 'float32'
        check(json.loads(read(out + 'config.json'))['torch_dtype'] == named, 'torch_dtype of ' + kind)
        case.close()


def test_legacy():
    for version in (0, 1, 2):
        c = config(dim=64, hidden_dim=88, n_heads=4, n_kv_heads=2, head_dim=16)  # groups of 64 cross rows of 88
        _, weights = [write_legacy(in_work('m.bin'), c, random_weights(c, 3), version)] * 2
        for out in in_work('legacy %d/' % version), in_work('legacy.gguf'):
            if carried('version %d out' % version, '--no-tokenizer', in_work('m.bin'), out) and carried(
                    'and in', '--no-tokenizer', out, in_work('again.bin')):
                ids = random_ids(30, 50, 3)
                apart = [abs(a - b) for a, b in zip(perplexity(in_work('again.bin'), ids),
                                                    perplexity(in_work('m.bin'), ids))]
                check(max(apart) < (0.1 if version == 2 else 1e-4), 'version %d out and in' % version, max(apart))


def test_floats():
    """Copies in float16 and float32 of every type, byte for byte as by this file's own writer."""
    for kind, group in ((0, 0), (1, 0), (2, 0), (Q8, 64), (Q4, 32)):
        c = config(dim=72, hidden_dim=100, weight_type=kind, group_size=group, qkv_bias=1, layers=[0, 2])
        stored = write_model(in_work('m.bin'), c, random_weights(c, 9))
        for name, number in ('f32', 0), ('f16', 1):
            write_model(in_work('expected.bin'), dict(c, weight_type=number, group_size=0), stored)
            run(in_work('m.bin'), '--quantize', name, in_work('copy.bin'))
            check(read(in_work('copy.bin')) == read(in_work('expected.bin')), '%s of type %d' % (name, kind))


def test_too_large_for_float16():
    c = config(dim=64, hidden_dim=64)
    weights = random_weights(c, 7)
    weights['w1.0'][5] = 70000.0
    write_model(in_work('m.bin'), c, weights)
    done = run(in_work('m.bin'), '--quantize', 'f16', in_work('f16.bin'))
    check(done.status == 2 and 'too large for float16' in done.err and not os.path.exists(in_work('f16.bin')),
          'a weight that float16 does not hold', done)


# ---- hostile places and files ----

def test_hostile():
    model, out = tiny_model('good.bin'), in_work('refused/')
    os.mkdir(in_work('full'))
    write(in_work('full/mine'), 'x')
    refused('a folder with something in it', 'empty', model, in_work('full/'))
    check(os.listdir(in_work('full')) == ['mine'], 'what was there stays')
    refused('a file where the folder is to be', 'empty', model, in_work('good.bin/'))
    os.mkdir(in_work('empty'))
    check(carried('an empty folder is taken', '--no-tokenizer', model, in_work('empty/')) and
          'config.json' in os.listdir(in_work('empty')), 'an empty folder is filled')
    rounded = tiny_model('rounded.bin', weight_type=Q4, group_size=32)  # which is widened into another file first
    for nowhere in 'no/where/', 'no/where.gguf':
        for source in model, rounded:
            done = export('--no-tokenizer', source, in_work(nowhere))
            named = [in_work(nowhere) + ': cannot', in_work(nowhere).rstrip('/') + ': cannot']
            check(done.returncode == 2 and done.stderr.count('\n') == 1 and any(name in done.stderr for name in named),
                  'into no folder', done.stderr)
    os.rename(tiny_model('x.bin'), in_work('own.gguf'))
    refused('the model itself', 'is being read', in_work('own.gguf'), in_work('own.gguf'))
    refused('no such model', 'no such file', in_work('none.bin'), out)
    refused('a folder as source', 'not a model.bin', in_work('full'), out)
    refused('--context', 'removed in version 5.0', model, out, '--context', '9', flags=())
    refused('--tokenizer-out', 'wrong usage', model, out, '--tokenizer-out', 'x', flags=())
    refused('to another model.bin', 'already', model, in_work('other.bin'))
    c, data = config(), read(model)
    for field, value in (('version', 5), ('weight_type', 99), ('dim', 0), ('n_layers', 1 << 31), ('head_dim', 7),
                         ('n_kv_heads', 3), ('vocab_size', 1 << 25), ('theta', 0.5), ('theta', float('nan')),
                         ('norm_eps', float('inf')), ('n_eos', 9), ('rope_method', 7), ('encoding', 3),
                         ('unscaled_positions', 4), ('rotary_dim', 9), ('n_longrope', 3), ('bos_id', 50)):
        bad = dict(c, **{field: value})
        with_header(in_work('bad.bin'), model, dict(bad, n_longrope=0))
        if field == 'n_longrope':
            write(in_work('bad.bin'), data[:200] + struct.pack('<I', 3) + data[204:])
        refused('%s %s' % (field, value), 'bad.bin', in_work('bad.bin'), out)
        refused('%s %s, GGUF' % (field, value), 'bad.bin', in_work('bad.bin'), in_work('refused.gguf'))
    for size in (0, 7, 100, 255, 256, 1000, len(data) - 64, len(data) - 1):
        refused('%d bytes' % size, 'bad.bin', write(in_work('bad.bin'), data[:size]), out)
    refused('too long', 'too long', write(in_work('bad.bin'), data + bytes(64)), out)
    tables = config(layers=[0, 2], types=[0] * 16)
    write_model(in_work('tables.bin'), tables, random_weights(tables, 1))
    data = read(in_work('tables.bin'))
    for at, byte in (256, 4), (258, 99), (258, 3):
        refused('a table with %d' % byte, 'bad.bin', write(in_work('bad.bin'), data[:at] + bytes([byte]) +
                                                           data[at + 1:]), out)
    refused('cut inside the tables', 'cut short', write(in_work('bad.bin'), data[:260]), out)


def test_hostile_tokenizers():
    """A damaged tokenizer.bin is read or refused, for any damage, and a tokenizer that is read is exported or
    refused."""
    rng, kinds = random.Random(5), [{'tokens': [[b'<unk>', 0.0, 2], [b'<s>', 0.0, 3], [b' a', 1.0, 1], [b'a', 0.5, 1],
                                                [b' ', 0.0, 1], [b'[u]', 0.0, 20], [b'', 0.0, 5]],
                                     'flags': 51, 'bos_id': 1, 'unk_id': 0, 'eos_ids': [1]}]
    alphabet = [[bytes([byte]), 0.0, 1] for byte in range(256)]
    kinds.append({'kind': 1, 'tokens': alphabet + [[b'ab', 0.0, 1], [b'<e>', 0.0, 3]], 'flags': 8, 'bos_id': -1,
                  'unk_id': -1, 'eos_ids': [257], 'split': 4, 'merges': [(97, 98, 256)]})
    for tokenizer in kinds:
        with open(in_work('whole.bin'), 'wb') as file:
            write_tokenizer(file, tokenizer)
        whole, n, ends = read(in_work('whole.bin')), len(tokenizer['tokens']), {'read': 0, 'refused': 0}
        for _ in range(400):
            data = bytearray(whole)
            for _ in range(rng.choice((1, 1, 2, 5))):
                data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 5, 127, 128, 255, rng.randrange(256)))
            del data[rng.choice((len(data), rng.randrange(len(data)))):]
            try:
                found = read_tokenizer_bin(Job(), write(in_work('damaged.bin'), bytes(data)), n)
                ends['read'] += 1
                gguf_tokenizer(Job(), found, Model(bos_id=1))
                tokenizer_json(Job(), 'damaged.bin', found)
            except Problem as problem:
                ends['refused'] += 1
                check('\n' not in str(problem), 'one line for a damaged tokenizer', problem)
        check(min(ends.values()) > 12, 'damaged tokenizers are read and refused', ends)


def test_interrupted():
    """Whenever it comes: nothing is left, or all is there."""
    for i, stop in enumerate([signal.SIGTERM, signal.SIGINT] * 6):
        place = in_work('interrupted %d' % i)
        os.mkdir(place)
        command = [*EXPORT, os.path.join(ROOT, 'model.bin'), os.path.join(place, 'o.gguf' if i % 4 < 2 else 'o/')]
        child = subprocess.Popen(command, stderr=subprocess.PIPE)
        time.sleep(0.04 + 0.04 * i)
        child.send_signal(stop)
        said, status, names = child.communicate()[1], child.returncode, os.listdir(place)
        # Python itself ends with 1 while it starts, and by the signal when it has done its work.
        done = status == 0 or b': wrote ' in said
        good = names in (['o.gguf'], ['o']) if done else names == [] and status in (1, 130, -stop)
        check(good, 'interrupted after %d ms' % (40 + 40 * i), (status, names, said[-200:]))


def test_without_run():
    """Steps that need ./run name it; steps that need no widening do not."""
    place = in_work('copy')
    os.makedirs(place)
    for name in 'export', 'model_export.py':
        os.symlink(os.path.join(ROOT, name), os.path.join(place, name))
    code = ('import sys; sys.path.insert(0, %r); import export.model_bin as m; m.RUN = "/nowhere/run"; '
            'import model_export; sys.exit(model_export.main(sys.argv[1:]))' % ROOT)
    for model, good in (tiny_model('f32.bin'), True), (tiny_model('q4.bin', weight_type=Q4, group_size=32), False):
        done = subprocess.run([sys.executable, '-S', '-c', code, '--no-tokenizer', model, in_work('without %d/' % good)],
                              stderr=subprocess.PIPE, universal_newlines=True)
        check(done.returncode == (0 if good else 2) and (good or '/nowhere/run' in done.stderr) and
              done.stderr.count('\n') == 1, 'without ./run', done.stderr)


if __name__ == '__main__':
    main(globals())
