"""GGUF's keys about experts, in both directions."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..common import MAX_EXPERTS, MAX_LAYERS, MAX_WIDTH, REFUSED, Keys, Problem
from ..families import Family, Gguf, gguf_of
from ..model import DENSE, Feature, Model
from ..tensors import BOOL, F32, U32, Tensors
from .experts import count_rows
from .key_rows import read_gguf, written_gguf
from .shapes import WIDTH, widest


def from_gguf(keys: Keys, families: List[Family], tensors: Tensors) -> Dict[str, Any]:
    """The fields about experts. Their weights are always scaled to a sum of 1, which some files also state, except in
    architectures with keys for it."""
    with_experts = [family for family in families if Feature.EXPERTS in family.always | family.may]
    if not with_experts:
        keys.only('expert_count', 0)
        return {}
    always = all(Feature.EXPERTS in family.always for family in families)
    n_experts = keys.integer('expert_count', MAX_EXPERTS, 0, low=int(always))
    if not n_experts:
        return {}
    rule = gguf_of(families[0])
    told = rule.experts == 'told'
    if not told:
        keys.only('expert_weights_norm', True)
        keys.only('expert_weights_scale', 1.0)
        keys.only('expert_shared_count', 0)
    used = keys.integer('expert_used_count', MAX_EXPERTS)
    if used > n_experts:
        keys.refuse('expert_used_count', 'no more than there are experts, %d' % n_experts)
    dense = read_hidden(keys, families[0])
    width = keys.integer('expert_feed_forward_length', MAX_WIDTH, dense, low=0) or dense
    fields = {'n_experts': n_experts, 'n_experts_used': used, 'expert_hidden_dim': width}
    own = families[0].experts
    if own:
        fields.update(read_gguf(keys, count_rows(own)[3:]))
    if not told and (Feature.SHARED_EXPERT in families[0].always or own and own.shared_is_dense):
        fields['shared_hidden_dim'] = keys.integer('expert_shared_feed_forward_length', MAX_WIDTH, dense)
    return {**fields, **(gguf_router(keys, families, tensors, n_experts, width) if told else {})}


def read_hidden(keys: Keys, family: Family) -> int:
    """The width of a dense feed-forward layer, which files of models without such a layer may omit."""
    of_expert = keys.values.get('expert_feed_forward_length')
    return widest(keys, gguf_of(family), WIDTH, MAX_WIDTH, of_expert if Feature.EXPERTS in family.always and of_expert
                  else REFUSED)


def gguf_router(keys: Keys, families: List[Family], tensors: Tensors, n_experts: int, width: int) -> Dict[str, Any]:
    """How weights follow from logits; 1 is a softmax, 2 a sigmoid. Models with sigmoids may have a bias for the
    choice."""
    needs = gguf_of(families[0]).needs
    has = frozenset.intersection(*(family.always for family in families)) | needs
    biased = any('.exp_probs_b.' in name for name in tensors)
    kind = keys.get('expert_gating_func', lambda v: v in (1, 2), '1 (softmax) or 2 (sigmoid)',
                    2 if Feature.SIGMOIDS in has or biased else 1)
    divided = keys.flag('expert_weights_norm', Feature.RENORMALIZED in has)
    scale = keys.number('expert_weights_scale', 1.0, zero=True, high=1e6) or 1.0
    shared = width * keys.integer('expert_shared_count', MAX_WIDTH // width, int(Feature.SHARED_EXPERT in needs), low=0)
    fields: Dict[str, Any] = {
        **gguf_groups(keys, families, n_experts, kind), 'router': 2, 'router_renormalizes': int(divided),
        'router_scale': 0.0 if scale == 1 else scale, 'router_choice_bias': int(biased),
        'router_scales_input': int(Feature.SCALED_INPUT in has),
        'shared_hidden_dim': keys.integer('expert_shared_feed_forward_length', MAX_WIDTH, shared, low=0)}
    eps = families[0].experts.eps if families[0].experts else 0
    fields.update({'router_eps': eps} if eps and divided else {})
    if kind == 1:  # over the chosen ones, or over all
        fields['router'] = int('router_groups' in fields or not divided or biased)
        fields['router_renormalizes'] = int(divided and fields['router'])
    return fields


def gguf_groups(keys: Keys, families: List[Family], n_experts: int, kind: int) -> Dict[str, int]:
    """The fields about groups of experts. In llama.cpp the score of a group is the sum of its best two."""
    groups = keys.integer('expert_group_count', n_experts, 1, low=0) or 1
    used = keys.integer('expert_group_used_count', groups, groups, low=0) or groups
    if n_experts % groups:
        keys.refuse('expert_group_count', 'a divisor of expert_count, %d' % n_experts)
    if groups == 1 or used == groups:
        return {}
    best = next((family.experts.group_best for family in families
                 if family.experts and (family.experts.router == 'sigmoid') == (kind == 2)), 2)
    if best != 2:
        keys.job.note('groups of experts count by their best expert, as the architecture published them; llama.cpp '
                      'takes the sum of the best two')
    return {'router_groups': groups, 'router_groups_used': used, 'router_group_best': best}


def mark_gguf_dense(keys: Keys, rule: Gguf, tensors: Tensors, model: Model) -> None:
    """Marks the layers that have no experts."""
    if rule.dense and model.n_experts:
        step = 1 if rule.dense == 'by_tensors' else keys.integer(rule.dense, MAX_LAYERS, 1)
        dense = [shape.hidden_dim > 0 and (
            'blk.%d.ffn_gate_inp.weight' % i not in tensors if rule.dense == 'by_tensors' else (i + 1) % step != 0)
            for i, shape in enumerate(model.layer_shapes)]
        if all(dense):
            raise Problem(keys.path, 'has no layer with experts (found expert_count %d)' % model.n_experts)
        model.layers = [flags | DENSE * own for flags, own in zip(model.layer_flags, dense)] if any(
            dense) else model.layers
        return
    n_dense = keys.integer('leading_dense_block_count', model.n_layers, 0, low=0) if rule.experts == 'told' else 0
    if n_dense and n_dense < model.n_layers and model.n_experts:
        model.layers = [flags | DENSE * (i < n_dense) for i, flags in enumerate(model.layer_flags)]
    elif n_dense and model.n_experts:
        keys.refuse('leading_dense_block_count', 'less than the number of layers, %d' % model.n_layers)


def leave_out(keys: Keys, tensors: Tensors, model: Model) -> None:
    """Removes the layers after the last one, which predict further tokens."""
    n_more = keys.values['nextn_predict_layers'] if 'nextn_predict_layers' in keys.asked & set(keys.values) else 0
    starts = tuple('blk.%d.' % (model.n_layers + i) for i in range(n_more))
    for name in [name for name in tensors if starts and name.startswith(starts)]:
        del tensors[name]


def dense_settings(path: str, rule: Gguf, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The key of the dense layers."""
    dense = [bool(flags & DENSE) for flags in model.layer_flags]
    first = dense.index(False)
    if rule.dense == 'by_tensors':
        return {}
    if rule.dense and dense == [(i + 1) % (first + 1) != 0 for i in range(len(dense))]:
        return {rule.dense: (U32, first + 1)}
    if rule.dense or any(dense[first:]):
        raise Problem(path, 'has dense layers that are not %s, which GGUF cannot say' % (
            'all but each so manieth one' if rule.dense else 'the first'))
    return {'leading_dense_block_count': (U32, first)}


