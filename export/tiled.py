"""The order of a delta rule's value heads. In folders those of one key head stand side by side; in GGUF files of Qwen
3.5 one of each key head stands behind the other, over and over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

from .common import Problem
from .model import Model
from .tensors import BLOCKS, HEADS, Made, bytes_of
from .write import Place

BY_VALUE = 'state_gate', 'state_beta', 'state_step', 'state_decay', 'state_dt'  # what has rows for value heads alone


def order_of(model: Model) -> Tuple[int, ...]:
    """In the other order than the model has: the number that each value head has now."""
    n_keys, of_key = model.state_key_heads, model.state_value_heads // model.state_key_heads
    if model.state_tiled:
        return tuple(j % of_key * n_keys + j // of_key for j in range(n_keys * of_key))
    return tuple(j % n_keys * of_key + j // n_keys for j in range(n_keys * of_key))


def in_order(path: str, plan: List[Place], model: Model, tiled: bool) -> List[Place]:
    """The tensors of a model that goes out with its value heads in tiles, or side by side."""
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
            if tensor.dtype in HEADS or model.state_value_dim % BLOCKS.get(tensor.dtype, (1,))[0]:
                raise Problem(path, '%s is %s, whose blocks are not whole in a head of %d (expected floats, since '
                              'value heads stand in another order there)' % (
                                  tensor.name, tensor.dtype, model.state_value_dim))
            tensor = ColumnHeadsMoved(tensor, order)
        placed.append(place._replace(tensor=tensor))
    return placed


@dataclass(frozen=True)
class HeadsMoved(Made):
    """The rows, or elements, of heads in another order, behind `fixed` ones that stay: new head i is old head
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
    """The columns of heads in another order, whose blocks lie within a head."""
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
