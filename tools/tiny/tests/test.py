#!/usr/bin/env python3
"""The tiny program beside a Llama in plain Python, and beside the numbers that the whole rope.c found
(expected.json)."""

import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RUN = os.path.join(ROOT, 'run')
WORK = tempfile.mkdtemp()
count = {True: 0, False: 0}


def check(good, what, *found):
    count[bool(good)] += 1
    if not good:
        print('FAIL', what, *found)


def run(*words):
    done = subprocess.run([RUN, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    return done.returncode, done.stdout.decode(errors='replace'), done.stderr.decode(errors='replace')


def rows_of(out):
    lines = [line.split('\t') for line in out.splitlines() if line and line[0] != '#']
    return [dict(zip(lines[0], line)) for line in lines[1:]]


# ---- a Llama in plain Python ----

D, HIDDEN, LAYERS, HEADS, KV, SIZE, TRAINED = 24, 40, 2, 3, 1, 8, 16
LETTERS = 'abcdefghijklmnopqrstuvwxyz'
VOCAB = 3 + 1 + len(LETTERS)


def frequencies(rope, factor):
    """Radians per position of each pair, and the attention factor, by the papers."""
    plain = [10000.0 ** (-2 * i / SIZE) for i in range(SIZE // 2)]
    if rope == 'linear':
        return [f / factor for f in plain], 1
    if rope == 'ntk':
        base = 10000.0 * factor ** (SIZE / (SIZE - 2))
        return [base ** (-2 * i / SIZE) for i in range(SIZE // 2)], 1
    if rope == 'llama3':
        def mixed(f):
            turns = TRAINED * f / (2 * math.pi)
            t = min(max((turns - 1) / (4 - 1), 0), 1)
            return (1 - t) * f / factor + t * f
        return [mixed(f) for f in plain], 1
    if rope == 'yarn':
        def pair(turns):
            return SIZE * math.log(TRAINED / (2 * math.pi * turns)) / (2 * math.log(10000.0))
        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), SIZE - 1)
        high += 0.001 * (low == high)
        keep = [1 - min(max((i - low) / (high - low), 0), 1) for i in range(SIZE // 2)]
        return [f / factor * (1 - g) + f * g for f, g in zip(plain, keep)], 0.1 * math.log(factor) + 1
    return plain, 1


def times(matrix, x):
    return [sum(a * b for a, b in zip(row, x)) for row in matrix]


def normed(x, weight):
    scale = 1 / math.sqrt(sum(a * a for a in x) / len(x) + 1e-5)
    return [a * scale * w for a, w in zip(x, weight)]


def turned(head, position, freqs, a):
    """The pairs of a head in Hugging Face's files: element i turns with i + d/2."""
    half, out = len(head) // 2, list(head)
    for i, f in enumerate(freqs):
        c, s = a * math.cos(position * f), a * math.sin(position * f)
        out[i], out[i + half] = head[i] * c - head[i + half] * s, head[i] * s + head[i + half] * c
    return out


def nll_of(w, ids, rope, factor):
    freqs, a = frequencies(rope, factor)
    cache, nll = [([], []) for _ in range(LAYERS)], []
    for position, token in enumerate(ids[:-1]):
        x = list(w['model.embed_tokens.weight'][token])
        for layer in range(LAYERS):
            at = 'model.layers.%d.' % layer
            n = normed(x, w[at + 'input_layernorm.weight'][0])
            q, k, v = (times(w[at + 'self_attn.%s_proj.weight' % name], n) for name in 'qkv')
            keys, values = cache[layer]
            keys.append(turned(k, position, freqs, a))
            values.append(v)
            mixed = []
            for h in range(HEADS):
                query = turned(q[h * SIZE:(h + 1) * SIZE], position, freqs, a)
                scores = [sum(p * r for p, r in zip(query, key)) / math.sqrt(SIZE) for key in keys]
                weights = [math.exp(s - max(scores)) for s in scores]
                mixed += [sum(p * value[e] for p, value in zip(weights, values)) / sum(weights) for e in range(SIZE)]
            x = [p + r for p, r in zip(x, times(w[at + 'self_attn.o_proj.weight'], mixed))]
            n = normed(x, w[at + 'post_attention_layernorm.weight'][0])
            gate, up = (times(w[at + 'mlp.%s_proj.weight' % name], n) for name in ('gate', 'up'))
            x = [p + r for p, r in zip(x, times(w[at + 'mlp.down_proj.weight'],
                                                [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]))]
        logits = times(w['lm_head.weight'], normed(x, w['model.norm.weight'][0]))
        nll.append(math.log(sum(map(math.exp, logits))) - logits[ids[position + 1]])
    return nll


def float_of(kind, x):
    """The number as rounded to the file's type."""
    if kind == 'F16':
        return struct.unpack('<e', struct.pack('<e', x))[0]
    data = struct.pack('<f', x)
    return struct.unpack('<f', data if kind == 'F32' else b'\0\0' + data[2:])[0]


def make_folder(name, kind, scaling=None):
    """A random Llama as Hugging Face publishes one. The folder, and its weights."""
    rand, folder = random.Random(7), os.path.join(WORK, name)
    shapes = {'model.embed_tokens.weight': (VOCAB, D), 'model.norm.weight': (1, D), 'lm_head.weight': (VOCAB, D)}
    for layer in range(LAYERS):
        at = 'model.layers.%d.' % layer
        shapes.update({at + 'input_layernorm.weight': (1, D), at + 'post_attention_layernorm.weight': (1, D),
                       at + 'self_attn.q_proj.weight': (HEADS * SIZE, D),
                       at + 'self_attn.k_proj.weight': (KV * SIZE, D), at + 'self_attn.v_proj.weight': (KV * SIZE, D),
                       at + 'self_attn.o_proj.weight': (D, HEADS * SIZE),
                       at + 'mlp.gate_proj.weight': (HIDDEN, D), at + 'mlp.up_proj.weight': (HIDDEN, D),
                       at + 'mlp.down_proj.weight': (D, HIDDEN)})
    weights, about, data = {}, {}, b''
    for tensor, (rows, cols) in shapes.items():
        weights[tensor] = [[float_of(kind, rand.gauss(1 if 'norm' in tensor else 0, 0.25)) for _ in range(cols)]
                           for _ in range(rows)]
        numbers = [x for row in weights[tensor] for x in row]
        packed = struct.pack('<%d%s' % (len(numbers), 'e' if kind == 'F16' else 'f'), *numbers)
        if kind == 'BF16':
            packed = b''.join(packed[i + 2:i + 4] for i in range(0, len(packed), 4))
        about[tensor] = dict(dtype=kind, shape=[cols] if 'norm' in tensor else [rows, cols],
                             data_offsets=[len(data), len(data) + len(packed)])
        data += packed
    os.makedirs(folder)
    text = json.dumps(about).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump(dict(model_type='llama', hidden_size=D, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
                       num_attention_heads=HEADS, num_key_value_heads=KV, vocab_size=VOCAB, rms_norm_eps=1e-5,
                       max_position_embeddings=TRAINED, rope_scaling=scaling), file)
    with open(os.path.join(folder, 'tokenizer.model'), 'wb') as file:
        file.write(sentencepiece())
    return folder, weights


def sentencepiece():
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data
    pieces = [('<unk>', 2), ('<s>', 3), ('</s>', 3), ('\u2581', 1)] + [(letter, 1) for letter in LETTERS]
    out = b''.join(field(1, field(1, text.encode()) + struct.pack('<Bf', 2 << 3 | 5, -float(i)) + bytes([3 << 3, kind]))
                   for i, (text, kind) in enumerate(pieces))
    return out + field(2, bytes([3 << 3, 2])) + field(3, bytes([3 << 3, 1]))


def export(*words):
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stderr.decode()


def test_reference():
    """Folders of three types through the exporter, and methods past the trained length."""
    text = ''.join(LETTERS[i * i % 23] for i in range(80))
    with open(os.path.join(WORK, 'text.txt'), 'w') as file:
        file.write(text)
    n = 64
    ids = ([1, 3] + [4 + LETTERS.index(letter) for letter in text])[:n]
    for kind in 'F32', 'F16', 'BF16':
        folder, weights = make_folder(kind, kind)
        out = os.path.join(WORK, kind + '.d', 'model.bin')
        os.makedirs(os.path.dirname(out))
        status, err = export(folder, out)
        check(status == 0, 'the exporter takes ' + kind, err)
        for rope in ('none', 'linear', 'ntk', 'yarn', 'llama3') if kind == 'F32' else ('yarn',):
            expected = sum(nll_of(weights, ids, rope, n / TRAINED)) / (n - 1)
            status, printed, err = run(out, '-n', n, '--rope', rope, '--ppl', os.path.join(WORK, 'text.txt'))
            found = float(rows_of(printed)[-1]['nll']) if status == 0 else math.nan
            check(abs(found - expected) < 2e-5, '%s, %s: the nll of %d tokens' % (kind, rope, n), found, expected, err)
    scaling = dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16)
    folder, weights = make_folder('scaled', 'F32', scaling)
    out = os.path.join(WORK, 'F32.d', 'scaled.bin')
    check(export(folder, out)[0] == 0, 'a config with a rope_scaling')
    expected = sum(nll_of(weights, ids, 'yarn', 4)) / (n - 1)
    found = float(rows_of(run(out, '-n', n, '--ppl', os.path.join(WORK, 'text.txt'))[1])[-1]['nll'])
    check(abs(found - expected) < 2e-5, 'the model\'s own settings', found, expected)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump(dict(model_type='gemma'), file)
    status, err = export(folder, out)
    check(status == 2 and 'expected llama' in err and err.count('\n') == 1, 'another family is refused', err)


def test_llama2c():
    """A file of llama2.c's is exported first."""
    rand = random.Random(3)
    dim, hidden, layers, heads, kv, vocab, length = 16, 24, 2, 2, 1, 300, 64
    n = vocab * dim + layers * dim + layers * (2 * dim * dim + 2 * dim * dim // 2) + layers * dim
    n += 3 * layers * dim * hidden + dim + length * dim // heads
    path = os.path.join(WORK, 'old', 'old.bin')
    os.makedirs(os.path.dirname(path))
    with open(path, 'wb') as file:
        file.write(struct.pack('<7i', dim, hidden, layers, heads, kv, vocab, length))
        file.write(struct.pack('<%df' % n, *(rand.gauss(0, 0.4) for _ in range(n))))
    with open(os.path.join(WORK, 'old', 'tokenizer.bin'), 'wb') as file:
        file.write(struct.pack('<i', 8))
        for i in range(vocab):
            token = ('<unk>', '<s>', '</s>')[i] if i < 3 else '<0x%02X>' % (i - 3) if i < 259 else 'w%d' % i
            file.write(struct.pack('<fi', -i, len(token)) + token.encode())
    status, _, err = run(path, '-n', 5)
    check(status == 2 and 'model_export.py' in err, 'the program names the exporter', err)
    check(export(path, path[:-4] + '-new.bin')[0] == 0, 'the exporter takes llama2.c\'s file')
    status, text, err = run(path[:-4] + '-new.bin', '-n', 40, '-s', 5, '-i', 'hello')
    check(status == 0 and 'hello' in text and len(text) > 12, 'it writes', text, err)


# ---- model.bin ----

def test_expected():
    """What the whole rope.c printed for the same command."""
    with open(os.path.join(HERE, 'expected.json')) as file:
        expected = json.load(file)
    check(len(expected) > 3, 'commands', len(expected))
    for command, out in expected.items():
        status, printed, err = run(*command.split())
        check(status == 0, command, err)
        found, wanted = printed.split(), out.split()
        alike = len(found) == len(wanted) and all(
            a == b or ('.' in b and abs(float(a) - float(b)) <= 1e-5 * max(1, abs(float(b))))
            for a, b in zip(found, wanted))
        check(alike, command, printed, out)


def test_words():
    cut = os.path.join(WORK, 'cut.bin')
    with open(os.path.join(ROOT, 'model.bin'), 'rb') as file, open(cut, 'wb') as out:
        out.write(file.read()[:-1])
    for words, said in ((['nowhere.bin'], 'cannot open'), ([cut], 'truncated'),
                        (['model.bin', '--rope', 'yran'], "'yran'"), (['model.bin', '-n'], 'needs a value'),
                        (['model.bin', '--rope', 'yarn:nope=3'], 'temperature-floor'),
                        (['model.bin', '--ppl', 'nowhere'], 'cannot open'), (['model.bin', '-x', '1'], 'no option')):
        status, out, err = run(*words)
        check(status == 2 and said in err and err.count('\n') == 1 and not out, ' '.join(words), status, err)


def main():
    try:
        for name, test in list(globals().items()):
            if name.startswith('test_'):
                test()
    finally:
        shutil.rmtree(WORK)
    print('%d passed, %d failed' % (count[True], count[False]))
    return count[False] > 0


if __name__ == '__main__':
    sys.exit(main())
