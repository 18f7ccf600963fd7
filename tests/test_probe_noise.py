#!/usr/bin/env python3
"""server_probe.py under noise, of a server with a cache of few bits, and of one with 8-bit weights and activations: no
false value, no false reading; and tools/measure/probe_settings.py's own judging."""

import contextlib
import io
import random
import re

from common import ROOT, check, lacks, main, takes_long
from fake_server import MODEL, Fake, likeliest
from probe_common import BLOCK, MORE, ours_of, probe, reads
import probe_settings  # noqa: E402
from probe.numbers import decide, values  # noqa: E402
from probe.reading import reading  # noqa: E402
from probe.numbers.candidates import Candidate  # noqa: E402


def test_false_leans():
    """The true reading under noise, of each token alone and of a prompt alike: a value is seen in 2 % at most."""
    false_leans(*ours_of(128, 4))


@takes_long
def test_false_leans_of_long_prompts():
    false_leans(*ours_of(512, 8))


def false_leans(model, ids, prompts):
    lengths = [prompt.length for prompt in prompts]
    tops = {n: likeliest(tuple(ids[:n]), BLOCK, 20) for n in lengths}
    exact = {n: dict(top) for n, top in tops.items()}
    best = decide.Reading([Candidate('as served', list(BLOCK))], exact)
    numbers = values.Numbers(lambda group, some: reading.one_reading(model, group, ids, some), model, exact, False,
                             lengths[-1])
    tried = values.neighbors(model, best, lengths[-1])
    for neighbor in tried:
        values.measure(neighbor, numbers)
    rng, trials = random.Random(50), 100
    for alone, alike in (0.02, 0), (0.01, 0.015):
        false = 0
        for _ in range(trials):
            heard = {n: {id: p + shift + rng.gauss(0, alone) for id, p in top.items()}
                     for n, top in exact.items() for shift in [rng.gauss(0, alike)]}
            false += any(decide.lean(heard, best, neighbor.reading) for neighbor in tried)
        print('    false leans, %d prompts, %g nats alone, %g alike: %d of %d' % (len(lengths), alone, alike, false,
                                                                                  trials))
        check(false <= 0.02 * trials, 'noise is no value of its own', (lengths, alone, alike, false))


def test_random_settings():
    """tools/measure/probe_settings.py: two settings, none wrongly decided; and its own judging."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = probe_settings.main(2, 0.02)
    lines = out.getvalue().splitlines()
    check(status == 0 and len(lines) == 3 and re.search(r'decided [1-9]', lines[-1]), 'two settings', lines)
    known = ('# prompts\tvalues known within: theta 9,000 to 11,000, s 30 to 34, L not at all\n'
             'the server reads it as plain RoPE')
    free = ('--factor', '33')
    for hidden, words, name, status, expected in (
            (free, None, 's', 0, 'in bounds'), (('--factor', '35'), None, 's', 0, 'wrong'),
            (('--theta', '9500'), None, 'theta', 0, 'in bounds'), (('--train-ctx', '600'), None, 'L', 0, 'in bounds'),
            (('--attention-factor', '1.2'), None, 'attention factor', 0, 'wrong'),
            (free, None, 's', 1, 'declined'), ((), 'hf5', None, 0, 'wrong'), ((), 'plain RoPE', None, 0, 'decided')):
        found = probe_settings.outcome(hidden, words, name, status, known)
        check(found == expected, 'judged: %s' % (hidden,), (found, expected))
    solved = 'the server has values of its own: yarn 33.2 x 512, theta 10,000, attention factor 1.35 (s 31 to 35)'
    for hidden, words, name, expected in ((free, None, 's', 'named'), (('--factor', '36'), None, 's', 'wrong'),
                                          (('--theta', '9500'), None, 'theta', 'wrong'), ((), 'hf5', None, 'wrong')):
        found = probe_settings.outcome(hidden, words, name, 1, solved)
        check(found == expected, 'judged, solved for: %s' % (hidden,), (found, expected))


@takes_long
def test_a_cache_of_few_bits():
    """It is distinguished from a wrong reading, with every reading. The first 64 positions of such a cache have 16 bits here."""
    longer = '-n', 256, '--prompts', 6
    for hidden, words in (((), 'hf5'), (('--rope', 'none'), 'plain RoPE')):
        with Fake('vllm', hidden + ('--kv', 'q4'), noise=0.005) as server:
            told = probe(server.url, MODEL, *longer)
            reads(told, words, '4 bits, %s' % (hidden,))
            check('the key-value cache of the server has 4 bits' in told.out, 'said', told)
    with Fake('vllm', ('--kv', 'q8'), noise=0.005) as server:
        told = probe(server.url, MODEL, *longer)
        reads(told, 'hf5', '8 bits')
        check('has 4 bits' not in told.out, 'no fewer', told)


@takes_long
def test_eight_bit_weights_and_activations():
    """The effect of every CPU engine is no separate value."""
    with Fake('llama', ('--activations', 'int8'), weights=ROOT + '/model.bin') as server:
        for size in (['-n', 96, '--prompts', 6], ['-n', 256, '--prompts', 4]):
            told = probe(server.url, ROOT + '/model.bin', *size, '--budget', 0)
            check(told.status in (0, 3) and 'of its own' not in told.last, 'int8 activations', told)


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
