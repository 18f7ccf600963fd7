#!/usr/bin/env python3
"""The rows of docs/check-released.tsv: --check's answers for released models, beside the truth from whole texts.

usage: check_released.py OUT.tsv CELLS.tsv FOLDER [--run PROGRAM]               runs the cells that OUT.tsv lacks
       check_released.py OUT.tsv                                              prints the confusion table

A cell is a line of CELLS.tsv: how, model, options, length, text. `how` is `check` or `truth`. FOLDER has MODEL.bin or
MODEL.gguf of each model and TEXT.txt of each text; the text `story` is the one that is built in. Cells run one by one,
and a line is written after each, so that it may be stopped. A model NAME@THETA is a copy of NAME.bin whose full layers
turn by another theta, as its file says. The file has verdicts of version 5.0 by 60 seconds (check-60), too.

The truth of a setting at a length: perplexity of 1,024 tokens of its last quarter, in four places, relative to the same
tokens after their own last 1,024 alone, read by the model's own settings. Broken is above 1.15, healthy below 1.05."""

import math
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)
from probe.asking.vocabulary import Vocabulary  # noqa: E402

BEFORE, SCORED, PLACES, BLOCK = 1024, 256, 4, 64
HEALTHY, BROKEN = 1.05, 1.15
THETA = 112  # its place in a header (docs/header.tsv)
ANSWERS = {0: 'yes', 1: 'no', 2: 'trouble', 3: 'undecided', 130: 'interrupted'}
COLUMNS = ['how', 'model', 'options', 'length', 'text', 'answer', 'ratio', 'se', 'budget', 'seconds', 'words']


