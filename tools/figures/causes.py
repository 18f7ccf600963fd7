#!/usr/bin/env python3
"""Measures and draws the figures about causes, by Python's standard library alone:

    python3 tools/figures/causes.py              writes docs/figures/temperature.svg and hands.svg from the tables
                                                 beside them
    python3 tools/figures/causes.py --measure    makes these tables by ./run first (5 minutes on two cores)

temperature   perplexity over the attention factor at three scales, beside YaRN's formula (temperature.tsv) hands
the shares of bands of pairs in a hidden number's score at the trained length, past it, and with YaRN, in the heads
              that lose it (why-model.tsv, and why-smollm2.tsv where SmolLM2 was brought: tools/released.py smollm2)

tests/test_figures.py compares the files with what this draws.
"""
import math
import os
import subprocess
import sys

from svg import BLUE, FIGURES, GREEN, GREY, INK, ORANGE, RED, ROOT, Picture

FACTORS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3)
SCALES = {4: (2048, 8), 8: (4096, 4), 16: (8192, 2)}  # s: tokens of a window, windows


def formula(s):
    """YaRN's attention factor."""
    return 0.1 * math.log(s) + 1


# ---- measurements ----

def asked(*arguments):
    return subprocess.run([os.path.join(ROOT, 'run'), *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE,
                          check=True).stdout.decode()


def rows_of(text):
    """The rows of a table with tabs, by their columns."""
    lines = [line.split('\t') for line in text.splitlines() if not line.startswith('#')]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def temperatures():
    """Perplexity in the last half of windows of s times the trained length, by factor."""
    out = ['# perplexity of book.txt by model.bin, in the second half of windows of s times 512 tokens',
           's\tattention_factor\tnll\tppl\tse']
    for s, (n, samples) in SCALES.items():
        factors = [*FACTORS, round(formula(s), 5)]
        rows = rows_of(asked('model.bin', '--ppl', 'book.txt', '-n', n, '--samples', samples, '--tsv', '--rope',
                             'ntk-by-parts:factor=%d:attention-factor=%s' % (s, ','.join(map(str, factors)))))
        found = [row for row in rows if (row['from'], row['to']) == (str(n // 2), str(n))]
        out += ['%d\t%g\t%s\t%s\t%s' % (s, factor, row['nll'], row['ppl'], row['se'])
                for factor, row in zip(factors, found)]
    return '\n'.join(out) + '\n'


def causes(model, n):
    """The table of --why, and the command; not its words."""
    command = model, '--why', '-n', n, '-s', 1, '--rope', 'yarn'
    rows = [line for line in asked(*command, '--tsv').splitlines() if not line.startswith('#')]
    return '\n'.join(['# ./run ' + ' '.join(map(str, command)), *rows]) + '\n'


def measure():
    models = {'why-model.tsv': ('model.bin', 2048), 'why-smollm2.tsv': ('smollm2.gguf', 16384)}
    made = {name: causes(model, n) for name, (model, n) in models.items() if os.path.exists(os.path.join(ROOT, model))}
    for name, text in {'temperature.tsv': temperatures(), **made}.items():
        with open(os.path.join(FIGURES, name), 'w', encoding='utf-8') as file:
            file.write(text)


def table(name):
    with open(os.path.join(FIGURES, name), encoding='utf-8') as file:
        return rows_of(file.read())


# ---- pictures ----

def temperature():
    picture = Picture(760, 400, "YaRN's temperature, measured",
                      'perplexity of book.txt by model.bin past half of the length, over that with no temperature; '
                      'dots: the formula 0.1 ln s + 1')
    left, right, top, bottom, low, high = 60, 640, 70, 340, 0.87, 1.02
    rows = table('temperature.tsv')

    def x(factor):
        return left + (right - left) * (factor - 1) / 0.3

    def y(share):
        return bottom - (bottom - top) * (share - low) / (high - low)
    for share in 0.88, 0.92, 0.96, 1.0:
        picture.line(left, y(share), right, y(share))
        picture.text(left - 8, y(share) + 4, '%.2f' % share, 12, GREY, 'end')
    for factor in FACTORS:
        picture.text(x(factor), bottom + 20, '%g' % factor, 12, GREY, 'middle')
    picture.text((left + right) / 2, bottom + 44, 'attention factor', 13, INK, 'middle')
    for s, color in zip(SCALES, (GREEN, ORANGE, BLUE)):
        of = sorted((float(row['attention_factor']), float(row['ppl'])) for row in rows if row['s'] == str(s))
        first = of[0][1]
        points = [(x(factor), y(ppl / first)) for factor, ppl in of]
        picture.path(points, color)
        by = min(of, key=lambda pair: abs(pair[0] - formula(s)))
        picture.add('circle', cx=x(by[0]), cy=y(by[1] / first), r=5.0, fill=color)
        picture.text(right + 8, points[-1][1] + 4, 's = %d (%.1f)' % (s, first), 13, color)
    return picture


BANDS = '8 turns or more', '1 to 8 turns', '0.2 to 1 turn', 'less than 0.2 turns'


def losers(rows):
    """The heads that have half of their share of the number at the trained length, and lose half of it there, by two
    standard errors."""
    found = set()
    for row in (row for row in rows if row['part'] == 'share'):
        trained, control, plain = (float(row[name]) for name in ('trained', 'control', 'plain'))
        error = math.hypot(float(row['control_se']), float(row['plain_se']))
        if control >= trained / 2 > 0 and plain < control / 2 and control - plain > 2 * error:
            found.add((row['layer'], row['head']))
    return found


def hands():
    models = [(name, said) for name, said in (('why-model.tsv', 'model.bin, at 2,048 (trained on 512)'),
                                              ('why-smollm2.tsv', 'SmolLM2, at 16,384 (trained on 8,192)'))
              if os.path.exists(os.path.join(FIGURES, name))]
    picture = Picture(760, 90 + 190 * len(models), 'Which pairs find a hidden number',
                      'score of its key less the mean key, by pairs; mean of the heads that lose it; turns within the '
                      'trained length')
    for k, (name, said) in enumerate(models):
        rows, top = table(name), 80 + 190 * k
        heads = losers(rows)
        rows = [row for row in rows if (row['layer'], row['head']) in heads]
        picture.text(16, top + 4, said, 14, INK, weight='bold')
        given = {(band, column): sum(float(row[column]) for row in rows if row['part'] == band) / len(heads)
                 for band in BANDS for column in ('control', 'plain', 'method')}
        zero, scale = top + 130, 100 / max(1, *given.values())
        picture.line(16, zero, 744, zero, GREY)
        for i, band in enumerate(BANDS):
            left = 40 + 178 * i
            picture.text(left + 60, zero + 34, band, 12.5, INK, 'middle')
            for j, (column, color) in enumerate((('control', GREEN), ('plain', RED), ('method', BLUE))):
                value = given[band, column]
                height = abs(value) * scale
                picture.box(left + 42 * j, zero - height if value > 0 else zero, 34, height, color)
                top = zero - max(value, 0) * scale - 5
                picture.text(left + 42 * j + 17, top, '%.1f' % value, 11.5, color, 'middle')
    bottom = 80 + 190 * len(models)
    key = ('at the trained length', GREEN), ('past it', RED), ('past it, with yarn', BLUE)
    for j, (said, color) in enumerate(key):
        picture.box(200 + 200 * j, bottom - 14, 12, 12, color)
        picture.text(218 + 200 * j, bottom - 4, said, 12.5)
    return picture


DRAWN = {'temperature': temperature, 'hands': hands}


def main(arguments):
    if arguments not in ([], ['--measure']):
        sys.exit('causes.py: %s is no option (expected --measure, or nothing)' % arguments[0])
    if arguments:
        measure()
    for name, draw in DRAWN.items():
        with open(os.path.join(FIGURES, name + '.svg'), 'w', encoding='utf-8') as file:
            file.write(str(draw()))


if __name__ == '__main__':
    main(sys.argv[1:])
