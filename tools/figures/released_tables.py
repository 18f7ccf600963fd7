#!/usr/bin/env python3
"""Measures the tables of docs/released.md, docs/figures/released-*.tsv:

    python3 tools/figures/released_tables.py FOLDER/ [NAME ...]

The folder holds the models that tools/released.py downloads and great-expectations.txt (tools/plain_text.py). Every
command is printed before it runs, as the document prints it; a name measures only that table. Each method runs by
itself, and its output is kept in FOLDER/parts, so that an interrupted measurement goes on. tests/test_figures.py
compares the document's numbers with the tables. All of it takes 50 minutes on two quiet cores.
"""

import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
METHODS = 'none,linear,ntk,yarn,dynamic-ntk,cope,self-extend,dca'
NOVEL = 'great-expectations.txt', 'Great Expectations'
STORY = 'book.txt', 'the story that ships'


def ppl(model, text, length, *rope):
    return [model + '.gguf', '--ppl', text[0], '-n', length, '--rope', *rope]


def jumps(model, spread, *rope):
    """Texts of 1,024 tokens, spread over so many positions."""
    return [model + '.gguf', '--ppl', NOVEL[0], '-n', '1024', '--spread', spread, '--samples', '4', '--rope', *rope]


def check(model, length, *rope):
    """A verdict."""
    return [model + '.gguf', '--check', NOVEL[0], '-n', length, '--rope', *rope]


# name: (positions that the model was trained on, the text's title, commands)
TABLES = {
    'released-story': (8192, STORY[1], [ppl('smollm2', STORY, '16k', 'none,yarn')]),
    'released-smollm2': (8192, NOVEL[1], [ppl('smollm2', NOVEL, '16k', METHODS)]),
    'released-smollm2-32k': (8192, NOVEL[1], [ppl('smollm2', NOVEL, '32k', 'yarn')]),
    'released-smollm2-jumps': (8192, NOVEL[1], [jumps('smollm2', '32k', METHODS)]),
    'released-smollm2-check': (8192, NOVEL[1], [check('smollm2', '16k', rope) for rope in ('none', 'yarn', 'dca')]),
    'released-gemma3': (32768, NOVEL[1], [
        ppl('gemma3', NOVEL, '8k', 'none,linear:factor=4,yarn:factor=4'),
        ppl('gemma3', NOVEL, '8k', 'linear:factor=4', '--rope-sliding', 'linear:factor=4'),
        ppl('gemma3', NOVEL, '8k', 'yarn:factor=4', '--rope-sliding', 'yarn:factor=4')]),
    'released-gemma3-48k': (32768, NOVEL[1], [
        ppl('gemma3', NOVEL, '48k', 'none,yarn'),
        ppl('gemma3', NOVEL, '48k', 'yarn', '--rope-sliding', 'yarn:factor=1.5')]),
    'released-gemma3-jumps': (32768, NOVEL[1], [
        jumps('gemma3', '128k', METHODS),
        jumps('gemma3', '128k', 'linear', '--rope-sliding', 'linear:factor=4'),
        jumps('gemma3', '128k', 'yarn', '--rope-sliding', 'yarn:factor=4')]),
    'released-qwen': (32768, NOVEL[1], [ppl('qwen', NOVEL, '8k', 'none,yarn:factor=4')]),
    'released-qwen-jumps': (32768, NOVEL[1], [jumps('qwen', '128k', METHODS)]),
}


def typed(command):
    return shlex.join(['./run', *command])


def by_method(command):
    """The command once for each method of its list."""
    at = command.index('--rope') + 1
    return [command[:at] + [method] + command[at + 1:] for method in command[at].split(',')]


def printed(command, folder):
    """The command's output, from now or before."""
    kept = os.path.join(folder, 'parts', re.sub(r'[^\w.=-]+', '-', ' '.join(command)) + '.tsv')
    if not os.path.exists(kept):
        place = ROOT if STORY[0] in command else folder
        words = [os.path.join(folder, word) if word.endswith('.gguf') else word for word in command]
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(kept + '.part', 'w', encoding='utf-8') as out:
            done = subprocess.run([os.path.join(ROOT, 'run'), *words], cwd=place, stdout=out)
        if done.returncode not in (0, 1):  # 1: a verdict
            sys.exit('released_tables.py: %s: ./run failed' % typed(command))
        os.replace(kept + '.part', kept)
    with open(kept, encoding='utf-8') as file:
        return file.read().replace(os.path.join(folder, ''), '')


def measure(name, folder):
    trained, book, commands = TABLES[name]
    path = os.path.join(ROOT, 'docs', 'figures', name + '.tsv')
    text = ''
    for command in commands:
        print(typed(command), flush=True)
        first, *others = [printed(one, folder) for one in by_method(command)]
        text += '# command\t%s\n# trained\t%d\n# book\t%s\n%s' % (typed(command), trained, book, first)
        for other in others:
            text += ''.join(line for line in other.splitlines(True) if line[0] != '#' and line[:7] != 'method\t')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def main(arguments):
    folders, names = [word for word in arguments if word.endswith('/')], [w for w in arguments if not w.endswith('/')]
    unknown = [name for name in names if name not in TABLES]
    if unknown or len(folders) != 1:
        sys.exit('released_tables.py: %s (expected FOLDER/ and some of %s)' % (
            'there is no table %s' % unknown[0] if unknown else 'wrong usage', ', '.join(TABLES)))
    for name in names or TABLES:
        measure(name, os.path.abspath(folders[0]))


if __name__ == '__main__':
    main(sys.argv[1:])
