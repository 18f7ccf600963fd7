#!/usr/bin/env python3
"""Fills a folder with the tiny program: run.c of one_file.py, rope.c, rope.h, model_export.py, model.bin,
tokenizer.bin, Makefile, README.md, tests and license (make dist-tiny).

    python3 tools/tiny/pack.py FOLDER"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Commands whose output by ./run --plain the tiny program must print, too (tests/test.py there).
COMMANDS = ['model.bin -n 200 --rope none --ppl tests/text.txt',
            'model.bin -n 200 --rope yarn:factor=4 --ppl tests/text.txt',
            'model.bin -n 200 --rope self-extend --train-ctx 64 --ppl tests/text.txt',
            'model.bin -n 120 --rope linear:factor=2 --passkey --trials 1', 'model.bin -n 40 -t 0 -i Once',
            'model.bin -n 60 -s 5 -t 0.9 --rope dynamic-ntk --train-ctx 32']
TEXT_BYTES = 12000


def main(folder):
    tests = os.path.join(folder, 'tests')
    os.makedirs(tests)
    for name in 'rope.c', 'rope.h', 'model.bin', 'tokenizer.bin', 'LICENSE':
        shutil.copy(os.path.join(ROOT, name), folder)
    for name in 'Makefile', 'README.md', 'model_export.py', 'tests/test.py':
        shutil.copy(os.path.join(HERE, name), os.path.join(folder, name))
    with open(os.path.join(folder, 'run.c'), 'w', encoding='utf-8') as file:
        subprocess.run([sys.executable, os.path.join(HERE, 'one_file.py')], stdout=file, check=True)
    with open(os.path.join(ROOT, 'book.txt'), encoding='utf-8') as file:
        story = file.read()[:TEXT_BYTES]
    with open(os.path.join(tests, 'text.txt'), 'w', encoding='utf-8') as file:
        file.write(story[:story.rindex('\n')] + '\n')
    expected = {}
    for command in COMMANDS:
        measures = '--ppl' in command or '--passkey' in command
        words = command.split() + ['--plain'] + ['--tsv'] * measures
        done = subprocess.run([os.path.join(ROOT, 'run'), *words], cwd=folder, stdout=subprocess.PIPE, check=True,
                              stderr=subprocess.DEVNULL)
        lines = done.stdout.decode().splitlines(True)
        expected[command] = ''.join(line for line in lines if not line.startswith('# effective'))
    with open(os.path.join(tests, 'expected.json'), 'w', encoding='utf-8') as file:
        json.dump(expected, file, indent=1)


if __name__ == '__main__':
    if len(sys.argv) != 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    main(sys.argv[1])
