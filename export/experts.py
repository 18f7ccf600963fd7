"""Experts: what config.json says of them, and how they come to stand one below the other. In model.bin the rows of all
experts of a layer are one matrix for each of w1 (gate), w3 (up) and w2 (down). Sources have them one by one, fused, or
as gpt-oss: rows of gate and up in turns, as floats the other way round (inputs by outputs), or in MXFP4."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Iterator, List, Tuple

from .common import CHUNK, MAX_EXPERTS, MAX_LAYERS, MAX_WIDTH, REFUSED, Keys, Problem
from .families import Family
from .layers import not_used
from .model import DENSE, FIELDS_OF, Feature, Model
from .tensors import ITEM_SIZES, Joined, Tensor

EXPERT_PARTS = 'experts_w1', 'experts_w3', 'experts_w2', 'experts_b1', 'experts_b3', 'experts_b2'
SHARED_PARTS = 'shared_w1', 'shared_w3', 'shared_w2'
EXPERT_FIELDS = {name for feature in (Feature.SIGMOIDS, Feature.CHOICE_BIAS, Feature.SCALED_INPUT, Feature.SHARED_GATE,
                                      Feature.ROUTER_BIAS, Feature.EXPERT_BIAS) for name in FIELDS_OF[feature]}
FP4_VALUES, FP4_BYTES = 32, 16  # of a block of MXFP4, its scale apart
LOW, HIGH = bytes(b & 15 for b in range(256)), bytes(b & 240 for b in range(256))
RAISED, LOWERED = bytes((b & 15) << 4 for b in range(256)), bytes(b >> 4 for b in range(256))


# ---- config.json ----

def read_experts(config: Keys, family: Family, model: Model) -> Dict[str, int]:
    """The fields about experts. Marks dense layers in the model's, a byte for each layer."""
    rule = family.experts
    if not rule or rule.flag and not config.flag(rule.flag, False, False):
        return {}
    if rule.sparse and not mark_sparse(config, family, model):
        return {}
    n_experts = read_count(config, family, rule.counts)
    used = config.integer(rule.used, n_experts, family.default(rule.used, REFUSED))
    if used > n_experts:
        config.refuse(rule.used, 'no more than there are experts, %d' % n_experts)
    width = config.integer(rule.width, MAX_WIDTH, family.default(rule.width, REFUSED))
    fields = {'n_experts': n_experts, 'n_experts_used': used, 'expert_hidden_dim': width,
              **read_router(config, family, n_experts, used), **read_shared(config, family, width)}
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


def layers_with_experts(model: Model) -> List[int]:
    return [layer for layer, flags in enumerate(model.layer_flags) if model.n_experts and not flags & DENSE]


# ---- rows of experts ----

def some_rows(tensor, n_experts, of_one, taken, at_once):
    """The bytes of the rows that the range `taken` names, of each expert's `of_one` rows, which stand one below the
    other in a tensor: `at_once` rows at a time, never those of two experts."""
    row = tensor.size // (n_experts * of_one)
    for expert in range(n_experts):
        for i in range(0, len(taken), at_once):
            part = taken[i:i + at_once]
            first, end = expert * of_one + part[0], expert * of_one + part[-1] + 1
            data = b''.join(tensor.read(first * row, (end - first) * row))
            yield data if taken.step == 1 else b''.join(
                data[at:at + row] for at in range(0, len(data), taken.step * row))


