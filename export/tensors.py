"""The bytes of tensors, and their conversion to the order and the type of model.bin. Bytes are copied; the only
arithmetic is widening, which is exact, and changes to Gemma's norms: 1 + w, or a scale of its scores."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Protocol, Tuple

from .common import CHUNK, Job, Problem
from .model import Model

ITEM_SIZES = {'F32': 4, 'F16': 2, 'BF16': 2}
BLOCKS = {  # ggml's: values of a block, its bytes
    'Q4_0': (32, 18), 'Q4_1': (32, 20), 'Q5_0': (32, 22), 'Q5_1': (32, 24), 'Q8_0': (32, 34), 'Q2_K': (256, 84),
    'Q3_K': (256, 110), 'Q4_K': (256, 144), 'Q5_K': (256, 176), 'Q6_K': (256, 210), 'IQ4_NL': (32, 18),
    'IQ4_XS': (256, 136), 'MXFP4': (32, 17), 'IQ2_XXS': (256, 66), 'IQ2_XS': (256, 74), 'IQ2_S': (256, 82),
    'IQ3_XXS': (256, 98), 'IQ3_S': (256, 110), 'NVFP4': (64, 36), 'IQ5_K': (256, 176)}
TYPE_NAMES = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16', 'Q8': 'q8', **{name: name for name in BLOCKS}}


def size_of_rows(dtype: str, shape: Tuple[int, ...]) -> int:
    """The bytes of a tensor of this type, one of ITEM_SIZES or BLOCKS, whose rows are whole blocks."""
    values, size = BLOCKS.get(dtype) or (1, ITEM_SIZES[dtype])
    return prod(shape[:-1]) * (shape[-1] // values * size)


class AnyTensor(Protocol):
    """The interface for writing a tensor. The classes below, and some in kinds/, are sources of its bytes."""

    @property
    def name(self) -> Any:
        """Its name in the source."""

    @property
    def path(self) -> Any:
        """The file, for messages."""

    @property
    def dtype(self) -> Any:
        """As in Tensor."""

    @property
    def shape(self) -> Any:
        """Rows and columns, for a matrix."""

    def read(self) -> Iterator[bytes]:
        """Its bytes, in chunks."""
        raise NotImplementedError


U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # types of GGUF's keys
Tensors = Dict[str, Any]  # AnyTensor objects by name


def bytes_of(tensor: AnyTensor) -> int:
    """The number of bytes of a tensor of floats or blocks."""
    return size_of_rows(tensor.dtype, tensor.shape)


class Checkpoint(NamedTuple):
    """The result of reading any source."""
    job: Job
    path: str      # for messages
    model: Model   # the header's fields
    tensors: Tensors  # by the names that the source has for them
    names: Dict[str, str]  # the source's name of each of our tensors, %d for the layer
    paired: bool   # whether the pairs that RoPE rotates are already adjacent rows


class Tensor(NamedTuple):
    """A tensor in one piece. Its dtype is one of ITEM_SIZES or BLOCKS, or Q8 (int8 values, then a float32 scale for
    each group), or the source's name of a type that cannot be read."""
    name: str
    path: str
    start: int
    size: int
    dtype: str
    shape: Tuple[int, ...]

    def read(self, first: int = 0, count: Optional[int] = None, step: int = CHUNK) -> Iterator[bytes]:
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


class Place(NamedTuple):
    """A tensor and its place in the model."""
    part: str
    layer: Optional[int]  # None: of the whole model
    tensor: Any
    is_matrix: bool


@dataclass(frozen=True)
class MadeOfParts:
    """A tensor made of several others, with the name, file and type of the first."""
    parts: List[Any]

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = property(lambda self: self.parts[0].dtype)


@dataclass(frozen=True)
class Joined(MadeOfParts):
    """A tensor with the rows of several, one after the other."""

    @property
    def shape(self) -> Tuple[int, ...]:
        return (sum(part.shape[0] for part in self.parts), self.parts[0].shape[1])

    def read(self) -> Iterator[bytes]:
        for part in self.parts:
            yield from part.read()


