#!/usr/bin/env python3
"""The lesson's form: every chapter has its parts, every picture is there, every link into the lesson and the glossary
leads somewhere, and the glossary is in order."""

import glob
import os
import re

from common import ROOT, check, main

PARTS = ['Question', 'Try it', 'Picture', 'Answer', 'Formula', 'In the code', 'What it does not show']


def read(name):
    with open(os.path.join(ROOT, name), encoding='utf-8') as file:
        return file.read()


def anchors(text):
    """As GitHub makes them of headings: lower case, spaces to hyphens, no punctuation."""
    text = re.sub(r'```.*?```', '', text, flags=re.S)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
            for heading in re.findall(r'^#+ (.*)', text, re.M)}


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


def test_links():
    known = {name: anchors(read('docs/' + name)) for name in ('lesson.md', 'glossary.md')}
    found = 0
    for path in sorted(glob.glob(os.path.join(ROOT, '*.md')) + glob.glob(os.path.join(ROOT, '*', '*.md'))):
        name = os.path.basename(path)
        for target in re.findall(r'\]\(([^) ]*#[^)]+)\)', read(path)):
            document, anchor = target.split('#')
            document = os.path.basename(document) or name
            if document in known and (document != name or os.path.dirname(path) == os.path.join(ROOT, 'docs')):
                found += 1
                check(anchor in known[document], '%s: %s#%s leads somewhere' % (os.path.relpath(path, ROOT), document,
                                                                               anchor))
    check(found >= 25, 'there are links into the lesson', found)


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
