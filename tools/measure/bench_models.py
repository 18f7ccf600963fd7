"""The models that bench.py measures, with random weights: llama2.c's stories110M and TinyLlama in shape, in the formats
of the programs that it times, and files of published shapes. Needs NumPy, but not for the published shapes.
"""
import os
import struct
import subprocess
import sys

try:
    import numpy as np
except ImportError:  # without which there are published shapes
    np = None

import random_models

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VOCAB = 32000
MODELS = {
    '110M': dict(layers=12, dim=768, hidden=2048, heads=12, kv_heads=12, shared=True, full='f32'),
    '1.1B': dict(layers=22, dim=2048, hidden=5632, heads=32, kv_heads=4, shared=False, full='f16'),
}


def fail(what):
    sys.exit('bench.py: ' + what)


def output_of(command, threads, both=False):
    done = subprocess.run(command, capture_output=True, env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    if done.returncode:
        fail('%s ended with status %d: %s'
             % (' '.join(command), done.returncode, done.stderr.decode(errors='replace').strip()[-400:]))
    return ((done.stderr if both else b'') + done.stdout).decode(errors='replace')


def tensors(shape):
    """(name in GGUF, rows, columns or None for a norm), in the order of model.bin."""
    dim, hidden, kv = shape['dim'], shape['hidden'], shape['dim'] // shape['heads'] * shape['kv_heads']
    yield 'token_embd', VOCAB, dim
    for i in range(shape['layers']):
        for name, rows, columns in (('attn_norm', dim, None), ('attn_q', dim, dim), ('attn_k', kv, dim),
                                    ('attn_v', kv, dim), ('attn_output', dim, dim), ('ffn_norm', dim, None),
                                    ('ffn_gate', hidden, dim), ('ffn_up', hidden, dim), ('ffn_down', dim, hidden)):
            yield 'blk.%d.%s' % (i, name), rows, columns
    yield 'output_norm', dim, None
    if not shape['shared']:
        yield 'output', VOCAB, dim


class Numbers:
    """Random weights: windows into one array, so that they cost no time to make."""

    def __init__(self):
        if np is None:
            fail('needs NumPy for models that are not of a published shape (found none; --only shape does without)')
        self.pool = np.random.default_rng(1).standard_normal(1 << 22, dtype=np.float32)
        self.at = 0

    def take(self, count):
        self.at = (self.at + 7919) % 4096
        return np.resize(self.pool[self.at:], count)

    def weights(self, name, rows, columns):
        if columns is None:
            return np.ones(rows, np.float32)
        return (self.take(rows * columns) / np.float32(columns ** 0.5)).astype(np.float32)


def pad(file, to):
    file.write(b'\0' * (-file.tell() % to))


def write_ours(path, shape):
    """model.bin version 3 in float32 or float16: docs/format.md."""
    head_dim, numbers = shape['dim'] // shape['heads'], Numbers()
    with open(path, 'wb') as file:
        file.write(struct.pack('<14I d i I 8i 2I 2d 4I 7d I 52x', 0x616b3432, 3, shape['full'] == 'f16',
                               0, shape['dim'], shape['hidden'], shape['layers'], shape['heads'], shape['kv_heads'],
                               head_dim, VOCAB, 2048, shape['shared'], 0, 1e-5, 1, 1, 2, *[0] * 7, 0, 0, 10000.0, 0.0,
                               2048, 0, 1, 0, *[0.0] * 7, 0))
        for name, rows, columns in tensors(shape):
            pad(file, 64)
            w = numbers.weights(name, rows, columns)
            file.write(w.astype(np.float16).tobytes() if columns and shape['full'] == 'f16' else w.tobytes())
        pad(file, 64)


def write_llama2c(path, shape):
    """llama2.c's version 0: the same matrices layer by layer, kind after kind."""
    numbers, head_dim = Numbers(), shape['dim'] // shape['heads']
    order = ['token_embd', 'attn_norm', 'attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_norm', 'ffn_gate', 'ffn_down',
             'ffn_up', 'output_norm']
    listed = sorted(tensors(shape), key=lambda t: order.index(t[0].split('.')[-1]))
    with open(path, 'wb') as file:
        file.write(struct.pack('<7i', shape['dim'], shape['hidden'], shape['layers'], shape['heads'], shape['kv_heads'],
                               VOCAB, 2048))
        for tensor in listed:
            file.write(numbers.weights(*tensor).tobytes())
        file.write(bytes(4 * 2 * 2048 * head_dim // 2))


def gguf_value(value):
    if isinstance(value, str):
        return struct.pack('<IQ', 8, len(value)) + value.encode()
    return struct.pack('<If', 6, value) if isinstance(value, float) else struct.pack('<II', 4, value)


def gguf_data(kind, w):
    """GGML's F32, Q8_0 (32 int8 after a float16 scale) or Q4_0 (two 4-bit values to a byte after a float16 scale)."""
    if kind == 'f32':
        return w.tobytes()
    groups = w.reshape(-1, 32)
    scale = (np.abs(groups).max(1, keepdims=True) / (127 if kind == 'q8' else 7)).astype(np.float16)
    values = np.rint(groups / scale.astype(np.float32)).astype(np.int8)
    if kind == 'q4':
        values = (values + 8).astype(np.uint8)
        values = values[:, :16] | values[:, 16:] << 4
    return np.concatenate([scale.view(np.uint8).reshape(-1, 2), values.view(np.uint8)], 1).tobytes()


def gguf_bytes(kind, count):
    return count * 4 if kind == 'f32' else count // 32 * (34 if kind == 'q8' else 18)


def write_gguf(path, shape, kind):
    codes = {'f32': 0, 'q4': 2, 'q8': 8}
    keys = {'general.architecture': 'llama', 'llama.context_length': 16384, 'llama.embedding_length': shape['dim'],
            'llama.block_count': shape['layers'], 'llama.feed_forward_length': shape['hidden'],
            'llama.attention.head_count': shape['heads'], 'llama.attention.head_count_kv': shape['kv_heads'],
            'llama.attention.layer_norm_rms_epsilon': 1e-5,
            'llama.rope.dimension_count': shape['dim'] // shape['heads'],
            'llama.vocab_size': VOCAB, 'tokenizer.ggml.model': 'no_vocab'}
    numbers, listed = Numbers(), [(name + '.weight', rows, columns, kind if columns else 'f32')
                                  for name, rows, columns in tensors(shape)]
    with open(path, 'wb') as file:
        file.write(struct.pack('<4sIQQ', b'GGUF', 3, len(listed), len(keys)))
        for key, value in keys.items():
            file.write(struct.pack('<Q', len(key)) + key.encode() + gguf_value(value))
        offset = 0
        for name, rows, columns, k in listed:
            dims = [columns, rows] if columns else [rows]
            file.write(struct.pack('<Q', len(name)) + name.encode() +
                       struct.pack('<I%dQ' % len(dims), len(dims), *dims) + struct.pack('<IQ', codes[k], offset))
            offset += gguf_bytes(k, rows * (columns or 1)) + 31 & ~31
        for name, rows, columns, k in listed:
            pad(file, 32)
            file.write(gguf_data(k, numbers.weights(name, rows, columns)))
        pad(file, 32)


def write_tokenizer(path):
    with open(path, 'wb') as file:
        file.write(struct.pack('<I', 8))
        for i in range(VOCAB):
            plain = '<0x%02X>' % (i - 3) if i < 259 else 't%05d' % i
            piece = {0: '<unk>', 1: '\n<s>\n', 2: '\n</s>\n', 259: ' '}.get(i, plain).encode()
            file.write(struct.pack('<fi', -float(i), len(piece)) + piece)


def made(path, write, *arguments):
    """path, written first if it is not there."""
    if not os.path.exists(path):
        print('writing %s' % path, file=sys.stderr)
        write(path + '.part', *arguments)
        os.replace(path + '.part', path)
    return path


def quantized_gguf(options, model, kind):
    """A model of ours, exported and quantized by llama-quantize, which takes a first digit for a type."""
    full = made(os.path.join(options.folder, '%s.bin' % model), write_ours, MODELS[model])
    made(os.path.join(options.folder, 'tokenizer.bin'), write_tokenizer)
    floats = made(os.path.join(options.folder, 'model-%s-floats.gguf' % model),
                  lambda path: export(full, path, rename='.gguf'))
    return made(os.path.join(options.folder, 'model-%s-%s.gguf' % (model, kind)), lambda path: output_of(
        [options.llama_quantize, floats, path, kind], options.threads))


def file_of_shape(options, model, kind):
    """A GGUF file of random weights, which every program reads."""
    mix = kind.split()[1]
    return made(os.path.join(options.folder, '%s-%s.gguf' % (model, mix)),
                lambda path: random_models.write_gguf(path, random_models.SHAPES[model], mix))


def export(source, path, rename=None, *more):
    """By model_export.py, which goes by how a name ends."""
    out = path + (rename or '.bin')
    output_of([sys.executable, os.path.join(ROOT, 'model_export.py'), *more, source, out], 1)
    os.replace(out, path)
