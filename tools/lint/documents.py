#!/usr/bin/env python3
"""Whether documents name existing things, checked by make lint: links lead to a file or a heading, commands name a
program and options that it has, and figures in prose are those of the table that the paragraph links. One line for
each finding, `path:line: what (found, expected)`, and exit status 1; or one line with the amount of text, and 0.

CHANGELOG.md also names removed options: there only links and figures are checked. tests/test_docs.py runs the
commands.
"""
import glob
import os
import re
import subprocess
import sys

from c_source import ROOT

# Options of llama.cpp, of ollama's and vLLM's command lines, which the documents explain.
FOREIGN = {'--rope-freq-base', '--rope-scale', '--rope-scaling', '--yarn-attn-factor', '--yarn-ext-factor',
           '--yarn-orig-ctx', '--yarn-beta-fast', '--yarn-beta-slow', '--modelfile', '--port', '--hf-overrides'}
OPTION = re.compile(r'(?<![\w-])--[a-z][a-z-]*')
PROGRAM = re.compile(r'(?:\w+=\S+ |\S.* && |\S.* \| )*(?:(\./[a-z]+)\b(?![/.])|(?:python3 |\./)([\w/]+\.py))')


def documents():
    """The paths of all documents, from ROOT."""
    names = ['README.md', 'CHANGELOG.md', 'models/README.md', 'tests/README.md', 'tests/engines/README.md',
             'tests/conformance/README.md', 'tools/training/README.md', 'probe/README.md']
    return names + sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, 'docs', '*.md')))


def text_of(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


# ---- links ----

def anchors(markdown):
    """The names that GitHub gives to headings."""
    headings = re.findall(r'^#+ +(.*)', re.sub(r'```.*?```', '', markdown, flags=re.S), re.M)
    texts = (re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading) for heading in headings)
    return {re.sub(r'[^\w\- ]', '', text.lower()).replace(' ', '-') for text in texts}


def dead_links(name, markdown):
    """Links without a target: a missing file, or a missing heading of a document."""
    for target in re.findall(r'\]\(([^)\s]+)\)', re.sub(r'```.*?```|`[^`]*`', '', markdown, flags=re.S)):
        path, _, anchor = target.partition('#')
        if re.match(r'https?:', target):
            continue
        file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(ROOT, file)) or anchor and anchor not in anchors(text_of(file)):
            yield target


# ---- figures in prose ----

def figures_of(path):
    """The numbers in a table by tabs."""
    cells = re.split(r'[\t\n]', text_of(path))
    return [float(cell) for cell in cells if re.fullmatch(r'-?\d+(\.\d+)?', cell)]


def strange_figures(name, markdown):
    """(paragraph, number) of numbers with decimals, outside of code, in a paragraph that links tables of docs/figures:
    those that none of the tables has, to as many digits."""
    for paragraph in re.split(r'\n\n+', re.sub(r'```.*?```', '', markdown, flags=re.S)):
        paths = [os.path.normpath(os.path.join(os.path.dirname(name), path))
                 for path in re.findall(r'\]\(([^)]*figures/[\w-]+\.tsv)\)', paragraph)]
        known = [number for path in paths for number in figures_of(path)]
        prose = re.sub(r'`[^`]*`|\]\([^)]*\)', '', paragraph)
        for said in re.findall(r'(?<![\w.,])-?\d+\.\d+(?![\w.])', prose) if paths else ():
            if all('%.*f' % (len(said.partition('.')[2]), number) != said for number in known):
                yield paragraph, said


# ---- options ----

def options_of(program):
    """The options of a program: of ./run, or of its parts that make builds, by --help; of one in Python by its text and
    the files beside it. None: there is no such program."""
    if program.startswith('./') and re.search('^%s:' % program[2:], text_of('Makefile'), re.M):
        told = subprocess.run([os.path.join(ROOT, 'run'), '--help', 'all'], stdout=subprocess.PIPE, check=True)
        return set(re.findall(r'^  (--[a-z-]+)', told.stdout.decode(), re.M))
    if not os.path.exists(os.path.join(ROOT, program)):
        return None
    folder = os.path.dirname(program)
    beside = glob.glob(os.path.join(ROOT, folder, '*.py')) if folder else [os.path.join(ROOT, program)]
    return set(OPTION.findall('\n'.join(map(text_of, beside)))) | {'--help'}


def code_of(markdown):
    """(line, code, whether it is a command line) of the text in backquotes or indented by four."""
    fenced = False
    for number, line in enumerate(markdown.split('\n'), 1):
        fenced ^= line.startswith('```')
        if line.startswith('    ') or fenced:
            yield number, line.strip(), True
        else:
            for code in re.findall(r'`([^`]+)`', line):
                yield number, code, bool(PROGRAM.match(code))


def stale_options(markdown, known, every):
    """(line, what) of options that a command's program, or no program at all, has."""
    for number, code, is_command in code_of(markdown):
        program = PROGRAM.match(code) if is_command else None
        name = program and (program[1] or program[2])
        if is_command and not program or name == 'tests/test_X.py':
            continue
        if program and name not in known:
            known[name] = options_of(name)
        if program and known[name] is None:
            yield number, 'a command of a program that is not here (%s)' % name
            continue
        has = known[name] if program else every
        rest = code[program.end():].split(' # ')[0].split(' | ')[0].split(' && ')[0] if program else code
        for option in OPTION.findall(rest):
            if option not in has:
                yield number, 'an option that is not one of %s (%s)' % (name or 'a program here', option)


def faults():
    known = {name: options_of(name) for name in ('./run', 'model_export.py', 'server_probe.py')}
    every = set().union(FOREIGN, *known.values())
    for folder in 'tools/*', 'tests', 'tests/*':
        for path in glob.glob(os.path.join(ROOT, folder, '*.py')):
            every |= set(OPTION.findall(text_of(path)))
    for name in documents():
        markdown = text_of(name)
        for target in dead_links(name, markdown):
            line = markdown[:markdown.index('(' + target)].count('\n') + 1
            yield '%s:%d: a dead link (%s, a file or a heading that is there)' % (name, line, target)
        for paragraph, said in strange_figures(name, markdown):
            line = markdown[:markdown.index(paragraph)].count('\n') + 1
            yield '%s:%d: a figure that is not in the table linked there (%s)' % (name, line, said)
        if name != 'CHANGELOG.md':
            for line, what in stale_options(markdown, known, every):
                yield '%s:%d: %s' % (name, line, what)


def main():
    found = list(faults())
    print('\n'.join(found) or 'documents: links, options and figures of %d documents' % len(documents()))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
