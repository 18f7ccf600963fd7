#!/usr/bin/env python3
"""Attention of prompts in whole numbers, by test_attention.c; and where the program takes them: models whose weights
are quantized, unless --activations f32 is asked for or the job takes attention apart."""

from common import add_counts, compiled, main, run, skip, takes_long


def products(build):
    program = compiled('tests/test_attention.c', build)
    if program:
        add_counts(run(program=program), 'attention in whole numbers, ' + build)
    else:
        skip('attention in whole numbers, sanitized (the compiler has no sanitizers)')


def test_products():
    products('same')


@takes_long
def test_sanitized():
    products('sanitized')


if __name__ == '__main__':
    main(globals())
