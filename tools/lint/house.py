#!/usr/bin/env python3
"""The house style of the C and the Python, held by make lint and tests/test_house.py: one line for each finding,
`path:line: what (found, expected)`, and exit status 1; or one line with the amount of code, and 0. Measured numbers
(lines, lengths of functions, density) fail nothing: make report prints it beside the last release.

    python3 tools/lint/house.py [--without-clang-format]
    python3 tools/lint/house.py --kinds     where a kind of model is named outside its slices
"""
import ast
import os
import re
import shutil
import subprocess
import sys

from arrows import CORE, check_includes, place_of
from c_source import ROOT, c_files, code_of, comma_operator, files, statements
from family_names import check_family_names
from kinds import check_kinds, kinds_outside
from scope import check_scope
from storey import check_arrows

COLUMNS = 120
# Words of other families' features: none is in rope.[ch] and src/llama, which are only a Llama's. A sampler has a
# state, too.
OTHERS = re.compile(r'expert|router|latent|per[-_ ]layer|alibi|shaw|sinusoid|disentangled|transformer-xl|spread_|'
                    r'\bjumps?\b|mamba|convol|delta_?rule|layer_state|\bstates\b|sliding|encoding|gelu|layernorm', re.I)
# The conditions that the tiny program has not.
PROCESSORS = (r'#\s*(?:el)?ifn?(?:def)?\b.*'
              r'(?:__(?:x86|i386|amd64|AVX|SSE|FMA|F16C|AMX|ARM|arm|aarch|wasm|riscv|powerpc)|_OPENMP)')
# Tables that a generator writes: nobody reads them, and they are not counted.
GENERATED = 'unicode_tables.h', 'family_words.h', 'family_table.h', 'key_ids.h', 'key_table.h', 'classes.h'


def is_generated(path):
    return os.path.basename(path) in GENERATED


def layout(path, text):
    for i, line in enumerate(text.split('\n'), 1):
        if len(line) > COLUMNS and not path.startswith('tests/'):
            yield '%s:%d: the line is too wide (%d columns, at most %d)' % (path, i, len(line), COLUMNS)
        if '\t' in line or line != line.rstrip():
            yield '%s:%d: white space (a tab or trailing spaces, none)' % (path, i)


def check_c(path, text):
    yield from layout(path, text)
    if not text.startswith('// '):
        yield '%s:1: the first line says what the file is (%.30r, // and a sentence)' % (path, text.split('\n')[0])
    code, lines = code_of(text), text.split('\n')
    found = list(statements(code))
    for line, said in found:
        if comma_operator(said):
            yield '%s:%d: a comma between statements (%.40r, a semicolon)' % (path, line, comma_operator(said))
    found = [line for line, said in found if not re.search('{.*;', said, re.S)]  # not a struct, whose members count
    for line in sorted(set(found)):
        starts_so = re.match(r'\s*((case\b|default:).*;\s*(break|return\b[^;]*);|do\b)', lines[line - 1])
        count = found.count(line) - bool(starts_so)
        if count > 1:
            yield '%s:%d: statements on one line (%d, 1)' % (path, line, count)


def is_core(path):
    return place_of(path) in CORE


def check_core(c):
    """Of {path: text}: the core is plain C for any processor."""
    for path, text in c.items():
        for i, line in enumerate(text.split('\n') if is_core(path) else [], 1):
            if re.match(PROCESSORS + r'|#\s*include <(?:omp|pthread|\w*intrin)\.h>', line):
                yield '%s:%d: about processors (%s, nothing of these in the core)' % (path, i, line)


def is_closed(path):
    return path in ('rope.c', 'rope.h') or path.startswith('src/llama/')


def check_closed(c):
    """Of {path: text}: a Llama alone does not speak of other families."""
    for path, text in c.items():
        for i, line in enumerate(text.split('\n') if is_closed(path) else [], 1):
            for word in OTHERS.findall(line):
                yield '%s:%d: a word of another family (%s, none in a Llama)' % (path, i, word)


def check_python(path, text):
    yield from layout(path, text)
    tree = ast.parse(text)
    if not ast.get_docstring(tree):
        yield '%s:1: the file says what it is (nothing, a docstring)' % path
    for node in ast.walk(tree):
        bodies = [body for body in (getattr(node, key, None) for key in ('body', 'orelse', 'finalbody'))
                  if isinstance(body, list)]
        for body in bodies:
            starts = [statement.lineno for statement in body]
            same = [a for a, b in zip([getattr(node, 'lineno', 0)] + starts, starts) if a == b]
            yield from ('%s:%d: statements on one line (2, 1)' % (path, line) for line in same)


def all_files():
    return c_files(), files('.py', ['build', 'dist', 'page/node_modules'])


def findings(c, python):
    """All that is against the style in {path: text} of the C and of the Python."""
    for path, text in c.items():
        if not is_generated(path):
            yield from check_c(path, text)
    yield from check_includes(c)
    yield from check_core(c)
    yield from check_closed(c)
    yield from check_scope(c)
    yield from check_arrows(c)
    yield from check_kinds(c)
    for path, text in python.items():
        yield from check_python(path, text)


def unformatted(paths):
    """The places that clang-format would write differently."""
    told = subprocess.run(['clang-format', '--dry-run', '--Werror', *paths], cwd=ROOT, stderr=subprocess.PIPE)
    places = re.findall(r'^(\S+?):(\d+):.*error: ', told.stderr.decode(), re.M)
    yield from ('%s:%s: not formatted (something else, what make format writes)' % place
                for place in dict.fromkeys(places))


def main(arguments):
    c, python = all_files()
    if '--kinds' in arguments:
        print('\n'.join('%s:%d: %s' % place for place in kinds_outside(c)))
        return 0
    found = [*findings(c, python), *check_family_names()]
    if '--without-clang-format' not in arguments and shutil.which('clang-format'):
        found += unformatted([path for path in c if not is_generated(path)])
    elif '--without-clang-format' not in arguments:
        print('clang-format is not here')
    print('\n'.join(found) or 'house: %d lines of C in %d files, %d lines of Python in %d' % (
        sum(text.count('\n') for path, text in c.items() if not is_generated(path)), len(c),
        sum(text.count('\n') for text in python.values()), len(python)))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
