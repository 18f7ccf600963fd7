"""The documents do not rot: every ./run command of the README and the lesson is run (shorter, where it says how long),
and the method that the lesson adds is added to a copy and run."""

import os
import re
import shlex
import shutil
import subprocess

from common import ROOT, check, in_work, main, skip, write

DOCUMENTS = ['README.md', 'docs/lesson.md', 'docs/model.md']
SHORTER = [(r'-n (8192|4096|2048|1024)', '-n 600'), (r'--samples \d+', '--samples 2'), (r'--trials \d+', '--trials 1'),
           (r'--search-windows \d+', ''),
           (r'--search (?=\w+\.txt)', '--search-windows 1 --reads 3 --search ')]
# Files of the reader's own in the commands, and what the test puts in their place.
BOOK = 'It was a fine day, and they went down to the river together. ' * 200


def commands():
    """The commands of all documents: indented or fenced lines that begin with ./run, up to a comment."""
    found = {}
    for name in DOCUMENTS:
        path = os.path.join(ROOT, name)
        if not os.path.exists(path):
            continue
        for line in open(path, encoding='utf-8'):
            match = re.match(r'(?:    )?(?:make && )?(\./run .*)', line.rstrip('\n'))
            if match and 'OUT' not in line and 'options]' not in line:
                found.setdefault(re.sub(r'\s+# .*', '', match.group(1)), name)
    return found


def desk(folder, program):
    """A folder as the reader's: the program, the shipped models, a book."""
    os.makedirs(folder, exist_ok=True)
    for name in ('model.bin', 'model-8k.bin', 'tokenizer.bin', 'models', 'book.txt'):
        if os.path.exists(os.path.join(ROOT, name)):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.symlink(program, os.path.join(folder, 'run'))
    write(os.path.join(folder, 'books.txt'), BOOK)
    write(os.path.join(folder, 'long_prompt.txt'), BOOK[:500])
    write(os.path.join(folder, 'block.json'), '{"rope_type": "yarn", "factor": 4.0}')
    write(os.path.join(folder, 'config.json'), '{"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4}')
    os.symlink(os.path.join(ROOT, 'docs'), os.path.join(folder, 'docs'))
    shutil.copy(os.path.join(ROOT, 'model.bin'), os.path.join(folder, 'mymodel.bin'))
    shutil.copy(os.path.join(ROOT, 'tokenizer.bin'), os.path.join(folder, 'mymodel.tokenizer.bin'))


def run_command(folder, command):
    for pattern, replacement in SHORTER:
        command = re.sub(pattern, replacement, command)
    words = shlex.split(command)
    if '--passkey' in words and '--trials' not in words:
        words += ['--trials', '1']
    out = words.pop() if words[-2] == '>' and words.pop(-2) else None
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, OMP_NUM_THREADS='1'), timeout=300)
    if out:
        write(os.path.join(folder, out), done.stdout)
    return done.returncode, done.stderr.decode(errors='replace')[-200:]


def test_commands():
    folder = in_work('desk')
    desk(folder, os.path.join(ROOT, 'run'))
    found = commands()
    check(len(found) >= 8, 'the documents hold commands', found)
    for command, name in found.items():
        if 'quadratic' not in command:
            status, err = run_command(folder, command)
            check(status == 0, '%s: %s' % (name, command), 'status %s: %s' % (status, err))


def test_method_of_your_own():
    lesson = open(os.path.join(ROOT, 'docs/lesson.md'), encoding='utf-8').read()
    function, row = re.findall(r'```c\n(.*?)```', lesson.split('## A method of your own')[1], re.S)[:2]
    check(len(function.strip().splitlines()) <= 12, 'it is about ten lines', function)
    tree = in_work('tree')
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns('build', '*.bin', '.git', 'tests', 'docs', 'run'))
    source = open(os.path.join(tree, 'rope.c'), encoding='utf-8').read()
    table = source.index('const RopeMethod rope_methods[]')
    end = source.index('};', table)
    above = source.rindex('\n\n', 0, table)
    write(os.path.join(tree, 'rope.c'), source[:above] + '\n\n' + function + source[above:end] + row + source[end:])
    built = subprocess.run(['make', '-s', '-j2', 'run', 'CFLAGS=-O1'], cwd=tree, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    if not check(built.returncode == 0, 'it builds', built.stdout[-300:]):
        return
    folder = in_work('own')
    desk(folder, os.path.join(tree, 'run'))
    for command in commands():
        if 'quadratic' in command or '--help' in command:
            status, err = run_command(folder, command)
            check(status == 0, 'with a method of your own: %s' % command, 'status %s: %s' % (status, err))


if not os.path.exists(os.path.join(ROOT, 'model.bin')):
    skip('the shipped model is not there')
    del test_commands, test_method_of_your_own
main(globals())
