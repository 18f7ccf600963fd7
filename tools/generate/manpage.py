#!/usr/bin/env python3
"""The man page on standard output: docs/manual.md in roff, for a program that is installed as NAME. The program itself
need not run here: the lines of --help all, which the manual does not repeat, come from the tables in C.

    python3 tools/generate/manpage.py NAME VERSION DATA_FOLDER DOCUMENT_FOLDER
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPTIONS, ROPE_SETTINGS, OUTPUT = 'src/options/option_table.c', 'src/rope_settings.c', 'src/options/help_output.c'
OF_THE_SOURCES = 'In a browser', 'Building', 'Tested'  # sections about parts that are not installed
INSTALLED = r'(model\.bin|tokenizer\.bin|book\.txt|docs/.*|README\.md|CHANGELOG\.md|LICENSE)'
FILES = 'model.bin and tokenizer.bin, a small Llama that was trained on 512 positions, and book.txt, a story.'
WHERE = ('The commands of this page read model.bin, tokenizer.bin and book.txt. Where the current folder has no file '
         'of such a name, the one in `%s` is read, and standard error says so.')
DOCUMENTS = 'README.md, CHANGELOG.md and LICENSE. The documents that this page names are in docs.'
BOLD, ITALIC, ROMAN = '\\fB', '\\fI', '\\fR'


def escaped(text):
    """Text as roff takes it: backslashes, hyphens that can be copied, and no dot or quote that begins a request."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\\&' + text if text[:1] in ('.', "'") else text


def is_installed(path):
    """Whether a file of the sources, or a word that is no such file, can be had where the program is installed."""
    return bool(re.fullmatch(INSTALLED, path)) or not os.path.exists(os.path.join(ROOT, path))


def linked(link):
    """A link's text, with its address if that is a site's, and marked if only the sources have the file."""
    text, target = link.groups()
    if target.startswith('http'):
        return '%s (%s)' % (text, target)
    path = os.path.normpath(os.path.join('docs', target.partition('#')[0] or 'manual.md'))
    return text if is_installed(path) else text + ' of the sources'


def inline(text):
    """Markdown within a paragraph: code is bold, a link its text."""
    text = re.sub(r'!\[[^]]*\]\([^)]*\)', '', text).replace('\\|', '|')
    text = re.sub(r'\[([^]]*)\]\(([^)]*)\)', linked, text)
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
    """The lines that can be run with the installed files."""
    lines = [line for line in lines if all(map(is_installed, line.split()))]
    if lines:
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


# Of the tables in C: an option with its argument and its line of help, the heading of a group, or the place where the
# settings of RoPE are listed.
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r'\{"(--?[a-z][a-z-]*)",\s*(?:NULL|%s),\s*((?:%s\s*)+),|\.help = %s|(\.is_rope = true)' % (
    STRING, STRING.replace('(', '(?:', 1), STRING))


def options(path=OPTIONS):
    """The lines of --help all, by the order of the table."""
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        rows = ROW.findall(file.read())
    for option, argument, text, title, is_place in rows:
        if is_place:
            yield from options(ROPE_SETTINGS)
        elif title:
            yield '.SS ' + escaped(title)
        else:
            yield from ('.TP', BOLD + escaped(option) + ROMAN + escaped(' ' + argument) if argument else
                        BOLD + escaped(option) + ROMAN, escaped(''.join(re.findall(STRING, text))))


def outputs():
    """The text of --help JOB about a job's output: columns, and words that its options take."""
    with open(os.path.join(ROOT, OUTPUT), encoding='utf-8') as file:
        rows = re.findall(r'\{JOB_(\w+),\s*(NULL|%s),\s*%s,\s*((?:%s\s*)+)\}' % (
            STRING, STRING, STRING.replace('(', '(?:', 1)), file.read())
    for job, heading, title, name, text in rows:
        if heading != 'NULL':
            yield '.SS ' + escaped('--%s: %s' % (job.lower(), title[0].lower() + title[1:]))
        yield from ('.TP', BOLD + escaped(name) + ROMAN, escaped(''.join(re.findall(STRING, text))))


def sections(markdown):
    """The manual's paragraphs without its title, and without the sections that are about the sources."""
    left_out = 0  # the level of the heading whose section is left out
    for part in re.split(r'\n(?:[ \t]*\n)+', markdown.strip('\n'))[1:]:
        level, _, title = part.partition(' ')
        if re.fullmatch('#+', level) and not 0 < left_out < len(level):
            left_out = len(level) if title in OF_THE_SOURCES else 0
        if not left_out:
            yield part


def page(markdown, name, version, data, documents):
    """Line by line. `data` and `documents` are the folders of the other installed files."""
    for there, here in ((r'\./run\b', name), ('`run`', '`%s`' % name), ('python3 model_export.py', name + '-export'),
                        ('python3 server_probe.py', name + '-probe'), ('server_probe.py', name + '-probe'),
                        ('model_export.py', name + '-export')):
        markdown = re.sub(there, here, markdown)
    yield '.TH %s 1 "" "rope.c %s" "User Commands"' % (escaped(name.upper()), version)
    yield from ('.SH NAME', escaped('%s, %s-export, %s-probe - Llama inference past the trained length' % (
        name, name, name)))
    yield from ('.SH SYNOPSIS', '.B ' + escaped(name), escaped('model.bin [options]'), '.br', '.B ' +
                escaped(name + '-export'), escaped('checkpoint model.bin'), '.br', '.B ' + escaped(name + '-probe'),
                escaped('URL model.bin'), '.SH DESCRIPTION')
    title = ''
    for i, part in enumerate(sections(markdown)):
        if i == 1:
            yield from ('.PP', inline(WHERE % data))
        if part.startswith('## '):
            if title == '## Options':
                yield '.SS All options'
                yield from options()
            title = part
        yield from block(part.split('\n'))
    yield '.SH WHAT JOBS PRINT'
    yield from outputs()
    yield '.SH FILES'
    for folder, what in (data, FILES), (documents, DOCUMENTS):
        yield from entry(['`%s`' % folder, what], ['', ''])


def main(name, version, data, documents):
    with open(os.path.join(ROOT, 'docs', 'manual.md'), encoding='utf-8') as file:
        markdown = file.read()
    sys.stdout.reconfigure(encoding='utf-8')
    print('\n'.join(page(markdown, name, version, data, documents)))


if __name__ == '__main__':
    main(*sys.argv[1:])
