#!/usr/bin/env python3
"""Mixtures of experts: Mixtral, Qwen 3 MoE and gpt-oss with its sinks. Hugging Face's numbers (../shared/golden_layers,
where it is there) hold both engines and reference.py, and each mistake that is named beside them is made on purpose.
Then random models of each family, with their experts one by one, fused and in MXFP4, in and out again; and files that
make no sense."""

import json
import os
import random
import struct

import blocks
import common
import kept
from common import (ENGINES, FIELDS, check, close, in_work, main, perplexity, random_ids, random_weights, read,
                    read_model, takes_long, write, write_model)
from rope_cases import FULL, GPT_OSS, MIXTRAL, QWEN3_MOE, SLIDING, changed
from test_families import export
from test_layers import (FULL_FIELDS, SHORT, SIZES, exported, hf_tensors, model_of, read_safetensors, sliding_name,
                         tensors_of, write_folder)

SEES_ALL, TURNS_AS_SLIDING, DENSE = 1, 4, 8


# ---- random models of each family, in and out ----

OF_GPT_OSS = dict(qkv_bias=1, o_bias=1, activation=2, router_bias=1, expert_bias=1, attention_sinks=1, sliding_rope=1,
                  theta=150000.0, sliding_window=9)
SFSFSF = [4, 1] * 3
# Name, how experts lie, what config.json says besides SIZES, what that means; can GGUF say it?
RANDOM = [
    ('mixtral, 8 of 2', 'mixtral', changed(MIXTRAL, num_local_experts=8, num_experts_per_tok=2, rope_theta=1e4),
     dict(n_experts=8, n_experts_used=2, expert_hidden_dim=44), True),
    ('mixtral, all are chosen, a window', 'mixtral', changed(
        MIXTRAL, num_local_experts=3, num_experts_per_tok=3, sliding_window=7,
        rope_scaling=dict(SHORT, factor=16.0)),
     dict(n_experts=3, n_experts_used=3, expert_hidden_dim=44, sliding_window=7, theta=1e6, method='yarn', factor=16.0,
          train_ctx=16), True),
    ('mixtral, one expert, fused', 'halves', changed(MIXTRAL, num_local_experts=1, num_experts_per_tok=1),
     dict(n_experts=1, n_experts_used=1, expert_hidden_dim=44, theta=1e6), True),
    ('qwen 3 moe, the best alone, not renormalized', 'qwen', changed(
        QWEN3_MOE, num_experts=5, num_experts_per_tok=1, moe_intermediate_size=20),
     dict(qk_norm=1, n_experts=5, n_experts_used=1, expert_hidden_dim=20, router=1), False),
    ('qwen 3 moe, 16 of 8', 'qwen', changed(
        QWEN3_MOE, num_experts=16, num_experts_per_tok=8, moe_intermediate_size=12, norm_topk_prob=True),
     dict(qk_norm=1, n_experts=16, n_experts_used=8, expert_hidden_dim=12), True),
    ('qwen 3 moe, fused, release 5', 'halves', changed(
        QWEN3_MOE, num_local_experts=4, num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True,
        tie_word_embeddings=True),
     dict(qk_norm=1, n_experts=4, n_experts_used=3, expert_hidden_dim=20, shared_classifier=1), True),
    ('qwen 3 moe, dense layers', 'qwen', changed(
        QWEN3_MOE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, norm_topk_prob=True,
        decoder_sparse_step=2, mlp_only_layers=[3], attention_bias=True),
     dict(qk_norm=1, n_experts=4, n_experts_used=2, expert_hidden_dim=20, layers=[8, 0, 8, 8, 8, 0], qkv_bias=1,
          o_bias=1), False),
    ('qwen 3 moe, dense and a window', 'qwen', changed(
        QWEN3_MOE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, mlp_only_layers=[0],
        use_sliding_window=True, sliding_window=9),
     dict(qk_norm=1, n_experts=4, n_experts_used=2, expert_hidden_dim=20, layers=[8, 0, 0, 0, 0, 0], router=1,
          sliding_window=9), False),
    ('gpt-oss', 'gpt-oss', changed(GPT_OSS, num_local_experts=5, num_experts_per_tok=3, sliding_window=9,
                                   rope_scaling=dict(SHORT, truncate=False)),
     dict(OF_GPT_OSS, n_experts=5, n_experts_used=3, expert_hidden_dim=44, layers=SFSFSF, method='yarn', factor=4.0,
          train_ctx=16, truncate=0), True),
    ('gpt-oss, other layers, no attention biases', 'gpt-oss', changed(
        GPT_OSS, num_local_experts=4, num_experts_per_tok=1, sliding_window=9, rope_parameters={
            'rope_type': 'default', 'rope_theta': 1e4}, attention_bias=False, layer_types=[FULL] * 4 + [SLIDING] * 2),
     dict(OF_GPT_OSS, n_experts=4, n_experts_used=1, expert_hidden_dim=44, qkv_bias=0, o_bias=0, theta=1e4,
          layers=[1] * 4 + [4] * 2), False),
    ('gpt-oss, other layers', 'gpt-oss', changed(
        GPT_OSS, num_local_experts=4, num_experts_per_tok=1, sliding_window=9, rope_parameters={
            'rope_type': 'default', 'rope_theta': 1e4}, layer_types=[FULL, SLIDING, SLIDING, FULL, FULL, SLIDING]),
     dict(OF_GPT_OSS, n_experts=4, n_experts_used=1, expert_hidden_dim=44, theta=1e4, layers=[1, 4, 4, 1, 1, 4]), True),
    ('gpt-oss, rounded', 'gpt-oss', changed(GPT_OSS, num_local_experts=4, num_experts_per_tok=2, sliding_window=9,
                                            rope_scaling=SHORT),
     dict(OF_GPT_OSS, n_experts=4, n_experts_used=2, expert_hidden_dim=44, layers=SFSFSF, method='yarn', factor=4.0,
          train_ctx=16), False)]
