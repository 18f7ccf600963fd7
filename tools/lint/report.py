#!/usr/bin/env python3
"""make report: how large the project is, and how it changed since the last version. Nothing here is a limit.

    python3 tools/lint/report.py [COMMIT]     beside COMMIT (else the last version's figures, report.json)
    python3 tools/lint/report.py --keep       writes report.json: the figures of this version, once it is done
    python3 tools/lint/report.py --functions  the longest functions of C, by lines and by branches

Lines are all lines. A token is a token of C: a name, a number, a string or an operator; a line of code holds more than
comments and spaces, and rows of tables are left out of both. So counted, llama2.c's run.c has 8.9 tokens a line. A
branch is an `if`, `for`, `while`, `case`, `?` or `&&`. A hook is a function that a kind of model may give the forward
pass.
"""
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile

from arrows import CORE, place_of
from c_source import ROOT, code_of, functions, tokens, without_comments
from house import is_closed, is_generated
from scope import circles, shared_names, uses
from storey import hooks_of

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'report.json')
LONG, BRANCHES, WIDE, BIG = 50, 13, 100, 450  # lines, branches, columns, lines of a file: the limits of the counts
ROW = re.compile(r'\s*\{.*\},\s*')
BRANCH = r'\b(?:if|for|while|case)\b|\?|&&'
TEXTS = '.c', '.h', '.inc', '.py', '.js', '.mjs', '.css', '.html', '.md', '.json', '.mk', 'Makefile'


