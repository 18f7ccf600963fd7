#!/usr/bin/env python3
"""The ranges of docs/class.md: the results of its commands on other texts, so that a teacher need not quote one text's
digits.

    tools/class/class_ranges.py TEXT...    measures each text in three places, and prints the table for docs/class.md
    tools/class/class_ranges.py --hold     whether book.txt, from two thirds on, lies within the ranges given there

A range goes from the least to the largest figure of all places, rounded outward. A place is the beginning of a text,
a third of it or two thirds, and is read by the commands of the class as they are. A place takes some ten seconds of a
processor.
"""
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACES = (0, 1 / 3, 2 / 3)
HEAD = '| command or exercise | figure | four texts |'

# A command of the class by name. TEXT is the part of a text that is read; BEGINNING, its first 6,400 bytes.
COMMANDS = {
    'far': 'model.bin --ppl TEXT -n 4096 --rope none,linear,yarn,window',
    'attention': 'model.bin --attn 3.3 -f BEGINNING -n 4096 --rope none',
    'repaired': 'model.bin --attn 3.3 -f BEGINNING -n 4096 --rope yarn',
    'full': 'models/rope.bin --ppl TEXT -n 4096 --rope none',
    'sliding': 'models/layers-sliding.bin --ppl TEXT -n 4096 --rope none',
    'tuned': 'model-8k.bin --ppl TEXT -n 2048 --reading hf5,exllamav2',
    'jumps': 'model.bin --ppl TEXT -n 1024 --spread 8192 --rope none,yarn,window'}

# (command or exercise, name, unit, command, row, to position, command, row of the reference). Without the last, the
# figure is the share of attention past the trained length.
FIGURES = [
    ('2', '`none` is worse than `window`, from 512 to 1,023', '%', 'far', 'none', 1024, 'far', 'window'),
    ('2', '`none` is worse than `window`, from 1,024 to 2,047', '%', 'far', 'none', 2048, 'far', 'window'),
    ('3', 'attention past 512 tokens, plain RoPE', 'share', 'attention', '', 512, '', ''),
    ('3', 'attention past 512 tokens, `yarn`', 'share', 'repaired', '', 512, '', ''),
    ('4', '`linear` relative to `window`', 'times', 'far', 'linear', 0, 'far', 'window'),
    ('6', '`yarn` is worse than `window`, from 2,048 to 4,095', '%', 'far', 'yarn', 4096, 'far', 'window'),
    ('9', 'all layers see far, relative to one of five, from 2,048 to 4,095', 'times', 'full', 'none', 4096,
     'sliding', 'none'),
    ('exercise 7', 'ExLlamaV2 is worse than Hugging Face at 2,048', '%', 'tuned', 'exllamav2:yarn', 0, 'tuned',
     'hf5:yarn'),
    ('exercise 8', '`none` relative to `yarn`, in the last four pieces', 'times', 'jumps', 'none', 8192, 'jumps',
     'yarn')]


def place_of(text, place):
    """The text from a place on, at the beginning of a line; no more than the commands read."""
    at = int(len(text) * place)
    return text[text.index('\n', at) + 1 if at else 0:][:40000]


