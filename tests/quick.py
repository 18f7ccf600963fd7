#!/usr/bin/env python3
"""make check-quick: the cases that catch most errors for two minutes of a processor, and how many they catch.

    python3 tests/quick.py [NUMBER ...]    plants errors, one at a time, in copies of the program, and runs the cases

Errors are planted in the formulas, both forward passes, weights, the tokenizer, sampling, options and measurements. A
row is printed for each, with the file that caught it or `missed`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
# The files, the cheapest first, and their cases; an empty list stands for all of them.
CASES = {
    'test_rows.py': ['test_rows'],  # what a new formula hears first
    'test_next.py': [],
    'test_rope.py': [],
    'test_golden.py': [],
    'test_units.py': ['test_same'],
    'test_cli.py': ['test_two_jobs', 'test_words_that_miss_something', 'test_lengths', 'test_text', 'test_bytes',
                    'test_chat', 'test_sampling', 'test_warnings', 'test_options_without_effect'],
    'test_measure.py': ['test_buckets', 'test_samples', 'test_several_methods', 'test_passkey', 'test_min_accuracy',
                        'test_rope_json'],
    'test_forward.py': ['test_shapes', 'test_weight_types', 'test_methods', 'test_windows'],
    'test_plain.py': ['test_families', 'test_encodings', 'test_weights'],
    'test_tokenizer.py': []}
# What, where, a text that stands there once, and what it becomes.
PLANTS = [
    ('linear multiplies', 'rope.c', 'return p->plain / p->scale; }', 'return p->plain * p->scale; }'),
    ("YaRN's factor of scores, by a digit", 'rope.c', '0.1 * log(s) : 0', '0.11 * log(s) : 0'),
    ('a dynamic scale of half the length', 'rope.c', 'c->factor * length / c->train_ctx',
     'c->factor * length / 2 / c->train_ctx'),
    ("self-extend's far keys one off", 'rope.c', 'p / g + w - w / g, p / g}', 'p / g + w - w / g, (p + 1) / g}'),
    ('top-p lets one more in', 'src/llama/sampler.c', 'while (enough < kept && sum <= s->top_p * total)',
     'while (enough < kept && sum <= 1.1f * s->top_p * total)'),
    ('min-p is not heeded', 'src/llama/sampler.c', 'while (kept > 1 && c[kept - 1].probability < least) kept--;', ''),
    ('merges from the right', 'src/tokens/encode.c', ': a.left < b.left;', ': a.left > b.left;'),
    ('the fifth bit of Q5_0 lost', 'src/weights/blocks.c', 'nibble_of(block + 6, i) | bit_of(block + 2, i) << 4',
     'nibble_of(block + 6, i)'),
    ('standard errors without a root', 'src/measure/perplexity.c', 'sqrt(squares * k / (k - 1)) / tokens',
     'squares * k / (k - 1) / tokens'),
    ('depths from the end', 'src/measure/trial.c', 'return t->depth / (N_DEPTHS - 1.0);',
     'return 1 - t->depth / (N_DEPTHS - 1.0);'),
    ('a factor below 1 for short texts', 'src/base/settings.c', 'fmax(1, (double)context / c->train_ctx)',
     '(double)context / c->train_ctx'),
    ('a prompt may fill more than -n', 'run.c', 'job->n_ids > (size_t)job->length',
     'job->n_ids > (size_t)job->length + 1'),
    ('ranks from 0', 'src/measure/next.c', 'a->rank[a->sorted[i].token] = i + 1;', 'a->rank[a->sorted[i].token] = i;'),
    ('cosines for sines in a rotation', 'src/fast/project.c',
     'rope_rotate(x, (int)of->pairs, turns, turns + of->pairs);',
     'rope_rotate(x, (int)of->pairs, turns, turns);'),
    ("ALiBi's slope of the head before", 'src/fast/encodings.c', 'exp2(-8.0 * (head + 1) / n_heads)',
     'exp2(-8.0 * head / n_heads)'),
    ('SiLU for GELU', 'src/fast/matmul.c', 'if (activation == ACTIVATION_GELU) geglu(',
     'if (activation == ACTIVATION_GELU) swiglu(')]


def planted(folder, path, old, new):
    """The tree with one text replaced, built as this one was. False when it does not build."""
    for name in ('run.c', 'rope.c', 'rope.h', 'Makefile', 'model.bin', 'tokenizer.bin', 'book.txt'):
        shutil.copy2(os.path.join(ROOT, name), folder)
    for name in ('src', 'tests', 'docs', 'page'):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name),
                        ignore=shutil.ignore_patterns('node_modules'))
    shutil.copytree(os.path.join(ROOT, 'build'), os.path.join(folder, 'build'),
                    ignore=shutil.ignore_patterns('page*', 'fuzz*', 'tests'))
    for name in ('export', 'model_export.py', 'probe', 'server_probe.py'):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    place = os.path.join(folder, path)
    with open(place, encoding='utf-8') as file:
        text = file.read()
    if text.count(old) != 1:
        sys.exit('quick.py: the text of a planted error stands once in %s (found %d times): %s' % (
            path, text.count(old), old))
    with open(place, 'w', encoding='utf-8') as file:
        file.write(text.replace(old, new))
    built = subprocess.run(['make', '-s', 'run'], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return built.returncode == 0


def caught_by(folder):
    """The first file of which a case fails on the program in a folder, or None."""
    for name, cases in CASES.items():
        done = subprocess.run([sys.executable, os.path.join(FOLDER, name), *cases], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=dict(os.environ, TEST_ROOT=folder))
        if done.returncode:
            first = re.search(r'^FAIL (.{0,60})', done.stdout.decode(errors='replace'), re.M)
            return '%s: %s' % (name, first.group(1) if first else 'it ended with status %d' % done.returncode)
    return None


def main(words):
    numbers = [int(word) for word in words] or range(len(PLANTS))
    caught = 0
    for number in numbers:
        what, *change = PLANTS[number]
        with tempfile.TemporaryDirectory() as folder:
            found = caught_by(folder) if planted(folder, *change) else 'it does not build'
        caught += found is not None
        print('%2d %-38s %s' % (number, what, found or 'missed'), flush=True)
    print('%d of %d caught' % (caught, len(numbers)))


if __name__ == '__main__':
    main(sys.argv[1:])
