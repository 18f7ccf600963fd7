#!/usr/bin/env python3
"""Runs test_units.c twice: with the objects of ./run, and under the sanitizers. portable.py does
the former for other builds."""

from common import add_counts, compiled, main, run, skip, takes_long


def passes(kind, *arguments):
    program = compiled('tests/test_units.c', kind)
    if not program:
        return skip('units under the sanitizers (the compiler has none)')
    add_counts(run(*arguments, program=program, timeout=800), 'units, ' + kind)


def test_same():
    passes('same', 'quick')


@takes_long
def test_whole():
    passes('same')


@takes_long
def test_sanitized():
    passes('sanitized', 'quick')


if __name__ == '__main__':
    main(globals())
