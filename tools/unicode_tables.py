#!/usr/bin/env python3
"""Writes src/core/unicode_tables.h, the runs of letters, numbers and spaces that src/core/unicode.c has classes from:

    python3 tools/unicode_tables.py [UnicodeData.txt]     from the repository's root

The classes come from that file of the Unicode Character Database, or else from this Python's own
unicodedata. The tables in the repository are of Unicode 16.0 (as Python 3.14 has it), which the tokenizers
and tiktoken libraries use (2026). The property White_Space has not changed for years and stands here.
"""
import os
import re
import sys
import unicodedata

HEADER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'src', 'core', 'unicode_tables.h')
END = 0x110000  # code points
VERSIONS = {0x323AF: '15.0', 0x2EE5D: '15.1', 0x1C8A: '16.0', 0x323B0: '17.0'}  # a letter that came with each
SPACES = {*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def categories(path):
    """The first letter of the general category of every code point: L for letters, N for numbers, C for unassigned."""
    if not path:
        return [unicodedata.category(chr(code))[0] for code in range(END)]
    found, first = ['C'] * END, None
    with open(path) as file:
        for line in file:
            code, name, category = line.split(';')[:3]
            first = int(code, 16) if first is None else first
            if not name.endswith(', First>'):  # else the next line ends a range
                found[first:int(code, 16) + 1] = [category[0]] * (int(code, 16) + 1 - first)
                first = None
    return found


def runs(members):
    """The lengths of the runs of code points outside the sorted set, in it, and so on, up to the end of the last."""
    edges = [code for code in members if code - 1 not in members] + [code + 1 for code in members
                                                                     if code + 1 not in members]
    edges = [0] + sorted(edges)
    return [b - a for a, b in zip(edges, edges[1:])]


def written(number):
    """A number in digits of 5 bits, the lowest first, from '?' on; 32 more mean that another digit follows."""
    out = ''
    while number > 31:
        out, number = out + chr(ord('?') + 32 + number % 32), number // 32
    return out + chr(ord('?') + number)


def array(name, members):
    text = ''.join(map(written, runs(members))).replace('\\', '\\\\')
    lines = re.findall(r'(?:[^\\]|\\\\){1,100}', text)
    return 'static const char %s_runs[] =\n%s;\n' % (name, '\n'.join('    "%s"' % line for line in lines))


def main():
    found = categories(sys.argv[1] if len(sys.argv) > 1 else None)
    version = ([v for code, v in VERSIONS.items() if found[code] == 'L'] or ['14.0 or older'])[-1]
    letters, numbers = ({code for code in range(END) if found[code] == letter} for letter in 'LN')
    with open(HEADER, 'w') as file:
        file.write("// Made by tools/unicode_tables.py from Unicode %s, not by hand: how many code points lie\n"
                   "// outside a class, then in it, and so on. A number is digits of 5 bits, the lowest first,\n"
                   "// from '?' on; 32 more mean that another digit follows.\n" % version)
        for name, members in ('letter', letters), ('number', numbers), ('space', SPACES):
            file.write(array(name, members))


if __name__ == '__main__':
    main()
