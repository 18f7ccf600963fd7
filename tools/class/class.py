#!/usr/bin/env python3
"""Checks docs/class.md: its commands print the output below them, its sums are right, its links lead somewhere, and its
minutes are ninety. `make class`.

    tools/class/class.py [--quick] [FILE]    --quick: the commands that cost least alone; FILE: another text

The ranges that a teacher says are held on the last third of the story, too (tools/class/class_ranges.py).

It compares ```console blocks with their commands' output (tools/lint/console.py); ```python blocks, whose comments
are the values; ```c blocks, a method and its row, which are built into a copy for the commands that name it.
"""
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import class_ranges

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools', 'lint'))
from console import blocks, commands, desk, first_difference, printed  # noqa: E402

CLASS = os.path.join(ROOT, 'docs', 'class.md')
SECONDS = 5  # of a processor, that a command may take; twice that on a slower machine or beside other work
CHEAP = ('--explain', '--engines', '--attn', '--spread', 'echo')  # of --quick


def with_method(function, row, folder):
    """The program with one more method, built in a copy: only rope.c is compiled again. None when it does not build."""
    os.makedirs(folder)
    for name in ('run.c', 'rope.c', 'rope.h', 'Makefile'):
        shutil.copy2(os.path.join(ROOT, name), folder)
    for name in ('src', 'build'):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name),
                        ignore=shutil.ignore_patterns('page*', 'fuzz*', 'tests'))
    path = os.path.join(folder, 'rope.c')
    with open(path, encoding='utf-8') as file:
        source = file.read()
    table = source.index('const RopeMethod rope_methods[]')
    end = source.index('};', table)
    above = source.rindex('\n\n', 0, table)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(source[:above] + '\n\n' + function + source[above:end] + row + source[end:])
    built = subprocess.run(['make', '-s', 'run'], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if built.returncode:
        print(built.stdout.decode(errors='replace')[-500:])
        return None
    return os.path.join(folder, 'run')


class Count:
    """Checks that held, and that did not."""
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, good, what, found=''):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print('FAIL %s%s' % (what, found and ': %s' % found))


def check_commands(text, count, quick, folder):
    usual = desk(os.path.join(folder, 'desk'), os.path.join(ROOT, 'run'))
    name, own = None, None
    parts = blocks(text, 'c')
    if parts and not quick:
        name = re.search(r'"([\w-]+)"', parts[1]).group(1)
        program = with_method(*parts[:2], os.path.join(folder, 'tree'))
        count.check(program, 'the method of exercise 6 builds')
        own = program and desk(os.path.join(folder, 'own'), program)
    for command, said in commands(text):
        is_own = name and re.search(r'\b%s\b' % name, command)
        if quick and not any(word in command for word in CHEAP) or is_own and not own:
            continue
        found, status, wall, work = printed(command, own if is_own else usual)
        good = first_difference(said, found)
        count.check(good is None, command, 'not found in what it printed: %s' % good)
        count.check(status in (0, 1, 3), command, 'exit status %d' % status)
        count.check(work <= 2 * SECONDS, command, '%.0f seconds of the processor' % work)
        if not quick:
            print('%5.1f s, %5.1f s of the processor: %s' % (wall, work, command[:80]), file=sys.stderr)


def check_sums(text, count):
    for block in blocks(text, 'python'):
        names = dict(vars(math))
        for line in filter(str.strip, block.split('\n')):
            sum_, _, said = line.partition('#')
            name, _, expression = sum_.rpartition(' = ')
            value = eval(expression, names)
            if name:
                names[name.strip()] = value
            said = said.strip()
            unit = 10.0 ** -len(said.partition('.')[2])
            good = said and abs(value - float(said)) <= unit / 2 * (1 + 1e-9)
            count.check(good, sum_.strip(), '%r, not %s' % (value, said))