def to_gguf(path: str, rule: Gguf, family: Family, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys about experts, for a model that is exported."""
    assert family.experts
    *counts, latent = count_rows(family.experts)
    settings = written_gguf(model, counts)
    if rule.experts == 'told':
        settings.update(router_to_gguf(path, rule, model))
    elif Feature.SHARED_EXPERT in family.always or family.experts.shared_is_dense:
        settings['expert_shared_feed_forward_length'] = U32, model.shared_hidden_dim
    settings.update(written_gguf(model, [latent] * bool(model.expert_latent_dim)))
    if family.experts.width == 'intermediate_size':
        settings['feed_forward_length'] = U32, model.expert_hidden_dim
    return settings


def router_to_gguf(path: str, rule: Gguf, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys about the router, for a model that is exported."""
    count, rest = divmod(model.shared_hidden_dim, model.expert_hidden_dim)
    if rest and rule.with_experts:  # it has a key for their width
        count = 1
    elif rest:
        raise Problem(path, 'has a shared expert of width %d, which GGUF cannot say' % model.shared_hidden_dim)
    settings = {
        'expert_shared_count': (U32, count), 'expert_shared_feed_forward_length': (U32, model.shared_hidden_dim),
        **dense_settings(path, rule, model),
        'expert_gating_func': (U32, 2 if model.router == 2 else 1),
        'expert_weights_norm': (BOOL, model.router == 0 or bool(model.router_renormalizes)),
        'expert_weights_scale': (F32, model.router_scale or 1.0)}
    if model.router_groups > model.router_groups_used:  # otherwise all experts can be chosen
        if model.router_group_best != 2:
            raise Problem(path, 'has groups of experts that count by their best %d, which llama.cpp has not (expected '
                          '2)' % model.router_group_best)
        settings.update({'expert_group_count': (U32, model.router_groups),
                         'expert_group_used_count': (U32, model.router_groups_used)})
    return settings
