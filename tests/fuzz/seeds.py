#!/usr/bin/env python3
"""The fuzzers' seeds: a few small inputs of every kind for each target, and what was found
before (regressions/TARGET-NAME).

    python3 tests/fuzz/seeds.py FOLDER     writes them to FOLDER/TARGET/NAME
"""

import glob
import json
import os
import random
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import blocks
from common import WORK, config, in_work, random_weights, read, write, write_tokenizer
from readings import config_of, rows
from test_hostile import SMALL, data_of, models
from test_legacy import write_legacy

ENGINES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'engines')
PARTS_OF = 'llama', 'phi3', 'family'  # whose rows change the part of a config that RoPE has
REGRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'regressions')
TEXTS = ['', 'a', ' the  theme \n\n\n of aaaaaaa 1111 [u]a[ua[u] \u2581 \u00e9\U0001F600 ',
         "it's They'RE 12345 \t\r\n  end  ", '<s><0x41></s> 1 2,3\n456',
         '[u]  e\u0301a\u0323\u0301 \xe9\u0301 \uac00\u11a8[u]',
         b'\xff\xc3 \xe2\x96 \xf0\x9f\x98 \0 a\xc3[\xc3\xa9', 'the the ' * 20]
DELTA = dict(state_kind=1, conv_width=4, state_key_heads=2, state_value_heads=4, state_key_dim=4, state_value_dim=6)
STATES = {'states': DELTA, 'states-in-tiles': dict(DELTA, state_tiled=1, attention_gate=1, qk_norm=1),
          'convolutions': dict(state_kind=2, conv_width=3, state_bias=1)}
COMMANDS = ['m.bin -n 2048 --rope yarn -t 0.8 -i text',
            'm.bin --ppl f -n 1024 --rope none,yarn:factor=4,8,16:ramp=turns,dynamic --samples 3 --ids',
            'm.bin --passkey --rope all --trials 3 --min-accuracy=0.5 -s 7',
            '--explain --head-dim 64 --theta 1e4 --train-ctx=512 -n 0 --plot', 'm.bin --quantize q4 out.bin',
            'm.bin --rope-json --rope llama3 --low-freq-factor 1 --high-freq-factor 4 --factor 8',
            'm.bin -m chat -y s --kv q8 --window 64 --sinks 4 --ignore-eos -z z',
            'm.bin --rope dynamic-ntk-by-parts --beta-fast 32 --beta-slow 1 --ramp dims',
            'm.bin --rope longrope --attention-factor 1.2 -p 0.9 -f - --threads 2',
            'm.bin --ppl f --rope window,linear:window=5:sinks=2 --per-token', '--help',
            'm.bin --ppl f --rope rerope:near=256,leaky-rerope:k=2.5:near=9,self-extend:group=8:near=100,dca:chunk=384',
            'm.bin --rope yarn+dca --factor 4 --chunk 30 --logn', 'm.bin --rope cope+string:clip=3:near=9:local=2',
            'm.bin --rope none:temperature-floor=100', 'm.bin --rope dynamic-ntk+self-extend --near 5',
            'm.bin --passkey --rope streaming:sinks=4:window=508,lm-infinite,longrope+rerope:logn=1',
            'm.bin --explain --rope leaky-rerope --k 3 --group 7 -n 100000',
            '--explain --rope-config f --head-dim 8', 'm.bin --search f']
# A name that has just no room, one that has just enough, and a method more than a list may have.
COMMANDS += ['m.bin --ppl f --rope yarn:factor=' + '0' * n + '2' + ':ramp=dims' * 11 for n in range(34, 39)]
COMMANDS += ['m.bin --ppl f --rope ' + 'none,' * n + 'none' for n in (255, 256)]


def tokenizers():
    """Name and bytes; the first number is the size of the vocabulary, which is not in the file otherwise."""
    pieces = [' ', 'a', ' a', 'aa', 'the', ' th\u00e9', '  ']
    n = write_tokenizer(in_work('seed'), pieces)
    plain = struct.pack('<i', n) + read(in_work('seed'))[4:]
    yield 'llama2c', plain
    for cut in range(1, 12):
        yield 'cut-%d' % cut, plain[:-cut]
    n = write_tokenizer(in_work('seed'), ['a', 'b a'])  # a space without a token, and no place to cut a text at
    yield 'no-space', struct.pack('<i', n) + read(in_work('seed'))[4:]
    types = bytes([2, 3, 3] + [6] * 256 + [1, 1, 1, 1, 4, 1, 5])
    for flags in 3, 18, 7, 0:
        yield 'sentencepiece-%d' % flags, plain + struct.pack('<3I2iIi', 0x31544b54, 0, flags, 1, 0, 1, 2) + types
    tokens = [b'<s>', b'<|start_header_id|>'] + [bytes([b]) for b in range(256)] + [b'aa', b'aaa', b'[u]']
    merges = struct.pack('<6i', 2 + 97, 2 + 97, 258, 258, 2 + 97, 259)
    vocabulary = struct.pack('<i', len(tokens)) + b''.join(struct.pack('<fi', 0, len(token)) + token
                                                           for token in tokens)
    rules = struct.pack('<15i', 0xe9, -1, 0x65, 0xe9, -2, 0x301, 0x301, -5, 230, 0x65, 0x301, 0xe9, 0x323, -5, 220)
    for split, flags in (1, 8), (2, 1), (3, 0), (4, 96), (1, 32):
        trailer = struct.pack('<3I2i2I', 0x31544b54, 1, flags, 0, -1, 1, split) + struct.pack('<I', 2)
        trailer += struct.pack('<I', 5) * (flags >= 64) + struct.pack('<i', 0) + bytes([3, 3 + 16] + [1] * 258 + [20])
        trailer += merges + rules * (flags >= 64)
        yield 'bytelevel-%d-%d' % (split, flags), vocabulary + trailer


