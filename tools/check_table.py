#!/usr/bin/env python3
"""The table of docs/check.md: what --check finds by jumps beside what it finds by reading whole, in settings that
hold and settings that break.

usage: check_table.py OUT.tsv LENGTH [TEXT ...]          measures what OUT.tsv lacks; without TEXT on made-up text
       check_table.py --jumps OUT.tsv LENGTH [TEXT ...]  likewise, but ends each run before texts are read whole
       check_table.py OUT.tsv                            prints the table, and what limits would part

On two idle cores it takes some five minutes for made-up text at 8,192, and a minute for each text by jumps: run it
with nice. What has been measured is kept, so that it may be stopped and started."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETTINGS = [('model.bin', '--rope ' + options) for options in (
    'none', 'none --logn', 'linear', 'dynamic-linear', 'yarn --factor 3', 'ntk --factor 3', 'ntk-by-parts --factor 2',
    'llama3 --factor 2', 'leaky-rerope:k=1.5', 'self-extend:group=2', 'none --theta 1000', 'none --theta 500000',
    'ntk', 'yarn', 'yarn --ramp turns', 'yarn --logn', 'ntk-by-parts', 'dynamic-yarn', 'dynamic-ntk', 'rerope',
    'rerope --logn', 'leaky-rerope', 'self-extend', 'dca', 'yarn+dca', 'streaming', 'lm-infinite', 'window')] + \
    [('model-8k.bin', options) for options in ('', '--rope none', '--rope linear', '--rope yarn --factor 3')] + \
    [('models/%s.bin' % kind, '') for kind in (
        'rope', 'sinusoidal', 'none', 'alibi', 'shaw', 'transformer-xl', 'disentangled')]
COLUMNS = 'model options text length jumps whole jump_keys keys'.split()
ROWS = {'jumps': 'jumps', 'perplexity': 'whole', 'jump-retrieval': 'jump_keys', 'retrieval': 'keys'}
# docs/check.md says how the first was chosen.
MOST_BY_JUMPS, MOST_WHOLE, LEAST_KEYS = 1.25, 1.25, 0.6


def load(path):
    """{(model, options, text, length): {column: value}}"""
    if not os.path.exists(path):
        return {}
    rows = [dict(zip(COLUMNS, line.rstrip('\n').split('\t'))) for line in open(path)]
    return {(r['model'], r['options'], r['text'], int(r['length'])): r for r in rows}


def measure(model, options, text, length, by_jumps):
    """The rows of one run of --check, by length."""
    command = [os.path.join(ROOT, 'run'), os.path.join(ROOT, model), '--check', *([text] if text else []), '-n',
               str(length), '--budget', '100000', '--tsv', *options.split()]
    found = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        for line in process.stdout:
            check, at, value, _, verdict = line.rstrip('\n').split('\t') if line.count('\t') == 4 else [''] * 5
            if by_jumps and check == 'step-by-step':
                process.kill()
            if check in ROWS and verdict in ('ok', 'fail'):
                found.setdefault(int(at), {})[ROWS[check]] = value
    return found


def add(path, length, texts, by_jumps):
    done = load(path)
    with open(path, 'a') as out:
        for text in texts:
            name = os.path.basename(text) if text else 'made up'
            for model, options in SETTINGS:
                if (model, options, name, length) in done:
                    continue
                for at, values in sorted(measure(model, options, text, length, by_jumps).items()):
                    row = dict(model=model, options=options, text=name, length=str(at), **values)
                    out.write('\t'.join(row.get(column, '-') for column in COLUMNS) + '\n')
                out.flush()
                print('%s %s: %s to %d' % (model, options, name, length), file=sys.stderr)


def number(row, column):
    """A value, or None where there is none: a model that finds no keys in a short text is not judged by keys."""
    value = row.get(column, '-') if row else '-'
    return None if value == '-' else float(value)


def breaks(row, ratio, keys, most):
    """Whether a row says so; None where it does not say."""
    ratio, keys = number(row, ratio), number(row, keys)
    return None if ratio is None else ratio > most or (keys is not None and keys < LEAST_KEYS)


def shown(value):
    return '' if value is None else '%.2f' % value


def show(path):
    done = load(path)
    texts, longest = sorted({key[2] for key in done} - {'made up'}), max(key[3] for key in done)
    print('| model | settings | 2,048: jumps | whole | %s: jumps | whole | keys by jumps | whole | verdicts | %s |' % (
        format(longest, ','), ' | '.join(texts)))
    print('| --- ' * 2 + '| ---: ' * 6 + '| --- ' + '| ---: ' * len(texts) + '|')
    jumps = {}
    for model, options in SETTINGS:
        near, far = (done.get((model, options, 'made up', n)) for n in (2048, longest))
        by_jumps, whole = breaks(far, 'jumps', 'jump_keys', MOST_BY_JUMPS), breaks(far, 'whole', 'keys', MOST_WHOLE)
        verdict = {True: 'breaks', False: 'holds', None: '-'}
        others = [number(done.get((model, options, text, longest)), 'jumps') for text in texts]
        if whole is not None:
            for text, value in zip(['made up'] + texts, [number(far, 'jumps')] + others):
                jumps.setdefault(text, {True: [], False: []})[whole].append((value, model + ' ' + options))
        cells = [number(near, 'jumps'), number(near, 'whole'), *(number(far, c) for c in COLUMNS[4:])]
        print('| `%s` | %s | %s | %s | %s |' % (
            model, '`%s`' % options if options else 'its own', ' | '.join(map(shown, cells)),
            verdict[whole] + ('' if by_jumps == whole else ', by jumps it ' + verdict[by_jumps]),
            ' | '.join(map(shown, others))))
    for text, found in jumps.items():
        for whole, name in (True, 'break'), (False, 'hold'):
            values = sorted((value, setting) for value, setting in found[whole] if value is not None)
            print('%s: by jumps those that %s whole: %s' % (text, name, '; '.join('%.2f %s' % v for v in values)))


if __name__ == '__main__':
    arguments = [a for a in sys.argv[1:] if a != '--jumps']
    if not arguments:
        sys.exit(__doc__)
    if len(arguments) == 1:
        show(arguments[0])
    else:
        add(arguments[0], int(arguments[1]), arguments[2:] or [None], '--jumps' in sys.argv)
