"""config.json's keys about experts, in both directions: their number, the router's weights and choice, the shared
experts that every token uses, and the layers without experts. expert_gguf.py has the keys of GGUF, expert_tensors.py
the tensors."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ..common import MAX_EXPERTS, MAX_LAYERS, MAX_WIDTH, REFUSED, Keys, Problem, not_used
from ..families import Experts, Family

from ..model import DENSE, FIELDS_OF, Feature, Model, layers_with_experts
from .key_rows import Row, read_config, written_config

EXPERT_FIELDS = {name for feature in (Feature.SIGMOIDS, Feature.CHOICE_BIAS, Feature.SCALED_INPUT, Feature.SHARED_GATE,
                                      Feature.ROUTER_BIAS, Feature.EXPERT_BIAS) for name in FIELDS_OF[feature]}


def count_rows(rule: Experts) -> Tuple[Row, Row, Row, Row]:
    """The number of experts, of used ones, their width, and the width between them and a layer."""
    return (Row('n_experts', 'expert_count', rule.counts[0], MAX_EXPERTS),
            Row('n_experts_used', 'expert_used_count', rule.used, MAX_EXPERTS),
            Row('expert_hidden_dim', 'expert_feed_forward_length', rule.width, MAX_WIDTH),
            Row('expert_latent_dim', 'moe_latent_size' if rule.latent else '', rule.latent, MAX_WIDTH, 0, True))


# ---- config.json ----

def from_config(config: Keys, family: Family, model: Model) -> Dict[str, int]:
    """The fields about experts. Marks dense layers in the model's layers, a byte for each."""
    rule = family.experts
    if not rule or rule.flag and not config.flag(rule.flag, False, False):
        return {}
    if rule.sparse and not mark_sparse(config, family, model):
        return {}
    if rule.by_pattern and not any(shape.hidden_dim and not flags & DENSE for shape, flags in zip(
            model.layer_shapes, model.layer_flags)):
        model.layers = [flags & ~DENSE for flags in model.layer_flags]
        return {}
    if rule.none and config.values.get(rule.counts[0]) == 0:
        return {}
    n_experts = read_count(config, family, rule.counts)
    _, of_used, of_width, of_latent = count_rows(rule)
    counts = read_config(config, family, [of_used._replace(most=n_experts), of_width])
    used, width = counts['n_experts_used'], counts['expert_hidden_dim']
    if used > n_experts:
        config.refuse(rule.used, 'no more than there are experts, %d' % n_experts)
    fields = {'n_experts': n_experts, **counts, **read_router(config, family, n_experts, used),
              **read_shared(config, family, width)}
    if rule.choice_bias:
        fields['router_choice_bias'] = 1
    fields.update(read_config(config, family, [of_latent]))
    if rule.eps and fields.get('router_renormalizes'):
        fields['router_eps'] = rule.eps
    if rule.scales_input:
        fields['router_scales_input'] = 1
    if rule.beside:
        if len({shape.hidden_dim for shape in model.layer_shapes}) > 1:
            config.refuse(rule.flag, 'false, since feed-forward layers are of several widths')
        fields.update(experts_beside=1, shared_hidden_dim=model.hidden_dim)
    if rule.also_used and config.values.get(rule.also_used, used) != used:
        not_used(config, family, rule.also_used)
    if rule.dense and not mark_dense(config, model, *rule.dense):
        return {}
    if (rule.dense_first or rule.dense_types or rule.n_dense) and not mark_first(config, family, model):
        return {name: 0 for name in EXPERT_FIELDS}
    return fields


def read_router(config: Keys, family: Family, n_experts: int, used: int) -> Dict[str, Any]:
    """How weights follow from logits, and how experts are chosen."""
    rule = family.experts
    divided = config.flag(rule.renormalized, family.default(rule.renormalized)) if rule.renormalized \
        else not rule.shares
    fields: Dict[str, Any] = read_groups(config, family, n_experts, used)
    if rule.router == 'sigmoid' or fields:
        fields['router'] = 2 if rule.router == 'sigmoid' else 1
        fields['router_renormalizes'] = int(divided)
    else:
        fields['router'] = int(not divided)
    for key, name in (rule.scale, 'router_scale'), (rule.cap, 'router_cap'):
        value = config.number(key, family.default(key, 0), 0, zero=name == 'router_cap', high=1e6) if key else 0
        fields[name] = 0.0 if value == 1 and name == 'router_scale' else float(value)
    return fields


