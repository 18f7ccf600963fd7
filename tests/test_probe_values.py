#!/usr/bin/env python3
"""server_probe.py and values that no reading has, where none is solved for: seen, named, and their bounds."""

import re

from common import check, lacks, main
from fake_server import MODEL, Fake
from probe_common import SMALL, bounds_of, probe
from probe import values  # noqa: E402
from probe.candidates import Candidate  # noqa: E402


def test_values():
    """A decided reading comes with bounds of its values; a value off the list within 0.12 nats is seen as such."""
    with Fake('vllm', noise=0.005) as server:
        told = probe(server.url, MODEL, *SMALL)
        known = bounds_of(told)
        check([name for name, _, _ in known] == ['theta', 's', 'L', 'attention factor', 'beta_fast', 'beta_slow'],
              'values that are told', told)
        true = dict(theta=10000, s=16, L=512, beta_fast=32, beta_slow=1)
        check(all(low <= true.get(name, 1.27726) <= high for name, low, high in known), 'bounds', known)
        check('e+' not in told.out and 'theta 9,' in told.out, 'numbers in words', told)
    for hidden in (('--factor', '38'), ('--factor', '14'), ('--attn-factor', '1.3'), ('--train-ctx', '640'),
                   ('--rope', 'none', '--theta', '15000'), ('--rope', 'none', '--theta', '8800'),
                   ('--beta-fast', '48')):
        with Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *SMALL, '--budget', 0)
            words = 'of the way' if told.status == 1 else 'cannot tell apart'
            check(told.status in (1, 3) and words in told.last, 'a value of its own: %s' % (hidden,), told)


def test_names_of_values():
    """A value of its own is called by its name, the one that leaves least, also where listed readings are tied."""
    for hidden, words in ((('--theta', '11500'), 'past theta 11,000'), (('--theta', '9000'), 'past theta 9,091'),
                          (('--theta', '7000'), 'and theta 6,667'), (('--beta-fast', '16'), 'and beta_fast 14.22'),
                          (('--beta-slow', '2'), 'and beta_slow 2.25'), (('--train-ctx', '400'), 'L 465'),
                          (('--attn-factor', '1.4'), 'attention factor 1.405'),
                          (('--rope', 'none', '--theta', '12000'), 'past theta 11,000')):
        with Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *SMALL, '--budget', 0)
            check(told.status == 1 and words in told.last and 'a value of its own' in told.last,
                  'its name: %s' % (hidden,), told)
    ntk = Candidate('ntk, s 16', ['--rope', 'ntk', '--factor', '16'])
    ntk.notes = {'theta': '10000', 'method': 'ntk', 'train_ctx': '512'}
    found = [values.with_value(ntk, setting, 1.5).words for setting in (values.VALUES[0], values.VALUES[2])]
    check(found == ['theta 15,000 with ntk', 'L 768'], 'theta of ntk is the one before', found)


def test_bounds():
    """Bounds hold the hidden value, off the listed one and without noise, too."""
    for hidden, name, value in ((('--theta', '10300'), 'theta', 10300), (('--theta', '9700'), 'theta', 9700),
                                (('--factor', '16.5'), 's', 16.5), (('--train-ctx', '560'), 'L', 560),
                                (('--beta-fast', '28'), 'beta_fast', 28)):
        for size in (SMALL, []) if name == 'theta' else (SMALL,):
            with Fake('vllm', hidden) as server:
                told = probe(server.url, MODEL, *size)
                ends = [(low, high) for found, low, high in bounds_of(told) if found == name]
                check(told.status == 0 and ends and ends[0][0] <= value <= ends[0][1],
                      'bounds of %s %s' % (hidden, size), (ends, told))
    for bounds, words in ((('theta', 9970.3, 10249.9), 'theta 9,950 to 10,250'), (('s', 1.2771, 1.2849), None),
                          (('L', None, None), 'L not at all'), (('L', 400.0, None), 'L 400 or more'),
                          (('s', None, 8.25), 's 8.25 or less'), (('theta', 999999.0, 1000200.0), None)):
        found = values.said(bounds)
        low, high = (re.findall(r'[0-9.,]+', found) + [None, None])[:2]
        check('e+' not in found and low != high or bounds[1] is None, 'two numbers', found)
        if None not in bounds:
            low, high = (float(end.replace(',', '')) for end in (low, high))
            check(low <= bounds[1] < bounds[2] <= high, 'outward', found)
        check(words is None or found.startswith('theta 9,9') or found == words, 'bounds in words', found)


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
