#!/usr/bin/env python3
"""The build that every compiler can make: no OpenMP, and no instructions that some processor of the family lacks. make check-portable tries more."""

from common import main
from portable import try_variant


def test_plain():
    try_variant('plain')


if __name__ == '__main__':
    main(globals())
