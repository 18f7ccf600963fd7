#!/usr/bin/env python3
"""Converts a Llama into the files that ./run reads.

    python3 model_export.py FOLDER model.bin      Hugging Face's: config.json, *.safetensors, tokenizer.model
    python3 model_export.py FILE.bin model.bin    llama2.c's, versions 0 to 2

Weights keep their numbers: float16 stays, bfloat16 becomes float32. tokenizer.bin is written beside model.bin. What is
no Llama, or what the file cannot express, is refused in one line, with status 2. It needs Python 3.8 and nothing
else."""

import json
import math
import os
import struct
import sys

HEADER_BYTES = 256
F32, F16, Q8 = 0, 1, 3
METHODS = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'longrope']
ALIGNMENT = 64


class Refused(Exception):
    pass


# ---- the model file ----

def header(c):
    """The header of version 3: names and places as in run.c's table of fields."""
    head = bytearray(HEADER_BYTES)
    def put(offset, kind, *values):
        struct.pack_into('<' + kind, head, offset, *values)
    put(0, 'II', 0x616b3432, 3)
    put(8, 'II', c['weight_type'], c.get('group_size', 0))
    put(16, '8I', c['dim'], c['hidden_dim'], c['n_layers'], c['n_heads'], c['n_kv_heads'], c['head_dim'],
        c['vocab_size'], c['seq_len'])
    put(48, 'I', c['shared_classifier'])
    put(56, 'd', c['norm_eps'])
    eos = c['eos_ids']
    put(64, 'iI8i', c['bos_id'], len(eos), *eos, *[0] * (8 - len(eos)))
    put(104, 'II', METHODS.index(c.get('method', 'none')), c.get('dynamic', 0))
    put(112, 'dd', c['theta'], c.get('factor', 0))
    put(128, 'III', c.get('train_ctx', c['seq_len']), 0, c.get('truncate', 1))
    put(144, '7d', *(c.get(name) or 0 for name in ('beta_fast', 'beta_slow', 'attention_factor', 'mscale',
                                                    'mscale_all_dim', 'low_freq_factor', 'high_freq_factor')))
    lists = c.get('short_factors', []) + c.get('long_factors', [])
    put(200, 'I', len(lists) // 2)
    return bytes(head) + struct.pack('<%dd' % len(lists), *lists)


def write_model(path, c, tensors):
    """tensors: bytes, in the order of the file, each begun at a multiple of 64."""
    with open(path + '.part', 'wb') as file:
        file.write(header(c))
        for data in tensors:
            file.write(bytes(-file.tell() % ALIGNMENT))
            file.write(data)
        file.write(bytes(-file.tell() % ALIGNMENT))
    os.replace(path + '.part', path)


# ---- Hugging Face ----

def whole(config, key, default=None):
    value = config.get(key, default)
    if value is None and default is not None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Refused('config.json: %s is %r (expected a whole number from 1 on)' % (key, value))
    return value


def number(block, key, default=0.0):
    value = block.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refused('config.json: %s is %r (expected a number)' % (key, value))
    return float(value)


def rope_of(config, c):
    """Puts the settings of RoPE into c, with the meaning that Transformers gives them."""
    block = dict(config.get('rope_scaling') or {}, **(config.get('rope_parameters') or {}))
    kind = block.get('rope_type', block.get('type', 'default'))
    c['theta'] = number(block, 'rope_theta', number(config, 'rope_theta', 10000.0))
    most = c['seq_len']
    original = block.get('original_max_position_embeddings', config.get('original_max_position_embeddings'))
    c['train_ctx'] = most
    known = {'default': 'none', 'linear': 'linear', 'dynamic': 'ntk', 'yarn': 'yarn', 'llama3': 'llama3',
             'longrope': 'longrope'}
    if kind not in known:
        raise Refused('config.json: rope_type %r is not one of %s' % (kind, ', '.join(known)))
    c['method'] = known[kind]
    if kind == 'default':
        return
    c['factor'] = number(block, 'factor')
    if kind != 'longrope' and c['factor'] < 1:
        raise Refused('config.json: %s needs a factor of at least 1 (found %r)' % (kind, block.get('factor')))
    c['dynamic'] = int(kind == 'dynamic')
    if kind in ('yarn', 'llama3', 'longrope'):
        c['train_ctx'] = whole({'original_max_position_embeddings': original}, 'original_max_position_embeddings', most)
        c['attention_factor'] = number(block, 'attention_factor') if kind != 'llama3' else 0
    for key in {'yarn': ('beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim'),
                'llama3': ('low_freq_factor', 'high_freq_factor')}.get(kind, ()):
        c[key] = number(block, key)
    c['truncate'] = int(block.get('truncate', True))
    if kind == 'linear':  # one scale at all lengths
        c['train_ctx'] = most
    if kind == 'longrope':
        for key, name in ('short_factor', 'short_factors'), ('long_factor', 'long_factors'):
            values = block.get(key)
            if not isinstance(values, list) or len(values) != c['head_dim'] // 2:
                raise Refused('config.json: %s is no list of %d numbers' % (key, c['head_dim'] // 2))
            c[name] = [float(x) for x in values]
        c['factor'] = c['factor'] or most / c['train_ctx']


def config_of(folder):
    path = os.path.join(folder, 'config.json')
    try:
        with open(path, encoding='utf-8') as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        raise Refused('%s: %s' % (path, error))
    if not isinstance(config, dict) or config.get('model_type') != 'llama':
        found = isinstance(config, dict) and config.get('model_type')
        raise Refused('%s: model_type is %r (expected llama)' % (path, found))
    for key in 'attention_bias', 'mlp_bias', 'quantization_config', 'sliding_window':
        if config.get(key):
            raise Refused('%s: %s is set, which no Llama has here' % (path, key))
    if config.get('hidden_act', 'silu') != 'silu' or config.get('partial_rotary_factor', 1) != 1:
        raise Refused('%s: hidden_act or partial_rotary_factor is not a Llama\'s' % path)
    heads = whole(config, 'num_attention_heads')
    dim = whole(config, 'hidden_size')
    eos = config.get('eos_token_id', 2)
    eos = [e for e in (eos if isinstance(eos, list) else [eos]) if isinstance(e, int)]
    bos = config.get('bos_token_id', 1)
    c = dict(dim=dim, hidden_dim=whole(config, 'intermediate_size'), n_layers=whole(config, 'num_hidden_layers'),
             n_heads=heads, n_kv_heads=whole(config, 'num_key_value_heads', heads),
             head_dim=whole(config, 'head_dim', dim // heads), vocab_size=whole(config, 'vocab_size'),
             seq_len=whole(config, 'max_position_embeddings', 2048), norm_eps=number(config, 'rms_norm_eps', 1e-6),
             shared_classifier=int(bool(config.get('tie_word_embeddings', False))),
             bos_id=bos if isinstance(bos, int) else -1, eos_ids=eos[:8])
    rope_of(config, c)
    return c


class Safetensors:
    """All tensors of a folder: type, shape and bytes by name."""

    def __init__(self, folder):
        self.places = {}
        names = sorted(name for name in os.listdir(folder) if name.endswith('.safetensors'))
        if not names:
            raise Refused('%s: there is no *.safetensors' % folder)
        for name in names:
            path = os.path.join(folder, name)
            with open(path, 'rb') as file:
                size = os.path.getsize(path)
                n, = struct.unpack('<Q', file.read(8).ljust(8, b'\0'))
                if n > size - 8:
                    raise Refused('%s: truncated' % path)
                for tensor, about in json.loads(file.read(n)).items():
                    if tensor == '__metadata__':
                        continue
                    begin, end = about['data_offsets']
                    if not 0 <= begin <= end <= size - 8 - n:
                        raise Refused('%s: %s lies outside of the file' % (path, tensor))
                    self.places[tensor] = path, about['dtype'], about['shape'], 8 + n + begin, end - begin

    def read(self, name, *shape):
        if name not in self.places:
            raise Refused('there is no tensor ' + name)
        path, kind, found, offset, size = self.places[name]
        if list(shape) != found:
            raise Refused('%s has the shape %s (expected %s)' % (name, found, list(shape)))
        if kind not in ('F32', 'F16', 'BF16'):
            raise Refused('%s is of type %s (expected F32, F16 or BF16)' % (name, kind))
        if size != math.prod(shape) * (4 if kind == 'F32' else 2):
            raise Refused('%s has %d bytes' % (name, size))
        with open(path, 'rb') as file:
            file.seek(offset)
            return kind, file.read(size)


def as_type(kind, data, wanted):
    """The bytes in another type: bfloat16 is the upper half of a float32."""
    if kind == 'F16' and wanted == F32:
        return struct.pack('<%df' % (len(data) // 2), *struct.unpack('<%de' % (len(data) // 2), data))
    if kind == 'BF16':
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return bytes(wide)
    return data


def interleaved(data, n_heads, head_dim, row_bytes):
    """Rows of q or k with the two halves of each head in turns: Hugging Face turns element i with i + d/2, ./run 2i
    with 2i + 1."""
    rows = [data[at:at + row_bytes] for at in range(0, len(data), row_bytes)]
    return b''.join(rows[h * head_dim + i // 2 + i % 2 * (head_dim // 2)]
                    for h in range(n_heads) for i in range(head_dim))


def from_folder(folder, out):
    c, tensors = config_of(folder), Safetensors(folder)
    all_f16 = all(place[1] == 'F16' for name, place in tensors.places.items() if len(place[2]) == 2)
    c['weight_type'] = F16 if all_f16 else F32
    width = 2 if all_f16 else 4
    dim, hidden, d = c['dim'], c['hidden_dim'], c['head_dim']
    q, kv = c['n_heads'] * d, c['n_kv_heads'] * d
    if 'lm_head.weight' not in tensors.places:
        c['shared_classifier'] = 1

    def matrix(name, rows, cols, heads=0):
        data = as_type(*tensors.read(name, rows, cols), c['weight_type'])
        return interleaved(data, heads, d, cols * width) if heads else data

    def norm(name):
        return as_type(*tensors.read(name, dim), F32)

    def every():
        yield matrix('model.embed_tokens.weight', c['vocab_size'], dim)
        for layer in range(c['n_layers']):
            at = 'model.layers.%d.' % layer
            yield norm(at + 'input_layernorm.weight')
            yield matrix(at + 'self_attn.q_proj.weight', q, dim, c['n_heads'])
            yield matrix(at + 'self_attn.k_proj.weight', kv, dim, c['n_kv_heads'])
            yield matrix(at + 'self_attn.v_proj.weight', kv, dim)
            yield matrix(at + 'self_attn.o_proj.weight', dim, q)
            yield norm(at + 'post_attention_layernorm.weight')
            yield matrix(at + 'mlp.gate_proj.weight', hidden, dim)
            yield matrix(at + 'mlp.up_proj.weight', hidden, dim)
            yield matrix(at + 'mlp.down_proj.weight', dim, hidden)
        yield norm('model.norm.weight')
        if not c['shared_classifier']:
            yield matrix('lm_head.weight', c['vocab_size'], dim)
    write_model(out, c, every())
    tokenizer = os.path.join(folder, 'tokenizer.model')
    if not os.path.exists(tokenizer):
        return 'the model only: there is no tokenizer.model (the whole rope.c reads tokenizer.json)'
    with open(tokenizer, 'rb') as file:
        write_tokenizer(os.path.join(os.path.dirname(out), 'tokenizer.bin'), file.read())
    return 'the model, and tokenizer.bin'


# ---- sentencepiece's tokenizer.model, a protobuf ----

def fields(data):
    """(number, value) of a message: whole numbers, and bytes of all else."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
        yield key >> 3, data[at:at + size]
        at += size


def write_tokenizer(path, data):
    try:
        messages = list(fields(data))
        trainer = dict(fields(next((v for k, v in messages if k == 2), b'')))
        normalizer = dict(fields(next((v for k, v in messages if k == 3), b'')))
        pieces = [dict(fields(value)) for number_, value in messages if number_ == 1]
    except (IndexError, KeyError, TypeError):
        raise Refused('tokenizer.model is not sentencepiece\'s')
    if trainer.get(3, 1) != 2:
        raise Refused('tokenizer.model is not a BPE model')
    types = [piece.get(3, 1) for piece in pieces]
    if 4 in types:
        raise Refused('tokenizer.model has user-defined tokens')
    texts = [piece.get(1, b'').replace('\u2581'.encode(), b' ') for piece in pieces]
    scores = [struct.unpack('<f', piece.get(2, bytes(4)))[0] for piece in pieces]
    flags = normalizer.get(3, 1) + 2 * trainer.get(35, 0)
    ids = [trainer.get(number_, default) for number_, default in ((41, 1), (40, 0), (42, 2))]
    bos, unk, eos = (i if i < 1 << 31 else -1 for i in ids)
    out = struct.pack('<i', max(map(len, texts)))
    for text, score in zip(texts, scores):
        out += struct.pack('<fi', score, len(text)) + text
    out += struct.pack('<3I2iI', 0x31544b54, 0, flags, bos, unk, int(eos >= 0))
    out += (struct.pack('<i', eos) if eos >= 0 else b'') + bytes(types)
    with open(path, 'wb') as file:
        file.write(out)


# ---- llama2.c ----

def from_llama2c(path, out):
    with open(path, 'rb') as file:
        data = file.read()
    if len(data) < 36:
        raise Refused('%s: too short for a model' % path)
    magic, version = struct.unpack_from('<Ii', data)
    has_magic = magic == 0x616b3432
    if has_magic and version not in (1, 2):
        raise Refused('%s: version %d (expected llama2.c\'s 0, 1 or 2)' % (path, version))
    version = version if has_magic else 0
    dim, hidden, layers, heads, kv_heads, vocab, length = struct.unpack_from('<7i', data, 8 if has_magic else 0)
    shared = data[36] if has_magic else int(vocab > 0)
    vocab = abs(vocab)
    if min(dim, hidden, layers, heads, kv_heads, vocab, length) < 1 or dim % max(heads, 1):
        raise Refused('%s is no file of llama2.c' % path)
    d, at = dim // heads, 256 if has_magic else 28
    c = dict(weight_type=Q8 if version == 2 else F32, dim=dim, hidden_dim=hidden, n_layers=layers, n_heads=heads,
             n_kv_heads=kv_heads, head_dim=d, vocab_size=vocab, seq_len=length, shared_classifier=shared, norm_eps=1e-5,
             bos_id=1, eos_ids=[2], theta=10000.0)
    if version == 2:
        c['group_size'], = struct.unpack_from('<i', data, 37)
        if c['group_size'] < 1 or dim % c['group_size'] or hidden % c['group_size']:
            raise Refused('%s: groups of %d cross rows (./run reads the file as it is)' % (path, c['group_size']))
    shapes = {'embedding': (1, vocab, dim), 'n1': (layers, 1, dim), 'q': (layers, dim, dim),
              'k': (layers, kv_heads * d, dim), 'v': (layers, kv_heads * d, dim), 'o': (layers, dim, dim),
              'n2': (layers, 1, dim), 'w1': (layers, hidden, dim), 'w2': (layers, dim, hidden),
              'w3': (layers, hidden, dim), 'n': (1, 1, dim), 'angles': (1, length, d),
              'classifier': (1, vocab, dim)}
    order = 'embedding n1 q k v o n2 w1 w2 w3 n angles classifier' if version == 0 else \
        'n1 n2 n embedding q k v o w1 w2 w3 classifier'
    found = {}
    for name in order.split():
        if name == 'classifier' and shared:
            continue
        count, rows, cols = shapes[name]
        for i in range(count):
            is_q8 = version == 2 and name not in ('n1', 'n2', 'n')
            size = rows * cols + 4 * rows * cols // c['group_size'] if is_q8 else 4 * rows * cols
            if at + size > len(data):
                raise Refused('%s: truncated (%d bytes found)' % (path, len(data)))
            found[name, i] = data[at:at + size]
            at += size
    if at != len(data):
        raise Refused('%s: too long (%d bytes found, %d expected)' % (path, len(data), at))
    parts = []
    for name, i in [('embedding', 0)] + [(n, i) for i in range(layers) for n in 'n1 q k v o n2 w1 w3 w2'.split()] + [
            ('n', 0)] + [('classifier', 0)] * (not shared):
        _, rows, cols = shapes[name]
        is_q8 = version == 2 and name[0] != 'n'
        parts += [found[name, i][:rows * cols], found[name, i][rows * cols:]] if is_q8 else [found[name, i]]
    write_model(out, c, parts)
    return 'the model only: llama2.c\'s tokenizer.bin is read as it is'


def main(words):
    if words and words[0] in ('-h', '--help'):
        print(__doc__)
        return 0
    try:
        if len(words) != 2:
            raise Refused('SOURCE and OUT.bin are expected (--help)')
        source, out = words
        if os.path.exists(out) and os.path.samefile(source, out):
            raise Refused('OUT is SOURCE')
        done = (from_folder if os.path.isdir(source) else from_llama2c)(source, out)
    except Refused as error:
        print('model_export: %s' % error, file=sys.stderr)
        return 2
    except OSError as error:
        print('model_export: %s: %s' % (error.filename, error.strerror), file=sys.stderr)
        return 2
    print('wrote %s: %s' % (out, done))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
