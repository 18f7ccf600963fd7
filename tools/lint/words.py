#!/usr/bin/env python3
"""Plain English, held by make lint: finds sentences of more than 45 words, and words to avoid, in documents and in
--help's output. One line for each finding, `path:line: what (found, expected)`, and exit status 1; or one line with
the amount of text, and 0. Words to avoid in comments are counted, and fail nothing yet.

    python3 tools/lint/words.py [--comments [PATH ...]]     lists those of comments, of paths that begin so
"""
import glob
import os
import re
import subprocess
import sys

import comments

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS = 45  # of a sentence, at most

# A pattern, and its replacement. The first are British spellings, the rest make a reader stop.
AVOID = [
    (r'(?:col|behavi|neighb|fav|hon)our\w*', 'American spelling: -or'),
    (r'licence\w*', 'license'),
    (r'(?:cent|met|fib|theat)re[ds]?', 'American spelling: -er'),
    (r'grey\w*', 'gray'),
    (r'(?:normal|quant|optim|minim|maxim|initial|summar|general|organ|recogn|special|real|parallel|token|character|'
     r'emphas|memor|serial|vector|final|random|util|author)is(?:e[ds]?|ers?|ing|ations?)', 'American spelling: -ize'),
    (r'analys(?:e|ed|ing)', 'analyze'),
    (r'(?:label|model|travel|cancel|signal)l(?:ed|ing)', 'American spelling: one l'),
    (r'(?:learnt|burnt|spelt)', 'American spelling: -ed'),
    (r'(?:whilst|amongst|towards|upwards|downwards)', 'while, among, toward'),
    (r'(?:catalogue|dialogue|programme|cheque|judgement)s?', 'American spelling'),
    (r'(?:therein|thereof|thereby|therefrom|wherein|whereupon|hereby|lest|albeit)', 'so, in it, on'),
    (r'(?:utili[sz]e\w*|leverag\w+|in order to|prior to|due to the fact)', 'use, to, before, because'),
    (r'(?:obviously|basically|trivially|needless to say)', 'nothing'),
]
# Phrases of place that contain words of comments.py, and are allowed.
PLACES = re.compile(r'stands? (?:still|between|in for)|falls? behind|'
                    r'(?:leave\w*|nothing|evidence|hidden|put|is) (?:\S+ ){0,4}behind', re.I)
FOUND = [(re.compile(r'\b(?:%s)\b' % pattern, re.I), instead) for pattern, instead in AVOID] + comments.FOUND


def plain(text):
    """A paragraph as it is read: code is one word, a link its text, a picture nothing."""
    text = re.sub(r'`+[^`]*`+', 'Code', text)
    text = re.sub(r'!\[[^]]*\]\([^)]*\)', '', text)
    text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)
    return re.sub(r'\*+|<[^>]*>', '', text)


def paragraphs(markdown):
    """(line, text) of each paragraph, heading, item of a list and cell of a table. Code is left out."""
    held, begun, fenced, in_list = [], 0, False, False

    def flush():
        text = plain(' '.join(held))
        held.clear()
        return [(begun, text)] if text.strip() else []
    for number, line in enumerate(markdown.split('\n'), 1):
        item = re.match(r'\s*(?:[-*]|\d+\.)\s+', line)
        edge = not line.strip() or line.startswith(('```', '#', '|')) or item
        if edge or fenced:
            yield from flush()
        if line.startswith('```'):
            fenced = not fenced
        elif fenced or not held and line.startswith('    ') and not (in_list or item):
            continue
        elif line.startswith('|'):
            cells = re.split(r'(?<!\\)\|', line.strip().strip('|'))
            yield from ((number, plain(cell)) for cell in cells if re.search(r'\w', cell))
        elif line.strip():
            begun = begun if held else number
            held.append(line[item.end():] if item else line.strip().lstrip('#>'))
            in_list = bool(item) or in_list and line.startswith(' ')
            if line.startswith('#'):
                yield from flush()
    yield from flush()


def sentences(text):
    """A sentence ends where the next one begins, with a capital, a number or a bracket."""
    return [part for part in re.split(r'(?<=[.!?])["”)]*\s+(?=["“(\[]?[A-Z0-9])', text) if re.search(r'\w', part)]


def words(sentence):
    return [word for word in sentence.split() if re.search(r'\w', word)]


def is_list(sentence):
    """Whether it lists names, as a cell of a table may: a comma for every five words or fewer."""
    return 5 * sentence.count(', ') > len(words(sentence))


def faults(path, blocks):
    """The faults against plain English in the (line, text) of one document."""
    for line, text in blocks:
        for sentence in sentences(text):
            n = len(words(sentence))
            if n > WORDS and not is_list(sentence):
                yield '%s:%d: a long sentence (%d words, at most %d): %.60s' % (path, line, n, WORDS, sentence.strip())
        for pattern, instead in FOUND:
            for match in pattern.finditer(PLACES.sub('', text)):
                yield '%s:%d: a word to avoid (%s, %s)' % (path, line, match.group(), instead)


def documents():
    """{path: [(line, text)]} of all documents, and of --help's output: the exporter's, and run's if it is built."""
    names = ['README.md', 'CHANGELOG.md', 'models/README.md'] + sorted(
        os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, 'docs', '*.md')))
    read = {}
    for name in names:
        with open(os.path.join(ROOT, name), encoding='utf-8') as file:
            read[name] = list(paragraphs(file.read()))
    with open(os.path.join(ROOT, 'model_export.py'), encoding='utf-8') as file:
        read['model_export.py'] = list(paragraphs(file.read().split('"""')[1]))
    program = os.path.join(ROOT, 'run')
    if os.path.exists(program):
        told = subprocess.run([program, '--help', 'all'], stdout=subprocess.PIPE, check=True).stdout.decode()
        read['run --help'] = [(number, line.strip()) for number, line in enumerate(told.split('\n'), 1)]
    else:
        print('run is not built: what --help prints is not read')
    return read


def main(arguments):
    if arguments[:1] == ['--comments']:
        print('\n'.join(fault for fault in comments.faults() if fault.startswith(tuple(arguments[1:] or ['']))))
        return 0
    read = documents()
    found = [fault for path, blocks in read.items() for fault in faults(path, blocks)]
    lengths = [len(words(part)) for blocks in read.values() for _, text in blocks for part in sentences(text)]
    print('\n'.join(found) or 'words: %d sentences in %d documents' % (len(lengths), len(read)))
    print('comments: %d words to avoid (tools/lint/words.py --comments lists them)' % len(list(comments.faults())))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
