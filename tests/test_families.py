#!/usr/bin/env python3
"""Biases, head norms, parts that rotate, layers without RoPE and layers that see all, with every method: random model
files against reference.py, in pieces, and quantized; and --explain's lines about a part."""

import json

from common import (check, close, config, good, in_work, main, perplexity, random_ids, table, tiny_model)
from folders import header_of
from test_forward import TOLERANCE, nll_close, session_test

SEES_ALL, WITHOUT_ROPE = 1, 2
LISTS = {'short_factors': [1.0, 1.2, 1.9], 'long_factors': [1.1, 3.0, 9.0]}
VARIANTS = {
    'biases': dict(qkv_bias=1), 'a bias of wo': dict(o_bias=1), 'head norms': dict(qk_norm=1),
    'a part turns': dict(rotary_dim=6), 'one pair turns': dict(rotary_dim=2),
    'layers without rope': dict(layers=[0, WITHOUT_ROPE, 0]),
    'layers that see all': dict(layers=[0, SEES_ALL, 0], sliding_window=9),
    'everything': dict(qkv_bias=1, o_bias=1, qk_norm=1, rotary_dim=6, layers=[3, 0, 1], sliding_window=11)}
METHODS = {'none': {}, 'yarn': dict(method='yarn', factor=4.0, train_ctx=16),
           'dynamic': dict(method='ntk', rope_dynamic=1, factor=2.0, train_ctx=16),
           'longrope': dict(method='longrope', factor=8.0, train_ctx=16, **LISTS)}


def variants(**shape):
    for name, variant in VARIANTS.items():
        for method, settings in METHODS.items():
            if method != 'longrope' or variant.get('rotary_dim') == 6:
                yield '%s, %s' % (name, method), dict(shape, n_layers=3, theta=50.0, **variant, **settings)


def test_against_the_reference():
    for seed, (name, c) in enumerate(variants(head_dim=10, n_heads=4, n_kv_heads=2)):
        for n in (16, 90) if 'longrope' in name else (40,):
            nll_close(config(**c), seed, n, 1e-4, 'the naive reference, %s, %d tokens' % (name, n))


def test_prompt_against_decode():
    for name, c in variants(head_dim=10, n_heads=4, n_kv_heads=2, dim=24):
        model = tiny_model('pieces.bin', **c)
        session_test('chunks', model, 'f32', c.get('sliding_window', 0), 0, 140, TOLERANCE['f32'], 'pieces, ' + name)
    for kv in ('f16', 'q8'):
        session_test('chunks', model, kv, 11, 0, 140, TOLERANCE[kv], 'pieces, %s, %s' % (name, kv))


def test_quantized_copies():
    """Everything that version 4 says is in a copy, too: q8 is near enough to tell, on average."""
    for name, c in variants(head_dim=10, n_heads=4, n_kv_heads=2, dim=64, hidden_dim=64):
        c = config(**c)
        model, copy, ids = tiny_model('whole.bin', **c), in_work('copy.bin'), random_ids(40, 50, 5)
        good(model, '--quantize', 'q8', copy)
        apart = [abs(a - b) for a, b in zip(perplexity(copy, ids), perplexity(model, ids))]
        check(sum(apart) / len(apart) < 0.12, 'a q8 copy, ' + name, sum(apart) / len(apart))
        before, after = header_of(model), header_of(copy)
        check({key for key in before if before[key] != after[key]} == {'weight_type', 'group_size'},
              "a q8 copy's header, " + name, after)


def test_explain():
    model = tiny_model('part.bin', head_dim=16, rotary_dim=12)
    settings, _, rows = table(good(model, '--explain', '--rope', 'linear', '--factor', 4).out)
    check((settings['head_dim'], settings['rotary_dim'], len(rows)) == ('16', '12', 6), 'what turns is said', settings)
    close([float(row['inv_freq']) for row in rows], [10000 ** (-2 * i / 12) for i in range(6)], 1e-9, 'its frequencies')
    for d, r in (16, 12), (96, 32), (80, 34), (12, 10), (100, 58), (200, 114):
        model = tiny_model('part.bin', head_dim=d, rotary_dim=r)
        block = json.loads([line for line in good(model, '--rope-json').out.splitlines() if line[0] == '{'][0])
        check(int(d * block['partial_rotary_factor']) == r, 'partial_rotary_factor of %d in %d' % (r, d), block)
    whole, _, _ = table(good(tiny_model('whole.bin'), '--explain').out)
    check('rotary_dim' not in whole, 'nothing is said of a whole head', whole)


if __name__ == '__main__':
    main(globals())
