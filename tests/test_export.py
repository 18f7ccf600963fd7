#!/usr/bin/env python3
"""Tests model_export.py: python3 tests/test_export.py [another copy of it]

Checkpoints are written here, exported by the program as a user would, and read back by a reader that was written from
docs/format.md and shares nothing with the exporter. One line per failure; exit status 1 when there is one.
"""

import importlib.util
import json
import math
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPORTER = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, 'model_export.py')
SHARED = os.path.join(os.path.dirname(ROOT), 'shared')

exporter = None  # the program as a module, only ever called in a fork
results = {'passed': 0, 'failed': 0, 'skipped': 0}
rng = random.Random(1)


def check(name, good, detail=''):
    results['passed' if good else 'failed'] += 1
    if not good:
        print('FAIL %s %s' % (name, str(detail)[:300]))


def skip(name):
    results['skipped'] += 1
    print('skipped: ' + name)


# ---- writing checkpoints --------------------------------------------------------------------------------------------

# Small sizes that are no multiples of 64 bytes, so that every tensor needs padding.
LLAMA = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_act': 'silu', 'hidden_size': 24,
         'intermediate_size': 20, 'num_hidden_layers': 2, 'num_attention_heads': 4, 'num_key_value_heads': 2,
         'vocab_size': 33, 'max_position_embeddings': 256, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0,
         'tie_word_embeddings': False, 'bos_token_id': 1, 'eos_token_id': 2, 'torch_dtype': 'float32'}


def changed(config, **changes):
    """A copy with other values; ... as a value takes the key away."""
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


def random_values(dtype, count):
    """Bytes of finite values of all sizes."""
    if dtype == 'F32':
        return struct.pack('<%df' % count, *(rng.uniform(-1, 1) * 2.0 ** rng.randint(-40, 40) for _ in range(count)))
    exponent = 0x7c00 if dtype == 'F16' else 0x7f80
    bits = (rng.getrandbits(16) for _ in range(count))
    return struct.pack('<%dH' % count, *(b if b & exponent != exponent else b ^ 0x4000 for b in bits))


def shapes_of(config):
    dim, hidden, vocab = config['hidden_size'], config['intermediate_size'], config['vocab_size']
    head = config.get('head_dim') or dim // config['num_attention_heads']
    q, kv = config['num_attention_heads'] * head, (config.get('num_key_value_heads') or config['num_attention_heads']) * head
    shapes = {'model.embed_tokens.weight': [vocab, dim]}
    for i in range(config['num_hidden_layers']):
        layer = 'model.layers.%d.' % i
        shapes.update({
            layer + 'self_attn.q_proj.weight': [q, dim], layer + 'self_attn.k_proj.weight': [kv, dim],
            layer + 'self_attn.v_proj.weight': [kv, dim], layer + 'self_attn.o_proj.weight': [dim, q],
            layer + 'mlp.gate_proj.weight': [hidden, dim], layer + 'mlp.up_proj.weight': [hidden, dim],
            layer + 'mlp.down_proj.weight': [dim, hidden],
            layer + 'input_layernorm.weight': [dim], layer + 'post_attention_layernorm.weight': [dim]})
    shapes['model.norm.weight'] = [dim]
    if not config.get('tie_word_embeddings'):
        shapes['lm_head.weight'] = [vocab, dim]
    return shapes


def make_tensors(config, dtype='F32'):
    """{name: (dtype, shape, bytes)}; dtype is one type, or a function of the name."""
    tensors = {}
    for name, shape in shapes_of(config).items():
        kind = dtype if isinstance(dtype, str) else dtype(name)
        tensors[name] = kind, shape, random_values(kind, math.prod(shape))
    return tensors


def safetensors(tensors, metadata=True):
    header, data = {'__metadata__': {'format': 'pt'}} if metadata else {}, b''
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(values)]}
        data += values
    return with_header(json.dumps(header), data)


def with_header(text, data):
    text = text.encode() + b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + data


def write(path, data):
    with open(path, 'wb') as file:
        file.write(data.encode() if isinstance(data, str) else data)


def load_exporter():
    spec = importlib.util.spec_from_file_location('exporter', EXPORTER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_fork(arguments):
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            status = 70
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                status = exporter.main(list(arguments))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, status >> 8 if status & 255 == 0 else -(status & 127), out.read(), err.read())


class Case:
    """A temporary place with a checkpoint in in/ and an empty out/."""

    def __init__(self, config=LLAMA, tensors=None, shards=1, **files):
        self.place = tempfile.mkdtemp(prefix='test_export.')
        self.folder, self.results = os.path.join(self.place, 'in'), os.path.join(self.place, 'out')
        os.mkdir(self.folder)
        os.mkdir(self.results)
        self.out = os.path.join(self.results, 'model.bin')
        self.put('config.json', config if isinstance(config, (str, bytes)) else json.dumps(config))
        if tensors is not None and shards == 1:
            self.put('model.safetensors', tensors if isinstance(tensors, bytes) else safetensors(tensors))
        elif tensors is not None:
            names, places = list(tensors), {}
            for i in range(shards):
                file = 'model-%05d-of-%05d.safetensors' % (i + 1, shards)
                mine = {name: tensors[name] for name in names[i::shards]}
                places.update(dict.fromkeys(mine, file))
                self.put(file, safetensors(mine))
            self.put('model.safetensors.index.json', json.dumps({'metadata': {'total_size': 1}, 'weight_map': places}))
        for name, data in files.items():
            self.put(name.replace('__', '.'), data if isinstance(data, (str, bytes)) else json.dumps(data))

    def put(self, name, data):
        write(os.path.join(self.folder, name), data)

    def run(self, *arguments):
        """The exporter in a fork of this process: as good as a new one, and ten times as fast."""
        return run_fork(arguments or (self.folder, self.out))

    def run_fresh(self, *arguments, **options):
        """The exporter as a user starts it; with -I -S nothing but the standard library can be imported."""
        return subprocess.run([sys.executable, '-I', '-S', EXPORTER, *(arguments or (self.folder, self.out))],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **options)

    def left(self):
        return sorted(os.listdir(self.results))

    def close(self):
        shutil.rmtree(self.place)


# ---- reading model.bin, from docs/format.md -------------------------------------------------------------------------

FIELDS = {'magic': (0, 'I'), 'version': (4, 'I'), 'weight_type': (8, 'I'), 'group_size': (12, 'I'), 'dim': (16, 'I'),
          'hidden_dim': (20, 'I'), 'n_layers': (24, 'I'), 'n_heads': (28, 'I'), 'n_kv_heads': (32, 'I'),
          'head_dim': (36, 'I'), 'vocab_size': (40, 'I'), 'seq_len': (44, 'I'), 'shared_classifier': (48, 'I'),
          'sliding_window': (52, 'I'), 'norm_eps': (56, 'd'), 'bos_id': (64, 'i'), 'n_eos': (68, 'I'),
          'rope_method': (104, 'I'), 'rope_dynamic': (108, 'I'), 'theta': (112, 'd'), 'factor': (120, 'd'),
          'train_ctx': (128, 'I'), 'ramp': (132, 'I'), 'truncate': (136, 'I'), 'reserved': (140, 'I'),
          'beta_fast': (144, 'd'), 'beta_slow': (152, 'd'), 'attention_factor': (160, 'd'), 'mscale': (168, 'd'),
          'mscale_all_dim': (176, 'd'), 'low_freq_factor': (184, 'd'), 'high_freq_factor': (192, 'd'),
          'n_longrope': (200, 'I')}


