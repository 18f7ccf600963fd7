"""Experts: what config.json and GGUF's keys say of them, and how they come to stand one below the other; both ways.

In model.bin the rows of all experts of a layer are one matrix for each of w1 (gate), w3 (up) and w2 (down). Folders
have them one by one, fused, or as gpt-oss: rows of gate and up in turns, as floats the other way round (inputs by
outputs), or in MXFP4. In GGUF tensors have an axis for the expert; older files of Mixtral have a tensor for each."""

from __future__ import annotations

from math import prod
from typing import Any, Dict, Iterator, List, Tuple

from ..common import MAX_EXPERTS, MAX_LAYERS, MAX_WIDTH, REFUSED, Keys, Problem
from ..families import Experts, Family, Gguf, gguf_of
from ..keys import not_used
from ..model import DENSE, FIELDS_OF, RELU2, Feature, Model, layers_with_experts
from ..mxfp4 import FP4_BYTES, FP4_VALUES, InTurns, Repacked
from ..rows import Columns, Halves, Taken, Transposed
from ..tensors import BOOL, F32, ITEM_SIZES, U32, Checkpoint, Joined, Place, Tensor, Tensors
from .shapes import WIDTH, widest

EXPERT_PARTS = 'experts_w1', 'experts_w3', 'experts_w2', 'experts_b1', 'experts_b3', 'experts_b2'
SHARED_PARTS = 'shared_w1', 'shared_w3', 'shared_w2'
EXPERT_FIELDS = {name for feature in (Feature.SIGMOIDS, Feature.CHOICE_BIAS, Feature.SCALED_INPUT, Feature.SHARED_GATE,
                                      Feature.ROUTER_BIAS, Feature.EXPERT_BIAS) for name in FIELDS_OF[feature]}


# ---- config.json ----

def from_config(config: Keys, family: Family, model: Model) -> Dict[str, int]:
    """The fields about experts. Marks dense layers in the model's, a byte for each layer."""
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
    used = config.integer(rule.used, n_experts, family.default(rule.used, REFUSED))
    if used > n_experts:
        config.refuse(rule.used, 'no more than there are experts, %d' % n_experts)
    width = config.integer(rule.width, MAX_WIDTH, family.default(rule.width, REFUSED))
    fields = {'n_experts': n_experts, 'n_experts_used': used, 'expert_hidden_dim': width,
              **read_router(config, family, n_experts, used), **read_shared(config, family, width)}
    if rule.choice_bias:
        fields['router_choice_bias'] = 1
    if rule.latent:
        fields['expert_latent_dim'] = config.integer(rule.latent, MAX_WIDTH, 0, 0, low=0)
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
    """How weights come from logits, and which experts are chosen by them."""
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
    """The fields about groups; none where all experts are one."""
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
        config.refuse(key, 'what makes groups of %d or more of the %d experts' % (rule.group_best, n_experts))
    best = config.integer(used_key, n_groups, family.default(used_key, REFUSED))
    if best > n_groups or best * of_group < used:
        config.refuse(used_key, 'at most %d groups, with %d experts or more' % (n_groups, used))
    return {'router_groups': n_groups, 'router_groups_used': best,
            'router_group_best': rule.group_best} if n_groups > 1 else {}


def read_shared(config: Keys, family: Family, width: int) -> Dict[str, int]:
    """The width of the expert that each token takes, or of all such together."""
    rule = family.experts
    if not rule.shared:
        return {}
    if rule.shared_width:
        return {'shared_hidden_dim': config.integer(rule.shared_width, MAX_WIDTH, family.default(rule.shared_width))}
    count = 1 if rule.shared == 'one' else config.integer(rule.shared, MAX_WIDTH // width,
                                                          family.default(rule.shared), low=0)
    return {'shared_hidden_dim': count * width}


def mark_first(config: Keys, family: Family, model: Model) -> bool:
    """Marks the first layers, or those of a list, that have no experts. False: none has any."""
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
    """How many experts there are. Two releases of the library may call it otherwise."""
    usual = family.default(names[0])
    key = next((name for name in names if name in config.values), names[-1])
    for name in names:
        other = config.values.get(name)
        config.get(key, lambda v: other is None or v == other, '%s, %s' % (name, other), usual)
    return config.integer(key, MAX_EXPERTS, usual)


