#!/usr/bin/env python3
"""The house style of the C and the Python, held by make lint and tests/test_house.py: one line for each finding,
`path:line: what (found, expected)`, and exit status 1; or one line that says how much there is, and 0.

    python3 tools/house.py [--without-clang-format]
"""
import ast
import os
import re
import shutil
import subprocess
import sys

from arrows import check_includes
from c_source import ROOT, c_files, code_of, comma_operator, files, functions, statements
from density import check_density

COLUMNS, FILE_LINES, FUNCTION_LINES, PARAMETERS, CASTS = 120, 450, 50, 7, 100
# The files that README's walk goes through in an evening, and their lines in all.
EVENING, EVENING_LINES = ['rope.h', 'rope.c', 'src/core/plain_state.h', 'src/core/plain.h', 'src/core/plain.c',
                          'src/core/arithmetic.c', 'src/core/model.h', 'src/core/model.c', 'src/core/sampler.h',
                          'src/core/sampler.c', 'src/core/core.h', 'src/core/core.c', 'src/core/main.c'], 1600
# The tiny program: all its lines, those of its main, and the conditions that it has not.
CORE_LINES, MAIN_LINES = 5500, 80
PROCESSORS = (r'#\s*(?:el)?ifn?(?:def)?\b.*'
              r'(?:__(?:x86|i386|amd64|AVX|SSE|FMA|F16C|AMX|ARM|arm|aarch|wasm|riscv|powerpc)|_OPENMP)')
GENERATED = ['src/core/unicode_tables.h', 'src/measure/prose.c']


def too_large(path, found):
    for line, name, lines, parameters in found:
        if lines > FUNCTION_LINES:
            yield '%s:%d: %s is too long (%d lines, at most %d)' % (path, line, name, lines, FUNCTION_LINES)
        if parameters > PARAMETERS:
            yield '%s:%d: %s has too many parameters (%d, at most %d)' % (path, line, name, parameters, PARAMETERS)


def layout(path, text, limit=FILE_LINES):
    for i, line in enumerate(text.split('\n'), 1):
        if len(line) > COLUMNS:
            yield '%s:%d: the line is too wide (%d columns, at most %d)' % (path, i, len(line), COLUMNS)
        if '\t' in line or line != line.rstrip():
            yield '%s:%d: white space (a tab or trailing spaces, none)' % (path, i)
    if limit and text.count('\n') > limit:
        yield '%s:%d: the file is too long (%d lines, at most %d)' % (path, limit, text.count('\n'), limit)


def check_c(path, text):
    yield from layout(path, text)
    if not text.startswith('// '):
        yield '%s:1: the first line says what the file is (%.30r, // and a sentence)' % (path, text.split('\n')[0])
    code, lines = code_of(text), text.split('\n')
    yield from too_large(path, functions(code))
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


def check_core(c):
    """Of {path: text}: the core is small, and plain C for one thread of any processor."""
    core = {path: text for path, text in c.items() if path in ('rope.c', 'rope.h') or path.startswith('src/core/')}
    lines = sum(text.count('\n') for text in core.values())
    if lines > CORE_LINES:
        yield 'src/core/main.c:1: the core is too long (%d lines, at most %d)' % (lines, CORE_LINES)
    main_lines = c.get('src/core/main.c', '').count('\n')
    if main_lines > MAIN_LINES:
        yield 'src/core/main.c:1: too long (%d lines, at most %d)' % (main_lines, MAIN_LINES)
    for path, text in core.items():
        for i, line in enumerate(text.split('\n'), 1):
            if re.match(PROCESSORS + r'|#\s*pragma omp|#\s*include <(?:omp|pthread|\w*intrin)\.h>', line):
                yield '%s:%d: about processors or threads (%s, nothing of these in the core)' % (path, i, line)


def check_python(path, text):
    inner = not path.startswith('tests/')
    yield from layout(path, text, FILE_LINES if inner else 0)
    tree, found = ast.parse(text), []
    if not ast.get_docstring(tree):
        yield '%s:1: the file says what it is (nothing, a docstring)' % path
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and inner:
            a = node.args
            count = len(a.posonlyargs + a.args + a.kwonlyargs) + bool(a.vararg) + bool(a.kwarg)
            found.append((node.lineno, node.name, node.end_lineno - node.lineno + 1, count))
        bodies = [body for body in (getattr(node, key, None) for key in ('body', 'orelse', 'finalbody'))
                  if isinstance(body, list)]
        for body in bodies:
            starts = [statement.lineno for statement in body]
            same = [a for a, b in zip([getattr(node, 'lineno', 0)] + starts, starts) if a == b]
            yield from ('%s:%d: statements on one line (2, 1)' % (path, line) for line in same)
    yield from too_large(path, found)


def all_files():
    return c_files(), files('.py', ['build', 'dist', 'page/node_modules'])


def findings(c, python):
    """All that is against the style in {path: text} of the C and of the Python."""
    for path, text in c.items():
        if path not in GENERATED:
            yield from check_c(path, text)
    yield from check_includes(c)
    yield from check_core(c)
    casts = sum(len(re.findall(r'(?<!sizeof)\(size_t\)', code_of(text))) for text in c.values())
    if casts >= CASTS:
        yield 'src:1: too many casts (%d of (size_t), fewer than %d)' % (casts, CASTS)
    evening = sum(c[path].count('\n') for path in EVENING if path in c)
    if evening > EVENING_LINES:
        yield 'rope.c:1: the evening is too long (%d lines of %s, at most %d)' % (
            evening, ' '.join(EVENING), EVENING_LINES)
    for path, text in python.items():
        yield from check_python(path, text)


def unformatted(paths):
    """What clang-format would write otherwise."""
    told = subprocess.run(['clang-format', '--dry-run', '--Werror', *paths], cwd=ROOT, stderr=subprocess.PIPE)
    places = re.findall(r'^(\S+?):(\d+):.*error: ', told.stderr.decode(), re.M)
    yield from ('%s:%s: not formatted (something else, what make format writes)' % place
                for place in dict.fromkeys(places))


def main(arguments):
    c, python = all_files()
    found = list(findings(c, python)) + list(check_density(c))
    if '--without-clang-format' not in arguments and shutil.which('clang-format'):
        found += unformatted([path for path in c if path not in GENERATED])
    elif '--without-clang-format' not in arguments:
        print('clang-format is not here')
    print('\n'.join(found) or 'house: %d lines of C in %d files, %d lines of Python in %d' % (
        sum(text.count('\n') for text in c.values()), len(c),
        sum(text.count('\n') for text in python.values()), len(python)))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
