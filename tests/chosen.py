"""Which tests of a file run."""

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