def mark_dense(config: Keys, model: Model, list_key: str, step_key: str) -> bool:
    """Marks the layers that have no experts. False: none has any."""
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
    """Marks the others than those that a list names, or a step where there is none, as dense. False: none is named."""
    (list_key, step_key), n_layers = family.experts.sparse, model.n_layers
    named = config.get(list_key, lambda v: isinstance(v, list) and all(
        type(x) is int and 0 <= x < n_layers for x in v), 'numbers of layers from 0 to %d' % (n_layers - 1), None, None)
    step = config.integer(step_key, 1 << 30, family.default(step_key), low=0)
    if named is None:
        named = range(step - 1, n_layers, step) if step else []
    if named and len(set(named)) < n_layers:
        model.layers = [f | DENSE * (layer not in named) for layer, f in enumerate(model.layer_flags)]
    return bool(named)



# ---- folders of Hugging Face ----

def stack_experts(path: str, tensors: dict, model: Model, family: Family, names: dict) -> None:
    """Puts the experts of a folder under the names that `names` has of them, each matrix in one tensor."""
    for layer in layers_with_experts(model):
        place = place_of(family, layer) if family.experts.layout == 'halves' else 'model.layers.%d.mlp.' % layer
        parts = {part: names[part] % layer for part in EXPERT_PARTS if part in names}
        router = place + 'gate.weight'  # which a family with a place of its own has in release 5, too
        if router in tensors:
            tensors[names['router'] % layer] = tensors.pop(router)
        if family.experts.layout == 'linear':
            stack_halves(path, tensors, model, place_of(family, layer), parts, ('input_linear.weight',
                                                                                'output_linear.weight'))
        elif family.experts.layout == 'in_turns':
            stack_in_turns(path, tensors, model, place + 'experts.', parts)
        elif family.experts.layout == 'columns':
            stack_columns(path, tensors, model, place_of(family, layer) + 'experts.', parts)
        elif place + 'experts.gate_up_proj' in tensors or place + 'experts.down_proj' in tensors:
            stack_halves(path, tensors, model, place + 'experts.', parts)
        else:
            for part in EXPERT_PARTS[:3] if model.activation != RELU2 else EXPERT_PARTS[1:3]:
                stack_one_by_one(path, tensors, model, one_expert(family, part, layer), part, parts[part])


def fused_of(family: Family, model: Model) -> Dict[str, List[str]]:
    """The matrices that a family has as one, where the expert of all tokens may be its dense layer."""
    rule, fused = family.experts, family.names.fused
    if not (rule and rule.shared_is_dense and model.n_experts):
        return fused
    return {whole: ['shared_' + part if part in ('w1', 'w3') else part for part in parts]
            for whole, parts in fused.items()}


def place_of(family: Family, layer: int) -> str:
    """Where a layer has its experts."""
    place = family.experts.place
    return 'model.layers.%d.%s' % (layer, place + '.' if place else '')


def one_expert(family: Family, part: str, layer: int) -> str:
    """The name of a matrix of one expert, with a %d for its number."""
    rule = family.experts
    return '%sexperts.%%d.%s.weight' % (place_of(family, layer), rule.names[EXPERT_PARTS.index(part)])


def stack_one_by_one(path, tensors, model, pattern, part, name):
    """A matrix of each expert in a tensor of its own."""
    hidden, dim = model.expert_hidden_dim, model.expert_latent_dim or model.dim
    shape = (dim, hidden) if part == 'experts_w2' else (hidden, dim)
    found = [take(path, tensors, pattern % e, shape) for e in range(model.n_experts)]
    other = next((tensor for tensor in found if tensor.dtype != found[0].dtype), None)
    if other:
        raise Problem(other.path, '%s is of another type than the first expert (found %s, expected %s)'
                      % (other.name, other.dtype, found[0].dtype))
    tensors[name] = Joined(found, 0)


