#!/usr/bin/env python3
"""The core, linked here from rope.c and its rooms alone (make core): it prints the same as ./run --plain, for the
golden checkpoints, for every family, method, map, encoding and type of weights; and its refusals."""

import os
import shlex
import shutil
import struct
import subprocess

import blocks
from common import (BF16, BLOCK_MODELS, ENCODINGS, F16, Q4, Q8, ROOT, SHARED, block_weights, check, compiler, config,
                    in_work, main, random_weights, run, skip, takes_long, write, write_model, write_tokenizer)
from test_golden import exported
from test_legacy import write_legacy
from test_plain import BASE, BEHIND, DYNAMIC, FAMILIES, MAPS, METHODS, OTHERS, in_blocks

FOLDER = in_work('core')
CORE = os.path.join(FOLDER, 'core')
ROOMS = ['base', 'weights', 'tokens', 'llama', 'decoder', 'kinds']
OF_LLAMA = ROOMS[:4]


def core_files():
    """The C files of the core, from the root."""
    return [path for path in files_of(ROOMS) if path != 'src/llama/main.c']


def files_of(rooms):
    return ['rope.c', 'src/rope_settings.c'] + sorted('src/%s/%s' % (room, name) for room in rooms
                               for name in os.listdir(os.path.join(ROOT, 'src', room)) if name.endswith('.c'))


def sources(folder, rooms=ROOMS):
    """Copies rope.c, rope.h and the rooms of the core, and nothing else. The C files there."""
    for room in rooms:
        shutil.copytree(os.path.join(ROOT, 'src', room), os.path.join(folder, 'src', room))
    for name in ('rope.c', 'rope.h', 'src/rope_settings.c', 'src/rope_settings.h'):
        shutil.copy(os.path.join(ROOT, name), os.path.join(folder, os.path.dirname(name)))
    return [os.path.join(folder, path) for path in (core_files() if rooms == ROOMS else files_of(rooms))]


def flags(*more):
    """Those of ./run."""
    return shlex.split(open(os.path.join(ROOT, 'build', 'flags')).read()) + list(more)


def test_alone():
    """It is linked from the objects of these files alone."""
    own = 'src/kinds/main.c'
    objects = [os.path.join(ROOT, 'build', path[:-1] + 'o') for path in core_files() if path != own]
    os.makedirs(FOLDER)
    check(compiler([flags(os.path.join(ROOT, own), *objects, '-o', CORE, '-lm')], 'the core'), 'the core is a whole program')


@takes_long
def test_alone_sanitized():
    """It is compiled from these files alone, with the sanitizers."""
    os.makedirs(FOLDER, exist_ok=True)
    sanitizers = ['-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all']
    check(compiler([flags(*sanitizers, *sources(in_work('alone_here')), '-o', CORE + '-sanitized', '-lm')],
                   'the core, sanitized') or not os.path.exists(CORE + '-sanitized'), 'the core with sanitizers')


def links_of(target):
    """The objects that make links for a target, and the command's words."""
    said = subprocess.run(['make', '-s', '-n', '-W', 'rope.c', target], cwd=ROOT, stdout=subprocess.PIPE,
                          universal_newlines=True, env=dict(os.environ, MAKEFLAGS='')).stdout
    found = [line.split() for line in said.splitlines() if ' -o %s ' % target in line and '.o ' in line]
    words = found[0] if check(len(found) == 1, 'make %s links once' % target, said[-300:]) else []
    return {word for word in words if word.endswith('.o')}, words


def test_make():
    """make links the same files."""
    for target, files in ('core', core_files()), ('llama', files_of(OF_LLAMA)):
        linked, words = links_of(target)
        check(linked == {'build/' + path[:-1] + 'o' for path in files}, 'make ' + target, words)


class Texts:
    """Texts of the core beside those of ./run --plain, and how many of them were different ones."""

    def __init__(self):
        self.seen = set()

    def same(self, what, model, *options, program=CORE):
        core, plain = run(model, *options, program=program), run(model, '--plain', *options)
        self.seen.add(plain.raw)
        return check(core.status == plain.status == 0 and core.raw == plain.raw,
                     '%s %s: the core prints what --plain prints' % (what, ' '.join(map(str, options))),
                     '%d, %d: %r, %r' % (core.status, plain.status, core.raw[-100:], plain.raw[-100:]))


