#!/usr/bin/env python3
"""Configs of every family with something changed in them, and files that are damaged, through every door: the program's
jobs and the exporter. Each ends with a status of its own and a line that says why, writes no NaN, and its JSON can
be read. In make test-long there are more of them, and the program is built with the address and undefined-behavior
sanitizers."""

import json
import os
import random
import re
import struct
import sys

from common import ROOT, RUN, check, compiled, export, in_work, main, run, takes_long, write
from readings import config_of, load, rows

sys.path.insert(0, ROOT)
from export.families import FAMILIES  # noqa: E402

with open(ROOT + '/src/configs/keys.json', encoding='utf-8') as _file:
    KEYS = json.load(_file)['keys']
BESIDE = [name for key, row in KEYS.items() if 'top' in row['at'] for name in (key, *row.get('also', ()))] + [
    'use_logn_attn', 'rope_ratio', 'sliding_window', 'use_sliding_window', 'max_window_layers', 'is_causal', 'rope_base',
    'use_bidirectional_attention', 'sliding_window_size', 'layer_rope_theta', 'compress_ratios', 'per_layer_config', 'model_type',
    'architectures', 'text_config', 'dual_chunk_attention_config', 'rope_interleave', 'use_long_context']
INSIDE = [key for key, row in KEYS.items() if 'block' in row['at']]
TYPES = ['default', 'linear', 'dynamic', 'yarn', 'llama3', 'longrope', 'proportional', 'su', 'mrope', 'axial', 'ntk']
KINDS = ['full_attention', 'sliding_attention', 'hybrid', 'compress', 'main', 'chunked_attention']
LAYERS = ['full_attention', 'sliding_attention', 'linear_attention', 'conv', None, 1]
METHODS = [], ['--rope', 'yarn', '--factor', 4], ['--rope-sliding', 'linear:factor=2'], ['--rope', 'dca']
INFINITE = re.compile(r'\t0\tinf(?=\t-?$)', re.M)  # the wavelength of a pair that does not turn


def value(rng):
    odd = [*load('odd')['values'], 1e308, -0.0, 2 ** 63, '\0', 'x' * 300, [[]] * 3, {'': 1}, [None]]
    chance = rng.random()
    return block(rng) if chance < 0.1 else rng.choices(LAYERS, k=rng.randrange(9)) if chance < 0.2 else rng.choice(odd)


def block(rng):
    turns = rng.choice([3, 32, 64])
    some = {rng.choice(['type', 'rope_type']): rng.choice(TYPES), 'factor': rng.choice([1, 4.0, 0.5, None, '4']),
            'original_max_position_embeddings': rng.choice([1, 1024, 4096.0, None, 10 ** 10]),
            'rope_theta': rng.choice([1e4, 5e5, None, 0]), 'short_factor': [1.0] * turns, 'long_factor': [4.0] * turns}
    return {key: some[key] for key in some if rng.random() < 0.7}


def varied(rng):
    """A config in which one thing to four are changed."""
    name = rng.choice(list(FAMILIES))
    small = {'model_type': name, 'hidden_size': 512, 'num_attention_heads': 8, 'num_hidden_layers': rng.choice([1, 4, 8]),
             'rope_theta': 5e5, 'max_position_embeddings': 8192}
    known = [row for kind in ('meanings', 'layered', 'unknown', 'explained') for row in rows(kind) if 'text' not in row]
    config = rng.choice([small, config_of(rng.choice(known))])
    text = config
    for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
        what = rng.randrange(8)
        blocks = [text[key] for key in ('rope_scaling', 'rope_parameters') if isinstance(text.get(key), dict)]
        if what < 2:
            text[rng.choice(BESIDE)] = value(rng)
        elif what == 2:
            text[rng.choice(['rope_scaling', 'rope_parameters'])] = block(rng)
        elif what == 3:
            text['rope_parameters'] = {rng.choice(KINDS): rng.choice([block(rng), None, 1]) for _ in range(2)}
        elif what == 4 and blocks:
            rng.choice(blocks)[rng.choice(INSIDE)] = value(rng)
        elif what == 5 and text:
            text.pop(rng.choice(list(text)))
        elif what == 6:
            config = {'model_type': rng.choice(['gemma3', 'mistral3', 'seen', None]), rng.choice(['text_config', 'inner']): config}
            text = config
        else:
            text['layer_types'] = rng.choices(LAYERS, k=rng.randrange(9))
    return json.dumps(config).encode()


