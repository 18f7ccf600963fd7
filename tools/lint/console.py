"""Console blocks of documents, and whether they are true: `$ command`, and below it the lines that it prints at a
terminal of 100 columns. "..." stands for lines that are left out, or at the end of a line for words. Numbers may differ
by TOLERANCE or by half of their last digit, because processors round differently.

tests/test_printed.py runs the blocks of all documents, and tools/class/class.py those of the class.
"""
import fcntl
import os
import re
import resource
import struct
import subprocess
import termios
import time

from c_source import ROOT

TOLERANCE = 0.03
LEFT_OUT = '...'


def is_number(word):
    return re.fullmatch(r'-?\d+(\.\d+)?(e[-+]\d+)?', word) is not None


def alike(said, found):
    """Are two words the same, or two numbers within the tolerance?"""
    said, found = said.rstrip('!') or said, found.rstrip('!') or found  # the mark of a perplexity that is far off
    if said[-1] == found[-1] and said[-1] in ',.;:)':  # in a sentence
        said, found = said.rstrip(',.;:)'), found.rstrip(',.;:)')
    if said[:1] == found[:1] == '(':
        said, found = said[1:], found[1:]
    if not (is_number(said) and is_number(found)):
        return said == found
    mantissa, _, exponent = said.partition('e')
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition('.')[2])) if '.' in mantissa or exponent else 0
    difference = abs(float(said) - float(found))
    return difference <= max(TOLERANCE * abs(float(said)), unit / 2 * (1 + 1e-9))


def line_alike(said, found):
    said, found = said.split(), found.split()
    if said and said[-1] == LEFT_OUT:
        said.pop()
        found = found[:len(said)]
    return len(said) == len(found) and all(map(alike, said, found))


def first_difference(said, found):
    """The first line of `said` that `found` lacks at its place, or None."""
    at, gap = 0, False
    for line in said:
        if line.strip() == LEFT_OUT:
            gap = True
            continue
        places = range(at, len(found) if gap else min(at + 1, len(found)))
        here = next((k for k in places if line_alike(line, found[k])), None)
        if here is None:
            return line
        at, gap = here + 1, False
    return None if gap or at == len(found) else 'nothing more, but there was: ' + found[at]


def printed(command, folder):
    """(a command's output at a terminal of 100 columns, its exit status, its seconds, its seconds of CPU time)."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 100, 0, 0))
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    with subprocess.Popen(['sh', '-c', command], cwd=folder, stdin=subprocess.DEVNULL, stdout=writer,
                          stderr=subprocess.DEVNULL, env=dict(os.environ, NO_COLOR='1', TERM='xterm')) as process:
        os.close(writer)
        out = b''
        while True:
            try:
                part = os.read(reader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            out += part
        os.close(reader)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = out.decode(errors='replace').replace('\r\n', '\n').rstrip('\n').split('\n')
    return [line for line in lines if line.strip()], process.returncode, time.time() - began, work


def blocks(text, language):
    return re.findall(r'^```%s\n(.*?)^```$' % language, text, re.S | re.M)


def commands(text):
    """[(command, lines below it)] of all console blocks."""
    found = []
    for line in '\n'.join(blocks(text, 'console')).split('\n'):
        if line.startswith('$ '):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def desk(folder, program, more=()):
    """A folder like the reader's, so that commands write no files into the repository: the program, the contents of a
    clone, and {name: path} of `more`."""
    os.makedirs(folder)
    for name in ('model.bin', 'model-8k.bin', 'models', 'tokenizer.bin', 'book.txt', 'docs', 'tests', 'tools', 'export',
                 'model_export.py'):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    for name, path in {'run': program, **dict(more)}.items():
        os.symlink(path, os.path.join(folder, name))
    return folder
