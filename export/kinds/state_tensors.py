"""The tensors of layers with a state, in both directions.

In folders some families have several of our matrices in one, ordered by key head; families whose attention has a
gate have its rows in q_proj, after the queries of each head. GGUF files have -exp(A_log) for the decay of the delta
rule, and Qwen 3.5's files interleave its value heads: one for each key head in turn, over and over."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import exp, log
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..common import Problem
from ..families import Family
from ..model import STATE, Model
from ..names import names_in
from ..rows import ByHead, Taken
from ..tensors import BLOCKS, ITEM_SIZES, AnyTensor, Joined, Made, Place, Tensors, bytes_of, widen

QKVZ, BA = 'model.layers.%d.linear_attn.in_proj_qkvz.weight', 'model.layers.%d.linear_attn.in_proj_ba.weight'
# The parts of both, by key head.
JOINED, BOTH_SMALL = ('state_in', 'state_gate'), ('state_beta', 'state_step')
GGUF_QKVZ, GGUF_BA = 'blk.%d.ssm_in.weight', 'blk.%d.ssm_ba.weight'
GATE = 'blk.%d.attn_q.gate'  # not a tensor of a file: it is part of attn_q


def names_of(family: Family) -> Dict[str, str]:
    """The library's names of its tensors."""
    rule = family.states
    names = names_in('hugging_face', rule.kind)
    return {part: name.replace('PLACE', rule.place or '') for part, name in names.items()}


# ---- in ----

def reshaped(tensor: Any, shape: Tuple[int, ...]) -> Any:
    return tensor._replace(shape=shape) if hasattr(tensor, '_replace') else tensor


def joined_of(family: Family) -> Dict[str, Tuple[str, ...]]:
    """The fused matrices of a folder, and their parts."""
    return {QKVZ: JOINED, BA: BOTH_SMALL} if family.states and family.states.joined else {}


def take_states(path: str, tensors: Tensors, model: Model, names: Dict[str, str], joined: Dict[str, Tuple[str, ...]],
                gate_in_queries: bool) -> None:
    """Converts a source's tensors to our order; those of `joined` are split."""
    for layer in range(model.n_layers):
        conv = names.get('state_conv', '%d') % layer
        found = tensors.get(conv)
        if found and found.shape == (model.state_channels, 1, model.conv_width):
            tensors[conv] = reshaped(found, (model.state_channels, model.conv_width))
        gate = names.get('shared_gate', '%d') % layer
        if gate in tensors and tensors[gate].shape == (1, model.dim):
            tensors[gate] = reshaped(tensors[gate], (model.dim,))
        for pattern, parts in joined.items() if model.layer_flags[layer] & STATE else ():
            if any(names[part] % layer not in tensors for part in parts):
                take_joined(path, tensors, model, pattern % layer, {part: names[part] % layer for part in parts})
        if gate_in_queries and not model.layer_flags[layer] & STATE:
            for part, gate in ('wq', 'wg'), ('bq', 'bg'):
                if part in names and gate in names:
                    take_gate(tensors, model, names[part] % layer, names[gate] % layer)


