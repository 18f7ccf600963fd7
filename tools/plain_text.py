#!/usr/bin/env python3
"""Prepares a book of Project Gutenberg as a text to measure with: one paragraph a line, plain quotes and dashes.

    python3 tools/plain_text.py pg1400.txt great-expectations.txt

A model of novels as small as model.bin knows neither line breaks inside a sentence nor curly quotes: with both it has
seven times the perplexity. The header and the license around the book are removed, and so are the underscores around
words in italics. Prints how much is left, with its SHA-256: the documents say which text a command was run on, and
another edition of a book gives other digits. - is standard input or output.
"""
import argparse
import hashlib
import re
import sys

PLAIN = {
    '\u2018': "'", '\u2019': "'", '\u201a': "'", '\u201b': "'", '\u201c': '"', '\u201d': '"', '\u201e': '"',
    '\u201f': '"', '\u00ab': '"', '\u00bb': '"', '\u2010': '-', '\u2011': '-', '\u2012': '-', '\u2013': '-',
    '\u2014': '--', '\u2015': '--', '\u2026': '...', '\u00a0': ' ', '\u2009': ' ', '\u202f': ' ', '\u00ad': '',
    '\ufeff': ''}
# The texts of docs/lesson.md and docs/released.md, by their SHA-256.
MEASURED = {'3126b010db13a111504f412a7ca160126c5baa69e337f3e95f02aaa2733668aa': 'Great Expectations'}


def body(text):
    """A book without the lines that Project Gutenberg puts before and after it."""
    start = re.search(r'^\*\*\* ?START OF TH.*$', text, re.M)
    end = re.search(r'^\*\*\* ?END OF TH.*$|^End of (?:the )?Project Gutenberg.*$', text, re.M | re.I)
    return text[start.end() if start else 0:end.start() if end else len(text)]


def plain(text):
    """Each paragraph as one line; paragraphs are separated by empty lines."""
    text = re.sub('|'.join(map(re.escape, PLAIN)), lambda found: PLAIN[found.group()], text)
    text = body(text.replace('\r\n', '\n').replace('\r', '\n'))
    text = re.sub(r'(?<![\w_])_(?=\S)([^_]*?)(?<=\S)_(?![\w_])', r'\1', text)
    paragraphs = (' '.join(part.split()) for part in re.split(r'\n\s*\n', text))
    return ''.join(part + '\n' for part in paragraphs if part and not re.fullmatch(r'\[Illustration[^]]*\]', part))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('book', metavar='BOOK', help='the "plain text UTF-8" of a book')
    parser.add_argument('out', metavar='OUT', help='the text to write')
    options = parser.parse_args()
    try:
        with open(0 if options.book == '-' else options.book, 'rb') as file:
            text = plain(file.read().decode('utf-8'))
        if not text:
            sys.exit('plain_text.py: %s: there is no text in it' % options.book)
        data = text.encode()
        with open(1 if options.out == '-' else options.out, 'wb') as file:
            file.write(data)
    except OSError as error:
        sys.exit('plain_text.py: %s: %s' % (error.filename, error.strerror))
    except UnicodeDecodeError as error:
        sys.exit('plain_text.py: %s: byte %d is not UTF-8 (expected the "plain text UTF-8" of the book)' % (
            options.book, error.start))
    digest = hashlib.sha256(data).hexdigest()
    name = MEASURED.get(digest)
    print('%s: %d paragraphs, %d words, SHA-256 %s: %s' % (
        options.out, text.count('\n'), len(text.split()), digest,
        name + ', as measured in the documents' if name else 'not a text that the documents measured'), file=sys.stderr)


if __name__ == '__main__':
    main()
