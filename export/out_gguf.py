"""Writes GGUF for llama.cpp: named settings, the tensors' places, then their bytes; ggml's blocks are copied
unchanged."""

from __future__ import annotations

import os
import struct
from math import pi
from typing import Any, Callable, Iterator, List, Set, Tuple

from .existing import WRITTEN_BY
from .families import FAMILIES, Family, fits, gguf_of
from .gguf import STRING, TYPES, names_of
from .kinds import altup, expert_tensors, latent, layers, mamba, shapes, state_tensors, steps
from .model import Feature, Model, features_of
from .out_gguf_keys import ARRAY, BOOL, F32, I32, U32, keys_of, other_scores
from .out_model import Fused, family_of, rope_of
from .out_tokenizer import gguf_tokenizer
from .rows import Columns
from .tensors import BLOCKS, ITEM_SIZES, Checkpoint, Place, Scaled, Small, size_of_rows
from .write import most_used, pieces, plan_model

ALIGNMENT = 32
FILE_TYPES = {'F32': 0, 'F16': 1, 'Q4_0': 2, 'Q4_1': 3, 'Q8_0': 7, 'Q5_0': 8, 'Q5_1': 9, 'Q2_K': 10, 'Q3_K': 12,
              'Q4_K': 15, 'Q5_K': 17, 'Q6_K': 18, 'IQ4_NL': 25, 'IQ4_XS': 30, 'BF16': 32, 'MXFP4': 38,
              'IQ2_XXS': 19, 'IQ2_XS': 20, 'IQ3_XXS': 23, 'IQ3_S': 26, 'IQ2_S': 28, 'NVFP4': 39,
              'IQ5_K': 141}  # ik_llama.cpp's


def stays_in_gguf(checkpoint: Checkpoint, name: str) -> bool:
    """Whether GGUF has the type of a tensor."""
    return checkpoint.tensors[name].dtype in [*ITEM_SIZES, *BLOCKS]


def can_be(family: Family, found: Set[Feature]) -> bool:
    """Whether the family's architecture can express these features."""
    if not family.gguf:
        return False
    rule, own = gguf_of(family), family.gguf
    may = (family.may - own.cannot) | own.also | rule.ropes
    return fits(found, family.always | own.needs, family.sign - own.cannot, may)


def loading(model: Model) -> Callable[[Family, Set[Feature]], bool]:
    """can_be, limited to families that llama.cpp loads with heads of this width, if there are any."""
    wide = model.n_heads * model.head_dim != model.dim

    def also_loads(family: Family, found: Set[Feature]) -> bool:
        return can_be(family, found) and not (wide and gguf_of(family).square)

    found = features_of(model)
    return also_loads if any(family.runs and also_loads(family, found) for family in FAMILIES.values()) else can_be


def write_gguf(file: Any, checkpoint: Checkpoint, tokenizer: Any, name: str) -> None:
    path, model = checkpoint.path, checkpoint.model
    found = features_of(model)
    one = layers.sliding_model(model) if Feature.WITHOUT_ROPE in found and model.sliding_rope else model
    rope = rope_of(path, one)
    family = family_of(path, found, loading(model), "llama.cpp's that is known here")
    rule = gguf_of(family)
    architecture = model.n_experts and rule.with_experts or rule.architecture
    plan = plan_model(checkpoint, in_pairs=rule.adjacent)  # in latent attention pairs are adjacent
    plan = state_tensors.in_order(path, plan, model, rule.tiled)
    plan += shapes.unused_keys(plan, model) if rule.loads_unused else []
    if tokenizer and tokenizer.get('takes_spaces'):
        name = 'phi-3 ' + name  # tells llama.cpp that tokens absorb the spaces after them
    settings = {'general.architecture': (STRING, architecture), 'general.name': (STRING, name),
                'general.description': (STRING, 'written by ' + WRITTEN_BY),
                'general.file_type': (U32, FILE_TYPES[most_used(model)[0]]),
                'general.quantization_version': (U32, 2)}
    settings.update({'%s.%s' % (architecture, key): value
                     for key, value in keys_of(checkpoint.job, path, family, model, rope).items()})
    settings.update(steps.xielu_settings([place.tensor for place in plan if place.part == 'xielu']))
    settings.update(gguf_tokenizer(checkpoint.job, tokenizer, model))
    tensors = [*rope_tensors(rule, model, rope), *named_tensors(
        path, [place for place in plan if place.part != 'xielu'], family, model)]
    file.write(struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(settings)))
    for key, value in settings.items():
        file.write(text_of(key.encode()) + value_of(*value))
    write_tensors(file, tensors)