texts = Texts()


def test_llama_alone():
    """rope.c, src/llama and the files that they need are a whole program, which prints the same as ./run --plain."""
    own = 'src/llama/main.c'
    llama_alone(os.path.join(ROOT, own),
                *(os.path.join(ROOT, 'build', path[:-1] + 'o') for path in files_of(OF_LLAMA) if path != own))


@takes_long
def test_llama_compiled_alone():
    """Nor does it need a header of another room."""
    llama_alone(*sources(in_work('llama'), OF_LLAMA))


def llama_alone(*files):
    """The program of these files beside ./run --plain, by methods, maps, types of weights and llama2.c's versions; it
    refuses models that are no Llama."""
    program, short = in_work('llama_alone'), ('-n', 24, '-t', 0, '-i', 'It was a fine morning')
    if not check(compiler([flags(*files, '-o', program, '-lm')], 'a Llama alone'), 'a Llama alone is a program'):
        return
    model = os.path.join(ROOT, 'model.bin')
    for options in ([], ['--rope', 'yarn', '--factor', 4], ['--rope', 'dynamic-ntk', '--train-ctx', 20],
                    ['--rope', 'self-extend', '--train-ctx', 20], ['--rope', 'streaming', '--train-ctx', 20]):
        texts.same('a Llama alone', model, *short, *options, program=program)
    texts.same('a Llama alone, seeds', model, '-n', 30, '-s', 7, '-t', 0.9, '-p', 0.8, '-k', 50, program=program)
    for name, kind in ('f16', F16), ('bf16', BF16), ('q8', Q8), ('q4', Q4):
        c = config(weight_type=kind, group_size=32 if kind in (Q8, Q4) else 0, vocab_size=80)
        texts.same('a Llama alone, ' + name, speaking('alone ' + name, c), '-n', 30, '-t', 0, program=program)
    for version in 0, 1, 2:
        c = config(dim=64, hidden_dim=88, n_heads=4, head_dim=16, seq_len=200, train_ctx=200)
        old = in_work('alone-old%d.bin' % version)
        write_legacy(old, c, random_weights(c, 31), version)
        tokenizer_of(old, c['vocab_size'])
        texts.same('a Llama alone, version %d' % version, old, '-n', 30, '-t', 0, program=program)
    write_model(in_work('kind.bin'), config(qk_norm=1), random_weights(config(qk_norm=1), 1))
    said = run(in_work('kind.bin'), *short, program=program)
    check(said.status == 2 and 'reserved byte' in said.err, 'a model of another kind is refused', said)


def speaking(name, c, weights=None):
    """A model with a tokenizer beside it, of bytes or, where the vocabulary is small, of single letters."""
    path = in_work(name.replace(' ', '-') + '.bin')
    letters = [chr(code) for code in range(97, 97 + 26)] + [' ', '.', ','] + [chr(code) for code in range(48, 97)]
    n = c['vocab_size']
    write_model(path, c, weights or random_weights(c, len(name)))
    tokenizer_of(path, n, letters)
    return path


def tokenizer_of(model, n, letters=tuple(chr(code) for code in range(33, 1000))):
    """A tokenizer of n tokens in llama2.c's format: three special ones, and letters."""
    tokens = [b'<unk>', b'\n<s>\n', b'\n</s>\n'] + [letter.encode() for letter in letters]
    tokens = (tokens + [b'<%d>' % i for i in range(n)])[:n]
    data = struct.pack('<i', max(map(len, tokens)))
    for i, token in enumerate(tokens):
        data += struct.pack('<fi', -float(i), len(token)) + token
    write(model[:-4] + '.tokenizer.bin', data)


def test_golden():
    """Hugging Face's checkpoints, past the 64 positions that they were trained on."""
    for name in ('default', 'linear4', 'dynamic2', 'yarn4', 'llama3'):
        model = exported(name)
        tokenizer_of(model, 128)
        for options in (['-t', 0], ['-s', 5], ['-s', 6, '-p', 0.5, '-t', 0.7], ['-s', 7, '-k', 9, '--min-p', 0.02]):
            texts.same(name, model, '-i', 'ABCDEFG', '-n', 130, *options)


