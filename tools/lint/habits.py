#!/usr/bin/env python3
"""Ten habits of phrasing that make one read a sentence twice, counted by make lint: how often in 1,000 words of prose,
beside peers (four long posts of EleutherAI; the READMEs of llama2.c, calm and gguf-tools). It fails nothing.

    python3 tools/lint/habits.py            the counts, of documents and of comments in C
    python3 tools/lint/habits.py HABIT ...  also lists these, each with its place and its replacement
"""
import re
import sys

import comments
import words
from c_source import c_files

# (name, pattern, of peers in 1,000 words, replacement). A sentence that asks may begin with "what".
HABITS = [
    ('what', r'\bwhat\b(?![^.]*\?)', 0.4, 'the noun: the row that, the setting that'),
    ('read', r'\bread(?:s|ings?)?\b', 0.4, 'process, score, predict, parse, interpret (of engines: reading)'),
    ('by', r'(?<!ed )(?<!en )(?<!made )(?<!found )(?<!read )\bby '
           r'(?!\d|a (?:tenth|half|third)|hand\b|layer\b|default|length|depth|position|itself|themselves)', 0.6,
     'with, using, under, from, in, according to'),
    ('turn', r'\bturn(?:ed|ing)?\b(?! (?:of|off|on|in|into|every|within|or)\b)', 0.1, 'rotate'),
    ('nothing', r'\b(?:nothing|nobody)\b|(?:^|[.;:] )None\b', 0.0, 'a positive subject'),
    ('that of', r'\b(?:that|those|ones?) (?:of|in|with) ', 0.9, 'the noun again'),
    ('say', r'\bsa(?:y|ys|id)\b', 0.4, 'give, print, claim, have (of keys, files, cards)'),
    ('alone', r'\balone\b', 0.0, 'only, before its noun'),
    ('alike', r'\b(?:anew|alike|otherwise|apart)\b', 0.1, 'again, the same way, differently, separately'),
    ('where', r', where\b', 0.6, 'whereas, but, if'),
]


def prose():
    """{path: [(line, text)]} of the documents."""
    return {path: blocks for path, blocks in words.documents().items()
            if path.endswith('.md') and path != 'CHANGELOG.md'}


def comments_of_c():
    return {path: list(comments.of_c(text)) for path, text in c_files().items()}


def found(texts, pattern):
    """(path, line, the words around it) of each place."""
    pattern = re.compile(pattern, re.I)
    for path, blocks in sorted(texts.items()):
        for line, text in blocks:
            for match in pattern.finditer(text):
                yield path, line, text[max(match.start() - 30, 0):match.end() + 40]


def rates(texts):
    """[of 1,000 words] by habit, and how many words there are."""
    n = sum(len(text.split()) for blocks in texts.values() for _, text in blocks)
    return [1000 * len(list(found(texts, pattern))) / max(n, 1) for _, pattern, _, _ in HABITS], n


def main(arguments):
    texts = {'documents': prose(), 'comments of C': comments_of_c()}
    unknown = [name for name in arguments if name not in [habit[0] for habit in HABITS]]
    if unknown:
        sys.exit('habits.py: there is no habit %s (expected %s)' % (
            unknown[0], ', '.join(habit[0] for habit in HABITS)))
    for name, pattern, _, instead in HABITS:
        for of in texts if name in arguments else ():
            for path, line, around in found(texts[of], pattern):
                print('%s:%d: %s (%s): %s' % (path, line, name, instead, around))
    for of, blocks in texts.items():
        counted, n = rates(blocks)
        print('habits in 1,000 words of %s (peers): %s; %d words' % (
            of, ', '.join('%s %.1f (%.1f)' % (habit[0], rate, habit[2]) for habit, rate in zip(HABITS, counted)), n))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
