#!/usr/bin/env python3
"""Train short, test long: the models of models/, alike but for how they know positions, on texts of 64 to 4,096.

    tools/figures/before_rope.py [TEXT]           perplexity in windows of each length [book.txt, new to all of them]
    tools/figures/before_rope.py --passkey        keys found, by length
    tools/figures/before_rope.py --copy [TEXT]    pages whose second copy has half the perplexity of the first

All were trained on windows of 256. Learned positions end there: '-' stands for what there is not.
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = ['rope', 'none', 'learned', 'sinusoidal', 'alibi', 'shaw', 'transformer-xl', 'disentangled']
LENGTHS = [64, 128, 256, 512, 1024, 2048, 4096]
TRAINED = 256
STORY = os.path.join(ROOT, 'book.txt')
CHARACTERS = 5  # of a token, at most: so many windows of a text do not overlap


def lengths_of(name, least=64):
    return [n for n in LENGTHS if n >= least and (name != 'learned' or n <= TRAINED)]


def name_of(path):
    """The name of a text in tables and figures: great-expectations.txt is Great Expectations."""
    if os.path.exists(path) and os.path.samefile(path, STORY):
        return 'the story that ships (book.txt)'
    return os.path.basename(path).partition('.')[0].replace('-', ' ').title()


def run_program(arguments, text=b''):
    lost = [a for a in arguments if a.startswith('models/') and not os.path.exists(os.path.join(ROOT, a))]
    if lost:
        sys.exit('%s: %s is not here: the small models are packed apart (docs/manual.md#packaging)' % (
            os.path.basename(sys.argv[0]), lost[0]))
    done = subprocess.run(['./run'] + arguments, cwd=ROOT, input=text, capture_output=True)
    if done.returncode:
        sys.exit('before_rope.py: ' + done.stderr.decode(errors='replace').strip().split('\n')[-1])
    return done.stdout


def rows_of(output):
    """A table of ./run as dictionaries."""
    names, *rows = [line.split('\t') for line in output.decode().splitlines() if not line.startswith('#')]
    return [dict(zip(names, row)) for row in rows]


def perplexities(name, text, run=run_program, options=()):
    """(length, windows, nll, se) of one model: windows of each length side by side, at most 64, and 65,536 tokens."""
    found = []
    for length in lengths_of(name):
        windows = max(1, min(64, 65536 // length, len(text) // (CHARACTERS * length)))
        last = rows_of(run(['models/%s.bin' % name, '--ppl', '-', '-n', str(length), '--samples', str(windows),
                            *options], text))[-1]
        found.append((length, windows, float(last['nll']), float(last['se'])))
    return found


def accuracies(name, task, text=b'', trials=4, run=run_program, options=()):
    """(length, trials, share) of a task that ./run measures."""
    longest = lengths_of(name)[-1]
    arguments = ['models/%s.bin' % name, '--tasks', task, '-n', str(longest), '--trials', str(trials),
                 *options]
    sums = {}
    for row in rows_of(run(arguments + (['-f', '-'] if text else []), text)):
        asked, right = sums.get(int(row['length']), (0, 0))
        sums[int(row['length'])] = asked + int(row['trials']), right + int(row['correct'])
    return [(length, asked, right / asked) for length, (asked, right) in sorted(sums.items())]


def print_table(title, rows):
    """Of rows (name, {length: text}), each of which is printed as soon as it is there."""
    lengths = lengths_of(NAMES[0])
    print(title)
    print('%-16s' % '' + ''.join('%9s' % format(length, ',') for length in lengths), flush=True)
    for name, row in rows:
        print('%-16s' % name + ''.join('%9s' % row.get(length, '-') for length in lengths), flush=True)


def main(arguments):
    options = [a for a in arguments if a.startswith('-')]
    paths = [a for a in arguments if a not in options]
    if len(paths) > 1 or len(options) > 1 or set(options) - {'--passkey', '--copy'}:
        sys.exit(__doc__)
    path = paths[0] if paths else STORY
    try:
        with open(path, 'rb') as file:
            text = file.read()
    except OSError as error:
        sys.exit('before_rope.py: %s: %s' % (path, error.strerror))
    if options:
        task = options[0][2:]
        hay = text if task == 'copy' else b''
        rows = ((name, {n: '%.2f' % share for n, _, share in accuracies(name, task, hay)}) for name in NAMES)
        place = 'filler' if task == 'passkey' else name_of(path)
        print_table('%s in %s: share of what was asked for that came, by length' % (task, place), rows)
        return
    rows = ((name, {n: '%.1f' % 2.718281828459045 ** nll for n, _, nll, _ in perplexities(name, text)})
            for name in NAMES)
    print_table('perplexity of %s in windows of so many tokens, trained on %d' % (name_of(path), TRAINED), rows)


if __name__ == '__main__':
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # finished rows are printed
        sys.exit(130)