EXPERT_PARTS = ['router', 'router_bias', 'sinks', 'w1', 'b1', 'w3', 'b3', 'w2', 'b2']


def rows_of(values, columns):
    return [values[i:i + columns] for i in range(0, len(values), columns)]


def flat(rows):
    return [x for row in rows for x in row]


def turned(rows):
    return [list(column) for column in zip(*rows)]


def expert_tensors(c, weights, layer, layout):
    """{name: (shape, values)} of a layer's router and experts, as folders have them."""
    n, dim, hidden = c['n_experts'], c['dim'], c['expert_hidden_dim']
    own = {part: weights.get('%s.%d' % (part, layer)) for part in EXPERT_PARTS}
    place = 'model.layers.%d.%s.' % (layer, 'block_sparse_moe' if layout == 'mixtral' else 'mlp')
    router = place + ('router' if layout == 'gpt-oss' else 'gate')
    out = {router + '.weight': ([n, dim], own['router'])}
    gates, ups, downs = (rows_of(own[part], columns) for part, columns in (('w1', dim), ('w3', dim), ('w2', hidden)))
    each = [(gates[e * hidden:][:hidden], ups[e * hidden:][:hidden], downs[e * dim:][:dim]) for e in range(n)]
    if layout in ('mixtral', 'qwen'):
        names = ('w1', 'w3', 'w2') if layout == 'mixtral' else ('gate_proj', 'up_proj', 'down_proj')
        for e, matrices in enumerate(each):
            for name, rows in zip(names, matrices):
                out['%sexperts.%d.%s.weight' % (place, e, name)] = [len(rows), len(rows[0])], flat(rows)
    elif layout == 'halves':
        out[place + 'experts.gate_up_proj'] = [n, 2 * hidden, dim], flat(flat(g + u for g, u, _ in each))
        out[place + 'experts.down_proj'] = [n, dim, hidden], flat(flat(down for *_, down in each))
    else:
        both = [flat(zip(g, u)) for g, u, _ in each]
        out.update({
            router + '.bias': ([n], own['router_bias']),
            'model.layers.%d.self_attn.sinks' % layer: ([c['n_heads']], own['sinks']),
            place + 'experts.gate_up_proj': ([n, dim, 2 * hidden], flat(flat(turned(rows) for rows in both))),
            place + 'experts.down_proj': ([n, hidden, dim], flat(flat(turned(down) for *_, down in each))),
            place + 'experts.gate_up_proj_bias': ([n, 2 * hidden], flat(zip(own['b1'], own['b3']))),
            place + 'experts.down_proj_bias': ([n, dim], own['b2'])})
    return out