def stack_halves(path, tensors, model, place, parts, names=('gate_up_proj', 'down_proj')):
    """Gate and up in one tensor, gate first, as release 5 has them in memory."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    both = take(path, tensors, place + names[0], (n, 2 * hidden, dim))
    down = take(path, tensors, place + names[1], (n, dim, hidden))
    taken = {'experts_w1': (both, range(hidden)), 'experts_w3': (both, range(hidden, 2 * hidden)),
             'experts_w2': (down, range(dim))}
    for part, (tensor, rows) in taken.items():
        tensors[parts[part]] = Taken(tensor.name, tensor, n, tensor.shape[1], rows)


def stack_columns(path, tensors, model, place, parts):
    """Gate and up in one tensor, gate first, with inputs as rows."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    both = take(path, tensors, place + 'gate_up_proj', (n, dim, 2 * hidden))
    down = take(path, tensors, place + 'down_proj', (n, hidden, dim))
    tensors[parts['experts_w1']] = Transposed(both.name, both, range(hidden))
    tensors[parts['experts_w3']] = Transposed(both.name, both, range(hidden, 2 * hidden))
    tensors[parts['experts_w2']] = Transposed(down.name, down, range(dim))


def stack_in_turns(path, tensors, model, place, parts):
    """Gate and up in turns, in floats or MXFP4, with biases."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    for name, outputs, inputs, own in (('gate_up_proj', 2 * hidden, dim, ('1', '3')),
                                       ('down_proj', dim, hidden, ('2',))):
        bias = take(path, tensors, place + name + '_bias', (n, outputs))
        blocks = None
        if place + name + '_blocks' in tensors:
            if inputs % FP4_VALUES:
                raise Problem(path, '%s%s_blocks cannot be (found rows of %d, expected whole blocks of %d)'
                              % (place, name, inputs, FP4_VALUES))
            blocks = take(path, tensors, place + name + '_blocks', (n, outputs, inputs // FP4_VALUES, FP4_BYTES), 'U8')
            scales = take(path, tensors, place + name + '_scales', (n, outputs, inputs // FP4_VALUES), 'U8')
        else:
            floats = take(path, tensors, place + name, (n, inputs, outputs))
        for i, number in enumerate(own):
            taken = range(i, outputs, len(own))
            tensors[parts['experts_b' + number]] = Taken(bias.name, bias, n, outputs, taken)
            tensors[parts['experts_w' + number]] = Repacked(blocks.name, blocks, scales, taken) if blocks else \
                Transposed(floats.name, floats, taken)


def take(path, tensors, name, shape, dtype=None):
    """A tensor of this shape, which is taken out. dtype None: of floats."""
    tensor = tensors.pop(name, None)
    if not tensor:
        raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
    dtypes = [dtype] if dtype else list(ITEM_SIZES)
    if tensor.shape != shape or tensor.dtype not in dtypes or dtype and tensor.size != prod(shape):
        raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                      % (name, tensor.dtype, list(tensor.shape), ' or '.join(dtypes), list(shape)))
    return tensor


# ---- out into folders ----

NOT_CONVERTED = ['model.layers.*.self_attn', 'model.layers.*.mlp.router', 'model.embed_tokens', 'lm_head']


def keeps_mxfp4(checkpoint: Checkpoint) -> bool:
    """Whether the experts go into a folder of gpt-oss in MXFP4: when all of their matrices are of it."""
    names = [checkpoint.names[part] % layer for part in EXPERT_PARTS[:3]
             for layer in layers_with_experts(checkpoint.model)]
    return bool(names and checkpoint.model.expert_bias) and all(
        checkpoint.tensors[name].dtype == 'MXFP4' for name in names)


def to_config(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys of config.json about experts."""
    rule = family.experts
    keys: Dict[str, Any] = {rule.used: model.n_experts_used, rule.counts[0]: model.n_experts,
                            rule.width: model.expert_hidden_dim}
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
    if rule.latent:
        keys[rule.latent] = model.expert_latent_dim or None
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
    """What a model has of experts that each token takes, in as many as make its width."""
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
    """Which layers are dense, where that is the first ones, or a list says it."""
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