XIELU_NUMBERS = (('alpha_p', (1,)), ('alpha_n', (1,)), ('beta', ()), ('eps', ()))  # and their shapes


@dataclass(frozen=True)
class Numbers:
    """A few numbers that were collected from other tensors, or will be one."""
    name: str
    path: str
    dtype: str
    shape: Tuple[int, ...]
    data: bytes

    def read(self) -> Iterator[bytes]:
        yield self.data


def gather_numbers(path: str, tensors: Tensors, name: str) -> None:
    """Joins xIELU's four numbers, each a tensor whose name begins with `name`, into one tensor."""
    found = [tensors.pop(name + each, None) for each, _ in XIELU_NUMBERS]
    for (each, shape), tensor in zip(XIELU_NUMBERS, found):
        if not tensor or tensor.shape not in (shape, (1,)) or tensor.dtype != found[0].dtype:
            raise Problem(tensor.path if tensor else path, '%s%s does not fit the configuration (found %s, expected a '
                          'number%s)' % (name, each, '%s %s' % (tensor.dtype, list(tensor.shape)) if tensor else
                                         'no such tensor', ' of the type of the others' if found[0] else ''))
    tensors[name] = Numbers(name, found[0].path, found[0].dtype, (len(found),),
                            b''.join(chunk for tensor in found for chunk in tensor.read()))


def numbers_of(tensor: Any) -> List[Tuple[str, Numbers]]:
    """The reverse: the name of each number, and its tensor."""
    data, size = b''.join(tensor.read()), ITEM_SIZES[tensor.dtype]
    return [(each, Numbers(each, tensor.path, tensor.dtype, shape, data[i * size:i * size + size]))
            for i, (each, shape) in enumerate(XIELU_NUMBERS)]


def split(path: str, tensors: Tensors, name: str, parts: Dict[str, int]) -> None:
    """Splits a matrix with several parts, one below the other, into the parts: their names and rows."""
    whole, rows = tensors.pop(name, None), sum(parts.values())
    if not whole:
        raise Problem(path, '%s is missing (found no such tensor, expected %d rows)' % (name, rows))
    if len(whole.shape) != 2 or whole.shape[0] != rows:
        raise Problem(whole.path, '%s does not fit the configuration (found %s, expected %d rows)'
                      % (name, list(whole.shape), rows))
    row, at = whole.size // rows, whole.start
    for part, count in parts.items():
        tensors[part] = whole._replace(name=part, start=at, size=count * row, shape=(count, whole.shape[1]))
        at += count * row


@dataclass(frozen=True)
class Small:
    """A tensor that is not in a file: float32 numbers from settings."""
    name: str
    values: List[float]

    path, dtype = '', 'F32'
    shape = property(lambda self: (len(self.values),))

    def read(self) -> Iterator[bytes]:
        yield struct.pack('<%df' % len(self.values), *self.values)


@dataclass(frozen=True)
class Made:
    """A tensor made from another, with its name, file, type and shape unless a subclass changes them."""
    tensor: Any

    name = property(lambda self: self.tensor.name)
    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)
    shape = property(lambda self: self.tensor.shape)


@dataclass(frozen=True)
class Paired(Made):
    """A matrix or vector of query or key heads, in which the two halves of a head's rotating part are interleaved into
    adjacent pairs, or separated again: new row i of a head is old row order[i]."""
    order: Tuple[int, ...]

    def read(self) -> Iterator[bytes]:
        row, size = self.tensor.size // self.shape[0], len(self.order)  # blocks lie within a row, so bytes are copied
        for head in range(0, self.shape[0], size):
            rows = b''.join(self.tensor.read(head * row, size * row))
            yield b''.join(rows[i * row:(i + 1) * row] for i in self.order)