def with_experts(c):
    return [i for i in range(c['n_layers']) if not c['layer_table'] or not c['layers'][i] & DENSE]


def folder_of(c, weights, layout, settings, kind='F32'):
    """The whole checkpoint."""
    theirs = {'%s.%d' % (part, layer) for part in EXPERT_PARTS for layer in with_experts(c)}
    tensors = hf_tensors(c, {name: values for name, values in weights.items() if name not in theirs})
    for layer in with_experts(c):
        tensors.update(expert_tensors(c, weights, layer, layout))
    return write_folder(in_work('case'), {**SIZES, **settings}, tensors, kind)


def case_of(meaning):
    c = model_of(**meaning)
    if c['sliding_rope']:
        c.update({sliding_name(field): c[field] for field in FULL_FIELDS})
    return c


@takes_long
def test_random_models():
    for seed, (name, layout, settings, meaning, in_gguf) in enumerate(RANDOM):
        c = case_of(meaning)
        expected = random_weights(c, seed)
        model = exported(folder_of(c, expected, layout, settings), 'random')
        if not os.path.exists(model):
            continue
        found, weights = read_model(model)
        wrong = {key: (found[key], value) for key, value in c.items() if found[key] != value}
        check(not wrong, '%s: the header' % name, wrong)
        check(weights == expected, '%s: each weight in its place' % name,
              [key for key in expected if expected[key] != weights.get(key)][:5])
        ids = random_ids(40, 50, 3)
        said = kept.nll(found, weights, ids)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), said, 1e-4, '%s: %s' % (name, engine[0]))
            close(perplexity(model, ids, *engine, '--stepwise'), said, 1e-4,
                  '%s: %s, token by token' % (name, engine[0]))
        out_and_in(name, model, in_gguf)


def out_and_in(name, model, in_gguf):
    again = in_work('again.bin')
    for out in [in_work('out') + '/', in_work('out.gguf')]:
        done = export(model, out)
        if out.endswith('gguf') and not in_gguf:
            check(done.returncode == 2 and done.stderr.count('\n') == 1, '%s: GGUF cannot say it' % name, done.stderr)
            continue
        check(done.returncode == 0, '%s: out to %s' % (name, out[-5:]), done.stderr)
        done = export(out.rstrip('/'), again)
        check(done.returncode == 0, '%s: in again from %s' % (name, out[-5:]), done.stderr)
        (c, weights), (found, others) = read_model(model), read_model(again)
        usual = {'beta_fast': 32.0, 'beta_slow': 1.0, 'sliding_beta_fast': 32.0, 'sliding_beta_slow': 1.0}
        wrong = {key: (value, found[key]) for key, value in c.items()
                 if found[key] != value and (value or usual.get(key) != found[key]) and not (
                     isinstance(value, float) and abs(found[key] / value - 1) < 1e-6)
                 and (key, out[-5:]) != ('hidden_dim', '.gguf')}
        check(not wrong, '%s: the same fields from %s' % (name, out[-5:]), wrong)
        check(others == weights, '%s: the same weights from %s' % (name, out[-5:]))


def test_bf16():
    """Folders in bfloat16 come out as they were, routers, biases and sinks, too."""
    for seed, (name, layout, settings, meaning, _) in enumerate(RANDOM):
        c = case_of(meaning)
        if layout == 'halves':  # which go out one by one
            continue
        folder, out = folder_of(c, random_weights(c, seed), layout, settings, 'BF16'), in_work('bf16') + '/'
        done = export(exported(folder, 'bf16'), out)
        check(done.returncode == 0, '%s: bfloat16 out' % name, done.stderr)
        before, after = (read_safetensors(os.path.join(place, 'model.safetensors')) for place in (folder, out))
        wrong = sorted(key for key in set(before) | set(after) if before.get(key) != after.get(key))
        check(not wrong, '%s: bfloat16 as it was' % name, wrong[:5])