def seeds():
    """Target, name, bytes."""
    for i, (name, c, data) in enumerate(models()):
        # The last byte is padding: it chooses cache and window.
        yield 'model', name.replace(' ', '-'), data[:-1] + bytes([37 * i & 255])
    for i, (name, fields) in enumerate(STATES.items()):
        data = data_of(config(**dict(SMALL, n_layers=2, layers=[64, 0], **fields)))
        yield 'model', name, data[:-1] + bytes([41 * i & 255])
    for version in 0, 1, 2:
        c = config(**dict(SMALL, dim=8, hidden_dim=4, n_heads=2, n_kv_heads=1, shared_classifier=version & 1))
        write_legacy(in_work('seed'), c, random_weights(c, 4), version, 8)
        yield 'model', 'llama2c-%d' % version, read(in_work('seed'))
    for name, data in tokenizers():
        yield 'tokenizer', name, data
    for i, text in enumerate(TEXTS):
        for kind in range(7):  # either kind, with different flags and patterns
            said = text if isinstance(text, bytes) else text.encode()
            yield 'text', '%d-%d' % (i, kind), bytes([(4, 7, 37, 17, 70, 193, 211)[kind], 5 * i + kind & 255]) + said
    for i, command in enumerate(COMMANDS):
        yield 'options', str(i), command.replace(' ', '\n').encode()
    parts = [row.get('with', {}) for row in rows('meanings') + rows('refused') if row.get('of') in PARTS_OF]
    for i, values in enumerate(parts):
        yield 'config', str(i), b'# x\n' * (i % 3) + json.dumps(values, indent=i % 2 or None).encode()
    for i, row in enumerate(rows('explained')):
        for target in 'config', 'engines', 'json':
            yield target, 'explained-%d' % i, json.dumps(config_of(row)).encode()
    for target in 'config', 'json':
        yield target, 'copied', b'"hidden_size": 64, ..., "rope_scaling": {"type": "linear", "factor": 2, ... },\n...,'
        yield target, 'escapes', b'{"x": "\\u00e9\\n\\\\u", "y": [NaN, -Infinity, [], {}, 1e-3, null], "type": "su"}'
    yield 'config', 'lists', json.dumps({'rope_type': 'longrope', 'short_factor': [1.5] * 8, 'long_factor': [1.5] * 8,
                                         'unscaled_positions': 4, 'attention_factor': 1.2}).encode()
    for path in sorted(glob.glob(os.path.join(ENGINES + '*', '*.json'))):
        for row in json.loads(read(path)):
            text = json.dumps(row['config']).encode()
            name = row.get('name') or row.get('key') or row['tracker']
            yield 'engines', name, text
            yield 'config', name, text
    for i, values in enumerate(parts):
        whole = dict({'model_type': 'phi3' if i % 5 == 0 else 'qwen2', 'head_dim': 8}, **values)
        yield 'engines', str(i), json.dumps(whole).encode()
    for kind, (values, _, _) in blocks.HALVES.items():
        for count in 1, 9, 17:  # of a row of 32 values and more
            columns = (count * 32 + values - 1) // values * values
            row = blocks.random_rows(kind, 1, columns, random.Random(kind))
            yield 'blocks', '%s-%d' % (kind, count), bytes([blocks.NUMBERS[kind] - 5, 37 * count & 255]) + row
    line = {'task': 'passkey', 'length': 512, 'depth': 0.25, 'answers': ['48213'], 'said': ' Sure: 48,213'}
    for i, change in enumerate(({}, {'said': None}, {'messages': [], 'said': '<think>4</think> it is 4\u202f8 2-1 3.'},
                                {'answers': ['river'], 'said': 'The River\0\U0001F600"\\'}, {'task': 'x' * 64},
                                {'answers': ['A', 'B'], 'depth': 1}, {'depth': 2}, {'length': 1.5}, {'said': 1})):
        yield 'answers', str(i), b'\r\n'.join([json.dumps(line).encode(), b'', json.dumps(dict(line, **change)).encode()])
    for name in sorted(os.listdir(REGRESSIONS)):
        yield name.split('-')[0], name, read(os.path.join(REGRESSIONS, name))


def write_seeds(folder):
    for target, name, data in seeds():
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        write(os.path.join(folder, target, name), data)


if __name__ == '__main__':
    try:
        write_seeds(sys.argv[1])
    finally:
        shutil.rmtree(WORK)
