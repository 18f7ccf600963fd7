"""Packed rows of model.bin, which run faster: the bytes of the blocks of eight rows in another order.
src/weights/packed.c has a drawing."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Iterable, Iterator, List, Optional, Tuple

from .common import CHUNK
from .kinds.expert_tensors import EXPERT_PARTS
from .model import Model
from .tensors import BLOCKS, Made, Tensor, size_of_rows

ROWS, PACKED = 8, 128  # rows of a group; the flag in the type table
# The types, and the places in a block of parts that are not words of four bytes: float16, or in MXFP4 a byte.
RESTS = {'Q4_0': (0,), 'Q4_1': (0, 2), 'Q5_0': (0,), 'Q5_1': (0, 2), 'Q8_0': (0,), 'Q4_K': (), 'Q5_K': (),
         'Q6_K': (208,), 'IQ4_NL': (0,), 'IQ4_XS': (), 'MXFP4': (0,), 'IQ5_K': ()}
FIFTHS = 'Q5_0', 'Q5_1'  # their first word has a fifth bit of each of 32 weights
# A fifth bit moves from place i to place i % 4 * 8 + i // 4. Each swap exchanges two bits of the number of its place.
SWAPS = (4, 1), (3, 0), (1, 0), (2, 0)


def may_pack(model: Model, part: str, dtype: str, shape: Tuple[int, ...]) -> bool:
    """Whether packing makes a matrix faster: not if its rows are looked up one by one."""
    looked_up = part == 'per_layer_embedding' or part == 'embedding' and not model.shared_classifier
    looked_up = looked_up or model.kv_rank and part in ('wk', 'wv')
    of_one = shape[0] // model.n_experts if part in EXPERT_PARTS else shape[0]
    fits = of_one % ROWS == 0 if part in EXPERT_PARTS else of_one >= ROWS
    return dtype in RESTS and fits and not looked_up


def in_groups(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in chunks that are multiples of `size`, except the last one."""
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
    """Items of the rows, interleaved."""
    out = array(rows[0].typecode, bytes(ROWS * len(rows[0]) * rows[0].itemsize))
    for i, row in enumerate(rows):
        out[i::ROWS] = row
    return out.tobytes()


def unwoven(data: bytes, kind: str) -> List[array]:
    items = array(kind, data)
    return [items[i::ROWS] for i in range(ROWS)]


def in_turn(*runs: Tuple[bytes, int]) -> bytes:
    """So many bytes of each run in turn, until their ends."""
    if len(runs) == 1:
        return runs[0][0]
    count = len(runs[0][0]) // runs[0][1]
    return b''.join(data[i * n:(i + 1) * n] for i in range(count) for data, n in runs)


def item_of(size: int) -> str:
    """The type of items of blocks of this size: one byte, or two."""
    return 'B' if size % 2 else 'H'


@lru_cache(None)
def masks_of(count: int) -> List[Tuple[int, int]]:
    """For each swap: the distance of its bits, and a mask of the lower ones for `count` words."""
    masks = []
    for high, low in SWAPS:
        places = sum(1 << i for i in range(32) if i >> low & 1 > i >> high & 1)
        masks.append(((1 << high) - (1 << low), int.from_bytes(places.to_bytes(4, 'little') * count, 'little')))
    return masks


def reorder_fifths(rows: List[array], every: slice, back: bool = False) -> None:
    """Puts words of fifth bits into the order of packed rows, or (`back`) into that of blocks."""
    words = b''.join(row[every].tobytes() for row in rows)
    bits, masks = int.from_bytes(words, 'little'), masks_of(len(words) // 4)
    for apart, mask in reversed(masks) if back else masks:
        differ = (bits >> apart ^ bits) & mask
        bits ^= differ | differ << apart
    reordered = array('I', bits.to_bytes(len(words), 'little'))
    count = len(reordered) // len(rows)
    for i, row in enumerate(rows):
        row[every] = reordered[i * count:(i + 1) * count]


def runs_of(dtype: str) -> List[Tuple[int, int]]:
    """(place in a block, bytes) of the parts that lie together: each of the rests, then the words, or the other way
    round."""
    size, rests = BLOCKS[dtype][1], RESTS[dtype]
    width = array(item_of(size)).itemsize
    words = size - width * len(rests)
    if rests and rests[0] > 0:
        return [(0, words), (rests[0], width)]
    return [(rest, width) for rest in rests] + [(size - words, words)]


def packed_group(data: bytes, dtype: str) -> bytes:
    """Packs eight consecutive rows."""
    size, rests, row = BLOCKS[dtype][1], RESTS[dtype], len(data) // ROWS
    rows = [array(item_of(size), data[i * row:(i + 1) * row]) for i in range(ROWS)]
    width, runs = rows[0].itemsize, {}
    for taken, rest in enumerate(rests):
        every = slice(rest // width - taken, None, size // width - taken)
        runs[rest] = woven([each[every] for each in rows])
        for each in rows:
            del each[every]
    words = [array('I', each.tobytes()) for each in rows]
    if dtype in FIFTHS:
        reorder_fifths(words, slice(0, None, runs_of(dtype)[-1][1] // 4))
    return in_turn(*((runs.get(place) or woven(words), ROWS * count) for place, count in runs_of(dtype)))


def parted_group(data: bytes, dtype: str) -> bytes:
    """Unpacks eight rows."""
    size, rests = BLOCKS[dtype][1], RESTS[dtype]
    kind, runs = item_of(size), {}
    blocks = range(0, len(data), ROWS * size)
    for place, count in runs_of(dtype):
        first, end = ROWS * place, ROWS * (place + count)
        runs[place] = b''.join(data[at + first:at + end] for at in blocks)
    place, count = max(runs_of(dtype), key=lambda run: run[1])  # the words
    words = unwoven(runs[place], 'I')
    if dtype in FIFTHS:
        reorder_fifths(words, slice(0, None, count // 4), back=True)
    rows, width = [array(kind, each.tobytes()) for each in words], array(kind).itemsize
    for taken, rest in reversed(list(enumerate(rests))):
        rows = [with_items(row, items, size // width - taken, rest // width - taken)
                for row, items in zip(rows, unwoven(runs[rest], kind))]
    return b''.join(row.tobytes() for row in rows)


def with_items(others: array, added: array, size: int, place: int) -> array:
    """Blocks of `size` items, one of which is inserted at `place`."""
    out = array(added.typecode, bytes((len(others) + len(added)) * added.itemsize))
    out[place::size] = added
    for i in range(size - 1):
        out[i + (i >= place)::size] = others[i::size - 1]
    return out


def each_group(data: bytes, dtype: str, columns: int, change: Callable[[bytes, str], bytes]) -> bytes:
    """Changes each whole group of rows. The rows after the last group stay."""
    size = ROWS * size_of_rows(dtype, (columns,))
    whole = len(data) // size * size
    return b''.join(change(data[at:at + size], dtype) for at in range(0, whole, size)) + data[whole:]


@dataclass(frozen=True)
class Packed(Made):
    """A matrix whose rows are packed as they are read."""

    def read(self) -> Iterator[bytes]:
        columns = self.shape[-1]
        for chunk in in_groups(self.tensor.read(), ROWS * size_of_rows(self.dtype, (columns,))):
            yield each_group(chunk, self.dtype, columns, packed_group)


class Parted(Tensor):
    """A matrix whose rows are packed in its file, and are unpacked as they are read."""

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
