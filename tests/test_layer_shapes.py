#!/usr/bin/env python3
"""Layers whose heads and widths differ, that read the keys of others, whose keys are values, that have embeddings of
their own and scales, and experts beside a dense layer: random models, both engines against reference.py in each way of
reading, as float32 and quantized. And tables and headers that contradict themselves, which are refused by name."""

import os

import kept
import reference
from common import (ENGINES, Q4, Q8, check, close, config, export, good, in_work, main, perplexity, random_ids,
                    random_weights, read, read_model, run, write, write_model)

SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING, KEYS_ARE_VALUES = 1, 2, 4, 16
BASE = dict(dim=32, hidden_dim=24, n_layers=4, n_heads=4, n_kv_heads=2, head_dim=16, vocab_size=50, seq_len=128,
            train_ctx=64, sliding_window=20, sliding_rope=1, sliding_theta=300.0, sliding_rotary_dim=8, rotary_dim=4,
            layers=[4, 1, 4, 1], method='proportional', factor=1.0, norm_place=2, activation=1, qk_norm=1, value_norm=1,
            score_scale=0.25)
HEADS = [(4, 2, 8, 24, 0), (4, 1, 16, 24, 1), (4, 2, 8, 16, 2), (4, 1, 16, 24, 3)]
SHARED = [(4, 2, 8, 12, 0), (4, 1, 16, 12, 1), (4, 2, 8, 24, 0), (2, 1, 16, 24, 1)]
MODELS = {
    'heads': dict(shapes=HEADS),
    'keys of others': dict(shapes=SHARED),
    'keys that are values': dict(shapes=HEADS, layers=[4, 17, 4, 17]),
    'scales of layers': dict(shapes=HEADS, layer_scale=1),
    'embeddings by layer': dict(shapes=SHARED, per_layer_dim=6, layer_scale=1),
    'wide embeddings by layer': dict(shapes=SHARED, per_layer_dim=70),
    'experts beside': dict(shapes=HEADS, layers=[4, 1, 12, 1], n_experts=5, n_experts_used=2, expert_hidden_dim=12,
                           experts_beside=1, shared_hidden_dim=20),
    'experts beside, by sigmoids': dict(n_experts=5, n_experts_used=3, expert_hidden_dim=12, experts_beside=1, router=2,
                                        router_renormalizes=1, router_choice_bias=1, shared_hidden_dim=40, layers=[
                                            4, 1, 4, 1], sliding_rotary_dim=16, router_cap=2.0),
    'experts beside, nothing normed after': dict(n_experts=4, n_experts_used=2, expert_hidden_dim=12, norm_place=0,
                                                 experts_beside=1, shared_hidden_dim=20, per_layer_dim=6)}


def model_of(fields, seed, **more):
    c = config(**dict(BASE, **fields, **more))
    path, weights = in_work('shapes.bin'), random_weights(c, seed)
    for name in weights:
        if name.startswith('scale.'):  # near 1, as in published models
            weights[name][0] = 1 + weights[name][0] / 4
    write_model(path, c, weights)
    return path


def test_engines():
    ids = random_ids(90, 50, 3)
    for seed, (name, fields) in enumerate(MODELS.items()):
        path = model_of(fields, seed)
        said = kept.nll(*read_model(path), ids)
        for engine in ENGINES:
            close(perplexity(path, ids, *engine), said, 1e-4, '%s: %s' % (name, engine[0]))
            close(perplexity(path, ids, *engine, '--stepwise'), said, 1e-4, '%s: %s, by step' % (name, engine[0]))


def test_quantized():
    """Rows of the table of embeddings by layer are cut within groups; both engines multiply alike."""
    ids = random_ids(60, 50, 4)
    for seed, (name, fields) in enumerate(MODELS.items()):
        for kind, group in (Q8, 64), (Q4, 32):
            path = model_of(fields, seed, weight_type=kind, group_size=group)
            plain, fast = (perplexity(path, ids, *engine) for engine in ENGINES[::-1])
            close(fast, plain, 1e-3, '%s: type %d' % (name, kind))


def test_smaller_copies():
    """--quantize carries the tables over."""
    for seed, (name, fields) in enumerate(MODELS.items()):
        path, out = model_of(fields, seed), in_work('smaller.bin')
        good(path, '--quantize', 'q8', out)
        fast, plain = (perplexity(out, random_ids(40, 50, 5), *engine) for engine in ENGINES)
        close(fast, plain, 1e-3, '%s: a smaller copy' % name)
        os.unlink(out)


def test_they_matter():
    """Each of these changes what comes out."""
    ids = random_ids(40, 50, 6)
    for fields, part in ((MODELS['scales of layers'], 'scale'), (MODELS['embeddings by layer'], 'per_layer_gate'),
                         (MODELS['embeddings by layer'], 'per_layer_norm'),
                         (MODELS['embeddings by layer'], 'per_layer_embedding'),
                         (MODELS['experts beside'], 'router_norm'), (MODELS['experts beside'], 'expert_scales'),
                         (MODELS['experts beside'], 'shared_after'), (MODELS['experts beside'], 'experts_after'),
                         (MODELS['experts beside'], 'experts_norm'), (MODELS['experts beside'], 'shared_w3')):
        c = config(**dict(BASE, **fields))
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
