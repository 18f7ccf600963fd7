"""Where a tensor's bytes lie, and how they come out in the order and the type of model.bin. Bytes are moved; the only
arithmetic is widening, which is exact."""

import struct
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import NamedTuple

from .common import CHUNK, Problem

ITEM_SIZES = {'F32': 4, 'F16': 2, 'BF16': 2}
BLOCKS = {  # ggml's: values of a block, its bytes
    'Q4_0': (32, 18), 'Q4_1': (32, 20), 'Q5_0': (32, 22), 'Q5_1': (32, 24), 'Q8_0': (32, 34), 'Q2_K': (256, 84),
    'Q3_K': (256, 110), 'Q4_K': (256, 144), 'Q5_K': (256, 176), 'Q6_K': (256, 210), 'IQ4_NL': (32, 18),
    'IQ4_XS': (256, 136), 'MXFP4': (32, 17)}
TYPE_NAMES = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16', 'Q8': 'q8', **{name: name for name in BLOCKS}}


class Checkpoint(NamedTuple):
    """What every source gives."""
    path: str      # for messages
    model: dict    # the header's fields, by the names of docs/format.md
    tensors: dict  # by the names that the source has for them
    names: dict    # the source's name of each of our tensors, %d for the layer
    paired: bool   # whether the pairs that RoPE turns are adjacent rows already


class Tensor(NamedTuple):
    """A tensor that lies in one piece. Its dtype is one of ITEM_SIZES or BLOCKS, or Q8 (int8 values, then a float32
    scale for each group), or what the source calls it when we cannot read it."""
    name: str
    path: str
    start: int
    size: int
    dtype: str
    shape: tuple

    def read(self, first=0, count=None, step=CHUNK):
        """The bytes from `first` on, in chunks of `step`."""
        left = self.size if count is None else count
        try:
            file = opened(self.path)
            file.seek(self.start + first)
            while left:
                wanted = min(left, step)
                chunk = file.read(wanted)
                left -= len(chunk)
                if len(chunk) < wanted:
                    raise Problem(self.path, 'ends inside %s (%d bytes are missing)' % (self.name, left))
                yield chunk
        except OSError as error:
            raise Problem(self.path, 'cannot be read (%s)' % error.strerror)


class Joined(NamedTuple):
    """A tensor that is dealt out over several files, by rows (axis 0) or by columns (axis 1)."""
    parts: list
    axis: int

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = property(lambda self: self.parts[0].dtype)

    @property
    def shape(self):
        rows, columns = self.parts[0].shape
        return (rows * len(self.parts), columns) if self.axis == 0 else (rows, columns * len(self.parts))

    def read(self):
        if self.axis == 0:
            for part in self.parts:
                yield from part.read()
            return
        rows = self.parts[0].shape[0]
        width = self.parts[0].size // rows  # bytes of a row that one part has
        step = max(1, CHUNK // (width * len(self.parts)))
        for row in range(0, rows, step):
            count = min(step, rows - row)
            pieces = [b''.join(part.read(row * width, count * width)) for part in self.parts]
            yield b''.join(piece[i * width:(i + 1) * width] for i in range(count) for piece in pieces)


@lru_cache(maxsize=16)  # as many parts as the largest release has
def opened(path):
    return open(path, 'rb', buffering=0)


def same_bytes(a, b):
    return (a.dtype, a.shape) == (b.dtype, b.shape) and all(x == y for x, y in zip_longest(a.read(), b.read()))


def read_paired(tensor, head_dim):
    """The rows of a query or key matrix, each head's two halves brought together in adjacent pairs: new row 2i is
    the head's old row i, new row 2i + 1 its old row i + head_dim / 2. Blocks lie within a row, so bytes are moved."""
    row = tensor.size // tensor.shape[0]
    for head in range(0, tensor.shape[0], head_dim):
        rows = b''.join(tensor.read(head * row, head_dim * row))
        for i in range(head_dim // 2):
            yield rows[i * row:(i + 1) * row]
            yield rows[(i + head_dim // 2) * row:(i + head_dim // 2 + 1) * row]


def widen(chunks, dtype):
    """The same values in float32, exactly."""
    for chunk in chunks:
        count = len(chunk) // 2
        if dtype == 'BF16':  # the upper half of a float32
            wide = bytearray(4 * count)
            wide[2::4], wide[3::4] = chunk[0::2], chunk[1::2]
            yield wide
        else:
            yield struct.pack('<%df' % count, *struct.unpack('<%de' % count, chunk))
