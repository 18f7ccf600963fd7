"""Heads and widths that differ from layer to layer, and layers that read the keys and values of an earlier one: by
config.json, and on the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Tuple

from .common import MAX_HEAD_DIM, MAX_HEADS, MAX_WIDTH, REFUSED, Keys, Problem
from .experts import items
from .families import Family
from .layers import FULL
from .model import KEYS_ARE_VALUES, TURNS_AS_SLIDING, WITHOUT_SINKS, Model, Shape
from .tensors import CHUNK, ITEM_SIZES, Made

KV = 'num_key_value_heads'


# ---- config.json ----

def read_shapes(config: Keys, family: Family, model: Model) -> None:
    """Sets the shapes of layers where they are not alike. The header then has the widest."""
    rule, n = family.shapes, model.n_layers
    if not rule:
        return
    slides = [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    n_heads = read_heads(config, rule.heads, model)
    n_kv_heads = [model.n_kv_heads * (rule.sliding_kv_times if slide else 1) for slide in slides]
    head_dims = [model.head_dim] * n
    read_full(config, family, slides, n_kv_heads, head_dims)
    sources = read_sources(config, rule.shared, slides)
    wide = bool(rule.double) and config.flag(rule.double, False, False)
    hidden = [model.hidden_dim * (2 if wide and source != layer else 1) for layer, source in enumerate(sources)]
    for layer in range(n):
        if n_heads[layer] % n_kv_heads[layer]:
            config.refuse(KV, 'what divides the %d heads of layer %d (found %d there)' % (
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
    """The shapes, and the widest of them in the header; none where all are that."""
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
    """Heads of full layers, by keys of their own; or, as newer releases write it, those of any layer in an object."""
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
            own.refuse(other, 'no such key, since it is not read by layer')


def read_sources(config: Keys, key: str, slides: List[bool]) -> List[int]:
    """The layer whose keys and values each one reads: of the last layers, so many, the last one before them that is of
    the same kind."""
    n = len(slides)
    first = n - (config.integer(key, MAX_WIDTH, 0, low=0) if key else 0)
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
    """Marks the full layers whose values are their keys."""
    rule = family.shapes
    if rule and rule.keys_are_values and config.flag(rule.keys_are_values, False, False):
        model.layers = [flags | KEYS_ARE_VALUES * (not flags & TURNS_AS_SLIDING and shape.kv_layer == layer)
                        for layer, (flags, shape) in enumerate(zip(model.layer_flags, model.layer_shapes))]


def of_kind(model: Model, slide: bool) -> Tuple[int, int]:
    """Elements of a head of full layers, or of sliding ones, and how many of these layers there are."""
    found = [shape.head_dim for shape, flags in zip(model.layer_shapes, model.layer_flags)
             if bool(flags & TURNS_AS_SLIDING) == slide]
    return found[0] if found else model.head_dim, len(found)


# ---- out ----

def config_of_shapes(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys about them. Full layers have keys of their own where these say all."""
    rule, shapes = family.shapes, model.layer_shapes
    if not rule:
        if model.shapes:
            raise Problem(path, 'has layers whose shapes differ, which %s has not' % family.title)
        return {}
    slides = [bool(flags & TURNS_AS_SLIDING) for flags in model.layer_flags]
    keys: Dict[str, Any] = {KV: usual_kv(path, family, model, slides), 'head_dim': of_kind(model, True)[0]}
    narrow = min(shape.hidden_dim for shape in shapes)
    sharing = [shape.kv_layer != layer for layer, shape in enumerate(shapes)]
    doubled = any(shape.hidden_dim != narrow for shape in shapes)
    if rule.double and any(shape.hidden_dim != narrow * (2 if doubled and shares else 1)
                           for shape, shares in zip(shapes, sharing)) or not rule.double and doubled:
        raise Problem(path, 'has feed-forward layers of several widths, which %s has not' % family.title)
    keys['intermediate_size'] = narrow
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
    """As read_sources has them; an empty list where that cannot be."""
    first = len(slides) - n_sharing
    last = {slide: max([layer for layer in range(first) if slides[layer] == slide], default=-1)
            for slide in (False, True)}
    found = [layer if layer < first else last[slides[layer]] for layer in range(len(slides))]
    return [] if -1 in found else found


def usual_kv(path: str, family: Family, model: Model, slides: List[bool]) -> int:
    """Key heads that a config says: of sliding layers, or of all."""
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
    """Heads of full layers, and whether their keys are values. By layer where the older keys cannot say it."""
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


# ---- columns ----

@dataclass(frozen=True)
class ColumnsMoved(Made):
    """A matrix of floats with the columns of each head in another order: new column i is old column order[i]. What
    reads values that are keys reads them in the order of keys."""
    order: Tuple[int, ...]

    size = property(lambda self: self.tensor.size)

    def read(self) -> Iterator[bytes]:
        rows, columns = self.shape
        width, of_head = columns * ITEM_SIZES[self.dtype], len(self.order)
        at_once = max(1, CHUNK // width)
        for first in range(0, rows, at_once):
            old, new = items(self.dtype), items(self.dtype)
            for chunk in self.tensor.read(first * width, min(at_once, rows - first) * width):
                old.frombytes(chunk)
            new.frombytes(bytes(len(old) * ITEM_SIZES[self.dtype]))
            for column in range(columns):
                head = column - column % of_head
                new[column::columns] = old[head + self.order[column % of_head]::columns]
            yield new.tobytes()
