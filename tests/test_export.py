#!/usr/bin/env python3
"""Tests model_export.py on folders from a hub: weights, settings, refusals, the command. See export_common.py."""

import json
import math
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys

from chosen import takes_long
from export_common import (EXPORTER, LLAMA, PIECES, ROOT, SHARED, Case, check,
                           expected_tensors, exported, main, make_tensors, random_values, refused, rng, safetensors,
                           sentencepiece, shapes_of, skip, with_header, without, write)
from common import case, in_work
from readings import changed, exporter_says


# ---- tests: weights ----

def test_weights():
    def mixed(name):
        return 'F16' if 'mlp' in name else 'BF16' if 'norm' in name or 'lm_head' in name else 'F32'

    wide = changed(LLAMA, head_dim=10)  # 4 heads of 10 in a width of 24
    lone = changed(LLAMA, num_key_value_heads=1)
    full = changed(LLAMA, num_key_value_heads=...)
    tied = changed(LLAMA, tie_word_embeddings=True)
    cases = [('float32', LLAMA, 'F32', 0, 1), ('float16', LLAMA, 'F16', 1, 1), ('bfloat16', LLAMA, 'BF16', 2, 1),
             ('float32 norms', LLAMA, lambda n: 'F32' if 'norm' in n else 'BF16', 2, 1), ('mixed', LLAMA, mixed, 0, 1),
             ('tied', tied, 'F32', 0, 1), ('head_dim', wide, 'F32', 0, 1), ('one kv head', lone, 'F16', 1, 1),
             ('no groups', full, 'BF16', 2, 1), ('two shards', LLAMA, 'F32', 0, 2), ('five shards', wide, 'F16', 1, 5)]
    for name, config, dtype, weight_type, shards in cases:
        source = make_tensors(config, dtype)
        header, found, lines = exported('weights ' + name, config, source, shards)
        if header is None:
            continue
        head_dim = config.get('head_dim') or 6
        expected = {'weight_type': weight_type, 'dim': 24, 'hidden_dim': 20, 'n_layers': 2, 'n_heads': 4,
                    'n_kv_heads': config.get('num_key_value_heads', 4), 'head_dim': head_dim, 'vocab_size': 33,
                    'seq_len': 256, 'shared_classifier': int(config is tied), 'sliding_window': 0, 'norm_eps': 1e-5,
                    'bos_id': 1, 'eos_ids': [2], 'rope_method': 0, 'rope_dynamic': 0, 'theta': 10000.0, 'factor': 0.0,
                    'train_ctx': 256, 'ramp': 0, 'truncate': 1, 'n_longrope': 0}
        wrong = {key: (header[key], value) for key, value in expected.items() if header[key] != value}
        check(not wrong, 'header ' + name, wrong)
        expected = expected_tensors(source, head_dim)
        wrong = [key for key in expected
                 if found.get(key) != expected[key]] + [key for key in found if key not in expected]
        check(not wrong, 'tensors ' + name, wrong)
        check(any(' and ' in line for line in lines) == (dtype is mixed), 'types said ' + name, lines)


