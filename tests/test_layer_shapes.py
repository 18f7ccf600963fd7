#!/usr/bin/env python3
"""Layers whose heads and widths differ, that read the keys of others, whose keys are values, that have embeddings of
their own and scales, and experts beside a dense layer (test_models.py holds them to reference.py): quantized, and
the effect of each part."""

import os

from common import (ENGINES, Q4, Q8, check, close, good, in_work, main, perplexity, random_ids, random_weights,
                    write_model)
from models import row_of, rows


def model_of(row, **more):
    return row.made(**more)[0]


def test_quantized():
    """Rows of the table of embeddings by layer are cut within groups; both engines multiply alike."""
    ids = random_ids(60, 50, 4)
    for row in rows('layers'):
        for kind, group in (Q8, 64), (Q4, 32):
            path = model_of(row, weight_type=kind, group_size=group)
            plain, fast = (perplexity(path, ids, *engine) for engine in ENGINES[::-1])
            close(fast, plain, 1e-3, '%s: type %d' % (row.name, kind))


def test_smaller_copies():
    """--quantize carries the tables over."""
    for row in rows('layers'):
        path, out = model_of(row), in_work('smaller.bin')
        good(path, '--quantize', 'q8', out)
        fast, plain = (perplexity(out, random_ids(40, 50, 5), *engine) for engine in ENGINES)
        close(fast, plain, 1e-3, '%s: a smaller copy' % row.name)
        os.unlink(out)


def test_they_matter():
    """Each of these changes the result."""
    ids = random_ids(40, 50, 6)
    for name, part in [('scales of layers', 'scale')] + [
            ('embeddings by layer', part) for part in ('per_layer_gate', 'per_layer_norm', 'per_layer_embedding')] + [
            ('experts beside', part) for part in ('router_norm', 'expert_scales', 'shared_after', 'experts_after',
                                                  'experts_norm', 'shared_w3')]:
        c = row_of('layers', name).config()
        weights = random_weights(c, 7)
        write_model(in_work('a.bin'), c, weights)
        for name in weights:
            if name.split('.')[0] == part:
                weights[name] = type(weights[name])('f', [x * (2 if i % 2 else 0.5) for i, x in enumerate(
                    weights[name])])
        write_model(in_work('b.bin'), c, weights)
        for engine in ENGINES:
            a, b = (perplexity(in_work(name), ids, *engine) for name in ('a.bin', 'b.bin'))
            check(max(abs(x - y) for x, y in zip(a, b)) > 1e-3, '%s matters: %s' % (part, engine[0]))


if __name__ == '__main__':
    main(globals())
