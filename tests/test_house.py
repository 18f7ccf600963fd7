#!/usr/bin/env python3
"""The house: the repository follows the style (tools/lint/house.py), and docs/code.md is right: the files, their lines,
the length of the walk."""

import json
import os
import re
import subprocess
import sys

from common import ROOT, check, main, skip, takes_long, house as c_files

sys.path.insert(0, os.path.join(ROOT, 'tools', 'lint'))
import house  # noqa: E402
import report  # noqa: E402
import scope  # noqa: E402
import storey  # noqa: E402

# ---- the style ----


@takes_long  # make lint does the same
def test_repository():
    found = list(house.findings(*house.all_files()))
    check(not found, 'tools/lint/house.py finds nothing', '%d findings: %s' % (len(found), '; '.join(found[:5])))


def test_report():
    """make report counts this tree, beside an older one or the last version; nothing in it is a limit."""
    if not os.path.exists(os.path.join(ROOT, '.git')):
        return skip('make report: this is no clone')
    said = subprocess.run([sys.executable, '-S', 'tools/lint/report.py', 'HEAD'], cwd=ROOT, stdout=subprocess.PIPE,
                          universal_newlines=True)
    rows = {line[:40].strip(): line[40:].split() for line in said.stdout.splitlines()}
    own = sum(document(path).count('\n') for path in c_files('src/llama') + ['src/llama/main.c', 'rope.c', 'rope.h'])
    check(said.returncode == 0 and rows['a Llama alone: rope.[ch], src/llama'][1] == str(own), 'a Llama alone', rows)
    lost = [what for what in ('lines of C', 'words of documents', 'hooks of kinds of models', 'lines of the Makefile')
            if float(rows.get(what, [0, 0])[1]) <= 0]
    check(not lost, 'what is counted', lost)
    version, kept = report.last_version()
    check(re.fullmatch(r'\d+\.\d+\.\d+', version) and set(rows) >= set(kept) - {row for row in kept if row[:2] == '  '},
          'the figures of the last version', version, set(kept) - set(rows))


LOW, HIGH = 'src/llama/low', 'src/kinds/high'
ARROWS = [
    ('a call down', {LOW + '.c': 'int f(void) { return 1; }', HIGH + '.c': 'int g(void) { return f(); }'}, 0, 0),
    ('a call up', {LOW + '.c': 'int f(void) { return g(); }', HIGH + '.c': 'int g(void) { return 1; }'}, 1, 0),
    ('a table up', {LOW + '.h': 'extern const int g;', LOW + '.c': '#include "low.h"\nint f(void) { return g; }',
                    HIGH + '.c': 'const int g = 1;'}, 2, 0),
    ('a member of that name', {LOW + '.h': 'struct S { int g; };', LOW + '.c': 'int f(struct S *s) { return s->g; }',
                               HIGH + '.c': 'extern const int g;\nconst int g = 1;'}, 0, 0),
    ('a name of above', {LOW + '.h': 'extern const char *const g[2];', HIGH + '.c': 'const char *const g[2] = {"a"};'}, 1, 0),
    ('a head of above', {LOW + '.h': 'int g(void (*f)(int));', HIGH + '.c': 'int g(void (*f)(int)) { return !f; }'}, 1, 0),
    ('a job of above', {LOW + '.h': 'Job g;', HIGH + '.c': 'bool g(int a) { return a; }'}, 1, 0),
    ('a name of below', {HIGH + '.h': 'extern int g;\nint f(void);', LOW + '.c': 'int g;\nint f(void) { return g; }'}, 0, 0),
    ('names of one room', {LOW + '.h': 'int f(void);', LOW + 'er.c': 'int f(void) { return 1; }'}, 0, 0),
    ('a circle', {HIGH + '.c': 'int f(void) { return g(); }', HIGH + 'er.c': 'int g(void) { return f(); }'}, 0, 1),
    ('a circle by a header', {HIGH + '.h': '#include "higher.h"', HIGH + '.c': '', HIGH + 'er.h': '',
                              HIGH + 'er.c': '#include "high.h"'}, 0, 1),
    ('a circle by a table', {HIGH + '.h': 'extern int (*const rows[])(void);\nint g(void);',
                             HIGH + '.c': 'int (*const rows[])(void) = {f};', HIGH + 'er.h': 'int f(void);',
                             HIGH + 'er.c': '#include "high.h"\nint f(void) { return !rows[0]; }'}, 0, 1)]


def test_arrows():
    """Uses that run up or in a circle are found, by includes, calls and tables."""
    for what, c, up, round_about in ARROWS:
        found = list(storey.check_arrows(c)), scope.circles(scope.uses(c))
        check((len(found[0]), len(found[1])) == (up, round_about), what, found)
    hooks = storey.hooks_of({paths[0]: document(paths[0]) for paths in storey.HOOKS.values()})
    check('check_layers' in hooks['Kind'] and 'layer_by_team' in hooks['FastKind'], 'the hooks are found', hooks)


# ---- docs/code.md ----

def code_document():
    """(The walk, the rest), with links as from the root."""
    _, walk, rest = re.split(r'\n## (?=The walk\n|The rooms\n)', document('docs/code.md').replace('](../', ']('))
    return walk, rest


