"""Which tests of a file run."""

import difflib
import os
import sys


def takes_long(test):
    """A test that takes long and finds little that others do not: make test-long runs it, make test does not."""
    test.is_long = True
    return test


def is_wanted(name, test):
    """By the names on the command line; else by TESTS, which is `short` or `long` in a run of all files."""
    if len(sys.argv) > 1:
        return name in sys.argv[1:]
    kind = 'long' if getattr(test, 'is_long', False) else 'short'
    return name.startswith('test_') and os.environ.get('TESTS', kind) == kind


def nearest(word, names):
    """` (did you mean ...?)`, or nothing where no name is like it."""
    like = difflib.get_close_matches(word, names, 1)
    return ' (did you mean %s?)' % like[0] if like else ''


def refuse_unknown(tests):
    """Ends the program, with status 2, where the command line names a test that is not among a module's globals."""
    names = [name for name in tests if name.startswith('test_')]
    for word in sys.argv[1:]:
        if word not in names:
            print('%s: there is no test %s here%s' % (os.path.basename(sys.argv[0]), word, nearest(word, names)),
                  file=sys.stderr)
            sys.exit(2)
