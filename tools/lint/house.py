#!/usr/bin/env python3
"""The house style of the C and the Python, held by make lint and tests/test_house.py: one line for each finding,
`path:line: what (found, expected)`, and exit status 1; or one line that says how much there is, and 0. Lengths,
tokens, branches and parameters are a ruler, no wall: what is past one is printed, and only what is past a tenth more
fails. A comment fails nothing: the lines that fail are counted without those that are comments alone.

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
from c_source import ROOT, c_files, code_of, comma_operator, files, functions, lines_of_code, statements
from density import PAST, check_density, is_over
from family_names import check_family_names

COLUMNS, FILE_LINES, FUNCTION_LINES, PARAMETERS, CASTS = 120, 450, 50, 7, 100
# A Llama alone: rope.[ch] and src/llama, which README's walk goes through in an evening. The lines of all of it, and
# words of what other families have, which none of it says. A sampler has a state, too.
CLOSED_LINES = 1500
OTHERS = re.compile(r'expert|router|latent|per[-_ ]layer|alibi|shaw|sinusoid|disentangled|transformer-xl|spread_|'
                    r'\bjumps?\b|mamba|convol|delta_?rule|layer_state|\bstates\b|sliding|encoding|gelu|layernorm', re.I)
KIND_NAMES = re.compile(r'\bextra->(experts|latent|states|per_layer|altup|gaussian_topk|encoding)\b')
# What is a part of a kind's slice: a state in files of its own, what chooses keys in front of latent attention,
# and what chooses experts.
PARTS = {'states': ['mamba'], 'latent': ['index'], 'experts': ['router']}
# The tiny program: all its lines, those of its main, and the conditions that it has not.
CORE_LINES = 7000
PROCESSORS = (r'#\s*(?:el)?ifn?(?:def)?\b.*'
              r'(?:__(?:x86|i386|amd64|AVX|SSE|FMA|F16C|AMX|ARM|arm|aarch|wasm|riscv|powerpc)|_OPENMP)')
# Tables that nobody reads: they do not make the core longer.
GENERATED = ['src/tokens/unicode_tables.h', *('src/configs/%s' % name for name in (
    'family_words.h', 'family_table.h', 'key_table.h'))]


def lines_that_count(text, past):
    """All lines for the report; those that are not comments for what fails."""
    return text.count('\n') if past == 1 else lines_of_code(text)


def too_large(path, found, past):
    for line, name, lines, parameters in found:
        if is_over(lines, FUNCTION_LINES, past):
            yield '%s:%d: %s is too long (%d lines, at most %d)' % (path, line, name, lines, FUNCTION_LINES)
        if is_over(parameters, PARAMETERS, past):
            yield '%s:%d: %s has too many parameters (%d, at most %d)' % (path, line, name, parameters, PARAMETERS)


def layout(path, text):
    for i, line in enumerate(text.split('\n'), 1):
        if len(line) > COLUMNS:
            yield '%s:%d: the line is too wide (%d columns, at most %d)' % (path, i, len(line), COLUMNS)
        if '\t' in line or line != line.rstrip():
            yield '%s:%d: white space (a tab or trailing spaces, none)' % (path, i)


def too_long(path, lines, past):
    if is_over(lines, FILE_LINES, past):
        yield '%s:%d: the file is too long (%d lines, at most %d)' % (path, FILE_LINES, lines, FILE_LINES)


def functions_of(text, past):
    """As functions has them, with the lines that count."""
    for line, name, lines, parameters in functions(code_of(text)):
        yield line, name, lines if past == 1 else lines_of_code(text, line, lines), parameters


def check_c(path, text, past=PAST):
    yield from layout(path, text)
    yield from too_long(path, lines_that_count(text, past), past)
    if not text.startswith('// '):
        yield '%s:1: the first line says what the file is (%.30r, // and a sentence)' % (path, text.split('\n')[0])
    code, lines = code_of(text), text.split('\n')
    yield from too_large(path, functions_of(text, past), past)
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


def check_core(c, past=PAST):
    """Of {path: text}: the core is small, and plain C for one thread of any processor."""
    core = {path: text for path, text in c.items() if is_core(path)}
    lines = sum(lines_that_count(text, past) for path, text in core.items() if path not in GENERATED)
    if is_over(lines, CORE_LINES, past):
        yield 'src/llama/main.c:1: the core is too long (%d lines, at most %d)' % (lines, CORE_LINES)
    for path, text in core.items():
        for i, line in enumerate(text.split('\n'), 1):
            if re.match(PROCESSORS + r'|#\s*pragma omp|#\s*include <(?:omp|pthread|\w*intrin)\.h>', line):
                yield '%s:%d: about processors or threads (%s, nothing of these in the core)' % (path, i, line)


def is_closed(path):
    return path in ('rope.c', 'rope.h') or path.startswith('src/llama/')


def check_closed(c):
    """Of {path: text}: a Llama alone does not speak of other families."""
    closed = {path: text for path, text in c.items() if is_closed(path)}
    for path, text in closed.items():
        for i, line in enumerate(text.split('\n'), 1):
            for word in OTHERS.findall(line):
                yield '%s:%d: a word of another family (%s, none in a Llama)' % (path, i, word)


def kinds_outside(c):
    """(path, line, kind) of each place that names a kind of model outside its slices and what ties them. A slice is a
    file of the kind's name: its definition, its fast steps, and what --explain shows of it alone."""
    for path, text in sorted(c.items()):
        for i, line in enumerate(text.split('\n'), 1):
            for kind in KIND_NAMES.findall(line):
                names = [kind, kind + 's', 'kinds', *PARTS.get(kind, [])]
                slices = ['src/%s/%s.%s' % (room, name, end) for room in ('kinds', 'fast', 'measure')
                          for name in names for end in 'ch']
                if path not in slices:
                    yield path, i, kind


