"""server_probe.py against a server whose answers llama.cpp's published library computes: this small HTTP server has the
form of llama-server's completions (fake_server.py), and calls the library."""

import os
import subprocess
import threading

from install import Missing
from llama_library import Library
from common import EXPORT, check, in_work, skip
from fake_server import MODEL, Fake
from probe_common import named, probe

CONTEXT = 2048
NONE, LINEAR = 0, 1  # llama.h's numbers of --rope-scaling
# A server's options, and the words of the verdict. The model has YaRN 16 x 512.
CASES = [('its own settings', {}, ' llama.cpp,'),
         ('--rope-scaling none', {'rope-scaling': NONE}, 'as plain RoPE'),
         ('--rope-scaling linear', {'rope-scaling': LINEAR, 'rope-freq-scale': 1 / 16}, 'as linear, s 16'),
         ('--rope-freq-scale 0.125', {'rope-freq-scale': 0.125}, 'as half the scale, s 8')]

# Settings that no list has, and the values that the probe must name, each within its told bounds, in place of those of
# YaRN 16 x 512, theta 10,000; or the words of a listed reading, where the library makes one of them: its
# llama-context.cpp takes --yarn-attn-factor only where --yarn-ext-factor is 0 (under YaRN it puts what the scale makes
# in its place), and without that factor YaRN is linear. WORLD_OWN=all takes all of them, else those of SOME.
S, THETA, L, A, FAST, SLOW = 's', 'theta', 'L', 'attention factor', 'beta_fast', 'beta_slow'
OWN = [({'rope-freq-scale': 1 / 3}, {S: 3}), ({'rope-freq-scale': 1 / 5}, {S: 5}),
       ({'rope-freq-scale': 1 / 12}, {S: 12}), ({'rope-freq-scale': 1 / 24}, {S: 24}),
       ({'rope-freq-base': 5000}, {THETA: 5000}),
       ({'rope-freq-base': 20000}, {THETA: 20000}), ({'rope-freq-base': 50000}, {THETA: 50000}),
       ({'yarn-orig-ctx': 256}, {L: 256}), ({'yarn-orig-ctx': 1024}, {L: 1024}), ({'yarn-beta-fast': 16}, {FAST: 16}),
       ({'yarn-beta-slow': 2}, {SLOW: 2}), ({'yarn-attn-factor': 0.9}, ' llama.cpp,'),
       ({'yarn-attn-factor': 1.1}, ' llama.cpp,'), ({'yarn-ext-factor': 0}, 'as linear, s 16'),
       ({'yarn-ext-factor': 0.5}, None), ({'yarn-ext-factor': 0, 'yarn-attn-factor': 0.9}, {S: 16, A: 0.9}),
       ({'rope-scaling': LINEAR, 'rope-freq-scale': 1 / 5}, {S: 5}),
       ({'rope-scaling': NONE, 'rope-freq-base': 30000}, {THETA: 30000}),
       ({'rope-freq-scale': 1 / 5, 'rope-freq-base': 20000}, {S: 5, THETA: 20000}),
       ({'rope-freq-scale': 1 / 12, 'rope-freq-base': 50000, 'yarn-orig-ctx': 1024}, {S: 12, THETA: 50000, L: 1024}),
       ({'rope-scaling': LINEAR, 'rope-freq-scale': 1 / 3, 'rope-freq-base': 5000, 'yarn-attn-factor': 0.9},
        {S: 3, THETA: 5000, A: 0.9}),
       ({'rope-freq-scale': 1 / 24, 'rope-freq-base': 20000, 'yarn-attn-factor': 1.1},
        {S: 24, THETA: 20000}),
       ({'rope-freq-scale': 1 / 2.12, 'yarn-orig-ctx': 193}, {S: 2.12, L: 193}),
       ({'rope-freq-scale': 1 / 4.3, 'yarn-beta-slow': 2.1}, {S: 4.3, SLOW: 2.1})]
SOME = 1, 6, 11, 16


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


def hold(library, gguf):
    for name, settings, words in CASES:
        with Served(library, gguf, settings) as server:
            told = probe(server.url, MODEL)
        check(told.status == 0 and 'reads it as' in told.last and words in told.last, 'a server with %s' % name, told)
        print('%-26s status %d: %s' % (name, told.status, told.last), flush=True)
    for settings, true in OWN if os.environ.get('WORLD_OWN') == 'all' else [OWN[i] for i in SOME]:
        with Served(library, gguf, settings) as server:
            told = probe(server.url, MODEL, '-n', 256, '--prompts', 6, '--budget', 900)
        name, known = ' '.join('--%s %.4g' % setting for setting in settings.items()), named(told)
        check(is_right(told, known, true), 'a server with %s' % name, told)
        print('%-26s status %d: %s' % (name, told.status, told.last), flush=True)


def is_right(told, known, true):
    """Each value within its bounds and no other named, or a reading. None: settings that no model file can hold, so
    that no value may be named."""
    if true is None:
        return told.status in (1, 3) and not known
    if isinstance(true, str):
        return told.status == 0 and true in told.last
    return told.status == 1 and set(known) == set(true) and all(
        known[name][0] <= value <= known[name][1] for name, value in true.items())


def planted(library, gguf):
    """A server with another reading of the block is no match of the expected one, by name."""
    with Served(library, gguf, {'rope-freq-scale': 0.125}) as server:
        told = probe(server.url, MODEL, '--expect', 'llama.cpp')
    check(told.status == 1 and 'expected llama.cpp' in told.last,
          'planted: another factor in the server: nothing notices', told)
    print('planted: another factor in the server; FAILS by name: status %d: %s' % (told.status, told.last))


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