def read_groups(config: Keys, family: Family, n_experts: int, used: int) -> Dict[str, Any]:
    """The fields about groups; none if all experts are in one."""
    rule = family.experts
    if not rule.groups:
        return {}
    for key, values in rule.grouping.items():
        if not values[config.get(key, lambda v: v in values, 'one of ' + ', '.join(values), family.default(key))]:
            return {}
    key, used_key = rule.groups
    n_groups = config.integer(key, n_experts, family.default(key, REFUSED))
    of_group = n_experts // n_groups
    if n_experts % n_groups or of_group < rule.group_best and n_groups > 1:
        config.refuse(key, 'a number that makes groups of %d or more of the %d experts' % (rule.group_best, n_experts))
    best = config.integer(used_key, n_groups, family.default(used_key, REFUSED))
    if best > n_groups or best * of_group < used:
        config.refuse(used_key, 'at most %d groups, with %d experts or more' % (n_groups, used))
    return {'router_groups': n_groups, 'router_groups_used': best,
            'router_group_best': rule.group_best} if n_groups > 1 else {}


def read_shared(config: Keys, family: Family, width: int) -> Dict[str, int]:
    """The width of the expert that every token uses, or of all such experts together."""
    rule = family.experts
    if not rule.shared:
        return {}
    if rule.shared_width:
        return {'shared_hidden_dim': config.integer(rule.shared_width, MAX_WIDTH, family.default(rule.shared_width))}
    count = 1 if rule.shared == 'one' else config.integer(rule.shared, MAX_WIDTH // width,
                                                          family.default(rule.shared), low=0)
    return {'shared_hidden_dim': count * width}


def mark_first(config: Keys, family: Family, model: Model) -> bool:
    """Marks the first layers, or the layers in a list, as layers without experts. False: no layer has any."""
    rule, n_layers = family.experts, model.n_layers
    n_dense = config.integer(rule.dense_first, MAX_LAYERS, family.default(rule.dense_first), low=0) \
        if rule.dense_first else rule.n_dense
    types = config.get(rule.dense_types, lambda v: isinstance(v, list) and len(v) == n_layers and all(
        x in ('dense', 'sparse') for x in v), 'dense or sparse for each of %d layers' % n_layers, None,
        None) if rule.dense_types else None
    dense = [kind == 'dense' for kind in types] if types else [i < n_dense for i in range(n_layers)]
    if any(dense) and not all(dense):
        model.layers = [f | DENSE * own for f, own in zip(model.layer_flags, dense)]
    if all(dense):
        config.job.note('no layer has experts, by %s' % ' and '.join(filter(None, (rule.dense_types,
                                                                                     rule.dense_first))))
    return not all(dense)


def read_count(config: Keys, family: Family, names: Tuple[str, ...]) -> int:
    """The number of experts, whose key differs between two releases of the library."""
    usual = family.default(names[0])
    key = next((name for name in names if name in config.values), names[-1])
    for name in names:
        other = config.values.get(name)
        config.get(key, lambda v: other is None or v == other, '%s, %s' % (name, other), usual)
    return config.integer(key, MAX_EXPERTS, usual)


def mark_dense(config: Keys, model: Model, list_key: str, step_key: str) -> bool:
    """Marks the layers without experts. False: no layer has any."""
    n_layers = model.n_layers
    alone = config.get(list_key, lambda v: isinstance(v, list) and all(
        type(x) is int and 0 <= x < n_layers for x in v), 'numbers of layers from 0 to %d' % (n_layers - 1), [], [])
    step = config.integer(step_key, 1 << 30, 1)
    dense = [layer for layer in range(n_layers) if layer in alone or (layer + 1) % step]
    if len(dense) == n_layers:
        config.job.note('no layer has experts, by %s and %s' % (step_key, list_key))
        return False
    if dense:
        model.layers = [f | DENSE * (layer in dense) for layer, f in enumerate(model.layer_flags)]
        config.job.note('dense layers, without experts, by %s and %s: %s of %d' % (
            step_key, list_key, ', '.join(map(str, dense)), n_layers))
    return True


