#!/usr/bin/env python3
"""Writes a GGUF file of a model with experts and random weights, for timing and for large files: its numbers stay
finite and its router is balanced, but it means nothing.

    tools/random_experts.py SHAPE OUT.gguf

SHAPE is qwen3moe-1.5B (16 layers, 32 experts of which a token takes 4; Q4_K with Q6_K as in Q4_K_M), gpt-oss-2B (8
layers of half the width; MXFP4 with Q8_0) or gpt-oss-20b (that of the published model, 12 GB).
"""
import random
import struct
import sys

QWEN = dict(family='qwen3moe', layers=16, dim=1024, hidden=768, heads=16, kv_heads=4, head_dim=128, experts=32, used=4,
            vocab=96000, context=32768, theta=1e6, pre='qwen2')
GPT_OSS = dict(family='gpt-oss', layers=24, dim=2880, hidden=2880, heads=64, kv_heads=8, head_dim=64, experts=32,
               used=4, vocab=201088, context=131072, theta=150000.0, pre='gpt-4o', window=128)
SHAPES = {'qwen3moe-1.5B': QWEN, 'gpt-oss-20b': GPT_OSS,
          'gpt-oss-2B': dict(GPT_OSS, layers=8, dim=1440, hidden=1440, heads=32, kv_heads=4)}
HARMONY = ['<|startoftext|>', '<|endoftext|>', '<|reserved_200000|>', '<|reserved_200001|>', '<|return|>',
           '<|constrain|>', '<|reserved_200004|>', '<|channel|>', '<|start|>', '<|end|>', '<|message|>']
CHATML = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
TYPES = {'F32': (0, 1, 4), 'Q8_0': (8, 32, 34), 'Q4_K': (12, 256, 144), 'Q6_K': (14, 256, 210), 'MXFP4': (39, 32, 17)}
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
POOL = 4096  # blocks that are made; larger tensors repeat them


def tensors(shape):
    """(name, axes with the innermost first, type)"""
    qwen, dim, hidden = shape['family'] == 'qwen3moe', shape['dim'], shape['hidden']
    q, kv, n = shape['heads'] * shape['head_dim'], shape['kv_heads'] * shape['head_dim'], shape['experts']
    usual, more, wide = ('Q4_K', 'Q6_K', 'Q4_K') if qwen else ('Q8_0', 'Q8_0', 'MXFP4')
    yield 'token_embd.weight', [dim, shape['vocab']], usual
    for i in range(shape['layers']):
        parts = [('attn_norm.weight', [dim], 'F32'), ('attn_q.weight', [dim, q], usual),
                 ('attn_k.weight', [dim, kv], usual), ('attn_v.weight', [dim, kv], more),
                 ('attn_output.weight', [q, dim], usual), ('ffn_gate_inp.weight', [dim, n], 'F32'),
                 ('ffn_gate_exps.weight', [dim, hidden, n], wide), ('ffn_up_exps.weight', [dim, hidden, n], wide),
                 ('ffn_down_exps.weight', [hidden, dim, n], more if qwen and has_more_bits(i, shape['layers'])
                  else wide)]
        if qwen:
            parts += [('ffn_norm.weight', [dim], 'F32'), ('attn_q_norm.weight', [shape['head_dim']], 'F32'),
                      ('attn_k_norm.weight', [shape['head_dim']], 'F32')]
        else:
            parts += [('post_attention_norm.weight', [dim], 'F32'), ('attn_sinks.weight', [shape['heads']], 'F32'),
                      ('attn_q.bias', [q], 'F32'), ('attn_k.bias', [kv], 'F32'), ('attn_v.bias', [kv], 'F32'),
                      ('attn_output.bias', [dim], 'F32'), ('ffn_gate_inp.bias', [n], 'F32'),
                      ('ffn_gate_exps.bias', [hidden, n], 'F32'), ('ffn_up_exps.bias', [hidden, n], 'F32'),
                      ('ffn_down_exps.bias', [dim, n], 'F32')]
        for name, axes, kind in parts:
            yield 'blk.%d.%s' % (i, name), axes, kind
    yield 'output_norm.weight', [dim], 'F32'
    yield 'output.weight', [dim, shape['vocab']], more


def has_more_bits(layer, n):
    """Which layers' down projections llama.cpp's Q4_K_M has in Q6_K."""
    return layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2


def settings(shape):
    """(key, its value as bytes)"""
    family = shape['family'] + '.'
    numbers = {
        'block_count': shape['layers'], 'context_length': shape['context'], 'embedding_length': shape['dim'],
        'feed_forward_length': shape['hidden'], 'attention.head_count': shape['heads'],
        'attention.head_count_kv': shape['kv_heads'], 'attention.key_length': shape['head_dim'],
        'attention.value_length': shape['head_dim'], 'expert_count': shape['experts'],
        'expert_used_count': shape['used'], 'expert_feed_forward_length': shape['hidden'],
        'attention.layer_norm_rms_epsilon': 1e-5, 'rope.freq_base': shape['theta'],
        'rope.dimension_count': shape['head_dim'], 'vocab_size': shape['vocab']}
    yield 'general.architecture', value(shape['family'])
    yield 'general.name', value('random weights')
    if 'window' in shape:
        numbers.update({'attention.sliding_window': shape['window'], 'rope.scaling.factor': 32.0,
                        'rope.scaling.original_context_length': 4096})
        yield family + 'rope.scaling.type', value('yarn')
    for key, number in numbers.items():
        yield family + key, value(number)
    yield from tokenizer(shape)


def tokenizer(shape):
    """Every byte a token, every two small letters one, then words that no text has, and the special tokens."""
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
    yield 'tokenizer.ggml.add_bos_token', struct.pack('<I?', 7, False)


# ---- the file ----

def text(string):
    data = string.encode()
    return struct.pack('<Q', len(data)) + data


def value(this):
    if isinstance(this, str):
        return struct.pack('<I', STRING) + text(this)
    return struct.pack('<If', F32, this) if isinstance(this, float) else struct.pack('<II', U32, this)


def array(kind, items):
    return struct.pack('<IIQ', ARRAY, kind, len(items)) + b''.join(items)


def block(kind, rng):
    """A block whose weights are around 0, and 0.03 large."""
    def half(x):
        return struct.pack('<e', x * rng.uniform(0.7, 1.3))
    if kind == 'Q8_0':
        return half(4e-4) + rng.getrandbits(256).to_bytes(32, 'little')
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
        size = 0.0 if 'norm' in name else axes[0] ** -0.5 if len(axes) > 1 and 'bias' not in name else 0.1
        start = self.rng.randrange(POOL)
        numbers = [size * self.floats[(start + i * 3) % POOL] + (not size) for i in range(count)]
        file.write(struct.pack('<%df' % count, *numbers))


def write_gguf(path, shape):
    keys, listed, at, head = list(settings(shape)), list(tensors(shape)), 0, b''
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
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__.strip())
    write_gguf(sys.argv[2], SHAPES[sys.argv[1]])


if __name__ == '__main__':
    main()
