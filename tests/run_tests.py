#!/usr/bin/env python3
"""make test: runs every tests/test_*.py, each a process of its own, and ends with the line `N passed, N failed`.

    python3 tests/run_tests.py [NAME ...]     only the files whose names hold one of the words

A test file prints one line for each failure and ends with such a line itself. What needs ../shared is skipped,
with a word, where that is absent.
"""

import os
import re
import signal
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
SUMMARY = re.compile(r'(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$')
LIMIT = 900  # seconds for one file


def run_file(name):
    """What one test file counted: passed, failed, skipped. A crash is one failure more."""
    began = time.time()
    try:
        done = subprocess.run([sys.executable, os.path.join(FOLDER, name)], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = 'none after %d s' % LIMIT, late.stdout or b''
    lines = output.decode(errors='replace').splitlines()
    summary = SUMMARY.match(lines[-1]) if lines else None
    counts = [int(n or 0) for n in summary.groups()] if summary else [0, 0, 0]
    for line in lines[:-1] if summary else lines[-20:]:
        print('    ' + line)
    if not summary or status not in (0, 1) or (status == 0) != (counts[1] == 0):
        counts[1] += 1
        print('    FAIL %s did not end as it should: status %s' % (name, status))
    print('%-20s %s (%.0f s)' % (name, '%d passed, %d failed' % tuple(counts[:2]) +
                                 (', %d skipped' % counts[2] if counts[2] else ''), time.time() - began), flush=True)
    return counts


def main(words):
    names = sorted(n for n in os.listdir(FOLDER) if n.startswith('test_') and n.endswith('.py')
                   and (not words or any(w in n for w in words)))
    totals = [sum(column) for column in zip(*map(run_file, names))] or [0, 1, 0]
    print('%d passed, %d failed' % tuple(totals[:2]) + (', %d skipped' % totals[2] if totals[2] else ''))
    return 1 if totals[1] else 0


if __name__ == '__main__':
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell puts in the background ignores it
    sys.exit(main(sys.argv[1:]))
