#!/usr/bin/env python3
"""How dense the C is, counted: tokens a line of code, lines of more than 100 columns, branches of a function, names at
file scope that two files have, and files that include or call one another in a circle.

    python3 tools/lint/density.py [COMMIT]     a table of all files, now; or of a commit and now, side by side

A token is a token of C: a name, a number, a string or an operator. A line of code is one that holds more than comments
and spaces. So counted, llama2.c's run.c has 8.9 (8.85), and the plain.c of commit 3af6caa has 17.5. A branch is an
`if`, `for`, `while`, `case`, `?` or `&&`; that commit's read_option has 25. For names and circles, a header and the .c
of its name are one file. tools/lint/house.py shows what is past a limit, and fails past a tenth over it.
"""
import collections
import math
import os
import re
import subprocess
import sys

from c_source import ROOT, c_files, code_of, functions, tokens, without_comments

COLUMNS, TOKENS, BRANCHES, WIDE = 100, 12, 13, 3  # WIDE: lines of more than COLUMNS, percent of all
PAST = 1.1  # limits are reports with room: nothing fails up to a tenth over them
ROW = re.compile(r'\s*\{.*\},\s*')
BRANCH = r'\b(?:if|for|while|case)\b|\?|&&'

# ---- tokens, columns and branches ----


def is_over(count, limit, past=PAST):
    """Whether a whole number is past its limit, and past a tenth more, in whole numbers."""
    return count > math.ceil(round(limit * past, 6))


def tokens_of(text):
    """(tokens, lines of code). A row of a table is data, and is read by its columns: it counts as neither."""
    lines = [line for line in without_comments(text).split('\n') if line.strip() and not ROW.fullmatch(line)]
    return sum(len(tokens(line)) for line in lines), len(lines)


def tokens_a_line(text):
    count, lines = tokens_of(text)
    return count / max(lines, 1)


def wide_lines(text):
    return sum(len(line) > COLUMNS for line in text.split('\n'))


def branches_of(text):
    """(line, name, branches) of every function."""
    code = code_of(text)
    lines = code.split('\n')
    for line, name, length, _ in functions(code):
        yield line, name, len(re.findall(BRANCH, '\n'.join(lines[line - 1:line - 1 + length])))


# ---- names at file scope ----


def declarations(code):
    """Every declaration at file scope as a list of tokens; what stands in brackets or braces is a list in it. The body
    of a function ends one, as a semicolon does."""
    open_lists = [[]]
    for token in tokens(code):
        if token in '([{':
            open_lists.append([token])
        elif token in ')]}' and len(open_lists) > 1:
            closed = open_lists.pop()
            open_lists[-1].append(closed)
            if token == '}' and len(open_lists) == 1 and is_function(open_lists[0]):
                yield open_lists.pop()
                open_lists.append([])
        elif token == ';' and len(open_lists) == 1:
            yield open_lists.pop()
            open_lists.append([])
        else:
            open_lists[-1].append(token)


def is_list(item, bracket):
    return isinstance(item, list) and item[0] == bracket


def is_function(declaration):
    """Parameters, and then a body."""
    return is_list(declaration[-1], '{') and len(declaration) > 1 and is_list(declaration[-2], '(')


def parts(items, separator=','):
    """The items between separators."""
    found = [[]]
    for item in items:
        if item == separator:
            found.append([])
        else:
            found[-1].append(item)
    return found


def declared_name(items):
    """Of `type *name[2] = value`, `(*name)(int)` or `name`."""
    items = parts(items, '=')[0]
    if any(is_list(item, '(') and item[1:2] == ['*'] for item in items):
        items = next(item for item in items if is_list(item, '(') and item[1:2] == ['*'])
    names = [item for item in items if isinstance(item, str) and re.match(r'[A-Za-z_]', item)]
    return names[-1] if names and names[-1] not in ('struct', 'union', 'enum') else None


