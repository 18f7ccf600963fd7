"""Shared by the tests of model_export.py: checkpoints are written here, exported by the program as a user would, and
read back by a reader that was written from docs/format.md and shares nothing with the exporter.
"""

import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from common import ROOT, SHARED, check, exporter as program, main, skip  # noqa: F401: for those who import this
from inside import run_inside
from readings import changed  # noqa: F401: for those who import this

EXPORTER = os.path.join(ROOT, 'model_export.py')
exporter = program()  # as a module
rng = random.Random(1)
LONG = {'rope_type': 'longrope', 'short_factor': [1.0, 1.5, 2], 'long_factor': [1, 4.0, 16.0],
        'original_max_position_embeddings': 64}


# ---- writing checkpoints ----

# Small sizes that are no multiples of 64 bytes, so that every tensor needs padding.
LLAMA = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_act': 'silu', 'hidden_size': 24,
         'intermediate_size': 20, 'num_hidden_layers': 2, 'num_attention_heads': 4, 'num_key_value_heads': 2,
         'vocab_size': 33, 'max_position_embeddings': 256, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0,
         'tie_word_embeddings': False, 'bos_token_id': 1, 'eos_token_id': 2, 'torch_dtype': 'float32'}


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
    q, kv = config['num_attention_heads'] * head, (config.get('num_key_value_heads')
                                                   or config['num_attention_heads']) * head
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
        """The exporter in this process: as good as a new one, and ten times as fast."""
        return run_inside(exporter, arguments or (self.folder, self.out))

    def run_fresh(self, *arguments, **options):
        """The exporter as a user starts it; with -I -S nothing but the standard library can be imported."""
        return subprocess.run([sys.executable, '-I', '-S', EXPORTER, *(arguments or (self.folder, self.out))],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **options)

    def left(self):
        return sorted(os.listdir(self.results))

    def close(self):
        shutil.rmtree(self.place)


# ---- reading model.bin, from docs/format.md ----

FIELDS = {'magic': (0, 'I'), 'version': (4, 'I'), 'weight_type': (8, 'I'), 'group_size': (12, 'I'), 'dim': (16, 'I'),
          'hidden_dim': (20, 'I'), 'n_layers': (24, 'I'), 'n_heads': (28, 'I'), 'n_kv_heads': (32, 'I'),
          'head_dim': (36, 'I'), 'vocab_size': (40, 'I'), 'seq_len': (44, 'I'), 'shared_classifier': (48, 'I'),
          'sliding_window': (52, 'I'), 'norm_eps': (56, 'd'), 'bos_id': (64, 'i'), 'n_eos': (68, 'I'),
          'rope_method': (104, 'I'), 'rope_dynamic': (108, 'I'), 'theta': (112, 'd'), 'factor': (120, 'd'),
          'train_ctx': (128, 'I'), 'ramp': (132, 'I'), 'truncate': (136, 'I'), 'original_unsaid': (140, 'I'),
          'beta_fast': (144, 'd'), 'beta_slow': (152, 'd'), 'attention_factor': (160, 'd'), 'mscale': (168, 'd'),
          'mscale_all_dim': (176, 'd'), 'low_freq_factor': (184, 'd'), 'high_freq_factor': (192, 'd'),
          'n_longrope': (200, 'I'), 'type_table': (236, 'I')}


def read_model(path):
    """(header fields, {tensor: bytes}); raises ValueError where the file is not as documented. Of version 4, the type
    table alone."""
    with open(path, 'rb') as file:
        data = file.read()
    m = {name: struct.unpack_from('<' + kind, data, at)[0] for name, (at, kind) in FIELDS.items()}
    clean = (m['magic'] == 0x616b3432 and m['version'] == 3 + m['type_table'] and m['original_unsaid'] <= 1
             and not m['group_size'])
    if not clean or any(data[204:236] + data[240:256]):
        raise ValueError('not a clean header of version 3, or of 4 with types')
    eos = struct.unpack_from('<8i', data, 72)
    m['eos_ids'] = list(eos[:m['n_eos']])
    if m['n_eos'] > 8 or any(eos[m['n_eos']:]):
        raise ValueError('eos_ids')
    n = m['n_longrope']
    m['short'], m['long'] = (list(struct.unpack_from('<%dd' % n, data, 256 + 8 * n * i)) for i in (0, 1))
    at = 256 + 16 * n
    table = list(data[at:at + m['type_table'] * (2 + 7 * m['n_layers'] - m['shared_classifier'])])
    types, at = iter(table), at + len(table)

    def matrix(count):
        return take(count * {0: 4, 1: 2, 2: 2}[next(types, m['weight_type'])])

    def take(size):
        nonlocal at
        begin = (at + 63) // 64 * 64
        if any(data[at:begin]) or begin + size > len(data):
            raise ValueError('padding at %d' % at)
        at = begin + size
        return data[begin:at]

    dim, q, kv = m['dim'], m['n_heads'] * m['head_dim'], m['n_kv_heads'] * m['head_dim']
    tensors = {'embedding': matrix(m['vocab_size'] * dim)}
    for i in range(m['n_layers']):
        for name, count in (('attention norm', 0), ('wq', q * dim), ('wk', kv * dim), ('wv', kv * dim),
                            ('wo', q * dim), ('ffn norm', 0), ('w1', m['hidden_dim'] * dim),
                            ('w3', m['hidden_dim'] * dim), ('w2', m['hidden_dim'] * dim)):
            tensors[i, name] = matrix(count) if count else take(4 * dim)
    tensors['norm'] = take(dim * 4)
    if not m['shared_classifier']:
        tensors['classifier'] = matrix(m['vocab_size'] * dim)
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


