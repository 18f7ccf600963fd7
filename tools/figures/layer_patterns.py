#!/usr/bin/env python3
"""Two kinds of layers: models of models/ that differ only in the windows and the rotation of their layers, past the 256
positions of their training.

    tools/figures/layer_patterns.py [TEXT]           perplexity by position to 4,096 [book.txt, new to all of them]
    tools/figures/layer_patterns.py --passkey        keys found in filler, by length and depth
    tools/figures/layer_patterns.py --causes [TEXT]  large angles, a crowd of keys, and both: --spread, rerope

In `rope` all five layers are full. In the others the fourth is, and queries of the rest see 64 positions. `sliding`
has theta 10,000 in all layers. The others differ from it in their full ones: `theta` has 1,000,000 there, those of
`nope` do not turn, and in those of `temperature` queries grow with their position. The other layers of `state` do
not slide: they keep a state, and no keys. `state-nope` is alike but for its fourth layer, which does not turn. '-'
marks a value that a model cannot have.
"""
import math
import sys

from before_rope import CHARACTERS, STORY, name_of, rows_of, run_program

MODELS = {'rope': 'rope', **{name: 'layers-' + name for name in (
    'sliding', 'theta', 'nope', 'temperature', 'state', 'state-nope')}}
UNTURNED = 'state-nope'  # has no RoPE at all, so that --rope is not for it
LENGTH, TRAINED = 4096, 256
FACTOR = LENGTH // TRAINED
PIECE = 32  # of the tokens that are spread
READINGS = {  # of the full layers, of the sliding ones
    'untouched': ('none', None), 'yarn in full layers': ('yarn:factor=%d' % FACTOR, None),
    'yarn in all layers': ('yarn:factor=%d' % FACTOR, 'yarn:factor=%d' % FACTOR),
    'linear in full layers': ('linear:factor=%d' % FACTOR, None), 'a window in full layers': ('window', None),
    'by parts in full layers': ('ntk-by-parts:factor=%d' % FACTOR, None),
    'untouched, no growth': ('none:temperature-beta=0', None)}