@dataclass(frozen=True)
class Taken:
    """Some of each expert's rows, or elements, of what several matrices or vectors share."""
    name: str
    tensor: Any  # n_experts times of_one rows, whatever its shape
    n_experts: int
    of_one: int
    taken: range

    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)

    @property
    def shape(self) -> Tuple[int, ...]:
        columns = prod(self.tensor.shape) // (self.n_experts * self.of_one)
        is_vector = self.tensor.shape in ((self.n_experts, self.of_one), (self.n_experts * self.of_one,))
        return (self.n_experts * len(self.taken), *([] if is_vector else [columns]))

    def read(self) -> Iterator[bytes]:
        row = self.tensor.size // (self.n_experts * self.of_one)
        at_once = max(1, CHUNK // (row * self.taken.step))
        return some_rows(self.tensor, self.n_experts, self.of_one, self.taken, at_once)


@dataclass(frozen=True)
class Transposed:
    """Some columns of each expert's matrix as its rows."""
    name: str
    tensor: Any  # (experts, rows, columns), of floats
    taken: range        # of the columns

    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)
    shape = property(lambda self: (self.tensor.shape[0] * len(self.taken), self.tensor.shape[1]))

    def read(self) -> Iterator[bytes]:
        n_experts, rows, columns = self.tensor.shape
        size = rows * columns * ITEM_SIZES[self.dtype]
        at_once = max(1, CHUNK // (rows * ITEM_SIZES[self.dtype]))
        for expert in range(n_experts):
            values = items(self.dtype)
            for chunk in self.tensor.read(expert * size, size):
                values.frombytes(chunk)
            for i in range(0, len(self.taken), at_once):
                yield b''.join(values[column::columns].tobytes() for column in self.taken[i:i + at_once])


def items(dtype: str) -> array[int]:
    """An empty list of items of this type's size, which are moved and not looked at."""
    return array('I' if ITEM_SIZES[dtype] == array('I').itemsize else 'H')


@dataclass(frozen=True)
class Repacked:
    """Some of each expert's rows of published MXFP4, in ggml's blocks: the scale first, and value 16 + i beside value
    i in byte i, where the published blocks have two neighbors in a byte, the first in its low half."""
    name: str
    blocks: Tensor  # (experts, rows, blocks of a row, 16)
    scales: Tensor  # (experts, rows, blocks of a row)
    taken: range    # of the rows

    path, dtype = property(lambda self: self.blocks.path), 'MXFP4'

    @property
    def shape(self) -> Tuple[int, ...]:
        n_experts, _, per_row, _ = self.blocks.shape
        return n_experts * len(self.taken), per_row * FP4_VALUES

    def read(self) -> Iterator[bytes]:
        n_experts, of_one, per_row, _ = self.blocks.shape
        where = n_experts, of_one, self.taken, max(1, CHUNK // (per_row * FP4_BYTES * self.taken.step))
        for blocks, scales in zip(some_rows(self.blocks, *where), some_rows(self.scales, *where)):
            yield in_ggml_order(blocks, scales)


def in_ggml_order(blocks, scales):
    """Published blocks and their scales as ggml's blocks."""
    half, out = FP4_BYTES // 2, bytearray((1 + FP4_BYTES) * len(scales))
    out[0::1 + FP4_BYTES] = scales
    for i in range(half):  # two values of each half of the block
        front, back = blocks[i::FP4_BYTES], blocks[half + i::FP4_BYTES]
        out[1 + 2 * i::1 + FP4_BYTES] = either(front.translate(LOW), back.translate(RAISED))
        out[2 + 2 * i::1 + FP4_BYTES] = either(front.translate(LOWERED), back.translate(HIGH))
    return bytes(out)


def either(a: bytes, b: bytes) -> bytes:
    """The bits of both, byte by byte."""
    return (int.from_bytes(a, 'little') | int.from_bytes(b, 'little')).to_bytes(len(a), 'little')


# ---- folders of Hugging Face ----

def stack_experts(path: str, tensors: dict, model: Model, family: Family, names: dict) -> None:
    """Puts the experts of a folder under the names that `names` has of them, each matrix in one tensor."""
    for layer in layers_with_experts(model):
        place = place_of(family, layer) if family.experts.layout == 'halves' else 'model.layers.%d.mlp.' % layer
        parts = {part: names[part] % layer for part in EXPERT_PARTS if part in names}
        router = place + 'gate.weight'  # which a family with a place of its own has in release 5, too
        if router in tensors:
            tensors[names['router'] % layer] = tensors.pop(router)
        if family.experts.layout == 'in_turns':
            stack_in_turns(path, tensors, model, place + 'experts.', parts)
        elif family.experts.layout == 'columns':
            stack_columns(path, tensors, model, place_of(family, layer) + 'experts.', parts)
        elif place + 'experts.gate_up_proj' in tensors or place + 'experts.down_proj' in tensors:
            stack_halves(path, tensors, model, place + 'experts.', parts)
        else:
            for part in EXPERT_PARTS[:3]:
                stack_one_by_one(path, tensors, model, one_expert(family, part, layer), part, parts[part])


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
    hidden, dim = model.expert_hidden_dim, model.dim
    shape = (dim, hidden) if part == 'experts_w2' else (hidden, dim)
    found = [take(path, tensors, pattern % e, shape) for e in range(model.n_experts)]
    other = next((tensor for tensor in found if tensor.dtype != found[0].dtype), None)
    if other:
        raise Problem(other.path, '%s is of another type than the first expert (found %s, expected %s)'
                      % (other.name, other.dtype, found[0].dtype))
    tensors[name] = Joined(found, 0)


def stack_halves(path, tensors, model, place, parts):
    """Gate and up in one tensor, gate first, as release 5 has them in memory."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    both = take(path, tensors, place + 'gate_up_proj', (n, 2 * hidden, dim))
    down = take(path, tensors, place + 'down_proj', (n, dim, hidden))
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
