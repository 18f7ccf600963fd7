#!/usr/bin/env python3
"""tools/search.py: it finds a list that was planted, its numbers are those of --ppl, the same seed gives the same block,
and Ctrl-C leaves the best so far."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from common import ROOT, check, close, good, in_work, load, main, one_line, random_ids, run, skip, table, tiny_model, \
    write, write_tokenizer
from test_interrupts import ended, wait_until

SEARCH = os.path.join(ROOT, 'tools', 'search.py')
LETTERS = [' '] + [chr(c) for c in range(ord('a'), ord('z') + 1)]
N, L = 48, 16


def files(name='searched', words=1000):
    """A model of 8 pairs and a text of some letters for each word."""
    vocab_size = write_tokenizer(in_work(name + '.tokenizer.bin'), LETTERS)
    model = tiny_model(name + '.bin', n_layers=1, head_dim=16, n_heads=2, n_kv_heads=1, train_ctx=L, seq_len=L,
                       vocab_size=vocab_size)
    text = ' '.join('abc the dog a zebra of x'.split()[i % 7] for i in random_ids(words, 1000, 4))
    return model, write(in_work(name + '.txt'), text)


def started(*arguments):
    return subprocess.Popen([sys.executable, SEARCH, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS='1'))


def search(*arguments):
    return ended(started(*arguments))


def said(out):
    """{name: nll} of the lines with #, as `searched yarn`, `judged found`."""
    return {m[1]: float(m[2]) for m in re.finditer(r'^# ((?:searched|judged) \S+)\tnll (\S+) ', out, re.M)}


def test_a_planted_list():
    """Where the best list is known: nll is the squared distance from it."""
    program = load(SEARCH)
    model, text = files()
    for planted, attention in (([0, 0.1, 0.1, 0.5, 0.9, 1.3, 1.3, 1.5], 0.2), ([0.4] * 8, 0), ([1.6] * 8, -0.2)):
        class Planted(program.Search):
            def nll(self, logs, half):
                return sum((a - b) ** 2 for a, b in zip(logs, planted + [attention]))
        asked = program.asked_of([model, text, '-n', str(N), '--windows', '1', '--reads', '2000'])
        with tempfile.TemporaryDirectory() as folder:
            found = Planted(asked, folder)
            found.begin()
            found.improve()
        farthest = max(abs(a - b) for a, b in zip(found.best, planted + [attention]))
        check(farthest < 0.1 and found.mean < found.began[1] / 50, 'a planted list is found', planted, found.best)
        exchanged = found.best[:-1][::-1] + found.best[-1:]
        check(len(set(planted)) == 1 or found.nll(exchanged, 'judged') > 10 * found.mean, 'and not one that is reversed')


def test_its_numbers():
    """Those of --ppl, on each half of the text; the block runs as it was measured."""
    model, text = files()
    result = search(model, text, '-n', N, '--windows', 3, '--reads', 60, '-s', 5)
    block, nll = json.loads(result.out.splitlines()[-1]), said(result.out)
    divisors = block['short_factor']
    check(result.status == 0 and block['long_factor'] == divisors and len(divisors) == 8, 'a block', result)
    check(all(1 <= a <= b <= 2 * N / L for a, b in zip(divisors, divisors[1:])), 'no divisor falls', divisors)
    found = write(in_work('found.json'), result.out)
    with open(text) as file:
        letters = file.read()
    halves = {'searched': letters[:len(letters) // 2], 'judged': letters[len(letters) // 2:]}
    for what, value in nll.items():
        half, name = what.split()
        rope = ['longrope', '--rope-config', found] if name == 'found' else ['%s:factor=3' % name]
        rows = table(good(model, '--ppl', write(in_work('half.txt'), halves[half]), '-n', N, '--samples', 3,
                          '--per-token', '--rope', *rope).out)[2]
        own = [float(row['nll']) for row in rows if int(row['position']) >= N // 2]
        close([value], [sum(own) / len(own)], 2e-6, what)
    began = next(value for what, value in nll.items() if what.startswith('searched '))
    check(set(nll) >= {'searched found', 'judged yarn', 'judged found'} and nll['searched found'] < began, 'better', nll)


def test_the_same_seed():
    model, text = files()
    asked = model, text, '-n', N, '--windows', 2, '--reads', 30
    outs = [search(*asked, *more).out for more in (('-s', 7), ('-s', 7, '--', '--threads', 2), ('-s', 8))]
    check(outs[0] and outs[0] == outs[1] and outs[0] != outs[2], 'the same seed, with any number of threads', outs[0][-90:])


def test_interrupted():
    """Ctrl-C in a candidate leaves the best before it; in the first, nothing."""
    program, (model, text) = load(SEARCH), files()
    asked = program.asked_of([model, text, '-n', str(N)])

    class Interrupted(program.Search):
        def nll(self, logs, half):
            if self.tried == 9:
                raise KeyboardInterrupt
            return sum((x - 0.5) ** 2 for x in logs)
    program.Search, out = Interrupted, io.StringIO()
    with contextlib.redirect_stdout(out):
        status = program.search(asked)
    check(status == 130 and 'for 9 candidates' in out.getvalue() and 'judged' not in out.getvalue() and
          'short_factor' in json.loads(out.getvalue().splitlines()[-1]), 'the best so far', out.getvalue())
    if not os.path.exists('/proc/self/status'):
        return skip('Ctrl-C in a search (no /proc says where a program stands)')
    process = started(model, text, '-n', N, '--windows', 5000)  # which takes seconds, on any machine
    wait_until(process, 'caught', signal.SIGTERM)  # for which main has a handler, and not Python itself
    process.send_signal(signal.SIGINT)
    one_line(ended(process), 130, 'Ctrl-C in the first candidate', 'interrupted before', who='search')


def test_refused():
    model, text = files()
    short = write(in_work('short.txt'), 'abc the dog')
    for words, *expected in (
            ([model, text, '-n', L], '-n 16', 'more positions than the trained 16'), ([model, text], '-n'),
            ([model, text, '-n', 'x'], "'x'"), ([model, text, '-n', N, '--reads', 0], '--reads', "'0'"),
            ([model, text, '-n', N, '--judge', 'yarn'], '--judge needs --keys'), ([model, in_work('no'), '-n', N], 'no:'),
            ([in_work('absent.bin'), text, '-n', N], 'absent.bin'), ([model, short, '-n', N], 'half of the text', 'tokens'),
            ([model, text, '-n', N, '--sead', 3], '--sead'), ([model, text, '-n', N, '--keys', '20,7,5,9'], 'too few'),
            ([model, text, '-n', N, '--', '--kv', 'q3'], '--kv', "'q3'")):
        one_line(search(*words), 2, 'refused: %s' % words, *expected, who='search')
    one_line(run(model, '--search', text, '-n', N), 2, 'the option that was', '--search was removed', 'tools/search.py')


if __name__ == '__main__':
    main(globals())