def damaged(rng):
    text = bytearray(varied(rng))
    start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    what = rng.randrange(6)
    if what == 0:
        return bytes(text[:start])
    if what == 1:
        return bytes(text[:start] + text[end:])
    if what == 2:
        return bytes(text[:start] + text[start:end] * 3 + text[start:])
    if what == 3:
        return rng.choice([b'[' * 5000, b'{"a":' * 2000, bytes(text).decode().encode('utf-16'), b'', b'null', b'"x"',
                           b'{"rope_theta": ' + b'9' * 400 + b'}', b'{"rope_scaling": {"factor": 1e999999}}'])
    for _ in range(rng.randrange(1, 6)):
        text[rng.randrange(len(text))] = rng.choice([0, 34, 44, 58, 91, 92, 93, 123, 125, 0xc3, 255])
    return bytes(text)


def ask(program, text, *arguments):
    done = run(*arguments, program=program)
    what = '%s of %r' % (' '.join(map(str, arguments)), text[:700])
    check(done.status in (0, 1, 2, 3) and 'Sanitizer' not in done.err and 'runtime error' not in done.err, what, done)
    check(not re.search(r'(?i)\b(nan|inf)\b', INFINITE.sub('', done.out)), 'numbers: ' + what, done.out[-400:])
    refused = [line for line in done.err.splitlines() if line.startswith('run: ') and not line.startswith('run: warning')
               and ': not used, since' not in line]
    check(len(refused) == (done.status == 2), 'one line: ' + what, done)
    return done


def hold(program, rng, make):
    """Whether the config was taken."""
    text, n = make(rng), rng.choice([1, 100, 131072])
    path = write(in_work('folder/config.json'), text)
    explained = ask(program, text, '--explain', '--tsv', '--rope-config', path, '-n', n)
    for arguments in ('--fields',), ('--engines', '--json', '-n', n):
        done = ask(program, text, *arguments, '--rope-config', path)
        check(not done.out or isinstance(json.loads(done.out), dict), 'JSON', done.out[-300:])
    checked = ask(program, text, '--check', '--settings', '--rope-config', path, '-n', n)
    check((checked.status == 2) == (explained.status == 2), 'both take it: %r' % text[:700], (explained, checked))
    written = ask(program, text, '--rope-json', *rng.choice(METHODS), '--rope-config', path)
    check(written.status or json.loads(written.out.splitlines()[-1]), 'a block', written.out[-300:])
    write(in_work('folder/model.safetensors'), struct.pack('<Q', 2) + b'{}')
    done = export(in_work('folder'), in_work('out.bin'))
    check(done.returncode in (0, 2) and 'Traceback' not in done.stderr, 'the exporter: %r' % text[:700], done.stderr[-900:])
    return explained.status == 0


def hold_some(program, seed, n_varied, n_damaged):
    os.makedirs(in_work('folder'), exist_ok=True)
    rng = random.Random(seed)
    taken = sum(hold(program, rng, varied) for _ in range(n_varied))
    check(taken > n_varied / 5, 'many are taken', taken)
    for _ in range(n_damaged):
        hold(program, rng, damaged)


def test_some():
    hold_some(RUN, 5, 30, 10)


@takes_long
def test_many():
    hold_some(compiled('run.c', 'sanitized-fast') or RUN, 6, 300, 100)


if __name__ == '__main__':
    main(globals())