def read_model(path):
    """(header fields, {tensor: bytes}); raises ValueError where the file is not as documented."""
    with open(path, 'rb') as file:
        data = file.read()
    m = {name: struct.unpack_from('<' + kind, data, at)[0] for name, (at, kind) in FIELDS.items()}
    if m['magic'] != 0x616b3432 or m['version'] != 3 or any(data[204:256]) or m['reserved'] or m['group_size']:
        raise ValueError('not a clean version 3 header')
    eos = struct.unpack_from('<8i', data, 72)
    m['eos_ids'] = list(eos[:m['n_eos']])
    if m['n_eos'] > 8 or any(eos[m['n_eos']:]):
        raise ValueError('eos_ids')
    n = m['n_longrope']
    m['short'], m['long'] = (list(struct.unpack_from('<%dd' % n, data, 256 + 8 * n * i)) for i in (0, 1))
    at = 256 + 16 * n

    def take(size):
        nonlocal at
        begin = (at + 63) // 64 * 64
        if any(data[at:begin]) or begin + size > len(data):
            raise ValueError('padding at %d' % at)
        at = begin + size
        return data[begin:at]

    item = {0: 4, 1: 2, 2: 2}[m['weight_type']]
    dim, q, kv = m['dim'], m['n_heads'] * m['head_dim'], m['n_kv_heads'] * m['head_dim']
    tensors = {'embedding': take(m['vocab_size'] * dim * item)}
    for i in range(m['n_layers']):
        for name, size in (('attention norm', dim * 4), ('wq', q * dim * item), ('wk', kv * dim * item),
                           ('wv', kv * dim * item), ('wo', q * dim * item), ('ffn norm', dim * 4),
                           ('w1', m['hidden_dim'] * dim * item), ('w3', m['hidden_dim'] * dim * item),
                           ('w2', m['hidden_dim'] * dim * item)):
            tensors[i, name] = take(size)
    tensors['norm'] = take(dim * 4)
    if not m['shared_classifier']:
        tensors['classifier'] = take(m['vocab_size'] * dim * item)
    take(0)
    if at != len(data):
        raise ValueError('%d bytes, %d expected' % (len(data), at))
    return m, tensors


def as_float32(dtype, values):
    if dtype == 'F32':
        return values
    if dtype == 'BF16':
        return b''.join(b'\0\0' + values[i:i + 2] for i in range(0, len(values), 2))
    return b''.join(struct.pack('<f', x) for x, in struct.iter_unpack('<e', values))


