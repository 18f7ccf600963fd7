"""GGUF files of architectures whose layers differ in their heads and widths: numbers that may be lists of one a layer,
keys of sliding layers' own, and tensors that some layers are without; both ways."""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Tuple

from .common import (MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_PER_LAYER, MAX_WIDTH, REFUSED, Keys, Problem)
from .families import Family, Gguf
from .model import (FIELDS_OF, KEYS_ARE_VALUES, PROPORTIONAL, TURNS_AS_SLIDING, WITHOUT_SINKS, Feature, Model, Shape)
from .shapes import of_kind, set_shapes, sources_of
from .tensors import Small, Tensors

U32, I32, ARRAY = 4, 5, 9  # types
AT_REST = 1e30  # what divides the frequency of a pair that does not turn
HEADS, KV_HEADS, WIDTH = 'attention.head_count', 'attention.head_count_kv', 'feed_forward_length'
LISTED = HEADS, KV_HEADS, WIDTH
Settings = Dict[str, Tuple[int, Any]]


# ---- in ----

def by_layer(keys: Keys, key: str, high: int, default: Any = REFUSED) -> List[int]:
    """A number for each layer, also for those that predict further tokens, from a list or from one number for all."""
    n = keys.integer('block_count', MAX_LAYERS)
    value = keys.get(key, lambda v: all(type(x) is int and 0 < x <= high for x in (v if isinstance(v, list) else [v]))
                     and (not isinstance(v, list) or len(v) == n),
                     'a whole number up to %d, or one for each of %d layers' % (high, n), default)
    return value if isinstance(value, list) else [value] * n


def widest(keys: Keys, rule: Gguf, key: str, high: int, default: Any = REFUSED) -> int:
    """What may be a list, where the architecture has one; the largest number of it."""
    return max(by_layer(keys, key, high, default)) if key in rule.lists else keys.integer(key, high, default)


def read_shapes(keys: Keys, family: Family, rule: Gguf, tensors: Tensors, model: Model) -> None:
    """Sets the shapes of layers, and what some of them are without. What the header has of full layers so far becomes
    what the widest have."""
    if not rule.lists:
        return
    n, slides = model.n_layers, [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    heads, kv_heads, widths = (by_layer(keys, key, high) if key in rule.lists else [usual] * n for key, high, usual in (
        (HEADS, MAX_HEADS, model.n_heads), (KV_HEADS, MAX_HEADS, model.n_kv_heads), (WIDTH, MAX_WIDTH,
                                                                                    model.hidden_dim)))
    own = keys.integer('attention.key_length_swa', MAX_HEAD_DIM, model.head_dim) if rule.own_length else model.head_dim
    if rule.own_length:
        keys.only('attention.value_length_swa', own)
    sources = read_sources(keys, rule, slides)
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


def read_sources(keys: Keys, rule: Gguf, slides: List[bool]) -> List[int]:
    """The layer whose keys each one reads."""
    n = len(slides)
    shared = keys.integer(rule.shared, n - 1, 0, low=0) if rule.shared else 0
    found = sources_in_file(slides, shared)
    if not found:
        keys.refuse(rule.shared, 'fewer, since the two layers before these have to be one that slides and a full one')
    return found


def sources_in_file(slides: List[bool], shared: int) -> List[int]:
    """As llama.cpp has it: sliding layers read the last but one of those that have keys, full ones the last. An empty
    list where these are not of their kinds."""
    first = len(slides) - shared
    found = [layer if layer < first else first - (2 if slide else 1) for layer, slide in enumerate(slides)]
    return found if found == sources_of(slides, shared) else []


def check_heads(keys: Keys, model: Model) -> None:
    for layer, shape in enumerate(model.layer_shapes):
        source = model.layer_shapes[shape.kv_layer]
        if shape.n_heads % shape.n_kv_heads or shape.n_kv_heads != source.n_kv_heads:
            keys.refuse(KV_HEADS, 'what divides the %d heads of layer %d, and as in the layer whose keys it reads'
                        % (shape.n_heads, layer))


def drop_unused(tensors: Tensors, model: Model) -> None:
    """Files may have keys of layers that read those of others."""
    for layer, shape in enumerate(model.layer_shapes):
        for part in ('k.weight', 'v.weight', 'k_norm.weight') if shape.kv_layer != layer else ():
            tensors.pop('blk.%d.attn_%s' % (layer, part), None)


def read_proportional(path: str, tensor: Any, head_dim: int) -> Dict[str, Any]:
    """The RoPE fields of full layers from the divisors of a head's pairs: one number for those that turn, the first
    ones, and a very large one for the others."""
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
    """Embeddings by layer, the kind of gates, and experts beside a dense layer."""
    if rule.per_layer:
        model.per_layer_dim = keys.integer(rule.per_layer, MAX_PER_LAYER // model.n_layers, 0, low=0)
    gate = tensors.get('blk.0.attn_gate.weight')
    if gate and Feature.HEAD_GATES in family.sign:
        by_head = gate.shape[:1] == (model.layer_shapes[0].n_heads,)
        model.set(**FIELDS_OF[Feature.HEAD_GATES if by_head else Feature.ELEMENT_GATES])
    if model.n_experts and Feature.EXPERTS_BESIDE in family.may:
        model.set(experts_beside=1, shared_hidden_dim=model.hidden_dim)


# ---- out ----

def shape_settings(path: str, rule: Gguf, model: Model) -> Settings:
    """The keys about heads and widths, those of sliding layers among them."""
    shapes, slides = model.layer_shapes, [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    width = [model.shared_hidden_dim if model.experts_beside else shape.hidden_dim for shape in shapes]
    settings: Settings = {}
    heads = [shape.n_heads for shape in shapes], [shape.n_kv_heads for shape in shapes]
    for key, numbers in zip(LISTED, (*heads, width)):
        alike = len(set(numbers)) == 1
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
        raise Problem(path, 'has sliding layers of which another part of a head turns, which no key of %s says'
                      % rule.architecture)
    if rule.full_first and slides[0] and turning[0] not in (0, turning[1]):
        raise Problem(path, 'has a first layer that slides, from which llama.cpp takes how much of a head turns in '
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


def proportional_tensor(model: Model, rope: Dict[str, Any]) -> Small:
    """The divisors of the pairs of full layers."""
    head_dim = of_kind(model, False)[0]
    pairs = (min(model.turning, head_dim) if model.rope_method == PROPORTIONAL else head_dim) // 2
    return Small('rope_freqs.weight', [rope['factor'] or 1.0] * pairs + [AT_REST] * (head_dim // 2 - pairs))