def measured(text):
    """{name of a command: the rows of its table, as lists of words} of one place, which is a string."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, part in (('TEXT', text.encode()), ('BEGINNING', text.encode()[:6400])):
            paths[name] = os.path.join(folder, name)
            with open(paths[name], 'wb') as file:
                file.write(part)
        found = {}
        for name, command in COMMANDS.items():
            words = [paths.get(word, word) for word in command.split()]
            done = subprocess.run(['./run', *words, '--tsv'], cwd=ROOT, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
            lines = done.stdout.decode(errors='replace').splitlines()
            found[name] = [line.split('\t') for line in lines if not line.startswith('#')][1:]
    return found


def perplexity(rows, method, to):
    """The perplexity below a position; 0: of all positions, which is the last row of the method."""
    of_method = [row for row in rows if row[0] == method]
    return float(next(row for row in of_method if not to or int(row[2]) == to)[5] if to else of_method[-1][5])


def figure(found, row):
    """One figure of a place, by a row of FIGURES: in percent, or as a ratio where the unit is `times`."""
    _, _, unit, command, method, to, other, baseline = row
    if unit == 'share':
        return 100 * sum(float(key[3]) for key in found[command] if int(key[1]) > to)
    ratio = perplexity(found[command], method, to) / perplexity(found[other], baseline, to)
    return ratio if unit == 'times' else 100 * (ratio - 1)


def words_of(unit, values):
    """A range in words, rounded outward: `5 to 17 %`, `2.8 to 3.3 times`."""
    step = 0.1 if unit == 'times' else 1
    low, high = math.floor(min(values) / step + 1e-9) * step, math.ceil(max(values) / step - 1e-9) * step
    low, high = ('%.1f' % end if unit == 'times' else '%d' % round(end) for end in (low, high))
    return '%s to %s %s' % (low, high, 'times' if unit == 'times' else '%')


def stated(text):
    """[(command or exercise, figure, range)] of the table in a text such as docs/class.md."""
    rows = text.partition(HEAD)[2].partition('\n\n')[0].split('\n')
    return [tuple(cell.strip() for cell in row.strip('|').split('|')) for row in rows if row.count('|') == 4][1:]


def misses(text, found):
    """The faults in the table of a text, by the figures of one place: a list of lines."""
    rows, wrong = stated(text), []
    if [row[:2] for row in rows] != [row[:2] for row in FIGURES]:
        return ['the table of ranges has other rows than tools/class/class_ranges.py measures']
    for row, (number, what, range_) in zip(FIGURES, rows):
        ends = re.fullmatch(r'(-?[\d.]+) to (-?[\d.]+) (%|times)', range_)
        value = figure(found, row)
        slack = 0.005 if row[2] == 'times' else 0.05  # processors round differently
        if not ends or not float(ends[1]) - slack <= value <= float(ends[2]) + slack:
            wrong.append('%s: %.2f, where the table has %s' % (what, value, range_))
        start, end = (r'^### %s\.', r'^###? ') if number.isdigit() else (r'^\*\*%s\.\*\*', r'^\*\*\d|^## ')
        section = re.search(start % number.split()[-1] + r'.*?(?=%s)' % end, text, re.M | re.S)
        if not section or range_ not in ' '.join(section[0].split()):
            wrong.append('%s is not said where it belongs: %s' % (number, range_))
    return wrong


def held(text):
    """The faults on the text that ships, from two thirds of it on."""
    with open(os.path.join(ROOT, 'book.txt'), encoding='utf-8') as file:
        return misses(text, measured(place_of(file.read(), PLACES[-1])))


def main(paths):
    if not paths or paths[0].startswith('-') and paths != ['--hold']:
        sys.exit(__doc__)
    if paths == ['--hold']:
        with open(os.path.join(ROOT, 'docs', 'class.md'), encoding='utf-8') as file:
            wrong = held(file.read())
        print('\n'.join(wrong) or 'the ranges hold')
        return 1 if wrong else 0
    values = [[] for _ in FIGURES]
    for path in paths:
        with open(path, encoding='utf-8') as file:
            text = file.read()
        for place in PLACES:
            found = measured(place_of(text, place))
            for kept, row in zip(values, FIGURES):
                kept.append(figure(found, row))
            of_place = ' '.join('%.3g' % kept[-1] for kept in values)
            print('%s %.2f: %s' % (os.path.basename(path), place, of_place), file=sys.stderr)
    print(HEAD + '\n| --- | --- | ---: |')
    for kept, row in zip(values, FIGURES):
        print('| %s | %s | %s |' % (*row[:2], words_of(row[2], kept)))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
