"""model.bin, versions 3 to 5: a checkpoint's tensors, checked against its configuration and written in the file's
order."""

from __future__ import annotations

import struct
from collections import Counter
from math import prod
from typing import Any, BinaryIO, Iterator, List, NamedTuple, Optional, Tuple

from .common import ENCODINGS, Problem
from .experts import layers_with_experts
from .model import Model
from .tensors import BLOCKS, ITEM_SIZES, Checkpoint, Paired, Shifted, same_bytes, widen

WEIGHT_TYPES = {'F32': 0, 'F16': 1, 'BF16': 2, 'Q8': 3, **{name: number for number, name in enumerate(BLOCKS, 5)}}
TURNED = 'wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'  # what has a row for each element of a query or key head
NORMS = 'attention_norm', 'attention_after', 'q_norm', 'k_norm', 'ffn_norm', 'ffn_after', 'final_norm'
HEADER = struct.Struct('<14I d i I 8i 2I 2d 4I 7d 11I 12x')
MORE = struct.Struct('<2I 2d 4I 7d 3d 9I 100x')  # what version 5 has behind it
MORE_FIELDS = ('sliding_rope sliding_method sliding_theta sliding_factor sliding_train_ctx sliding_ramp '
               'sliding_truncate sliding_rotary_dim sliding_beta_fast sliding_beta_slow sliding_attention_factor '
               'sliding_mscale sliding_mscale_all_dim sliding_low_freq_factor sliding_high_freq_factor '
               'temperature_beta embedding_scale score_scale norm_place activation n_experts n_experts_used '
               'expert_hidden_dim router router_bias expert_bias attention_sinks').split()
TABLES = 'learned', 'a_keys', 'a_values', 'router'  # of two dimensions, and float32 all the same


class Place(NamedTuple):
    """A tensor and what it is."""
    part: str
    layer: Optional[int]  # None: of the whole model
    tensor: Any
    is_matrix: bool


def tensor_order(model: Model) -> Iterator[Tuple[str, Optional[int], Tuple[int, ...]]]:
    """The tensors in the file's order: part, layer, shape."""
    dim, vocab = model.dim, model.vocab_size
    queries, keys = model.n_heads * model.head_dim, model.n_kv_heads * model.head_dim
    encoding, rows = ENCODINGS[model.encoding], model.encoding_rows
    before, after = model.norm_place != 1, model.norm_place > 0
    with_experts = set(layers_with_experts(model))
    normed = (queries, keys) if model.qk_norm == 2 else 2 * (model.head_dim,)
    yield 'embedding', None, (vocab, dim)
    if encoding == 'learned':
        yield 'learned', None, (rows, dim)
    for layer in range(model.n_layers):
        if before:
            yield 'attention_norm', layer, (dim,)
        yield 'wq', layer, (queries, dim)
        yield 'wk', layer, (keys, dim)
        yield 'wv', layer, (keys, dim)
        if model.qkv_bias:
            yield 'bq', layer, (queries,)
            yield 'bk', layer, (keys,)
            yield 'bv', layer, (keys,)
        if model.qk_norm:
            yield 'q_norm', layer, normed[:1]
            yield 'k_norm', layer, normed[1:]
        if encoding == 'shaw':
            yield 'a_keys', layer, (rows, model.head_dim)
            yield 'a_values', layer, (rows, model.head_dim)
        if encoding == 'transformer-xl':
            yield 'wr', layer, (keys, dim)
            yield 'u', layer, (queries,)
            yield 'v', layer, (queries,)
        yield 'wo', layer, (dim, queries)
        if model.o_bias:
            yield 'bo', layer, (dim,)
        if model.attention_sinks:
            yield 'sinks', layer, (model.n_heads,)
        if after:
            yield 'attention_after', layer, (dim,)
        if before:
            yield 'ffn_norm', layer, (dim,)
        for part, shape in feed_forward(model, layer in with_experts):
            yield part, layer, shape
        if after:
            yield 'ffn_after', layer, (dim,)
    yield 'final_norm', None, (dim,)
    if not model.shared_classifier:
        yield 'classifier', None, (vocab, dim)


def feed_forward(model, with_experts):
    """The tensors of a feed-forward layer: part, shape."""
    dim, hidden, n = model.dim, model.hidden_dim, model.n_experts
    if not with_experts:
        yield from (('w1', (hidden, dim)), ('w3', (hidden, dim)), ('w2', (dim, hidden)))
        return
    hidden = model.expert_hidden_dim
    yield 'router', (n, dim)
    if model.router_bias:
        yield 'router_bias', (n,)
    for number, rows, columns in ('1', n * hidden, dim), ('3', n * hidden, dim), ('2', n * dim, hidden):
        yield 'experts_w' + number, (rows, columns)
        if model.expert_bias:
            yield 'experts_b' + number, (rows,)


