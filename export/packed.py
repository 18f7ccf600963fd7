"""Rows that lie side by side in model.bin, so that it runs faster: eight rows of blocks have their bytes in another
order, and nothing else. src/weights/packed.c draws it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, List, Optional, Tuple

from .common import CHUNK
from .kinds.expert_tensors import EXPERT_PARTS
from .model import Model
from .tensors import BLOCKS, Made, Tensor, size_of_rows

ROWS, PACKED = 8, 128  # rows of a group; what is added to the type in the type table
# The types, and where a block has what is no word of four bytes: a float16, or in MXFP4 a byte; None: nowhere.
RESTS = {'Q4_0': 0, 'Q4_K': None, 'Q5_K': None, 'Q6_K': 208, 'IQ4_NL': 0, 'IQ4_XS': None, 'MXFP4': 0, 'IQ5_K': None}


def may_pack(model: Model, part: str, dtype: str, shape: Tuple[int, ...]) -> bool:
    """Whether rows of a matrix are faster side by side: not where they are looked up one by one."""
    looked_up = part == 'per_layer_embedding' or part == 'embedding' and not model.shared_classifier
    looked_up = looked_up or model.kv_rank and part in ('wk', 'wv')
    of_one = shape[0] // model.n_experts if part in EXPERT_PARTS else shape[0]
    fits = of_one % ROWS == 0 if part in EXPERT_PARTS else of_one >= ROWS
    return dtype in RESTS and fits and not looked_up


def in_groups(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in chunks that are multiples of `size`, but for the last one."""
    left = b''
    for chunk in chunks:
        left = left + chunk if left else chunk
        whole = len(left) // size * size
        if whole:
            yield left[:whole]
            left = left[whole:]
    if left:
        yield left


def woven(rows: List[array]) -> bytes:
    """Items of the rows in turn."""
    out = array(rows[0].typecode, bytes(ROWS * len(rows[0]) * rows[0].itemsize))
    for i, row in enumerate(rows):
        out[i::ROWS] = row
    return out.tobytes()


def unwoven(data: bytes, kind: str) -> List[array]:
    items = array(kind, data)
    return [items[i::ROWS] for i in range(ROWS)]


def in_turn(*runs: Tuple[bytes, int]) -> bytes:
    """So many bytes of each run, until they are at their ends."""
    count = len(runs[0][0]) // runs[0][1]
    return b''.join(data[i * n:(i + 1) * n] for i in range(count) for data, n in runs)


def item_of(size: int) -> str:
    """The items of blocks of so many bytes: of one byte, or of two."""
    return 'B' if size % 2 else 'H'


def packed_group(data: bytes, dtype: str) -> bytes:
    """Eight consecutive rows, put side by side."""
    size, rest = BLOCKS[dtype][1], RESTS[dtype]
    row = len(data) // ROWS
    rows = [data[i * row:(i + 1) * row] for i in range(ROWS)]
    if rest is None:
        return woven([array('I', each) for each in rows])
    items, scales = [array(item_of(size), each) for each in rows], []
    width = items[0].itemsize
    every = slice(rest // width, None, size // width)
    for each in items:
        scales.append(each[every])
        del each[every]
    words = woven([array('I', each.tobytes()) for each in items]), ROWS * (size - width)
    woven_scales = woven(scales), ROWS * width
    return in_turn(words, woven_scales) if rest else in_turn(woven_scales, words)


def parted_group(data: bytes, dtype: str) -> bytes:
    """The way back."""
    size, rest = BLOCKS[dtype][1], RESTS[dtype]
    if rest is None:
        return b''.join(each.tobytes() for each in unwoven(data, 'I'))
    kind = item_of(size)
    width = array(kind).itemsize
    blocks = range(0, len(data), ROWS * size)
    first, scale = 0 if rest else ROWS * width, ROWS * rest
    words = unwoven(b''.join(data[at + first:at + first + ROWS * (size - width)] for at in blocks), 'I')
    scales = unwoven(b''.join(data[at + scale:at + scale + ROWS * width] for at in blocks), kind)
    return b''.join(with_scales(array(kind, w.tobytes()), s, size // width, rest // width)
                    for w, s in zip(words, scales))


def with_scales(others: array, scales: array, size: int, place: int) -> bytes:
    """Blocks of so many items, of which the scale is the one at `place`."""
    out = array(scales.typecode, bytes((len(others) + len(scales)) * scales.itemsize))
    out[place::size] = scales
    for i in range(size - 1):
        out[i + (i >= place)::size] = others[i::size - 1]
    return out.tobytes()


def each_group(data: bytes, dtype: str, columns: int, change: Callable[[bytes, str], bytes]) -> bytes:
    """A change of each whole group of rows. The rest after the last group stays."""
    size = ROWS * size_of_rows(dtype, (columns,))
    whole = len(data) // size * size
    return b''.join(change(data[at:at + size], dtype) for at in range(0, whole, size)) + data[whole:]


@dataclass(frozen=True)
class Packed(Made):
    """A matrix whose rows come side by side."""

    def read(self) -> Iterator[bytes]:
        columns = self.shape[-1]
        for chunk in in_groups(self.tensor.read(), ROWS * size_of_rows(self.dtype, (columns,))):
            yield each_group(chunk, self.dtype, columns, packed_group)


class Parted(Tensor):
    """A matrix whose rows lie side by side in its file, and are read one after the other."""

    def read(self, first: int = 0, count: Optional[int] = None, step: int = CHUNK) -> Iterator[bytes]:
        size = ROWS * size_of_rows(self.dtype, self.shape[-1:])
        end = self.size if count is None else first + count
        at = first // size * size
        stop = min(-(-end // size) * size, self.size)
        groups = in_groups(super().read(at, stop - at, max(step // size, 1) * size), size)
        for chunk in groups:
            data = each_group(chunk, self.dtype, self.shape[-1], parted_group)
            yield data[max(first - at, 0):max(end - at, 0)]
            at += len(chunk)
