#!/usr/bin/env python3
"""server_probe.py solves for values: each alone and several, named with bounds that hold them; and nothing is named
within too short a budget."""

import json
import os
import random
import re
import types

from common import ROOT, case, check, in_work, lacks, main, takes_long, write
from fake_server import MODEL, Fake
from probe_common import MORE, SMALL, named, ours_of, probe, reads
from probe.numbers import untold, values  # noqa: E402
from probe.solving import doubts, least_squares  # noqa: E402
from probe.numbers.candidates import Candidate  # noqa: E402

LONG = ['--budget', 900]  # of a busy machine
PART = ('--rope', 'proportional', '--attention-factor', '1', '--theta', '100000000', '--turning', '16', '--factor')

# Hidden options, words of the last line, and values whose bounds must hold the hidden ones.
SOLVED = [
    (('--factor', '5'), 'yarn ', {'s': 5}),
    (('--rope', 'linear', '--factor', '12', '--theta', '5000', '--attention-factor', '1.1'), 'linear', {
        's': 12, 'theta': 5000, 'attention factor': 1.1}),
    (('--theta', '50000'), 'yarn 16 x 512, theta ', {'theta': 50000}),
    (('--attention-factor', '0.9'), 'yarn 16 x 512', {'attention factor': 0.9}),
    (('--window', '60'), 'yarn 16 x 512, theta 10,000, attention factor 1.277, window 60 ', {'window': 60}),
    (('--window', '60', '--theta', '20000'), 'yarn 16 x 512, theta ', {'window': 60, 'theta': 20000}),
]


def test_solved():
    solved(SOLVED[:1])


@takes_long
def test_more_solved():
    solved(SOLVED)


def solved(cases):
    for hidden, words, true in cases:
        with case('solved: %s' % (hidden,)), Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *MORE, *LONG)
            known = named(told)
            check(told.status == 1 and told.last.startswith('the server has values of its own: ' + words) and
                  'the settings say yarn 16 x 512' in told.last, 'solved: %s' % (hidden,), told)
            check(set(known) == set(true) and all(known[n][0] <= value <= known[n][1] and
                                                  known[n][1] < 1.6 * known[n][0] for n, value in true.items()),
                  'each value within its bounds, and no other: %s' % (hidden,), (known, told))


# Values of servers whose arithmetic is exact, by longer prompts: steps of a ramp, far values, and ramps' both ends.
EXACT = [
    (('--theta', '5000'), {'theta': 5000}),
    (('--factor', '12', '--theta', '50000', '--train-ctx', '1024'), {'s': 12, 'theta': 50000, 'L': 1024}),
    (('--factor', '4.3', '--beta-slow', '2.1'), {'s': 4.3, 'beta_slow': 2.1}),
    (('--factor', '2.12', '--train-ctx', '193'), {'s': 2.12, 'L': 193}),
    (('--theta', '25400', '--beta-slow', '2.97', '--beta-fast', '17.8'), {
        'theta': 25400, 'beta_slow': 2.97, 'beta_fast': 17.8}),
    (('--train-ctx', '222', '--beta-fast', '24'), {'L': 222, 'beta_fast': 24}),
]
BOUNDS = re.compile(r'(?:\(|, )([a-zL_ ]+?) ([0-9.,]*[0-9]) to ([0-9.,]*[0-9])')


def ways(told):
    """{value: its bounds} of each way in which the last line says the same."""
    def number(word):
        return float(word.replace(',', ''))
    return [{name: (number(low), number(high)) for name, low, high in BOUNDS.findall(way)}
            for way in re.split(' or (?=yarn)', told.last.split('; ')[0])]


@takes_long
def test_solved_exactly():
    for hidden, true in EXACT:
        with Fake('vllm', hidden, noise=0.001) as server:
            told = probe(server.url, MODEL, '-n', 256, '--prompts', 6, *LONG)
        found = ways(told)
        right = [way for way in found if set(way) == set(true) and
                 all(way[n][0] <= value <= way[n][1] < 3 * way[n][0] for n, value in true.items())]
        check(told.status == 1 and right, 'solved exactly: %s' % (hidden,), (found, told))
        check(len(found) == (3 if len({'L', 'beta_fast', 'beta_slow'} & set(true)) > 1 else 1),
              'each two of L and the betas say the same: %s' % (hidden,), found)


@takes_long
def test_a_part_of_the_head():
    """Half of the pairs rotate, as llama.cpp counts; another theta of equal effect is named beside it."""
    with Fake('vllm', (*PART, '1'), noise=0.005) as server:
        told = probe(server.url, MODEL, *MORE, *LONG)
        check(told.status == 1 and 'the first 16 pairs of a head rotate (pairs that turn 16) or plain RoPE, theta ' in
              told.last and 'add up to 1' not in told.out, 'half of the pairs', told)
    with Fake('vllm', (*PART, '16'), noise=0.005) as server:
        told = probe(server.url, MODEL, *MORE, *LONG)
        check(told.status == 1 and ': linear, s 16, theta 10,000, attention factor 1, the first 16 pairs of a head rotate'
              in told.last, 'half of the pairs, by linear', told)


