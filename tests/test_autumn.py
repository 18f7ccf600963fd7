#!/usr/bin/env python3
"""Mamba 2, layers of one step, experts in a narrower space, and a choice of keys, of many shapes: both engines beside
reference.py, in one go and token by token; a text in other pieces and read again from an earlier place; and files that
cannot be."""

import kept
from common import (ENGINES, F16, check, close, config, in_work, main, one_line, perplexity, random_ids, random_weights,
                    read, run, write, write_model)

MAMBA = dict(state_kind=3, conv_width=4, state_key_heads=2, state_value_heads=6, state_key_dim=10, state_value_dim=6,
             conv_bias=1, state_norm_groups=2)
RELU2 = dict(activation=3)
EXPERTS = dict(n_experts=6, n_experts_used=2, expert_hidden_dim=10, router=2, router_renormalizes=1, router_scale=2.5,
               router_choice_bias=1, shared_hidden_dim=14)


def shape(n_heads, n_kv_heads, head_dim, hidden, layer):
    return n_heads, n_kv_heads, head_dim, hidden, layer


def one_step(kinds, n_heads=4, n_kv_heads=2, head_dim=12, hidden=40):
    """Layers by Nemotron's letters: M Mamba 2, * attention, - a dense feed-forward layer, E experts."""
    shapes = [shape(n_heads if kind == '*' else 0, n_kv_heads, head_dim, hidden if kind in '-E' else 0, layer)
              for layer, kind in enumerate(kinds)]
    dense = 8 if 'E' in kinds else 0
    return dict(n_layers=len(kinds), n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim, hidden_dim=hidden,
                shapes=shapes, layers=[{'M': 64, '*': 2, '-': dense, 'E': 0}[kind] for kind in kinds])


LATENT = dict(kv_rank=12, q_rank=16, n_heads=4, n_kv_heads=4, head_dim=16, rotary_dim=8, value_dim=8,
              latent_norm_eps=1e-6, dim=48)
INDEX = dict(LATENT, index_topk=24, index_heads=3, index_dim=12)
SHAPES = {
    'Mamba and attention': dict(MAMBA, n_layers=3, layers=[64, 2, 64]),
    'Mamba that turns': dict(MAMBA, n_layers=3, layers=[64, 0, 64], state_bias=1, norm_place=2),
    'one group, one norm': dict(MAMBA, state_key_heads=1, state_norm_groups=1, conv_bias=0, layers=[64, 64]),
    'groups apart from norms': dict(MAMBA, state_key_heads=3, state_norm_groups=1, layers=[64, 2]),
    'a head each': dict(MAMBA, state_key_heads=6, state_norm_groups=6, conv_width=1, layers=[64, 64]),
    'heads of 64': dict(MAMBA, state_key_dim=16, state_value_dim=64, state_value_heads=4, layers=[64, 2]),
    'heads of 130': dict(MAMBA, state_key_dim=9, state_value_dim=130, state_value_heads=2, layers=[64, 64]),
    'Granite': dict(MAMBA, n_layers=3, layers=[64, 2, 64], embedding_scale=4.0, residual_scale=0.4, score_scale=0.25,
                    logit_scale=0.5, state_key_heads=1, state_norm_groups=1),
    'Granite with experts': dict(MAMBA, n_layers=3, layers=[64, 2, 64], residual_scale=0.4, n_experts=6,
                                 n_experts_used=2, expert_hidden_dim=8, shared_hidden_dim=24),
    'M-M*M-': dict(MAMBA, **RELU2, **one_step('M-M*M-')),
    'MEM*E': dict(MAMBA, **RELU2, **EXPERTS, **one_step('MEM*E')),
    'E-*M': dict(MAMBA, **RELU2, **EXPERTS, **one_step('E-*M'), router_groups=2, router_groups_used=1,
                 router_group_best=2, expert_latent_dim=20),
    '*-': dict(RELU2, **one_step('*-*-')),
    'a layer that does nothing': dict(n_layers=3, n_heads=2, n_kv_heads=2, head_dim=8, hidden_dim=20, shapes=[
        (2, 2, 8, 20, 0), (0, 2, 8, 0, 1), (2, 2, 8, 20, 2)]),
    'latent experts': dict(EXPERTS, expert_latent_dim=20, router_eps=1e-6, n_layers=2),
    'a divisor': dict(EXPERTS, router_eps=0.1, n_layers=2),
    'latent experts with biases': dict(EXPERTS, **RELU2, expert_latent_dim=12, expert_bias=1, n_layers=2),
    'a choice of keys': dict(INDEX, n_layers=2),
    'a choice that is shared': dict(INDEX, n_layers=4, layers=[0, 128, 0, 128], index_heads=1, index_dim=8),
    'one key': dict(INDEX, n_layers=2, index_topk=1),
    'a choice by YaRN': dict(INDEX, n_layers=2, rope_method=4, factor=4.0, train_ctx=32, mscale=1.0,
                             mscale_all_dim=0.7, mscale_in_scores=1, layers=[0, 128]),
    'a choice with experts': dict(INDEX, **EXPERTS, n_layers=3, layers=[8, 0, 128])}
SHAPES['a choice that is shared']['layers'] = [0, 128, 0, 128]


def model_of(name, **changes):
    c = config(**dict(SHAPES[name], **changes))
    model = in_work(''.join(x if x.isalnum() else '_%x' % ord(x) for x in name) + '.bin')
    return model, c, write_model(model, c, random_weights(c, len(name)))


def test_shapes():
    for name in SHAPES:
        model, c, stored = model_of(name)
        ids = random_ids(90, c['vocab_size'], 3)
        expected = kept.nll(c, stored, ids)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), expected, 1e-4, '%s: %s' % (name, engine[0]))
            close(perplexity(model, ids, *engine, '--stepwise'), expected, 1e-4,
                  '%s: %s, token by token' % (name, engine[0]))


if __name__ == '__main__':
    main(globals())
