#!/usr/bin/env python3
"""docs/class.md is right: its plan, its links, its sums, its commands, its ranges. Faults in it are found. The handout
fits its paper."""

import os
import re
import sys

from common import ROOT, add_counts, check, in_work, lacks, main, run, skip, takes_long, write

sys.path.insert(0, os.path.join(ROOT, 'tools', 'class'))
import class_sheets  # noqa: E402

CLASS = os.path.join(ROOT, 'docs', 'class.md')
FAULTS = {
    'a number that is off': ('628.3  0.815      1', '668.3  0.815      1'),
    'a word': ('\nllama.cpp\tignored', '\nllama.cpp\tsame'),
    'a line that nothing prints': ('    31 0.000133', '    30 9.000133  1.0e+04\n    31 0.000133'),
    'a line too few': ('mlx-lm\tsame\t29\n', ''),
    'a sum': ('# 174970', '# 174971'),
    'a minute': ('| 79 to 83 |', '| 80 to 83 |'),
    'a link': ('(engines.md)', '(engine.md)'),
    'a chapter of the page': ('| The proof: Where is it found? | answer', '| The truth: Where is it found? | answer'),
    'a command that fails': ('none --theta 160000', 'nothing --theta 160000'),
}


def class_tool(*arguments):
    return run(*arguments, program=os.path.join(ROOT, 'tools', 'class', 'class.py'), timeout=600)


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


@takes_long
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