@takes_long
def test_two_kinds_of_layers():
    """Values of the full layers and of the sliding ones."""
    model = os.path.join(ROOT, 'models', 'layers-theta.bin')
    config = write(in_work('kinds.json'), json.dumps(dict(
        model_type='gemma3_text', hidden_size=128, intermediate_size=320, num_hidden_layers=5, num_attention_heads=4,
        num_key_value_heads=4, head_dim=32, vocab_size=4096, max_position_embeddings=256, sliding_window=64,
        layer_types=4 * ['sliding_attention'] + ['full_attention'], rope_theta=1e6, rope_local_base_freq=10000)))
    for hidden, true in ((('--rope-sliding', 'none:theta=3000'), {'theta of the sliding layers': 3000}),
                         (('--rope-sliding', 'linear:factor=3', '--theta', '20000'),
                          {'s of the sliding layers': 3, 'theta': 20000})):
        with Fake('vllm', hidden, noise=0.005, weights=model) as server:
            told = probe(server.url, model, '--rope-config', config, '-n', 128, '--prompts', 6, *LONG)
            known = named(told)
            check(told.status == 1 and set(known) == set(true) and
                  all(known[n][0] <= value <= known[n][1] < 1.2 * known[n][0] for n, value in true.items()) and
                  'its sliding layers' in told.last, 'two kinds: %s' % (hidden,), (known, told))


@takes_long
def test_untold():
    """Values that the prompts cannot tell are named, with the length that would: the less noise, the shorter."""
    model, ids, prompts = ours_of(48, 4)
    text = model.text_ids(os.path.join(ROOT, 'book.txt'), 200)
    lengths = [prompt.length for prompt in prompts]
    further = untold.Further(model, lambda n: text[:n], lengths, 900)
    value = 'theta', Candidate('here', ['--rope', 'none']), Candidate('there', ['--rope', 'none', '--theta', '10500'])
    lengths = [further.told_from(value, off)[0] for off in (0.0001, 0.01, 0.02, 0.05, 5)]
    told = [n for n in lengths if n]
    check(lengths[0] == 2 * further.lengths[-1] and lengths[-1] is None and told == sorted(told) and
          None not in lengths[:2], 'lengths that would tell', lengths)
    same = 'L', value[1], Candidate('as plain', ['--rope', 'none', '--train-ctx', '700'])
    check(further.told_from(same, 0.01) == (None, 4 * further.lengths[-1]), 'no length tells it, and the text ends')
    found = untold.remarks(further, [value, same], 0.0001)
    check('these prompts do not determine theta: prompts of %d tokens would (-n' % lengths[0] in found[0] and
          'these prompts do not determine L: no prompts of up to ' in found[1], 'its words', found)
    with Fake('vllm', ('--train-ctx', '8192'), noise=0.03) as server:
        told = probe(server.url, MODEL, '-n', 48, '--prompts', 6, '--budget', 0)
        for name in re.findall(r'([a-zL_ ]+) not at all', told.out):
            check('these prompts do not determine %s' % name.strip() in told.out, 'a line for it', told)
        check('not at all' in told.out, 'there is one', told)


def test_nothing_is_solved():
    """A budget that is too short is reported; a difference that no value explains is not named; a listed reading
    stays."""
    with Fake('vllm', ('--theta', '300')) as server:
        told = probe(server.url, MODEL, *SMALL, '--budget', 1)
        check(told.status == 1 and ('not all tried in 1 s (--budget)' in told.out or 'theta 300' in told.last),
              'the budget', told)
        told = probe(server.url, MODEL, *SMALL, '--budget', 0)
        check('no reading fits' in told.last and 'budget' not in told.out, 'no budget', told)
    with Fake('vllm', ('--rope', 'none'), noise=0.01) as server:
        reads(probe(server.url, MODEL, *MORE), 'plain RoPE', 'a listed reading')


def test_doubts():
    """A valley beside the right one is found from the measurements on the way; noise and worse fits are no valleys."""
    rng, answers = random.Random(4), {n: dict.fromkeys(range(20), -1.0) for n in range(6)}

    def some(size):
        return [rng.gauss(0, size) for _ in range(120)]

    def doubted(left, points):
        found = types.SimpleNamespace(fit=least_squares.Fit([], left, []), family='own', given={'theta': 1e4})
        return doubts.toward(types.SimpleNamespace(answers=answers, points=points), found)
    for size, off in (0.005, 0.02), (0.0002, 0.004):
        false = 0
        for _ in range(25):
            noise, way = some(size), some(off)
            beside = [a + b for a, b in zip(noise, way)]
            others = [('other', {}, [a + b for a, b in zip(noise, some(rng.choice((0.003, 0.1, 1))))])
                      for _ in range(30)]
            check(doubted(beside, others[:20] + [('right', {}, noise)]) is not None, 'a valley is seen', (size, off))
            false += doubted(noise, others) is not None
            near, further = ([('own', {'theta': theta}, noise)] for theta in (10020, 10500))
            check(doubted(beside, near) is None and doubted(beside, further) is not None,
                  'what is nearer than any bounds is no doubt', (size, off))
        check(not false, 'noise leans to nothing', (size, false))


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
    tried = []

    def line(p):
        tried.append(p[0])
        return [3 - p[0], 6 - 2 * p[0]]
    fit = least_squares.least_squares(line, [0.0], [0.1], 0.5)
    longest = max(abs(a - b) for a, b in zip(tried, tried[1:]))
    check(abs(fit.x[0] - 3) < 0.01 and longest < 0.5 + 1e-9, 'no step is longer than its reach', (fit.x, tried))
    check(values.said(('s', 4.87, 5.13)) == 's 4.85 to 5.15' or 's 4.8' in values.said(('s', 4.87, 5.13)), 'words')


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
