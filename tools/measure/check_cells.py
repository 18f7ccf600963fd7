#!/usr/bin/env python3
"""The rows of docs/check-cells.tsv: --check's answers for models with one change, beside the truth from whole texts.

usage: check_cells.py OUT.tsv NOVEL.txt [FOLDER]   runs the cells that OUT.tsv lacks
       check_cells.py OUT.tsv                      prints the score, and the cells that it is against

FOLDER has the released models (tools/released.py gets them) as NAME.bin and NAME.tokenizer.bin, from model_export.py
and NAME.gguf; without it their cells are left out. A cell is a model, fields of its header or damage to its weights,
options and a length. Cells that are marked are also judged by the novel in place of the built-in story, and with
--effort 2.

The truth is measured apart from the check: --ppl reads the novel from a third on, in two windows of the length, and
the truth is the perplexity of the last quarter in shares of the undamaged model's there, by its own settings or,
past its own context, by those that the cell names. Above 1.15 a cell is broken, below 1.05 it is healthy, and
between them either answer is right. `keys` is the share of passkeys that are found at depths of 0 to 0.75, where
windows are changed: below 0.5 at a depth that the undamaged model finds is broken, too. A line is written after each
cell, so that it may be stopped."""

import math
import os
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.environ.get('RUN', os.path.join(ROOT, 'run'))
COLUMNS = ['model', 'change', 'options', 'length', 'how', 'status', 'tokens', 'truth', 'keys', 'words']
HEALTHY, BROKEN = 1.05, 1.15
TYPES = {'u32': 'I', 'i32': 'i', 'f64': 'd'}
STATUS = {0: 'yes', 1: 'no', 2: 'trouble', 3: 'undecided'}


def offsets():
    with open(os.path.join(ROOT, 'docs', 'header.tsv')) as file:
        rows = [line.split('\t') for line in file.read().splitlines()[1:]]
    return {row[2]: (int(row[0]), TYPES[row[1]]) for row in rows if row[0].isdigit() and row[1] in TYPES}


OFFSETS = offsets()


def fields_of(**fields):
    """A change of header fields."""
    return ' '.join('%s=%g' % item for item in fields.items())


def sliding(window, full):
    """A change that makes layers of model-8k.bin slide, but for those of the list."""
    return 'window=%d full=%s' % (window, ','.join(map(str, full)))


