"""Shared by the tests of server_probe.py: the probe in this process, and a memory of ./run's outputs."""

import contextlib
import io
import os
import re
import subprocess
import sys

import remembered
from common import ROOT, check, good, in_work, run
from fake_server import MODEL, likeliest

sys.path[:0] = [ROOT, os.path.join(ROOT, 'tools', 'measure')]
import server_probe  # noqa: E402
from probe.no_model import trials  # noqa: E402
from probe.numbers import ours  # noqa: E402
from probe.reading import reading  # noqa: E402
from probe.numbers.candidates import Candidate  # noqa: E402
from probe.common import Problem  # noqa: E402

BLOCK = ('--rope', 'yarn')  # of MODEL, as its file says it
SMALL = ['-n', 96, '--prompts', 4]
MORE = ['-n', 96, '--prompts', 6]
TASKS = ['--tasks', 'passkey', '-n', 2048, '--from', 512, '--trials', 1]
# Hidden settings, words of the verdict, and the status, without values that are solved for.
HIDDEN = [
    (('--rope', 'none'), 'as plain RoPE: the block is not in force', 0),
    (('--attention-factor', '1'), 'as attention factor 1', 0),
    (('--factor', '8'), 'as half the scale, s 8', 0),
    (('--factor', '32'), 'as twice the scale, s 32', 0),
    (('--rope', 'linear', '--factor', '16', '--attention-factor', '1'), 'as linear, s 16', 0),
    (('--rope', 'ntk', '--factor', '16', '--attention-factor', '1'), 'as ntk, s 16', 0),
    (('--train-ctx', '8192'), 'as exllamav2 does: yarn 16 x 8192', 0),
    (('--factor', '12'), 'of the way', 1),
    (('--theta', '300'), 'no reading fits', 1),
]


class OurSide:
    """Takes the place of subprocess for probe.numbers.ours: common.run starts ./run."""
    PIPE = subprocess.PIPE

    @staticmethod
    def run(command, **_):
        done = run(*command[1:])
        return subprocess.CompletedProcess(command, done.status, done.raw, done.err.encode())


ours.subprocess = OurSide
plain_run, plain_computed = ours.run, ours.Model.computed
numbers = {}
LIKELY = 100  # tokens that are asked for with those that a server named: the next server's are among them


def remembering_run(arguments, statuses=(0,)):
    """Our side says the same to the same question."""
    key = remembered.key('run', [str(argument) for argument in arguments], statuses)
    said = remembered.recall(key)
    if said is None:
        try:
            said = ['said', *plain_run(arguments, statuses)]
        except ours.Refused as refused:
            said = ['refused', str(refused)]
        remembered.keep(key, said)
    if said[0] == 'refused':
        raise ours.Refused(said[1])
    return tuple(said[1:])


def remembering_computed(model, ids, asked, arguments):
    """Model.computed for many servers: each reading of a prompt is computed once, for all tokens that are likely."""
    called = [model.path, model.cache, [str(argument) for argument in arguments]]
    key = remembered.key('computed', *called, ids[:max(asked)], sorted(asked))
    known = {n: numbers.setdefault(remembered.key(*called, ids[:n]), {}) for n in asked}

    def is_known():
        return all(set(asked[n]) <= set(known[n]) for n in asked)
    if not is_known():
        for n, found in (remembered.recall(key) or {}).items():
            known[int(n)].update({int(id): tuple(pair) for id, pair in found.items()})
    if not is_known():
        wide = {n: {*asked[n], *known[n], *(id for id, _ in likeliest(tuple(ids[:n]), (), LIKELY, model.path))}
                for n in asked}
        for n, found in plain_computed(model, ids, wide, arguments).items():
            known[n].update(found)
        remembered.keep(key, known)
    return {n: {id: known[n][id] for id in tokens} for n, tokens in asked.items() if tokens}


def remember():
    ours.run = trials.run = remembering_run
    ours.Model.computed = remembering_computed


remember()


class Told:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.last = (out.splitlines() or [''])[-1]

    def __repr__(self):
        return 'status %s, %r, stderr %r' % (self.status, self.out[-500:], self.err[-300:])


def probe(*arguments):
    """server_probe.py in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = server_probe.main([str(a) for a in arguments])
        except Problem as problem:
            status = 2
            err.write('server_probe: %s\n' % problem)
    return Told(status, out.getvalue(), err.getvalue())


def program(*arguments, **options):
    """The probe as a program of its own."""
    return subprocess.Popen([sys.executable, '-S', os.path.join(ROOT, 'server_probe.py')] + [str(a) for a in arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def reads(told, words, what):
    check(told.status == 0 and told.last.startswith('the server reads it as ') and words in told.last, what, told)


def refused(told, *words):
    """Status 2, one line that says why, and nothing that looks like a verdict."""
    why = [line for line in told.err.splitlines() if 'these prompts cannot tell' not in line and 'left out' not in line]
    check(told.status == 2 and len(why) == 1 and all(word in why[0] for word in words) and not told.out,
          'refused: %s' % (words,), told)


def small_weights(kind):
    path = in_work('%s.bin' % kind)
    if not os.path.exists(path):
        good(MODEL, '--quantize', kind, path)
    return path


def ours_of(n, prompts):
    class Options:
        greedy, model, rope_config, text, keep = False, MODEL, None, None, None
    Options.n, Options.prompts = n, prompts
    found = reading.Ours(Options, ours.Work())
    found.read_text(Options)
    return found.model, found.ids, found.prompts


def argparse_like(**options):
    return type('Options', (), options)


def decide_candidate(name):
    return Candidate(name, [])


def bounds_of(told):
    return [(name, float(low.replace(',', '')), float(high.replace(',', ''))) for name, low, high in
            re.findall(r'(?:within:|,) ([a-zL_ ]+) ([0-9.,]+) to ([0-9.,]*[0-9])', told.out)]


def named(told):
    """{name: (low, high)} of the values that the last line names."""
    bounds = ' '.join(re.findall(r'\(([^()]*)\)', told.last))
    found = re.findall(r'(?:^|, )([a-zL_ ]+) ([0-9.,]*[0-9])(?: to ([0-9.,]*[0-9]))?', bounds)
    return {name.strip(): tuple(float(end.replace(',', '')) for end in (low, high or low)) for name, low, high in found}


def rows_of(told):
    lines = [line for line in told.out.splitlines() if '\t' in line and not line.startswith('#')]
    return [dict(zip(lines[0].split('\t'), line.split('\t'))) for line in lines[1:]]