def talking(name, **changes):
    c = config(**dict(BASE, vocab_size=write_tokenizer(in_work(name + '.tokenizer.bin')), **changes))
    write_model(in_work(name + '.bin'), c, random_weights(c, 2))
    return in_work(name + '.bin')


def test_methods():
    pairs = range(4)
    model = talking('methods', short_factors=[1 + 0.1 * i for i in pairs], long_factors=[1 + 1.5 * i for i in pairs],
                    rotary_dim=8, n_layers=1)
    for seed, rope in enumerate(METHODS + DYNAMIC + MAPS + BEHIND + OTHERS + ['dynamic', 'YARN:Factor=2', 'dca']):
        texts.same('a method', model, '-i', 'hello', '-n', 70, '-s', seed + 1, '--rope', rope)
    for options in (['--rope', 'yarn', '--factor', 8], ['--factor', 3, '--rope', 'linear'], ['--window', 9],
                    ['--rope', 'yarn:factor=4', '--attention-factor', 1.5], ['--theta', 100], ['-n', 0], []):
        texts.same('settings', model, '-i', 'hello there', '-s', 3, *options)
    texts.same('no prompt', model, '-n', 30, '-s', 4)
    lists = dict(short_factors=[1, 1.1, 1.2, 1.3], long_factors=[1, 2, 5, 9])
    crossing = talking('crossing', rotary_dim=8, n_layers=2, train_ctx=24, method='longrope', factor=4.0, **lists)
    texts.same('past the short list', crossing, '-i', 'hello', '-n', 50, '-t', 0)
    texts.same('-n in 1024s', model, '-n', '1k', '-s', 4)


def test_families():
    for seed, (name, c) in enumerate(FAMILIES.items()):
        model = speaking('family ' + name, c)
        for options in (['-t', 0], ['-s', seed + 1], ['-s', 2, '--rope', 'dynamic-yarn+self-extend']):
            texts.same(name, model, '-i', 'abc', '-n', 60, *options)


def test_encodings():
    for kind in ENCODINGS:
        rows = {'learned': 90, 'shaw': 9}.get(kind, 0)
        model = talking(kind, encoding=kind, encoding_rows=rows, seq_len=70)
        for options in (['-t', 0], ['-s', 1], ['-s', 2, '--window', 9, '--sinks', 3]):
            texts.same(kind, model, '-i', 'hello', '-n', 65, *options)
    model = talking('learned', encoding='learned', encoding_rows=70, seq_len=70)
    core, plain = run(model, '-n', 71, program=CORE), run(model, '-n', 71, '--plain')
    check(core.status == plain.status == 2 and core.err.replace('core: ', 'run: ') == plain.err, 'more than is learned',
          (core, plain))


def test_weights():
    shape = dict(BASE, dim=36, hidden_dim=70, vocab_size=100)
    for name, fields in {'float16': dict(weight_type=F16), 'bfloat16': dict(weight_type=BF16),
                         'q8 by 16': dict(weight_type=Q8, group_size=16),
                         'q8 by 64': dict(weight_type=Q8, group_size=64),
                         'q4': dict(weight_type=Q4, group_size=32)}.items():
        texts.same(name, speaking(name, config(**shape, **fields)), '-i', 'abc', '-n', 50, '-s', 9)
    for name, number in blocks.NUMBERS.items():
        path, _ = in_blocks(name, number)
        model = in_work(name + '-blocks.bin')
        shutil.copy(path, model)
        tokenizer_of(model, 30)
        for seed in (1, 2, 3):
            texts.same(name, model, '-n', 40, '-s', seed)
    for name, c in BLOCK_MODELS.items():
        for seed in (1, 2, 3):
            texts.same(name, speaking(name, c, block_weights(c, random_weights(c, 4), 4)), '-n', 30, '-s', seed)