def test_pairing_keeps_attention():
    """The rows' new order with adjacent pairs turned gives the scores of the old order with halves turned."""
    config = changed(LLAMA, num_hidden_layers=1, num_key_value_heads=4)
    source = make_tensors(config)
    _, found, _ = exported('pairing', config, source)
    if found is None:
        return
    x, d = [rng.gauss(0, 1) for _ in range(24)], 6

    def project(values):
        rows = [struct.unpack_from('<24f', values, i * 96) for i in range(d)]  # the first head
        return [sum(w * v * 2.0 ** -30 for w, v in zip(row, x)) for row in rows]

    def turned(v, position, halves):
        out = list(v)
        for i in range(d // 2):
            a, b = (i, i + d // 2) if halves else (2 * i, 2 * i + 1)
            angle = position * 10000.0 ** (-2 * i / d)
            out[a] = v[a] * math.cos(angle) - v[b] * math.sin(angle)
            out[b] = v[a] * math.sin(angle) + v[b] * math.cos(angle)
        return out

    def score(q, k, halves):
        return sum(a * b for a, b in zip(turned(project(q), 7, halves), turned(project(k), 3, halves)))

    theirs = score(*(source['model.layers.0.self_attn.%s_proj.weight' % p][2] for p in 'qk'), True)
    ours = score(found[0, 'wq'], found[0, 'wk'], False)
    check(math.isclose(theirs, ours, rel_tol=1e-9), 'pairing keeps attention', (theirs, ours))


def test_tying():
    tied = changed(LLAMA, tie_word_embeddings=True)
    tensors = make_tensors(tied)
    embedding = tensors['model.embed_tokens.weight']
    both = dict(tensors, **{'lm_head.weight': embedding})
    header, found, _ = exported('tied, both equal', tied, both)
    check(header and header['shared_classifier'] == 1, 'tied, both equal')
    # Transformers ties nothing when the checkpoint has both and they differ.
    differ = dict(tensors, **{'lm_head.weight': ('F32', [33, 24], random_values('F32', 33 * 24))})
    header, found, lines = exported('tied, both differ', tied, differ)
    check(header and header['shared_classifier'] == 0 and
          found['classifier'] == differ['lm_head.weight'][2] and any('lm_head' in line for line in lines),
          'tied, both differ', lines)
    # And it ties from whichever is there.
    only_head = {('lm_head.weight' if n == 'model.embed_tokens.weight' else n): t for n, t in tensors.items()}
    header, found, _ = exported('tied, only lm_head', tied, only_head)
    check(header and header['shared_classifier'] == 1 and found['embedding'] == embedding[2], 'tied, only lm_head')
    old = dict(make_tensors(LLAMA), **{'model.layers.0.self_attn.rotary_emb.inv_freq': ('F32', [3], bytes(12))})
    header, _, _ = exported('inv_freq of old checkpoints', LLAMA, old)
    check(header, 'inv_freq of old checkpoints')


# ---- tests: config.json ----

def test_what_is_said():
    """Keys without a meaning are named, and a block without a type (test_readings.py has the meanings of keys)."""
    tensors = safetensors(make_tensors(LLAMA))
    config = changed(LLAMA, rope_scaling={'type': 'linear', 'factor': 2, 'attention_factor': 2.0, 'finetuned': True})
    header, _, lines = exported('unused keys', config, tensors)
    check(header and (header['rope_method'], header['factor']) == (1, 2.0), 'linear is in the header', header)
    for key in 'attention_factor', 'finetuned':
        check(lines and any('not used, since' in line and key in line for line in lines), 'unused keys are named', lines)
    _, _, lines = exported('no type', changed(LLAMA, rope_scaling={'factor': 4.0}), tensors)
    check(lines and any('a block without a rope_type means no scaling' in line
                                                  for line in lines), 'a block without a type', lines)
    _, _, lines = exported('two thetas', changed(LLAMA, rope_theta=7.0, rope_parameters={'rope_theta': 1e4}), tensors)
    check(lines and sum('warning: ' in line for line in lines) == 1, 'a contradiction is warned of', lines)


def test_program_is_asked():
    """./run answers for RoPE's keys of a config. If ./run is missing, the reason is one line."""
    tree, source = in_work('asks'), os.path.join(in_work('asks'), 'in')
    shutil.copytree(os.path.join(ROOT, 'export'), os.path.join(tree, 'export'),
                    ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copy(EXPORTER, tree)
    os.makedirs(source)
    write(os.path.join(source, 'config.json'), json.dumps(LLAMA))
    write(os.path.join(source, 'model.safetensors'), safetensors(make_tensors(LLAMA)))
    program = os.path.join(tree, 'run')
    for what, script, expected in (
            ('not built', None, 'expected it to be built: make'),
            ('a crash', 'kill -SEGV $$', 'did not answer (exit status -11)'),
            ('a crash with words', 'echo sanitizer: stack-overflow >&2; exit 1', 'sanitizer: stack-overflow'),
            ('nothing', 'exit 0', 'did not answer (exit status 0)'),
            ('no JSON', 'echo hello', 'which failed'),
            ('another object', "echo '{\"a\": 1}'", 'which failed'),
            ('a list', "echo '[1]'", 'which failed'),
            ('a refusal', "echo '{\"refused\": \"in/config.json: line 7: no\"}'; exit 2", 'line 7: no')):
        if script is not None:
            write(program, '#!/bin/sh\n%s\n' % script)
            os.chmod(program, 0o755)
        done = subprocess.run([sys.executable, os.path.join(tree, 'model_export.py'), 'in', 'out.bin'], cwd=tree,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        check(done.returncode == 2 and expected in done.stderr and done.stderr.count('\n') == 1 and
              'in/config.json: ' in done.stderr and not os.path.exists(os.path.join(tree, 'out.bin')), what, done)


def test_other_settings():
    mistral = changed(LLAMA, architectures=['MistralForCausalLM'], model_type='mistral', num_key_value_heads=2,
                      sliding_window=16)
    few = changed(LLAMA, num_attention_heads=8, num_key_value_heads=..., head_dim=4)
    cases = [
        ('defaults', changed(LLAMA, rms_norm_eps=..., max_position_embeddings=..., bos_token_id=..., eos_token_id=...,
                             tie_word_embeddings=...,
                             hidden_act=..., torch_dtype=..., architectures=...),
         {'norm_eps': 1e-6, 'seq_len': 2048, 'train_ctx': 2048, 'bos_id': 1, 'eos_ids': [2], 'shared_classifier': 0}),
        ('nulls', changed(LLAMA, head_dim=None, bos_token_id=None, eos_token_id=None, quantization_config=None,
                          sliding_window=None), {'head_dim': 6, 'bos_id': -1, 'eos_ids': []}),
        ('kv heads null', changed(LLAMA, num_key_value_heads=None), {'n_kv_heads': 4}),
        ('head_dim null', changed(LLAMA, head_dim=None), {'head_dim': 6}),
        ('several eos', changed(LLAMA, eos_token_id=[2, 30, 31, 2]), {'eos_ids': [2, 30, 31]}),
        ('model_type missing', changed(LLAMA, model_type=...), {'dim': 24}),
        ('mistral', mistral, {'sliding_window': 16, 'n_kv_heads': 2}),
        ('mistral without a window', changed(mistral, sliding_window=None), {'sliding_window': 0}),
        ('mistral, window not said', changed(mistral, sliding_window=...), {'sliding_window': 4096}),
        ('mistral, kv heads and length not said',
         changed(few, architectures=['MistralForCausalLM'], model_type='mistral', max_position_embeddings=...),
         {'n_kv_heads': 8, 'seq_len': 131072}),
    ]
    for name, config, fields in cases:
        tensors = make_tensors(config)
        header, _, _ = exported('config: ' + name, config, tensors)
        if header:
            wrong = {key: (header[key], value) for key, value in fields.items() if header[key] != value}
            check(not wrong, 'config: ' + name, wrong)
    header, _, _ = exported('generation_config', LLAMA, generation_config__json={'eos_token_id': [7, 2, 9]})
    check(header and header['eos_ids'] == [2, 7, 9], 'generation_config adds end tokens', header)


# ---- tests: refusals ----

SIZES = 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads', 'vocab_size'


def test_refused_settings():
    """Some by the command, which writes no file; the others by the function that reads a config (and those of
    test_readings.py likewise)."""
    tensors = safetensors(make_tensors(LLAMA))
    for name, changes, key in (
            ('another architecture', {'architectures': ['GPT2LMHeadModel']}, 'architectures'),
            ('architecture and type at odds', {'model_type': 'mistral'}, 'architectures'),
            ('heads and width', {'num_attention_heads': 5, 'num_key_value_heads': 5}, 'hidden_size'),
            ('a factor below 1', {'rope_scaling': {'type': 'linear', 'factor': 0.5}}, 'rope_scaling.factor'),
            ('eos beyond the vocabulary', {'eos_token_id': 33}, 'eos_token_id')):
        refused(name, Case(changed(LLAMA, **changes), tensors), key)
    for key in SIZES:
        for what, value in ('no', ...), ('null', None), ('0', 0), ('a fraction', 24.5), ('absurd', 2 ** 40):
            with case('%s: %s' % (key, what)):
                found, problem, *_ = exporter_says(json.dumps(changed(LLAMA, **{key: value})))
                check(not found and key in problem and '\n' not in problem, '%s: %s' % (key, what), problem)
    yarn = {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 64}
    whole = json.dumps(changed(LLAMA, rope_scaling=yarn))
    for key, old in (('hidden_size', '24'), ('max_position_embeddings', '256'), ('rms_norm_eps', '1e-05'),
                     ('rope_theta', '10000.0'), ('factor', '4.0')):
        for new in '"4.0"', 'true', 'NaN', 'Infinity', '1e999', '9' * 5000, '-1', '[1]':
            with case('%s is %.9s' % (key, new)):
                text = whole.replace('"%s": %s' % (key, old), '"%s": %s' % (key, new))
                found, problem, *_ = exporter_says(text)
                check(text != whole and not found and key in problem, '%s is %.9s' % (key, new), problem)
    for name, text in (('empty', ''), ('not JSON', '{"a": '), ('a list', '[1]'), ('deep', '[' * 100000),
                       ('bytes', b'\xff\xfe{}'), ('twice', '{"vocab_size": 1, ' + json.dumps(LLAMA)[1:])):
        refused('config.json ' + name, Case(text, tensors), 'config.json')
    refused('generation_config.json', Case(LLAMA, tensors, generation_config__json={'eos_token_id': 'x'}),
            'generation_config.json: eos_token_id')


@takes_long
def test_refused_weights():
    tensors = make_tensors(LLAMA)
    good = safetensors(tensors)
    length, = struct.unpack_from('<Q', good)
    header, data = json.loads(good[8:8 + length].decode()), good[8 + length:]
    q = 'model.layers.1.self_attn.q_proj.weight'

    def altered(name=q, **changes):
        return with_header(json.dumps({**header, name: changed(header[name], **changes)}), data)

    begin, end = header[q]['data_offsets']
    after = next(name for name, entry in header.items() if entry.get('data_offsets', [0])[0] == end)
    moved = {**header, q: changed(header[q], data_offsets=[begin, end + 4]),
             after: changed(header[after], data_offsets=[end + 4, header[after]['data_offsets'][1]])}
    files = [
        ('empty', b'', 'is empty'), ('seven bytes', good[:7], 'header'), ('header length alone', good[:8], 'header'),
        ('half a header', good[:8 + length // 2], 'header'), ('no data', good[:8 + length], 'cut short'),
        ('one byte short', good[:-1], 'cut short'), ('one byte long', good + b'\0', 'too long'),
        ('header of 1 GB', struct.pack('<Q', 1 << 30) + good[8:], 'header'),
        ('header of 2^64-1', b'\xff' * 8 + good[8:], 'header'),
        ('header deep', with_header('[' * 100000, data), 'JSON'),
        ('header deep in an entry', with_header('{"a": ' * 100000, data), 'JSON'),
        ('header with a huge number', with_header('{"a": {"data_offsets": [0, %s]}}' % ('9' * 1000000), data), 'a: '),
        ('header with NaN',
         with_header(json.dumps({**header, q: dict(header[q], data_offsets=[float('nan'), end])}), data), q),
        ('header with infinity', with_header(json.dumps({**header, q: dict(header[q], shape=[float('inf')])}), data),
         q), ('header with a surrogate', with_header(json.dumps({**header, '\ud800': header[q]}), data), 'ud800'),
        ('header not JSON', struct.pack('<Q', 8) + b'{"a": 1,' + data, 'JSON'),
        ('header a list', with_header('[]', data), 'JSON'), ('header empty', with_header('{}', b''), 'embed_tokens'),
        ('entry a number', with_header(json.dumps({**header, q: 5}), data), q), ('no dtype', altered(dtype=...), q),
        ('no shape', altered(shape=...), q),
        ('no offsets', altered(data_offsets=...), q), ('offsets swapped', altered(data_offsets=[end, begin]), q),
        ('offsets negative', altered(data_offsets=[-4, begin]), q),
        ('offsets beyond', altered(data_offsets=[begin + 10 ** 9, end + 10 ** 9]), 'gap'),
        ('offsets overlap', altered(data_offsets=[begin - 64, end - 64]), 'overlaps'),
        ('offsets of 2^63', altered(data_offsets=[2 ** 63, 2 ** 63 + end - begin]), q),
        ('offsets of 10^400', altered(data_offsets=[10 ** 400, 10 ** 400]), q),
        ('offsets not integers', altered(data_offsets=[float(begin), float(end)]), q),
        ('three offsets', altered(data_offsets=[begin, end, end]), q),
        ('shape and size at odds', altered(shape=[24, 25]), q),
        ('a border between tensors moved', with_header(json.dumps(moved), data), q),
        ('shape negative', altered(shape=[-24, -24]), q), ('shape another', altered(shape=[48, 12]), q),
        ('shape flat', altered(shape=[576]), q), ('shape true', altered(shape=[True, 576]), q),
        ('shape of many dimensions', altered(shape=[2] * 1000), q), ('type I32', altered(dtype='I32'), q),
        ('type F8', altered(dtype='F8_E4M3'), q), ('type a number', altered(dtype=4), q),
        ('a name twice', with_header(json.dumps(header)[:-1] + ', "%s": {}}' % q, data), q), ]
    for name, content, key in files:
        refused('safetensors ' + name, Case(LLAMA, content), key)
    case = Case(LLAMA, struct.pack('<Q', 1 << 30) + b'{')
    with open(os.path.join(case.folder, 'model.safetensors'), 'r+b') as file:
        file.truncate((1 << 30) + 100)
    refused('safetensors header of 1 GB that is there, a hole on disk', case, 'header')
    for name in (q, 'model.norm.weight', 'lm_head.weight', 'model.embed_tokens.weight'):
        refused('no ' + name, Case(LLAMA, {n: t for n, t in tensors.items() if n != name}), name)
    for extra in ('model.layers.0.self_attn.q_proj.bias', 'model.layers.0.self_attn.q_norm.weight',
                  'model.layers.2.mlp.up_proj.weight', 'x\n\x1b[31m', 'y' * 100000):
        refused('extra ' + extra[:60], Case(LLAMA, dict(tensors, **{extra: ('F32', [24], bytes(96))})),
                ascii(extra)[1:-1][:500])
    refused('no weights', Case(LLAMA), 'model.safetensors')
    refused('no config', without(Case(LLAMA, tensors), 'config.json'), 'config.json')
    refused('no folder', Case(LLAMA), 'no such file', '/nonexistent', '/nonexistent/out')

    shard = 'model-00002-of-00003.safetensors'
    refused('a shard is missing', without(Case(LLAMA, tensors, 3), shard), shard)
    case = Case(LLAMA, tensors, 3)
    with open(os.path.join(case.folder, shard), 'r+b') as file:
        file.truncate(os.path.getsize(file.name) // 2)
    refused('half a shard', case, shard)
    index = 'model.safetensors.index.json'
    for name, content, key in (
            ('no weight_map', '{}', 'weight_map'), ('weight_map a list', '{"weight_map": []}', 'weight_map'),
            ('a shard elsewhere', '{"weight_map": {"a": "../x.safetensors"}}', 'weight_map'),
            ('a shard of another kind', '{"weight_map": {"a": 5}}', 'weight_map'),
            ('an absolute shard', '{"weight_map": {"a": "/etc/passwd"}}', 'weight_map'),
            ('the folder above', '{"weight_map": {"a": ".."}}', 'is not a file'),
            ('this folder', '{"weight_map": {"a": "."}}', 'is not a file'),
            ('no name', '{"weight_map": {"a": ""}}', 'weight_map'),
            ('a name with a zero', '{"weight_map": {"a": "x\\u0000y"}}', 'no such file'),
            ('a name that is no text', '{"weight_map": {"a": "\\ud800"}}', 'no such file'),
            ('deep', '[' * 100000, index), ('the index as its own shard', '{"weight_map": {"a": "%s"}}' % index, index),
            ('twice', '{"weight_map": {"a": "x", "a": "x"}}', "'a' appears twice"),
            ('empty', '{"weight_map": {}}', 'embed_tokens')):
        case = Case(LLAMA)
        case.put(index, content)
        refused('index: ' + name, case, key)
    case = Case(LLAMA, tensors, 2)
    path = os.path.join(case.folder, index)
    with open(path) as file:
        places = json.load(file)
    places['weight_map'][q] = next(f for f in set(places['weight_map'].values()) if f != places['weight_map'][q])
    write(path, json.dumps(places))
    refused('a tensor in another shard', case, q)


# ---- tests: the command ----

def test_command():
    case = Case(LLAMA, make_tensors(LLAMA))
    for name, arguments in (('none', ['--no-tokenizer']), ('one', ['x']), ('three', ['x', 'y', 'z']),
                            ('unknown', ['--wrong', 'x', 'y']), ('no value', ['x', 'y', '--tokenizer-out']),
                            ('at odds', ['--tokenizer', 'x', 'y', '--no-tokenizer'])):
        run = case.run(*arguments)
        check(run.returncode == 2 and len(run.stderr.splitlines()) == 1 and not run.stdout, 'usage: ' + name,
              run.stderr)
    run = case.run_fresh('--help')
    check(run.returncode == 0 and '--tokenizer-out' in run.stdout and not run.stderr, '--help')
    run = case.run_fresh()
    check(run.returncode == 0, 'a model is written', run.stderr)
    run = case.run()
    check(run.returncode == 0 and os.path.getsize(case.out) > 1000
          and case.left() == ['model.bin'], 'an older model of the exporter is replaced', run.stderr)
    with open(case.out, 'rb') as file:
        before = file.read()
    run = case.run_fresh(case.folder, case.out,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    with open(case.out, 'rb') as file:
        after = file.read()
    check(run.returncode == 2 and len(run.stderr.splitlines()) == 1
          and before == after and case.left() == ['model.bin'],
              'a full disk is told and the older file stays', run.stderr)
    for name, out, key in (('a folder', case.results, 'cannot be'),
                           ('in no folder', os.path.join(case.results, 'no', 'm.bin'), 'No such file'),
                           ('an input', os.path.join(case.folder, 'model.safetensors'), 'lost'),
                           ('a device', '/dev/null', 'cannot be')):
        run = case.run(case.folder, out)
        check(run.returncode == 2 and len(run.stderr.splitlines()) == 1 and key in run.stderr, 'OUT is ' + name,
              run.stderr)
    run = case.run(case.folder, case.out + '2', '--tokenizer-out', case.out + '2')
    check(run.returncode == 0, 'no tokenizer, no trouble with its name', run.stderr)
    case.put('tokenizer.model', sentencepiece(PIECES[:3] + PIECES[260:], {3: 2}))
    run = case.run(case.folder, case.out + '3', '--tokenizer-out', case.out + '3')
    check(run.returncode == 2 and len(run.stderr.splitlines()) == 1
          and case.left() == ['model.bin', 'model.bin2'], 'one name for both files', run.stderr)
    case.close()
    fifo = without(Case(LLAMA, make_tensors(LLAMA)), 'model.safetensors')
    os.mkfifo(os.path.join(fifo.folder, 'model.safetensors'))
    refused('a pipe for a file', fifo, 'model.safetensors')


# The program, which gets a signal when it has written a part of its file.
INTERRUPTED = '''
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location('exporter', sys.argv[1])
exporter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exporter)
from export import write
pieces, left = write.pieces, [3]
def stop(*arguments):
    left[0] -= 1
    if left[0] == 0:
        assert any(name.endswith('.part') for name in os.listdir(os.path.dirname(sys.argv[3])))
        os.kill(os.getpid(), int(sys.argv[4]))
    return pieces(*arguments)
write.pieces = stop
sys.exit(exporter.main(sys.argv[2:4]))
'''


def test_large():
    """A checkpoint of 400 MB, a hole on disk, with little memory; then one that is interrupted."""
    config = changed(LLAMA, hidden_size=4096, intermediate_size=1024, num_hidden_layers=1, num_attention_heads=32,
                     num_key_value_heads=2, vocab_size=12000, tie_word_embeddings=True)
    header, at = {}, 0
    for name, shape in shapes_of(config).items():
        size = 4 * math.prod(shape)
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    case = Case(config, with_header(json.dumps(header), b''))
    with open(os.path.join(case.folder, 'model.safetensors'), 'r+b') as file:
        file.truncate(os.path.getsize(file.name) + at)
    run = case.run_fresh(case.folder, case.out,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20)))
    size = os.path.getsize(case.out) if os.path.exists(case.out) else 0
    check(run.returncode == 0 and 0 <= size - at < 4096, '%d MB in 100 MB of memory' % (at >> 20), run.stderr)
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        run = subprocess.run([sys.executable, '-I', '-S', '-c', INTERRUPTED, EXPORTER, case.folder, case.out + '2',
                              str(int(number))],
                             stderr=subprocess.PIPE,
                             universal_newlines=True)
        lines = run.stderr.splitlines()
        check(run.returncode == 130 and len(lines) == 1
              and 'interrupted' in lines[0]
              and case.left() == ['model.bin'],
                  'interrupted by signal %d' % number, (run.returncode, lines, case.left()))
    case.close()


# ---- tests: checkpoints that were not made here ----

def test_golden():
    folders = [os.path.join(place, name)
               for place in (os.path.join(SHARED, 'golden'), os.path.join(ROOT, 'tests', 'golden'))
               if os.path.isdir(place) for name in sorted(os.listdir(place))]
    folders = [folder for folder in folders if os.path.exists(os.path.join(folder, 'model.safetensors'))]
    if not folders:
        skip('no golden folders here')
    for folder in folders:
        name = 'golden ' + os.path.basename(folder)
        with open(os.path.join(folder, 'config.json')) as file:
            config = json.load(file)
        with open(os.path.join(folder, 'model.safetensors'), 'rb') as file:
            data = file.read()
        length, = struct.unpack_from('<Q', data)
        source = {key: (entry['dtype'], entry['shape'],
                        data[8 + length + entry['data_offsets'][0]:8 + length + entry['data_offsets'][1]])
                  for key, entry in json.loads(data[8:8 + length].decode()).items() if key != '__metadata__'}
        header, found, _ = exported(name, config, data)
        if header:
            check(found == expected_tensors(source, header['head_dim']), name)


if __name__ == '__main__':
    main(globals())
