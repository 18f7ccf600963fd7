#!/usr/bin/env python3
"""Do two builds of the program say the same, byte for byte? For changes that must not change anything: seeds, methods,
maps, measurements, caches, weight types, file versions, encodings and errors, over some 380 command lines.

    python3 tools/measure/same_output.py OLD_BINARY NEW_BINARY [WORD ...]     words: only command lines with all of them

Prints each command line whose standard output, standard error (but for times and memory), exit status or written file
differs, then `N the same, N differ`; exit status 1 when one differs. Both must be built with the same flags, since
other instructions round otherwise.
"""
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
sys.dont_write_bytecode = True

import common  # noqa: E402
import test_legacy  # noqa: E402

MODEL = 'model.bin'
METHODS = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'dynamic', 'dynamic-linear', 'dynamic-yarn',
           'dynamic-ntk-by-parts', 'dynamic-llama3', 'yarn:ramp=turns', 'yarn:factor=3:attention-factor=1.1', 'window',
           'linear:theta=20000', 'cope', 'none:temperature-floor=600', 'ntk:logn=1', 'none:window=300:sinks=3']
MAPS = ['rerope', 'leaky-rerope', 'self-extend', 'dca', 'streaming', 'lm-infinite', 'string', 'yarn+dca',
        'ntk+rerope:near=100',
        'dynamic+self-extend', 'dynamic-yarn+leaky-rerope', 'dynamic+dca:chunk=100', 'self-extend:near=70:group=9',
        'leaky-rerope:k=2.5', 'linear+lm-infinite:window=200', 'streaming:sinks=0:window=77', 'dca:chunk=37']
LONG = {'rope_type': 'longrope', 'short_factor': [1.0] * 32, 'long_factor': [1 + i / 4 for i in range(32)],
        'original_max_position_embeddings': 512, 'factor': 4.0}
BLOCKS = {'linear': {'rope_type': 'linear', 'factor': 4.0}, 'longrope': LONG,
          'unscaled': dict(LONG, short_factor=LONG['long_factor'], unscaled_positions=100),
          'mscale': {'rope_type': 'yarn', 'factor': 8.0, 'mscale': 1.0, 'mscale_all_dim': 0.7,
                     'original_max_position_embeddings': 512, 'truncate': False},
          'unknown': {'rope_type': 'nope', 'factor': 4.0}}
TIMES = [(r'\d+(\.\d+)? (s|ms|MB|GB)\b', '# '), (r'\d+(\.\d+)? tokens', '# tokens'), (r'\(\d+(\.\d+)?/s\)', '(#)'),
         (r'seed \d{7,}', 'seed #'), (r'\.tmp\.\d+', '.tmp.#')]


def saved(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, 'w' if isinstance(data, str) else 'wb') as file:
        file.write(data)
    return path


def text_of(folder):
    """A text of some 30,000 bytes that is not the same everywhere."""
    with open(os.path.join(ROOT, 'docs', 'lesson.md'), encoding='utf-8') as file:
        return saved(folder, 'text.txt', re.sub(r'[^A-Za-z .,\n]', '', file.read())[:30000])


def tiny(folder, name, seed=3, **changes):
    c = common.config(**dict(dict(seq_len=200, train_ctx=40, dim=48, n_heads=6, n_kv_heads=2), **changes))
    path = os.path.join(folder, name)
    common.write_model(path, c, common.random_weights(c, seed))
    return path


def tiny_models(folder):
    """Families and shapes that no shipped model has."""
    factors = dict(short_factors=[1.0] * 4, long_factors=[1.0, 2.0, 3.0, 5.0], factor=4.0)
    yield tiny(folder, 'plain.bin')
    yield tiny(folder, 'odd.bin', head_dim=10, n_heads=5, n_kv_heads=5)
    yield tiny(folder, 'wide.bin', head_dim=32, n_heads=2, n_kv_heads=1)
    yield tiny(folder, 'partial.bin', rotary_dim=4, head_dim=12)
    yield tiny(folder, 'qwen.bin', qkv_bias=1, qk_norm=1, sliding_window=20, o_bias=1)
    yield tiny(folder, 'layers.bin', layers=[1, 2, 3, 0], n_layers=4, sliding_window=25)
    yield tiny(folder, 'longrope.bin', method='longrope', **factors)
    yield tiny(folder, 'unscaled.bin', method='longrope', unscaled_positions=7,
               **dict(factors, short_factors=factors['long_factors']))
    yield tiny(folder, 'f16.bin', weight_type=common.F16, shared_classifier=1)
    yield tiny(folder, 'bf16.bin', weight_type=common.BF16)