# ---- MXFP4 as published ----

def packed(c, seed):
    """A layer's matrices as published, {name: (shape, bytes)}, and what they mean, by our names and blocks of ggml."""
    rng, n, dim, hidden = random.Random(seed), c['n_experts'], c['dim'], c['expert_hidden_dim']
    tensors, meant = {}, {'w1': b'', 'w3': b'', 'w2': b''}
    for name, rows, columns, parts in (('gate_up_proj', 2 * hidden, dim, ['w1', 'w3']), ('down_proj', dim, hidden,
                                                                                       ['w2'])):
        data, scales = b'', b''
        for i in range(n * rows * columns // 32):
            values, scale = [rng.randrange(16) for _ in range(32)], rng.randrange(118, 126)
            data += bytes(values[j] | values[j + 1] << 4 for j in range(0, 32, 2))
            scales += bytes([scale])
            row = i // (columns // 32)
            meant[parts[row % len(parts)]] += bytes([scale]) + bytes(
                values[j] | values[j + 16] << 4 for j in range(16))
        tensors[name + '_blocks'] = [n, rows, columns // 32, 16], data
        tensors[name + '_scales'] = [n, rows, columns // 32], scales
    return tensors, meant


def write_packed(folder, c, weights, settings):
    """A folder of gpt-oss whose experts are in MXFP4. {our name: ggml's blocks}."""
    floats = in_work('floats')
    folder_of(c, weights, 'gpt-oss', settings)
    header, data, meant = {}, b'', {}
    whole = read(os.path.join(in_work('case'), 'model.safetensors'))
    length, = struct.unpack('<Q', whole[:8])
    entries = json.loads(whole[8:8 + length].decode())
    tensors = {name: ('F32', entries[name]['shape'], values) for name, values in tensors_of(
        os.path.join(in_work('case'), 'model.safetensors')).items() if not name.endswith(('gate_up_proj', 'down_proj'))}
    for layer in range(c['n_layers']):
        more, ours = packed(c, layer)
        tensors.update({'model.layers.%d.mlp.experts.%s' % (layer, name): ('U8', shape, values)
                        for name, (shape, values) in more.items()})
        meant.update({'%s.%d' % (part, layer): values for part, values in ours.items()})
    for name, (kind, shape, values) in tensors.items():
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [len(data), len(data) + len(values)]}
        data += values
    os.makedirs(folder, exist_ok=True)
    text = json.dumps(header).encode()
    write(os.path.join(folder, 'model.safetensors'), struct.pack('<Q', len(text)) + text + data)
    write(os.path.join(folder, 'config.json'), json.dumps(settings))
    return meant, floats


PACKED = dict(OF_GPT_OSS, n_experts=3, n_experts_used=2, expert_hidden_dim=64, hidden_dim=64, layers=SFSFSF)
PACKED_SETTINGS = changed(
    {**SIZES, **GPT_OSS}, num_local_experts=3, num_experts_per_tok=2, intermediate_size=64, sliding_window=9,
    rope_parameters={'rope_type': 'default', 'rope_theta': 150000.0},
    quantization_config={'quant_method': 'mxfp4', 'modules_to_not_convert': ['lm_head']})


def test_mxfp4():
    """Published blocks become ggml's, byte by byte; they come out as they were; both engines compute with them."""
    c = case_of(PACKED)
    weights = random_weights(c, 5)
    folder, model = in_work('packed'), in_work('packed.bin')
    meant, _ = write_packed(folder, c, weights, PACKED_SETTINGS)
    done = export(folder, model)
    check(done.returncode == 0 and 'MXFP4' in done.stderr, 'published MXFP4', done.stderr)
    common.exports('--no-tokenizer', '--unpacked', folder, in_work('apart.bin'))
    data = read(in_work('apart.bin'))
    for name, values in meant.items():
        check(values in data, 'published MXFP4: %s in ggml\'s blocks' % name)
        weights[name] = blocks.decode('MXFP4', values)
    found, own = read_model(model)
    wrong = [name for name in weights if list(own[name]) != list(weights[name])]
    check(not wrong, 'published MXFP4: each value', wrong[:5])
    ids = random_ids(40, 50, 3)
    said = kept.nll(found, own, ids)
    for engine in ENGINES:
        close(perplexity(model, ids, *engine), said, 1e-4, 'published MXFP4: %s' % engine[0])
    out = in_work('packed_out') + '/'
    done = export(model, out)
    check(done.returncode == 0, 'published MXFP4: out', done.stderr)
    before, after = (tensors_of(os.path.join(place, 'model.safetensors')) for place in (folder, out))
    check(before == after, 'published MXFP4: the same bytes come out', sorted(set(before) ^ set(after)))
    config = json.loads(read(os.path.join(out, 'config.json')).decode())
    check(config['quantization_config']['quant_method'] == 'mxfp4', 'published MXFP4: the config says it', config)
    done = export(model, in_work('packed.gguf'))
    check(done.returncode == 0, 'published MXFP4: GGUF', done.stderr)
    done = export(in_work('packed.gguf'), in_work('packed_again.bin'))
    check(done.returncode == 0 and read_model(in_work('packed_again.bin'))[1] == own,
          'published MXFP4: in again from GGUF', done.stderr)


# ---- GGUF: other layouts of experts ----

def with_tensors(data, change):
    """A GGUF file of float32 tensors whose (name, shape, bytes), in a list, `change` gets."""
    from export.common import Job
    from export.gguf import read_file
    path = write(in_work('parts.gguf'), data)
    _, tensors = read_file(Job(), path)
    parts = [(tensor.name, list(tensor.shape), b''.join(tensor.read())) for tensor in tensors.values()]
    first = min(data.index(struct.pack('<Q', len(name)) + name.encode()) for name in tensors)
    parts, at, head, body = change(parts), 0, b'', b''
    for name, shape, values in parts:
        head += struct.pack('<Q', len(name)) + name.encode() + struct.pack(
            '<I%dQIQ' % len(shape), len(shape), *shape[::-1], 0, len(body))
        body += values + bytes(-len(values) % 32)
    start = data[:8] + struct.pack('<Q', len(parts)) + data[16:first] + head
    return start + bytes(-len(start) % 32) + body


def one_by_one(parts):
    """As files of Mixtral had them before llama.cpp stacked them."""
    out = []
    for name, shape, values in parts:
        if '_exps' not in name:
            out.append((name, shape, values))
            continue
        size = len(values) // shape[0]
        out += [(name.replace('_exps', '.%d' % e), shape[1:], values[e * size:(e + 1) * size]) for e in range(shape[0])]
    return out


def merged(parts):
    """Gate and up of each expert in one tensor."""
    tensors = {name: (shape, values) for name, shape, values in parts}
    for name in list(tensors):
        if 'gate_exps' in name:
            (n, rows, columns), gate = tensors.pop(name)
            _, up = tensors.pop(name.replace('gate', 'up'))
            size = len(gate) // n
            tensors[name.replace('gate', 'gate_up')] = [n, 2 * rows, columns], b''.join(
                part[e * size:(e + 1) * size] for e in range(n) for part in (gate, up))
    return [(name, *rest) for name, rest in tensors.items()]


def test_layouts_of_gguf():
    for name, layout, settings, meaning, _ in RANDOM[0], RANDOM[4]:
        c = case_of(meaning)
        model = exported(folder_of(c, random_weights(c, 7), layout, settings), 'stacked')
        done = export(model, in_work('stacked.gguf'))
        check(done.returncode == 0, '%s: GGUF' % name, done.stderr)
        data, expected = read(in_work('stacked.gguf')), read_model(model)[1]
        for what, change in ('one by one', one_by_one), ('gate and up in one', merged):
            done = export(write(in_work('other.gguf'), with_tensors(data, change)), in_work('other.bin'))
            check(done.returncode == 0 and read_model(in_work('other.bin'))[1] == expected,
                  '%s: GGUF with experts %s' % (name, what), done.stderr)


# ---- what makes no sense ----

def refused(what, source, *words):
    out = in_work('refused.bin')
    done = export(source, out)
    check(done.returncode == 2 and done.stderr.count('\n') == 1 and all(word in done.stderr for word in words) and
          not os.path.exists(out), what, done.stderr)


@takes_long
def test_hostile_folders():
    for seed, (name, layout, settings, meaning, _) in enumerate(RANDOM):
        if layout not in ('mixtral', 'halves', 'gpt-oss') or seed not in (0, 5, 8):
            continue
        c = case_of(meaning)
        weights = random_weights(c, seed)
        theirs = {'%s.%d' % (part, layer) for part in EXPERT_PARTS for layer in with_experts(c)}
        tensors = hf_tensors(c, {key: values for key, values in weights.items() if key not in theirs})
        for layer in with_experts(c):
            tensors.update(expert_tensors(c, weights, layer, layout))
        own = [key for key in tensors if '.1.' in key and ('expert' in key or 'gate.weight' in key or 'router' in key or
                                                           'sinks' in key) and '.experts.2.' not in key]
        for key in own[::2 if layout == 'mixtral' else 1]:
            less = {other: values for other, values in tensors.items() if other != key}
            refused('%s: without %s' % (name, key), write_folder(in_work('bad'), {**SIZES, **settings}, less), key,
                    'is missing')
            shape, values = tensors[key]
            cut = {**tensors, key: ([shape[0] - 1, *shape[1:]], values[:len(values) // shape[0] * (shape[0] - 1)])}
            refused('%s: one row fewer of %s' % (name, key), write_folder(in_work('bad'), {**SIZES, **settings}, cut),
                    key, 'does not fit the configuration')
        one_more = {**tensors, own[0].replace('.1.', '.9.'): tensors[own[0]]}
        refused('%s: experts of no layer' % name, write_folder(in_work('bad'), {**SIZES, **settings}, one_more),
                'has no place in model.bin')


def test_hostile_packed():
    c = case_of(PACKED)
    folder = in_work('bad_packed')
    write_packed(folder, c, random_weights(c, 5), PACKED_SETTINGS)
    path = os.path.join(folder, 'model.safetensors')
    good = read(path)
    for key, old, new in (('down_proj_blocks', '[3, 32, 2, 16]', '[3, 32, 1, 32]'),
                          ('down_proj_scales', '[3, 32, 2]', '[3, 64, 1]'),
                          ('gate_up_proj_scales', '"U8", "shape": [3, 128, 1]', '"I8", "shape": [3, 128, 1]')):
        name = 'model.layers.2.mlp.experts.' + key
        at = good.index(('"%s"' % name).encode())
        there = good.index(old.encode(), at)
        write(path, good[:there] + new.encode() + good[there + len(old):])
        refused('MXFP4: ' + key, folder, name, 'does not fit the configuration')
    write(path, good[:-1000])
    refused('MXFP4: a file that is cut', folder, 'is cut short')


def test_hostile_models():
    """A model.bin whose header makes no sense goes nowhere: one line that names the field."""
    c = case_of(RANDOM[8][3])
    weights = random_weights(c, 1)
    write_model(in_work('good.bin'), c, weights)
    good = read(in_work('good.bin'))
    for field, value in (('activation', 3), ('n_experts', 0), ('n_experts', 1 << 20), ('n_experts_used', 0),
                         ('n_experts_used', 6), ('expert_hidden_dim', 0), ('router', 2), ('router_bias', 2),
                         ('expert_bias', 7), ('attention_sinks', 2)):
        data = bytearray(good)
        at, kind = next((at, kind) for name, at, kind, _ in FIELDS if name == field)
        struct.pack_into('<' + kind, data, at, value)
        done = export(write(in_work('bad.bin'), bytes(data)), in_work('bad_out') + '/')
        named = field if field != 'n_experts' or value else 'n_experts_used'
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and named in done.stderr,
              'out: %s %s' % (field, value), done.stderr)
    data = bytearray(good)
    data[512] = 16
    done = export(write(in_work('bad.bin'), bytes(data)), in_work('bad_out') + '/')
    check(done.returncode == 2 and 'tables' in done.stderr, 'out: an unknown bit', done.stderr)


if __name__ == '__main__':
    main(globals())