def one_by_one(family: Family, model: Model, place: Place) -> Iterator[Tuple[str, Any, bool]]:
    """(name, tensor, that it is a matrix) for each expert of what has all of them one below the other."""
    n, whole = model.n_experts, place.tensor
    pattern = one_expert(family, place.part, place.layer)
    rows, size = whole.shape[0] // n, whole.size // n
    for expert in range(n):
        part = whole._replace(start=whole.start + expert * size, size=size, shape=(rows, whole.shape[1]))
        yield pattern % expert, part, True


def in_turns(model: Model, places: Dict[str, Place]) -> Iterator[Tuple[str, Any, bool]]:
    """(name, tensor, whether its type is kept) of the experts of one layer of gpt-oss, {part: its place}."""
    n = model.n_experts
    for name, numbers in ('gate_up_proj', '13'), ('down_proj', '2'):
        matrices, biases = ([places[kind + number].tensor for number in numbers] for kind in (
            'experts_w', 'experts_b'))
        start = 'model.layers.%d.mlp.experts.%s' % (places['experts_w2'].layer, name)
        if matrices[0].dtype == 'MXFP4':
            yield start + '_blocks', InTurns(matrices, n, True), True
            yield start + '_scales', InTurns(matrices, n, False), True
        else:
            yield start, Columns(matrices, n), True
        yield start + '_bias', Columns(biases, n), False


def in_halves(path: str, family: Family, model: Model, places: Dict[str, Place]) -> Iterator[Tuple[str, Any, bool]]:
    """The same of experts whose gate and up are one tensor, gate first; with inputs as rows, or outputs."""
    rule, n = family.experts, model.n_experts
    linear = rule.layout == 'linear'
    start = place_of(family, places['experts_w2'].layer) + ('' if linear else 'experts.')
    first, last = ('input_linear.weight', 'output_linear.weight') if linear else ('gate_up_proj', 'down_proj')
    for name, numbers in (first, '13'), (last, '2'):
        parts = [places['experts_w' + number].tensor for number in numbers]
        other = next((part for part in parts if part.dtype not in ITEM_SIZES or part.dtype != parts[0].dtype), None)
        if other:
            raise Problem(path, '%s%s is %s, which cannot be there (expected floats of one type)' % (
                start, name, other.dtype))
        yield start + name, Columns(parts, n, False) if rule.layout == 'columns' else Halves(parts, n), True


# ---- GGUF ----

GATE_AND_UP = 'blk.%d.ffn_gate_up_exps.weight'
ONE_BY_ONE = {'experts_w1': 'blk.%d.ffn_gate.%d.weight', 'experts_w3': 'blk.%d.ffn_up.%d.weight',
              'experts_w2': 'blk.%d.ffn_down.%d.weight'}


def from_gguf(keys: Keys, families: List[Family], tensors: Tensors) -> Dict[str, Any]:
    """The fields about experts. Their weights are always brought to a sum of 1, which some files say, too, but in
    architectures where keys tell how they are made."""
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
    if own and own.latent:
        fields['expert_latent_dim'] = keys.integer('moe_latent_size', MAX_WIDTH, 0, low=0)
    if not told and (Feature.SHARED_EXPERT in families[0].always or own and own.shared_is_dense):
        fields['shared_hidden_dim'] = keys.integer('expert_shared_feed_forward_length', MAX_WIDTH, dense)
    return {**fields, **(gguf_router(keys, families, tensors, n_experts, width) if told else {})}


def read_hidden(keys: Keys, family: Family) -> int:
    """The width of a dense feed-forward layer, which files of models without such a layer need not say."""
    of_expert = keys.values.get('expert_feed_forward_length')
    return widest(keys, gguf_of(family), WIDTH, MAX_WIDTH, of_expert if Feature.EXPERTS in family.always and of_expert
                  else REFUSED)


def gguf_router(keys: Keys, families: List[Family], tensors: Tensors, n_experts: int, width: int) -> Dict[str, Any]:
    """How weights come from logits; 1 is a softmax, 2 a sigmoid. A bias of the choice goes with sigmoids."""
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
    if kind == 1:  # of chosen ones, or of all
        fields['router'] = int('router_groups' in fields or not divided or biased)
        fields['router_renormalizes'] = int(divided and fields['router'])
    return fields