def rows_of(section):
    """(number or None, [linked or named folders], lines or None) of every row that names a file."""
    for line in section.splitlines():
        first, *cells = [cell.strip() for cell in line.strip().strip('|').split('|')] if line[:1] == '|' else ['x']
        if not re.fullmatch(r'\d*|-', first):
            continue
        paths = re.findall(r'\[[^]]*\]\(([^):#]*)[^)]*\)', ' '.join(cells))
        paths = [path.rstrip('/') for path in paths if path.strip()]
        if not paths:  # a room, by its name
            paths = re.findall(r'(?<![\w/.])((?:src|export|tools|tests|docs)(?:/\w+)?)/?(?![\w/.])', cells[0])
        counts = [int(cell.replace(',', '')) for cell in cells if re.fullmatch(r'\d[\d,]*', cell)]
        if paths:
            yield int(first) if first.isdigit() else None, paths, counts[0] if counts else None


def lines_of(path, elsewhere=()):
    """The lines of a file, or of all C and Python in a folder except files linked elsewhere."""
    path = os.path.join(ROOT, path)
    if os.path.isfile(path):
        with open(path, encoding='utf-8') as file:
            return sum(1 for _ in file)
    inside = [os.path.join(place, name) for place, _, names in os.walk(path) for name in names]
    return sum(lines_of(name) for name in inside
               if name.endswith(('.c', '.h', '.py')) and os.path.relpath(name, ROOT) not in elsewhere)


def reading_faults(section):
    """The differences between the section and the repository."""
    rows, linked = list(rows_of(section)), set()
    walk = [(number, count) for number, _, count in rows if number is not None]
    if not walk:
        yield 'there is no walk: rows like | 1 | [run.c](run.c) | 312 | the program |'
    for _, paths, _ in rows:
        linked.update(paths)
    for number, paths, count in rows:
        lost = [path for path in paths if not os.path.exists(os.path.join(ROOT, path))]
        if lost:
            yield 'there is no ' + ', '.join(lost)
            continue
        if number is not None and count is None:
            yield 'row %d states no lines' % number
        sizes = {sum(map(lines_of, paths)), sum(lines_of(path, linked) for path in paths)}
        within = 0 if number is not None else 0.1  # the walk's counts are exact
        if count is not None and not any(abs(count - size) <= within * size for size in sizes):
            yield '%s: %d lines are stated (there are %s)' % (' '.join(paths), count, ' or '.join(map(str, sizes)))
    if [number for number, _ in walk] != list(range(1, len(walk) + 1)):
        yield 'the walk is not numbered from 1 on'
    for path in c_files('src') + ['rope.c', 'rope.h', 'run.c']:
        folders = {path.rsplit('/', n)[0] for n in range(1, path.count('/'))} | {os.path.dirname(path)}
        if path not in section and not (folders - {'', 'src'}) & linked:
            yield path + ' is not named'


def document(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def test_reading_the_code():
    walk, rest = code_document()
    faults = list(reading_faults(walk + rest))
    check(not faults, 'docs/code.md', '%d faults: %s' % (len(faults), '; '.join(faults[:6])))
    rooms = [paths for number, paths, _ in rows_of(walk) if number is None]
    check(not rooms and '(docs/code.md#the-walk)' in document('README.md'), 'the README leads to the walk', rooms)


def ahead(section, text_of):
    """(file, header) if a step of the walk includes a header that no step up to it has, and that the prose does not
    name."""
    read = set(re.findall(r'\]\(([^)]*\.h)\)', '\n'.join(x for x in section.splitlines() if x[:1] != '|')))
    for number, paths, _ in rows_of(section):
        read.update(paths)
        for path in paths if number else ():
            for name in re.findall(r'^#include "(.*)"', text_of(path), re.M):
                header = os.path.normpath(os.path.join(os.path.dirname(path), name))
                if header not in read:
                    yield path, header


def test_order_of_the_walk():
    """A step of the walk needs no later one, and the headers that it leans on beside the walk are named."""
    walk, _ = code_document()
    check(not list(ahead(walk, document)), 'the walk needs nothing from later', list(ahead(walk, document)))


def test_story():
    """The text of --check is book.txt, as tools/generate/prose.py writes it."""
    made = subprocess.run([sys.executable, '-S', 'tools/generate/prose.py', '--print'], cwd=ROOT,
                          stdout=subprocess.PIPE, universal_newlines=True)
    check(made.stdout == document('src/tasks/prose.inc'), 'src/tasks/prose.inc is what tools/generate/prose.py writes')
    pieces = re.findall(r'^    "(.*)"$', made.stdout, re.M)
    text = re.sub(r'\\(.)', lambda m: '\n' if m[1] == 'n' else m[1], ''.join(pieces))
    check(text == document('book.txt'), 'the story as a string of C is book.txt', len(text))


def test_refusals_are_asked():
    """Each group of rows of tests/refused/X.json is asked by test_X.py, and has rows."""
    for name in sorted(os.listdir(os.path.join(ROOT, 'tests', 'refused'))):
        groups, asks = json.loads(document('tests/refused/' + name)), document('tests/test_%s.py' % name[:-5])
        lost = [group for group, rows in groups.items() if not rows or "'%s'" % group not in asks]
        check(groups and not lost, 'tests/refused/%s: all rows are asked' % name, lost)


main(globals())
