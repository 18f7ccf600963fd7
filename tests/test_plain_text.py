#!/usr/bin/env python3
"""tools/plain_text.py gives back a text that was wrapped and typeset as Project Gutenberg's files are, and --ppl says
when a text has such a form."""

import os
import re
import subprocess
import sys
import textwrap

from common import ROOT, check, in_work, lacks, main, read, run, write

TOOL = os.path.join(ROOT, 'tools', 'plain_text.py')
TEXT = read(os.path.join(ROOT, 'book.txt')).decode()[:20000].rpartition('\n')[0] + '\n'
HEADER = '\ufeffThe Project Gutenberg eBook\r\n\r\n*** START OF THE PROJECT GUTENBERG EBOOK A STORY ***\r\n\r\n'
LICENSE = '\r\n\r\n*** END OF THE PROJECT GUTENBERG EBOOK A STORY ***\r\nA license.\r\n'


def wrapped(text):
    return '\r\n\r\n'.join('\r\n'.join(textwrap.wrap(line, 75, break_long_words=False, break_on_hyphens=False))
                           for line in text.split('\n'))


def typeset(text):
    """With curly quotes, long dashes and a word in italics."""
    text = re.sub(r'"(?=\w)', '\u201c', text).replace('"', '\u201d').replace("'", '\u2019').replace('--', '\u2014')
    return text.replace(' sorry ', ' _sorry_ ', 1)


def prepared(book, *more):
    done = subprocess.run([sys.executable, TOOL, write(in_work('book.txt'), book), '-', *more], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr.decode()


def test_prepares_a_book():
    """Wrapped, typeset, between header and license: the output is the text, to the byte."""
    for what, book in (('wrapped', wrapped(TEXT)), ('typeset', typeset(wrapped(TEXT))), ('plain', wrapped(TEXT).replace('\r', ''))):
        status, out, told = prepared(HEADER + book + LICENSE)
        check(status == 0 and out.decode() == TEXT, what, status, told)
    check('SHA-256 ' in told and 'not a text that the documents measured' in told, 'it names its hash', told)
    status, out, _ = prepared('No header.\n\n[Illustration: a clock]\n\nA file_name_here, and\n_two words_.\n')
    check(status == 0 and out == b'No header.\nA file_name_here, and two words.\n', 'a text without a header', out)


def test_refuses():
    for what, book, words in (('nothing', b'\n\n', 'there is no text in it'), ('Latin 1', b'caf\xe9\n', 'byte 3 is not UTF-8')):
        status, _, told = prepared(book)
        check(status == 1 and words in told and told.count('\n') == 1, what, status, told)
    done = subprocess.run([sys.executable, TOOL, in_work('none.txt'), '-'], stderr=subprocess.PIPE)
    check(done.returncode == 1 and b'none.txt: No such file' in done.stderr, 'no file', done.stderr)


def test_form_is_told():
    """Each form has its warning, and a prepared text has none."""
    if lacks('model.bin'):
        return
    lines, quotes = 'lines break inside a sentence', 'curly quotes and dashes in bytes'
    for what, text, expected in (('prepared', TEXT, []), ('wrapped', wrapped(TEXT), [lines]),
                                 ('folded', re.sub(r'(.{60,75} )', r'\1\n', TEXT), [lines]),
                                 ('typeset', typeset(TEXT), [quotes]), ('both', typeset(wrapped(TEXT)), [lines, quotes])):
        told = run('model.bin', '--ppl', write(in_work(what + '.txt'), text), '-n', 16).err
        found = [words for words in (lines, quotes) if words in told]
        check(found == expected and told.count('tools/plain_text.py') == len(found), what, told)


if __name__ == '__main__':
    main(globals())