def other_models(folder):
    """Encodings, ggml's blocks and llama2.c's versions."""
    for encoding in common.ENCODINGS[1:]:
        yield tiny(folder, encoding + '.bin', encoding=encoding, logn=0,
                   encoding_rows={'learned': 200, 'shaw': 30}.get(encoding, 0))
    for name, c in common.BLOCK_MODELS.items():
        path = os.path.join(folder, name + '.bin')
        common.write_model(path, c, common.block_weights(c, common.random_weights(c, 5), 5))
        yield path
    c = common.config(dim=64, hidden_dim=88, n_heads=4, head_dim=16, seq_len=200, train_ctx=200)
    for version in (0, 1, 2):
        path = os.path.join(folder, 'version%d.bin' % version)
        test_legacy.write_legacy(path, c, common.random_weights(c, 31), version)
        yield path


def generation(folder, text):
    short = saved(folder, 'short.txt', 'Once upon a time there was a small grey cat. ' * 12)
    for seed in (1, 2, 3):
        yield MODEL, '-s', seed, '-i', 'Once upon', '-n', 120
        yield MODEL, '-s', seed, '-t', 0.7, '-k', 40, '--min-p', 0.02, '-n', 90
    yield MODEL, '-t', 0, '-n', 700, '-i', 'The cat', '--threads', 2
    yield MODEL, '-t', 0, '-f', short, '-n', 300, '--threads', 2, '--kv', 'q8'
    yield 'model-8k.bin', '-t', 0, '-f', short, '-n', 600, '--threads', 2
    yield 'model-8k.bin', '--ppl', text, '-n', 5000, '--threads', 2
    yield MODEL, '-t', 0, '-n', 100, '-i', '', '--ignore-eos', '--kv', 'f32', '--rope', 'dynamic', '--train-ctx', 50
    yield MODEL, '-m', 'chat', '-i', 'Hello', '-n', 100, '-s', 4
    for rope in ('none', 'self-extend', 'dynamic+dca', 'streaming'):
        yield MODEL, '--attn', '2.1', '-f', short, '-n', 1024, '--rope', rope, '--train-ctx', 60


def methods_and_maps(folder, text):
    for rope in METHODS + MAPS:
        yield MODEL, '--ppl', text, '-n', 1100, '--rope', rope
        yield MODEL, '-t', 0, '-s', 1, '-n', 620, '--ignore-eos', '--rope', rope, '--train-ctx', 300, '-i', 'A dog'
        yield MODEL, '--explain', '-n', 2048, '--rope', rope
        yield MODEL, '--rope-json', '-n', 2048, '--rope', rope
    for name, block in BLOCKS.items():
        path = saved(folder, name + '.json', json.dumps(block))
        for job in (('--explain',), ('--rope-json',), ('--ppl', text)):
            yield (MODEL, *job, '-n', 900, '--rope-config', path)
    for kv in ('f32', 'q8'):
        for rope in ('none', 'yarn', 'dynamic', 'yarn+dca', 'dynamic-yarn+leaky-rerope', 'streaming'):
            yield MODEL, '--ppl', text, '-n', 900, '--rope', rope, '--kv', kv, '--threads', 2
            yield MODEL, '--ppl', text, '-n', 140, '--rope', rope, '--kv', kv, '--train-ctx', 60, '--stepwise'
    for rope in ('dynamic', 'dynamic-yarn', 'dynamic+self-extend'):
        for more in ((), ('--stale-keys',), ('--per-token',)):
            yield (MODEL, '--ppl', text, '-n', 150, '--stepwise', '--rope', rope, '--train-ctx', 60, *more)
    yield '--explain', '--head-dim', 64, '--theta', 1e6, '--train-ctx', 4096, '-n', 131072, '--rope', 'yarn+dca'
    yield '--explain', '--head-dim', 64, '--theta', 1e6, '--train-ctx', 4096, '-n', 131072, '--rope', 'ntk', '--plot'


def measurements(folder, text):
    yield MODEL, '--ppl', text, '-n', 700, '--samples', 3, '--rope', 'all'
    yield MODEL, '--ppl', text, '-n', 200, '--per-token', '--window', 50, '--sinks', 2
    yield MODEL, '--tasks', 'all', '-n', 1024, '--trials', 2, '--rope', 'none,yarn'
    yield MODEL, '--passkey', '-n', 1024, '--trials', 2, '--rope', 'yarn,dca', '--kv', 'q8'
    yield MODEL, '--check', text, '-n', 700, '--budget', 600
    yield MODEL, '--check', '-n', 600, '--budget', 600, '--rope', 'dynamic-yarn', '--stale-keys'


