"""model.bin, versions 3 to 6: a checkpoint's tensors, checked against its configuration and written in the file's
order."""

from __future__ import annotations

import struct
from collections import Counter
from math import prod
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

from . import header
from .common import ENCODINGS, Problem
from .kinds import altup
from .model import (DELTA, KEYS_ARE_VALUES, MAMBA, RELU2, STATE, WITHOUT_SINKS, XIELU, Model, Shape,
                    layers_with_experts)
from .packed import PACKED, Packed, may_pack
from .rows import ColumnsMoved
from .tensors import BLOCKS, ITEM_SIZES, Checkpoint, Paired, Place, Shifted, in_pairs_of, same_bytes, widen

# Numbers of types in model.bin. The missing ones were removed in version 5.
WEIGHT_TYPES = {'F32': 0, 'F16': 1, 'BF16': 2, 'Q8': 3,
                **dict(zip(BLOCKS, (*range(5, 18), *range(20, 25), 29, 33)))}
REMOVED_TYPES = {18: 'IQ1_S', 19: 'IQ1_M', 25: 'TQ1_0', 26: 'TQ2_0', 27: 'Q1_0', 28: 'Q2_0', 30: 'IQ2_K', 31: 'IQ3_K',
                 32: 'IQ4_K', 34: 'IQ4_KS', 35: 'IQ5_KS'}
TURNED = 'wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'  # tensors with a row for each element of a query or key head
NORMS = 'attention_norm', 'attention_after', 'q_norm', 'k_norm', 'ffn_norm', 'ffn_after', 'final_norm'
# Two-dimensional, but float32.
TABLES = 'learned', 'a_keys', 'a_values', 'router', 'state_conv', *altup.TABLES


def tensor_order(model: Model) -> Iterator[Tuple[str, Optional[int], Tuple[int, ...]]]:
    """The tensors in the file's order: part, layer, shape."""
    dim, vocab, own = model.dim, model.vocab_size, model.per_layer_dim
    yield 'embedding', None, (vocab, dim)
    if ENCODINGS[model.encoding] == 'learned':
        yield 'learned', None, (model.encoding_rows, dim)
    if own:
        yield 'per_layer_embedding', None, (vocab, model.n_layers * own)
        yield 'per_layer_projection', None, (model.n_layers * own, dim)
        yield 'per_layer_norm', None, (own,)
    yield from altup.once(model)
    with_experts = set(layers_with_experts(model))
    for layer, shape in enumerate(model.layer_shapes):
        mixer = state(model) if model.layer_flags[layer] & STATE else \
            attention(model, layer, shape) if shape.n_heads else ()
        feeds = feed_forward(model, shape, layer in with_experts) if shape.hidden_dim else ()
        for there, part, size in (*mixer, *feeds, *layer_end(model)):
            if there:
                yield part, layer, size
    yield 'final_norm', None, (dim,)
    if not model.shared_classifier:
        yield 'classifier', None, (vocab, dim)


Part = Tuple[Any, str, Tuple[int, ...]]


def attention(model: Model, layer: int, shape: Shape) -> Iterator[Part]:
    """Whether a layer has a tensor, its part, its shape."""
    dim, flags = model.dim, model.layer_flags[layer]
    queries, keys = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    value_dim = model.value_dim or shape.head_dim
    values, mixed = shape.n_kv_heads * value_dim, shape.n_heads * value_dim
    has_keys = shape.kv_layer == layer
    has_values = has_keys and not flags & KEYS_ARE_VALUES
    source = model.kv_rank or dim
    if model.kv_rank:
        keys, values = shape.n_heads * (shape.head_dim - model.turning), mixed
    encoding, rows = ENCODINGS[model.encoding], model.encoding_rows
    whole, by_head = model.qk_norm == 2, model.qk_norm in (1, 2)
    gate = {0: 0, 3: shape.n_heads}.get(model.attention_gate, mixed)
    return iter((
        (model.norm_place != 1, 'attention_norm', (dim,)),
        (model.q_rank, 'wq_a', (model.q_rank, dim)),
        (model.latent_bias and model.q_rank, 'b_q_a', (model.q_rank,)),
        (model.q_rank, 'q_a_norm', (model.q_rank,)),
        (True, 'wq', (queries, model.q_rank or dim)),
        (model.kv_rank, 'wkv_a', (model.kv_rank + model.turning, dim)),
        (model.latent_bias, 'b_kv_a', (model.kv_rank + model.turning,)),
        (model.kv_rank, 'kv_a_norm', (model.kv_rank,)),
        (has_keys, 'wk', (keys, source)),
        (has_values, 'wv', (values, source)),
        (model.qkv_bias, 'bq', (queries,)),
        (model.qkv_bias and has_keys, 'bk', (keys,)),
        (model.qkv_bias and has_values, 'bv', (values,)),
        (by_head, 'q_norm', (queries if whole else shape.head_dim,)),
        (by_head and has_keys, 'k_norm', (keys if whole else shape.head_dim,)),
        (encoding == 'shaw', 'a_keys', (rows, shape.head_dim)),
        (encoding == 'shaw', 'a_values', (rows, shape.head_dim)),
        (encoding == 'transformer-xl', 'wr', (keys, dim)),
        (encoding == 'transformer-xl', 'u', (queries,)),
        (encoding == 'transformer-xl', 'v', (queries,)),
        (gate, 'wg', (gate, dim)),
        (model.gate_bias, 'bg', (gate,)),
        (True, 'wo', (dim, mixed)),
        (model.o_bias, 'bo', (dim,)),
        (model.attention_sinks and not flags & WITHOUT_SINKS, 'sinks', (shape.n_heads,)),
        (model.norm_place in (1, 2), 'attention_after', (dim,))))