def cells():
    """(model, change, options, length, options of the undamaged model or None: its own)"""
    m8k, base = 'model-8k.bin', 'model.bin'
    for n in (2048, 4096):
        yield m8k, '', '', n, None
        for theta in (5e3, 13e3, 2e4, 5e4):
            yield m8k, fields_of(theta=theta), '', n, None
        for attention in (1, 1.15, 1.45, 1.6):
            yield m8k, fields_of(attention_factor=attention), '', n, None
        yield m8k, fields_of(attention_factor=1), '--like ORIGINAL', n, None
        yield m8k, fields_of(beta_fast=128, beta_slow=4), '', n, None
        yield m8k, fields_of(beta_fast=8), '', n, None
        for factor in (4, 8, 32, 64):
            yield m8k, fields_of(factor=factor), '', n, None
        yield m8k, fields_of(rope_method=0, factor=0, train_ctx=8192), '', n, None
        yield m8k, fields_of(rope_method=2), '', n, None
        yield m8k, fields_of(rope_method=1), '', n, None
        yield m8k, fields_of(train_ctx=1024, factor=8), '', n, None
        yield m8k, fields_of(train_ctx=256, factor=32), '', n, None
        for options in ('--factor 8', '--kv q4', '--rope yarn+dca', '--rope dynamic-yarn', '--rope none',
                        '--theta 10001'):
            yield m8k, '', options, n, None
        for full in ([], [0], [5], [2]):
            for window in (n // 4, n // 2 + 52):
                yield m8k, sliding(window, full), '', n, None
    for n in (1024, 2048, 4096):
        for options in ('--rope yarn', '--rope none', '--rope ntk', '--rope linear', '--rope yarn --factor 2',
                        '--rope yarn --factor 16', '--rope dynamic-yarn', '--rope rerope', '--rope self-extend'):
            yield base, '', options, n, '--rope yarn'
    for theta in (1e3, 3e3, 3e4, 1e5):
        yield base, fields_of(theta=theta), '', 512, None
    for context in (1024, 2048):
        yield base, fields_of(train_ctx=context, seq_len=context), '', context, '--rope yarn'
    for damage in ('layers 1 2', 'layers 2 3', 'layers 3 4', 'layers 4 5', 'pairs 3', 'pairs 5', 'heads 2', 'heads 4',
                   'negated 2', 'lost 1'):
        yield m8k, damage, '--like ORIGINAL', 1024, None
    for name, change, options, n, of in (
            ('smollm2.gguf', '', '', 4096, None), ('smollm2.gguf', fields_of(theta=1e6), '', 4096, None),
            ('smollm2.gguf', fields_of(theta=1e4), '', 4096, None), ('smollm2.gguf', '', '--theta 418294', 2048, None),
            ('gemma3.gguf', '', '', 4096, None), ('gemma3.gguf', fields_of(sliding_window=1024), '', 2048, None),
            ('gemma3.gguf', fields_of(sliding_window=256), '', 2048, None), ('qwen.gguf', '', '', 4096, None)):
        yield name, change, options, n, of


def again():
    """Cells that are judged by another text, too, and with more effort and threads."""
    every = [cell for cell in cells() if cell[0] == 'model-8k.bin' and cell[3] == 2048 and '--like' not in cell[2]]
    return every[::2][:20]


def with_layers(data, window, full):
    """A file of version 5 whose layers slide, but for these, and turn by the same settings as before."""
    head = bytearray(data[:256]) + bytes(256)
    n_layers = struct.unpack_from('<I', data, OFFSETS['n_layers'][0])[0]

    def put(field, value):
        struct.pack_into('<' + OFFSETS[field][1], head, OFFSETS[field][0], value)
    put('version', 5)
    put('sliding_window', window)
    put('layer_table', 1)
    put('sliding_rope', 1)
    for field, of in (('method', 'rope_method'), ('theta', 'theta'), ('factor', 'factor'), ('train_ctx', 'train_ctx'),
                      ('ramp', 'ramp'), ('truncate', 'truncate'), ('beta_fast', 'beta_fast'),
                      ('beta_slow', 'beta_slow'), ('attention_factor', 'attention_factor')):
        put('sliding_' + field, struct.unpack_from('<' + OFFSETS[of][1], data, OFFSETS[of][0])[0])
    flags = bytes(1 if i in full else 4 for i in range(n_layers))
    return bytes(head) + flags + bytes(-len(flags) % 64) + data[256:]


def with_damage(words, data, folder):
    """A copy of model-8k.bin, in float16, with damaged weights."""
    sys.path.insert(0, os.path.join(ROOT, 'tests'))
    from common import read_model, write_model  # pylint: disable=import-outside-toplevel
    from damages import as_halves, pairs_damaged, scaled, with_swapped_layers  # pylint: disable=import-outside-toplevel
    rounded, out = (os.path.join(folder, name) for name in ('f16.bin', 'damaged.bin'))
    source = os.path.join(folder, 'source.bin')
    with open(source, 'wb') as file:
        file.write(data)
    subprocess.run([RUN, source, '--quantize', 'f16', rounded], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    c, weights = read_model(rounded)
    kind, *numbers = words.split()
    numbers = [int(number) for number in numbers]
    head, n_heads = c['head_dim'], c['n_heads']
    if kind == 'layers':
        weights = with_swapped_layers(weights, *numbers)
    elif kind == 'pairs':
        weights = pairs_damaged(c, weights, ('wk',), as_halves(head, head), numbers)
    elif kind == 'heads':  # the first two query heads change places
        weights = pairs_damaged(c, weights, ('wq',), lambda i: i, numbers)
        name = 'wq.%d' % numbers[0]
        size = len(weights[name]) // n_heads
        weights[name] = weights[name][size:2 * size] + weights[name][:size] + weights[name][2 * size:]
    elif kind == 'negated':
        weights = scaled(weights, ('wq',), -1, numbers, (0, 1, n_heads))
    else:
        weights = scaled(weights, ('wo',), 0, numbers)
    write_model(out, c, weights)
    with open(out, 'rb') as file:
        return file.read()


class Runner:
    def __init__(self, novel, folder, place):
        self.folder, self.place, self.known = folder, place, {}
        with open(novel, encoding='utf-8') as file:
            self.text = file.read()

    def place_of(self, name, ending):
        return os.path.join(self.folder, name.replace('.gguf', ending))

    def original(self, name):
        return os.path.join(ROOT, name) if name.endswith('.bin') else self.place_of(name, '.bin')

    def tokenizer(self, name):
        return os.path.join(ROOT, 'tokenizer.bin') if name.endswith('.bin') else self.place_of(name, '.tokenizer.bin')

    def changed(self, name, change):
        with open(self.original(name), 'rb') as file:
            data = bytearray(file.read())
        if '=' not in change and change:
            data = with_damage(change, bytes(data), self.place)
        elif change.startswith('window='):
            window, full = change[7:].split(' full=')
            data = with_layers(bytes(data), int(window), [int(i) for i in full.split(',') if i])
        else:
            for field, value in (word.split('=') for word in change.split()):
                offset, kind = OFFSETS[field]
                struct.pack_into('<' + kind, data, offset, float(value) if kind == 'd' else int(float(value)))
        path = os.path.join(self.place, 'cell.bin')
        with open(path, 'wb') as file:
            file.write(data)
        return path

    def run(self, *words):
        return subprocess.run([RUN, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)

    def losses(self, path, name, options, n):
        """-ln p of the last quarter of two windows."""
        part = os.path.join(self.place, 'part.txt')
        with open(part, 'w', encoding='utf-8') as file:
            file.write(self.text[len(self.text) // 3:][:10 * n])
        out = self.run(path, '-z', self.tokenizer(name), '--ppl', part, '-n', n, '--samples', 2, '--per-token', '--tsv',
                       *options.split())
        rows = [line.split('\t') for line in out.stdout.splitlines() if line and line[0] != '#'][1:]
        return [float(row[3]) for row in rows if int(row[1]) >= n * 3 // 4]

    def truth(self, path, name, options, n, undamaged):
        options = options.replace('--like ORIGINAL', '')
        key = name, undamaged, n
        if key not in self.known:
            self.known[key] = self.losses(self.original(name), name, undamaged or '', n)
        return math.exp(statistics.mean(a - b for a, b in zip(self.losses(path, name, options, n), self.known[key])))

    def keys(self, path, name, n):
        """The least share of passkeys found at depths of 0.25 to 0.75."""
        out = self.run(path, '-z', self.tokenizer(name), '--passkey', '-n', n, '--trials', 4, '--tsv').stdout
        rows = [line.split('\t') for line in out.splitlines() if line and line[0] != '#']
        shares = [float(row[-1]) for row in rows[1:] if row[1] == str(n) and 0 < float(row[2]) < 1]
        return min(shares) if shares else math.nan

    def check(self, path, name, options, n, *more):
        options = options.replace('ORIGINAL', self.original(name)).split()
        done = self.run(path, '-z', self.tokenizer(name), '--check', *more, '-n', n, '--tsv', *options)
        lines = done.stdout.splitlines()
        read = [line.split('\t')[-1] for line in lines[1:] if line[:1] != '#']
        tokens = sum(float(cell) for cell in read if cell.isdigit())
        last = lines[-1] if lines else done.stderr.strip()
        return STATUS.get(done.returncode, done.returncode), tokens, last[:220].lstrip('# ')


def load(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding='utf-8') as file:
        return [dict(zip(COLUMNS, line.rstrip('\n').split('\t'))) for line in file][1:]


def measure(path, runner):
    done = {tuple(row[name] for name in COLUMNS[:5]) for row in load(path)}
    if not os.path.exists(path):
        with open(path, 'w', encoding='utf-8') as out:
            print(*COLUMNS, sep='\t', file=out)
    novel = os.path.join(runner.place, 'novel.txt')
    with open(novel, 'w', encoding='utf-8') as file:
        file.write(runner.text[len(runner.text) // 3:][:400000])
    more = again()
    for cell in [*cells(), *more]:
        name, change, options, n, undamaged = cell
        others = (('novel', (novel,)), ('effort', ('--effort', 2))) if cell in more else ()
        hows = (('story', ()), *others)
        if not os.path.exists(runner.original(name)):
            continue
        for how, words in hows:
            if (name, change, options, str(n), how) in done:
                continue
            done.add((name, change, options, str(n), how))
            model = runner.changed(name, change)
            truth = runner.truth(model, name, options, n, undamaged) if how == 'story' else math.nan
            keys = runner.keys(model, name, n) if change.startswith('window=') and how == 'story' else math.nan
            status, tokens, said = runner.check(model, name, options, n, *words)
            with open(path, 'a', encoding='utf-8') as out:
                measured = ['-' if math.isnan(x) else '%.3f' % x for x in (truth, keys)]
                print(name, change, options, n, how, status, '%.0f' % tokens, *measured,
                      said.replace(runner.place + '/', ''), sep='\t', file=out)


def show(path):
    rows, score, first = load(path), {}, {}
    for row in rows:
        key = tuple(row[name] for name in COLUMNS[:4])
        first.setdefault(key, row)
        truth, keys = (first[key][name] for name in ('truth', 'keys'))
        lost = keys not in ('-', '') and float(keys) < 0.5
        kind = 'broken' if lost or float(truth) > BROKEN else 'healthy' if float(truth) < HEALTHY else 'between'
        score[kind, row['status']] = score.get((kind, row['status']), 0) + 1
        turned = {row['status'], first[key]['status']} == {'yes', 'no'}
        if (kind, row['status']) in (('broken', 'yes'), ('healthy', 'no')) or turned:
            print('TURNED' if turned else 'FALSE', *(row[name] for name in COLUMNS), sep='\t')
    print('truth\tyes\tno\tundecided\ttrouble')
    for kind in ('healthy', 'between', 'broken'):
        print(kind, *(score.get((kind, status), 0) for status in ('yes', 'no', 'undecided', 'trouble')), sep='\t')


def main(words):
    if len(words) == 1:
        return show(words[0])
    if len(words) not in (2, 3):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as place:
        measure(words[0], Runner(words[1], words[2] if len(words) == 3 else ROOT, place))


if __name__ == '__main__':
    main(sys.argv[1:])