OF_GROWTH = list(READINGS)[-2:]  # Ministral 3's YaRN has a = 1, and is by parts
CAUSES = {'none': 'both', 'rerope:near=%d' % (TRAINED // 2): 'crowd'}  # the cause of harm when a whole text is read so
# A file has one L, and in `temperature` it is the 64 positions by which queries grow. A pair makes a quarter as many
# turns within 64 positions as within 256. A window of 256, and rerope, are had with L = 256 and without growth.
BY_TURNS, STILL = ':beta-fast=8:beta-slow=0.25', ':train-ctx=%d:temperature-beta=0' % TRAINED
WITH_OTHER_L = {'yarn': BY_TURNS, 'ntk-by-parts': BY_TURNS, 'window': STILL, 'rerope': STILL}


def can_have(name, reading):
    """Full layers that do not turn have no RoPE to scale, and where all are full, or have a state, none slide."""
    full, sliding = READINGS[reading]
    if reading in OF_GROWTH:
        return name == 'temperature'
    still = name == 'nope' and full.startswith(('yarn', 'linear')) and not sliding
    return not (name in ('rope', 'state') and sliding or still)


def of_model(name, method):
    """A method of full layers as a model has to be asked for it, so that it means the same in all."""
    return method + WITH_OTHER_L.get(method.split(':')[0], '') if name == 'temperature' else method


def options(name, readings):
    """[(readings, options)] for as few runs of the program as do."""
    if name == UNTURNED:
        yield ['untouched'], []
        yield ['a window in full layers'], ['--window', str(TRAINED)]
        return
    alike = {}
    for reading in readings:
        if can_have(name, reading):
            alike.setdefault(READINGS[reading][1], []).append(reading)
    for sliding, group in alike.items():
        full = ['none' if name == 'nope' and sliding else of_model(name, READINGS[reading][0]) for reading in group]
        yield group, ['--rope', ','.join(full)] + (['--rope-sliding', sliding] if sliding else [])


def by_reading(group, rows):
    """{reading: its rows}: the program prints methods in the order in which they were asked for."""
    methods = list(dict.fromkeys(row['method'] for row in rows))
    return {reading: [row for row in rows if row['method'] == method] for reading, method in zip(group, methods)}


def perplexities(name, text, samples=8, run=run_program):
    """{reading: [(from, to, tokens, nll, se)]} in windows of 4,096 tokens; the last row is of all positions."""
    samples = max(1, min(samples, len(text) // (CHARACTERS * LENGTH)))
    found = {}
    for group, asked in options(name, READINGS):
        arguments = ['models/%s.bin' % MODELS[name], '--ppl', '-', '-n', str(LENGTH), '--samples', str(samples)]
        for reading, rows in by_reading(group, rows_of(run(arguments + asked, text))).items():
            found[reading] = [(*(int(row[key]) for key in ('from', 'to', 'tokens')), float(row['nll']),
                               float(row['se'])) for row in rows]
    return found


def keys(name, trials=2, run=run_program):
    """{reading: [(length, depth, trials, correct)]} of passkeys in filler."""
    found = {}
    for group, asked in options(name, READINGS):
        arguments = ['models/%s.bin' % MODELS[name], '--passkey', '-n', str(LENGTH), '--trials', str(trials)]
        for reading, rows in by_reading(group, rows_of(run(arguments + asked))).items():
            found[reading] = [(int(row['length']), float(row['depth']), int(row['trials']), int(row['correct']))
                              for row in rows]
    return found


def last_half(rows, method):
    """(tokens, nll, se) of the last row by position, which has half of the tokens."""
    row = [row for row in rows if row['method'] == method][-2]
    return int(row['tokens']), float(row['nll']), float(row['se'])


def causes(name, text, samples=32, run=run_program):
    """{cause: (nll, se, nll without it)} of the last half of the tokens. For angles: windows of 256 tokens, spread over
    4,096 positions against in place. For the crowd, and for both: windows of 4,096 tokens against a window of 256 in
    the full layers."""
    model = 'models/%s.bin' % MODELS[name]
    few = max(1, min(samples, len(text) // (CHARACTERS * TRAINED)))
    few = ['--ppl', '-', '-n', str(TRAINED), '--samples', str(few)]
    jumps = ['--spread', str(LENGTH), '--piece', str(PIECE)]
    as_is = [] if name == UNTURNED else ['--rope', 'none']
    plain, spread = (last_half(rows_of(run([model] + few + more + as_is, text)), 'none') for more in ([], jumps))
    found = {'angles': (spread[1], spread[2], plain[1])}
    windows = max(1, min(samples // 4, len(text) // (CHARACTERS * LENGTH)))
    asked = {cause: of_model(name, method) for method, cause in CAUSES.items() if name != 'nope' or method == 'none'}
    window = of_model(name, 'window')
    if name == UNTURNED:
        whole, near = (last_half(rows_of(run([model, '--ppl', '-', '-n', str(LENGTH), '--samples', str(windows)] + more,
                                             text)), 'none') for more in ([], ['--window', str(TRAINED)]))
        return {**found, 'both': (whole[1], whole[2], near[1])}
    rows = rows_of(run([model, '--ppl', '-', '-n', str(LENGTH), '--samples', str(windows), '--rope',
                        ','.join([*asked.values(), window])], text))
    near = last_half(rows, window)[1]
    for cause, method in asked.items():
        _, nll, se = last_half(rows, method)
        found[cause] = nll, se, near
    return found


def label(name, reading):
    """A row's name in the lesson."""
    if name == 'nope':
        reading = reading.replace('in all layers', 'in sliding layers')
    return '%s, %s' % (name, {'by parts in full layers': 'yarn, a = 1, in full layers',
                              'untouched, no growth': 'growth taken out'}.get(reading, reading))


def print_table(title, rows, width=13):
    """Of rows (name, {head: cell}), each of which is printed as soon as it is there."""
    heads = []
    for name, cells in rows:
        if not heads:
            heads = list(cells)
            print(title)
            print('%-42s' % '' + ''.join('%*s' % (width, head) for head in heads))
        print('%-42s' % name + ''.join('%*s' % (width, cells.get(head, '-')) for head in heads), flush=True)


def perplexity_rows(text):
    for name in MODELS:
        found = perplexities(name, text)
        for reading in [reading for reading in READINGS if name == 'temperature' or reading not in OF_GROWTH]:
            cells = found.get(reading, [])
            heads = ['to %s' % format(to, ',') for _, to, *_ in cells[:-1]] + ['all']
            yield label(name, reading), {head: '%.1f ±%.1f' % (math.exp(nll), math.exp(nll) * se)
                                         for head, (*_, nll, se) in zip(heads, cells)}


def print_perplexities(text, path):
    print_table('perplexity of %s by position, trained on %d' % (name_of(path), TRAINED), perplexity_rows(text))


def by_depth(cells, length):
    """'5 of 10  11012' of a length: all keys, and those at each depth."""
    here = sorted((depth, right, asked) for found, depth, asked, right in cells if found == length)
    _, right, asked = zip(*here)
    return '%d of %d  %s' % (sum(right), sum(asked), ''.join(map(str, right)))


def key_rows():
    for name in MODELS:
        for reading, cells in keys(name).items():
            lengths = sorted({length for length, *_ in cells})
            yield label(name, reading), {format(length, ','): by_depth(cells, length) for length in lengths}


def print_keys():
    print_table('passkeys found in filler, by length; behind it by depth, of two each, from the beginning to the end',
                key_rows(), 16)


def cause_rows(text):
    for name in MODELS:
        found = causes(name, text)
        yield name, {head: '%.3f ±%.3f' % (math.exp(found[cause][0] - found[cause][2]), found[cause][1])
                     for head, cause in (('angles alone', 'angles'), ('crowd alone', 'crowd'), ('both', 'both'))
                     if cause in found}


def print_causes(text, path):
    print_table('perplexity of the last half of %s, times that without the cause' % name_of(path), cause_rows(text), 15)


def main(arguments):
    asked = [a for a in arguments if a.startswith('-')]
    paths = [a for a in arguments if a not in asked]
    if len(paths) > 1 or len(asked) > 1 or set(asked) - {'--passkey', '--causes'}:
        sys.exit(__doc__)
    if asked == ['--passkey']:
        return print_keys()
    path = paths[0] if paths else STORY
    try:
        with open(path, 'rb') as file:
            text = file.read()
    except OSError as error:
        sys.exit('layer_patterns.py: %s: %s' % (path, error.strerror))
    return (print_causes if asked else print_perplexities)(text, path)


if __name__ == '__main__':
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # finished rows are printed
        sys.exit(130)
