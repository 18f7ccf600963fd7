#!/usr/bin/env python3
"""The forward pass by reference.py, the model in plain Python: each row of tests/models.json, by both engines, in one go
and, where the group says so, token by token. Rows whose products round activations to int8 as the reference does then
are held by the fast engine alone: the definition never rounds."""

import kept
from common import ENGINES, case, close, main, perplexity
from models import rows

FLOATS = 1e-4


def hold(test):
    for row in rows(test):
        with case('%s: %s' % (test, row.name)):
            model, c, stored = row.made()
            tolerance, options = row.asked.get('tolerance', FLOATS), row.asked.get('options', ())
            ways = [('--kv', 'f32')] if tolerance > FLOATS else [*ENGINES]
            if row.asked.get('step_by_step'):
                ways.append((*ways[0], '--stepwise'))
            for n in row.lengths:
                ids = row.ids(n)
                expected = kept.nll(c, stored, ids, **row.asked.get('reference', {}))
                for way in ways:
                    close(perplexity(model, ids, *way, *options), expected, tolerance,
                          '%s, %d tokens, %s' % (row.name, n, ' '.join(way)))


def test_shapes():
    hold('shapes')


def test_weight_types():
    """Float16 and bfloat16 as stored; q8 in groups that are not 64 multiplies floats too. Groups of 64, and q4, also
    round the activations, which now and then fall on the other side of a half."""
    hold('weight_types')


def test_methods():
    """Every method, on this and that side of the trained context. A theta of 50 puts all pairs into play."""
    hold('methods')


def test_windows():
    hold('windows')


def test_corners():
    """Settings that meet in few places: two kinds of layers, and what encodings before RoPE have of it."""
    hold('corners')


def test_steps():
    """Steps of attention and of the feed-forward layer that few families have; and by each layer's own heads and width."""
    hold('steps')
    hold('steps_by_shape')


def test_layers():
    """Layers whose heads and widths differ, that read the keys of others, whose keys are values, that have embeddings of
    their own and scales, and experts beside a dense layer."""
    hold('layers')


def test_states():
    """Layers that keep a state: the gated delta rule and short convolutions of many shapes."""
    hold('states')
    hold('states_weight_types')


if __name__ == '__main__':
    main(globals())
