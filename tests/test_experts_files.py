#!/usr/bin/env python3
"""Mixtures of experts, beside the rows of folders.json: experts in MXFP4 as published, other layouts of experts in
GGUF, and files that make no sense."""

import json
import os
import random
import struct

import blocks
import common
import kept
from common import (ENGINES, FIELDS, check, close, in_work, main, perplexity, random_ids, random_weights, read,
                    read_model, takes_long, write, write_model)
from folders import (export, folder_of, meaning_of, read_safetensors, rows, settings_of, tensors_of, tensors_of_row,
                     write_folder, write_safetensors)


def row_of(name):
    return next(row for row in rows('mixtures') if row['name'] == name)


def exported(source, name):
    model = in_work(name + '.bin')
    done = export(source, model)
    check(done.returncode == 0, '%s: export' % name, done.stderr)
    return model


# ---- MXFP4 as published ----

def packed(c, seed):
    """A layer's matrices as published, {name: (shape, bytes)}, and their numbers, by our names and blocks of ggml."""
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


def write_packed(folder, c, weights):
    """A folder of gpt-oss whose experts are in MXFP4. {our name: ggml's blocks}."""
    whole = read_safetensors(os.path.join(folder_of(PACKED, c, weights), 'model.safetensors'))
    tensors = {name: tensor for name, tensor in whole.items() if not name.endswith(('gate_up_proj', 'down_proj'))}
    meant = {}
    for layer in range(c['n_layers']):
        more, ours = packed(c, layer)
        tensors.update({'model.layers.%d.mlp.experts.%s' % (layer, name): ('U8', shape, values)
                        for name, (shape, values) in more.items()})
        meant.update({'%s.%d' % (part, layer): values for part, values in ours.items()})
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, 'model.safetensors'), tensors)
    write(os.path.join(folder, 'config.json'), json.dumps(settings_of(PACKED)))
    return meant


PACKED = {'of': 'gpt_oss', 'experts': 'gpt-oss', 'with': {
    'num_local_experts': 3, 'num_experts_per_tok': 2, 'intermediate_size': 64, 'sliding_window': 9,
    'rope_parameters': {'rope_type': 'default', 'rope_theta': 150000.0},
    'quantization_config': {'quant_method': 'mxfp4', 'modules_to_not_convert': ['lm_head']}}, 'means': ['gpt-oss', {
        'n_experts': 3, 'n_experts_used': 2, 'expert_hidden_dim': 64, 'hidden_dim': 64, 'layers': [4, 1] * 3}]}


def test_mxfp4():
    """Published blocks become ggml's, byte by byte; they come out as they were; both engines compute with them."""
    c = meaning_of(PACKED)
    weights = random_weights(c, 5)
    folder, model = in_work('packed'), in_work('packed.bin')
    meant = write_packed(folder, c, weights)
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
    for name in 'mixtral, 8 of 2', 'qwen 3 moe, 16 of 8':
        c = meaning_of(row_of(name))
        model = exported(folder_of(row_of(name), c, random_weights(c, 7)), 'stacked')
        done = export(model, in_work('stacked.gguf'))
        check(done.returncode == 0, '%s: GGUF' % name, done.stderr)
        data, expected = read(in_work('stacked.gguf')), read_model(model)[1]
        for what, change in ('one by one', one_by_one), ('gate and up in one', merged):
            done = export(write(in_work('other.gguf'), with_tensors(data, change)), in_work('other.bin'))
            check(done.returncode == 0 and read_model(in_work('other.bin'))[1] == expected,
                  '%s: GGUF with experts %s' % (name, what), done.stderr)


# ---- contradictions ----

def refused(what, source, *words):
    out = in_work('refused.bin')
    done = export(source, out)
    check(done.returncode == 2 and done.stderr.count('\n') == 1 and all(word in done.stderr for word in words) and
          not os.path.exists(out), what, done.stderr)


@takes_long
def transposed(shape, values):
    """Inputs as rows instead of outputs, of each expert."""
    n, rows_of_one, columns = shape
    one = rows_of_one * columns
    return [n, columns, rows_of_one], [values[e * one + row * columns + column] for e in range(n)
                                       for column in range(columns) for row in range(rows_of_one)]


def test_behind_pictures():
    """Qwen3-VL's experts: with inputs as rows, as published, and with outputs, as release 5 saves them. Its class does
    not look at norm_topk_prob."""
    row = row_of('qwen 3 moe, fused, release 5')
    c = meaning_of(row)
    weights, ids = random_weights(c, 5), random_ids(60, c['vocab_size'], 5)
    inside = dict(settings_of(row), model_type='qwen3_vl_moe_text', architectures=None, rope_theta=c['theta'],
                  norm_topk_prob=False)
    settings = dict(model_type='qwen3_vl_moe', architectures=['Qwen3VLMoeForConditionalGeneration'],
                    text_config=inside, tie_word_embeddings=True)
    saved = {name.replace('model.', 'model.language_model.', 1): tensor
             for name, tensor in tensors_of_row(row, c, weights).items()}
    published = {name: transposed(*tensor) if '.experts.' in name else tensor for name, tensor in saved.items()}
    for what, tensors in ('published', published), ('saved', saved):
        model = exported(write_folder(in_work('vl_' + what), settings, tensors), 'vl_' + what)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), kept.nll(c, weights, ids), 1e-4, 'experts as ' + what)


def test_hostile_folders():
    for name in 'mixtral, 8 of 2', 'qwen 3 moe, fused, release 5', 'gpt-oss':
        row = row_of(name)
        c, settings, layout = meaning_of(row), settings_of(row), row['experts']
        tensors = tensors_of_row(row, c, random_weights(c, 1))
        own = [key for key in tensors if '.1.' in key and ('expert' in key or 'gate.weight' in key or 'router' in key or
                                                           'sinks' in key) and '.experts.2.' not in key]
        for key in own[::2 if layout == 'mixtral' else 1]:
            less = {other: values for other, values in tensors.items() if other != key}
            refused('%s: without %s' % (name, key), write_folder(in_work('bad'), settings, less), key,
                    'is missing')
            shape, values = tensors[key]
            cut = {**tensors, key: ([shape[0] - 1, *shape[1:]], values[:len(values) // shape[0] * (shape[0] - 1)])}
            refused('%s: one row fewer of %s' % (name, key), write_folder(in_work('bad'), settings, cut),
                    key, 'does not fit the configuration')
        one_more = {**tensors, own[0].replace('.1.', '.9.'): tensors[own[0]]}
        refused('%s: experts of no layer' % name, write_folder(in_work('bad'), settings, one_more),
                'has no place in model.bin')


def test_hostile_packed():
    c = meaning_of(PACKED)
    folder = in_work('bad_packed')
    write_packed(folder, c, random_weights(c, 5))
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
    c = meaning_of(row_of('gpt-oss'))
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