def test_legacy():
    c = config(vocab_size=60, seq_len=64)
    for version, group in ((0, 0), (1, 0), (2, 4)):
        model = in_work('legacy%d.bin' % version)
        write_legacy(model, c, random_weights(c, 3), version, group or 64)
        tokenizer_of(model, 60)
        texts.same('version %d of llama2.c' % version, model, '-n', 50, '-s', 4)
    shipped = os.path.join(SHARED, 'models', 'stories260K.bin')
    if not os.path.exists(shipped):
        return skip('llama2.c\'s own model (../shared/models is not here)')
    texts.same('model.bin', os.path.join(ROOT, 'model.bin'), '-i', 'It was', '-n', 40, '-s', 4)


def test_how_many():
    check(len(texts.seen) >= 100, 'texts that differ from one another', len(texts.seen))


@takes_long
def test_sanitized():
    if not os.path.exists(CORE + '-sanitized'):
        return skip('the core with sanitizers (the compiler has none)')
    for name in ('gemma3', 'two kinds at once', 'phi3'):
        model = speaking('sanitized ' + name, FAMILIES[name])
        result = run(model, '-i', 'abc', '-n', 40, '-s', 3, '--rope', 'longrope:factor=8', program=CORE + '-sanitized')
        check(result.status == 0, name + ', sanitized', result)
    for kind in ('shaw', 'transformer-xl', 'disentangled', 'alibi', 'sinusoidal'):
        model = talking(kind, encoding=kind, encoding_rows=9 if kind == 'shaw' else 0)
        result = run(model, '-n', 40, program=CORE + '-sanitized')
        check(result.status == 0, kind + ', sanitized', result)


def test_refused():
    """One line and status 2, as everywhere."""

    model, alibi = talking('refused'), talking('refusing', encoding='alibi')
    no_tokenizer = in_work('alone/model.bin')
    os.makedirs(os.path.dirname(no_tokenizer), exist_ok=True)
    shutil.copy(model, no_tokenizer)
    cut = write(in_work('cut.bin'), open(model, 'rb').read()[:-1])
    c = config(vocab_size=60)
    weights = random_weights(c, 3)
    weights['wq.0'][5] = float('nan')
    broken = speaking('broken', c, weights)
    for what, words, arguments in (
            ('no model', 'model.bin', []), ('no file', 'cannot open', ['nowhere.bin']),
            ('a file cut short', 'truncated', [cut]), ('no tokenizer', 'no tokenizer', [no_tokenizer]),
            ('an option', "there is no option 'x'", [model, 'x', '1']),
            ('a setting', "'facto'", [model, '--facto', '2']),
            ('no value', '-n needs a value', [model, '-n']), ('a number', "-n: '5x'", [model, '-n', '5x']),
            ('a large top-p', "-p: '2'", [model, '-p', '2']), ('a seed', "-s: '-1'", [model, '-s', '-1']),
            ('a method', "there is no method 'yran'", [model, '--rope', 'yran']),
            ('a list of methods', "'none,yarn'", [model, '--rope', 'none,yarn']),
            ('a setting of a method', "':factor' is not a setting", [model, '--rope', 'yarn:factor']),
            ('its value', "'0.5'", [model, '--rope', 'yarn:factor=0.5']),
            ('lists that are not there', 'longrope needs', [model, '--rope', 'longrope']),
            ('a long name', 'too long', [model, '--rope', 'yarn' + ':factor=2' * 40]),
            ('RoPE without RoPE', "is 'alibi'", [alibi, '--rope', 'yarn']),
            ('a long prompt', 'the prompt has 9 tokens', [model, '-i', 'hello', '-n', '5']),
            ('NaN', 'NaN or infinity came out of layer 0', [broken, '-n', '9'])):
        result = run(*arguments, program=CORE)
        check(result.status == 2 and result.err.count('\n') == 1 and result.err.startswith('core: ')
              and words in result.err, 'the core refuses ' + what, result)
    for words in [model, '--help'], ['-h']:
        result = run(*words, program=CORE)
        check(result.status == 0 and result.out.startswith('usage: core model.bin') and not result.err,
              'the core and %s' % words[-1], result)
    result = run(model, '-n', '1000m', program=CORE)
    check(result.status == 2 and 'cannot get' in result.err, 'the core refuses what needs too much memory', result)


if __name__ == '__main__':
    main(globals())
