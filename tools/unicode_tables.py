#!/usr/bin/env python3
"""Writes src/unicode_tables.h, the ranges of letters and numbers that src/unicode.c looks characters up in:

    python3 tools/unicode_tables.py [UnicodeData.txt]     from the repository's root

The classes come from that file of the Unicode Character Database, or else from this Python's own unicodedata. The tables
in the repository are of Unicode 16.0 (as Python 3.14 has it), which the tokenizers and tiktoken libraries use (2026).
"""
import os
import sys
import textwrap
import unicodedata

HEADER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'src', 'text', 'unicode_tables.h')
VERSIONS = {0x323AF: '15.0', 0x2EE5D: '15.1', 0x1C8A: '16.0', 0x323B0: '17.0'}  # a letter that came with each


def categories(path):
    """The first letter of the general category of every code point: L for letters, N for numbers, C for unassigned."""
    if not path:
        return [unicodedata.category(chr(code))[0] for code in range(0x110000)]
    found, first = ['C'] * 0x110000, None
    with open(path) as file:
        for line in file:
            code, name, category = line.split(';')[:3]
            first = int(code, 16) if first is None else first
            if not name.endswith(', First>'):  # else the next line ends a range
                found[first:int(code, 16) + 1] = [category[0]] * (int(code, 16) + 1 - first)
                first = None
    return found


def ranges(found, letter):
    edges = [code for code in range(0x110001)
             if (code < 0x110000 and found[code] == letter) != (code > 0 and found[code - 1] == letter)]
    return ['%d,%d,' % (first, end - 1) for first, end in zip(edges[::2], edges[1::2])]


def main():
    found = categories(sys.argv[1] if len(sys.argv) > 1 else None)
    version = ([v for code, v in VERSIONS.items() if found[code] == 'L'] or ['14.0 or older'])[-1]
    with open(HEADER, 'w') as file:
        file.write('// Made by tools/unicode_tables.py from Unicode %s, not by hand: the first and the last code point of each range.\n'
                   % version)
        for name, letter in (('letters', 'L'), ('numbers', 'N')):
            lines = [line.replace(' ', '') for line in textwrap.wrap(' '.join(ranges(found, letter)), 140)]
            file.write('static const uint32_t %s[] = {  // general category %s\n%s\n};\n' % (name, letter, '\n'.join(lines)))


if __name__ == '__main__':
    main()
