#!/usr/bin/env python3
"""make test: runs every tests/test_*.py, each a process of its own, and ends with the line `N passed, N failed`.

    python3 tests/run_tests.py [NAME ...]     only the files whose names hold one of the words
    python3 tests/run_tests.py --quick        the cases of quick.py, and what they cost
    python3 tests/run_tests.py --long         make test-long: those that chosen.takes_long marks, and no others

As many files run side by side as there are processors, up to four. A test file prints one line for each failure and
ends with such a line itself. What needs ../shared is skipped, with a word, where that is absent.
"""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

from quick import CASES

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
SUMMARY = re.compile(r'(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$')
LIMIT = 900  # seconds for one file
OWN_LIMIT = {'test_page.py': 2400}  # which drives a browser


def run_file(name, cases=()):
    """What one test file, or these cases of it, counted: passed, failed, skipped. A crash is one failure more."""
    began, limit = time.time(), OWN_LIMIT.get(name, LIMIT)
    try:
        done = subprocess.run([sys.executable, os.path.join(FOLDER, name), *cases], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = 'none after %d s' % limit, late.stdout or b''
    lines = output.decode(errors='replace').splitlines()
    summary = SUMMARY.match(lines[-1]) if lines else None
    counts = [int(n or 0) for n in summary.groups()] if summary else [0, 0, 0]
    said = lines[:-1] if summary else lines[-20:]
    if not summary or status not in (0, 1) or (status == 0) != (counts[1] == 0):
        counts[1] += 1
        said.append('FAIL %s did not end as it should: status %s' % (name, status))
    sums = '%d passed, %d failed' % tuple(counts[:2]) + (', %d skipped' % counts[2] if counts[2] else '')
    print(''.join('    %s\n' % line for line in said) + '%-20s %s (%.0f s)' % (name, sums, time.time() - began),
          flush=True)
    return counts


def order(name, quick=False):
    """Whose builds others wait for begin first, then the longest: a long one that begins last runs alone."""
    if quick:
        return list(CASES).index(name), name
    first = ['test_portable.py', 'test_units.py', 'test_docs.py', 'test_check.py', 'test_out.py', 'test_doors.py',
             'test_distances.py', 'test_families.py', 'test_encodings.py', 'test_tokenizer.py']
    return (first.index(name) if name in first else len(first)), name


def has_long(name):
    with open(os.path.join(FOLDER, name), encoding='utf-8') as file:
        return '\n@takes_long\n' in file.read()


def chosen(words):
    """The files to run. What is long is left out, or alone."""
    os.environ['TESTS'] = 'long' if words == ['--long'] else 'short'
    names = [name for name in os.listdir(FOLDER) if name.startswith('test_') and name.endswith('.py')]
    if words == ['--long']:
        return [name for name in names if has_long(name)]
    return [name for name in names if not words or any(word in name for word in words)]


def main(words):
    quick = words == ['--quick']
    names = list(CASES) if quick else chosen(words)
    names = sorted(names, key=lambda name: order(name, quick))
    pool = concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1))
    try:
        cases = [CASES[name] if quick else () for name in names]
        totals = [sum(column) for column in zip(*pool.map(run_file, names, cases))] or [0, 1, 0]
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupted run begins no other file
    if quick:
        print('%.0f seconds of a processor' % sum(os.times()[2:4]))
    print('%d passed, %d failed' % tuple(totals[:2]) + (', %d skipped' % totals[2] if totals[2] else ''))
    return 1 if totals[1] else 0


if __name__ == '__main__':
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell puts in the background ignores it
    sys.exit(main(sys.argv[1:]))
