#!/usr/bin/env python3
"""The forward pass by reference.py, the model in plain Python: each row of tests/models.json, by both engines, in one go
and, where the group says so, token by token. Rows whose products round activations to int8 as the reference does then
are held by the fast engine alone: the definition never rounds."""

import kept
from common import (ENGINES, case, check, close, config, export, in_work, main, perplexity, random_ids, random_weights,
                    run, takes_long, write, write_model)
from models import row_of, rows, table

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
    """Every method, on this and that side of the trained length. A theta of 50 puts all pairs into play."""
    hold('methods')


def test_windows():
    hold('windows')


def test_corners():
    """Rare combinations of settings: two kinds of layers, and their features with encodings before RoPE."""
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


# ---- steps ----

@takes_long
def test_they_matter():
    """Each number of a step changes the result, so that none is read and ignored."""
    for row in rows('steps'):
        ids = row.ids(70)
        c = row.config()
        weights = random_weights(c, row.seed)
        with_it = kept.nll(c, weights, ids)
        for key in ('layer_norm', 'residual_scale', 'logit_scale', 'logit_cap', 'score_cap', 'after_norm_eps',
                    'qk_norm_late', 'qk_norm_turning', 'embedding_norm', 'attention_chunk', 'value_scale',
                    'temperature_length', 'temperature_unturned'):
            if c[key]:
                without = kept.nll(dict(c, **{key: 0}), weights, ids)
                apart = max(abs(x - y) for x, y in zip(with_it, without))
                check(apart > 1e-3, '%s: %s matters' % (row.name, key), apart)


def test_late_norms():
    """Where norms of heads come after RoPE, a method that changes with the length is refused, by either engine."""
    model, c, _ = row_of('steps', 'norms of heads behind RoPE').made()
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(20, c['vocab_size'], 8))))
    for method, good in (('linear:factor=4', True), ('yarn:factor=4', True), ('dynamic-ntk:factor=4', False),
                         ('rerope:near=9', False)):
        for more in ((), ('--plain',)):
            done = run(model, '--ppl', ids, '--ids', '-n', 20, '--rope', method, *more)
            said = 'norms of heads come after RoPE' in done.err and done.err.count('\n') == 1
            check(done.status == 0 if good else done.status == 2 and said, 'late norms with ' + method, done)


# ---- headers that contradict themselves ----

def test_contradictions():
    """One line that names the fault, status 2, and for shapes and experts by the exporter, too; no words: it runs."""
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(20, 50, 8))))
    for words, base, fields in table()['refused']:
        c, model = config(**dict(table()['bases'][base], **fields)), in_work('refused.bin')
        write_model(model, c, random_weights(c, 1))
        done = run(model, '--ppl', ids, '--ids', '-n', 20)
        if not words:
            check(done.status == 0, 'runs: %s' % fields, done.err)
            continue
        check(done.status == 2 and done.err.count('\n') == 1 and 'impossible header' in done.err and
              all(word in done.err for word in words), 'refused: %s' % words, done)
        if base != 'layered':
            continue
        told = export(model, in_work('out_of_it') + '/')
        check(told.returncode != 0 and told.stderr.count('\n') == 1, 'the exporter refuses it as well: %s' % words,
              told.stderr)


if __name__ == '__main__':
    main(globals())
