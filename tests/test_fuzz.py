#!/usr/bin/env python3
"""Replays the seeds of the fuzzers of `make fuzz` and their findings (tests/fuzz/regressions), and a few thousand
damaged copies of both, always the same ones, under the address and undefined-behaviour sanitizers. No allocation may
be large: the files are not."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fuzz'))
from common import check, fuzzer, in_work, main, read, run, skip, takes_long
from seeds import write_seeds

# For about five seconds each, and a hundredth of that in make test; `make fuzz` goes on from there.
DAMAGED = {'model': 5000, 'tokenizer': 600, 'text': 5000, 'options': 10000, 'config': 20000, 'blocks': 6000,
           'engines': 900, 'json': 20000, 'answers': 20000}


def test_replay():
    replay(100)


@takes_long
def test_more():
    replay(1)


def replay(part):
    program = fuzzer()
    if not program:
        return skip('the fuzzers\' seeds (the compiler has no sanitizers)')
    write_seeds(in_work('seeds'))
    for target, n in DAMAGED.items():
        folder = os.path.join(in_work('seeds'), target)
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        crash, n = in_work('crash'), n // part
        result = run(target, n, crash, *files, program=program)
        found = read(crash)[:200] if os.path.exists(crash) else b''
        check(result.status == 0 and result.out == '%d inputs of %s\n' % (len(files) + n, target),
              'hostile input for ' + target, '%s; %r; the input: %r' % (result, result.err[:150], found))


if __name__ == '__main__':
    main(globals())
