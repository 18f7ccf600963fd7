#!/usr/bin/env python3
"""Writes src/text/unicode_tables.h, the runs of letters and numbers that src/text/unicode.c looks characters up in:

    python3 tools/unicode_tables.py [UnicodeData.txt]     from the repository's root

The classes come from that file of the Unicode Character Database, or else from this Python's own
unicodedata. The tables in the repository are of Unicode 16.0 (as Python 3.14 has it), which the tokenizers
and tiktoken libraries use (2026).
"""
import os
import re
import sys
import unicodedata

HEADER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'src', 'text', 'unicode_tables.h')
END, BLOCK, MAX_BLOCKS = 0x110000, 32, 64  # code points; runs of a block, even; blocks, a power of two
VERSIONS = {0x323AF: '15.0', 0x2EE5D: '15.1', 0x1C8A: '16.0', 0x323B0: '17.0'}  # a letter that came with each


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


def runs(found, letter):
    """The lengths of the runs of code points outside the category, in it, and so on; where the blocks of runs begin."""
    edges = [0] + [code for code in range(1, END) if (found[code] == letter) != (found[code - 1] == letter)]
    assert found[0] != letter and found[-1] != letter
    return [b - a for a, b in zip(edges, edges[1:])] + [END], edges[::BLOCK]


def array(name, numbers):
    lines = re.findall('.{1,119},', ','.join(map(str, numbers)) + ',')
    return 'static const uint32_t %s[] = {\n%s\n};\n' % (name, '\n'.join(lines))


def main():
    found = categories(sys.argv[1] if len(sys.argv) > 1 else None)
    version = ([v for code, v in VERSIONS.items() if found[code] == 'L'] or ['14.0 or older'])[-1]
    tables = [runs(found, letter) for letter in 'LN']
    assert all(len(blocks) <= MAX_BLOCKS for _, blocks in tables)
    with open(HEADER, 'w') as file:
        file.write('// Made by tools/unicode_tables.py from Unicode %s, not by hand: how many code points lie\n'
                   '// outside a general category (L, N), then in it, and so on, where every %d of these begin.\n'
                   'enum { BLOCK = %d, MAX_BLOCKS = %d, LETTER_BLOCKS = %d, NUMBER_BLOCKS = %d };\n'
                   % (version, BLOCK, BLOCK, MAX_BLOCKS, *(len(blocks) for _, blocks in tables)))
        for name, (lengths, blocks) in zip(('letter', 'number'), tables):
            file.write(array(name + '_runs', lengths) + array(name + '_blocks', blocks))


if __name__ == '__main__':
    main()
