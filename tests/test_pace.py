#!/usr/bin/env python3
"""Runs test_pace.c: the number of threads that steps get, and the memory limits of control groups."""

import tempfile

from common import add_counts, compiled, main, run


def test_pace_and_memory():
    program = compiled('tests/test_pace.c', 'same')
    with tempfile.TemporaryDirectory() as folder:
        add_counts(run(folder, program=program), 'threads and memory')


if __name__ == '__main__':
    main(globals())
