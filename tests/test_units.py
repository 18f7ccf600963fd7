#!/usr/bin/env python3
"""Runs test_units.c three times: with the objects of ./run, compiled for any processor of this family (so that the portable
loops are tested where others would be taken), and under the sanitizers."""

from common import RUNNER, add_counts, compiled, main, run, skip


def passes(kind, *arguments):
    program = compiled('tests/test_units.c', kind)
    if not program:
        return skip('units under the sanitizers (the compiler has none)')
    add_counts(run(*arguments, program=program, timeout=800), 'units, ' + kind)


def test_same():
    passes('same', *['quick'] * bool(RUNNER))  # an emulated processor takes its time


def test_portable():
    passes('portable', 'quick')


def test_sanitized():
    passes('sanitized', 'quick')


if __name__ == '__main__':
    main(globals())
