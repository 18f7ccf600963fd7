"""Shared by the tests of tokenizers: the program around src/tokens (test_tokenizer.c) and its answers, and the rows of
tokenizers.json: byte-level families (the patterns that cut a text, the tokens that are added, how many of the texts
are asked and which besides), words that are spelled out, and keys of a tokenizer.json that are refused."""

import functools
import json
import os
import struct
import subprocess

from common import ROOT, RUNNER, check, compiled, skip


@functools.lru_cache(None)
def rows(group):
    with open(os.path.join(ROOT, 'tests', 'tokenizers.json'), encoding='utf-8') as file:
        return json.load(file)[group]


def program(kind):
    """The path of the program, `same` or `sanitized` (where the compiler has no sanitizers: the same)."""
    path = compiled('tests/test_tokenizer.c', kind)
    if not path:
        skip('everything under the address sanitizer (the compiler has none)')
    return path or compiled('tests/test_tokenizer.c', 'same')


def record(data):
    return struct.pack('<I', len(data)) + data


def records(data):
    out, at = [], 0
    while at < len(data):
        length, = struct.unpack_from('<I', data, at)
        out.append(data[at + 4:at + 4 + length])
        at += 4 + length
    return out


def ask(command, inputs=()):
    """Standard output. A crash, a sanitizer's report or an error is a failed check, and gives None."""
    done = subprocess.run([*RUNNER, *map(str, command)], input=b''.join(map(record, inputs)), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode == 0:
        return done.stdout
    check(False, ' '.join(map(str, command)), (done.returncode, done.stderr.decode(errors='replace')[:400]))
    return None


def id_lines(output):
    return None if output is None else [list(map(int, line.split())) for line in output.decode().split('\n')[:-1]]


def encode(path_of_program, path, size, texts):
    """The ids of each text."""
    return id_lines(ask([path_of_program, 'encode', path, size], texts))


def decode(path_of_program, path, size, lists):
    """The text of each list of ids."""
    output = ask([path_of_program, 'decode', path, size], [struct.pack('<%di' % len(ids), *ids) for ids in lists])
    return None if output is None else records(output)

