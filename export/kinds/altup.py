"""Streams beside the residual stream, and a learned residual (AltUp and LAuReL, as in Gemma 3n): their keys in
config.json and GGUF, and their tensors, in both directions. GGUF has the matrices of all streams in one tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..common import MAX_WIDTH, Job, Keys, Problem
from ..families import Family, Gguf
from ..model import Feature, Model
from ..names import names_in
from ..tensors import ITEM_SIZES, U32, Joined, Made, Tensors, computed, size_of_rows
from .key_rows import Row, read_config, written_config

MAX_STREAMS = 8
STREAMS, RANK, CLIP = 'altup_num_inputs', 'laurel_rank', 'altup_coef_clip'
ROWS = (Row('altup_streams', 'altup.num_inputs', STREAMS, MAX_STREAMS, 2), Row('laurel_rank', '', RANK, MAX_WIDTH))
TABLES = 'altup_router', 'altup_predict', 'altup_correct'  # two-dimensional, but float32
WHOLE = {'altup_in': 'altup_proj.weight', 'altup_out': 'altup_unembd_proj.weight'}  # GGUF's, of all streams
# llama.cpp's constants, since it reads no keys: streams, the inner width of the residual, the width of per-layer
# embeddings.
FIXED = {'altup_streams': 4, 'laurel_rank': 64, 'per_layer_dim': 256}
KEPT = 20  # number of layers with their own keys there


def names_of(kind: str, model: Model) -> Dict[str, str]:
    """The names in a kind of source, with %d for the layer; for GGUF, names of the matrices of each stream after the
    split."""
    if not model.altup_streams:
        return {}
    start = {part: name + '.%d' for part, name in WHOLE.items()}
    if kind == 'hugging_face':
        start = {'altup_in': 'model.altup_projections.%d.weight',
                 'altup_out': 'model.altup_unembed_projections.%d.weight'}
    return {**names_in(kind, 'altup'), **{'%s_%d' % (part, i): name % i for part, name in start.items()
                                          for i in range(model.altup_streams - 1)}}


def is_once(part: str) -> bool:
    """Whether a part belongs to the model as a whole, not to each layer."""
    return part.startswith(('altup_in_', 'altup_out_'))


# ---- model.bin ----

def once(model: Model) -> Iterator[Tuple[str, Optional[int], Tuple[int, ...]]]:
    """The model's own tensors, in the file's order."""
    for part in WHOLE:
        for i in range(model.altup_streams - 1):
            yield '%s_%d' % (part, i), None, (model.dim, model.dim)


def of_layer(model: Model) -> List[Tuple[Any, str, Tuple[int, ...]]]:
    """Whether a layer has a tensor, its part, its shape."""
    n, dim, rank = model.altup_streams, model.dim, model.laurel_rank
    return [(n, 'altup_norm', (dim,)), (n, 'altup_router', (n, dim)), (n, 'altup_predict', (n * n, n)),
            (n, 'altup_correct', (n, n)), (n, 'altup_scale', (dim,)), (n, 'laurel_in', (rank, dim)),
            (n, 'laurel_out', (dim, rank)), (n, 'laurel_after', (dim,))]


def refused(values: Dict[str, Any]) -> List[Tuple[str, bool, str]]:
    """Rules of a header: a field, whether it is valid, and the expected values."""
    n, rank = values['altup_streams'], values['laurel_rank']
    return [('altup_streams', n != 1, '0, or 2 to %d' % MAX_STREAMS),
            ('laurel_rank', bool(rank) == bool(n), '1 or more with altup_streams, else 0'),
            ('per_layer_dim', bool(values['per_layer_dim']) or not n, '1 or more with altup_streams'),
            ('norm_place', not n or values['norm_place'] == 2, '2 with altup_streams'),
            *((field, not n or not values[field], '0 with altup_streams') for field in (
                'layer_scale', 'encoding', 'kv_rank', 'state_kind'))]


# ---- config.json ----

def from_config(config: Keys, family: Family) -> Dict[str, Any]:
    return read_config(config, family, ROWS) if Feature.ALTUP in family.always else {}


def to_config(model: Model) -> Dict[str, Any]:
    return written_config(model, ROWS) if model.altup_streams else {}


@dataclass(frozen=True)
class Clipped(Made):
    """Numbers clipped to between -most and most, as Hugging Face's class does with these weights."""
    most: float

    dtype = 'F32'

    def read(self) -> Iterator[bytes]:
        return computed(self.tensor, lambda value: max(-self.most, min(self.most, value)))


