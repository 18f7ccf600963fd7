#!/usr/bin/env python3
"""The rows of docs/check-verdicts.tsv: --check's answers for settings, beside the truth from novels that are read
whole.

usage: check_table.py OUT.tsv NOVEL [NOVEL ...]   measures what OUT.tsv lacks
       check_table.py OUT.tsv                     prints the table, and where verdicts and truth disagree
       check_table.py --more OUT.tsv ...          the same for other betas, factors, maps and caches

The verdicts are those of the built-in story, and of the first novel.

The truth of a setting at a length: perplexity of the second half of a text of that length, in shares of the same
tokens' where a short window reads them, by plain RoPE or the file's own settings. The text begins a third into the
novel. On two idle cores all takes about half an hour. Finished measurements are kept, so that it may be stopped."""

import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SETTINGS = [('model.bin', '--rope ' + options) for options in (
    'none', 'linear', 'ntk', 'yarn', 'yarn --factor 4', 'yarn --factor 8', 'yarn --factor 16', 'yarn --factor 32',
    'yarn --factor 64', 'yarn --factor 256', 'dynamic-yarn', 'ntk-by-parts', 'rerope', 'self-extend', 'dca')] + \
    [('model-8k.bin', '')]
LENGTHS = [2048, 8192, 16384]
CELLS = [(model, options, length) for length in LENGTHS for model, options in SETTINGS]
MORE = [('model.bin', '--rope ' + options, length) for options, length in (
    ('yarn --beta-fast 8', 4096), ('yarn --beta-fast 8', 8192), ('yarn --beta-fast 128', 4096),
    ('yarn --beta-slow 4', 4096), ('yarn --attention-factor 1', 4096), ('yarn --attention-factor 1.5', 4096),
    ('yarn --ramp turns', 4096), ('yarn --factor 1.5', 1024), ('yarn --factor 3', 1536), ('yarn --factor 12', 4096),
    ('linear --factor 1.5', 768), ('linear --factor 2', 1024), ('ntk --factor 4', 1024), ('ntk --factor 32', 4096),
    ('dynamic-ntk', 2048), ('dynamic-linear', 1024), ('none', 768), ('none', 1024), ('none --logn', 1024),
    ('llama3 --factor 8', 4096), ('llama3 --factor 16 --low-freq-factor 2', 4096), ('leaky-rerope', 4096),
    ('rerope --near 128', 2048), ('self-extend --group 16', 4096), ('dca --chunk 128', 2048), ('streaming', 2048),
    ('lm-infinite', 2048), ('window', 2048), ('yarn+dca', 4096), ('yarn --logn', 4096), ('yarn --kv q8', 4096),
    ('yarn --kv q4', 4096))] + [('model-8k.bin', options, length) for options, length in (
        ('--kv q8', 4096), ('--kv q4', 4096), ('--rope none', 1024), ('--rope dynamic-yarn', 4096))]
BUDGETS = [0]  # no limit: the work is counted in tokens. The file has earlier versions' of 5 to 60 seconds, too
READ = 'check of '  # a novel, in place of the built-in story
WINDOW, BLOCK = 512, 64
HOLDS, BREAKS = 1.15, 1.4  # a truth below or above is clear


def per_token(model, path, *options):
    """[(token, -ln p)] of --ppl's windows, one after another."""
    command = [os.path.join(ROOT, 'run'), os.path.join(ROOT, model), '--ppl', path, '--per-token', '--tsv', *options]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    rows = [line.split('\t') for line in out.splitlines() if line[0] != '#']
    return [(int(row[2]), float(row[3])) for row in rows[1:]]


