#!/usr/bin/env python3
"""Writes src/tokens/unicode_tables.h, the runs of characters that src/tokens/unicode.c has classes from, and
export/unicode_runs.py, the exporter's classes of characters:

    python3 tools/generate/unicode_tables.py UnicodeData-16.0.0.txt UnicodeData-9.0.0.txt     from the repository's root

These are files of the Unicode Character Database. Unicode 16.0 is the version of the regexes of the tokenizers and
tiktoken libraries (2026), Unicode 9.0 the one of the tokenizers library's normalization. The property White_Space
has not changed for years and is written out here.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = os.path.join(ROOT, 'src', 'tokens', 'unicode_tables.h')
MODULE = os.path.join(ROOT, 'export', 'unicode_runs.py')
END = 0x110000  # code points
VERSIONS = {0x1E900: '9.0', 0x860: '10.0', 0x1C8A: '16.0', 0x323B0: '17.0'}  # a letter that came with each
SPACES = {*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def characters(path, version):
    """The general category of every code point (Cn for unassigned), those that Form C can change, and those that only
    Form KC takes apart."""
    found, first, changed, compatible = ['Cn'] * END, None, set(), set()
    with open(path) as file:
        for line in file:
            code, name, category, combining, _, parts = line.split(';')[:6]
            first = int(code, 16) if first is None else first
            if combining != '0' or parts and parts[0] != '<':
                changed.add(int(code, 16))
            if parts[:1] == '<':
                compatible.add(int(code, 16))
            if not name.endswith(', First>'):  # else the next line ends a range
                found[first:int(code, 16) + 1] = [category] * (int(code, 16) + 1 - first)
                first = None
    newest = ([v for code, v in VERSIONS.items() if found[code][0] == 'L'] or ['8.0 or older'])[-1]
    if newest != version:
        sys.exit('%s: is of Unicode %s, expected %s' % (path, newest, version))
    return found, changed, compatible


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


def lines_of(members, width):
    text = ''.join(map(written, runs(members))).replace('\\', '\\\\')
    return re.findall(r'(?:[^\\]|\\\\){1,%d}' % width, text)


def array(name, members):
    return 'static const char %s_runs[] =\n%s;\n' % (name, '\n'.join(
        '    "%s"' % line for line in lines_of(members, 100)))


def constant(name, members):
    return '%s = (\n%s)\n' % (name, '\n'.join("    '%s'" % line for line in lines_of(members, 110)))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = characters(sys.argv[1], '16.0')[0]
    _, normalized, compatible = characters(sys.argv[2], '9.0')

    def of(*categories):
        return {code for code in range(END) if found[code].startswith(categories)}

    with open(HEADER, 'w') as file:
        file.write("// Made by tools/generate/unicode_tables.py from Unicode 16.0, not by hand: how many code points\n"
                   "// lie outside a class, then in it, and so on. A number is digits of 5 bits, the lowest first,\n"
                   "// from '?' on; 32 more mean that another digit follows.\n")
        for name, members in ('letter', of('L')), ('number', of('N')), ('space', SPACES), (
                'mark', of('M')), ('sign', of('P', 'S')):
            file.write(array(name, members))
    with open(MODULE, 'w') as file:
        file.write('"""Made by tools/generate/unicode_tables.py, not by hand: how many code points lie '
                   'outside a set, then in it,\nand so on, as in src/tokens/unicode_tables.h. '
                   'A Python itself knows those of its version."""\n\n'
                   '# Unicode 9.0: what is taken apart, or has a combining class.\n')
        file.write(constant('NORMALIZED', normalized))
        file.write('# Unicode 9.0: what only Form KC takes apart.\n')
        file.write(constant('COMPATIBLE', compatible))
        file.write('# Unicode 16.0: categories Lu and Lt, Ll, and M.\n')
        for name, members in ('CAPITALS', of('Lu', 'Lt')), ('SMALL_LETTERS', of('Ll')), ('MARKS', of('M')):
            file.write(constant(name, members))
        file.write(READER)


READER = '''

def code_points(runs):
    """The code points of a set, in order."""
    at, inside, value, shift = 0, False, 0, 0
    for letter in runs:
        digit = ord(letter) - ord('?')
        value, shift = value | (digit & 31) << shift, shift + 5
        if digit < 32:
            yield from range(at, at + value) if inside else ()
            at, inside, value, shift = at + value, not inside, 0, 0
'''

if __name__ == '__main__':
    main()