def expected_tensors(source, head_dim):
    """The expected contents of the file for these tensors of a checkpoint."""
    names = {'input_layernorm': 'attention norm', 'post_attention_layernorm': 'ffn norm', 'q_proj': 'wq',
             'k_proj': 'wk', 'v_proj': 'wv', 'o_proj': 'wo', 'gate_proj': 'w1', 'up_proj': 'w3', 'down_proj': 'w2'}
    expected = {}
    for name, (dtype, shape, values) in source.items():
        parts = name.split('.')
        if parts[-2] in ('q_proj', 'k_proj'):
            values = pairs_of_rows(values, shape[0], head_dim)
        if len(shape) == 1:
            values = as_float32(dtype, values)
        key = {'model.embed_tokens.weight': 'embedding', 'model.norm.weight': 'norm', 'lm_head.weight': 'classifier'}
        expected[key[name] if name in key else (int(parts[2]), names[parts[-2]])] = values
    return expected


def exported(name, config, tensors=None, shards=1, arguments=(), **files):
    """Exports and reads back; (header, tensors, lines on stderr), or three Nones after a failed check."""
    case = Case(config, make_tensors(config) if tensors is None else tensors, shards, **files)
    try:
        run = (case.run_fresh if name == 'weights float32' else case.run)(case.folder, case.out, *arguments)
        if run.returncode != 0 or run.stdout:
            check(False, name, run.stderr or run.stdout)
            return None, None, None
        header, found = read_model(case.out)
        return header, found, run.stderr.splitlines()
    except ValueError as error:
        check(False, name, error)
        return None, None, None
    finally:
        case.close()


# ---- checks of a refusal ----

def refused(name, case, key, *arguments):
    """Status 2, one line that names the key, nothing left behind."""
    run = case.run(*arguments)
    lines = run.stderr.splitlines()
    good = run.returncode == 2 and len(lines) == 1 and lines[0].startswith('model_export: ') and key in lines[0]
    check(good and not run.stdout and case.left() == [], 'refused: ' + name, (run.returncode, run.stderr, case.left()))
    case.close()


def without(case, name):
    os.unlink(os.path.join(case.folder, name))
    return case


# ---- writing sentencepiece's tokenizer.model, and reading tokenizer.bin ----

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
          [('\u2581t'.encode(), -0.0, 1), (b'he', -1.0, 1), ('\u2581\u2581'.encode(), -2.5, 1),
           ('é漢😀'.encode(), -3.0, 1), (b'[user]', -4.0, 4), (b'gone', -5.0, 5), ('\u2581'.encode(), -1e9, 1)])
TRAINER = {3: 2, 35: 1, 40: 0, 41: 1, 42: 2, 43: -1}
NORMALIZER = {1: b'identity', 2: b'', 3: 1, 4: 0, 5: 1}


def sentencepiece(pieces=PIECES, trainer=TRAINER, normalizer=NORMALIZER, rest=b''):
    out = b''.join(field(1, message([(1, text), (2, score)] + [(3, kind)] * (kind != 1)))
                   for text, score, kind in pieces)
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
    if (t['magic'] != 0x31544b54 or t['kind'] or len(t['types']) != vocab_size
            or longest != max(len(text) for text, _ in tokens)):
        raise ValueError('not a tokenizer.bin of %d tokens' % vocab_size)
    return tokens, t
