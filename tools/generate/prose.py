#!/usr/bin/env python3
"""Writes src/tasks/prose.inc, the story of book.txt as a string of C, so that --check has a text wherever the program
is. make calls it when the story is newer.

    python3 tools/generate/prose.py [--print]     --print writes to standard output instead
"""
import os
import sys
import textwrap

from written import ROOT, quoted, write_changed

HEAD = '// The story of book.txt, written by tools/generate/prose.py.\n'


def source(text):
    """A text of ASCII as a string of C, at most 100 columns wide where words allow it."""
    lines = []
    for line in text.splitlines(keepends=True):
        parts = textwrap.wrap(line, 84, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False)
        assert ''.join(parts) == line or not line.strip(), line
        lines += parts or [line]
    return HEAD + '\n'.join('    ' + quoted(line) for line in lines) + '\n'


if __name__ == '__main__':
    with open(os.path.join(ROOT, 'book.txt'), encoding='ascii') as file:
        made = source(file.read())
    if '--print' in sys.argv[1:]:
        print(made, end='')
    else:
        write_changed(os.path.join(ROOT, 'src', 'tasks', 'prose.inc'), made)
