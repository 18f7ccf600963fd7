#!/usr/bin/env python3
"""--short-heads, --short-window and --best-keys: the keys that a query does not see, by both engines against
reference.py, whose attention gets from the test the hidden keys of each head."""

import math

import models
import reference
from common import (ENGINES, check, close, config, good, in_work, main, one_line, perplexity, random_ids, random_weights,
                    run, table, write, write_model)

L = 24
BASE = dict(theta=50.0, train_ctx=L, n_layers=3, n_heads=4, n_kv_heads=2)


def hidden_from(short, window, best=0):
    """reference.attend with kv heads of `short`, {layer: heads}, that see `window` positions and the first four alone,
    and with all but the `best` scores of a query unseen."""
    layers = []

    def attend(queries, keys, values, c, positions, width, sinks, chunk, meet, between, far, learned):
        layer, share, scale = len(layers), c['n_heads'] // c['n_kv_heads'], reference.score_scale(c)
        layers.append(layer)
        out = []
        for position, heads in zip(positions, queries):
            mixed = []
            for h in range(c['n_heads']):
                is_short = h // share in short.get(layer, ()) and (not width or width > window)
                seen = [k for k, p in enumerate(positions) if p <= position
                        and (position - p < window or p < 4 if is_short
                             else reference.sees(position, p, width, sinks, chunk))]
                scores = [reference.capped(meet(h, heads[h], keys[k][h // share], between(position, positions[k]))
                                           * scale, c['score_cap']) for k in seen]
                least = sorted(scores, reverse=True)[best - 1] if 0 < best < len(scores) else -math.inf
                weights = [math.exp(score) if score >= least else 0 for score in scores]
                there = [values[k][h // share] for k in seen]
                mixed += [reference.dot(weights, column) / sum(weights) for column in zip(*there)]
            out.append(mixed)
        return out
    return attend


def expected(c, weights, ids, attend, **how):
    usual, reference.attend = reference.attend, attend
    try:
        return reference.nll(c, weights, ids, **how)
    finally:
        reference.attend = usual


def test_short_heads():
    ids, path = random_ids(150, 50, 3), in_work('short.bin')
    for changes, how, options in (({}, {}, ()), ({}, {}, ('--rope', 'yarn', '--factor', 4)),
                                  (dict(sliding_window=9, layers=[0, 1, 0]), {}, ()),
                                  ({}, {'positions': reference.spread(150, 900, 32)}, ('--spread', 900, '--piece', 32)),
                                  ({}, {'map': reference.distance_map('dca', L, 150)}, ('--rope', 'dca')),
                                  (dict(layers=[2, 0, 0]), {}, ())):
        c = config(**BASE, **changes, **({'layer_table': 1} if 'layers' in changes else {}))
        weights = write_model(path, c, random_weights(c, 3))
        said = dict(c, **({'rope_method': 4, 'factor': 4.0} if 'yarn' in options else {}))
        for listed, short in (('0.1,2', {0: [1], 2: [0, 1]}), ('all-but:0.0,1.1', {0: [1], 1: [0], 2: [0, 1]})):
            found = expected(said, weights, ids, hidden_from(short, 20), **how)
            for engine in ENGINES:
                close(perplexity(path, ids, *engine, *options, '--short-heads', listed, '--short-window', 20), found, 1e-4,
                      '%s %s: %s' % (listed, options, engine[0]))


def test_best_keys():
    ids, path = random_ids(90, 50, 4), in_work('best.bin')
    for best in 1, 7, 89, 90:
        for changes in ({}, dict(score_cap=1.5)) if best > 1 else ({},):  # near a cap the best one is a matter of rounding
            c = config(**BASE, **changes)
            weights = write_model(path, c, random_weights(c, 4))
            close(perplexity(path, ids, '--best-keys', best), expected(c, weights, ids, hidden_from({}, 0, best)), 1e-4,
                  'the best %d keys %s' % (best, changes))
    rows = table(good(path, '--ppl', write(in_work('ids.txt'), ' '.join(map(str, ids))), '--ids', '-n', 90,
                      '--best-keys', 5).out)
    check(rows[0]['best_keys'] == '5', 'the note', rows[0])


def test_refused():
    path, ids = in_work('short.bin'), write(in_work('ids.txt'), ' '.join(map(str, random_ids(40, 50, 3))))
    c = config(**BASE, layers=[0, 0, 0])
    write_model(path, c, random_weights(c, 3))
    for value, *words in (('x', "'x'", 'LAYER.KVHEAD'), ('0.2', 'kv heads 0 to 1'), ('3', 'layers 0 to 2'), ('0.', "'0.'"),
                          ('0.1,', "''"), ('-1', '--short-heads'), ('all-but:', "''"), ('0.1.2', "'0.1.2'"),
                          ('1.x', "'1.x'"), ('all-but:9', 'layers 0 to 2')):
        one_line(run(path, '--ppl', ids, '--ids', '-n', 40, '--short-heads=' + value), 2, value, *words)
    one_line(run(path, '--ppl', ids, '--ids', '-n', 40, '--short-window', 9), 2, 'a window alone', 'needs --short-heads')
    latent = models.row_of('steps', 'a cap of latent scores')
    made, _, _ = latent.made()
    one_line(run(made, '--ppl', ids, '--ids', '-n', 40, '--short-heads', 0), 2, 'latent attention', 'one key')


if __name__ == '__main__':
    main(globals())
