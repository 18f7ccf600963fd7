#!/usr/bin/env python3
"""Layers whose heads and widths differ, that read the keys of others, whose keys are values, that have embeddings of
their own and scales, and experts beside a dense layer (test_models.py holds them to reference.py): quantized, and what
each part changes. And tables and headers that contradict themselves, which are refused by name."""

import os

from common import (ENGINES, Q4, Q8, check, close, config, export, good, in_work, main, perplexity, random_ids,
                    random_weights, run, write, write_model)
from models import row_of, rows, table

BASE = table()['bases']['layered']
HEADS = [(4, 2, 8, 24, 0), (4, 1, 16, 24, 1), (4, 2, 8, 16, 2), (4, 1, 16, 24, 3)]


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
    """Each of these changes what comes out."""
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



REFUSED = [  # fields, and words of the line
    (dict(shapes=[(4, 3, 8, 24, 0)] * 4), ('n_kv_heads 3 for layer 0',)),
    (dict(n_kv_heads=4, shapes=[(4, 3, 8, 24, i) for i in range(4)]), ('4 heads of layer 0', '3 kv heads')),
    (dict(shapes=[(4, 2, 7, 24, i) for i in range(4)]), ('head_dim of layer 0 is 7',)),
    (dict(shapes=HEADS[:3] + [(4, 1, 16, 24, 4)]), ('kv_layer of layer 3 is 4',)),
    (dict(shapes=HEADS[:3] + [(4, 1, 16, 24, 0)]), ('layer 3 takes keys of layer 0',)),
    (dict(shapes=[(4, 2, 16, 24, i) for i in (0, 1, 2, 2)]), ('layer 3 takes keys of layer 2',)),
    (dict(shapes=[(4, 2, 16, 24, i) for i in (0, 1, 0, 0)], layers=[4, 1, 4, 4]), ()),
    (dict(shapes=[(4, 2, 16, 24, i) for i in (0, 0, 0, 1)], layers=[4, 4, 4, 4]), ('layer 3 takes keys of layer 1',)),
    (dict(shapes=[(4, 1, 8, 24, i) for i in range(4)]), ('head_dim of layer 1 is 8', '16 elements')),
    (dict(method='none', rotary_dim=12, shapes=[(4, 1, 8, 24, i) for i in range(4)]), (
        'head_dim of layer 1 is 8', '12 elements')),
    (dict(layers=[4, 17, 4, 1], value_dim=8), ('keys of layer 1 are values', 'value_dim')),
    (dict(layers=[4, 17, 4, 1], qk_norm=2), ('keys of layer 1 are values', 'qk_norm')),
    (dict(experts_beside=1), ('n_experts is 0',)),
    (dict(n_experts=4, n_experts_used=2, expert_hidden_dim=8, experts_beside=1),
     ('experts_beside', 'shared_hidden_dim')),
    (dict(n_experts=4, n_experts_used=2, expert_hidden_dim=8, experts_beside=1, shared_hidden_dim=8, router_bias=1),
     ('experts_beside', 'router_bias')),
    (dict(n_experts=4, n_experts_used=2, expert_hidden_dim=8, experts_beside=1, shared_hidden_dim=8, layer_norm=1),
     ('experts_beside', 'layer_norm')),
    (dict(per_layer_dim=4, residual_scale=0.5), ('per_layer_dim', 'residual_scale'))]


def test_contradictions():
    """One line that names what was wrong, status 2; no words: it runs."""
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(20, 50, 8))))
    for fields, words in REFUSED:
        c = config(**dict(BASE, **fields))
        path = in_work('refused.bin')
        write_model(path, c, random_weights(c, 1))
        done = run(path, '--ppl', ids, '--ids', '-n', 20)
        if not words:
            check(done.status == 0, 'runs: %s' % fields, done.err)
            continue
        check(done.status == 2 and done.err.count('\n') == 1 and 'impossible header' in done.err and
              all(word in done.err for word in words), 'refused: %s' % (words,), done)
        told = export(path, in_work('out_of_it') + '/')
        check(told.returncode != 0 and told.stderr.count('\n') == 1, 'the exporter refuses it as well: %s' % (words,),
              told.stderr)


if __name__ == '__main__':
    main(globals())
