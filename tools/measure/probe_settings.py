#!/usr/bin/env python3
"""How often the probe decides, and how often wrongly: random hidden settings of the tests' own server, with noise.

    python3 tools/measure/probe_settings.py [HOW_MANY] [NOISE] [FIRST]     default 200, 0.02 and 0; 0.02 nats is what
                                                                   bfloat16 makes; FIRST: so many are left out

Half of the hidden settings are in the probe's list, half have one value at random. A line each: the result, the
hidden options, the probe's last line. Then the sums:

    decided     as the hidden one
    in bounds   decided as a listed one, and the bounds that the probe tells hold the hidden value
    named       solved for: the hidden value is named, within its bounds
    declined    by words that claim nothing wrong: between, cannot tell apart, nearest to, no reading fits
    wrong       all else; status 1 if there is one
"""

import os
import random
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.join(ROOT, 'tests')]

from fake_server import MODEL, Fake  # noqa: E402
from probe_common import probe  # noqa: E402  (which remembers our numbers from one server to the next)

# run's options, and the words of the right verdict.
LISTED = [((), 'hf5'), (('--rope', 'none'), 'plain RoPE'), (('--attention-factor', '1'), 'attention factor 1'),
          (('--factor', '8'), 'half the scale'), (('--factor', '32'), 'twice the scale'),
          (('--train-ctx', '8192'), 'exllamav2'),
          (('--rope', 'linear', '--factor', '16', '--attention-factor', '1'), 'linear'),
          (('--rope', 'ntk', '--factor', '16', '--attention-factor', '1'), 'ntk')]
# A value of MODEL's block: its option, its name in the probe's bounds, and the range that it is drawn from.
FREE = [('--factor', 's', 2, 64), ('--attention-factor', 'attention factor', 0.8, 2), ('--theta', 'theta', 2000, 60000),
        ('--train-ctx', 'L', 100, 8000)]


def drawn(rng):
    """The hidden options, the words of the right verdict or None, and the name of the value that was drawn or None."""
    if rng.random() < 0.5:
        return rng.choice(LISTED) + (None,)
    option, name, low, high = rng.choice(FREE)
    value = rng.uniform(low, high)
    return (option, '%d' % value if option == '--train-ctx' else '%.3g' % value), None, name


def is_in_bounds(out, name, value):
    """Whether the verdict tells bounds of this value that hold it."""
    told = re.findall(r'(?:known within: |, |\()%s (?:([0-9.,]*[0-9]) to ([0-9.,]*[0-9])|not at all)' % name, out)
    ends = [[float(end.replace(',', '')) for end in found if end] for found in told]
    return any(not found or found[0] <= value <= found[1] for found in ends)


def outcome(hidden, words, name, status, out):
    if status == 1 and 'values of its own' in out:
        named = name is not None and is_in_bounds(out.splitlines()[-1], name, float(hidden[1]))
        return 'named' if named else 'wrong'
    if status != 0:
        return 'declined'
    if words is not None:
        return 'decided' if words in out.splitlines()[-1] else 'wrong'
    return 'in bounds' if is_in_bounds(out, name, float(hidden[1])) else 'wrong'


def main(count=200, noise=0.02, first=0):
    rng, sums = random.Random(1), {}
    for number in range(int(first) + int(count)):
        hidden, words, name = drawn(rng)
        if number < int(first):
            continue
        with Fake('vllm', hidden, noise=float(noise)) as server:
            server.random.seed(number)
            told = probe(server.url, MODEL, '-n', 96, '--prompts', 6, '--budget', 900)
        what = outcome(hidden, words, name, told.status, told.out)
        sums[what] = sums.get(what, 0) + 1
        print('\t'.join([what, ' '.join(hidden) or '-', told.last]), flush=True)
    print('# %s' % ', '.join('%s %d' % item for item in sorted(sums.items())))
    return 1 if 'wrong' in sums else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