def rows_of(text):
    """The rows of a table as dictionaries by column."""
    lines = [line.split('\t') for line in text.splitlines() if line and line[0] != '#']
    return [dict(zip(lines[0], line)) for line in lines[1:]] if lines else []


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def model(self, name):
        """Its file, as exported or (tools/released.py) as published."""
        path = os.path.join(self.folder, name + '.bin')
        name, _, theta = name.partition('@')
        if theta and not os.path.exists(path):
            with open(os.path.join(self.folder, name + '.bin'), 'rb') as file:
                data = bytearray(file.read())
            struct.pack_into('<d', data, THETA, float(theta))
            with open(path, 'wb') as file:
                file.write(data)
            tokenizer = path[:-4] + '.tokenizer.bin'
            if not os.path.exists(tokenizer):
                os.symlink(os.path.join(self.folder, name + '.tokenizer.bin'), tokenizer)
        return path if os.path.exists(path) else path[:-4] + '.gguf'

    def run(self, *arguments):
        """The exit status and standard output."""
        done = subprocess.run([self.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
        return done.returncode, done.stdout

    def check(self, model, options, length, text):
        file = [] if text == 'story' else [os.path.join(self.folder, text + '.txt')]
        began = time.time()
        status, out = self.run(self.model(model), '--check', *file, '-n', length, '--tsv', *options.split())
        rows = {(row['check'], row['length']): row for row in rows_of(out)}
        found = rows.get(('perplexity', str(length)), {})
        return [ANSWERS[status], found.get('value', '-'), found.get('se', '-'), '-',
                '%.0f' % (time.time() - began), out.splitlines()[-1][2:] if out else '-']

    def per_token(self, model, ids, length, *options):
        """[-ln p] of the windows of a file of ids, one after another."""
        out = self.run(self.model(model), '--ppl', ids, '--ids', '-n', length, '--per-token', '--tsv', *options)[1]
        return [(int(row['token']), float(row['nll'])) for row in rows_of(out)]

    def ids(self, model, text, length):
        """The first ids of a text: BOS, or a line's end if the model has none, and the ids printed by --per-token."""
        path = os.path.join(self.folder, text + '.txt') if text != 'story' else os.path.join(ROOT, 'book.txt')
        vocabulary = Vocabulary(os.path.join(self.folder, model.partition('@')[0] + '.tokenizer.bin'))
        first = vocabulary.bos if vocabulary.bos >= 0 else vocabulary.id_of('\n')
        out = self.run(self.model(model), '--ppl', path, '-n', length, '--samples', 1, '--per-token', '--tsv')[1]
        return [first] + [int(row['token']) for row in rows_of(out)]

    def truth(self, model, options, length, text):
        ids, differences, began = self.ids(model, text, length)[:length], [], time.time()
        with tempfile.TemporaryDirectory() as folder:
            def write(some):
                path = os.path.join(folder, 'ids.txt')
                with open(path, 'w') as file:
                    file.write(' '.join(map(str, some)))
                return path
            whole = self.per_token(model, write(ids), length, *options.split())
            for place in range(PLACES):
                start = length - length // 4 + (length // 4 - SCORED) * (2 * place + 1) // (2 * PLACES)
                part = ids[:1] + ids[start - BEFORE + 1:start + SCORED]
                alone = self.per_token(model, write(part), len(part))
                pairs = list(zip(whole[start - 1:start - 1 + SCORED], alone[BEFORE - 1:]))
                assert all(a[0] == b[0] for a, b in pairs), 'the same tokens'
                differences += [a[1] - b[1] for a, b in pairs]
        blocks = [statistics.mean(differences[i:i + BLOCK]) for i in range(0, len(differences), BLOCK)]
        ratio = math.exp(statistics.mean(blocks))
        se = ratio * statistics.stdev(blocks) / math.sqrt(len(blocks))
        answer = 'healthy' if ratio < HEALTHY else 'broken' if ratio > BROKEN else 'either'
        return [answer, '%.4f' % ratio, '%.4f' % se, '-', '%.0f' % (time.time() - began), '-']

    def measure(self, how, model, options, length, text):
        if how == 'truth':
            return self.truth(model, options, length, text)
        return self.check(model, options, length, text)


def load(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [dict(zip(COLUMNS, line.rstrip('\n').split('\t'))) for line in file if line[:1] != '#'][1:]


def key_of(row):
    return tuple(row[name] for name in COLUMNS[:5])


def measure(path, cells, runner):
    done = {key_of(row) for row in load(path)}
    if not os.path.exists(path):
        with open(path, 'w') as out:
            print('\t'.join(COLUMNS), file=out)
    with open(cells) as file:
        asked = [line.rstrip('\n').split('\t') for line in file if line.strip() and line[0] != '#']
    for how, model, options, length, text in asked:
        if (how, model, options, length, text) in done:
            continue
        found = runner.measure(how, model, options, int(length), text)
        with open(path, 'a') as out:
            print(how, model, options, length, text, *found, sep='\t', file=out)


def show(path):
    """Answers beside the truth of the same settings and length, in any text."""
    rows = load(path)
    truths = {}
    for row in rows:
        if row['how'] == 'truth':
            truths.setdefault((row['model'], row['options'], row['length']), []).append(row['answer'])
    counts = {}
    for row in rows:
        truth = truths.get((row['model'], row['options'], row['length']), [])
        if row['how'] == 'truth' or not truth:
            continue
        truth = truth[0] if len(set(truth)) == 1 else 'either'
        counts[row['how'], truth, row['answer']] = counts.get((row['how'], truth, row['answer']), 0) + 1
        if (truth, row['answer']) in (('healthy', 'no'), ('broken', 'yes')):
            print('FALSE', '\t'.join(row[name] for name in COLUMNS))
    print('how\ttruth\tyes\tno\tundecided')
    for how, truth in sorted({key[:2] for key in counts}):
        print(how, truth, *(counts.get((how, truth, answer), 0) for answer in ('yes', 'no', 'undecided')), sep='\t')


def main(words):
    options = {'--run': os.path.join(ROOT, 'run')}
    while len(words) > 2 and words[-2] in options:
        options[words[-2]] = words[-1]
        words = words[:-2]
    if len(words) == 1:
        return show(words[0])
    if len(words) != 3:
        sys.exit(__doc__)
    measure(words[0], words[1], Runner(options['--run'], words[2]))


if __name__ == '__main__':
    main(sys.argv[1:])
