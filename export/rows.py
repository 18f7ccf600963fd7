"""Tensors that consist of rows, or columns, of another tensor in another order: some of each expert's, several parts in
one, outputs as columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Iterator, Tuple

from .common import CHUNK
from .tensors import ITEM_SIZES, Made, MadeOfParts, bytes_of, items


def some_rows(tensor, n_experts, of_one, taken, at_once):
    """The bytes of the rows in the range `taken`, among each expert's `of_one` rows, in a tensor with one expert below
    the other: `at_once` rows at a time, which belong to one expert."""
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
    """Some of each expert's rows, or elements, in a tensor that several matrices or vectors share."""
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


@dataclass(frozen=True)
class ByHead(MadeOfParts):
    """The rows of several parts, ordered by head: for each head, the parts one below the other."""
    n_heads: int

    shape = property(lambda self: (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:]))

    def read(self) -> Iterator[bytes]:
        sources = [in_pieces(part, self.n_heads) for part in self.parts]
        for _ in range(self.n_heads):
            for source in sources:
                yield next(source)


def in_pieces(tensor: Any, n: int) -> Iterator[bytes]:
    """The bytes of a tensor in n pieces of one size."""
    size, held = bytes_of(tensor) // n, bytearray()
    for chunk in tensor.read():
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]


@dataclass(frozen=True)
class Halves(MadeOfParts):
    """The rows of several parts of each expert, one part below the other."""
    n_experts: int

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
class Columns(MadeOfParts):
    """Floats of each expert with the outputs of several parts as columns, alternating or one part after the other, and
    inputs as rows: the parts have rows of inputs. Vectors have no inputs."""
    n_experts: int
    in_turns: bool = True

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
class ColumnsMoved(Made):
    """A matrix of floats with the columns of each head in another order: new column i is old column order[i]. Matrices
    that multiply values which are also keys need the order of keys."""
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
