"""Heads and widths that differ from layer to layer, and layers that read the keys and values of an earlier one; in
config.json and in GGUF's keys, which may be lists with a number for each layer; in both directions."""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Tuple

from ..common import (MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_PER_LAYER, MAX_WIDTH, REFUSED, Keys, Problem)
from ..families import Family, Gguf
from ..model import (FIELDS_OF, KEYS_ARE_VALUES, PROPORTIONAL, TURNS_AS_SLIDING, WITHOUT_SINKS, Feature, Model, Shape,
                     of_kind)
from ..tensors import ARRAY, I32, U32, Place, Small, Tensors

KV = 'num_key_value_heads'


# ---- config.json ----

def read_widths(config: Keys, family: Family, n_layers: int) -> List[int]:
    """The widths of feed-forward layers, from a list or from one number for all; an empty list if they cannot
    differ."""
    if not family.shapes or not family.shapes.widths:
        return []
    key = family.keys.of('hidden_dim')
    if not isinstance(config.values.get(key), list):
        return [config.integer(key, MAX_WIDTH, family.default(key, REFUSED))] * n_layers
    return config.get(key, lambda v: len(v) == n_layers and all(type(x) is int and 0 < x <= MAX_WIDTH for x in v),
                      'a whole number up to %d, or one for each of %d layers' % (MAX_WIDTH, n_layers))