def state(model: Model) -> Iterator[Part]:
    """The tensors of a layer with a state in place of attention."""
    dim, width, channels, heads = model.dim, model.state_width, model.state_channels, model.state_value_heads
    delta, mamba, biases = model.state_kind == DELTA, model.state_kind == MAMBA, model.state_bias
    rows = channels if delta else width + channels + heads if mamba else 3 * dim
    return iter((
        (model.norm_place != 1, 'attention_norm', (dim,)),
        (True, 'state_in', (rows, dim)),
        (biases, 'b_state_in', (rows,)),
        (delta, 'state_gate', (width, dim)),
        (delta, 'state_beta', (heads, dim)),
        (delta, 'state_step', (heads, dim)),
        (True, 'state_conv', (channels, model.conv_width)),
        (model.conv_bias if mamba else biases, 'b_state_conv', (channels,)),
        (delta or mamba, 'state_decay', (heads,)),
        (mamba, 'state_skip', (heads,)),
        (delta or mamba, 'state_dt', (heads,)),
        (delta or mamba, 'state_norm', (width if mamba else model.state_value_dim,)),
        (True, 'state_out', (dim, width)),
        (biases, 'b_state_out', (dim,)),
        (model.norm_place in (1, 2), 'attention_after', (dim,))))


def feed_forward(model: Model, shape: Shape, with_experts: bool) -> Iterator[Part]:
    """The tensors of a feed-forward layer."""
    dim = model.dim
    gated = model.activation not in (RELU2, XIELU)
    yield model.norm_place in (0, 2), 'ffn_norm', (dim,)
    yield from experts(model, gated) if with_experts else dense(model, shape.hidden_dim, gated)
    yield model.norm_place in (1, 2), 'ffn_after', (dim,)


def layer_end(model: Model) -> Iterator[Part]:
    dim, own = model.dim, model.per_layer_dim
    yield own, 'per_layer_gate', (own, dim)
    yield own, 'per_layer_out', (dim, own)
    yield own, 'per_layer_after', (dim,)
    yield model.layer_scale, 'scale', (1,)
    yield from altup.of_layer(model)


def dense(model: Model, hidden: int, gated: bool) -> Iterator[Part]:
    dim, biases = model.dim, model.ffn_bias
    return iter(((gated, 'w1', (hidden, dim)), (biases and gated, 'b1', (hidden,)), (True, 'w3', (hidden, dim)),
                 (biases, 'b3', (hidden,)), (True, 'w2', (dim, hidden)), (biases, 'b2', (dim,)),
                 (model.activation == XIELU, 'xielu', (4,))))


def experts(model: Model, gated: bool) -> Iterator[Part]:
    dim, n, hidden, shared = model.dim, model.n_experts, model.expert_hidden_dim, model.shared_hidden_dim
    beside, biases, narrow = model.experts_beside, model.expert_bias, model.expert_latent_dim
    own = narrow or dim
    return iter((
        (True, 'router', (n, dim)),
        (model.router_bias, 'router_bias', (n,)),
        (model.router_choice_bias, 'router_choice_bias', (n,)),
        (beside, 'router_norm', (dim,)),
        (beside, 'expert_scales', (n,)),
        (narrow, 'experts_in', (narrow, dim)),
        (gated, 'experts_w1', (n * hidden, own)),
        (gated and biases, 'experts_b1', (n * hidden,)),
        (True, 'experts_w3', (n * hidden, own)),
        (biases, 'experts_b3', (n * hidden,)),
        (True, 'experts_w2', (n * own, hidden)),
        (biases, 'experts_b2', (n * own,)),
        (narrow, 'experts_out', (dim, narrow)),
        (shared and gated, 'shared_w1', (shared, dim)),
        (shared, 'shared_w3', (shared, dim)),
        (shared, 'shared_w2', (dim, shared)),
        (model.shared_gate, 'shared_gate', (dim,)),
        (beside, 'shared_after', (dim,)),
        (beside, 'experts_norm', (dim,)),
        (beside, 'experts_after', (dim,))))