@dataclass(frozen=True)
class HalfOfHeads:
    """One half of each head's rows, or elements: the first, or the second."""
    name: str
    tensor: Any
    n_heads: int
    second: bool

    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)
    size = property(lambda self: self.tensor.size // 2)
    shape = property(lambda self: (self.tensor.shape[0] // 2, *self.tensor.shape[1:]))

    def read(self, first: int = 0, count: Optional[int] = None) -> Iterator[bytes]:
        """The bytes from `first` on."""
        half = self.size // self.n_heads
        end = self.size if count is None else first + count
        while first < end:
            head, at = divmod(first, half)
            wanted = min(half - at, end - first)
            yield from self.tensor.read((2 * head + self.second) * half + at, wanted)
            first += wanted


def take_gate(tensors: Tensors, model: Model, name: str, gate: str) -> None:
    """Splits the queries of each head from the gate after them."""
    both, head = tensors.get(name), model.head_dim
    if both and both.shape[0] == 2 * model.n_heads * head:  # otherwise it is refused later
        tensors[name] = HalfOfHeads(name, both, model.n_heads, False)
        tensors[gate] = HalfOfHeads(gate, both, model.n_heads, True)


def take_joined(path: str, tensors: Tensors, model: Model, name: str, names: Dict[str, str]) -> None:
    """Splits a matrix with queries, keys, values and gates of each key head one below the other, or with both small
    matrices: {part: its name}."""
    n, key, heads = model.state_key_heads, model.state_key_dim, model.state_value_heads // model.state_key_heads
    values, at = heads * model.state_value_dim, 0
    pieces: List[AnyTensor] = []
    sizes = (key, key, values, values) if 'state_in' in names else (heads, heads)
    whole = tensors.pop(name, None)
    if not whole or whole.shape != (n * sum(sizes), model.dim):
        raise Problem(path, '%s does not fit the configuration (found %s, expected %s)' % (
            name, list(whole.shape) if whole else 'none', [n * sum(sizes), model.dim]))
    for rows in sizes:
        pieces.append(Taken(whole.name, whole, n, sum(sizes), range(at, at + rows)))
        at += rows
    if 'state_in' in names:
        pieces = [Joined(pieces[:3]), pieces[3]]
    tensors.update(zip(names.values(), pieces))


# ---- out ----

@dataclass(frozen=True)
class Shaped:
    """A tensor with as many numbers in another shape."""
    tensor: Any
    shape: Tuple[int, ...]

    name = property(lambda self: self.tensor.name)
    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)

    def read(self) -> Iterator[bytes]:
        return self.tensor.read()


class StatesOut:
    """Gathers tensors that are fused in the output: those of `joined`, and queries with their gates."""

    def __init__(self, path: str, model: Model, joined: Dict[str, Tuple[str, ...]], gate_in_queries: bool) -> None:
        self.path, self.model, self.gate_in_queries = path, model, gate_in_queries
        self.joined = {part: (name, parts) for name, parts in joined.items() for part in parts}
        self.waiting: Dict[str, Any] = {}

    def take(self, part: str, tensor: Any) -> Tuple[str, Any]:
        """The part whose name is used, or the pattern of a name; and the tensor, None while others are missing."""
        if self.gate_in_queries and part in ('wq', 'bq', 'wg', 'bg'):
            return self.gather('bq' if part[0] == 'b' else 'wq', part, tensor, (part[0] + 'q', part[0] + 'g'),
                               self.model.n_heads)
        if part in self.joined:
            name, parts = self.joined[part]
            return self.gather(name, part, tensor, parts, self.model.state_key_heads)
        return part, tensor

    def gather(self, name: str, part: str, tensor: Any, parts: Tuple[str, ...], n_heads: int) -> Tuple[str, Any]:
        if tensor.dtype not in ITEM_SIZES and tensor.dtype not in BLOCKS:
            raise Problem(self.path, '%s is %s, which cannot be in one matrix with others (expected floats or blocks '
                          'of ggml)' % (tensor.name, tensor.dtype))
        self.waiting[part] = tensor
        if not all(each in self.waiting for each in parts):
            return name, None
        found = [self.waiting.pop(each) for each in parts]
        if len({each.dtype for each in found}) > 1:
            raise Problem(self.path, '%s and %s are of two types (found %s, expected one, since they go into one '
                          'matrix)' % (*parts, ' and '.join(each.dtype for each in found)))
        if parts[0] == 'state_in':
            found = [*self.cut(found[0]), found[1]]
        return name, ByHead(found, n_heads)

    def cut(self, tensor: Any) -> List[Any]:
        """Queries, keys and values of all heads."""
        model = self.model
        keys = model.state_key_heads * model.state_key_dim
        return [Rows(tensor, 0, keys), Rows(tensor, keys, keys), Rows(tensor, 2 * keys, model.state_width)]


@dataclass(frozen=True)
class Rows(Made):
    """Some rows of a matrix."""
    first: int
    count: int

    shape = property(lambda self: (self.count, *self.tensor.shape[1:]))

    def read(self) -> Iterator[bytes]:
        row = bytes_of(self.tensor) // self.tensor.shape[0]
        return self.tensor.read(self.first * row, self.count * row)


def in_shape(model: Model, part: str, tensor: Any) -> Any:
    """A tensor with the additional axes that folders have."""
    if part == 'state_conv':
        return Shaped(tensor, (model.state_channels, 1, model.conv_width))
    return Shaped(tensor, (1, model.dim)) if part == 'shared_gate' else tensor


# ---- the order of value heads ----

BY_VALUE = 'state_gate', 'state_beta', 'state_step', 'state_decay', 'state_dt'  # tensors with rows for value heads only


def order_of(model: Model) -> Tuple[int, ...]:
    """The order that the model does not have now: the present number of each value head."""
    n_keys, of_key = model.state_key_heads, model.state_value_heads // model.state_key_heads
    if model.state_tiled:
        return tuple(j % of_key * n_keys + j // of_key for j in range(n_keys * of_key))
    return tuple(j % n_keys * of_key + j // n_keys for j in range(n_keys * of_key))


def in_order(path: str, plan: List[Place], model: Model, tiled: bool) -> List[Place]:
    """The tensors of a model that is exported, with its value heads interleaved (tiled) or adjacent."""
    if model.state_key_heads == model.state_value_heads or bool(model.state_tiled) == tiled:
        return plan
    order, keys = order_of(model), 2 * model.state_key_heads * model.state_key_dim
    placed = []
    for place in plan:
        tensor = place.tensor
        if place.part in ('state_in', 'state_conv'):
            tensor = HeadsMoved(tensor, order, keys)
        elif place.part in BY_VALUE:
            tensor = HeadsMoved(tensor, order, 0)
        elif place.part == 'state_out':
            if model.state_value_dim % BLOCKS.get(tensor.dtype, (1,))[0]:
                raise Problem(path, '%s is %s, whose blocks are not whole in a head of %d (expected floats, since '
                              'value heads stand in another order there)' % (
                                  tensor.name, tensor.dtype, model.state_value_dim))
            tensor = ColumnHeadsMoved(tensor, order)
        placed.append(place._replace(tensor=tensor))
    return placed


@dataclass(frozen=True)
class HeadsMoved(Made):
    """The rows, or elements, of heads in another order, after `fixed` ones that stay: new head i is old head
    order[i]."""
    order: Tuple[int, ...]
    fixed: int

    size = property(lambda self: bytes_of(self.tensor))

    def read(self, first: int = 0, count: Optional[int] = None) -> Iterator[bytes]:
        """The bytes from `first` on."""
        row = self.size // self.shape[0]
        fixed, head = self.fixed * row, (self.shape[0] - self.fixed) // len(self.order) * row
        whole = b''.join(self.tensor.read()) if len(self.shape) == 1 else b''
        end = self.size if count is None else first + count
        while first < end:
            number, inside = divmod(first - fixed, head)
            at, most = (first, fixed - first) if first < fixed else (
                fixed + self.order[number] * head + inside, head - inside)
            wanted = min(most, end - first)
            if whole:
                yield whole[at:at + wanted]
            else:
                yield from self.tensor.read(at, wanted)
            first += wanted


@dataclass(frozen=True)
class ColumnHeadsMoved(Made):
    """The columns of heads in another order. Blocks lie within a head."""
    order: Tuple[int, ...]

    size = property(lambda self: bytes_of(self.tensor))

    def read(self) -> Iterator[bytes]:
        rows = self.shape[0]
        row = self.size // rows
        head, at_once = row // len(self.order), max(1, (1 << 20) // row)
        for first in range(0, rows, at_once):
            count = min(at_once, rows - first)
            data = b''.join(self.tensor.read(first * row, count * row))
            yield b''.join(data[at + i * head:at + (i + 1) * head] for at in range(0, len(data), row)
                           for i in self.order)


# ---- GGUF ----

@dataclass(frozen=True)
class Decays(Made):
    """A_log in place of -exp(A_log), or the reverse."""
    back: bool = False

    dtype = 'F32'

    def read(self) -> Iterator[bytes]:
        chunks = self.tensor.read()
        data = b''.join(chunks if self.tensor.dtype == 'F32' else widen(chunks, self.tensor.dtype))
        values = struct.unpack('<%df' % (len(data) // 4), data)
        if not self.back and not all(value < 0 for value in values):
            raise Problem(self.path, '%s has a number that is not below 0 (expected -exp(A_log))' % self.name)
        yield struct.pack('<%df' % len(values), *(-exp(min(value, 88)) if self.back else log(-value)
                                                  for value in values))


def take_decays(tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    for layer, flags in enumerate(model.layer_flags):
        name = names['state_decay'] % layer
        if flags & STATE and name in tensors:
            tensors[name] = Decays(tensors[name])


def gguf_joined(family: Family) -> Dict[str, Tuple[str, ...]]:
    """The fused matrices and their parts: older files of Qwen3-Next have both, newer ones the second."""
    return {GGUF_QKVZ: JOINED, **joined_out(family)} if family.states and family.states.joined else {}


def joined_out(family: Family) -> Dict[str, Tuple[str, ...]]:
    """The fused matrices of newer files."""
    return {GGUF_BA: BOTH_SMALL} if family.states and family.states.joined else {}