def from_config(config: Keys, family: Family, model: Model, widths: List[int]) -> None:
    """Sets the shapes of layers if they differ. The header then has the widest. widths: the result of read_widths."""
    rule, n = family.shapes, model.n_layers
    if not rule:
        return
    slides = [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    n_heads = read_heads(config, rule.heads, model)
    n_kv_heads = [model.n_kv_heads * (rule.sliding_kv_times if slide else 1) for slide in slides]
    head_dims = [model.head_dim] * n
    read_full(config, family, slides, n_kv_heads, head_dims)
    sources = read_sources(config, rule.shared, family, slides)
    wide = bool(rule.double) and config.flag(rule.double, False, False)
    hidden = widths or [model.hidden_dim * (2 if wide and source != layer else 1)
                        for layer, source in enumerate(sources)]
    for layer in range(n):
        if n_heads[layer] % n_kv_heads[layer]:
            config.refuse(KV, 'a divisor of the %d heads of layer %d (found %d there)' % (
                n_heads[layer], layer, n_kv_heads[layer]))
        source = sources[layer]
        if (n_kv_heads[layer], head_dims[layer]) != (n_kv_heads[source], head_dims[source]):
            config.refuse(rule.by_layer, 'heads of layer %d as in layer %d, whose keys it reads' % (layer, source))
    if rule.values:
        value_dim = config.integer(rule.values, MAX_HEAD_DIM, family.default(rule.values))
        model.value_dim = value_dim if any(dim != value_dim for dim in head_dims) else 0
    set_shapes(model, [Shape(*numbers) for numbers in zip(n_heads, n_kv_heads, head_dims, hidden, sources)])
    if not family.layers.full_sinks:
        model.layers = [flags | WITHOUT_SINKS * (not slide) for flags, slide in zip(model.layer_flags, slides)]


def set_shapes(model: Model, shapes: List[Shape]) -> None:
    """Stores the shapes, and the widest in the header; no shapes if all layers have the widest."""
    most = [max(numbers) for numbers in list(zip(*shapes))[:4]]
    model.set(n_heads=most[0], n_kv_heads=most[1], head_dim=most[2], hidden_dim=most[3], shapes=[])
    if shapes != model.layer_shapes:
        model.set(shapes=shapes)


def read_heads(config: Keys, key: str, model: Model) -> List[int]:
    """Query heads of each layer."""
    n = model.n_layers
    found = config.get(key, lambda v: isinstance(v, list) and len(v) == n and all(
        type(x) is int and 0 < x <= MAX_HEADS for x in v), 'a number of heads for each of %d layers' % n, None,
        None) if key else None
    return found or [model.n_heads] * n


def read_full(config: Keys, family: Family, slides: List[bool], n_kv_heads: List[int], head_dims: List[int]) -> None:
    """Reads the heads of full layers from their own keys; or, as newer releases write them, the heads of any layer from
    an object."""
    rule = family.shapes
    assert rule
    by_layer = config.get(rule.by_layer, lambda v: isinstance(v, dict), 'an object of settings of layers', None,
                          None) if rule.by_layer else None
    if by_layer is not None:
        read_by_layer(config, rule.by_layer, by_layer, n_kv_heads, head_dims)
        return
    same = bool(rule.keys_are_values) and config.flag(rule.keys_are_values, False, False)
    own_kv = config.integer(rule.full_kv, MAX_HEADS, 0, 0) if rule.full_kv and same else 0
    own_dim = config.integer(rule.full_head, MAX_HEAD_DIM, family.default(rule.full_head)) if rule.full_head else 0
    if own_dim % 2:
        config.refuse(rule.full_head, 'an even number up to %d' % MAX_HEAD_DIM)
    for layer, slide in enumerate(slides):
        if not slide:
            n_kv_heads[layer] = own_kv or n_kv_heads[layer]
            head_dims[layer] = own_dim or head_dims[layer]


def read_by_layer(config: Keys, key: str, by_layer: Dict[str, Any], n_kv_heads: List[int],
                  head_dims: List[int]) -> None:
    for name, values in by_layer.items():
        if not name.isdigit() or int(name) >= len(head_dims) or not isinstance(values, dict):
            config.refuse(key, 'objects of settings under numbers of layers below %d' % len(head_dims))
        own, layer = config.within(values, '%s.%s.' % (key, name)), int(name)
        n_kv_heads[layer] = own.integer(KV, MAX_HEADS, n_kv_heads[layer])
        head_dims[layer] = own.integer('head_dim', MAX_HEAD_DIM, head_dims[layer])
        if head_dims[layer] % 2:
            own.refuse('head_dim', 'an even number up to %d' % MAX_HEAD_DIM)
        for other in sorted(set(values) - {KV, 'head_dim'}):
            own.refuse(other, 'no such key, since it has no values by layer')


def read_sources(config: Keys, key: str, family: Family, slides: List[bool]) -> List[int]:
    """The layer whose keys and values each layer reads: for the last `shared` layers, the last layer before them that
    is of the same kind."""
    n = len(slides)
    first = n - (config.integer(key, MAX_WIDTH, family.default(key, 0), low=0) if key else 0)
    if first < 1:
        config.refuse(key, 'a number below num_hidden_layers, %d' % n)
    sources = list(range(first))
    for layer in range(first, n):
        alike = [other for other in range(first) if slides[other] == slides[layer]]
        if not alike:
            config.refuse(key, 'fewer, since no layer before layer %d is of the same kind' % first)
        sources.append(alike[-1])
    return sources


def mark_same(config: Keys, family: Family, model: Model) -> None:
    """Marks the full layers whose keys are also their values."""
    rule = family.shapes
    if rule and rule.keys_are_values and config.flag(rule.keys_are_values, False, False):
        model.layers = [flags | KEYS_ARE_VALUES * (not flags & TURNS_AS_SLIDING and shape.kv_layer == layer)
                        for layer, (flags, shape) in enumerate(zip(model.layer_flags, model.layer_shapes))]


# ---- out ----

def to_config(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys about shapes. Full layers have their own keys if these can express all."""
    rule, shapes = family.shapes, model.layer_shapes
    if not rule:
        if model.shapes and not (family.states and family.states.pattern):
            raise Problem(path, 'has layers whose shapes differ, which %s has not' % family.title)
        return {}
    slides = [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    keys: Dict[str, Any] = {KV: usual_kv(path, family, model, slides), 'head_dim': of_kind(model, True)[0]}
    narrow = min(shape.hidden_dim for shape in shapes)
    sharing = [shape.kv_layer != layer for layer, shape in enumerate(shapes)]
    doubled = any(shape.hidden_dim != narrow for shape in shapes)
    if rule.double and any(shape.hidden_dim != narrow * (2 if doubled and shares else 1)
                           for shape, shares in zip(shapes, sharing)) or not (rule.double or rule.widths) and doubled:
        raise Problem(path, 'has feed-forward layers of several widths, which %s has not' % family.title)
    keys['intermediate_size'] = [shape.hidden_dim for shape in shapes] if rule.widths and doubled else narrow
    if rule.double:
        keys[rule.double] = doubled
    if rule.shared:
        keys[rule.shared] = sum(sharing)
    if sources_of(slides, sum(sharing)) != [shape.kv_layer for shape in shapes]:
        raise Problem(path, 'has layers that read the keys of others than in %s' % family.title)
    if rule.values:
        keys[rule.values] = model.value_dim or model.head_dim
    if rule.heads:
        keys[rule.heads] = [shape.n_heads for shape in shapes]
    elif len({shape.n_heads for shape in shapes}) > 1:
        raise Problem(path, 'has numbers of heads that differ from layer to layer, which %s has not' % family.title)
    if rule.full_head:
        keys.update(config_of_full(path, family, model, slides))
    return keys


def sources_of(slides: List[bool], n_sharing: int) -> List[int]:
    """The sources in the form of read_sources; an empty list if that is impossible."""
    first = len(slides) - n_sharing
    last = {slide: max([layer for layer in range(first) if slides[layer] == slide], default=-1)
            for slide in (False, True)}
    found = [layer if layer < first else last[slides[layer]] for layer in range(len(slides))]
    return [] if -1 in found else found


def usual_kv(path: str, family: Family, model: Model, slides: List[bool]) -> int:
    """The number of key heads in a config: of the sliding layers, or of all."""
    rule, shapes = family.shapes, model.layer_shapes
    assert rule
    full = {shape.n_kv_heads for shape, slide in zip(shapes, slides) if not slide}
    sliding = {shape.n_kv_heads for shape, slide in zip(shapes, slides) if slide}
    if rule.full_head:
        return (sliding or full).pop()
    found = {n // rule.sliding_kv_times for n in sliding if n % rule.sliding_kv_times == 0} | full
    if len(found) != 1 or any(n % rule.sliding_kv_times for n in sliding):
        raise Problem(path, 'has numbers of key heads that %s has not (found %s in its layers)' % (
            family.title, ', '.join(map(str, sorted(full | sliding)))))
    return found.pop()


def config_of_full(path: str, family: Family, model: Model, slides: List[bool]) -> Dict[str, Any]:
    """The heads of full layers, and whether their keys are values. By layer if the older keys cannot express it."""
    rule, shapes = family.shapes, model.layer_shapes
    assert rule
    same = {bool(flags & KEYS_ARE_VALUES) for layer, (flags, slide) in enumerate(zip(model.layer_flags, slides))
            if not slide and shapes[layer].kv_layer == layer}
    if len(same) > 1 or any(flags & KEYS_ARE_VALUES for flags, slide in zip(model.layer_flags, slides) if slide):
        raise Problem(path, 'has keys that are values in layers where %s has not' % family.title)
    keys = {rule.keys_are_values: same == {True}}
    heads = {shape[1:3] for shape, slide in zip(shapes, slides) if not slide}
    sliding = {shape[1:3] for shape, slide in zip(shapes, slides) if slide} or heads
    (n_kv_heads, head_dim), (usual_heads, usual_dim) = max(heads), max(sliding)
    if len(heads) > 1 or len(sliding) > 1:
        raise Problem(path, 'has heads that differ among layers of one kind, which %s has not' % family.title)
    if n_kv_heads != usual_heads and same != {True}:
        own = {KV: n_kv_heads, **({'head_dim': head_dim} if head_dim != usual_dim else {})}
        return {**keys, rule.by_layer: {str(layer): own for layer, slide in enumerate(slides) if not slide}}
    return {**keys, rule.full_head: head_dim, rule.full_kv: n_kv_heads if n_kv_heads != usual_heads else None}


# ---- GGUF ----

AT_REST = 1e30  # the divisor of the frequency of a pair that does not rotate
HEADS, KV_HEADS, WIDTH = 'attention.head_count', 'attention.head_count_kv', 'feed_forward_length'
LISTED = HEADS, KV_HEADS, WIDTH
Settings = Dict[str, Tuple[int, Any]]


# ---- in ----

def by_layer(keys: Keys, key: str, high: int, default: Any = REFUSED) -> List[int]:
    """A number for each layer, including those that predict further tokens, from a list or from one number for all."""
    n = keys.integer('block_count', MAX_LAYERS)
    value = keys.get(key, lambda v: all(type(x) is int and 0 < x <= high for x in (v if isinstance(v, list) else [v]))
                     and (not isinstance(v, list) or len(v) == n),
                     'a whole number up to %d, or one for each of %d layers' % (high, n), default)
    return value if isinstance(value, list) else [value] * n


def take_equal(keys: Keys, family: Family) -> None:
    """Replaces a list that has the same number for every layer by that number: llama.cpp accepts both in any
    architecture. Mamba 2's lists stay, since they name the layers that mix."""
    n = keys.integer('block_count', MAX_LAYERS)
    mixes = family.states and family.states.kind == 'mamba'
    for key in () if mixes else LISTED:
        value = keys.values.get(key)
        if isinstance(value, list) and len(value) == n and len(set(value)) == 1:
            keys.values[key] = value[0]


def widest(keys: Keys, rule: Gguf, key: str, high: int, default: Any = REFUSED) -> int:
    """A number, or the largest number of a list if the architecture allows one."""
    if key in rule.lists:
        return max(by_layer(keys, key, high, default))
    if isinstance(keys.values.get(key), list):
        by_layer(keys, key, high)
        keys.refuse(key, 'the same number for every layer, since architecture %s has layers alike' % rule.architecture)
    return keys.integer(key, high, default)


def from_gguf(keys: Keys, family: Family, rule: Gguf, tensors: Tensors, model: Model) -> None:
    """Sets the shapes of layers, and their missing parts. The values of full layers in the header are replaced by the
    widest."""
    if not rule.lists:
        return
    n, slides = model.n_layers, [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    heads, kv_heads, widths = (by_layer(keys, key, high) if key in rule.lists else [usual] * n for key, high, usual in (
        (HEADS, MAX_HEADS, model.n_heads), (KV_HEADS, MAX_HEADS, model.n_kv_heads), (WIDTH, MAX_WIDTH,
                                                                                    model.hidden_dim)))
    own = keys.integer('attention.key_length_swa', MAX_HEAD_DIM, model.head_dim) if rule.own_length else model.head_dim
    if rule.own_length:
        keys.only('attention.value_length_swa', own)
    sources = gguf_sources(keys, rule, slides)
    turning = model.turning
    set_shapes(model, [Shape(heads[i], kv_heads[i], own if slide else model.head_dim, widths[i], sources[i])
                       for i, slide in enumerate(slides)])
    sliding = keys.get('rope.dimension_count_swa', lambda v: type(v) is int and 1 < v <= own and v % 2 == 0,
                       'an even number up to %d' % own, min(turning, own)) if rule.own_turning else min(turning, own)
    model.set(rotary_dim=turning % model.head_dim,
              sliding_rotary_dim=sliding if any(slides) and sliding != turning else 0)
    check_heads(keys, model)
    drop_unused(tensors, model)
    marks = [0] * n
    for layer, shape in enumerate(model.layer_shapes):
        if Feature.KEYS_AS_VALUES in family.may and shape.kv_layer == layer and not slides[layer]:
            marks[layer] |= KEYS_ARE_VALUES * ('blk.%d.attn_v.weight' % layer not in tensors)
        if Feature.SOME_SINKS in family.may:
            marks[layer] |= WITHOUT_SINKS * ('blk.%d.attn_sinks.weight' % layer not in tensors)
    if any(marks):
        model.layers = [flags | mark for flags, mark in zip(model.layer_flags, marks)]


def gguf_sources(keys: Keys, rule: Gguf, slides: List[bool]) -> List[int]:
    """The layer whose keys each layer reads."""
    n = len(slides)
    shared = keys.integer(rule.shared, n - 1, 0, low=0) if rule.shared else 0
    found = sources_in_file(slides, shared)
    if not found:
        keys.refuse(rule.shared, 'fewer, since the two layers before these have to be one that slides and a full one')
    return found


def sources_in_file(slides: List[bool], shared: int) -> List[int]:
    """As in llama.cpp: sliding layers read the last but one of the layers with keys, full ones the last. An empty list
    if these are not of the right kinds."""
    first = len(slides) - shared
    found = [layer if layer < first else first - (2 if slide else 1) for layer, slide in enumerate(slides)]
    return found if found == sources_of(slides, shared) else []


def check_heads(keys: Keys, model: Model) -> None:
    for layer, shape in enumerate(model.layer_shapes):
        source = model.layer_shapes[shape.kv_layer]
        if shape.n_heads % shape.n_kv_heads or shape.n_kv_heads != source.n_kv_heads:
            keys.refuse(KV_HEADS, 'a divisor of the %d heads of layer %d, and as in the layer whose keys it reads'
                        % (shape.n_heads, layer))


def drop_unused(tensors: Tensors, model: Model) -> None:
    """Removes the keys of layers that read those of others, which files may contain."""
    for layer, shape in enumerate(model.layer_shapes):
        for part in ('k.weight', 'v.weight', 'k_norm.weight') if shape.kv_layer != layer else ():
            tensors.pop('blk.%d.attn_%s' % (layer, part), None)


def read_proportional(path: str, tensor: Any, head_dim: int) -> Dict[str, Any]:
    """The RoPE fields of full layers from the divisors of a head's pairs: the first pairs, which rotate, share one
    number, and the others have a very large one."""
    if tensor.dtype != 'F32' or tensor.shape != (head_dim // 2,):
        raise Problem(path, '%s cannot be used (found %s %s, expected F32 [%d])'
                      % (tensor.name, tensor.dtype, list(tensor.shape), head_dim // 2))
    values = struct.unpack('<%df' % (head_dim // 2), b''.join(tensor.read()))
    turning = [value for value in values if value < AT_REST / 10]
    if not turning or min(turning) <= 0 or set(turning) != {turning[0]} or any(values[i] != turning[0] for i in range(
            len(turning))):
        raise Problem(path, '%s cannot be used (expected one number for the first pairs, and 1e30 for the others)'
                      % tensor.name)
    if len(turning) == len(values) and turning[0] == 1:
        return {}
    return {'rope_method': PROPORTIONAL, 'factor': turning[0], 'rotary_dim': 2 * len(turning) % head_dim}


def read_rest(keys: Keys, family: Family, rule: Gguf, tensors: Tensors, model: Model) -> None:
    """Reads per-layer embeddings, the kind of gates, and experts beside a dense layer."""
    if rule.per_layer:
        model.per_layer_dim = keys.integer(rule.per_layer, MAX_PER_LAYER // model.n_layers, 0, low=0)
    gate = tensors.get('blk.0.attn_gate.weight')
    if gate and Feature.HEAD_GATES in family.sign:
        by_head = gate.shape[:1] == (model.layer_shapes[0].n_heads,)
        model.set(**FIELDS_OF[Feature.HEAD_GATES if by_head else Feature.ELEMENT_GATES])
    if model.n_experts and Feature.EXPERTS_BESIDE in family.may:
        model.set(experts_beside=1, shared_hidden_dim=model.hidden_dim)


# ---- out ----

def to_gguf(path: str, rule: Gguf, model: Model) -> Settings:
    """The keys about heads and widths, including those of sliding layers."""
    shapes, slides = model.layer_shapes, [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    width = [model.shared_hidden_dim if model.experts_beside else shape.hidden_dim for shape in shapes]
    settings: Settings = {}
    heads = [shape.n_heads for shape in shapes], [shape.n_kv_heads for shape in shapes]
    for key, numbers in zip(LISTED, (*heads, width)):
        alike = len(set(numbers)) == 1
        if not alike and model.shapes and not all(map(all, heads)):  # layers with one step, which mamba.py handles
            continue
        if not alike and key not in rule.lists:
            raise Problem(path, 'has layers whose numbers of heads or widths differ, for which %s has one key, %s'
                          % (rule.architecture, key))
        settings[key] = (U32, numbers[0]) if alike else (ARRAY, (I32, numbers))
    lengths = [of_kind(model, slide)[0] for slide in (False, True)]
    for shape, slide in zip(shapes, slides):
        if shape.head_dim != lengths[slide] or lengths[0] != lengths[1] and not rule.own_length and any(slides):
            raise Problem(path, 'has heads whose widths differ as no key of %s says' % rule.architecture)
    turning = [model.turning_in(slides.index(slide))[0] if slide in slides else 0 for slide in (False, True)]
    if turning[1] and turning[0] not in (0, turning[1]) and not rule.own_turning and model.rope_method != PROPORTIONAL:
        raise Problem(path, 'has sliding layers in which another part of a head rotates, which %s has no key for'
                      % rule.architecture)
    if rule.full_first and slides[0] and turning[0] not in (0, turning[1]):
        raise Problem(path, 'has a first layer that slides, from which llama.cpp takes the rotated part of a head in '
                            'full layers (found %d and %d there)' % (turning[1], turning[0]))
    full = lengths[0] if False in slides else lengths[1]
    settings.update({'attention.key_length': (U32, full), 'attention.value_length': (U32, model.value_dim or full),
                     'rope.dimension_count': (U32, full if model.rope_method == PROPORTIONAL else turning[0] or
                                              turning[1])})
    if rule.own_length:
        settings.update({'attention.%s_length_swa' % name: (U32, lengths[1]) for name in ('key', 'value')})
    if rule.own_turning:
        settings['rope.dimension_count_swa'] = U32, turning[1] or lengths[1]
    if rule.per_layer:
        settings[rule.per_layer] = U32, model.per_layer_dim
    return {**settings, **source_settings(path, rule, model, slides)}


def source_settings(path: str, rule: Gguf, model: Model, slides: List[bool]) -> Settings:
    sources = [shape.kv_layer for shape in model.layer_shapes]
    shared = sum(source != layer for layer, source in enumerate(sources))
    if shared and sources_in_file(slides, shared) != sources:
        raise Problem(path, 'has layers that read the keys of others than the last one of each kind, the full one '
                      'last, which no key of %s says' % rule.architecture)
    return {rule.shared: (U32, shared)} if rule.shared else {}


def unused_keys(plan: List[Place], model: Model) -> List[Place]:
    """Keys and values for layers that read those of others, because llama.cpp loads some architectures only with them:
    copies of the others', which are never read."""
    parts = 'wk', 'wv', 'bk', 'bv', 'k_norm'
    there = {(place.part, place.layer): place for place in plan if place.part in parts}
    return [there[part, shape.kv_layer]._replace(layer=layer) for layer, shape in enumerate(model.shapes)
            if shape.kv_layer != layer for part in parts if (part, shape.kv_layer) in there]


def proportional_tensor(model: Model, rope: Dict[str, Any]) -> Small:
    """The divisors of the pairs of full layers."""
    head_dim = of_kind(model, False)[0]
    is_proportional = model.rope_method == PROPORTIONAL
    pairs = (min(model.turning, head_dim) if is_proportional else head_dim) // 2
    divisor = rope['factor'] or 1.0 if is_proportional else 1.0  # rope.scaling.* has the factor of other methods
    return Small('rope_freqs.weight', [divisor] * pairs + [AT_REST] * (head_dim // 2 - pairs))
