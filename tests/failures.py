"""The report of a failing check: the line of the check, the difference, and its test and row. The calls that led there,
whole, go to build/failed/TEST.log, which is named at the end."""

import os
import sys
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
MOST = 300  # characters of details on one line; the log has all of them
# Files whose lines are the way that a test asks, not its question.
SHARED = [os.path.join(FOLDER, name) for name in ('failures.py', 'common.py')]


def log_path():
    name = os.path.splitext(os.path.basename(sys.argv[0] or 'tests'))[0]
    return os.path.join(ROOT, 'build', 'failed', name + '.log')


def forget():
    """Removes the log of an earlier run."""
    if os.path.exists(log_path()):
        os.remove(log_path())


def is_of_tests(path):
    return path.startswith(FOLDER + os.sep) and path not in SHARED


def places(frames):
    """(line of the check, line of the test function): `tests/test_x.py:12` each, from frames with the innermost last."""
    own = [frame for frame in frames if is_of_tests(os.path.abspath(frame.filename))] or frames[-1:]
    named = ['%s:%d' % (os.path.relpath(frame.filename, ROOT), frame.lineno) for frame in own]
    of_test = [name + ' in ' + frame.name for name, frame in zip(named, own) if frame.name.startswith('test_')]
    return named[-1], of_test[-1] if of_test and own[-1].name[:5] != 'test_' else ''


def show(what, details, rows, error=None):
    """Prints a failure, and adds it to the log with the calls that led there. rows: the cases that it is in, outermost
    first; error: the exception that it is, if it is one."""
    frames = traceback.extract_tb(error.__traceback__) if error else traceback.extract_stack()
    place, test = places(frames)
    print('%s: FAIL %s: %s' % (place, what, details if len(details) <= MOST else details[:MOST] + '...'))
    rows = [row for row in rows if row != what and not row.startswith('test_')]
    where = [part for part in (test, ', '.join('row ' + row for row in rows)) if part]
    if where:
        print('    at ' + ', '.join(where))
    sys.stdout.flush()
    calls = ''.join(traceback.format_exception(type(error), error, error.__traceback__) if error else
                    traceback.format_list([frame for frame in frames if is_of_tests(os.path.abspath(frame.filename))]))
    os.makedirs(os.path.dirname(log_path()), exist_ok=True)
    with open(log_path(), 'a', encoding='utf-8') as file:
        file.write('%s: FAIL %s\n%s\n%s%s\n' % (place, what, details, ''.join('row %s\n' % row for row in rows), calls))


def differing(found, expected, tolerance):
    """The difference of two lists of numbers of one length: the first, the worst and how many; '' if there is none."""
    def off(i):
        distance = abs(found[i] - expected[i])
        return distance if distance == distance else float('inf')

    def pair(i):
        return 'number %d is %.9g, not %.9g' % (i, found[i], expected[i])
    bad = [i for i in range(len(found)) if not off(i) <= tolerance]
    if not bad:
        return ''
    worst = max(bad, key=off)
    return '%s%s (tolerance %g; %d of %d differ)' % (
        pair(bad[0]), '; the worst: ' + pair(worst) if worst != bad[0] else '', tolerance, len(bad), len(found))
