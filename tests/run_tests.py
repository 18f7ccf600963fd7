#!/usr/bin/env python3
"""make test: runs every tests/test_*.py, each a process of its own, and ends with the line `N passed, N failed`, which
counts cases: a test function, or a row of a table.

    python3 tests/run_tests.py [NAME ...]     only the files whose names contain one of the words
    python3 tests/run_tests.py --long         make test-long: those that chosen.takes_long marks, and no others
    python3 tests/run_tests.py --times ...    and writes what each test took into tests/times.json

As many files run side by side as there are processors, up to four, the longest first by tests/times.json. A test
file prints a line for each failure, with the line of the check, writes the calls that led there into build/failed,
and ends with a line of counts itself. Tests that need ../shared are skipped, with a word, if it is absent. The
longest tests are printed, in seconds of a processor, and the sum of all beside BUDGET; tests/README.md has the steps
for a sum above it. Failures are printed again before the last line, since a log is read from its end.
"""

import concurrent.futures
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

from chosen import nearest

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
TIMES = os.path.join(FOLDER, 'times.json')
SUMMARY = re.compile(r'(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$')
BUDGET = 300  # seconds of a processor for all of make test, on a machine of the pace in times.json
OF_ONE = 600  # for one process, which is in a loop then
OPTIONS = '--long', '--times', '--help'
BY_THE_CLOCK = 3600  # for one file, which waits for something that never comes then


def measured():
    """Seconds of a processor by file and test, as last written, and the pace() of then."""
    try:
        with open(TIMES, encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return {'pace': None, 'short': {}, 'long': {}}


def pace():
    """Seconds of a processor for some work: it distinguishes a slow machine from tests that have become slow."""
    def once():
        began = time.process_time()
        sum(i * i % 7 for i in range(1000000))
        return time.process_time() - began
    return round(min(once() for _ in range(3)), 4)


def limited():
    resource.setrlimit(resource.RLIMIT_CPU, (OF_ONE, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def run_file(name):
    """The counts of one test file, [passed, failed, skipped], its tests' seconds, and its report of failures. A crash
    is one failure more."""
    with tempfile.NamedTemporaryFile('r') as times:
        environment = dict(os.environ, TIMES=times.name, PYTHONPYCACHEPREFIX=os.path.join(ROOT, 'build', 'pyc'))
        environment.pop('PYTHONDONTWRITEBYTECODE', None)  # or each start compiles the exporter
        with subprocess.Popen([sys.executable, '-S', os.path.join(FOLDER, name)], cwd=ROOT,  # Python alone starts sooner
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env=environment, preexec_fn=limited) as process:
            try:
                output, status = process.communicate(timeout=BY_THE_CLOCK)[0], process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                output, status = process.communicate()[0], 'none after %d s' % BY_THE_CLOCK
        said = times.read()
    seconds = json.loads(said)['seconds'] if said else {}
    lines = output.decode(errors='replace').splitlines()
    summary = SUMMARY.match(lines[-1]) if lines else None
    counts = [int(n or 0) for n in summary.groups()] if summary else [0, 0, 0]
    told = lines[:-1] if summary else lines
    if not summary or status not in (0, 1) or (status == 0) != (counts[1] == 0):
        counts[1] += 1
        told.append('FAIL %s did not end as it should: status %s' % (name, status))
    print(''.join('    %s\n' % line for line in told) + '%-24s %s (%.1f s)' % (name, in_words(counts),
                                                                           sum(seconds.values())), flush=True)
    return counts, seconds, ['%s: %s' % (name, line) for line in told] if counts[1] else []


def in_words(counts):
    return '%d passed, %d failed' % tuple(counts[:2]) + (', %d skipped' % counts[2] if counts[2] else '')


def has_long(name):
    with open(os.path.join(FOLDER, name), encoding='utf-8') as file:
        return '\n@takes_long\n' in file.read()


def chosen(words, kind):
    """The files to run, the longest first. Long ones are left out, or only they are taken."""
    names = [name for name in os.listdir(FOLDER) if name.startswith('test_') and name.endswith('.py')]
    names = [name for name in names if not words or any(word in name for word in words)]
    known = measured()[kind]
    expected = {name: sum(known.get(name, {'': 60}).values()) for name in names}
    return sorted((name for name in names if kind == 'short' or has_long(name)), key=lambda name: -expected[name])


def tell_longest(seconds):
    by_test = sorted(((n, name, test) for name, tests in seconds.items() for test, n in tests.items()), reverse=True)
    print('the longest: ' + ', '.join('%s %s %.1f s' % (name[5:-3], test, n) for n, name, test in by_test[:8]))


def write_down(seconds, kind):
    known = measured()
    known['pace'] = pace()
    known[kind].update(seconds)
    for names in known['short'], known['long']:
        for name in [name for name in names if not os.path.exists(os.path.join(FOLDER, name))]:
            del names[name]
    with open(TIMES, 'w', encoding='utf-8') as file:
        json.dump(known, file, indent=0, sort_keys=True)
        file.write('\n')


def refused(words):
    """The fault in the command line, or None."""
    names = [name for name in os.listdir(FOLDER) if name.startswith('test_') and name.endswith('.py')]
    for word in words:
        if word.startswith('-') and word not in OPTIONS:
            return 'there is no option %s (%s)' % (word, ', '.join(OPTIONS))
        if not word.startswith('-') and not any(word in name for name in names):
            return 'no file of tests has %s in its name%s' % (word, nearest(word, names + [name[5:-3] for name in names]))
    return None


def main(words):
    if '--help' in words:
        print(__doc__.strip())
        return 0
    problem = refused(words)
    if problem:
        print('run_tests.py: ' + problem, file=sys.stderr)
        return 2
    kind = 'long' if '--long' in words else 'short'
    named = [word for word in words if not word.startswith('-')]
    os.environ['TESTS'] = kind
    names = chosen(named, kind)
    pool = concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1))
    try:
        found = list(pool.map(run_file, names))
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupted run begins no other file
    totals = [sum(column) for column in zip(*(counts for counts, _, _ in found))] or [0, 1, 0]
    seconds = {name: taken for name, (_, taken, _) in zip(names, found)}
    tell_longest(seconds)
    if '--times' in words:
        write_down(seconds, kind)
    spent = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    slower = max(1, pace() / (measured()['pace'] or pace()))
    past = kind == 'short' and not named and spent > BUDGET * slower
    print('%.0f seconds of a processor%s' % (spent, ', past the %.0f that make test is meant to take '
                                             '(tests/README.md)' % (BUDGET * slower) if past else ''))
    for _, _, failures in found:
        print(''.join(line + '\n' for line in failures[:20]), end='')
    print(in_words(totals))
    return 1 if totals[1] else 0


if __name__ == '__main__':
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    sys.exit(main(sys.argv[1:]))