def git(*words):
    return subprocess.run(['git', *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def committed(commit):
    """{path: text} of a commit."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(git('archive', commit))) as packed:
        for member in packed.getmembers():
            if member.isfile() and member.name.endswith(TEXTS):
                found[member.name] = packed.extractfile(member).read().decode(errors='replace')
    return found


def present():
    """{path: text} of this tree, of all files in git or not ignored by it."""
    found = {}
    for path in git('ls-files', '-co', '--exclude-standard').decode().split('\n'):
        if path.endswith(TEXTS) and os.path.isfile(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding='utf-8', errors='replace') as file:
                found[path] = file.read()
    return found


# ---- measures ----

def is_own_c(path):
    return path.endswith(('.c', '.h')) and not path.startswith(('tests/', 'page/')) and not is_generated(path)


def tokens_of(text):
    """(tokens, lines of code)"""
    lines = [line for line in without_comments(text).split('\n') if line.strip() and not ROW.fullmatch(line)]
    return sum(len(tokens(line)) for line in lines), len(lines)


def functions_of(c):
    """(path, line, name, lines, branches) of every function."""
    for path, text in c.items():
        code = code_of(text)
        lines = code.split('\n')
        for line, name, length, _ in functions(code):
            yield path, line, name, length, len(re.findall(BRANCH, '\n'.join(lines[line - 1:line - 1 + length])))


def lines_of(texts, *starts, endings=TEXTS):
    return sum(text.count('\n') for path, text in texts.items() if path.startswith(starts) and path.endswith(endings))


def seconds_of_tests(texts):
    files = json.loads(texts.get('tests/times.json', '{"short": {}}'))['short'].values()
    return round(sum(sum(file.values()) for file in files))


def figures(texts):
    """(name, number) rows of {path: text}."""
    c = {path: text for path, text in texts.items() if is_own_c(path)}
    rooms = sorted({re.match(r'src/\w+/|', path).group() for path in c} - {''})
    yield 'lines of C', sum(text.count('\n') for text in c.values())
    for room in rooms:
        yield '  ' + room[:-1], lines_of(c, room)
    yield '  rope.[ch], run.c', lines_of(c, 'rope.', 'run.c')
    yield 'a Llama alone: rope.[ch], src/llama', sum(text.count('\n') for path, text in c.items() if is_closed(path))
    yield 'make core', sum(text.count('\n') for path, text in c.items() if place_of(path) in CORE)
    yield 'lines of Python that users run', lines_of(texts, 'export/', 'probe/', 'model_export.py', 'server_probe.py',
                                                     endings=('.py',))
    yield '  export', lines_of(texts, 'export/', 'model_export.py', endings=('.py',))
    yield '  probe', lines_of(texts, 'probe/', 'server_probe.py', endings=('.py',))
    yield 'lines of tools', lines_of(texts, 'tools/', endings=('.py', '.mjs'))
    yield 'lines of the page', lines_of(texts, 'page/', endings=('.js', '.mjs', '.css', '.html', '.c', '.h'))
    yield 'lines of tests', lines_of(texts, 'tests/', endings=('.py', '.c', '.h', '.mjs'))
    yield '  data of tests (JSON)', lines_of(texts, 'tests/', endings=('.json',))
    yield '  functions test_...', sum(len(re.findall(r'^def test_', text, re.M)) for path, text in texts.items()
                                      if path.startswith('tests/') and path.endswith('.py'))
    yield '  seconds of a processor (times.json)', seconds_of_tests(texts)
    yield 'lines of the Makefile', lines_of(texts, 'Makefile')
    yield '  of what it includes', lines_of(texts, '', endings=('.mk',))
    yield 'words of documents', sum(len(text.split()) for path, text in texts.items() if path.endswith('.md'))
    counted = [tokens_of(text) for text in c.values()]
    yield 'tokens a line of C', round(sum(n for n, _ in counted) / max(sum(lines for _, lines in counted), 1), 2)
    yield 'lines of C past %d columns' % WIDE, sum(len(line) > WIDE for text in c.values() for line in text.split('\n'))
    yield 'files of C past %d lines' % BIG, sum(text.count('\n') > BIG for text in c.values())
    found = list(functions_of(c))
    yield 'functions of C', len(found)
    yield '  past %d lines' % LONG, sum(lines > LONG for *_, lines, _ in found)
    yield '  past %d branches' % BRANCHES, sum(branches > BRANCHES for *_, branches in found)
    yield '  lines of the longest', max((lines for *_, lines, _ in found), default=0)
    arrows = uses(c)
    yield 'arrows between files of C', sum(map(len, arrows.values()))
    yield 'circles of files', len(circles(arrows))
    yield 'names that two files have', len(list(shared_names(c)))
    yield 'hooks of kinds of models', sum(map(len, hooks_of(texts).values()))


def last_version():
    """(version, {name: number}) from the kept file."""
    with open(KEPT, encoding='utf-8') as file:
        kept = json.load(file)
    return kept['version'], kept['figures']


def keep(texts):
    kept = {'version': re.search(r'#define VERSION "(.*)"', texts['run.c'])[1], 'figures': dict(figures(texts))}
    with open(KEPT, 'w', encoding='utf-8') as file:
        file.write(json.dumps(kept, indent=1) + '\n')


def changed(before, now):
    difference = round(now - before, 2)
    return '%+g' % difference if difference else ''


def show_functions(c):
    found = list(functions_of(c))
    for title, key in ('lines', 3), ('branches', 4):
        print('the most ' + title)
        for row in sorted(found, key=lambda row: -row[key])[:25]:
            print('%5d  %s:%d %s' % (row[key], *row[:3]))


def main(arguments):
    if not shutil.which('git') or not os.path.exists(os.path.join(ROOT, '.git')):
        print('report.py: this is no clone (git says which files belong to the project)', file=sys.stderr)
        return 2
    texts = present()
    if '--functions' in arguments:
        show_functions({path: text for path, text in texts.items() if is_own_c(path)})
        return 0
    if '--keep' in arguments:
        keep(texts)
        return 0
    commit = arguments[0] if arguments else None
    if commit and not git('rev-parse', '--verify', '--quiet', commit + '^{commit}'):
        print('report.py: there is no commit %s' % commit, file=sys.stderr)
        return 2
    name, before = (commit, dict(figures(committed(commit)))) if commit else last_version()
    print('%-40s %10s %10s %10s' % ('', name[:10], 'now', 'change'))
    now = dict(figures(texts))
    for what in [*now, *(name for name in before if name not in now)]:
        old, new = before.get(what), now.get(what)
        print(('%-40s %10s %10s %10s' % (what, '-' if old is None else '%g' % old, '-' if new is None else '%g' % new,
                                         changed(old or 0, new or 0))).rstrip())
    return 0


if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
