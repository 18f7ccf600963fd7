#!/usr/bin/env python3
"""The man page run.1 on standard output: docs/manual.md in roff, and each option, method and map of --help that
the manual does not name.

    python3 tools/manpage.py ./run
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOLD, ITALIC, ROMAN = '\\fB', '\\fI', '\\fR'


def escaped(text):
    """Text as roff takes it: backslashes, hyphens that can be copied, and no dot or quote that begins a request."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\\&' + text if text[:1] in ('.', "'") else text


def inline(text):
    """Markdown within a paragraph: code is bold, a link its text (and its address where that is a site's)."""
    text = re.sub(r'!\[[^]]*\]\([^)]*\)', '', text).replace('\\|', '|')
    text = re.sub(r'\[([^]]*)\]\((https?:[^)]*)\)', r'\1 (\2)', text)
    text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)
    pieces = re.split(r'(`[^`]+`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*(?!\w))', text.strip())
    for i in range(1, len(pieces), 2):
        marks = 2 if pieces[i].startswith('**') else 1
        font = ITALIC if pieces[i][0] == '*' and marks == 1 else BOLD
        pieces[i] = font + escaped(pieces[i][marks:-marks]).replace('\\&', '') + ROMAN
    pieces[::2] = [escaped(piece).replace('\\&', '') if i else escaped(piece) for i, piece in enumerate(pieces[::2])]
    return ''.join(pieces)


def entry(cells, head):
    """A row of a table: its first cell, and below it the others, with their column's name where there are several."""
    rest = [(name, cell) for name, cell in zip(head[1:], cells[1:]) if cell]
    yield '.TP'
    yield inline(cells[0])
    for i, (name, cell) in enumerate(rest):
        if i:
            yield '.br'
        yield (inline(name) + ': ' if len(head) > 2 else '') + inline(cell)


def cells_of(line):
    return [cell.strip() for cell in re.split(r'(?<!\\)\|', line.strip()[1:-1])]


def table(lines):
    head, _, *rows = [cells_of(line) for line in lines]
    for row in rows:
        yield from entry(row, head)


def code(lines):
    yield from ('.PP', '.nf', '.RS 4')
    yield from (escaped(line[4:]) for line in lines)
    yield from ('.RE', '.fi')


def block(lines):
    """A heading, a table, a list, code or a paragraph."""
    first = lines[0]
    if first.startswith('#'):
        level, _, title = first.partition(' ')
        yield '.SH ' + escaped(title.upper()) if level == '##' else '.SS ' + escaped(title)
    elif first.startswith('|'):
        yield from table(lines)
    elif first.startswith('    '):
        yield from code(lines)
    elif re.match(r'(- |\d+\. )', first):
        for item in re.split(r'\n(?=- |\d+\. )', '\n'.join(lines)):
            mark, _, text = item.partition(' ')
            yield '.IP %s 4' % ('\\(bu' if mark == '-' else mark)
            yield inline(' '.join(text.split()))
    elif inline(' '.join(lines)):
        yield '.PP'
        yield inline(' '.join(lines))


def body(markdown):
    """The manual without its title, block by block."""
    for part in re.split(r'\n(?:[ \t]*\n)+', markdown.strip('\n'))[1:]:
        yield from block(part.split('\n'))


def help_groups(told):
    """[(heading, [(name with its argument, text)])] of what --help prints."""
    groups = [('Options', [])]
    for line in told.split('\n')[3:]:
        if re.match(r'[A-Z].*:$', line):
            groups.append((line[:-1], []))
        elif line.startswith('  '):
            name, text = re.match(r'  (.{22}\S*) +(.*)', line).groups()
            groups[-1][1].append((name.strip(), text))
    return groups


def missing(markdown, groups):
    """Those of --help that the manual names nowhere in code."""
    named = set(re.findall(r'[^\s`|=]+', ' '.join(re.findall(r'`([^`]+)`', markdown))))
    for heading, rows in groups:
        left = [row for row in rows if row[0].split()[0] not in named]
        if left:
            yield heading, left


def page(markdown, told):
    about, usage = told.split('\n')[0], re.search(r'usage: run (.*)', told).group(1)
    name, _, what = about.partition(': ')
    yield '.TH RUN 1 "" "%s" "User Commands"' % name
    yield from ('.SH NAME', 'run \\- ' + escaped(what), '.SH SYNOPSIS', '.B run', escaped(usage))
    yield from ('.SH DESCRIPTION', inline(re.split(r'\n\n', markdown)[1].replace('\n', ' ')))
    yield from body(markdown.partition('\n\n')[2])
    for heading, rows in missing(markdown, help_groups(told)):
        yield '.SH FURTHER ' + escaped(heading.upper())
        for left, text in rows:
            yield from ('.TP', BOLD + escaped(left) + ROMAN, escaped(text))


def main(program):
    with open(os.path.join(ROOT, 'docs', 'manual.md'), encoding='utf-8') as file:
        markdown = file.read()
    told = subprocess.run([program, '--help'], stdout=subprocess.PIPE, check=True).stdout.decode()
    sys.stdout.reconfigure(encoding='utf-8')
    print('\n'.join(page(markdown, told)))


if __name__ == '__main__':
    main(sys.argv[1])
