"""Experts in MXFP4, in gpt-oss's published layout and in ggml's: the order of nibbles in a block, in both
directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, List, Tuple

from .common import CHUNK
from .rows import some_rows
from .tensors import BLOCKS, Tensor

FP4_VALUES, FP4_BYTES = 32, 16  # of a block, without its scale
# A nibble that stays in its place, or moves to the other half of the byte.
LOW, HIGH = bytes(b & 15 for b in range(256)), bytes(b & 240 for b in range(256))
RAISED, LOWERED = bytes((b & 15) << 4 for b in range(256)), bytes(b >> 4 for b in range(256))


@dataclass(frozen=True)
class Repacked:
    """Some of each expert's rows of published MXFP4, in ggml's blocks: the scale first, and value 16 + i next to value
    i in byte i; published blocks have two neighbors in a byte, the first in its low half."""
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


@dataclass(frozen=True)
class InTurns:
    """The blocks or the scales of several parts in MXFP4, with alternating rows of the parts, and the order of nibbles
    in published folders."""
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


def in_ggml_order(blocks, scales):
    """Published blocks and their scales as ggml's blocks."""
    half, out = FP4_BYTES // 2, bytearray((1 + FP4_BYTES) * len(scales))
    out[0::1 + FP4_BYTES] = scales
    for i in range(half):  # two values of each half of the block
        front, back = blocks[i::FP4_BYTES], blocks[half + i::FP4_BYTES]
        out[1 + 2 * i::1 + FP4_BYTES] = either(front.translate(LOW), back.translate(RAISED))
        out[2 + 2 * i::1 + FP4_BYTES] = either(front.translate(LOWERED), back.translate(HIGH))
    return bytes(out)


def in_published_order(data):
    """The bytes after the scales of ggml's blocks, with neighbors in the same byte."""
    half, step = FP4_BYTES // 2, BLOCKS['MXFP4'][1]
    out = bytearray(len(data) // step * FP4_BYTES)
    for i in range(half):
        even, odd = data[1 + 2 * i::step], data[2 + 2 * i::step]
        out[i::FP4_BYTES] = either(even.translate(LOW), odd.translate(RAISED))
        out[half + i::FP4_BYTES] = either(even.translate(LOWERED), odd.translate(HIGH))
    return bytes(out)


def either(a: bytes, b: bytes) -> bytes:
    """The bitwise or of both, byte by byte."""
    return (int.from_bytes(a, 'little') | int.from_bytes(b, 'little')).to_bytes(len(a), 'little')
