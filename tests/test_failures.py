#!/usr/bin/env python3
"""How tests fail: each failure names the line of its check, the first number that differs and the worst, and its row;
the calls are in a file that is named; a misspelled test or file is refused."""

import os
import subprocess
import sys

from common import ROOT, check, in_work, main, read, write

FAILING = '''import sys
sys.path.insert(0, %r)
import failures
failures.is_of_tests = lambda path: path == __file__
from common import case, check, close, main


def asked(found):
    close(found, [1, 2, 3, 4], 0.5, 'logits')


def test_numbers():
    with case('yarn'):
        asked([1, 2.75, 9, float('nan')])


def test_error():
    {}['theta']


def test_right():
    check(True, 'nothing')


main(globals())
''' % os.path.join(ROOT, 'tests')


def output_of(*command):
    done = subprocess.run([sys.executable, '-S', *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True)
    return done.returncode, done.stdout


def line_of(text):
    return FAILING[:FAILING.index(text)].count('\n') + 1


def test_says_where():
    path = write(in_work('test_failing.py'), FAILING)
    status, said = output_of(path)
    inside = os.path.relpath(path, ROOT)
    log = os.path.join(ROOT, 'build', 'failed', 'test_failing.log')
    expected = ['%s:%d: FAIL logits: number 1 is 2.75, not 2; the worst: number 3 is nan, not 4 '
                '(tolerance 0.5; 3 of 4 differ)' % (inside, line_of("close(found")),
                '    at %s:%d in test_numbers, row yarn' % (inside, line_of("asked([1")),
                "%s:%d: FAIL test_error: KeyError: 'theta'" % (inside, line_of("{}['theta']")),
                'the calls that led there: build/failed/test_failing.log', '1 passed, 2 failed']
    check(status == 1 and said.splitlines() == expected, 'a failure says where', said)
    calls = read(log).decode() if os.path.exists(log) else ''
    check('in test_numbers' in calls and 'Traceback' in calls and "KeyError: 'theta'" in calls, 'the log', calls)
    if calls:
        os.remove(log)


def test_misspelled():
    path = write(in_work('test_failing.py'), FAILING)
    for command, expected in (
            ([path, 'test_rigth'], 'test_failing.py: there is no test test_rigth here (did you mean test_right?)\n'),
            (['tests/run_tests.py', 'mostnew'], 'run_tests.py: no file of tests has mostnew in its name\n'),
            (['tests/run_tests.py', '--tims'], 'run_tests.py: there is no option --tims (--long, --times, --help)\n')):
        check(output_of(*command) == (2, expected), 'a misspelled test is an error', output_of(*command))


main(globals())
