#!/usr/bin/env python3
"""Measures the tables of the lesson's chapter on released models, docs/figures/released-*.tsv:

    python3 tools/figures/released_tables.py FOLDER/ [NAME ...]

The folder holds the models that tools/released.py brings and great-expectations.txt (Project Gutenberg number 1400).
Every command is printed before it runs, as the lesson prints it; a name measures that table alone.
tests/test_figures.py compares the lesson's numbers with the tables. All of it takes 15 minutes on two quiet cores.
"""

import os
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
METHODS = 'none,linear,ntk,yarn,dynamic-ntk,self-extend,dca'
NOVEL = 'great-expectations.txt', 'Great Expectations'
STORY = 'book.txt', 'the story that ships'


def ppl(model, text, length, *rope):
    return [model + '.gguf', '--ppl', text[0], '-n', length, '--rope', *rope]


# name: (positions that the model was trained on, the text's title, commands)
TABLES = {
    'released-story': (8192, STORY[1], [ppl('smollm2', STORY, '16k', 'none,yarn')]),
    'released-smollm2': (8192, NOVEL[1], [ppl('smollm2', NOVEL, '16k', METHODS)]),
    'released-gemma3': (32768, NOVEL[1], [
        ppl('gemma3', NOVEL, '8k', 'none,linear:factor=4,yarn:factor=4'),
        ppl('gemma3', NOVEL, '8k', 'linear:factor=4', '--rope-sliding', 'linear:factor=4'),
        ppl('gemma3', NOVEL, '8k', 'yarn:factor=4', '--rope-sliding', 'yarn:factor=4')]),
    'released-qwen': (32768, NOVEL[1], [ppl('qwen', NOVEL, '8k', 'none,yarn:factor=4')]),
}


def typed(command):
    return shlex.join(['./run', *command])


def measure(name, folder):
    trained, book, commands = TABLES[name]
    path = os.path.join(ROOT, 'docs', 'figures', name + '.tsv')
    text = ''
    for command in commands:
        print(typed(command), flush=True)
        place = ROOT if STORY[0] in command else folder
        words = [os.path.join(folder, word) if word.endswith('.gguf') else word for word in command]
        done = subprocess.run([os.path.join(ROOT, 'run'), *words], cwd=place, stdout=subprocess.PIPE,
                              universal_newlines=True)
        if done.returncode:
            sys.exit('released_tables.py: %s: ./run failed' % typed(command))
        text += '# command\t%s\n# trained\t%d\n# book\t%s\n%s' % (
            typed(command), trained, book, done.stdout.replace(os.path.join(folder, ''), ''))
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
