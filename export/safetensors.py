"""safetensors: eight bytes of length, a JSON header of that length, then the tensors' bytes without a gap."""

from __future__ import annotations

from math import prod

from .common import TEXT_LIMIT, Job, Keys, Problem, parse_json, size_of
from .tensors import ITEM_SIZES, Tensor, Tensors


def read_safetensors(job: Job, path: str) -> Tensors:
    """A file's tensors by name, every length and offset checked against its size."""
    total = size_of(job, path)
    with open(path, 'rb') as file:
        length = int.from_bytes(file.read(8), 'little')
        limit = max(0, min(total - 8, TEXT_LIMIT))
        if total == 0:
            raise Problem(path, 'is empty (expected a safetensors file; was a download cut short?)')
        if total < 8 or length > limit:
            raise Problem(path, 'has a bad header length (found %d, expected at most %d)' % (length, limit))
        header = parse_json(path, file.read(length))
    header.pop('__metadata__', None)
    tensors = {}
    for name, entry in header.items():
        entry = Keys(job, path, entry if isinstance(entry, dict) else {}, name + ': ')
        dtype = entry.get('dtype', lambda v: isinstance(v, str), 'a type')
        shape, offsets = (entry.get(key, lambda v: isinstance(v, list) and len(v) <= 8 and all(
            type(x) is int and 0 <= x < 2 ** 63 for x in v), 'whole numbers') for key in ('shape', 'data_offsets'))
        if len(offsets) != 2 or offsets[0] > offsets[1]:
            entry.refuse('data_offsets', 'a begin and an end')
        size = offsets[1] - offsets[0]
        if dtype in ITEM_SIZES and size != prod(shape) * ITEM_SIZES[dtype]:
            entry.refuse('data_offsets', 'a span of %d bytes' % (prod(shape) * ITEM_SIZES[dtype]))
        tensors[name] = Tensor(name, path, 8 + length + offsets[0], size, dtype, tuple(shape))
    at = 8 + length
    for tensor in sorted(tensors.values(), key=lambda t: (t.start, t.size)):
        if tensor.start != at:
            raise Problem(path, '%s overlaps another tensor or leaves a gap (found at byte %d, expected at %d)'
                          % (tensor.name, tensor.start, at))
        at += tensor.size
    if at != total:
        raise Problem(path, 'is cut short or too long (found %d bytes, expected %d)' % (total, at))
    return tensors
