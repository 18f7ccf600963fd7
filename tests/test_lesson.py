#!/usr/bin/env python3
"""The lesson's form: every chapter has its parts, every picture is there, and the glossary is in order. (test_docs.py
follows links and runs commands.)"""

import os
import re

from common import ROOT, check, main

PARTS = ['Question', 'Try it', 'Picture', 'Answer', 'Formula', 'In the code', 'What it does not show']


def read(name):
    with open(os.path.join(ROOT, name), encoding='utf-8') as file:
        return file.read()


def test_chapters():
    chapters = re.split(r'^## ', read('docs/lesson.md'), flags=re.M)[1:]
    check(len(chapters) >= 18, 'the lesson has chapters', len(chapters))
    titles = [chapter.split('\n')[0] for chapter in chapters]
    check(titles[0] == 'What RoPE turns' and titles[-2].startswith('Before RoPE') and titles[-1] == 'Three exercises',
          'RoPE is first, what was before it last but one', titles)
    for title, chapter in zip(titles[:-1], chapters):
        missing = [part for part in PARTS if not re.search(r'^\*\*%s\b' % part, chapter, re.M)]
        check(not missing, '%s: has all its parts' % title, missing)


def test_pictures():
    names = re.findall(r'!\[[^\]]+\]\(([^)]+)\)', read('docs/lesson.md'))
    check(len(names) >= 15 and 'figures/crowd.png' in names, 'the lesson has pictures', names)
    for name in names:
        check(os.path.exists(os.path.join(ROOT, 'docs', name)), 'the lesson: %s is there' % name)


def test_glossary():
    rows = [line.split('|')[1:-1] for line in read('docs/glossary.md').splitlines() if line.startswith('| ')][1:]
    words = [cells[0].strip() for cells in rows if '---' not in cells[0]]
    check(len(words) >= 40, 'the glossary has some forty words', len(words))
    check(all(len(cells) == 4 and cells[3].strip() for cells in rows), 'each has a line')
    check(words == sorted(words, key=str.lower) and len(set(words)) == len(words), 'they are in order', words)
    for word in ('perplexity', 'nll', 'head', 'pair', 'theta', 'passkey', 'token', 'query', 'key', 'value', 'softmax'):
        check(any(word == w.split(',')[0] for w in words), 'the glossary says what %s is' % word)


if __name__ == '__main__':
    main(globals())
