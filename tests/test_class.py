#!/usr/bin/env python3
"""docs/class.md is as it says: its plan, its links, its sums, its commands, its ranges. What is wrong in it is found.
Slides and sheets are made of it."""

import glob
import os
import re
import sys

from common import ROOT, add_counts, check, in_work, lacks, main, run, skip, takes_long, write

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import class_ranges  # noqa: E402
import class_sheets  # noqa: E402

CLASS = os.path.join(ROOT, 'docs', 'class.md')
FAULTS = {
    'a number that is off': ('628.3  0.815      1', '668.3  0.815      1'),
    'a word': ('\nllama.cpp\tignored', '\nllama.cpp\tsame'),
    'a line that nothing prints': ('    31 0.000133', '    30 9.000133  1.0e+04\n    31 0.000133'),
    'a line too few': ('mlx-lm\tsame\t29\n', ''),
    'a sum': ('# 174970', '# 174971'),
    'a minute': ('| 79 to 83 |', '| 80 to 83 |'),
    'a link': ('(figures/attention.png)', '(figures/attentive.png)'),
    'a chapter of the page': ('| The proof: Hide a key | its', '| The truth: Hide a key | its'),
    'a command that fails': ('none --theta 160000', 'nothing --theta 160000'),
}


def class_tool(*arguments):
    return run(*arguments, program=os.path.join(ROOT, 'tools', 'class.py'), timeout=600)


@takes_long
def test_class():
    if lacks('model-8k.bin', 'models/rope.bin'):
        return
    add_counts(class_tool(), 'docs/class.md')


@takes_long
def test_faults():
    """Each in a text of its own, of which the commands are run that cost little."""
    if lacks('model-8k.bin', 'models/rope.bin'):
        return
    with open(CLASS, encoding='utf-8') as file:
        text = file.read()
    for what, (right, wrong) in FAULTS.items():
        if not check(text.count(right) == 1, 'the text holds %r' % right, text.count(right)):
            continue
        result = class_tool('--quick', write(in_work('class.md'), text.replace(right, wrong)))
        check(result.status == 1 and 0 < result.out.count('FAIL') <= 2, what + ' is found', result)


def test_wrong_ranges():
    """A range that a text leaves is found, and one that the teacher's words do not say."""
    with open(CLASS, encoding='utf-8') as file:
        text = file.read()
    rows = class_ranges.stated(text)
    check([row[:2] for row in rows] == [row[:2] for row in class_ranges.FIGURES], 'a row for each figure', rows)
    ends = [tuple(map(float, re.match(r'(\S+) to (\S+) ', row[2]).groups())) for row in rows]
    middles = [sum(pair) / 2 for pair in ends]

    def misses(text, values):
        at = {id(row): value for row, value in zip(class_ranges.FIGURES, values)}
        kept, class_ranges.figure = class_ranges.figure, lambda found, row: at[id(row)]
        try:
            return class_ranges.misses(text, {})
        finally:
            class_ranges.figure = kept
    check(misses(text, middles) == [], 'the middle of each range lies within it', misses(text, middles))
    for k, ((_, what, _), (low, high)) in enumerate(zip(rows, ends)):
        for value in (high + 0.5, low - 0.5):
            found = misses(text, middles[:k] + [value] + middles[k + 1:])
            check(len(found) == 1 and what in found[0], 'a figure that left its range: ' + what, found)
    section = text.index('### 2.')
    unsaid = text[:section] + text[section:].replace(rows[1][2], 'much', 1)
    check(len(misses(unsaid, middles)) == 1, 'a range that is not said', misses(unsaid, middles))
    check(class_ranges.words_of('%', [4.2, 6.9]) == '4 to 7 %' and class_ranges.words_of('times', [1.5, 1.52, 3.21])
          == '1.5 to 3.3 times', 'ranges are rounded outward')


def test_slides():
    """Nine questions with a picture and an answer that waits, then each figure; nothing that a network has to bring."""
    with open(CLASS, encoding='utf-8') as file:
        text = file.read()
    page = class_sheets.slides(text)
    slides = re.findall(r'<section class="slide (\w+)[^>]*>(.*?)</section>', page, re.S)
    asked = [inner for kind, inner in slides if kind == 'ask']
    check(len(asked) == 9 and all(re.search(r'<svg.*class="later".*</svg>', inner, re.S) and 'answer later' in inner
                                  for inner in asked), 'nine questions, whose answers wait', len(asked))
    shown = [inner for kind, inner in slides if kind == 'figure']
    figures = glob.glob(os.path.join(ROOT, 'docs', 'figures', '*.png'))
    check(len(shown) == len(figures) and all('<img class="later"' in inner for inner in shown),
          'each figure, after a question')
    check(not re.search(r'(?:src|href)="(?!data:|https?:)|@import|<link|<script src|url\(', page)
          and "default-src 'none'" in page, 'one file, from a stick')
    numbers = re.findall(r'<polyline points="([^"]*)"', asked[1])
    check(len(numbers) == 2 and numbers[0] != numbers[1], "command 2's two curves are drawn", numbers)


def test_sheets():
    """Solutions are apart from what students get, and all of it is there."""
    with open(CLASS, encoding='utf-8') as file:
        text = file.read()
    handout, solutions, plan = class_sheets.handout(text), class_sheets.solutions(text), class_sheets.plan(text)
    check(handout.count('class="sheet"') == 2 and handout.count('<svg') == 2, 'two sheets, two charts to draw in')
    check(all('<b>%d.</b>' % k in solutions for k in range(1, 12)), 'eleven solutions')
    check('usual wrong' not in handout and '174970' not in handout + plan, 'solutions are apart')
    first = handout.partition('Exercises, and what stays')[0]
    check('Three sentences' in handout and 'Three sentences' not in first, 'the answers are on the second sheet')
    check('size: A4;' in class_sheets.paper('x', '', 'A4') and 'size:' not in re.search(
        r'@page.*', class_sheets.paper('x', ''))[0], 'HTML without a paper fits the printer')


def test_handout_on_paper():
    with open(CLASS, encoding='utf-8') as file:
        handout = class_sheets.handout(file.read())
    words_of = class_sheets.printer()
    if not words_of or not class_sheets.print_pdf(words_of, 'handout', 'x', handout, in_work('')):
        return skip('no program here prints a PDF, or it took too long')
    for name in class_sheets.PAPERS:
        with open(os.path.join(in_work(''), 'handout-%s.pdf' % name), 'rb') as file:
            pages = len(re.findall(rb'/Type\s*/Page\b', file.read()))
        check(pages == 2, 'a handout of two pages on ' + name, pages)


if not os.path.exists(os.path.join(ROOT, 'model.bin')):
    sys.exit(print('0 passed, 0 failed, 1 skipped'))
main(globals())