def names_in(declaration):
    """(name, what it is) of what a declaration defines."""
    for at, item in enumerate(declaration):
        if not is_list(item, '{') or not at or is_function(declaration):
            continue
        if 'enum' in declaration[max(at - 2, 0):at]:
            yield from ((constant[0], 'constant') for constant in parts(item[1:]) if constant)
        if declaration[at - 2:at - 1] and declaration[at - 2] in ('struct', 'union', 'enum'):
            yield declaration[at - 1], 'type'
    if is_function(declaration):
        yield declaration[-3], 'static' if 'static' in declaration else 'function'
        return
    is_type = declaration[:1] == ['typedef']
    is_opaque = is_type and len(declaration) == 4 and declaration[2] == declaration[3]
    brackets = [item for item in parts(declaration, '=')[0] if is_list(item, '(')]
    is_head = brackets and brackets[0][1:2] != ['*']
    if is_opaque or (is_head and not is_type) or 'extern' in declaration or len(declaration) < 2:
        return
    for part in parts(declaration):
        if declared_name(part):
            yield declared_name(part), 'type' if is_type else 'variable'


def names_of(path, text):
    """{name: what it is} of all that a file defines at its scope. What is only declared (the head of a function, an
    opaque struct, what a header has neither as static nor with a value) belongs to another file."""
    found = {}
    for declaration in declarations(re.sub(r'__attribute__', '', code_of(text))):
        is_own = {'static', 'typedef', '='} & {item for item in declaration if isinstance(item, str)}
        found.update((name, kind) for name, kind in names_in(declaration)
                     if kind != 'variable' or is_own or path.endswith('.c'))
    found.update((name, 'macro') for name in re.findall(r'^[ \t]*#[ \t]*define[ \t]+([A-Za-z]\w*)', text, re.M))
    return found


def owner(path):
    """A header, the .c of its name and its private header are one."""
    return re.sub(r'(_private)?\.[ch]$', '', path)


def shared_names(c):
    """(name, [paths]) of {path: text}: what two files define. A program of its own has a main of its own."""
    places = collections.defaultdict(dict)
    for path, text in sorted(c.items()):
        for name in names_of(path, text):
            places[name].setdefault(owner(path), path)
    for name, owners in sorted(places.items()):
        if len(owners) > 1 and name != 'main':
            yield name, list(owners.values())


# ---- circles ----


def mentioned(items, in_table):
    """The names of functions that are called in a body, or stand in a table."""
    for at, item in enumerate(items):
        if isinstance(item, list):
            yield from mentioned(item, in_table)
        elif items[at - 1] not in ('.', '->') and (in_table or any(is_list(x, '(') for x in items[at + 1:at + 2])):
            yield item


def uses(c):
    """{file: files that it includes or calls}, by names without ending."""
    names = {path: names_of(path, text) for path, text in c.items()}
    defined = {name: owner(path) for path in names for name, kind in names[path].items() if kind == 'function'}
    arrows = {owner(path): set() for path in c}
    for path, text in c.items():
        targets = arrows[owner(path)]
        for name in re.findall(r'^\s*#\s*include "(.*)"', text, re.M):
            targets.add(owner(os.path.normpath(os.path.join(os.path.dirname(path), name))))
        for declaration in declarations(code_of(text)):
            inside = [item for item in declaration if is_list(item, '{')]
            called = set(mentioned(inside, not is_function(declaration))) - set(names[path])
            targets.update(defined[name] for name in called if name in defined)
    return {path: {target for target in targets if target in arrows and target != path}
            for path, targets in arrows.items()}


def circles(arrows):
    """[files] of every set of files each of which leads to all the others (Tarjan's strongly connected components)."""
    number, low, stack, found = {}, {}, [], []

    def visit(path):
        number[path] = low[path] = len(number)
        stack.append(path)
        for target in sorted(arrows[path]):
            if target not in number:
                visit(target)
                low[path] = min(low[path], low[target])
            elif target in stack:
                low[path] = min(low[path], number[target])
        if low[path] == number[path]:
            at = stack.index(path)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for path in sorted(arrows):
        if path not in number:
            visit(path)
    return found


