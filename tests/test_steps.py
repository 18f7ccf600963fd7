#!/usr/bin/env python3
"""Steps of attention and of the feed-forward layer that few families have (docs/format.md, version 6; test_models.py
holds them to reference.py): each changes what comes
out; and headers whose steps contradict one another, which are refused by name."""

import kept
from common import check, config, in_work, main, random_ids, random_weights, run, takes_long, write, write_model
from models import rows, table

BASE = table()['bases']['steps']


@takes_long
def test_they_matter():
    """Each number of a step changes what comes out, so that none is read and left."""
    ids = random_ids(70, BASE['vocab_size'], 8)
    for row in rows('steps'):
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