def models(folder, text, old):
    ids = saved(folder, 'ids.txt', ' '.join(str(3 + i * 7 % 47) for i in range(200)))
    for kind in ('q8', 'q4', 'f16', 'f32'):
        out = os.path.join(folder, kind + '.bin')
        subprocess.run([old, MODEL, '--quantize', kind, out], cwd=ROOT, stdout=subprocess.DEVNULL)
        yield MODEL, '--quantize', kind, os.path.join(folder, 'OUT')
        yield out, '--ppl', text, '-n', 700, '-z', 'tokenizer.bin'
        yield out, '-t', 0, '-n', 200, '-i', 'A', '-z', 'tokenizer.bin', '--threads', 2
        yield out, '--ppl', text, '-n', 60, '--stepwise', '-z', 'tokenizer.bin'
    for name in sorted(os.listdir(os.path.join(ROOT, 'models'))):
        if name.endswith('.bin') and name != 'tokenizer.bin':
            path = os.path.join('models', name)
            yield path, '--ppl', text, '-n', 128 if name == 'learned.bin' else 600
            yield path, '-t', 0, '-i', 'Once', '-n', 100, '--threads', 2
            yield path, '--explain', '-n', 100
            yield path, '--attn', '0.1', '-i', 'Once upon a time there was a cat', '--kv', 'q8'
    for path in tiny_models(folder):
        for more in ((), ('--kv', 'f32', '--threads', 3), ('--kv', 'q8', '--stepwise')):
            yield (path, '--ppl', ids, '--ids', '--per-token', '-n', 170, *more)
        for rope in ('dynamic', 'yarn+self-extend', 'dynamic+dca', 'lm-infinite'):
            yield path, '--ppl', ids, '--ids', '--per-token', '-n', 170, '--rope', rope, '--logn'
    few = saved(folder, 'few.txt', ' '.join(str(1 + i * 5 % 8) for i in range(60)))
    for path in other_models(folder):
        ids_of_model, n = (few, 31) if 'blocks' in path else (ids, 170)
        for more in ((), ('--kv', 'f32', '--threads', 3), ('--kv', 'q8', '--stepwise')):
            yield (path, '--ppl', ids_of_model, '--ids', '--per-token', '-n', n, *more)


def errors():
    for words in (('--rope', 'nope'), ('-n', 'x'), ('--near', 0, '--rope', 'rerope'), ('--sinks', 3), ('--attn', '9.9'),
                  ('--rope', 'dca', '--chunk', 512), ('--rope', 'longrope'), ('--kv', 'f64'), ('--rope', 'dca:near=4'),
                  ('--rope', 'streaming', '--sinks', 600), ('-z', 'nope'), ('--ppl', 'nope'), ('-n', 1 << 30),
                  ('--rope', 'yarn', '--beta-fast', 1, '--beta-slow', 2), ('--quantize', 'q8', '/nope/x'), ()):
        yield (MODEL, *words, '-s', 1)
    yield os.path.join('models', 'alibi.bin'), '--rope', 'yarn', '-s', 1
    yield 'nope.bin',
    yield 'README.md', '-i', 'x'
    yield '--help', 'all'


def command_lines(folder, old):
    text = text_of(folder)
    yield from generation(folder, text)
    yield from methods_and_maps(folder, text)
    yield from measurements(folder, text)
    yield from models(folder, text, old)
    yield from errors()


def outcome(program, arguments, written):
    if os.path.exists(written):
        os.remove(written)
    environment = dict(os.environ, LC_ALL='C', OMP_WAIT_POLICY='passive')
    if '--threads' not in arguments:
        environment['OMP_NUM_THREADS'] = '1'
    done = subprocess.run([program, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment)
    told = done.stderr.decode(errors='replace')
    for pattern, mark in TIMES:
        told = re.sub(pattern, mark, told)
    out = done.stdout
    if '--check' in arguments:  # its rows about the budget hold times
        out = re.sub(rb'(?m)^.*\b\d+(\.\d+)? s\b.*$', b'# a time', out)
    file = b''
    if os.path.exists(written):
        with open(written, 'rb') as opened:
            file = opened.read()
    return done.returncode, out.decode(errors='replace'), told, file


def difference(a, b):
    if a[0] != b[0] or a[3] != b[3]:
        return 'status %s, then %s; the file written %s' % (a[0], b[0], 'differs' if a[3] != b[3] else 'is the same')
    lines = difflib.unified_diff((a[1] + a[2]).split('\n'), (b[1] + b[2]).split('\n'), lineterm='', n=0)
    return '\n    '.join(line[:150] for line in list(lines)[3:9])


def main(old, new, *words):
    same = differ = 0
    with tempfile.TemporaryDirectory(prefix='same_output.') as folder:
        written = os.path.join(folder, 'OUT')
        for line in command_lines(folder, old):
            arguments = [str(word) for word in line]
            if not all(word in ' '.join(arguments) for word in words):
                continue
            found = [outcome(program, arguments, written) for program in (old, new)]
            if found[0] == found[1]:
                same += 1
                continue
            differ += 1
            print('run %s\n    %s' % (' '.join(arguments).replace(folder, 'TMP'), difference(*found)), flush=True)
    print('%d the same, %d differ' % (same, differ))
    return 1 if differ or not same else 0


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), *sys.argv[3:]))