def mark_sparse(config: Keys, family: Family, model: Model) -> bool:
    """Marks all layers as dense except those in a list or, without a list, at a step. False: neither is given."""
    (list_key, step_key), n_layers = family.experts.sparse, model.n_layers
    named = config.get(list_key, lambda v: isinstance(v, list) and all(
        type(x) is int and 0 <= x < n_layers for x in v), 'numbers of layers from 0 to %d' % (n_layers - 1), None, None)
    step = config.integer(step_key, 1 << 30, family.default(step_key), low=0)
    if named is None:
        named = range(step - 1, n_layers, step) if step else []
    if named and len(set(named)) < n_layers:
        model.layers = [f | DENSE * (layer not in named) for layer, f in enumerate(model.layer_flags)]
    return bool(named)


# ---- out ----

NOT_CONVERTED = ['model.layers.*.self_attn', 'model.layers.*.mlp.router', 'model.embed_tokens', 'lm_head']


def to_config(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys of config.json about experts."""
    rule = family.experts
    count, used, width, latent = count_rows(rule)
    keys: Dict[str, Any] = written_config(model, (used, count, width))
    if rule.flag:
        keys[rule.flag] = True
    if rule.also_used:
        keys[rule.also_used] = model.n_experts_used
    if rule.renormalized:
        keys[rule.renormalized] = bool(model.router == 0 or model.router_renormalizes)
    if rule.groups:
        keys.update(zip(rule.groups, (model.router_groups or 1, model.router_groups_used or 1)))
    for key, values in rule.grouping.items():
        keys[key] = next(name for name, counts in values.items() if counts == bool(model.router_groups))
    if rule.scale:
        keys[rule.scale] = model.router_scale or 1.0
    if rule.cap:
        keys[rule.cap] = model.router_cap
    keys.update(written_config(model, [latent]))
    keys.update(config_of_shared(path, rule, model), **config_of_dense(path, rule, model))
    if rule.sparse:
        keys[rule.sparse[0]] = layers_with_experts(model)
    if rule.dense:
        list_key, step_key = rule.dense
        keys.update({step_key: 1, list_key: [i for i, flags in enumerate(model.layer_flags) if flags & DENSE]})
    if family.keys.quantization and 'MXFP4' in model.types:
        keys['quantization_config'] = {'quant_method': family.keys.quantization,
                                       'modules_to_not_convert': NOT_CONVERTED}
    return keys


def config_of_shared(path: str, rule: Experts, model: Model) -> Dict[str, Any]:
    """The keys about shared experts, as many as make up their width."""
    if rule.shared_width:
        return {rule.shared_width: model.shared_hidden_dim}
    if not rule.shared:
        return {}
    count, rest = divmod(model.shared_hidden_dim, model.expert_hidden_dim)
    if rest or rule.shared == 'one' and count != 1:
        raise Problem(path, 'has a shared expert of width %d, which its family has not (expected a multiple of %d)'
                      % (model.shared_hidden_dim, model.expert_hidden_dim))
    return {} if rule.shared == 'one' else {rule.shared: count}


def config_of_dense(path: str, rule: Experts, model: Model) -> Dict[str, Any]:
    """The keys about dense layers, if they are the first ones or in a list."""
    dense = [bool(flags & DENSE) for flags in model.layer_flags]
    n_first = dense.index(False)
    if rule.dense_types:
        keys: Dict[str, Any] = {rule.dense_types: ['dense' if own else 'sparse' for own in dense]}
        return {**keys, **({rule.dense_first: n_first} if rule.dense_first else {})}
    if not rule.dense_first:
        return {}
    if any(dense[n_first:]):
        raise Problem(path, 'has a dense layer behind one with experts, which its family has not (found layer %d)'
                      % (len(dense) - 1 - dense[::-1].index(True)))
    return {rule.dense_first: n_first}