def gguf_groups(keys: Keys, families: List[Family], n_experts: int, kind: int) -> Dict[str, int]:
    """The fields about groups of experts. For llama.cpp a group counts by its best two."""
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
    """Layers behind the last one predict further tokens."""
    n_more = keys.values['nextn_predict_layers'] if 'nextn_predict_layers' in keys.asked & set(keys.values) else 0
    starts = tuple('blk.%d.' % (model.n_layers + i) for i in range(n_more))
    for name in [name for name in tensors if starts and name.startswith(starts)]:
        del tensors[name]


def dense_settings(path: str, rule: Gguf, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The key that says which layers are dense."""
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


def router_to_gguf(path: str, rule: Gguf, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys of a model that goes out."""
    count, rest = divmod(model.shared_hidden_dim, model.expert_hidden_dim)
    if rest and rule.with_experts:  # which has a key of its width
        count = 1
    elif rest:
        raise Problem(path, 'has a shared expert of width %d, which GGUF cannot say' % model.shared_hidden_dim)
    settings = {
        'expert_shared_count': (U32, count), 'expert_shared_feed_forward_length': (U32, model.shared_hidden_dim),
        **dense_settings(path, rule, model),
        'expert_gating_func': (U32, 2 if model.router == 2 else 1),
        'expert_weights_norm': (BOOL, model.router == 0 or bool(model.router_renormalizes)),
        'expert_weights_scale': (F32, model.router_scale or 1.0)}
    if model.router_groups > model.router_groups_used:  # else all experts can be chosen
        if model.router_group_best != 2:
            raise Problem(path, 'has groups of experts that count by their best %d, which llama.cpp has not (expected '
                          '2)' % model.router_group_best)
        settings.update({'expert_group_count': (U32, model.router_groups),
                         'expert_group_used_count': (U32, model.router_groups_used)})
    return settings


def stack_in_gguf(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """Brings the experts' matrices into two axes, and their biases into one, under the names that they have."""
    n, dim, hidden = model.n_experts, model.expert_latent_dim or model.dim, model.expert_hidden_dim
    for layer in layers_with_experts(model):
        split_halves(tensors, model, layer, names)
        for part in EXPERT_PARTS:
            name, rows = names[part] % layer, dim if part[-1] == '2' else hidden
            shape = (n, rows) if part[-2] == 'b' else (n, rows, hidden if part[-1] == '2' else dim)
            each = ONE_BY_ONE.get(part)
            if each and each % (layer, 0) in tensors and name not in tensors:
                found = [tensors.pop(each % (layer, e), None) for e in range(n)]
                tensors[name] = joined(path, found, [each % (layer, e) for e in range(n)], shape[1:])
            elif isinstance(tensors.get(name), Tensor):
                tensors[name] = in_two_axes(tensors[name], shape)


def joined(path, found, names, shape):
    """One tensor of those of each expert."""
    for tensor, name in zip(found, names):
        if not tensor:
            raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
        if (tensor.shape, tensor.dtype) != (shape, found[0].dtype):
            raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                          % (name, tensor.dtype, list(tensor.shape), found[0].dtype, list(shape)))
    return Joined(found, 0)


def in_two_axes(tensor, shape):
    """The axes of experts and rows as one, where the shape is the one expected; else it stays and is refused later."""
    if tensor.shape != shape:
        raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s)'
                      % (tensor.name, tensor.dtype, list(tensor.shape), list(shape)))
    return tensor._replace(shape=(shape[0] * shape[1], *shape[2:]))


def split_halves(tensors, model, layer, names):
    """Gate and up of each expert in one tensor, gate first, become two."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    both = tensors.pop(GATE_AND_UP % layer, None)
    if both:
        both = in_two_axes(both, (n, 2 * hidden, dim))
        for part, first in ('experts_w1', 0), ('experts_w3', hidden):
            tensors[names[part] % layer] = Taken(both.name, both, n, 2 * hidden, range(first, first + hidden))