# ---- findings ----

def check_density(c, past=PAST):
    """What is past the limits in {path: text}, and past a tenth more, or with 1 past the limits themselves."""
    for path, text in sorted(c.items()):
        found = tokens_a_line(text)
        if found > TOKENS * past + 0.005:
            yield '%s:1: too dense (%.2f tokens a line of code, at most %d)' % (path, found, TOKENS)
        for line, function, count in branches_of(text):
            if is_over(count, BRANCHES, past):
                yield '%s:%d: %s has too many branches (%d, at most %d)' % (path, line, function, count, BRANCHES)
    lines, wide = (sum(map(count, c.values())) for count in (lambda text: text.count('\n'), wide_lines))
    if wide > WIDE / 100 * lines * past:
        yield 'src:1: too many lines past %d columns (%d of %d, at most %d %%)' % (COLUMNS, wide, lines, WIDE)
    for name, paths in shared_names(c):
        yield '%s:1: a name that another file has (%s, in %s, too)' % (paths[0], name, ' '.join(paths[1:]))
    for files in circles(uses(c)):
        yield '%s:1: files that include or call one another in a circle (%s, none)' % (files[0], ' '.join(files))


# ---- tables ----


def measured(c):
    """{path: (tokens, lines of code, tokens a line, wide lines, most branches)}"""
    found = {}
    for path, text in c.items():
        branches = [count for _, _, count in branches_of(text)]
        found[path] = (*tokens_of(text), tokens_a_line(text), wide_lines(text), max(branches, default=0))
    return found


def sums(c):
    """(what, figure) of all files together."""
    rows = measured(c).values()
    lines = sum(text.count('\n') for text in c.values())
    wide = sum(row[3] for row in rows)
    functions_over = sum(count > BRANCHES for text in c.values() for _, _, count in branches_of(text))
    yield 'files', len(rows)
    yield 'lines of C', lines
    yield 'tokens a line of code', '%.1f' % (sum(row[0] for row in rows) / max(sum(row[1] for row in rows), 1))
    yield 'files above %d' % TOKENS, sum(row[2] > TOKENS for row in rows)
    yield 'lines past %d columns' % COLUMNS, '%d (%.1f %%)' % (wide, 100 * wide / max(lines, 1))
    yield 'functions of more than %d branches' % BRANCHES, functions_over
    yield 'names that two files have', len(list(shared_names(c)))
    yield 'circles of files', len(circles(uses(c)))


def committed(commit):
    """{path: text} of the C of a commit."""
    def git(*words):
        return subprocess.check_output(['git', *words], cwd=ROOT).decode()
    paths = git('ls-tree', '-r', '--name-only', commit).split('\n')
    return {path: git('show', '%s:%s' % (commit, path)) for path in paths
            if path.endswith(('.c', '.h')) and not path.startswith('tests/')}


def table(versions):
    """The lines of a table: a file a row, a pair of columns (tokens a line, most branches) for each version."""
    rows = [measured(c) for c in versions]
    for path in sorted(set().union(*rows)):
        cells = ['%6.2f %3d' % (row[path][2], row[path][4]) if path in row else '%6s %3s' % ('-', '-') for row in rows]
        yield '%-32s %s' % (path, '   '.join(cells))
    yield ''
    for those in zip(*(sums(c) for c in versions)):
        yield '%-40s %s' % (those[0][0], '   '.join('%14s' % figure for _, figure in those))


def main(arguments):
    versions = [committed(commit) for commit in arguments[:1]] + [c_files()]
    print('%-32s %s' % ('file', '   '.join(['tokens most'] * len(versions))))
    print('\n'.join(table(versions)))
    print()
    for name, paths in shared_names(versions[-1]):
        print('shared: %s in %s' % (name, ' '.join(paths)))
    for files in circles(uses(versions[-1])):
        print('circle: %s' % ' '.join(files))


if __name__ == '__main__':
    main(sys.argv[1:])