def plan_model(checkpoint: Checkpoint, in_pairs: bool = True) -> List[Place]:
    """Checks the checkpoint against its configuration and settles shared_classifier and weight_type. Returns a Place
    for each tensor, in the file's order, with the rotating part of a head in adjacent pairs or in halves."""
    job, path, model, tensors, names, paired = checkpoint
    embedding, head = tensors.get(names['embedding']), tensors.get(names['classifier'])
    if model.tied and head and not embedding:  # Transformers ties from the existing one,
        embedding = tensors[names['embedding']] = head
    model.shared_classifier = int(model.tied and (not head or same_bytes(embedding, head)))
    if model.tied and not model.shared_classifier:  # and does not tie two that differ
        job.note('%s differs from the embedding and is kept, though the two should be one' % names['classifier'])
    plan, known = [], {names['classifier']} if model.tied else set()
    if paired != in_pairs:
        settle_values(tensors, names, model)
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
            tensor = Paired(tensor, order_in(model, layer, paired))
        if part == 'wo' and paired != in_pairs and values_are_keys(model, layer):
            tensor = ColumnsMoved(tensor, order_in(model, layer, paired))
        if part in NORMS and model.norms_lack_one and not (part == 'final_norm' and model.last_is_whole):
            tensor = Shifted(tensor, 1)
        plan.append(Place(part, layer, tensor, is_matrix))
        known.add(name)
    for name, tensor in tensors.items():
        if name not in known:
            raise Problem(tensor.path, '%s has no place in model.bin (found %s %s, expected none such in this family)'
                          % (name, tensor.dtype, list(tensor.shape)))
    model.types = [place.tensor.dtype for place in plan if place.is_matrix]
    return plan


def order_in(model: Model, layer: int, back: bool) -> Tuple[int, ...]:
    """The order of a head's rows, as in Paired: pairs, or (`back`) halves."""
    turning, apart = model.turning_in(layer)
    return in_pairs_of(model.layer_shapes[layer].head_dim, turning, apart, back)


def values_are_keys(model: Model, layer: int) -> bool:
    """Whether the values that a layer reads, its own or an earlier layer's, are keys."""
    return bool(model.layer_flags[model.layer_shapes[layer].kv_layer] & KEYS_ARE_VALUES)


def settle_values(tensors: Dict[str, Any], names: Dict[str, str], model: Model) -> None:
    """Values that are keys follow their order, and so do the columns of wo. If the keys are in blocks, values become a
    separate matrix."""
    for layer, flags in enumerate(model.layer_flags):
        wk = tensors.get(names['wk'] % layer)
        readers = [tensors.get(names['wo'] % other) for other, shape in enumerate(model.layer_shapes)
                   if shape.kv_layer == layer]
        if flags & KEYS_ARE_VALUES and wk and any(wo and wo.dtype not in ITEM_SIZES for wo in readers):
            model.layers[layer] = flags & ~KEYS_ARE_VALUES
            tensors[names['wv'] % layer] = wk


def most_used(model: Model) -> List[str]:
    """The types of the matrices, the most frequent first."""
    return [dtype for dtype, _ in Counter(model.types).most_common()]


def write_model(file: BinaryIO, model: Model, plan: List[Place], packs: bool = True) -> None:
    short, long, layers = model.short_factor, model.long_factor, model.layers
    plan = [packed(model, place) for place in plan] if packs else plan
    types = [WEIGHT_TYPES[place.tensor.dtype] + PACKED * isinstance(place.tensor, Packed)
             for place in plan if place.is_matrix]
    has_types = len(set(types)) > 1 or max(types) >= PACKED
    file.write(header.packed({
        **vars(model), 'weight_type': WEIGHT_TYPES[most_used(model)[0]], 'n_eos': len(model.eos_ids),
        'n_longrope': len(short), 'layer_table': int(any(layers)), 'layer_shapes': int(bool(model.shapes)),
        'type_table': int(has_types)}))
    file.write(struct.pack('<%dd' % len(short + long), *short, *long))
    file.write(bytes(layers if any(layers) else []))
    for shape in model.shapes:
        file.write(struct.pack('<5I', *shape))
    file.write(bytes(types if has_types else []))
    for place in plan:
        for chunks in pieces(place.tensor, place.is_matrix):
            file.write(bytes(-file.tell() % 64))
            for chunk in chunks:
                file.write(chunk)
    file.write(bytes(-file.tell() % 64))
    file.flush()


def packed(model: Model, place: Place) -> Place:
    """The same matrix, packed if that is faster."""
    packs = place.is_matrix and may_pack(model, place.part, place.tensor.dtype, place.tensor.shape)
    return place._replace(tensor=Packed(place.tensor)) if packs else place


def pieces(tensor: Any, is_matrix: bool) -> List[Iterator[bytes]]:
    """A tensor's bytes in the file: one run, or two if it is q8."""
    if tensor.dtype == 'Q8':
        count = prod(tensor.shape)
        return [tensor.read(0, count), tensor.read(count, tensor.size - count)]
    return [tensor.read() if is_matrix or tensor.dtype == 'F32' else widen(tensor.read(), tensor.dtype)]