def check_python(path, text, past=PAST):
    inner = not path.startswith('tests/')
    yield from layout(path, text)
    if inner:
        comments = len(re.findall(r'^ *#', text, re.M)) if past > 1 else 0
        yield from too_long(path, text.count('\n') - comments, past)
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
    yield from too_large(path, found, past)


def all_files():
    return c_files(), files('.py', ['build', 'dist', 'page/node_modules'])


def findings(c, python, past=PAST):
    """All that is against the style in {path: text} of the C and of the Python: past a tenth over the limits, or with
    1 past the limits themselves."""
    for path, text in c.items():
        if path not in GENERATED:
            yield from check_c(path, text, past)
    yield from check_includes(c)
    yield from check_core(c, past)
    casts = sum(len(re.findall(r'(?<!sizeof)\(size_t\)', code_of(text))) for text in c.values())
    if is_over(casts, CASTS - 1, past):
        yield 'src:1: too many casts (%d of (size_t), fewer than %d)' % (casts, CASTS)
    yield from check_closed(c)
    yield from ('%s:%d: a kind outside its slices (%s, none)' % place for place in kinds_outside(c))
    for path, text in python.items():
        yield from check_python(path, text, past)


def ruler(found, c, python):
    """What is past a limit and not among what fails, and how long the core and a Llama alone are."""
    core = [text for path, text in c.items() if path not in GENERATED and
            is_core(path)]
    failing = {finding.split(' (')[0] for finding in found}
    for finding in [*findings(c, python, 1), *check_density(c, 1)]:
        if finding.split(' (')[0] not in failing:
            yield finding
    yield 'the core has %d lines (at most %d), a Llama alone %d (at most %d)' % (
        sum(text.count('\n') for text in core), CORE_LINES,
        sum(text.count('\n') for path, text in c.items() if is_closed(path)), CLOSED_LINES)


def unformatted(paths):
    """What clang-format would write otherwise."""
    told = subprocess.run(['clang-format', '--dry-run', '--Werror', *paths], cwd=ROOT, stderr=subprocess.PIPE)
    places = re.findall(r'^(\S+?):(\d+):.*error: ', told.stderr.decode(), re.M)
    yield from ('%s:%s: not formatted (something else, what make format writes)' % place
                for place in dict.fromkeys(places))


def is_measured(line):
    """Whether a finding is of the ruler, which reports lengths and branches and fails nothing but a Llama alone."""
    return 'Llama alone' not in line and any(words in line for words in (
        'too long (', 'too dense (', 'too many branches (', 'too many parameters (')) or (
            line.startswith('tests/') and 'too wide (' in line)


def main(arguments):
    c, python = all_files()
    if '--kinds' in arguments:
        print('\n'.join('%s:%d: %s' % place for place in kinds_outside(c)))
        return 0
    found = [*findings(c, python), *check_density(c), *check_family_names()]
    if '--without-clang-format' not in arguments and shutil.which('clang-format'):
        found += unformatted([path for path in c if path not in GENERATED])
    elif '--without-clang-format' not in arguments:
        print('clang-format is not here')
    measured = [line for line in found if is_measured(line)]
    found = [line for line in found if not is_measured(line)]
    for line in [*ruler(found, c, python), *measured]:
        print('ruler: ' + line)
    print('\n'.join(found) or 'house: %d lines of C in %d files, %d lines of Python in %d' % (
        sum(text.count('\n') for text in c.values()), len(c),
        sum(text.count('\n') for text in python.values()), len(python)))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
