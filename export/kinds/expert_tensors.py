"""Experts' tensors, which are stacked one below the other; in both directions.

In model.bin the rows of all experts of a layer are one matrix for each of w1 (gate), w3 (up) and w2 (down). Folders
have them one by one, fused, or as in gpt-oss: rows of gate and up alternate, either as floats, transposed (inputs by
outputs), or in MXFP4. In GGUF, tensors have an axis for the expert; older files of Mixtral have a tensor for each
expert."""

from __future__ import annotations

from math import prod
from typing import Any, Dict, Iterator, List, Tuple

from ..common import Problem
from ..families import Family
from ..model import RELU2, Model, layers_with_experts
from ..mxfp4 import FP4_BYTES, FP4_VALUES, InTurns, Repacked
from ..rows import Columns, Halves, Taken, Transposed
from ..tensors import ITEM_SIZES, Checkpoint, Joined, Place, Tensor, Tensors

EXPERT_PARTS = 'experts_w1', 'experts_w3', 'experts_w2', 'experts_b1', 'experts_b3', 'experts_b2'
SHARED_PARTS = 'shared_w1', 'shared_w3', 'shared_w2'


# ---- folders of Hugging Face ----

def stack_experts(path: str, tensors: dict, model: Model, family: Family, names: dict) -> None:
    """Stacks the experts of a folder into one tensor for each matrix, under the names in `names`."""
    for layer in layers_with_experts(model):
        place = place_of(family, layer) if family.experts.layout == 'halves' else 'model.layers.%d.mlp.' % layer
        parts = {part: names[part] % layer for part in EXPERT_PARTS if part in names}
        router = place + 'gate.weight'  # the name in release 5, even in a family with another place
        if router in tensors:
            tensors[names['router'] % layer] = tensors.pop(router)
        if family.experts.layout == 'linear':
            stack_halves(path, tensors, model, place_of(family, layer), parts, ('input_linear.weight',
                                                                                'output_linear.weight'))
        elif family.experts.layout == 'in_turns':
            stack_in_turns(path, tensors, model, place + 'experts.', parts)
        elif family.experts.layout in ('columns', 'either'):
            stack_halves(path, tensors, model, place_of(family, layer) + 'experts.', parts,
                         layout=family.experts.layout)
        elif place + 'experts.gate_up_proj' in tensors or place + 'experts.down_proj' in tensors:
            stack_halves(path, tensors, model, place + 'experts.', parts)
        else:
            for part in EXPERT_PARTS[:3] if model.activation != RELU2 else EXPERT_PARTS[1:3]:
                stack_one_by_one(path, tensors, model, one_expert(family, part, layer), part, parts[part])


def fused_of(family: Family, model: Model) -> Dict[str, List[str]]:
    """The matrices that a family fuses; the expert that every token uses may be its dense layer."""
    rule, fused = family.experts, family.names.fused
    if not (rule and rule.shared_is_dense and model.n_experts):
        return fused
    return {whole: ['shared_' + part if part in ('w1', 'w3') else part for part in parts]
            for whole, parts in fused.items()}


def place_of(family: Family, layer: int) -> str:
    """The place of a layer's experts."""
    place = family.experts.place
    return 'model.layers.%d.%s' % (layer, place + '.' if place else '')


def one_expert(family: Family, part: str, layer: int) -> str:
    """The name of a matrix of one expert, with %d for its number."""
    rule = family.experts
    return '%sexperts.%%d.%s.weight' % (place_of(family, layer), rule.names[EXPERT_PARTS.index(part)])


def stack_one_by_one(path, tensors, model, pattern, part, name):
    """Stacks matrices that are a separate tensor for each expert."""
    hidden, dim = model.expert_hidden_dim, model.expert_latent_dim or model.dim
    shape = (dim, hidden) if part == 'experts_w2' else (hidden, dim)
    found = [take(path, tensors, pattern % e, shape) for e in range(model.n_experts)]
    other = next((tensor for tensor in found if tensor.dtype != found[0].dtype), None)
    if other:
        raise Problem(other.path, '%s is of another type than the first expert (found %s, expected %s)'
                      % (other.name, other.dtype, found[0].dtype))
    tensors[name] = Joined(found)


