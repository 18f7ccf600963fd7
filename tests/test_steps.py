#!/usr/bin/env python3
"""Steps of attention and of the feed-forward layer that few families have (docs/format.md, version 6): small random
models with each of them, and with many, by both engines against reference.py, as a prompt and token by token; and
headers whose steps contradict one another, which are refused by name."""

import kept
import reference
from common import (ENGINES, check, close, config, in_work, main, perplexity, random_ids, random_weights, read_model,
                    run, takes_long, write, write_model)

SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING = 1, 2, 4
BASE = dict(n_layers=3, dim=32, hidden_dim=40, n_heads=4, n_kv_heads=2, head_dim=12, vocab_size=60, seq_len=96,
            train_ctx=24, theta=100.0, norm_eps=1e-5)
SOME_STILL = dict(layer_table=1, layers=[0, WITHOUT_ROPE, SEES_ALL])
SHAPES = [(4, 2, 12, 40, 0), (2, 1, 8, 24, 1), (4, 2, 12, 32, 0)]
STEPS = {
    'a norm that takes the mean away': dict(layer_norm=1),
    'the same in parallel': dict(layer_norm=1, norm_place=3),
    'one norm for both': dict(norm_place=3, o_bias=1),
    'a scale of what is added': dict(residual_scale=0.22),
    'a scale of what is added behind norms': dict(residual_scale=0.4, norm_place=2, after_norm_eps=0.01),
    'a scale and a cap of logits': dict(logit_scale=0.3, logit_cap=0.5),
    'a cap of scores': dict(score_cap=0.75, score_scale=0.6),
    'an epsilon of norms after': dict(norm_place=1, after_norm_eps=0.25),
    'biases of the feed-forward layer': dict(ffn_bias=1),
    'ReLU squared': dict(activation=3),
    'ReLU squared with biases': dict(activation=3, ffn_bias=1),
    'xIELU': dict(activation=4),
    'xIELU with biases': dict(activation=4, ffn_bias=1),
    'norms of heads without weights': dict(qk_norm=3),
    'only in layers that turn': dict(qk_norm=3, qk_norm_turning=1, **SOME_STILL),
    'behind YaRN, only in layers that turn': dict(qk_norm=3, qk_norm_turning=1, method='yarn', factor=4.0, norm_eps=0.01,
                                                  **SOME_STILL),
    'behind a part that YaRN turns': dict(qk_norm=3, qk_norm_turning=1, method='yarn', factor=9.0, rotary_dim=8),
    'with weights, only in layers that turn': dict(qk_norm=1, qk_norm_turning=1, **SOME_STILL),
    'norms of heads behind RoPE': dict(qk_norm=1, qk_norm_late=1),
    'norms behind a RoPE of a part': dict(qk_norm=1, qk_norm_late=1, rotary_dim=8, **SOME_STILL),
    'norms behind YaRN': dict(qk_norm=1, qk_norm_late=1, method='yarn', factor=4.0),
    'norms behind two RoPEs': dict(qk_norm=1, qk_norm_late=1, layer_table=1, layers=[4, 1, 4], sliding_window=9,
                                   sliding_rope=1, sliding_theta=30.0, sliding_train_ctx=24),
    'a norm of the embedding': dict(embedding_norm=1),
    'the same, scaled': dict(embedding_norm=1, embedding_scale=3.0),
    'chunks': dict(attention_chunk=7, **SOME_STILL),
    'chunks and a window': dict(attention_chunk=17, sliding_window=9),
    'chunks of one layer alone': dict(attention_chunk=50, layer_table=1, layers=[0, 1, 1]),
    'a temperature where nothing turns': dict(temperature_beta=0.4, temperature_unturned=1, temperature_length=5,
                                              **SOME_STILL),
    'a temperature by a length of its own': dict(temperature_beta=0.4, temperature_length=5),
    'a sigmoid of attention': dict(attention_gate=1),
    'a softplus of attention': dict(attention_gate=2),
    'a softplus of heads': dict(attention_gate=3),
    'a gate of short values': dict(attention_gate=1, value_dim=10),
    'a gate of heads of short values': dict(attention_gate=3, value_dim=10, value_scale=0.7),
    'a scale of values': dict(value_scale=0.707),
    'a scale of latent values': dict(value_scale=0.707, kv_rank=10, rotary_dim=4, value_dim=6, n_kv_heads=4,
                                     latent_norm_eps=1e-6),
    'a cap of latent scores': dict(score_cap=0.75, kv_rank=10, rotary_dim=4, n_kv_heads=4, latent_norm_eps=1e-6),
    'experts behind a scale': dict(residual_scale=0.3, n_experts=4, n_experts_used=2, expert_hidden_dim=12),
    'experts beside dense layers with biases': dict(
        ffn_bias=1, n_experts=4, n_experts_used=2, expert_hidden_dim=12, layer_table=1, layers=[8, 0, 8]),
    'many at once': dict(
        layer_norm=1, norm_place=3, residual_scale=0.4, logit_scale=0.5, logit_cap=3.0, score_cap=2.0, ffn_bias=1,
        activation=4, qk_norm=1, qk_norm_late=1, embedding_norm=1, attention_gate=1, value_scale=0.8,
        attention_chunk=20, temperature_beta=0.2, qkv_bias=1, **SOME_STILL),
    'alibi with a cap and a gate': dict(encoding='alibi', score_cap=0.75, attention_gate=2)}


