#!/usr/bin/env python3
"""Mixtures of experts, learned sinks and clamped SwiGLU: the fast engine against the definition, and that against
reference.py, over many kinds of models, as a prompt and token by token; chunks, threads, weights of every type, copies;
learned sinks with windows, and in the table of --attn. Files made to do harm are in test_hostile.py, numbers of Hugging
Face in test_folders.py."""

import itertools
import math

import kept
from common import (ENGINES, SLIDING, block_weights, check, close, config, good, in_work, main, perplexity,
                    random_ids, random_weights, read, table, takes_long, with_header, write_model, write_tokenizer)
from test_forward import TOLERANCE, session_test
from test_layer_kinds import differs, model_of

BASE = dict(theta=50.0, train_ctx=24, seq_len=600, n_layers=3)
IDS = random_ids(70, 50, 4)
FLOATS = ENGINES[0]
# How many experts, how many of them chosen, and their width.
MIXES = (1, 1, 9), (4, 2, 5), (7, 3, 44), (8, 8, 16), (20, 4, 3), (40, 1, 33)


def mixture(n=7, used=3, width=20, **changes):
    return config(**dict(BASE, n_experts=n, n_experts_used=used, expert_hidden_dim=width, **changes))


def kinds():
    """Every mix with either router, with biases of routers and experts or without, and in turns with the rest."""
    combined = itertools.product(MIXES, (0, 1), (0, 1), (0, 1))
    for i, ((n, used, width), router, router_bias, expert_bias) in enumerate(combined):
        extra = dict(activation=i % 3, attention_sinks=i // 2 % 2, norm_place=(0, 0, 1, 2)[i % 4])
        extra.update(((), dict(layers=[0, 8, 0]), dict(layers=[8, 8, 1], sliding_window=9))[i % 3 - 1] or {})
        if i % 5 == 0:
            extra.update(SLIDING, sliding_rope=1, layers=[4, 9, 12], sliding_window=11)
        yield i, mixture(n, used, width, router=router, router_bias=router_bias, expert_bias=expert_bias, **extra)


def test_kinds():
    for i, c in kinds():
        what = ', '.join('%s %s' % (name, c[name]) for name in (
            'n_experts', 'n_experts_used', 'expert_hidden_dim', 'router', 'router_bias', 'expert_bias', 'activation',
            'attention_sinks', 'norm_place')) + ', layers %s' % c.get('layers')
        model = model_of(c, seed=i % 5)
        expected = perplexity(model, IDS, '--plain')
        # Each engine within 1e-4 of the reference: rounding differs from processor to processor, so they may be twice
        # that apart.
        close(perplexity(model, IDS, *FLOATS), expected, 2e-4, what)
        if i % 5 < 2:
            close(expected[:29], kept.nll(c, random_weights(c, i % 5), IDS[:30]), 1e-4, what + ', the reference')
        if i % 3 == 0:
            close(perplexity(model, IDS, *FLOATS, '--stepwise'), expected, 2e-4, what + ', step by step')
        if i % 3 == 1:
            both = [perplexity(model, IDS, *FLOATS, '--threads', n) for n in (1, 2)]
            check(both[0] == both[1], what + ', on one thread and on two', differs(*both))


def test_what_counts():
    """Each setting changes the model's results: none is read and ignored."""
    c = mixture(attention_sinks=1, router_bias=1, expert_bias=1)
    weights = random_weights(c, 1)
    model = model_of(c)
    own = perplexity(model, IDS, *FLOATS)
    for changes in dict(n_experts_used=2), dict(n_experts_used=4), dict(router=1), dict(activation=1), dict(
            activation=2), dict(layers=[0, 0, 0]):
        if 'layers' in changes:
            write_model(in_work('other.bin'), dict(c, **changes, layer_table=1), weights)
        else:
            with_header(in_work('other.bin'), model, dict(c, **changes))
        for engine in ENGINES:
            apart = differs(perplexity(in_work('other.bin'), IDS, *engine), own)
            check((apart < 1e-4) == ('layers' in changes), '%s by %s' % (changes, engine[-1]), apart)
    for part in 'router', 'router_bias', 'b1', 'b3', 'b2', 'sinks', 'w1', 'w3', 'w2':
        other = dict(weights)
        name = part + '.1'
        half = len(weights[name]) // 2
        other[name] = weights[name][:half] + type(weights[name])('f', [x + 0.3 for x in weights[name][half:]])
        write_model(in_work('other.bin'), c, other)
        for engine in ENGINES:
            found = perplexity(in_work('other.bin'), IDS, *engine)
            check(differs(found, own) > 1e-3, 'other %s by %s' % (part, engine[-1]), differs(found, own))


def test_ties():
    """Of equal logits the expert of the smaller number is chosen: experts after the chosen ones may be anything."""
    c = mixture(6, 2, 8)
    weights = random_weights(c, 2)
    for layer in range(3):
        weights['router.%d' % layer] = type(weights['router.0'])('f', [0.0] * (6 * c['dim']))
    write_model(in_work('ties.bin'), c, weights)
    own = [perplexity(in_work('ties.bin'), IDS, *engine) for engine in ENGINES]
    close(*own, 1e-4, 'equal logits by both engines')
    for layer in range(3):
        name = 'w2.%d' % layer
        behind = 2 * c['dim'] * 8
        weights[name] = weights[name][:behind] + type(weights[name])('f', [7.0] * (len(weights[name]) - behind))
    write_model(in_work('ties.bin'), c, weights)
    for engine, before in zip(ENGINES, own):
        close(perplexity(in_work('ties.bin'), IDS, *engine), before, 1e-9, 'the first of equals by %s' % engine[-1])


def test_weights():
    """Weights of every type in experts, by both engines; with activations rounded to int8 nearly the same."""
    shape = dict(dim=64, hidden_dim=64, n_heads=2, n_kv_heads=1, head_dim=32, n_layers=1)
    mixes = [dict(weight_type=1), dict(weight_type=2), dict(weight_type=3, group_size=64),
             dict(weight_type=3, group_size=24), dict(weight_type=4, group_size=32)]
    mixes += [dict(types=[0, 9, 5, 6, 7, kind, kind, 9, 0]) for kind in (5, 6, 7, 8, 9, 15, 17)]
    mixes += [dict(types=[0, 9, 5, 6, 7, 17, 4, 3, 0], group_size=64)]
    mixes += [dict(dim=256, types=[0, 14, 14, 14, 9, kind, kind, 9, 0]) for kind in (10, 11, 12, 13, 14, 16)]
    for i, fields in enumerate(mixes):
        c = mixture(5, 2, (32, 64, 96)[i % 3], expert_bias=i % 2, activation=2 * (i % 2), **dict(shape, **fields))
        write_model(in_work('weights.bin'), c, block_weights(c, random_weights(c, 3), 3))
        floats, definition = (perplexity(in_work('weights.bin'), IDS, *engine) for engine in ENGINES)
        close(floats, definition, 2e-4, '%s by both engines' % fields)
        steps = perplexity(in_work('weights.bin'), IDS, *FLOATS, '--stepwise')
        close(steps, definition, 2e-4, '%s step by step' % fields)
        rounded = [perplexity(in_work('weights.bin'), IDS, '--kv', 'f32', *more) for more in ((), ('--stepwise',))]
        for found in rounded:
            # A rounded activation may choose another expert now and then.
            apart = sorted(abs(x - y) for x, y in zip(found, definition))
            check(apart[len(apart) // 2] < 0.1, '%s with rounded activations' % fields, apart[len(apart) // 2])


QUANTIZED = mixture(5, 3, 64, dim=64, n_heads=2, n_kv_heads=1, head_dim=32, weight_type=3, group_size=64)


def test_sessions():
    """Chunks, rewinding and threads: a text read in parts gives the same as read at once."""
    for label, changes in (('few rows an expert', dict(n=40, used=2, width=12)),
                           ('many rows an expert', dict(n=3, used=2, width=70, expert_bias=1)),
                           ('gpt-oss', dict(attention_sinks=1, router_bias=1, expert_bias=1, activation=2,
                                            sliding_window=13, layers=[0, 1, 0]))):
        model = model_of(mixture(**changes), 'sessions.bin')
        session_test('chunks', model, 'f32', 0, 0, 300, TOLERANCE['f32'], 'chunks, ' + label)
        session_test('threads', model, 'f32', 0, 0, 90, 0, 'threads, ' + label)
    session_test('threads', model_of(QUANTIZED, 'q8.bin'), 'f16', 0, 0, 90, 0, 'threads, q8')


@takes_long
def test_sanitized():
    model = model_of(mixture(attention_sinks=1, router_bias=1, expert_bias=1, activation=2, sliding_window=13,
                             layers=[0, 1, 0]), 'sessions.bin')
    session_test('chunks', model, 'f32', 0, 0, 150, TOLERANCE['f32'], 'chunks under the sanitizers', 'sanitized')
    session_test('threads', model_of(QUANTIZED, 'q8.bin'), 'f16', 0, 0, 70, 0, 'threads under the sanitizers',
                 'sanitized')


def test_sinks():
    """A learned sink takes weight from all keys: sinks far below all scores have no effect, and the weights of --attn
    add up to 1 with the sink's row. Maps, windows and the sinks of a method work as before."""
    c = config(**BASE, attention_sinks=1)
    weights = random_weights(c, 1)
    far = dict(weights)
    for layer in range(3):
        far['sinks.%d' % layer] = type(weights['sinks.0'])('f', [-1e4] * c['n_heads'])
    write_model(in_work('far.bin'), c, far)
    without = model_of(config(**BASE), 'without.bin')
    write_model(in_work('without.bin'), config(**BASE),
                {name: values for name, values in weights.items() if name[:5] != 'sinks'})
    for engine in ENGINES:
        close(perplexity(in_work('far.bin'), IDS, *engine), perplexity(without, IDS, *engine), 1e-5,
              'sinks without weight, %s' % engine[-1])
    model = model_of(c)
    for options in (), ('--window', 9), ('--window', 9, '--sinks', 2), ('--rope', 'self-extend:group=3'), (
            '--rope', 'streaming'), ('--spread', 400, '--piece', 16), ('--kv', 'f16'), ('--logn',):
        close(perplexity(model, IDS, *(FLOATS if '--kv' not in options else ()), *options),
              perplexity(model, IDS, '--plain', *[o for o in options if o not in ('--kv', 'f16')]),
              1e-4 if '--kv' not in options else 0.02, 'sinks with %s' % (options,))


def test_attn():
    c = config(**dict(BASE, vocab_size=259), attention_sinks=1, sliding_window=7, layers=[0, 1, 0])
    weights = random_weights(c, 1)
    write_model(in_work('attn.bin'), c, weights)
    write_tokenizer(in_work('attn.tokenizer.bin'))
    for head in '0.1', '1.3':
        layer, number = map(int, head.split('.'))
        for engine in ('--kv', 'f32'), ('--plain',):
            rows = table(good(in_work('attn.bin'), '--attn', head, '-i', 'once upon a time', *engine).out)[2]
            sinks = [row for row in rows if row['position'] == '-']
            score = weights['sinks.%d' % layer][number]
            if check(len(sinks) == 1 and sinks[0] == rows[-1], '--attn %s: one row of a sink' % head, rows[-2:]):
                close([float(sinks[0]['score'])], [score], 1e-5, "--attn %s: the sink's score" % head)
                total = sum(math.exp(float(row['score'])) for row in rows)
                close([float(row['weight']) for row in rows],
                      [math.exp(float(row['score'])) / total for row in rows], 1e-4, '--attn %s: weights' % head)
                check(sinks[0]['distance'] == '-' and 'sink' in sinks[0]['token'], '--attn: its names', sinks)


def test_copies():
    """--quantize keeps all that the header says; a float32 copy is the file itself."""
    c = mixture(router_bias=1, expert_bias=1, attention_sinks=1, activation=2, layers=[0, 8, 0], norm_place=2)
    model, copy = model_of(c), in_work('copy.bin')
    good(model, '--quantize', 'f32', copy)
    check(read(copy) == read(model), 'a float32 copy')
    own = perplexity(model, IDS, *FLOATS)
    for kind, most in (('f16', 0.05), ('q8', 3), ('q4', 8)):
        good(model, '--quantize', kind, copy)
        found = perplexity(copy, IDS, *FLOATS)
        check(0 < differs(found, own) < most, 'a copy as ' + kind, differs(found, own))
        close(perplexity(copy, IDS, '--plain'), found, 1e-4, 'a copy as %s by both engines' % kind)


def test_jobs():
    """Jobs that work for a Llama work here: text by both engines and the core, a bench, tasks, --explain."""
    c = mixture(router_bias=1, attention_sinks=1, vocab_size=259, layers=[0, 8, 0])
    model = model_of(c, 'jobs.bin')
    write_tokenizer(in_work('jobs.tokenizer.bin'))
    texts = {good(model, '-i', 'once', '-n', 60, '-t', 0, '--ignore-eos', *more).out for more in
             (('--kv', 'f32'), ('--plain',), ('--kv', 'f32', '--threads', 2))}
    check(len(texts) == 1, 'the same text by both engines', texts)
    settings = table(good(model, '--explain', '--tsv').out)[0]
    said = {'experts': '7 in a layer, a token takes 3', 'router': 'softmax over the chosen', 'dense_layers': '1',
            'learned_sinks': "one in each head's softmax"}
    check({key: settings.get(key) for key in said} == said, '--explain says what the layers have', settings)
    good(model, '--bench', '-n', 64)
    good(model, '--passkey', '-n', 400, '--trials', 1)


if __name__ == '__main__':
    main(globals())