@dataclass(frozen=True)
class Padded(Made):
    """A table with fewer tokens than the model, whose remaining tokens are for images and sound and get zeros."""
    rows: int

    @property
    def shape(self) -> Tuple[int, ...]:
        return (self.rows, *self.tensor.shape[1:])

    @property
    def size(self) -> int:
        return size_of_rows(self.dtype, self.shape)

    def read(self) -> Iterator[bytes]:
        yield from self.tensor.read()
        missing = self.rows - self.tensor.shape[0]
        for _ in range(missing):
            yield bytes(prod(self.shape[1:]) * ITEM_SIZES[self.dtype])


def resized(table: Any, rows: int) -> Any:
    if table.shape[0] <= rows:
        return table if table.shape[0] == rows else Padded(table, rows)
    return table._replace(size=table.size // table.shape[0] * rows, shape=(rows, *table.shape[1:]))


def take_folder(tensors: Tensors, model: Model, family: Family, names: Dict[str, str], rows: int) -> None:
    """Clips the tensors that the class clips, and gives the table of per-layer embeddings, which has `rows` rows, as
    many rows as the model has tokens."""
    table = names.get('per_layer_embedding', '')
    found = tensors.get(table) if model.per_layer_dim else None
    if found and found.shape == (rows, model.n_layers * model.per_layer_dim) and found.dtype in ITEM_SIZES:
        tensors[table] = resized(found, model.vocab_size)
    for layer in range(model.n_layers if model.altup_streams else 0):
        name = names['altup_correct'] % layer
        if name in tensors and tensors[name].dtype in ITEM_SIZES:
            tensors[name] = Clipped(tensors[name], family.default(CLIP))


# ---- GGUF ----

def from_gguf(keys: Keys, family: Family, model: Model, tensors: Tensors) -> Dict[str, Any]:
    """The fields. The inner width of the residual follows from its tensor."""
    if Feature.ALTUP not in family.always:
        return {}
    keys.only('altup.active_idx', 0)
    streams = keys.integer('altup.num_inputs', MAX_STREAMS, low=2)
    narrow = tensors.get('blk.0.laurel_l.weight')
    if not narrow or len(narrow.shape) != 2 or not 0 < narrow.shape[0] <= MAX_WIDTH:
        raise Problem(keys.path, 'blk.0.laurel_l.weight is missing or not a matrix')
    return {'altup_streams': streams, 'laurel_rank': narrow.shape[0]}


def take_gguf(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """Splits the one tensor into the matrices of the streams."""
    n = model.altup_streams - 1
    for part, whole in WHOLE.items() if model.altup_streams else ():
        tensor = tensors.pop(whole, None)
        if not tensor or tensor.shape != (n, model.dim, model.dim):
            raise Problem(path, '%s does not fit the configuration (found %s, expected %s)' % (
                whole, list(tensor.shape) if tensor else 'no such tensor', [n, model.dim, model.dim]))
        size = tensor.size // n
        for i in range(n):
            name = names['%s_%d' % (part, i)]
            tensors[name] = tensor._replace(name=name, start=tensor.start + i * size, size=size,
                                            shape=tensor.shape[1:])


def to_gguf(job: Job, rule: Gguf, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys, with a note if llama.cpp uses other numbers."""
    if not model.altup_streams:
        return {}
    for field, number in FIXED.items():
        if getattr(model, field) != number:
            job.note('llama.cpp does not load architecture %s with a %s of %d, only with one of %d' % (
                rule.architecture, field, getattr(model, field), number))
    if sum(shape.kv_layer == layer for layer, shape in enumerate(model.layer_shapes)) != min(KEPT, model.n_layers):
        job.note('llama.cpp assumes that in architecture %s only the first %d layers have their own keys'
                 % (rule.architecture, KEPT))
    return {'altup.num_inputs': (U32, model.altup_streams), 'altup.active_idx': (U32, 0)}


class Whole:
    """Gathers the matrices of all streams into GGUF's tensors."""

    def __init__(self, path: str, model: Model) -> None:
        self.path, self.n, self.parts = path, model.altup_streams - 1, {}

    def take(self, part: str, tensor: Any) -> Tuple[str, Any, int]:
        """A part's name in GGUF, its tensor, and the number of matrices in it; no tensor while some are missing."""
        if not is_once(part):
            return '', tensor, 0
        whole = part.rpartition('_')[0]
        found = self.parts.setdefault(whole, [])
        found.append(tensor)
        if len(found) < self.n:
            return '', None, 0
        if len({each.dtype for each in found}) > 1:
            raise Problem(self.path, '%s is of several types (found %s, expected one, since GGUF has it in one tensor)'
                          % (whole, ', '.join(each.dtype for each in found)))
        return WHOLE[whole], Joined(found), self.n
