"""server_probe.py against a server whose answers llama.cpp's published library computes: this small HTTP server has
the form of llama-server's completions (fake_server.py), and the library behind it."""

import os
import subprocess
import sys
import threading

from install import Missing
from llama_library import Library
from common import EXPORT, ROOT, check, in_work, skip
from fake_server import MODEL, Fake

CONTEXT = 2048
NONE, LINEAR = 0, 1  # llama.h's numbers of --rope-scaling
# What a server was started with, and the words of the verdict. The model has YaRN 16 x 512.
CASES = [('its own settings', {}, ' llama.cpp,'),
         ('--rope-scaling none', {'rope-scaling': NONE}, 'as plain RoPE'),
         ('--rope-scaling linear', {'rope-scaling': LINEAR, 'rope-freq-scale': 1 / 16}, 'as linear, s 16'),
         ('--rope-freq-scale 0.125', {'rope-freq-scale': 0.125}, 'as half the scale, s 8')]


class Served(Fake):
    """A server of one model in the library."""

    def __init__(self, library, gguf, settings):
        for name, value in settings.items():
            library.ask('set', name, value)
        library.ask('load', gguf, CONTEXT)
        self.library, self.lock = library, threading.Lock()
        super().__init__(form='llama', refuse=CONTEXT)

    def top(self, ids, n):
        with self.lock:
            said = self.library.ask('next', max(n, 1), *ids)
        return list(zip(map(int, said[::2]), said[1::2]))


def probe(url, *arguments):
    """(status, its last line)"""
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'server_probe.py'), url, *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return done.returncode, ((done.stdout + done.stderr).splitlines() or [''])[-1] if not done.stdout else \
        done.stdout.splitlines()[-1]


def hold(library, gguf):
    for name, settings, words in CASES:
        with Served(library, gguf, settings) as server:
            status, last = probe(server.url, MODEL)
        check(status == 0 and 'reads it as' in last and words in last, 'a server with %s' % name, (status, last))
        print('%-26s status %d: %s' % (name, status, last), flush=True)


def planted(library, gguf):
    """A server that reads the block otherwise is no match of what is expected, by name."""
    with Served(library, gguf, {'rope-freq-scale': 0.125}) as server:
        status, last = probe(server.url, MODEL, '--expect', 'llama.cpp')
    check(status == 1 and 'expected llama.cpp' in last, 'planted: another factor in the server: nothing notices', last)
    print('planted: another factor in the server; FAILS by name: status %d: %s' % (status, last))


def run(is_planted):
    try:
        library = Library()
    except Missing as why:
        return skip("a server of llama.cpp's published library: %s" % why)
    gguf = in_work('model-8k.gguf')
    subprocess.run([*EXPORT, MODEL, gguf], check=True, stderr=subprocess.DEVNULL)
    try:
        (planted if is_planted else hold)(library, gguf)
    finally:
        library.close()
