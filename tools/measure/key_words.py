#!/usr/bin/env python3
"""Finds the key words of the built-in story: those that every one of these models predicts by what is more than 1,024
tokens back (./run --ppl --keys), whatever their tokens. --check asks a model for them.

    python3 tools/measure/key_words.py MODEL.bin...       writes src/check/key_words.inc
    python3 tools/measure/key_words.py MODEL.bin=ROWS...  ROWS: what --per-token printed for that model, in a file

Each model has its tokenizer beside it. Reading the story three times takes minutes with models of 100 million weights.
"""
import os
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOOK = os.path.join(ROOT, 'book.txt')
MADE = os.path.join(ROOT, 'src', 'check', 'key_words.inc')
ASKED = '--keys', '1024,1024', '-n', '8192', '--per-token'


def pieces(path):
    """The bytes of each token, of llama2.c's file of a tokenizer."""
    with open(path, 'rb') as file:
        data = file.read()
    at, found = 4, []
    while at + 8 <= len(data):
        _, length = struct.unpack_from('<fi', data, at)
        if not 0 <= length <= 1024:
            break
        found.append(data[at + 8:at + 8 + length])
        at += 8 + length
    return found


def key_places(model, text):
    """{place of a byte of the text that is in a key token of the model}"""
    model, _, saved = model.partition('=')
    if saved:
        with open(saved, encoding='utf-8') as file:
            out = file.read()
    else:
        out = subprocess.run([os.path.join(ROOT, 'run'), model, '--ppl', BOOK, *ASKED], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    header, *rows = [line.split('\t') for line in out.splitlines() if not line.startswith('#')]
    token, key = header.index('token'), header.index('key')
    words = pieces(model[:-len('.bin')] + '.tokenizer.bin')
    said = b''.join(words[int(row[token])] for row in rows)
    at, found = text.index(said), set()
    for row in rows:
        length = len(words[int(row[token])])
        if row[key] == '1':
            found.update(range(at, at + length))
        at += length
    return found


def main(models):
    with open(BOOK, 'rb') as file:
        text = file.read()
    places = set.intersection(*(key_places(model, text) for model in models))
    rows, at = [], 0
    while at < len(text):
        end = at
        while end in places:
            end += 1
        word = text[at:end].decode().strip()
        if word.isalpha() and len(word) > 1:
            rows.append('    {%d, "%s"},' % (text.index(word.encode(), at), word))
        at = max(end, at + 1)
    names = ', '.join(os.path.basename(model.partition('=')[0])[:-len('.bin')] for model in models)
    with open(MADE, 'w', encoding='ascii') as file:
        file.write('// Key words of the story and where they begin, by %s: tools/measure/key_words.py.\n%s\n' % (
            names, '\n'.join(rows)))


if __name__ == '__main__':
    main(sys.argv[1:])
