#!/usr/bin/env python3
"""The tiny program in one file (make dist-tiny), packed here: it builds, its first commands run, it gives ./run's
results, and its own tests pass with every compiler that there is."""

import json
import os
import re
import shutil
import subprocess
import sys

from common import (F16, GOLDEN, Q8, ROOT, check, config, exports, in_work, main, random_weights, read, run, skip,
                    takes_long, write, write_model)
from test_core import tokenizer_of
from test_legacy import write_legacy

FOLDER = in_work('tiny')
TINY = os.path.join(FOLDER, 'run')
PACK = os.path.join(ROOT, 'tools', 'tiny', 'pack.py')
NAMES = ['LICENSE', 'Makefile', 'README.md', 'model.bin', 'model_export.py', 'rope.c', 'rope.h', 'run.c', 'tests',
         'tokenizer.bin']


def make(*words, folder=FOLDER):
    environment = dict(os.environ, MAKEFLAGS='', OMP_NUM_THREADS='1')
    return subprocess.run(['make', '-s', *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment, universal_newlines=True)


def packed():
    """The folder, filled and built once."""
    if not os.path.exists(FOLDER):
        subprocess.run([sys.executable, PACK, FOLDER], check=True, env=dict(os.environ, OMP_NUM_THREADS='1'))
        done = make('CFLAGS=-O1')
        check(done.returncode == 0 and not done.stdout, 'it builds without a warning', done.stdout[-500:])


def test_packed():
    packed()
    check(sorted(os.listdir(FOLDER)) == sorted(NAMES + ['run']), 'what it holds', os.listdir(FOLDER))
    source = read(os.path.join(FOLDER, 'run.c')).decode()
    lines = source.count('\n')
    code = sum(not re.match(r'\s*(//|$)', line) for line in source.split('\n'))
    check(lines < 2150 and code < 1700, 'run.c can be read in an evening', '%d lines, %d of code' % (lines, code))
    titles = re.findall(r'^//     (\d+)\. (.*)$', source, re.M)
    headings = re.findall(r'^// =+ (\d+)\. (.*?) =+$', source, re.M)
    check(titles == headings and len(headings) == 10, 'the sections that it begins with', headings)
    check('#include "rope.h"' in source and source.count('#include "') == 1, 'one file beside rope.c')
    check(source.index('static void attention(Plain *p, float *x) {') < source.index('int main('), 'main is the end')
    check(not re.search(r'gemma|qwen|mistral|phi3|EACH_KIND|ModelExtra', source, re.I), 'no word of another family')


def test_first_commands():
    packed()
    for words, status, said in ((['-n', 12, '-t', 0, '-i', 'It was a fine'], 0, 'It was a fine'),
                                (['-n', 70, '--rope', 'yarn', '--ppl', 'tests/text.txt'], 0, 'yarn\t64\t70\t6\t'),
                                (['-n', 110, '--rope', 'none', '--passkey', '--trials', 1], 0, 'none\t110\t1.00\t1\t'),
                                (['--help'], 0, '--passkey')):
        done = run('model.bin', *words, program=TINY, cwd=FOLDER)
        check(done.status == status and said in done.out, 'run model.bin %s' % words, done, done.out)


def test_same_as_run():
    """Three types of weights, llama2.c's files as they are exported, and texts of all sorts of characters give the numbers of ./run."""
    packed()
    text = write(in_work('odd.txt'), 'Some text, \u00e9\u2581\u4e2d\u6587  \U0001f600 spaces   and\ttabs\n\n<s></s><0x41> '
                 + ''.join(map(chr, range(33, 600, 7))) + ' the end of it all, which is long enough. ' * 3)
    pairs = [(os.path.join(FOLDER, 'model.bin'), 150)]
    sources = {}
    for name, fields in {'f32': {}, 'f16': dict(weight_type=F16), 'q8': dict(weight_type=Q8, group_size=16),
                         'own': dict(method='yarn', factor=4.0, train_ctx=16, logn=1, temperature_beta=0.2),
                         'lists': dict(method='longrope', factor=4.0, train_ctx=16, short_factors=[1, 1.1, 1.3, 2],
                                       long_factors=[1, 1.7, 4, 9])}.items():
        c = config(vocab_size=300, seq_len=64, **dict(dict(train_ctx=64), **fields))
        path = in_work(name + '.bin')
        write_model(path, c, random_weights(c, 3))
        tokenizer_of(path, 300)
        pairs.append((path, 90))
    for version in 0, 1, 2:
        c = config(vocab_size=300, seq_len=64)
        old, path = in_work('old%d.bin' % version), in_work('new%d.bin' % version)
        write_legacy(old, c, random_weights(c, 4), version, 4)
        tokenizer_of(path, 300)
        tokenizer_of(old, 300)
        sources[path] = old
        done = run(old, '-n', 5, program=TINY)
        words = 'version is %d (expected 3 to 6)' % version if version else 'no ak42 magic (model_export.py makes one)'
        check(done.status == 2 and words in done.err, 'llama2.c\'s version %d is exported first' % version, done)
        exported = subprocess.run([sys.executable, os.path.join(FOLDER, 'model_export.py'), old, path],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        check(exported.returncode == 0, 'llama2.c\'s version %d is exported' % version, exported.stdout)
        pairs.append((path, 90))
    for model, n in pairs:
        for rope in [[]] if model.endswith('tiny/model.bin') else [[], ['--rope', 'dynamic-ntk+dca:factor=2']]:
            words = [model, '--ppl', text, '-n', n, *rope]
            tiny, whole = run(*words, program=TINY), run(sources.get(model, model), *words[1:], '--plain', '--tsv')
            found, wanted = tiny.out.replace(model, '').split(), whole.out.replace(sources.get(model, model), '').split()
            alike = len(found) == len(wanted) > 20 and all(
                a == b or ('.' in b and abs(float(a) - float(b)) <= 1e-5 * max(1, abs(float(b))))
                for a, b in zip(found, wanted))
            check(tiny.status == whole.status == 0 and alike, '%s %s' % (os.path.basename(model), rope), tiny, tiny.out,
                  whole.out)
    for name, fields in {'bfloat16': dict(weight_type=2), 'others': dict(qk_norm=1)}.items():
        c = config(vocab_size=300, **fields)
        write_model(in_work(name + '.bin'), c, random_weights(c, 3))
        done = run(in_work(name + '.bin'), '-n', 5, program=TINY)
        check(done.status == 2 and done.err.count('\n') == 1 and 'impossible header' in done.err, name + ' is refused', done)


def test_exporter():
    """Its exporter reads Hugging Face's folders as the whole one does."""
    packed()
    text = write(in_work('abc.txt'), 'abcdefghijklmnop' * 10)
    for name in 'default', 'linear4', 'dynamic2', 'yarn4', 'llama3':
        folder = in_work('folder-' + name)
        shutil.copytree(os.path.join(GOLDEN, name), folder)
        shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
        tiny, whole = in_work('tiny-%s.bin' % name), in_work('whole-%s.bin' % name)
        done = subprocess.run([sys.executable, os.path.join(FOLDER, 'model_export.py'), folder, tiny],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        exports('--no-tokenizer', folder, whole)
        check(done.returncode == 0, name + ': it is exported', done.stdout)
        for path in tiny, whole:
            tokenizer_of(path, 128)
        found, wanted = (run(path, '--ppl', text, '-n', 120, program=TINY) for path in (tiny, whole))
        check(found.status == 0 and found.out.split('\n', 1)[1] == wanted.out.split('\n', 1)[1], name + ': the same numbers',
              found, found.out, wanted.out)


@takes_long
def test_everywhere():
    """make dist-tiny, unpacked in an empty folder: make and make test, with each compiler."""
    where = in_work('dist')
    done = subprocess.run(['make', '-s', 'dist-tiny', 'DIST=' + where], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, env=dict(os.environ, MAKEFLAGS=''))
    archives = os.listdir(where) if done.returncode == 0 else []
    if not check(len(archives) == 1 and archives[0].endswith('.tar.gz'), 'make dist-tiny', done.stdout, archives):
        return
    for compiler in 'gcc', 'clang', 'musl-gcc':
        if not shutil.which(compiler):
            skip('the tiny program by %s, which is not here' % compiler)
            continue
        folder = in_work('by-' + compiler)
        os.makedirs(folder)
        subprocess.run(['tar', 'xzf', os.path.join(where, archives[0]), '--strip-components=1'], cwd=folder, check=True)
        built, tested = make('CC=' + compiler, folder=folder), make('test', 'CC=' + compiler, folder=folder)
        check(built.returncode == 0 and 'warning' not in built.stdout, compiler + ': make', built.stdout[-500:])
        check(tested.returncode == 0 and re.search(r'\d+ passed, 0 failed', tested.stdout), compiler + ': make test',
              tested.stdout[-500:])
        expected = json.loads(read(os.path.join(folder, 'tests', 'expected.json')))
        check(len(expected) > 3, 'numbers of the whole program', len(expected))


if __name__ == '__main__':
    main(globals())