def rope_tensors(rule, model, rope):
    """Divisors of the frequencies that llama.cpp expects as tensors: longrope's lists, and those of Llama 3's rule."""
    if rope['kind'] == 'longrope':
        yield Small('rope_factors_long.weight', rope['long_factor']), False
        yield Small('rope_factors_short.weight', rope['short_factor']), False
    if rule.proportional:
        yield shapes.proportional_tensor(model, rope), False
    if rope['kind'] == 'llama3':
        r, divisors = model.turning, []
        low, high = rope['low_freq_factor'], rope['high_freq_factor']
        for i in range(r // 2):
            turns = rope['train_ctx'] * rope['theta'] ** (-2 * i / r) / (2 * pi)
            kept = min(max((turns - low) / (high - low), 0), 1) if high > low else turns > low
            divisors.append(1 / ((1 - kept) / rope['factor'] + kept))
        yield Small('rope_freqs.weight', divisors), False


def named_tensors(path: str, plan: List[Place], family: Family, model: Model) -> Iterator[Tuple[Any, bool]]:
    """(tensor with its name, whether it is a matrix). Some are fused, and a scale of scores that differs from
    llama.cpp's is put into the norm of queries."""
    rule = gguf_of(family)
    names, fused, scores = names_of(rule, model), Fused(path, family, rule.names), other_scores(rule, model)
    of_states = state_tensors.StatesOut(path, model, state_tensors.joined_out(family), rule.names.gate_in_queries)
    streams = altup.Whole(path, model)
    yield from ((tensor, False) for tensor in (steps.bare_norms(model, names) if rule.bare else ()))
    for place in plan:
        tensor = Scaled(place.tensor, scores) if place.part == 'q_norm' and scores != 1 else place.tensor
        if model.kv_rank and place.part in latent.ORDERED:
            tensor = latent.Reordered(tensor, latent.order_back(place.part, model))
        if model.kv_rank and place.part == 'wk':
            tensor = Columns([latent.as_floats(path, tensor)], model.n_heads)
        if place.part == 'state_decay':
            tensor = state_tensors.Decays(tensor, back=True)
        part, tensor = of_states.take(place.part, tensor)
        if tensor is None:
            continue
        of_all, tensor, n_streams = streams.take(part, tensor)
        if of_all and tensor:
            yield Named(of_all, tensor, n_streams), True
        if of_all or tensor is None:
            continue
        whole = fused.take(place, tensor)
        if whole is None:
            continue
        name = names.get(part, part) if whole is tensor else 'blk.%d.' + fused.name_of(place.part)
        name = name if place.layer is None else name % place.layer
        axis = model.n_experts if place.part in expert_tensors.EXPERT_PARTS else 0
        axis = model.n_heads if model.kv_rank and place.part == 'wv' else axis or mamba.axis_of(model, place.part)
        yield Named(name, whole, axis), place.is_matrix


class Named:
    """A tensor under a name; with an axis for experts if there are n_experts."""

    def __init__(self, name: str, whole: Any, n_experts: int):
        self.name, self.dtype, self.shape, self.read = name, whole.dtype, whole.shape, whole.read
        if n_experts:
            self.shape = (n_experts, whole.shape[0] // n_experts, *whole.shape[1:])


# ---- the file ----

def text_of(data):
    return struct.pack('<Q', len(data)) + data


def value_of(kind, value):
    """A setting's type and value; for a list, which is (type of its items, items), each item's value."""
    if kind == STRING:
        return struct.pack('<I', kind) + text_of(value if isinstance(value, bytes) else value.encode())
    if kind != ARRAY:
        return struct.pack('<I' + {U32: 'I', I32: 'i', F32: 'f', BOOL: '?'}[kind], kind, value)
    item, values = value
    data = b''.join(map(text_of, values)) if item == STRING else struct.pack(
        '<%d%s' % (len(values), {I32: 'i', F32: 'f', BOOL: '?'}[item]), *values)
    return struct.pack('<IIQ', kind, item, len(values)) + data


def write_tensors(file, tensors):
    """Names, shapes (the innermost axis first), types and places; then the bytes, each tensor at a multiple of 32."""
    numbers, at, sizes = {name: number for number, name in TYPES.items()}, 0, []
    for tensor, is_matrix in tensors:
        dtype = tensor.dtype if is_matrix else 'F32'
        file.write(text_of(tensor.name.encode()) + struct.pack(
            '<I%dQIQ' % len(tensor.shape), len(tensor.shape), *tensor.shape[::-1], numbers[dtype], at))
        sizes.append(size_of_rows(dtype, tensor.shape))
        at += sizes[-1] + -sizes[-1] % ALIGNMENT
    file.write(bytes(-file.tell() % ALIGNMENT))
    for (tensor, is_matrix), size in zip(tensors, sizes):
        for chunks in pieces(tensor, is_matrix):
            for chunk in chunks:
                file.write(chunk)
        file.write(bytes(-size % ALIGNMENT))
    file.flush()


def name_of(source: str) -> str:
    """The name that llama.cpp shows."""
    stem = os.path.basename(os.path.normpath(source))
    return ''.join(c for c in os.path.splitext(stem)[0] if c.isprintable()) or 'model'
