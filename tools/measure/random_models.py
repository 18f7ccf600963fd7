#!/usr/bin/env python3
"""Writes a GGUF file of random weights in the shape of a published model, for timing and for large files: its numbers
stay finite and its router is balanced, but it means nothing.

    tools/measure/random_models.py SHAPE OUT.gguf [Q4_K_M | Q8_0]

SHAPE is a row of tools/measure/random_shapes.py. gpt-oss has its own types, MXFP4 with Q8_0.
"""
import random
import struct
import sys

from random_shapes import SHAPES, settings, tensors

HARMONY = ['<|startoftext|>', '<|endoftext|>', '<|reserved_200000|>', '<|reserved_200001|>', '<|return|>',
           '<|constrain|>', '<|reserved_200004|>', '<|channel|>', '<|start|>', '<|end|>', '<|message|>']
CHATML = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
TYPES = {'F32': (0, 1, 4), 'Q5_0': (6, 32, 22), 'Q8_0': (8, 32, 34), 'Q4_K': (12, 256, 144), 'Q6_K': (14, 256, 210),
         'MXFP4': (39, 32, 17)}
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
POOL = 4096  # blocks that are made; larger tensors repeat them


def tokenizer(shape):
    """Every byte a token, every two small letters one, then words that no text has, and the special tokens. Without a
    way to split (`pre`) there is no tokenizer: llama.cpp's benchmark needs none, and neither does --bench."""
    if 'pre' not in shape:
        yield 'tokenizer.ggml.model', value('no_vocab')
        return
    special = HARMONY if shape['family'] == 'gpt-oss' else CHATML
    at = 199998 if shape['family'] == 'gpt-oss' and shape['vocab'] > 200019 else shape['vocab'] - len(special)
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]
    small = [chr(c) for c in range(ord('a'), ord('z') + 1)]
    pairs = [(a, b) for a in small for b in small]
    tokens = letters + [a + b for a, b in pairs]
    tokens += ['word%d' % i for i in range(shape['vocab'] - len(tokens))]
    tokens[at:at + len(special)] = special
    kinds = [3 if at <= i < at + len(special) else 1 for i in range(len(tokens))]
    yield 'tokenizer.ggml.model', value('gpt2')
    yield 'tokenizer.ggml.pre', value(shape['pre'])
    yield 'tokenizer.ggml.tokens', array(STRING, [text(token) for token in tokens])
    yield 'tokenizer.ggml.token_type', array(I32, [struct.pack('<i', kind) for kind in kinds])
    yield 'tokenizer.ggml.merges', array(STRING, [text(a + ' ' + b) for a, b in pairs])
    end = special.index('<|return|>' if special is HARMONY else '<|im_end|>')
    yield 'tokenizer.ggml.bos_token_id', value(at)
    yield 'tokenizer.ggml.eos_token_id', value(at + end)
    yield 'tokenizer.ggml.add_bos_token', value(False)


# ---- the file ----

def text(string):
    data = string.encode()
    return struct.pack('<Q', len(data)) + data


def value(this):
    if isinstance(this, str):
        return struct.pack('<I', STRING) + text(this)
    if isinstance(this, bool):
        return struct.pack('<I?', BOOL, this)
    if isinstance(this, list):
        kind = BOOL if isinstance(this[0], bool) else U32
        return array(kind, [value(item)[4:] for item in this])
    return struct.pack('<If', F32, this) if isinstance(this, float) else struct.pack('<II', U32, this)


def array(kind, items):
    return struct.pack('<IIQ', ARRAY, kind, len(items)) + b''.join(items)


def block(kind, rng):
    """A block whose weights are around 0, and 0.03 large."""
    def half(x):
        return struct.pack('<e', x * rng.uniform(0.7, 1.3))
    if kind == 'Q8_0':
        return half(4e-4) + rng.getrandbits(256).to_bytes(32, 'little')
    if kind == 'Q5_0':
        return half(2.4e-3) + rng.getrandbits(160).to_bytes(20, 'little')
    if kind == 'Q4_K':
        return half(1.6e-4) + half(1.2e-3) + rng.getrandbits(1120).to_bytes(140, 'little')
    if kind == 'Q6_K':
        return rng.getrandbits(1664).to_bytes(208, 'little') + half(2.2e-5)
    return bytes([rng.randrange(119, 122)]) + rng.getrandbits(128).to_bytes(16, 'little')


class Weights:
    """Bytes of random tensors, from pools that are made once."""

    def __init__(self):
        self.rng = random.Random(1)
        self.pools = {kind: b''.join(block(kind, self.rng) for _ in range(POOL)) for kind in TYPES if kind != 'F32'}
        self.floats = [self.rng.gauss(0, 1) for _ in range(POOL)]

    def write(self, file, name, axes, kind):
        count = 1
        for n in axes:
            count *= n
        if kind != 'F32':
            left = count // TYPES[kind][1] * TYPES[kind][2]
            while left:
                left -= file.write(self.pools[kind][:left])
            return
        file.write(struct.pack('<%df' % count, *self.of_floats(name, axes, count)))

    def of_floats(self, name, axes, count):
        if name == 'rope_freqs.weight':  # Gemma 4: a quarter of the pairs turns
            return [1.0 if i < count // 4 else 1e30 for i in range(count)]
        if 'norm' in name or 'scale' in name:
            return [1.0] * count
        if name.endswith('ssm_a'):  # a state that decays
            return [-1.0] * count
        size = axes[0] ** -0.5 if len(axes) > 1 and 'bias' not in name else 0.1
        start = self.rng.randrange(POOL)
        return [size * self.floats[(start + i * 3) % POOL] for i in range(count)]


def write_gguf(path, shape, mix='Q4_K_M'):
    keys = [('general.architecture', value(shape['family'])), ('general.name', value('random weights'))]
    keys += [('%s.%s' % (shape['family'], key), value(number)) for key, number in settings(shape).items()]
    keys += tokenizer(shape)
    listed, at, head = list(tensors(shape, 'Q8_0' if shape['family'] == 'gpt-oss' else mix)), 0, b''
    for name, axes, kind in listed:
        number, values, size = TYPES[kind]
        head += text(name) + struct.pack('<I%dQIQ' % len(axes), len(axes), *axes, number, at)
        for n in axes:
            values, size = values, size * n
        size //= values
        at += size + -size % 32
    weights = Weights()
    with open(path, 'wb') as file:
        file.write(b'GGUF' + struct.pack('<IQQ', 3, len(listed), len(keys)))
        file.write(b''.join(text(key) + data for key, data in keys) + head)
        for name, axes, kind in listed:
            file.write(bytes(-file.tell() % 32))
            weights.write(file, name, axes, kind)
        file.write(bytes(-file.tell() % 32))


def main():
    if not 3 <= len(sys.argv) <= 4 or sys.argv[1] not in SHAPES or sys.argv[3:] not in ([], ['Q4_K_M'], ['Q8_0']):
        sys.exit('%s\n\nSHAPE: %s' % (__doc__.strip(), ', '.join(SHAPES)))
    write_gguf(sys.argv[2], SHAPES[sys.argv[1]], *sys.argv[3:])


if __name__ == '__main__':
    main()
