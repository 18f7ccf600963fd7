#!/usr/bin/env python3
"""server_probe.py solves for values: each alone and several, named with bounds that hold them; and nothing is named
within too short a budget."""

import random
import re

from common import check, lacks, main
from fake_server import MODEL, Fake
from probe_common import MORE, SMALL, probe, reads
from probe import least_squares, values  # noqa: E402

# Hidden options, words of the last line, and values whose bounds must hold the hidden ones.
SOLVED = [
    (('--factor', '5'), 'yarn ', {'s': 5}),
    (('--rope', 'linear', '--factor', '12', '--theta', '5000', '--attn-factor', '1.1'), 'linear', {
        's': 12, 'theta': 5000, 'attention factor': 1.1}),
    (('--attn-factor', '0.9'), 'yarn 16 x 512', {'attention factor': 0.9}),
]


def named(told):
    """{name: (low, high)} of the last line."""
    found = re.findall(r'[(,] ?([a-zL_ ]+) ([0-9.,]+) to ([0-9.,]*[0-9])', told.last)
    return {name.strip(): tuple(float(end.replace(',', '')) for end in ends) for name, *ends in found}


def test_solved():
    for hidden, words, true in SOLVED:
        with Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *MORE)
            known = named(told)
            check(told.status == 1 and told.last.startswith('the server has values of its own: ' + words) and
                  'the settings say yarn 16 x 512' in told.last, 'solved: %s' % (hidden,), told)
            check(set(known) == set(true) and all(known[n][0] <= value <= known[n][1] and
                                                  known[n][1] < 1.6 * known[n][0] for n, value in true.items()),
                  'each value within its bounds, and no other: %s' % (hidden,), (known, told))


def test_nothing_is_solved():
    """A budget that is too short is told; what no value explains is not named; a listed reading stays."""
    with Fake('vllm', ('--theta', '300')) as server:
        told = probe(server.url, MODEL, *SMALL, '--budget', 1)
        check(told.status == 1 and ('not all tried in 1 s (--budget)' in told.out or 'theta 300' in told.last),
              'the budget', told)
        told = probe(server.url, MODEL, *SMALL, '--budget', 0)
        check('no reading fits' in told.last and 'budget' not in told.out, 'no budget', told)
    with Fake('vllm', ('--rope', 'none'), noise=0.01) as server:
        reads(probe(server.url, MODEL, *MORE), 'plain RoPE', 'a listed reading')


def test_least_squares():
    """Against a curve with a known answer, and its errors against those of many samples."""
    rng, x = random.Random(3), [i / 10 for i in range(40)]

    def curve(p):
        return [p[0] * 2.718281828 ** (-p[1] * t) for t in x]
    seen = [y + rng.gauss(0, 0.01) for y in curve([3.0, 0.7])]
    fit = least_squares.least_squares(lambda p: [s - y for s, y in zip(seen, curve(p))], [1.0, 0.2], [0.1, 0.1], 1.0)
    error = least_squares.errors(fit.columns, fit.left, [10] * 4)
    check(abs(fit.x[0] - 3) < 5 * error[0] and abs(fit.x[1] - 0.7) < 5 * error[1], 'the curve', (fit.x, error))
    check(0.001 < error[0] < 0.03 and 0.001 < error[1] < 0.02, 'its errors', error)
    check(least_squares.solved([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]) is None, 'no answer')
    check(least_squares.errors([[0.0] * 4, [1.0, 1.0, 1.0, 2.0]], [0.1, -0.1, 0.1, 0.0], [2, 2])[0] == float('inf'),
          'nothing tells it')
    check(values.said(('s', 4.87, 5.13)) == 's 4.85 to 5.15' or 's 4.8' in values.said(('s', 4.87, 5.13)), 'words')


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
