#!/usr/bin/env python3
"""Plain English: nothing in the documents is against tools/words.py beyond what its ceilings let pass, and the checker
finds what it should and no more."""

import os
import sys

from common import ROOT, check, main

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import words  # noqa: E402


def found(markdown):
    return list(words.faults('x.md', words.paragraphs(markdown)))


def sentence(n):
    return 'A' + ' word' * (n - 1) + '.'


def test_documents():
    read = words.documents()
    over = list(words.too_many({path: list(words.faults(path, blocks)) for path, blocks in read.items()},
                               words.CEILINGS))
    check(not over, 'tools/words.py finds nothing', '%d findings: %s' % (len(over), '; '.join(over[:4])))
    few = [path for path in ('README.md', 'CHANGELOG.md', 'docs/manual.md', 'docs/format.md', 'docs/checkpoints.md',
                             'docs/engines.md', 'docs/code.md', 'run --help')
           if path in words.CEILINGS or len(read.get(path, ())) < 20]
    check(not few, 'these are read whole, and have no ceiling', few)


def test_long_sentences():
    for what, markdown, line in (
            ('in a paragraph', 'Short.\n\n' + sentence(36), 3),
            ('over several lines', 'Short.\n' + sentence(36).replace(' word', '\nword', 20), 1),
            ('after a short one', 'Short. ' + sentence(36), 1),
            ('in a list', '- Short.\n- ' + sentence(36), 2),
            ('below an item', '- Short.\n\n    ' + sentence(36), 3),
            ('in a numbered list', '1. ' + sentence(36), 1),
            ('in a cell', '| a | b |\n| --- | --- |\n| x | %s |' % sentence(36), 3),
            ('in a heading', '# ' + sentence(36), 1),
            ('with code', sentence(35).replace('word', '`--a b c`', 1).replace('A', 'A `x` of', 1), 1)):
        lines = found(markdown)
        check(len(lines) == 1 and lines[0].startswith('x.md:%d: a long' % line), 'a long sentence ' + what, lines)
    for what, markdown in (
            ('of 35 words', sentence(35)), ('two of them', sentence(35) + ' ' + sentence(35)),
            ('code', 'It is:\n\n    %s\n\nSo.' % sentence(40)), ('a fence', '```\n%s\n```' % sentence(40)),
            ('two paragraphs', sentence(30)[:-1] + '\n\n' + sentence(30)), ('a picture', '![%s](a.png)' % sentence(40)),
            ('two cells', '| %s | %s |' % (sentence(30)[:-1], sentence(30)[:-1])),
            ('code of many words', 'A `%s` b.' % sentence(40)), ('signs', 'a ' + '= ' * 40)):
        check(not found(markdown), 'no long sentence: ' + what, found(markdown))


def test_words_to_avoid():
    for word in ('colour', 'Behaviour', 'neighbouring', 'licence', 'centre', 'grey', 'normalised', 'quantisation',
                 'labelled', 'whilst', 'whoever', 'foretells', 'hence', 'utilize', 'in order to', 'obviously',
                 'is said', 'unless said', 'of ours', 'comes of'):
        lines = found('It %s it.' % word)
        check(len(lines) == 1 and 'a word to avoid (%s' % word in lines[0], 'found: ' + word, lines)
    for word in ('color', 'neighbor', 'license', 'precise', 'otherwise', 'exercise', 'promises', 'raised', 'comparison',
                 'normalized', 'our', 'four hours', 'parameter', 'enhance', 'programmed', '`colour`', 'said'):
        check(not found('It %s it.' % word), 'let pass: ' + word, found('It %s it.' % word))


def test_ceilings():
    lines = ['a.md:%d: x' % i for i in range(3)]
    check(list(words.too_many({'a.md': lines}, {})) == lines, 'without a ceiling every finding counts')
    check(not list(words.too_many({'a.md': lines}, {'a.md': 3})), 'a ceiling lets as many pass')
    over = list(words.too_many({'a.md': lines}, {'a.md': 2}))
    check(len(over) == 4 and 'too many findings (3, at most 2)' in over[-1], 'and no more', over)


main(globals())
