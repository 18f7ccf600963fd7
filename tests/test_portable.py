#!/usr/bin/env python3
"""The build that every compiler can make: no OpenMP, and no instructions that some processor of the family lacks.
make check-portable tries more, and this one with -O3, which takes twice as long to build."""

import os
import shlex

from common import ROOT, check, main, takes_long
from portable import output_of, try_variant


@takes_long
def test_plain():
    try_variant('plain', 'CFLAGS=-O1', quick=True)


def test_fast_math_is_refused():
    for flag in ('-ffast-math', '-Ofast'):
        status, output = output_of([*shlex.split(os.environ.get('CC', 'cc')), '-std=c11', flag,
                                    '-fsyntax-only', os.path.join(ROOT, 'src', 'base', 'util.c')])
        check(status != 0 and 'build without -ffast-math' in output, flag + ' is refused', output)


if __name__ == '__main__':
    main(globals())