def part_of(novel, length, folder):
    """A file with the text from a third of the novel on, enough for so many tokens."""
    with open(novel, encoding='utf-8') as file:
        text = file.read()
    path = os.path.join(folder, 'part.txt')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text[len(text) // 3:][:8 * length])
    return path


def truth(model, options, novel, length):
    """The ratio and its standard error."""
    with tempfile.TemporaryDirectory() as folder:
        whole = per_token(model, part_of(novel, length, folder), '-n', str(length), *options.split())
        ids, half = [token for token, _ in whole], WINDOW // 2
        first = length // 2 - 1 - half
        count = (len(ids) - first) // half - 1
        path = os.path.join(folder, 'ids.txt')
        with open(path, 'w') as file:
            file.write(' '.join(map(str, ids[first:first + half * (count + 1)])))
        own = ['--rope', 'none'] if model == 'model.bin' else []
        short = per_token(model, path, '--ids', '-n', str(WINDOW), '--samples', str(count), *own)
    differences = []
    for window in range(count):
        for place in range(half, WINDOW):
            token, alone = short[window * (WINDOW - 1) + place - 1]
            same, together = whole[first + window * half + place]
            assert token == same, 'the windows hold the same tokens'
            differences.append(together - alone)
    blocks = [statistics.mean(differences[i:i + BLOCK]) for i in range(0, len(differences), BLOCK)]
    ratio = math.exp(statistics.mean(blocks))
    return ratio, ratio * statistics.stdev(blocks) / math.sqrt(len(blocks))


def verdict(model, options, length, budget, *novel):
    """yes, no or undecided, and the last line; of the built-in story unless a novel is given."""
    command = [os.path.join(ROOT, 'run'), os.path.join(ROOT, model), '--check', *novel, '-n', str(length), '--tsv',
               '--budget', str(budget), *options.split()]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return {0: 'yes', 1: 'no', 3: 'undecided'}[done.returncode], done.stdout.splitlines()[-1][2:]


def load(path):
    """{(model, options, length, what): [values]}"""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        rows = [line.rstrip('\n').split('\t') for line in file]
    return {(row[0], row[1], int(row[2]), row[3]): row[4:] for row in rows}


def measure(path, novels, cells):
    done = load(path)
    with open(path, 'a') as out:
        def add(key, measured):
            if key in done:
                return
            print(*key, *measured(), sep='\t', file=out, flush=True)
        for key in cells:
            model, options, length = key
            for novel in novels:
                add((*key, os.path.basename(novel)), lambda: truth(model, options, novel, length))
            for budget in BUDGETS:
                add((*key, '%d s' % budget), lambda: verdict(model, options, length, budget))
            add((*key, READ + os.path.basename(novels[0])), lambda: verdict(model, options, length, 0, novels[0]))


def by_budget(answers):
    """The answer of all budgets, or the first one's and the budget from which on it is another."""
    words = answers[:1]
    for budget, before, answer in zip(BUDGETS[1:], answers, answers[1:]):
        if answer != before:
            words.append('%s from %d s on' % (answer, budget))
    return ', '.join(words)


def show(path, wanted):
    done = load(path)
    novels = sorted({key[3] for key in done if not re.match(r'\d+ s', key[3])})
    own, others = ['%d s' % budget for budget in BUDGETS], sorted({key[3] for key in done if key[3].startswith(READ)})
    heads = ['model', 'settings', 'length', *novels, '%s to %s' % (BUDGETS[0], own[-1]), *others,
             own[-1] + ', in words']
    print('| %s |\n|%s' % (' | '.join(heads), ' --- |' * len(heads)))
    faults, cells = [], 0
    order = list(dict.fromkeys(cell[:2] for cell in wanted))
    for model, options, length in sorted(wanted, key=lambda cell: order.index(cell[:2])):
        found = {key[3]: values for key, values in done.items() if key[:3] == (model, options, length)}
        truths = [float(found[novel][0]) for novel in novels if novel in found]
        shown = ['%.2f +- %.2f' % tuple(map(float, found[novel])) if novel in found else '' for novel in novels]
        answers = [found.get(what, ['', '']) for what in own + others]
        print('| `%s` | %s | %s | %s | %s | %s |' % (
            model, '`%s`' % options if options else 'its own', format(length, ','), ' | '.join(shown),
            ' | '.join([by_budget([answer for answer, _ in answers[:len(own)]])] +
                       [answer for answer, _ in answers[len(own):]]), answers[len(own) - 1][1]))
        said = {answer for answer, *_ in found.values()} & {'yes', 'no'}
        cells += 1
        if len(said) > 1:
            faults.append('%s %s at %d: both yes and no' % (model, options, length))
        # Novels have no evidence about keys, or about the lengths that settings are made for.
        by_reading = any(answer == 'no' and re.search('perplexity|short texts', words) for answer, words in answers)
        if truths and 'yes' in said and min(truths) > BREAKS or by_reading and max(truths or [9]) < HOLDS:
            faults.append('%s %s at %d: %s' % (model, options, length, found))
    print('\n%d cells, %d faults\n%s' % (cells, len(faults), '\n'.join(faults)))


if __name__ == '__main__':
    words = sys.argv[1:]
    wanted = MORE if words[:1] == ['--more'] else CELLS
    words = words[wanted is MORE:]
    if not words:
        sys.exit(__doc__)
    if words[1:]:
        measure(words[0], words[1:], wanted)
    else:
        show(words[0], wanted)