def in_pairs_of(head_dim: int, turning: int, apart: int, back: bool = False) -> Tuple[int, ...]:
    """The order of a head's rows: new row 2i is old row i, new row 2i + 1 is old row i + apart, for the `turning` rows
    that rotate; the others follow in their order. Or, `back`, the inverse."""
    first = [i // 2 + i % 2 * apart for i in range(turning)]
    order = first + sorted(set(range(head_dim)) - set(first))
    return tuple(sorted(range(head_dim), key=order.__getitem__) if back else order)


@dataclass(frozen=True)
class Shifted(Made):
    """A norm's weights plus a number, in float32 as in Hugging Face. Gemma's classes multiply by 1 + w; every other
    program stores that sum as w."""
    by: int

    dtype = 'F32'

    def read(self) -> Iterator[bytes]:
        return computed(self.tensor, lambda value: value + self.by)


@dataclass(frozen=True)
class Scaled(Made):
    """A norm's weights times a number, in float32."""
    by: float

    dtype = 'F32'

    def read(self) -> Iterator[bytes]:
        return computed(self.tensor, lambda value: value * self.by)


def computed(tensor, formula):
    """Applies a formula to each number, in float32."""
    chunks = tensor.read()
    for chunk in chunks if tensor.dtype == 'F32' else widen(chunks, tensor.dtype):
        values = struct.unpack('<%df' % (len(chunk) // 4), chunk)
        yield struct.pack('<%df' % len(values), *map(formula, values))


@dataclass(frozen=True)
class Narrowed:
    """Float32 numbers in a smaller type, which represents each of them exactly."""
    tensor: Any
    dtype: str

    name = property(lambda self: self.tensor.name)
    path = property(lambda self: self.tensor.path)
    shape = property(lambda self: self.tensor.shape)

    def read(self) -> Iterator[bytes]:
        return narrow(self.tensor.read(), self.dtype)


def narrowed(tensor: AnyTensor, dtype: str) -> AnyTensor:
    """A tensor in a smaller type if that represents it exactly, else unchanged."""
    if tensor.dtype != 'F32' or dtype == 'F32':
        return tensor
    try:
        exact = all(chunk == wide for chunk in tensor.read() for wide in widen(narrow([chunk], dtype), dtype))
    except OverflowError:  # from float16
        exact = False
    if exact:
        return Narrowed(tensor, dtype)
    return tensor


@lru_cache(maxsize=16)  # the largest number of parts of a release
def opened(path):
    return open(path, 'rb', buffering=0)


def same_bytes(a: AnyTensor, b: AnyTensor) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and all(x == y for x, y in zip_longest(a.read(), b.read()))


def narrow(chunks, dtype):
    """Float32 numbers in a smaller type; for bfloat16, the upper halves."""
    for chunk in chunks:
        if dtype == 'BF16':
            out = bytearray(len(chunk) // 2)
            out[0::2], out[1::2] = chunk[2::4], chunk[3::4]
            yield out
        else:
            values = struct.unpack('<%df' % (len(chunk) // 4), chunk)
            yield struct.pack('<%de' % len(values), *values)


def widen(chunks: Iterable[bytes], dtype: str) -> Iterator[bytes]:
    """The same values in float32, exactly."""
    for chunk in chunks:
        count = len(chunk) // 2
        if dtype == 'BF16':  # the upper half of a float32
            wide = bytearray(4 * count)
            wide[2::4], wide[3::4] = chunk[0::2], chunk[1::2]
            yield bytes(wide)
        else:
            yield struct.pack('<%df' % count, *struct.unpack('<%de' % count, chunk))


def items(dtype: str) -> array[int]:
    """An empty array with items of this type's size, which are copied without being interpreted."""
    return array('I' if ITEM_SIZES[dtype] == array('I').itemsize else 'H')


def rounded(value: float, dtype: str) -> float:
    """A number rounded to this type."""
    value, = struct.unpack('<f', struct.pack('<f', value))
    if dtype == 'F16':
        return struct.unpack('<e', struct.pack('<e', value))[0]
    if dtype != 'BF16':
        return value
    bits, = struct.unpack('<I', struct.pack('<f', value))
    bits += 0x7fff + (bits >> 16 & 1)  # to the nearest, and a tie to the even one
    return struct.unpack('<f', struct.pack('<I', bits & 0xffff0000))[0]
