"""The ways out of experts: as folders have them, one by one or as gpt-oss has them, and config.json's keys."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Iterator, List, Tuple

from .common import Problem
from .experts import (EXPERT_PARTS, FP4_BYTES, FP4_VALUES, HIGH, LOW, LOWERED, RAISED, either, items,
                      layers_with_experts, one_expert, place_of)
from .families import Experts, Family
from .model import DENSE, Model
from .tensors import BLOCKS, ITEM_SIZES, Checkpoint
from .write import Place

NOT_CONVERTED = ['model.layers.*.self_attn', 'model.layers.*.mlp.router', 'model.embed_tokens', 'lm_head']

def keeps_mxfp4(checkpoint: Checkpoint) -> bool:
    """Whether the experts go into a folder of gpt-oss in MXFP4: when all of their matrices are of it."""
    names = [checkpoint.names[part] % layer for part in EXPERT_PARTS[:3]
             for layer in layers_with_experts(checkpoint.model)]
    return bool(names and checkpoint.model.expert_bias) and all(
        checkpoint.tensors[name].dtype == 'MXFP4' for name in names)


def config_of_experts(path: str, family: Family, model: Model) -> Dict[str, Any]:
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
    start = place_of(family, places['experts_w2'].layer) + 'experts.'
    for name, numbers in ('gate_up_proj', '13'), ('down_proj', '2'):
        parts = [places['experts_w' + number].tensor for number in numbers]
        other = next((part for part in parts if part.dtype not in ITEM_SIZES or part.dtype != parts[0].dtype), None)
        if other:
            raise Problem(path, '%s%s is %s, which cannot be there (expected floats of one type)' % (
                start, name, other.dtype))
        yield start + name, Columns(parts, n, False) if rule.layout == 'columns' else Halves(parts, n), True


@dataclass(frozen=True)
class Halves:
    """The rows of several parts of each expert, one part below the other."""
    parts: List[Any]
    n_experts: int

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = property(lambda self: self.parts[0].dtype)

    @property
    def shape(self) -> Tuple[int, ...]:
        rows, columns = self.parts[0].shape
        return self.n_experts, len(self.parts) * rows // self.n_experts, columns

    def read(self) -> Iterator[bytes]:
        size = self.parts[0].size // self.n_experts
        for expert in range(self.n_experts):
            for part in self.parts:
                yield from part.read(expert * size, size)


@dataclass(frozen=True)
class Columns:
    """Floats of each expert with the outputs of several parts as columns, in turns or one part behind the other, and
    inputs as rows: the parts have rows of inputs. Vectors have no inputs."""
    parts: List[Any]
    n_experts: int
    in_turns: bool = True

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = property(lambda self: self.parts[0].dtype)
    of_one = property(lambda self: self.parts[0].shape[0] // self.n_experts)
    shape = property(lambda self: (self.n_experts, *self.parts[0].shape[1:], len(self.parts) * self.of_one))

    def read(self) -> Iterator[bytes]:
        columns, inputs = self.shape[-1], prod(self.shape[1:-1])
        row = inputs * ITEM_SIZES[self.dtype]
        for expert in range(self.n_experts):
            values = items(self.dtype)
            values.frombytes(bytes(row * columns))
            for i, part in enumerate(self.parts):
                data = items(self.dtype)
                for chunk in part.read(expert * self.of_one * row, self.of_one * row):
                    data.frombytes(chunk)
                first, step = (i, len(self.parts)) if self.in_turns else (i * self.of_one, 1)
                for output in range(self.of_one):
                    values[first + output * step::columns] = data[output * inputs:(output + 1) * inputs]
            yield values.tobytes()


@dataclass(frozen=True)
class InTurns:
    """The blocks or the scales of several parts in MXFP4, with a row of each in turns, in the order of nibbles that
    published folders have: export/experts.py draws both."""
    parts: List[Any]
    n_experts: int
    is_blocks: bool

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = 'U8'

    @property
    def shape(self) -> Tuple[int, ...]:
        rows, columns = self.parts[0].shape
        shape = self.n_experts, len(self.parts) * rows // self.n_experts, columns // FP4_VALUES
        return (*shape, FP4_BYTES) if self.is_blocks else shape

    def read(self) -> Iterator[bytes]:
        rows, columns = self.parts[0].shape
        size = columns // FP4_VALUES * BLOCKS['MXFP4'][1]
        for first in range(0, rows, 256):
            count = min(256, rows - first)
            parts = [b''.join(part.read(first * size, count * size)) for part in self.parts]
            data = b''.join(part[i:i + size] for i in range(0, count * size, size) for part in parts)
            yield in_published_order(data) if self.is_blocks else data[::BLOCKS['MXFP4'][1]]


def in_published_order(data):
    """What ggml's blocks hold behind their scales, with neighbors in a byte."""
    half, step = FP4_BYTES // 2, BLOCKS['MXFP4'][1]
    out = bytearray(len(data) // step * FP4_BYTES)
    for i in range(half):
        even, odd = data[1 + 2 * i::step], data[2 + 2 * i::step]
        out[i::FP4_BYTES] = either(even.translate(LOW), odd.translate(RAISED))
        out[half + i::FP4_BYTES] = either(even.translate(LOWERED), odd.translate(HIGH))
    return bytes(out)