def stack_halves(path, tensors, model, place, parts, names=('gate_up_proj', 'down_proj'), layout='halves'):
    """Splits gate and up in one tensor, gate first. Its rows are outputs, as in release 5's memory; or inputs; or
    either, according to the shape: published files of Qwen3-VL have inputs, and files saved by release 5 have
    outputs."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    for name, outputs, inputs, taken in (
            (names[0], 2 * hidden, dim, {'experts_w1': range(hidden), 'experts_w3': range(hidden, 2 * hidden)}),
            (names[1], dim, hidden, {'experts_w2': range(dim)})):
        shapes = {'halves': (n, outputs, inputs), 'columns': (n, inputs, outputs)}
        found = tensors.get(place + name)
        by_rows = layout == 'halves' or layout == 'either' and bool(found) and found.shape == shapes['halves']
        tensor = take(path, tensors, place + name, shapes['halves' if by_rows else 'columns'])
        for part, own in taken.items():
            tensors[parts[part]] = Taken(tensor.name, tensor, n, outputs, own) if by_rows else \
                Transposed(tensor.name, tensor, own)


def stack_in_turns(path, tensors, model, place, parts):
    """Splits alternating rows of gate and up, in floats or MXFP4, with biases."""
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
    """Removes a tensor of this shape from `tensors` and returns it. dtype None: floats."""
    tensor = tensors.pop(name, None)
    if not tensor:
        raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
    dtypes = [dtype] if dtype else list(ITEM_SIZES)
    if tensor.shape != shape or tensor.dtype not in dtypes or dtype and tensor.size != prod(shape):
        raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                      % (name, tensor.dtype, list(tensor.shape), ' or '.join(dtypes), list(shape)))
    return tensor


# ---- writing folders ----

def keeps_mxfp4(checkpoint: Checkpoint) -> bool:
    """Whether the experts are written into a folder of gpt-oss in MXFP4: if all of their matrices have that type."""
    names = [checkpoint.names[part] % layer for part in EXPERT_PARTS[:3]
             for layer in layers_with_experts(checkpoint.model)]
    return bool(names and checkpoint.model.expert_bias) and all(
        checkpoint.tensors[name].dtype == 'MXFP4' for name in names)


def one_by_one(family: Family, model: Model, place: Place) -> Iterator[Tuple[str, Any, bool]]:
    """(name, tensor, that it is a matrix) for each expert in a stacked tensor."""
    n, whole = model.n_experts, place.tensor
    pattern = one_expert(family, place.part, place.layer)
    rows, size = whole.shape[0] // n, whole.size // n
    for expert in range(n):
        part = whole._replace(start=whole.start + expert * size, size=size, shape=(rows, whole.shape[1]))
        yield pattern % expert, part, True


def in_turns(model: Model, places: Dict[str, Place]) -> Iterator[Tuple[str, Any, bool]]:
    """(name, tensor, whether its type is kept) for the experts of one layer of gpt-oss, {part: its place}."""
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
    """The tensors of experts whose gate and up are one tensor, gate first; rows are inputs or outputs."""
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


def stack_in_gguf(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """Gives the experts' matrices two axes, and their biases one, under the names in `names`."""
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
    """One tensor from the tensors of each expert."""
    for tensor, name in zip(found, names):
        if not tensor:
            raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
        if (tensor.shape, tensor.dtype) != (shape, found[0].dtype):
            raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                          % (name, tensor.dtype, list(tensor.shape), found[0].dtype, list(shape)))
    return Joined(found)


def in_two_axes(tensor, shape):
    """Merges the axes of experts and rows, if the shape is as expected; otherwise the tensor stays, and is refused
    later."""
    if tensor.shape != shape:
        raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s)'
                      % (tensor.name, tensor.dtype, list(tensor.shape), list(shape)))
    return tensor._replace(shape=(shape[0] * shape[1], *shape[2:]))


def split_halves(tensors, model, layer, names):
    """Splits gate and up of each expert in one tensor, gate first, into two."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    both = tensors.pop(GATE_AND_UP % layer, None)
    if both:
        both = in_two_axes(both, (n, 2 * hidden, dim))
        for part, first in ('experts_w1', 0), ('experts_w3', hidden):
            tensors[names[part] % layer] = Taken(both.name, both, n, 2 * hidden, range(first, first + hidden))