def plan_model(checkpoint: Checkpoint, in_pairs: bool = True) -> List[Place]:
    """Checks the checkpoint against its configuration and settles shared_classifier and weight_type. Returns a Place
    for each tensor, in the file's order, what turns of a head in adjacent pairs or in halves."""
    job, path, model, tensors, names, paired = checkpoint
    embedding, head = tensors.get(names['embedding']), tensors.get(names['classifier'])
    if model.tied and head and not embedding:  # Transformers ties from the one that is there,
        embedding = tensors[names['embedding']] = head
    model.shared_classifier = int(model.tied and (not head or same_bytes(embedding, head)))
    if model.tied and not model.shared_classifier:  # and does not tie two that differ
        job.note('%s differs from the embedding and is kept, though the two should be one' % names['classifier'])
    plan, known = [], {names['classifier']} if model.tied else set()
    for part, layer, shape in tensor_order(model):
        name = names[part] if layer is None else names[part] % layer
        if name not in tensors:
            raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
        tensor, is_matrix = tensors[name], len(shape) == 2 and part not in TABLES
        if tensor.shape != shape or tensor.dtype not in (WEIGHT_TYPES if is_matrix else ITEM_SIZES):
            raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                          % (name, tensor.dtype, list(tensor.shape), 'one of the types that run reads,' if is_matrix
                             else 'F32, F16 or BF16', list(shape)))
        if part in TURNED and paired != in_pairs:
            tensor = Paired(tensor, model.head_dim, model.rotary_dim or model.head_dim, paired)
        if part in NORMS and model.norms_lack_one:
            tensor = Shifted(tensor, 1)
        plan.append(Place(part, layer, tensor, is_matrix))
        known.add(name)
    for name, tensor in tensors.items():
        if name not in known:
            raise Problem(tensor.path, '%s has no place in model.bin (found %s %s, expected none such in this family)'
                          % (name, tensor.dtype, list(tensor.shape)))
    model.types = [place.tensor.dtype for place in plan if place.is_matrix]
    return plan


def most_used(model: Model) -> List[str]:
    """The types of the matrices, the one of most of them first."""
    return [dtype for dtype, _ in Counter(model.types).most_common()]


def write_model(file: BinaryIO, model: Model, plan: List[Place]) -> None:
    short, long, layers = model.short_factor, model.long_factor, model.layers
    types = [WEIGHT_TYPES[dtype] for dtype in model.types]
    new = [getattr(model, field) for field in ('rotary_dim', 'qkv_bias', 'o_bias', 'qk_norm', 'logn', 'encoding',
                                             'unscaled_positions')]
    new += [int(any(layers)), int(len(set(types)) > 1), model.encoding_rows]
    more = [getattr(model, field) for field in MORE_FIELDS]
    version = 5 if any(more) or model.qk_norm == 2 else 4 if any(new) or types[0] > 4 else 3
    file.write(HEADER.pack(
        0x616b3432, version, WEIGHT_TYPES[most_used(model)[0]],
        model.group_size, model.dim,
        model.hidden_dim, model.n_layers, model.n_heads, model.n_kv_heads, model.head_dim,
        model.vocab_size, model.seq_len, model.shared_classifier, model.sliding_window, model.norm_eps,
        model.bos_id, len(model.eos_ids), *(model.eos_ids + 8 * [0])[:8],
        model.rope_method, model.rope_dynamic, model.theta, model.factor,
        model.train_ctx, 0, model.truncate, 0,
        *(getattr(model, field) for field in ('beta_fast', 'beta_slow', 'attention_factor', 'mscale', 'mscale_all_dim',
                                            'low_freq_factor', 'high_freq_factor')), len(short), *new))
    if version == 5:
        file.write(MORE.pack(*more))
    file.write(struct.pack('<%dd' % len(short + long), *short, *long))
    file.write(bytes(layers if any(layers) else []) + bytes(types if new[-2] else []))
    for place in plan:
        for chunks in pieces(place.tensor, place.is_matrix):
            file.write(bytes(-file.tell() % 64))
            for chunk in chunks:
                file.write(chunk)
    file.write(bytes(-file.tell() % 64))
    file.flush()


def pieces(tensor: Any, is_matrix: bool) -> List[Iterator[bytes]]:
    """What a tensor is in the file: one run of bytes, or two when it is q8."""
    if tensor.dtype == 'Q8':
        count = prod(tensor.shape)
        return [tensor.read(0, count), tensor.read(count, tensor.size - count)]
    return [tensor.read() if is_matrix or tensor.dtype == 'F32' else widen(tensor.read(), tensor.dtype)]
