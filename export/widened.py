"""ggml's blocks of 32 as float32, for matrices whose rows become columns: a block lies within a row."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Iterator, List

from .common import CHUNK
from .tensors import BLOCKS, Made

IQ4 = -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
WIDENED = 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'IQ4_NL'


@dataclass(frozen=True)
class Widened(Made):
    """The values of a tensor of such blocks. Rows consist of whole blocks."""

    dtype = 'F32'

    def read(self, first: int, count: int) -> Iterator[bytes]:
        """The bytes from `first` on; both arguments are for whole blocks."""
        values, size = BLOCKS[self.tensor.dtype]
        of_block = 4 * values
        chunks = self.tensor.read(first // of_block * size, count // of_block * size, CHUNK // size * size)
        for chunk in chunks:
            found = array('f')
            for at in range(0, len(chunk), size):
                found.extend(values_of(self.tensor.dtype, chunk[at:at + size]))
            yield found.tobytes()


def values_of(dtype: str, block: bytes) -> List[float]:
    """The values of one block: its scale comes first, then in some types an offset, the fifth bits, and the numbers."""
    scale, = struct.unpack_from('<e', block)
    if dtype == 'Q8_0':
        return [scale * q for q in struct.unpack_from('<32b', block, 2)]
    low = [b & 15 for b in block[-16:]] + [b >> 4 for b in block[-16:]]
    if dtype == 'IQ4_NL':
        return [scale * IQ4[q] for q in low]
    if dtype[1] == '5':
        fifth, = struct.unpack_from('<I', block, len(block) - 20)
        low = [q | (fifth >> i & 1) << 4 for i, q in enumerate(low)]
    if dtype[-1] == '1':
        offset, = struct.unpack_from('<e', block, 2)
        return [scale * q + offset for q in low]
    zero = 8 if dtype == 'Q4_0' else 16
    return [scale * (q - zero) for q in low]