def pairs_of_rows(values, rows, head_dim):
    size = len(values) // rows
    old = [values[i * size:(i + 1) * size] for i in range(rows)]
    return b''.join(old[row - row % head_dim + row % head_dim // 2 + row % 2 * (head_dim // 2)] for row in range(rows))


def expected_tensors(source, head_dim, widen):
    """What the file must hold for these tensors of a checkpoint."""
    names = {'input_layernorm': 'attention norm', 'post_attention_layernorm': 'ffn norm', 'q_proj': 'wq', 'k_proj': 'wk',
             'v_proj': 'wv', 'o_proj': 'wo', 'gate_proj': 'w1', 'up_proj': 'w3', 'down_proj': 'w2'}
    expected = {}
    for name, (dtype, shape, values) in source.items():
        parts = name.split('.')
        if parts[-2] in ('q_proj', 'k_proj'):
            values = pairs_of_rows(values, shape[0], head_dim)
        if widen or len(shape) == 1:
            values = as_float32(dtype, values)
        key = {'model.embed_tokens.weight': 'embedding', 'model.norm.weight': 'norm', 'lm_head.weight': 'classifier'}
        expected[key[name] if name in key else (int(parts[2]), names[parts[-2]])] = values
    return expected


def exported(name, config, tensors=None, shards=1, arguments=(), **files):
    """Exports and reads back; (header, tensors, lines on stderr), or three Nones after a failed check."""
    case = Case(config, make_tensors(config) if tensors is None else tensors, shards, **files)
    try:
        run = (case.run_fresh if name.startswith('weights') else case.run)(case.folder, case.out, *arguments)
        if run.returncode != 0 or run.stdout:
            check(name, False, run.stderr or run.stdout)
            return None, None, None
        header, found = read_model(case.out)
        return header, found, run.stderr.splitlines()
    except ValueError as error:
        check(name, False, error)
        return None, None, None
    finally:
        case.close()


# ---- tests: weights -------------------------------------------------------------------------------------------------

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
        check('header ' + name, not wrong, wrong)
        expected = expected_tensors(source, head_dim, dtype is mixed)
        wrong = [key for key in expected if found.get(key) != expected[key]] + [key for key in found if key not in expected]
        check('tensors ' + name, not wrong, wrong)
        check('widening said ' + name, any('widened' in line for line in lines) == (dtype is mixed), lines)


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
    check('pairing keeps attention', math.isclose(theirs, ours, rel_tol=1e-9), (theirs, ours))


def test_tying():
    tied = changed(LLAMA, tie_word_embeddings=True)
    tensors = make_tensors(tied)
    embedding = tensors['model.embed_tokens.weight']
    both = dict(tensors, **{'lm_head.weight': embedding})
    header, found, _ = exported('tied, both equal', tied, both)
    check('tied, both equal', header and header['shared_classifier'] == 1)
    # Transformers ties nothing when the checkpoint has both and they differ.
    differ = dict(tensors, **{'lm_head.weight': ('F32', [33, 24], random_values('F32', 33 * 24))})
    header, found, lines = exported('tied, both differ', tied, differ)
    check('tied, both differ', header and header['shared_classifier'] == 0 and
          found['classifier'] == differ['lm_head.weight'][2] and any('lm_head' in line for line in lines), lines)
    # And it ties from whichever is there.
    only_head = {('lm_head.weight' if n == 'model.embed_tokens.weight' else n): t for n, t in tensors.items()}
    header, found, _ = exported('tied, only lm_head', tied, only_head)
    check('tied, only lm_head', header and header['shared_classifier'] == 1 and found['embedding'] == embedding[2])
    old = dict(make_tensors(LLAMA), **{'model.layers.0.self_attn.rotary_emb.inv_freq': ('F32', [3], bytes(12))})
    header, _, _ = exported('inv_freq of old checkpoints', LLAMA, old)
    check('inv_freq of old checkpoints', header)


# ---- tests: config.json ---------------------------------------------------------------------------------------------

NOTHING = {'rope_method': 0, 'rope_dynamic': 0, 'theta': 10000.0, 'factor': 0.0, 'train_ctx': 256, 'ramp': 0,
           'truncate': 1, 'beta_fast': 0.0, 'beta_slow': 0.0, 'attention_factor': 0.0, 'mscale': 0.0,
           'mscale_all_dim': 0.0, 'low_freq_factor': 0.0, 'high_freq_factor': 0.0, 'short': [], 'long': []}
ORIGINAL = 'original_max_position_embeddings'
YARN = {'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 64}
LLAMA3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, ORIGINAL: 32}
LONG = {'rope_type': 'longrope', 'short_factor': [1.0, 1.5, 2], 'long_factor': [1, 4.0, 16.0], ORIGINAL: 64}

# What each spelling means, in words, and the fields that differ from NOTHING. max_position_embeddings is 256.
SPELLINGS = [
    ('nothing said', {}, {}),
    ('null is nothing', {'rope_scaling': None, 'rope_parameters': None}, {}),
    ('an empty block is nothing', {'rope_scaling': {}}, {}),
    ('default', {'rope_scaling': {'rope_type': 'default'}}, {}),
    ('a block without a type is default', {'rope_parameters': {'rope_theta': 5e5}}, {'theta': 5e5}),
    ('default ignores a factor', {'rope_scaling': {'type': 'default', 'factor': 8.0}}, {}),
    ('rope_theta beside', {'rope_theta': 500000}, {'theta': 500000.0}),
    ('rope_theta is 10000 unless said', {'rope_theta': ...}, {}),
    ('rope_theta inside goes before beside', {'rope_theta': 7.0, 'rope_parameters': {'rope_theta': 1e6}}, {'theta': 1e6}),
    ('rope_theta inside rope_scaling too', {'rope_scaling': {'type': 'linear', 'factor': 2, 'rope_theta': 1e6}},
     {'rope_method': 1, 'factor': 2.0, 'theta': 1e6}),
    ('linear by type', {'rope_scaling': {'type': 'linear', 'factor': 4.0}}, {'rope_method': 1, 'factor': 4.0}),
    ('linear by rope_type', {'rope_scaling': {'rope_type': 'linear', 'factor': 4}}, {'rope_method': 1, 'factor': 4.0}),
    ('linear in rope_parameters', {'rope_theta': ..., 'rope_parameters': {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 2e4}},
     {'rope_method': 1, 'factor': 4.0, 'theta': 2e4}),
    ('linear below 1', {'rope_scaling': {'type': 'linear', 'factor': 0.5}}, {'rope_method': 1, 'factor': 0.5}),
    ('rope_type goes before type', {'rope_scaling': {'rope_type': 'linear', 'type': 'yarn', 'factor': 4.0}},
     {'rope_method': 1, 'factor': 4.0}),
    ('rope_scaling goes before rope_parameters, rope_theta and all',
     {'rope_theta': ..., 'rope_scaling': {'type': 'linear', 'factor': 2.0}, 'rope_parameters': {'rope_theta': 1e6, 'factor': 3.0}},
     {'rope_method': 1, 'factor': 2.0}),
    ('linear counts from max_position_embeddings', {ORIGINAL: 32, 'rope_scaling': {'type': 'linear', 'factor': 4.0, ORIGINAL: 64}},
     {'rope_method': 1, 'factor': 4.0}),
    ('linear has no attention factor', {'rope_scaling': {'type': 'linear', 'factor': 4.0, 'attention_factor': 2.0, 'beta_fast': 8}},
     {'rope_method': 1, 'factor': 4.0}),
    ('dynamic is ntk', {'rope_scaling': {'type': 'dynamic', 'factor': 2.0}}, {'rope_method': 2, 'rope_dynamic': 1, 'factor': 2.0}),
    ('dynamic counts from max_position_embeddings', {ORIGINAL: 32, 'rope_scaling': {'rope_type': 'dynamic', 'factor': 2.0, ORIGINAL: 64}},
     {'rope_method': 2, 'rope_dynamic': 1, 'factor': 2.0}),
    ('yarn', {'rope_scaling': YARN}, {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn with finetuned, as in the wild', {'rope_scaling': {'type': 'yarn', 'factor': 4.0, ORIGINAL: 64, 'finetuned': True}},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('original beside the block', {ORIGINAL: 128, 'rope_scaling': {'type': 'yarn', 'factor': 4.0}},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 128}),
    ('original beside goes before inside', {ORIGINAL: 128, 'rope_scaling': YARN}, {'rope_method': 4, 'factor': 4.0, 'train_ctx': 128}),
    ('original missing is max_position_embeddings', {'rope_scaling': {'type': 'yarn', 'factor': 4.0}},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 256}),
    ('yarn, factor null', {'rope_scaling': dict(YARN, factor=None)}, {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, factor missing', {'rope_scaling': {'type': 'yarn', ORIGINAL: 100}}, {'rope_method': 4, 'factor': 2.56, 'train_ctx': 100}),
    ('yarn, factor and original missing', {'rope_scaling': {'type': 'yarn'}}, {'rope_method': 4, 'factor': 1.0}),
    ('yarn, a factor that is not the ratio', {'rope_scaling': dict(YARN, factor=3.5)}, {'rope_method': 4, 'factor': 3.5, 'train_ctx': 64}),
    ('yarn, attention_factor', {'rope_scaling': dict(YARN, attention_factor=1.25)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'attention_factor': 1.25}),
    ('yarn, nulls', {'rope_scaling': dict(YARN, attention_factor=None, beta_fast=None, beta_slow=None, mscale=None, mscale_all_dim=None)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, betas', {'rope_scaling': dict(YARN, beta_fast=16, beta_slow=2.5)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'beta_fast': 16.0, 'beta_slow': 2.5}),
    ('yarn, betas of 0 are not said', {'rope_scaling': dict(YARN, beta_fast=0, beta_slow=0.0)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, DeepSeek', {'rope_scaling': dict(YARN, mscale=1.0, mscale_all_dim=0.707)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'mscale': 1.0, 'mscale_all_dim': 0.707}),
    ('yarn, mscale alone means nothing', {'rope_scaling': dict(YARN, mscale=0.707)}, {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, mscale with an mscale_all_dim of 0', {'rope_scaling': dict(YARN, mscale=0.707, mscale_all_dim=0)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, not truncated', {'rope_scaling': dict(YARN, truncate=False)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'truncate': 0}),
    ('yarn, truncate null is false', {'rope_scaling': dict(YARN, truncate=None)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'truncate': 0}),
    ('yarn in rope_parameters', {'rope_theta': ..., 'rope_parameters': dict(YARN, rope_theta=1e6, truncate=True)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'theta': 1e6}),
    ('llama3', {'rope_scaling': LLAMA3},
     {'rope_method': 5, 'factor': 8.0, 'train_ctx': 32, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}),
    ('llama3, original missing', {'rope_scaling': changed(LLAMA3, **{ORIGINAL: ...})},
     {'rope_method': 5, 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}),
    ('llama3 has no attention factor', {'rope_scaling': dict(LLAMA3, attention_factor=2.0)},
     {'rope_method': 5, 'factor': 8.0, 'train_ctx': 32, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}),
    ('longrope', {'rope_scaling': LONG}, {'rope_method': 6, 'factor': 4.0, 'train_ctx': 64, 'short': [1.0, 1.5, 2.0],
                                          'long': [1.0, 4.0, 16.0]}),
    ('longrope, factor, attention_factor', {'rope_scaling': dict(LONG, factor=8, attention_factor=1.19)},
     {'rope_method': 6, 'factor': 8.0, 'attention_factor': 1.19, 'train_ctx': 64, 'short': [1.0, 1.5, 2.0], 'long': [1.0, 4.0, 16.0]}),
    ('longrope, original beside, as Phi-3', {ORIGINAL: 128, 'rope_scaling': changed(LONG, **{ORIGINAL: ...})},
     {'rope_method': 6, 'factor': 2.0, 'train_ctx': 128, 'short': [1.0, 1.5, 2.0], 'long': [1.0, 4.0, 16.0]}),
    ('partial_rotary_factor of 1', {'partial_rotary_factor': 1.0, 'rope_parameters': {'partial_rotary_factor': 1}}, {}),
]


def test_rope_spellings():
    tensors = safetensors(make_tensors(LLAMA))
    for name, changes, fields in SPELLINGS:
        header, _, _ = exported('rope: ' + name, changed(LLAMA, **changes), tensors)
        if header:
            wrong = {key: (header[key], value) for key, value in {**NOTHING, **fields}.items() if header[key] != value}
            check('rope: ' + name, not wrong, wrong)
    config = changed(LLAMA, rope_scaling={'type': 'linear', 'factor': 2, 'attention_factor': 2.0, 'alpha': 1})
    _, _, lines = exported('unused keys', config, tensors)
    for key in 'attention_factor', 'alpha':
        check('unused keys are named', lines and any('rope_scaling.%s ' % key in line for line in lines), lines)


def test_other_settings():
    mistral = changed(LLAMA, architectures=['MistralForCausalLM'], model_type='mistral', num_key_value_heads=2, sliding_window=16)
    few = changed(LLAMA, num_attention_heads=8, num_key_value_heads=..., head_dim=4)
    cases = [
        ('defaults', changed(LLAMA, rms_norm_eps=..., max_position_embeddings=..., bos_token_id=..., eos_token_id=...,
                             tie_word_embeddings=...,
                             hidden_act=..., torch_dtype=..., architectures=...),
         {'norm_eps': 1e-6, 'seq_len': 2048, 'train_ctx': 2048, 'bos_id': 1, 'eos_ids': [2], 'shared_classifier': 0}),
        ('nulls', changed(LLAMA, head_dim=None, bos_token_id=None, eos_token_id=None, quantization_config=None, sliding_window=None),
         {'head_dim': 6, 'bos_id': -1, 'eos_ids': []}),
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
            check('config: ' + name, not wrong, wrong)
    header, _, _ = exported('generation_config', LLAMA, generation_config__json={'eos_token_id': [7, 2, 9]})
    check('generation_config adds end tokens', header and header['eos_ids'] == [2, 7, 9], header)


# ---- tests: what is refused ------------------------------------------------------------------------------------------

def refused(name, case, key, *arguments):
    """Status 1, one line that names the key, nothing left behind."""
    run = case.run(*arguments)
    lines = run.stderr.splitlines()
    good = run.returncode == 1 and len(lines) == 1 and lines[0].startswith('model_export: ') and key in lines[0]
    check('refused: ' + name, good and not run.stdout and case.left() == [], (run.returncode, run.stderr, case.left()))
    case.close()


def test_refused_settings():
    tensors = safetensors(make_tensors(LLAMA))
    block = 'rope_scaling'
    bad_numbers = [('a string', '"4.0"'), ('true', 'true'), ('NaN', 'NaN'), ('Infinity', 'Infinity'), ('overflow', '1e999'),
                   ('huge', '9' * 5000), ('negative', '-1'), ('a list', '[1]')]
    cases = [
        ('another architecture', {'architectures': ['GPT2LMHeadModel']}, 'architectures'),
        ('another model_type', {'model_type': 'qwen2', 'architectures': ['Qwen2ForCausalLM']}, 'model_type'),
        ('model_type of another kind', {'model_type': ['llama']}, 'model_type'),
        ('no model_type at all', {'model_type': ..., 'architectures': ...}, 'model_type'),
        ('architecture and type at odds', {'model_type': 'mistral'}, 'architectures'),
        ('gelu', {'hidden_act': 'gelu'}, 'hidden_act'),
        ('attention_bias', {'attention_bias': True}, 'attention_bias'),
        ('mlp_bias', {'mlp_bias': True}, 'mlp_bias'),
        ('quantized', {'quantization_config': {'bits': 4}}, 'quantization_config'),
        ('a window in a llama', {'sliding_window': 64}, 'sliding_window'),
        ('layer_types', {'layer_types': ['full_attention', 'sliding_attention']}, 'layer_types'),
        ('layer-specific rope', {'rope_parameters': {'full_attention': {'rope_type': 'default'}}}, 'rope_parameters'),
        ('odd head_dim', {'head_dim': 7}, 'head_dim'),
        ('head_dim 0', {'head_dim': 0}, 'head_dim'),
        ('heads and width', {'num_attention_heads': 5, 'num_key_value_heads': 5}, 'hidden_size'),
        ('odd head size', {'num_attention_heads': 8}, 'hidden_size'),
        ('kv heads', {'num_key_value_heads': 3}, 'num_key_value_heads'),
        ('kv heads 0', {'num_key_value_heads': 0}, 'num_key_value_heads'),
        ('eos beyond the vocabulary', {'eos_token_id': 33}, 'eos_token_id'),
        ('eos of nine', {'eos_token_id': list(range(9))}, 'eos_token_id'),
        ('eos true', {'eos_token_id': True}, 'eos_token_id'),
        ('bos list', {'bos_token_id': [1]}, 'bos_token_id'),
        ('bos -1', {'bos_token_id': -1}, 'bos_token_id'),
        ('tie of another kind', {'tie_word_embeddings': 1}, 'tie_word_embeddings'),
        ('rope block of another kind', {block: 'linear'}, block),
        ('rope block a list', {block: [1]}, block),
        ('partial rotary', {'partial_rotary_factor': 0.5}, 'partial_rotary_factor'),
        ('partial rotary inside', {'rope_parameters': {'partial_rotary_factor': 0.25}}, 'rope_parameters.partial_rotary_factor'),
        ('unknown rope_type', {block: {'rope_type': 'su', 'factor': 4.0}}, 'rope_scaling.rope_type'),
        ('unknown type', {block: {'type': 'xpos'}}, 'rope_scaling.type'),
        ('null rope_type', {block: {'rope_type': None, 'type': 'linear', 'factor': 2}}, 'rope_scaling.rope_type'),
        ('linear without factor', {block: {'type': 'linear'}}, 'rope_scaling.factor'),
        ('linear factor null', {block: {'type': 'linear', 'factor': None}}, 'rope_scaling.factor'),
        ('dynamic without factor', {block: {'type': 'dynamic'}}, 'rope_scaling.factor'),
        ('llama3 without factor', {block: changed(LLAMA3, factor=...)}, 'rope_scaling.factor'),
        ('llama3 without low', {block: changed(LLAMA3, low_freq_factor=...)}, 'low_freq_factor'),
        ('llama3 without high', {block: changed(LLAMA3, high_freq_factor=...)}, 'high_freq_factor'),
        ('llama3 high not above low', {block: dict(LLAMA3, high_freq_factor=1.0)}, 'high_freq_factor'),
        ('factor 0', {block: dict(YARN, factor=0)}, 'rope_scaling.factor'),
        ('attention_factor 0', {block: dict(YARN, attention_factor=0)}, 'attention_factor'),
        ('betas the wrong way', {block: dict(YARN, beta_fast=1, beta_slow=32)}, 'beta_fast'),
        ('negative mscale', {block: dict(YARN, mscale=-1.0, mscale_all_dim=1.0)}, 'mscale'),
        ('truncate of another kind', {block: dict(YARN, truncate='no')}, 'truncate'),
        ('original null', {block: {**YARN, ORIGINAL: None}}, ORIGINAL),
        ('original null beside', {ORIGINAL: None, block: YARN}, ORIGINAL),
        ('original 0', {block: {**YARN, ORIGINAL: 0}}, ORIGINAL),
        ('original a fraction', {block: {**YARN, ORIGINAL: 64.5}}, ORIGINAL),
        ('longrope list too short', {block: dict(LONG, short_factor=[1.0, 1.0])}, 'short_factor'),
        ('longrope list missing', {block: changed(LONG, long_factor=...)}, 'long_factor'),
        ('longrope list of another kind', {block: dict(LONG, long_factor=[1.0, 'x', 1.0])}, 'long_factor'),
        ('longrope list with 0', {block: dict(LONG, long_factor=[1.0, 0, 1.0])}, 'long_factor'),
        ('rope_theta 1', {'rope_theta': 1.0}, 'rope_theta'),
        ('rope_theta null', {'rope_theta': None}, 'rope_theta'),
    ]
    for key in 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads', 'vocab_size':
        cases += [('no ' + key, {key: ...}, key), ('null ' + key, {key: None}, key), (key + ' 0', {key: 0}, key),
                  (key + ' a fraction', {key: 24.0}, key), (key + ' absurd', {key: 2 ** 40}, key)]
    for name, changes, key in cases:
        refused(name, Case(changed(LLAMA, **changes), tensors), key)
    whole = json.dumps(changed(LLAMA, rope_scaling=YARN))
    for key, old in (('hidden_size', '24'), ('max_position_embeddings', '256'), ('rms_norm_eps', '1e-05'), ('rope_theta', '10000.0'),
                     ('factor', '4.0')):
        for kind, new in bad_numbers:
            text = whole.replace('"%s": %s' % (key, old), '"%s": %s' % (key, new))
            assert text != whole, key
            refused('%s is %s' % (key, kind), Case(text, tensors), key)
    for name, text in (('empty', ''), ('not JSON', '{"a": '), ('a list', '[1]'), ('deep', '[' * 100000), ('bytes', b'\xff\xfe{}'),
                       ('twice', '{"vocab_size": 1, ' + json.dumps(LLAMA)[1:])):
        refused('config.json ' + name, Case(text, tensors), 'config.json')
    refused('generation_config.json', Case(LLAMA, tensors, generation_config__json={'eos_token_id': 'x'}),
            'generation_config.json: eos_token_id')


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
        ('empty', b'', 'header'), ('seven bytes', good[:7], 'header'), ('header length alone', good[:8], 'header'),
        ('half a header', good[:8 + length // 2], 'header'), ('no data', good[:8 + length], 'cut short'),
        ('one byte short', good[:-1], 'cut short'), ('one byte long', good + b'\0', 'too long'),
        ('header of 1 GB', struct.pack('<Q', 1 << 30) + good[8:], 'header'), ('header of 2^64-1', b'\xff' * 8 + good[8:], 'header'),
        ('header not JSON', struct.pack('<Q', 8) + b'{"a": 1,' + data, 'JSON'), ('header a list', with_header('[]', data), 'JSON'),
        ('header empty', with_header('{}', b''), 'embed_tokens'),
        ('entry a number', with_header(json.dumps({**header, q: 5}), data), q),
        ('no dtype', altered(dtype=...), q), ('no shape', altered(shape=...), q), ('no offsets', altered(data_offsets=...), q),
        ('offsets swapped', altered(data_offsets=[end, begin]), q), ('offsets negative', altered(data_offsets=[-4, begin]), q),
        ('offsets beyond', altered(data_offsets=[begin + 10 ** 9, end + 10 ** 9]), 'gap'),
        ('offsets overlap', altered(data_offsets=[begin - 64, end - 64]), 'overlaps'),
        ('offsets of 2^63', altered(data_offsets=[2 ** 63, 2 ** 63 + end - begin]), q),
        ('offsets of 10^400', altered(data_offsets=[10 ** 400, 10 ** 400]), q),
        ('offsets not integers', altered(data_offsets=[float(begin), float(end)]), q),
        ('three offsets', altered(data_offsets=[begin, end, end]), q),
        ('shape and size at odds', altered(shape=[24, 25]), q),
        ('a border between tensors moved', with_header(json.dumps(moved), data), q), ('shape negative', altered(shape=[-24, -24]), q),
        ('shape another', altered(shape=[48, 12]), q), ('shape flat', altered(shape=[576]), q),
        ('shape true', altered(shape=[True, 576]), q),
        ('shape of many dimensions', altered(shape=[2] * 1000), q),
        ('type I32', altered(dtype='I32'), q), ('type F8', altered(dtype='F8_E4M3'), q), ('type a number', altered(dtype=4), q),
        ('a name twice', with_header(json.dumps(header)[:-1] + ', "%s": {}}' % q, data), q),
    ]
    for name, content, key in files:
        refused('safetensors ' + name, Case(LLAMA, content), key)
    for name in (q, 'model.norm.weight', 'lm_head.weight', 'model.embed_tokens.weight'):
        refused('no ' + name, Case(LLAMA, {n: t for n, t in tensors.items() if n != name}), name)
    for extra in ('model.layers.0.self_attn.q_proj.bias', 'model.layers.0.self_attn.q_norm.weight', 'model.layers.2.mlp.up_proj.weight',
                  'x\n\x1b[31m', 'y' * 100000):
        refused('extra ' + extra[:60], Case(LLAMA, dict(tensors, **{extra: ('F32', [24], bytes(96))})), ascii(extra)[1:-1][:500])
    refused('no weights', Case(LLAMA), 'model.safetensors')
    refused('no config', _without(Case(LLAMA, tensors), 'config.json'), 'config.json')
    refused('no folder', Case(LLAMA), 'is not a folder', '/nonexistent', '/nonexistent/out')

    shard = 'model-00002-of-00003.safetensors'
    refused('a shard is missing', _without(Case(LLAMA, tensors, 3), shard), shard)
    case = Case(LLAMA, tensors, 3)
    with open(os.path.join(case.folder, shard), 'r+b') as file:
        file.truncate(os.path.getsize(file.name) // 2)
    refused('half a shard', case, shard)
    index = 'model.safetensors.index.json'
    for name, content, key in (('no weight_map', '{}', 'weight_map'), ('weight_map a list', '{"weight_map": []}', 'weight_map'),
                               ('a shard elsewhere', '{"weight_map": {"a": "../x.safetensors"}}', 'weight_map'),
                               ('a shard of another kind', '{"weight_map": {"a": 5}}', 'weight_map'),
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


def _without(case, name):
    os.unlink(os.path.join(case.folder, name))
    return case


# ---- tests: the command ----------------------------------------------------------------------------------------------

def test_command():
    case = Case(LLAMA, make_tensors(LLAMA))
    for name, arguments in (('none', ['--no-tokenizer']), ('one', ['x']), ('three', ['x', 'y', 'z']), ('unknown', ['--wrong', 'x', 'y']),
                            ('no value', ['x', 'y', '--tokenizer-out']), ('at odds', ['--tokenizer', 'x', 'y', '--no-tokenizer'])):
        run = case.run_fresh(*arguments)
        check('usage: ' + name, run.returncode == 2 and len(run.stderr.splitlines()) == 1 and not run.stdout, run.stderr)
    run = case.run_fresh('--help')
    check('--help', run.returncode == 0 and '--tokenizer-out' in run.stdout and not run.stderr)
    write(case.out, 'what was there before')
    run = case.run_fresh()
    check('an older file is replaced', run.returncode == 0 and os.path.getsize(case.out) > 1000 and case.left() == ['model.bin'],
          run.stderr)
    with open(case.out, 'rb') as file:
        before = file.read()
    run = case.run_fresh(case.folder, case.out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    with open(case.out, 'rb') as file:
        after = file.read()
    check('a full disk is told and the older file stays', run.returncode == 1 and len(run.stderr.splitlines()) == 1 and before == after
          and case.left() == ['model.bin'], run.stderr)
    for name, out, key in (('a folder', case.results, 'cannot be'),
                           ('in no folder', os.path.join(case.results, 'no', 'm.bin'), 'No such file'),
                           ('an input', os.path.join(case.folder, 'model.safetensors'), 'lost'), ('a device', '/dev/null', 'cannot be')):
        run = case.run_fresh(case.folder, out)
        check('OUT is ' + name, run.returncode == 1 and len(run.stderr.splitlines()) == 1 and key in run.stderr, run.stderr)
    run = case.run_fresh(case.folder, case.out + '2', '--tokenizer-out', case.out + '2')
    check('no tokenizer, no trouble with its name', run.returncode == 0, run.stderr)
    case.put('tokenizer.model', sentencepiece(PIECES[:3] + PIECES[260:], {3: 2}))
    run = case.run_fresh(case.folder, case.out + '3', '--tokenizer-out', case.out + '3')
    check('one name for both files', run.returncode == 1 and len(run.stderr.splitlines()) == 1 and case.left() == ['model.bin',
                                                                                                                   'model.bin2'],
                                                                                                                   run.stderr)
    case.close()
    fifo = _without(Case(LLAMA, make_tensors(LLAMA)), 'model.safetensors')
    os.mkfifo(os.path.join(fifo.folder, 'model.safetensors'))
    refused('a pipe for a file', fifo, 'model.safetensors')


def test_large():
    """A checkpoint of 400 MB, a hole on disk, with little memory; then one that is interrupted."""
    config = changed(LLAMA, hidden_size=4096, intermediate_size=1024, num_hidden_layers=1, num_attention_heads=32, num_key_value_heads=2,
                     vocab_size=12000, tie_word_embeddings=True)
    header, at = {}, 0
    for name, shape in shapes_of(config).items():
        size = 4 * math.prod(shape)
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    case = Case(config, with_header(json.dumps(header), b''))
    with open(os.path.join(case.folder, 'model.safetensors'), 'r+b') as file:
        file.truncate(os.path.getsize(file.name) + at)
    run = case.run_fresh(case.folder, case.out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20)))
    size = os.path.getsize(case.out) if os.path.exists(case.out) else 0
    check('%d MB in 100 MB of memory' % (at >> 20), run.returncode == 0 and 0 <= size - at < 4096, run.stderr)
    for number in signal.SIGINT, signal.SIGTERM:
        child = subprocess.Popen([sys.executable, '-I', '-S', EXPORTER, case.folder, case.out + '2'], stderr=subprocess.PIPE,
                                 universal_newlines=True)
        deadline = time.time() + 10
        while time.time() < deadline and child.poll() is None and not any(f.endswith('.part') for f in case.left()):
            time.sleep(0.002)
        child.send_signal(number)
        lines = child.communicate()[1].splitlines()
        check('interrupted by signal %d' % number, child.returncode == 130 and len(lines) == 1 and 'interrupted' in lines[0]
              and case.left() == ['model.bin'], (child.returncode, lines, case.left()))
    case.close()


# ---- tests: tokenizers -----------------------------------------------------------------------------------------------

def varint(value):
    out = b''
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A protobuf field: an int as varint, a float as fixed32, bytes with their length."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack('<f', value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(fields):
    return b''.join(field(number, value) for number, value in fields)


PIECES = ([(b'<unk>', 0.0, 2), (b'<s>', 0.0, 3), (b'</s>', 0.0, 3)] + [(b'<0x%02X>' % b, 0.0, 6) for b in range(256)] +
          [('\u2581t'.encode(), -0.0, 1), (b'he', -1.0, 1), ('\u2581\u2581'.encode(), -2.5, 1), ('é漢😀'.encode(), -3.0, 1),
           (b'[user]', -4.0, 4), (b'gone', -5.0, 5), ('\u2581'.encode(), -1e9, 1)])
TRAINER = {3: 2, 35: 1, 40: 0, 41: 1, 42: 2, 43: -1}
NORMALIZER = {1: b'identity', 2: b'', 3: 1, 4: 0, 5: 1}


def sentencepiece(pieces=PIECES, trainer=TRAINER, normalizer=NORMALIZER, rest=b''):
    out = b''.join(field(1, message([(1, text), (2, score)] + [(3, kind)] * (kind != 1))) for text, score, kind in pieces)
    return out + field(2, message(trainer.items())) + field(3, message(normalizer.items())) + rest


def read_tokenizer(path, vocab_size):
    with open(path, 'rb') as file:
        data = file.read()
    longest, = struct.unpack_from('<i', data)
    at, tokens = 4, []
    for _ in range(vocab_size):
        score, length = struct.unpack_from('<fi', data, at)
        tokens.append((data[at + 8:at + 8 + length], score))
        at += 8 + length
    t = dict(zip(('magic', 'kind', 'flags', 'bos_id', 'unk_id', 'n_eos'), struct.unpack_from('<3I2iI', data, at)))
    at += 24
    t['eos_ids'] = list(struct.unpack_from('<%di' % t['n_eos'], data, at))
    t['types'] = list(data[at + 4 * t['n_eos']:])
    if t['magic'] != 0x31544b54 or t['kind'] or len(t['types']) != vocab_size or longest != max(len(text) for text, _ in tokens):
        raise ValueError('not a tokenizer.bin of %d tokens' % vocab_size)
    return tokens, t


def test_tokenizer_alone():
    case = Case(LLAMA, tokenizer__model=sentencepiece())
    source, out = os.path.join(case.folder, 'tokenizer.model'), os.path.join(case.results, 't.bin')
    run = case.run('--tokenizer', source, out)
    check('--tokenizer', run.returncode == 0 and case.left() == ['t.bin'], run.stderr)
    tokens, t = read_tokenizer(out, len(PIECES))
    check('tokens', tokens == [(text.replace('\u2581'.encode(), b' '), score) for text, score, _ in PIECES])
    check('types', t['types'] == [kind for _, _, kind in PIECES])
    check('trailer', (t['flags'], t['bos_id'], t['unk_id'], t['eos_ids']) == (3, 1, 0, [2]), t)
    plain = PIECES[:3] + PIECES[259:]
    variants = [
        ('no dummy prefix', sentencepiece(normalizer={**NORMALIZER, 3: 0}), PIECES, {'flags': 2}),
        ('dummy prefix by default', sentencepiece(normalizer={4: 0}), PIECES, {'flags': 3}),
        ('no byte fallback', sentencepiece(plain, {3: 2}), plain, {'flags': 1}),
        ('other names', sentencepiece([(b'<begin>', 0.0, 3), (b'<end>', 0.0, 3), (b'?', 0.0, 2)] + PIECES[259:],
                                      {3: 2, 46: b'<begin>', 47: b'<end>'}),
         plain, {'bos_id': 0, 'eos_ids': [1], 'unk_id': 2}),
        ('no bos', sentencepiece([p for p in plain if p[0] != b'<s>'], {3: 2}), plain[1:], {'bos_id': -1, 'eos_ids': [1]}),
        ('no eos', sentencepiece([p for p in plain if p[0] != b'</s>'], {3: 2}), plain[1:], {'bos_id': 1, 'eos_ids': []}),
        ('a <s> that is no control piece', sentencepiece([p if p[0] != b'<s>' else (b'<s>', 0.0, 1) for p in plain], {3: 2}), plain,
         {'bos_id': -1}),
        ('in parts, with fields unknown to us',
         sentencepiece(trainer={3: 2}, rest=field(2, message([(35, 1), (99, b'x')])) + field(4, b'test') + varint(77 << 3 | 1) + bytes(8)),
         PIECES, {'flags': 3}),
    ]
    for name, data, pieces, fields in variants:
        case.put('tokenizer.model', data)
        run = case.run('--tokenizer', source, out)
        if run.returncode:
            check('tokenizer: ' + name, False, run.stderr)
            continue
        _, t = read_tokenizer(out, len(pieces))
        check('tokenizer: ' + name, all(t[key] == value for key, value in fields.items()), t)
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
             ('two unknowns', sentencepiece(PIECES + [(b'x', 0.0, 2)]), 'unknown'), ('no unknown', sentencepiece(PIECES[1:]), 'unknown'),
             ('a byte missing', sentencepiece(PIECES[:100] + PIECES[101:]), 'byte'),
             ('bytes without fallback', sentencepiece(trainer={3: 2}), 'byte'),
             ('empty', b'', 'tokenizer.model'), ('text', b'IQ== 0\nIg== 1\nIw== 2\n', 'tokenizer.model'),
             ('zeros', bytes(100), 'tokenizer.model'),
             ('endless number', b'\x08' + b'\xff' * 50, 'tokenizer.model'), ('wrong wire type', field(1, 5), 'tokenizer.model'),
             ('huge length', varint(10) + varint(1 << 62), 'tokenizer.model')]
    cases += [('cut at %d' % n, good[:n], 'tokenizer.model') for n in (1, 2, 5, 50, len(good) // 2, len(good) - 1)]
    for name, data, key in cases:
        case = Case(LLAMA, tokenizer__model=data)
        refused('tokenizer: ' + name, case, key, '--tokenizer', os.path.join(case.folder, 'tokenizer.model'),
                os.path.join(case.results, 't.bin'))
    refused('tokenizer: missing', Case(LLAMA), 'no such file', '--tokenizer', '/nonexistent/tokenizer.model', '/nonexistent/t.bin')


def test_folder_with_tokenizer():
    n = len(PIECES)
    config = changed(LLAMA, vocab_size=n + 6, eos_token_id=[2, n + 1])
    tensors = safetensors(make_tensors(config))

    def added(**entries):
        return {'added_tokens_decoder': {id.strip('_'): entry for id, entry in entries.items()}}

    def folder(name, tokenizer_config=None, model=sentencepiece(), config=config, out='model.bin', arguments=(), **files):
        if tokenizer_config is not None:
            files['tokenizer_config__json'] = tokenizer_config
        case = Case(config, tensors, tokenizer__model=model, **files)
        run = case.run(case.folder, os.path.join(case.results, out), *(a.replace('OUT', case.results) for a in arguments))
        left = case.left()
        check('folder: ' + name, run.returncode == 0 and len(left) == 2, run.stderr or left)
        other = [f for f in left if f != out]
        result = read_tokenizer(os.path.join(case.results, other[0]), config['vocab_size']) if other and not run.returncode else None
        case.close()
        return (*result, other[0], run.stderr.splitlines()) if result else ([], {}, '', [])

    tokens, t, name, _ = folder('padded')
    check('padded with unused tokens', tokens[n:] == [(b'', 0.0)] * 6 and t.get('types', [])[n:] == [5] * 6, t.get('types', [])[n:])
    check('the end tokens are the model\'s', t.get('eos_ids') == [2, n + 1] and name == 'tokenizer.bin', (t.get('eos_ids'), name))
    check('beside another name', folder('beside', out='tiny.bin')[2] == 'tiny.tokenizer.bin')
    check('--tokenizer-out', folder('placed', arguments=('--tokenizer-out', 'OUT/here.tok'))[2] == 'here.tok')

    same = {'content': '<s>', 'special': True, 'lstrip': False, 'rstrip': False, 'single_word': False, 'normalized': False}
    im_end = {'content': '<|im_end|>', 'special': True, 'lstrip': True}
    tool = {'content': '<tool\u2581x>', 'special': False, 'normalized': False}
    word = {'content': 'he', 'special': False}
    tokens, t, _, _ = folder('added', added(_1=same,
                                            **{'_%d' % (n + 1): im_end, '_%d' % (n + 3): tool,
                                               '_%d' % PIECES.index((b'he', -1.0, 1)): word}))
    check('added tokens', [text for text, _ in tokens[n:]] == [b'', b'<|im_end|>', b'', b'<tool x>', b'', b''] and
          t.get('types', [])[n:] == [5, 3, 5, 4, 5, 5] and t['types'][1] == 3 and t['types'][PIECES.index((b'he', -1.0, 1))] == 4,
          tokens[n:])
    tokens, t, _, _ = folder('added_tokens.json', added_tokens__json={'<x>': n})
    check('added_tokens.json', tokens and tokens[n][0] == b'<x>' and t['types'][n] == 4)
    _, _, _, lines = folder('beyond', added(**{'_%d' % (n + 6): im_end}))
    check('a token beyond the model is left out and said', any('left out' in line for line in lines), lines)
    _, t, _, _ = folder('no bos', {'add_bos_token': False, 'add_prefix_space': False})
    check('add_bos_token and add_prefix_space', t.get('bos_id') == -1 and t.get('flags') == 2, t.get('flags'))

    for name, settings, key in (('another text', added(_1={'content': '<x>', 'special': True}), 'added token 1'),
                                ('stripping', added(**{'_%d' % n: {'content': 'x', 'lstrip': True}}), 'lstrip'),
                                ('no content', added(**{'_%d' % n: {}}), 'content'), ('id', added(_x={'content': 'x'}), 'added tokens'),
                                ('a list', {'added_tokens_decoder': []}, 'added_tokens_decoder'),
                                ('kind', {'add_bos_token': 'no'}, 'add_bos_token')):
        refused('added: ' + name, Case(config, tensors, tokenizer__model=sentencepiece(), tokenizer_config__json=settings), key)
    small = changed(LLAMA, vocab_size=33)
    refused('more tokens than the model', Case(small, make_tensors(small), tokenizer__model=sentencepiece()), 'more tokens')
    refused('a tokenizer that cannot be', Case(config, tensors, tokenizer__model=b'x'), 'tokenizer.model')
    for name, files, arguments in (('no tokenizer.model', {}, ()), ('--no-tokenizer', {'tokenizer__model': b'x'}, ('--no-tokenizer',))):
        case = Case(config, tensors, **files)
        run = case.run(case.folder, case.out, *arguments)
        check(name, run.returncode == 0 and case.left() == ['model.bin'] and ('no tokenizer written' in run.stderr) == (not files),
              run.stderr)
        case.close()


def test_real_tokenizer():
    source = os.path.join(SHARED, 'models', 'llama2_tokenizer.model')
    if not os.path.exists(source):
        return skip('the Llama 2 tokenizer is not here')
    case = Case(LLAMA)
    out = os.path.join(case.results, 't.bin')
    run = case.run('--tokenizer', source, out)
    check('Llama 2 tokenizer', run.returncode == 0, run.stderr)
    if run.returncode == 0:
        tokens, t = read_tokenizer(out, 32000)
        found = [tokens[i][0] for i in (0, 1, 2, 3, 13, 258, 29871, 29900)]
        check('Llama 2 tokens', found == [b'<unk>', b'<s>', b'</s>', b'<0x00>', b'<0x0A>', b'<0xFF>', b' ', b'0'], found)
        check('Llama 2 trailer', (t['flags'], t['bos_id'], t['unk_id'], t['eos_ids']) == (3, 1, 0, [2]) and
              t['types'] == [2, 3, 3] + 256 * [6] + (32000 - 259) * [1], t['flags'])
    case.close()


# ---- tests: checkpoints that were not made here, and damage of any kind -----------------------------------------------

def test_golden():
    folders = [os.path.join(place, name) for place in (os.path.join(SHARED, 'golden'), os.path.join(ROOT, 'tests', 'golden'))
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
        source = {key: (entry['dtype'], entry['shape'], data[8 + length + entry['data_offsets'][0]:8 + length + entry['data_offsets'][1]])
                  for key, entry in json.loads(data[8:8 + length].decode()).items() if key != '__metadata__'}
        header, found, _ = exported(name, config, data)
        if header:
            check(name, found == expected_tensors(source, header['head_dim'], False))


DAMAGE = '''
import importlib.util, io, os, random, sys
spec = importlib.util.spec_from_file_location('exporter', sys.argv[1])
exporter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exporter)
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
        exporter.notes.clear(); exporter.inputs.clear(); exporter.opened.cache_clear()
        sys.stderr = io.StringIO()
        try:
            status = exporter.main([folder, out])
        except BaseException as error:
            status = repr(error)
        said, sys.stderr = sys.stderr.getvalue(), stderr
        left = sorted(os.listdir(os.path.dirname(out)))
        if not (status == 0 and len(left) == 2 or status == 1 and not left and said.count('\\n') == 1 and said.startswith('model_export: ')):
            print(name, round, status, left, ascii(said)[:300])
        for file in left: os.unlink(os.path.join(os.path.dirname(out), file))
    open(path, 'wb').write(whole)
'''


def test_damage():
    """A few hundred random damages: each ends in a good file or in one line, never in a traceback."""
    n = len(PIECES)
    config = changed(LLAMA, vocab_size=n + 4, rope_scaling=dict(LONG, factor=4.0), num_hidden_layers=1)
    settings = {'added_tokens_decoder': {str(n): {'content': '<x>', 'special': False, 'lstrip': False}}, 'add_bos_token': True}
    case = Case(config, make_tensors(config), tokenizer__model=sentencepiece(), tokenizer_config__json=settings)
    run = subprocess.run([sys.executable, '-I', '-S', '-B', '-c', DAMAGE, EXPORTER, case.folder, case.out,
                          os.environ.get('DAMAGE_ROUNDS', '150')],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    check('damage', run.returncode == 0 and not run.stdout, run.stdout[:600] or run.stderr)
    case.close()


def main():
    global exporter
    sys.dont_write_bytecode = True
    exporter = load_exporter()
    for name, test in sorted(globals().items()):
        if name.startswith('test_'):
            began = time.time()
            test()
            if os.environ.get('TIMES'):
                print('%6.2f s %s' % (time.time() - began, name))
    print('%d passed, %d failed' % (results['passed'],
                                    results['failed']) + (', %d skipped' % results['skipped'] if results['skipped'] else ''))
    return 1 if results['failed'] else 0


if __name__ == '__main__':
    sys.exit(main())
