#!/usr/bin/env python3
"""The table of docs/check.md: what --check finds by jumps beside what it finds by reading whole, for settings that hold
and settings that break.

usage: check_table.py OUT.tsv LENGTH [TEXT ...]     measures what OUT.tsv lacks (made-up text where none is given)
       check_table.py OUT.tsv                       prints the table, and which limits part what holds from what breaks

It takes hours on two cores: run it with nice. What has been measured is kept, so that it may be stopped and started."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = 'model.bin'
# (model, options) by length where they are other than these, each with what it is known to do: lesson and tests tell.
BREAKS = [(MODEL, o) for o in ('--rope none', '--rope none --logn', '--rope linear', '--rope dynamic-linear',
                               '--rope yarn --factor 3', '--rope ntk --factor 3', '--rope ntk-by-parts --factor 2',
                               '--rope llama3 --factor 2', '--rope leaky-rerope:k=1.5', '--rope self-extend:group=2',
                               '--rope none --theta 1000', '--rope none --theta 500000')] + \
         [('model-8k.bin', o) for o in ('--rope none', '--rope linear', '--rope yarn --factor 3')] + \
         [('models/%s.bin' % kind, '') for kind in ('rope', 'sinusoidal', 'none')]
HOLDS = [(MODEL, o) for o in ('--rope ntk', '--rope yarn', '--rope yarn --ramp turns', '--rope yarn --logn',
                              '--rope ntk-by-parts', '--rope dynamic-yarn', '--rope dynamic-ntk', '--rope rerope',
                              '--rope rerope --logn', '--rope leaky-rerope', '--rope self-extend', '--rope dca',
                              '--rope yarn+dca', '--rope streaming', '--rope lm-infinite', '--rope window')] + \
        [('model-8k.bin', '')] + \
        [('models/%s.bin' % kind, '') for kind in ('alibi', 'shaw', 'transformer-xl', 'disentangled')]
COLUMNS = 'model options text length jumps whole jump_keys keys'.split()
ROWS = {'jumps': 'jumps', 'perplexity': 'whole', 'jump-retrieval': 'jump_keys', 'retrieval': 'keys'}


def load(path):
    """{(model, options, text, length): {column: value}}"""
    if not os.path.exists(path):
        return {}
    rows = [dict(zip(COLUMNS, line.rstrip('\n').split('\t'))) for line in open(path)]
    return {(r['model'], r['options'], r['text'], int(r['length'])): r for r in rows}


def measure(model, options, text, length):
    """The rows of one run of --check, by length."""
    command = [os.path.join(ROOT, 'run'), os.path.join(ROOT, model), '--check', *([text] if text else []), '-n',
               str(length), '--budget', '100000', '--tsv', *options.split()]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()
    found = {}
    for check, at, value, _, verdict in (line.split('\t') for line in out.splitlines() if line.count('\t') == 4):
        if check in ROWS and verdict in ('ok', 'fail'):
            found.setdefault(int(at), {})[ROWS[check]] = value
    return found


def add(path, length, texts):
    done = load(path)
    with open(path, 'a') as out:
        for text in texts:
            name = os.path.basename(text) if text else 'made up'
            for model, options in BREAKS + HOLDS:
                if (model, options, name, length) in done:
                    continue
                for at, values in sorted(measure(model, options, text, length).items()):
                    row = dict(model=model, options=options, text=name, length=str(at), **values)
                    out.write('\t'.join(row.get(column, '-') for column in COLUMNS) + '\n')
                out.flush()
                print('%s %s: %s to %d' % (model, options, name, length), file=sys.stderr)


def show(path):
    done = load(path)
    texts, lengths = sorted({key[2] for key in done}), sorted({key[3] for key in done})
    for kind, settings in ('breaks', BREAKS), ('holds', HOLDS):
        for model, options in settings:
            for text in texts:
                cells = []
                for length in lengths:
                    row = done.get((model, options, text, length))
                    cells.append(' / '.join(shorten(row[c]) for c in ('jumps', 'whole', 'jump_keys', 'keys'))
                                 if row else '')
                print('| %s | %s %s | %s | %s |' % (kind, model, options, text, ' | '.join(cells)))


def shorten(value):
    return re.sub(r'^0\.', '.', '%.2f' % float(value)) if re.fullmatch(r'[\d.e+-]*\d[\d.e+-]*', value) else '-'


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) == 2:
        show(sys.argv[1])
    else:
        add(sys.argv[1], int(sys.argv[2]), sys.argv[3:] or [None])