def test_steps():
    """As reference.py has it, and otherwise than without the step."""
    ids = random_ids(70, BASE['vocab_size'], 8)
    for seed, (name, fields) in enumerate(STEPS.items()):
        model = in_work('steps.bin')
        write_model(model, config(**dict(BASE, **fields)), random_weights(config(**dict(BASE, **fields)), seed))
        c, weights = read_model(model)
        expected = kept.nll(c, weights, ids)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), expected, 1e-4, '%s: %s' % (name, engine[0]))
            close(perplexity(model, ids, *engine, '--stepwise'), expected, 1e-4,
                  '%s: %s, token by token' % (name, engine[0]))


def test_by_shape():
    """Gates, biases and late norms go by each layer's own heads and width."""
    ids = random_ids(70, BASE['vocab_size'], 8)
    for seed, fields in enumerate((dict(attention_gate=1), dict(attention_gate=3, value_scale=0.5), dict(ffn_bias=1),
                                   dict(activation=4, ffn_bias=1), dict(qk_norm=1, qk_norm_late=1),
                                   dict(norm_place=3, layer_norm=1))):
        c, model = config(**dict(BASE, shapes=SHAPES, rotary_dim=8, **fields)), in_work('shapes.bin')
        write_model(model, c, random_weights(c, seed))
        expected = kept.nll(*read_model(model), ids)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), expected, 1e-4, 'by shape: %s: %s' % (fields, engine[0]))


@takes_long
def test_they_matter():
    """Each number of a step changes what comes out, so that none is read and left."""
    ids = random_ids(70, BASE['vocab_size'], 8)
    for seed, (name, fields) in enumerate(STEPS.items()):
        c = config(**dict(BASE, **fields))
        weights = random_weights(c, seed)
        with_it = kept.nll(c, weights, ids)
        for key in ('layer_norm', 'residual_scale', 'logit_scale', 'logit_cap', 'score_cap', 'after_norm_eps',
                    'qk_norm_late', 'qk_norm_turning', 'embedding_norm', 'attention_chunk', 'value_scale',
                    'temperature_length', 'temperature_unturned'):
            if c[key]:
                without = kept.nll(dict(c, **{key: 0}), weights, ids)
                apart = max(abs(x - y) for x, y in zip(with_it, without))
                check(apart > 1e-3, '%s: %s matters' % (name, key), apart)


REFUSED = [
    (dict(qk_norm_late=1), 'qk_norm_late is 1 where qk_norm is 0 (expected 0)'),
    (dict(qk_norm_turning=1, qk_norm=2), 'qk_norm_turning with qk_norm 2 (expected 1 or 3, a norm of each head)'),
    (dict(qk_norm_late=1, qk_norm=1, encoding='alibi'), 'qk_norm_late is 1 where encoding is 4 (expected 0)'),
    (dict(after_norm_eps=0.1), 'after_norm_eps with norm_place 0, which has no such norm (expected 0)'),
    (dict(after_norm_eps=0.1, norm_place=3), 'after_norm_eps with norm_place 3, which has no such norm (expected 0)'),
    (dict(norm_place=3, n_experts=2, n_experts_used=1, expert_hidden_dim=8),
     'norm_place 3 with experts (expected 0 to 2)'),
    (dict(activation=4, n_experts=2, n_experts_used=1, expert_hidden_dim=8),
     'activation 4 with experts (expected 0 to 3)'),
    (dict(temperature_unturned=1), 'temperature_unturned is 1 where temperature_beta is 0 (expected 0)'),
    (dict(temperature_length=5), 'temperature_length is 5 where temperature_beta is 0 (expected 0)'),
    (dict(attention_gate=1, kv_rank=10, rotary_dim=4, n_kv_heads=4, latent_norm_eps=1e-6),
     'attention_gate is 1 where kv_rank is 10 (expected 0)')]


def test_late_norms():
    """Where norms of heads come behind RoPE, a method that changes with the length is refused, by either engine."""
    c, model = config(**dict(BASE, qk_norm=1, qk_norm_late=1)), in_work('late.bin')
    write_model(model, c, random_weights(c, 1))
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(20, BASE['vocab_size'], 8))))
    for method, good in (('linear:factor=4', True), ('yarn:factor=4', True), ('dynamic-ntk:factor=4', False),
                         ('rerope:near=9', False)):
        for more in ((), ('--plain',)):
            done = run(model, '--ppl', ids, '--ids', '-n', 20, '--rope', method, *more)
            said = 'norms of heads come behind RoPE' in done.err and done.err.count('\n') == 1
            check(done.status == 0 if good else done.status == 2 and said, 'late norms with ' + method, done)


def test_contradictions():
    """One line that names what was wrong, status 2."""
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(20, BASE['vocab_size'], 8))))
    for fields, words in REFUSED:
        c, model = config(**dict(BASE, **fields)), in_work('refused.bin')
        write_model(model, c, random_weights(c, 1))
        done = run(model, '--ppl', ids, '--ids', '-n', 20)
        check(done.status == 2 and words in done.err and done.err.count('\n') == 1, words, done.err)


if __name__ == '__main__':
    main(globals())