def chapters_of_page():
    """{title of a chapter of the page: the titles of its panels}."""
    def source(*names):
        with open(os.path.join(ROOT, 'page', 'src', *names), encoding='utf-8') as file:
            return file.read()
    story = source('story.js')
    files = dict(re.findall(r"^import \{ (\w+) \} from '\./(.*?)';", story, re.M))
    found = {}
    for chapter in story.split("\n        id: '")[1:]:
        makers = re.findall(r'\w+', ' '.join(re.findall(r'^        (?:panels|more): \[(.*?)\]', chapter, re.M)))
        panels = ''.join(source(files[maker]) for maker in makers)
        found[re.search(r"title: '(.*?)'", chapter)[1]] = re.findall(r"^ {4,8}title: '(.*?)'", panels, re.M)
    return found


def check_plan(text, count):
    minutes = [tuple(map(int, pair)) for pair in re.findall(r'^\| (\d+) to (\d+) \|', text, re.M)]
    count.check(minutes and minutes[0][0] == 0 and minutes[-1][1] == 90 and all(
        a[1] == b[0] < b[1] for a, b in zip(minutes, minutes[1:])), 'the plan fills ninety minutes', minutes)
    count.check(re.findall(r'^### (\d)\.', text, re.M) == list('123456789'), 'nine commands')
    exercises = text.split('\n## Exercises\n')[1].split('## Solutions')[0]
    numbers = [str(k) for k in range(1, 9)]
    count.check(re.findall(r'^(\d+)\. ', exercises, re.M) == numbers, 'eight exercises')
    count.check(re.findall(r'^\*\*(\d+)\.\*\*', text.split('## Solutions')[1], re.M) == numbers, 'eight solutions')
    for link in re.findall(r'\]\((?!https?:|#)([^)#]+)', text):
        count.check(os.path.exists(os.path.join(ROOT, 'docs', link)), 'a link leads somewhere', link)
    figures = {name for name in os.listdir(os.path.join(ROOT, 'docs', 'figures')) if name.endswith('.png')}
    with open(os.path.join(ROOT, 'tools', 'class', 'sheets', 'figures.tsv'), encoding='utf-8') as file:
        slides = [line.partition('\t')[0] for line in file.read().splitlines()[1:]]
    odd = ' '.join(figures.symmetric_difference(slides))
    count.check(sorted(slides) == sorted(figures), 'each figure is a slide', odd)
    headings = {re.sub(r'[^\w -]', '', line).strip().lower().replace(' ', '-')
                for line in re.findall(r'^#+ (.*)', text, re.M)}
    for link in re.findall(r'\]\(#([^)]+)', text):
        count.check(link in headings, 'a link within the text', link)
    page = chapters_of_page()
    panels = re.findall(r'^\| (\d(?:, \d)*) \| ([A-Z][^|]+: [^|]+) \| [^|]+ \|$', text, re.M)  # without a compiler
    answered = [number for numbers, _ in panels for number in numbers.split(', ')]
    count.check(sorted(answered) == list('12345678'), 'a panel answers each command but the last', panels)
    for title in [title for _, title in panels] + re.findall(r'^\| \d+ to \d+ \|[^|]*\| ([^|]+?) \|', text, re.M):
        chapter, _, panel = title.partition(': ')
        count.check(chapter in page and (not panel or panel in page[chapter]), 'a chapter of the page, and its panel',
                    title)


def main(arguments):
    quick = arguments[:1] == ['--quick']
    paths = arguments[quick:] or [CLASS]
    if len(paths) > 1 or paths[0].startswith('-'):
        sys.exit(__doc__)
    lost = [name for name in ('model-8k.bin', 'models/rope.bin') if not os.path.exists(os.path.join(ROOT, name))]
    if lost:
        sys.exit('class.py: %s is not here: the small models are packed apart (docs/class.md says where)' % lost[0])
    with open(paths[0], encoding='utf-8') as file:
        text = file.read()
    count = Count()
    check_plan(text, count)
    check_sums(text, count)
    with tempfile.TemporaryDirectory() as folder:
        check_commands(text, count, quick, folder)
    if not quick:
        wrong = class_ranges.held(text)
        count.check(not wrong, 'the ranges hold on the last third of the story', '; '.join(wrong))
    print('%d passed, %d failed' % (count.passed, count.failed))
    return 1 if count.failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
