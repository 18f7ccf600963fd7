#!/usr/bin/env python3
"""Writes src/measure/prose.c, the story of book.txt as a C string, so that --check has a text wherever the program is.

    python3 tools/prose.py > src/measure/prose.c
"""
import os
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEAD = '''// The story of book.txt, which --check reads when no FILE is given. Written by tools/prose.py.
#include "prose.h"

const char prose[] =
'''


def quoted(text):
    return '"%s"' % text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')


def source(text):
    """The C file that holds a text of ASCII, at most 100 columns wide where words allow it."""
    lines = []
    for line in text.splitlines(keepends=True):
        parts = textwrap.wrap(line, 84, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False)
        assert ''.join(parts) == line or not line.strip(), line
        lines += parts or [line]
    return HEAD + '\n'.join('    ' + quoted(line) for line in lines) + ';\n'


if __name__ == '__main__':
    with open(os.path.join(ROOT, 'book.txt'), encoding='ascii') as file:
        print(source(file.read()), end='')
