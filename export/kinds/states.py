"""Layers with a state in place of keys and values: their keys and their tensors, both ways.

In folders some families have several of our matrices in one, key head by key head; and those whose attention has a gate
have its rows in q_proj, behind the queries of each head. GGUF files have -exp(A_log) for the decay of the delta rule,
and those of Qwen 3.5 have its value heads in tiles: one of each key head behind the other, over and over."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import exp, log
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..common import MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, REFUSED, Job, Keys, Problem
from ..families import Family, Gguf
from ..model import CONV, DELTA, MAMBA, STATE, Model
from ..rows import Taken
from ..tensors import (ARRAY, BLOCKS, BOOL, HEADS, I32, ITEM_SIZES, U32, Joined, Made, Place, Tensors, bytes_of, widen)
from . import mamba
from .layers import FULL
from .shapes import KV_HEADS

MAX_CONV_WIDTH = 64
DELTA_NAMES = {part: 'model.layers.%%d.linear_attn.%s' % name for part, name in (
    ('state_in', 'in_proj_qkv.weight'), ('state_gate', 'in_proj_z.weight'), ('state_beta', 'in_proj_b.weight'),
    ('state_step', 'in_proj_a.weight'), ('state_conv', 'conv1d.weight'), ('state_decay', 'A_log'),
    ('state_dt', 'dt_bias'), ('state_norm', 'norm.weight'), ('state_out', 'out_proj.weight'))}
CONV_NAMES = {part: 'model.layers.%%d.conv.%s' % name for part, name in (
    ('state_in', 'in_proj.weight'), ('b_state_in', 'in_proj.bias'), ('state_conv', 'conv.weight'),
    ('b_state_conv', 'conv.bias'), ('state_out', 'out_proj.weight'), ('b_state_out', 'out_proj.bias'))}
QKVZ, BA = 'model.layers.%d.linear_attn.in_proj_qkvz.weight', 'model.layers.%d.linear_attn.in_proj_ba.weight'
# What both are, by key head.
JOINED, BOTH_SMALL = ('state_in', 'state_gate'), ('state_beta', 'state_step')


def names_of(family: Family) -> Dict[str, str]:
    """The library's names of its tensors."""
    rule = family.states
    return mamba.names_in(rule.place) if rule.kind == 'mamba' else DELTA_NAMES if rule.kind == 'delta' else CONV_NAMES


OF_DELTA = (('linear_conv_kernel_dim', 'conv_width', MAX_CONV_WIDTH),
            ('linear_num_key_heads', 'state_key_heads', MAX_HEADS),
            ('linear_num_value_heads', 'state_value_heads', MAX_HEADS),
            ('linear_key_head_dim', 'state_key_dim', MAX_HEAD_DIM),
            ('linear_value_head_dim', 'state_value_dim', MAX_HEAD_DIM))


# ---- config.json ----

def from_config(config: Keys, family: Family, model: Model) -> Dict[str, Any]:
    """The fields about states, and a byte for each layer."""
    rule = family.states
    if not rule:
        return {}
    if rule.pattern:
        return mamba.from_config(config, family, model, [])
    has_state = layers_with_state(config, family, model.n_layers)
    if rule.kind == 'mamba':
        return mamba.from_config(config, family, model, has_state)
    layers = [STATE if own else 0 for own in has_state]
    if not any(layers):
        config.job.note('no layer has a state, by %s' % (rule.listed or 'layer_types'))
        return {'state_kind': 0}
    if rule.kind == 'conv':
        key = 'conv_L_cache'
        return {'state_kind': CONV, 'layers': layers,
                'conv_width': config.integer(key, MAX_CONV_WIDTH, family.default(key))}
    found = {field: config.integer(key, most, family.default(key)) for key, field, most in OF_DELTA}
    if found['state_value_heads'] % found['state_key_heads']:
        config.refuse('linear_num_value_heads', 'a multiple of linear_num_key_heads, %d' % found['state_key_heads'])
    return {'state_kind': DELTA, 'layers': layers, **found}


def layers_with_state(config: Keys, family: Family, n_layers: int) -> List[bool]:
    """Which layers keep a state: those that layer_types calls so, else those that are not listed as full ones, or all
    but the last of each period."""
    rule, words = family.states, (FULL, 'attention')
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        x in (*words, *rule.words) for x in v), '%s for each of %d layers' % (
            ' or '.join((FULL, *rule.words)), n_layers), None, None)
    if types or rule.kind == 'mamba':
        return [kind not in words for kind in types] if types else [True] * n_layers
    if rule.listed:
        full = config.get(rule.listed, lambda v: isinstance(v, list) and all(
            type(x) is int and 0 <= x < n_layers for x in v), 'numbers of layers from 0 to %d' % (n_layers - 1),
            None, None)
        return [full is not None and layer not in full for layer in range(n_layers)]
    key = family.layers.period_key
    period = config.integer(key, 1 << 30, family.default(key))
    return [(layer + 1) % period != 0 for layer in range(n_layers)]


def to_config(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The same keys of a model that goes out."""
    rule, layers = family.states, model.layer_flags
    if rule.kind == 'mamba':
        return mamba.to_config(path, family, model)
    keys: Dict[str, Any] = {'layer_types': [rule.words[0] if flags & STATE else FULL for flags in layers]}
    if rule.listed:
        keys[rule.listed] = [layer for layer, flags in enumerate(layers) if not flags & STATE]
    if rule.kind == 'conv':
        return {**keys, 'conv_L_cache': model.conv_width}
    return {**keys, **{key: getattr(model, field) for key, field, _ in OF_DELTA}}


def read_hidden_dim(config: Keys, family: Family) -> int:
    """The width of feed-forward layers. LFM2 makes it of another number, rounded up."""
    key = family.keys.hidden
    if not family.states or family.states.kind != 'conv':
        return config.integer(key, MAX_WIDTH, family.default(key, REFUSED))
    if config.values.get('block_ff_dim') is not None:
        key = 'block_ff_dim'
    width = config.integer(key, MAX_WIDTH, family.default(key))
    if not config.flag('block_auto_adjust_ff_dim', family.default('block_auto_adjust_ff_dim', True)):
        return width
    factor = config.number('block_ffn_dim_multiplier', 1.0, 1.0)
    multiple = config.integer('block_multiple_of', MAX_WIDTH, 256)
    width = -(-int(factor * int(2 * width / 3)) // multiple) * multiple
    if not 0 < width <= MAX_WIDTH:
        config.refuse(key, 'what makes a width from 1 to %d' % MAX_WIDTH)
    return width


# ---- in ----

def reshaped(tensor: Any, shape: Tuple[int, ...]) -> Any:
    return tensor._replace(shape=shape) if hasattr(tensor, '_replace') else tensor


def joined_of(family: Family) -> Dict[str, Tuple[str, ...]]:
    """The matrices of a folder that are several, and their parts."""
    return {QKVZ: JOINED, BA: BOTH_SMALL} if family.states and family.states.joined else {}


def take_states(path: str, tensors: Tensors, model: Model, names: Dict[str, str], joined: Dict[str, Tuple[str, ...]],
                gate_in_queries: bool) -> None:
    """Brings a source's tensors into our order: those of `joined` are several."""
    for layer in range(model.n_layers):
        conv = names.get('state_conv', '%d') % layer
        found = tensors.get(conv)
        if found and found.shape == (model.state_channels, 1, model.conv_width):
            tensors[conv] = reshaped(found, (model.state_channels, model.conv_width))
        gate = names.get('shared_gate', '%d') % layer
        if gate in tensors and tensors[gate].shape == (1, model.dim):
            tensors[gate] = reshaped(tensors[gate], (model.dim,))
        for pattern, parts in joined.items() if model.layer_flags[layer] & STATE else ():
            if any(names[part] % layer not in tensors for part in parts):
                take_joined(path, tensors, model, pattern % layer, {part: names[part] % layer for part in parts})
        if gate_in_queries and not model.layer_flags[layer] & STATE:
            for part, gate in ('wq', 'wg'), ('bq', 'bg'):
                if part in names and gate in names:
                    take_gate(tensors, model, names[part] % layer, names[gate] % layer)


@dataclass(frozen=True)
class HalfOfHeads:
    """One half of each head's rows, or elements: the first, or the second."""
    name: str
    tensor: Any
    n_heads: int
    second: bool

    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)
    size = property(lambda self: self.tensor.size // 2)
    shape = property(lambda self: (self.tensor.shape[0] // 2, *self.tensor.shape[1:]))

    def read(self, first: int = 0, count: Optional[int] = None) -> Iterator[bytes]:
        """The bytes from `first` on."""
        half = self.size // self.n_heads
        end = self.size if count is None else first + count
        while first < end:
            head, at = divmod(first, half)
            wanted = min(half - at, end - first)
            yield from self.tensor.read((2 * head + self.second) * half + at, wanted)
            first += wanted


def take_gate(tensors: Tensors, model: Model, name: str, gate: str) -> None:
    """The queries of each head, and its gate behind them."""
    both, head = tensors.get(name), model.head_dim
    if both and both.shape[0] == 2 * model.n_heads * head:  # else it is refused later
        tensors[name] = HalfOfHeads(name, both, model.n_heads, False)
        tensors[gate] = HalfOfHeads(gate, both, model.n_heads, True)


def take_joined(path: str, tensors: Tensors, model: Model, name: str, names: Dict[str, str]) -> None:
    """Queries, keys, values and gates of each key head one below the other, or both small matrices: {part: its
    name}."""
    n, key, heads = model.state_key_heads, model.state_key_dim, model.state_value_heads // model.state_key_heads
    values, at, pieces = heads * model.state_value_dim, 0, []
    sizes = (key, key, values, values) if 'state_in' in names else (heads, heads)
    whole = tensors.pop(name, None)
    if not whole or whole.shape != (n * sum(sizes), model.dim):
        raise Problem(path, '%s does not fit the configuration (found %s, expected %s)' % (
            name, list(whole.shape) if whole else 'none', [n * sum(sizes), model.dim]))
    for rows in sizes:
        pieces.append(Taken(whole.name, whole, n, sum(sizes), range(at, at + rows)))
        at += rows
    if 'state_in' in names:
        pieces = [Joined(pieces[:3], 0), pieces[3]]
    tensors.update(zip(names.values(), pieces))


# ---- out ----

@dataclass(frozen=True)
class ByHead:
    """The rows of several parts, those of each head of one below those of the one before."""
    parts: List[Any]
    n_heads: int

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = property(lambda self: self.parts[0].dtype)
    shape = property(lambda self: (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:]))

    def read(self) -> Iterator[bytes]:
        sources = [in_pieces(part, self.n_heads) for part in self.parts]
        for _ in range(self.n_heads):
            for source in sources:
                yield next(source)


def in_pieces(tensor: Any, n: int) -> Iterator[bytes]:
    """The bytes of a tensor in n pieces of one size."""
    size, held = bytes_of(tensor) // n, bytearray()
    for chunk in tensor.read():
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]


@dataclass(frozen=True)
class Shaped:
    """A tensor with as many numbers in another shape."""
    tensor: Any
    shape: Tuple[int, ...]

    name = property(lambda self: self.tensor.name)
    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)

    def read(self) -> Iterator[bytes]:
        return self.tensor.read()


class StatesOut:
    """Gathers tensors that are one where they go: those of `joined`, and queries with their gates."""

    def __init__(self, path: str, model: Model, joined: Dict[str, Tuple[str, ...]], gate_in_queries: bool) -> None:
        self.path, self.model, self.gate_in_queries = path, model, gate_in_queries
        self.joined = {part: (name, parts) for name, parts in joined.items() for part in parts}
        self.waiting: Dict[str, Any] = {}

    def take(self, part: str, tensor: Any) -> Tuple[str, Any]:
        """The part by whose name it goes, or the pattern of a name; and the tensor, None while others are missing."""
        if self.gate_in_queries and part in ('wq', 'bq', 'wg', 'bg'):
            return self.gather('bq' if part[0] == 'b' else 'wq', part, tensor, (part[0] + 'q', part[0] + 'g'),
                               self.model.n_heads)
        if part in self.joined:
            name, parts = self.joined[part]
            return self.gather(name, part, tensor, parts, self.model.state_key_heads)
        return part, tensor

    def gather(self, name: str, part: str, tensor: Any, parts: Tuple[str, ...], n_heads: int) -> Tuple[str, Any]:
        if tensor.dtype not in ITEM_SIZES and tensor.dtype not in BLOCKS:
            raise Problem(self.path, '%s is %s, which cannot be in one matrix with others (expected floats or blocks '
                          'of ggml)' % (tensor.name, tensor.dtype))
        self.waiting[part] = tensor
        if not all(each in self.waiting for each in parts):
            return name, None
        found = [self.waiting.pop(each) for each in parts]
        if len({each.dtype for each in found}) > 1:
            raise Problem(self.path, '%s and %s are of two types (found %s, expected one, since they go into one '
                          'matrix)' % (*parts, ' and '.join(each.dtype for each in found)))
        if parts[0] == 'state_in':
            found = [*self.cut(found[0]), found[1]]
        return name, ByHead(found, n_heads)

    def cut(self, tensor: Any) -> List[Any]:
        """Queries, keys and values of all heads."""
        model = self.model
        keys = model.state_key_heads * model.state_key_dim
        return [Rows(tensor, 0, keys), Rows(tensor, keys, keys), Rows(tensor, 2 * keys, model.state_width)]


@dataclass(frozen=True)
class Rows(Made):
    """Some rows of a matrix."""
    first: int
    count: int

    shape = property(lambda self: (self.count, *self.tensor.shape[1:]))

    def read(self) -> Iterator[bytes]:
        row = bytes_of(self.tensor) // self.tensor.shape[0]
        return self.tensor.read(self.first * row, self.count * row)


def in_shape(model: Model, part: str, tensor: Any) -> Any:
    """With the axes that folders have besides."""
    if part == 'state_conv':
        return Shaped(tensor, (model.state_channels, 1, model.conv_width))
    return Shaped(tensor, (1, model.dim)) if part == 'shared_gate' else tensor


# ---- the order of value heads ----

BY_VALUE = 'state_gate', 'state_beta', 'state_step', 'state_decay', 'state_dt'  # what has rows for value heads alone


def order_of(model: Model) -> Tuple[int, ...]:
    """In the other order than the model has: the number that each value head has now."""
    n_keys, of_key = model.state_key_heads, model.state_value_heads // model.state_key_heads
    if model.state_tiled:
        return tuple(j % of_key * n_keys + j // of_key for j in range(n_keys * of_key))
    return tuple(j % n_keys * of_key + j // n_keys for j in range(n_keys * of_key))


def in_order(path: str, plan: List[Place], model: Model, tiled: bool) -> List[Place]:
    """The tensors of a model that goes out with its value heads in tiles, or side by side."""
    if model.state_key_heads == model.state_value_heads or bool(model.state_tiled) == tiled:
        return plan
    order, keys = order_of(model), 2 * model.state_key_heads * model.state_key_dim
    placed = []
    for place in plan:
        tensor = place.tensor
        if place.part in ('state_in', 'state_conv'):
            tensor = HeadsMoved(tensor, order, keys)
        elif place.part in BY_VALUE:
            tensor = HeadsMoved(tensor, order, 0)
        elif place.part == 'state_out':
            if tensor.dtype in HEADS or model.state_value_dim % BLOCKS.get(tensor.dtype, (1,))[0]:
                raise Problem(path, '%s is %s, whose blocks are not whole in a head of %d (expected floats, since '
                              'value heads stand in another order there)' % (
                                  tensor.name, tensor.dtype, model.state_value_dim))
            tensor = ColumnHeadsMoved(tensor, order)
        placed.append(place._replace(tensor=tensor))
    return placed


@dataclass(frozen=True)
class HeadsMoved(Made):
    """The rows, or elements, of heads in another order, behind `fixed` ones that stay: new head i is old head
    order[i]."""
    order: Tuple[int, ...]
    fixed: int

    size = property(lambda self: bytes_of(self.tensor))

    def read(self, first: int = 0, count: Optional[int] = None) -> Iterator[bytes]:
        """The bytes from `first` on."""
        row = self.size // self.shape[0]
        fixed, head = self.fixed * row, (self.shape[0] - self.fixed) // len(self.order) * row
        whole = b''.join(self.tensor.read()) if len(self.shape) == 1 else b''
        end = self.size if count is None else first + count
        while first < end:
            number, inside = divmod(first - fixed, head)
            at, most = (first, fixed - first) if first < fixed else (
                fixed + self.order[number] * head + inside, head - inside)
            wanted = min(most, end - first)
            if whole:
                yield whole[at:at + wanted]
            else:
                yield from self.tensor.read(at, wanted)
            first += wanted


@dataclass(frozen=True)
class ColumnHeadsMoved(Made):
    """The columns of heads in another order, whose blocks lie within a head."""
    order: Tuple[int, ...]

    size = property(lambda self: bytes_of(self.tensor))

    def read(self) -> Iterator[bytes]:
        rows = self.shape[0]
        row = self.size // rows
        head, at_once = row // len(self.order), max(1, (1 << 20) // row)
        for first in range(0, rows, at_once):
            count = min(at_once, rows - first)
            data = b''.join(self.tensor.read(first * row, count * row))
            yield b''.join(data[at + i * head:at + (i + 1) * head] for at in range(0, len(data), row)
                           for i in self.order)


# ---- GGUF ----

GGUF_QKVZ, GGUF_BA = 'blk.%d.ssm_in.weight', 'blk.%d.ssm_ba.weight'
GATE = 'blk.%d.attn_q.gate'  # no file has it: it is in attn_q
RECURRENT, PERIOD = 'attention.recurrent_layers', 'full_attention_interval'
SECTIONS = 'rope.dimension_sections'


# ---- keys ----

def read_kv_heads(keys: Keys, n_heads: int) -> int:
    """The number of key heads. A list has it for each layer, and 0 for layers with a convolution."""
    counts = keys.values.get(KV_HEADS)
    if not isinstance(counts, list):
        return keys.integer(KV_HEADS, MAX_HEADS, n_heads)
    found = sorted(set(counts) - {0})
    if any(type(count) is not int or not 0 <= count <= MAX_HEADS for count in counts) or len(found) > 1:
        keys.refuse(KV_HEADS, 'one number, and 0 for layers that do not attend')
    keys.asked.add(KV_HEADS)
    return found[0] if found else n_heads


def from_gguf(keys: Keys, family: Family, rule: Gguf, model: Model, tensors: Tensors,
              widths: List[int]) -> Dict[str, Any]:
    """The fields about states, and a byte for each layer."""
    n_layers, turning = model.n_layers, model.turning
    if not family.states:
        return {}
    if family.states.kind == 'mamba':
        return mamba.from_gguf(keys, family, model, tensors, read_delta(keys, rule), widths)
    if family.states.kind == 'conv':
        counts = keys.get(KV_HEADS, lambda v: isinstance(v, list) and len(v) == n_layers,
                          'a number of key heads for each of %d layers' % n_layers)
        fields: Dict[str, Any] = {'conv_width': keys.integer('shortconv.l_cache', MAX_CONV_WIDTH)}
        layers = [STATE * (count == 0) for count in counts]
    else:
        fields, layers = read_delta(keys, rule), recurrent_layers(keys, n_layers)
        if family.rope.axes:
            check_sections(keys, turning)
    return {**fields, 'layers': layers} if any(layers) else {'state_kind': 0, 'layers': []}


def read_delta(keys: Keys, rule: Gguf) -> Dict[str, int]:
    n_keys, n_heads = keys.integer('ssm.group_count', MAX_HEADS), keys.integer('ssm.time_step_rank', MAX_HEADS)
    if n_heads % n_keys:
        keys.refuse('ssm.time_step_rank', 'a multiple of ssm.group_count, %d' % n_keys)
    width = keys.get('ssm.inner_size', lambda v: type(v) is int and v > 0 and v % n_heads == 0 and
                     v // n_heads <= MAX_HEAD_DIM, 'a multiple of ssm.time_step_rank, %d' % n_heads)
    return {'conv_width': keys.integer('ssm.conv_kernel', MAX_CONV_WIDTH), 'state_key_heads': n_keys,
            'state_value_heads': n_heads, 'state_key_dim': keys.integer('ssm.state_size', MAX_HEAD_DIM),
            'state_value_dim': width // n_heads, 'state_tiled': int(rule.tiled and n_keys != n_heads)}


def recurrent_layers(keys: Keys, n_layers: int) -> List[int]:
    """Those that a list names, which may have layers behind the last one; else all but the last of each period."""
    listed = keys.get(RECURRENT, lambda v: isinstance(v, list) and len(v) >= n_layers and all(
        type(x) is bool for x in v), 'true or false for each of %d layers' % n_layers, None)
    period = keys.integer(PERIOD, MAX_LAYERS + 1, 4)
    return [STATE * own for own in listed[:n_layers]] if listed else [
        STATE * ((layer + 1) % period != 0) for layer in range(n_layers)]


def check_sections(keys: Keys, turning: int) -> None:
    """In a text all three axes have the same position. What stands in no section turns by another, which is 0."""
    sections = keys.get(SECTIONS, lambda v: isinstance(v, list) and 3 <= len(v) <= 4 and all(
        type(x) is int and 0 <= x <= MAX_HEAD_DIM for x in v), 'the sections of three axes', None)
    if sections and any(pair >= 3 * sections[pair % 3] for pair in range(turning // 2)):
        keys.job.note('the sections %s of %s%s leave pairs out, which llama.cpp does not turn; run turns them, as '
                      'Hugging Face does' % (sections, keys.inside, SECTIONS))


def to_gguf(job: Job, path: str, rule: Gguf, family: Family, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys of a model that goes out."""
    if model.state_kind == MAMBA:
        return mamba.to_gguf(path, rule, family, model)
    own = [bool(flags & STATE) for flags in model.layer_flags]
    if model.state_kind != DELTA:
        return {'shortconv.l_cache': (U32, model.conv_width),
                KV_HEADS: (ARRAY, (I32, [0 if has else model.n_kv_heads for has in own]))}
    settings: Dict[str, Tuple[int, Any]] = {
        'ssm.conv_kernel': (U32, model.conv_width), 'ssm.state_size': (U32, model.state_key_dim),
        'ssm.group_count': (U32, model.state_key_heads), 'ssm.time_step_rank': (U32, model.state_value_heads),
        'ssm.inner_size': (U32, model.state_width)}
    if model.state_key_dim != model.state_value_dim:
        job.note('llama.cpp does not load architecture %s with keys of %d and values of %d in a state'
                 % (rule.architecture, model.state_key_dim, model.state_value_dim))
    period = own.index(False) + 1 if False in own else len(own) + 1
    settings[PERIOD] = U32, period
    if own != [(layer + 1) % period != 0 for layer in range(len(own))]:
        settings[RECURRENT] = ARRAY, (BOOL, own)
        job.note('the layers that attend are not each %dth: llama.cpp v0.5.0 (September 2026) reads %s, which says so, '
                 'and older builds may not' % (period, RECURRENT))
    if family.rope.axes:
        pairs = model.turning // 2
        settings[SECTIONS] = ARRAY, (I32, [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3, 0])
    return settings


# ---- tensors ----

@dataclass(frozen=True)
class Decays(Made):
    """A_log in place of -exp(A_log), or the way back."""
    back: bool = False

    dtype = 'F32'

    def read(self) -> Iterator[bytes]:
        chunks = self.tensor.read()
        data = b''.join(chunks if self.tensor.dtype == 'F32' else widen(chunks, self.tensor.dtype))
        values = struct.unpack('<%df' % (len(data) // 4), data)
        if not self.back and not all(value < 0 for value in values):
            raise Problem(self.path, '%s has a number that is not below 0 (expected -exp(A_log))' % self.name)
        yield struct.pack('<%df' % len(values), *(-exp(min(value, 88)) if self.back else log(-value)
                                                  for value in values))


def take_decays(tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    for layer, flags in enumerate(model.layer_flags):
        name = names['state_decay'] % layer
        if flags & STATE and name in tensors:
            tensors[name] = Decays(tensors[name])


def gguf_joined(family: Family) -> Dict[str, Tuple[str, ...]]:
    """The matrices that are several, and their parts: older files of Qwen3-Next have both, newer ones the second."""
    return {GGUF_QKVZ: JOINED, **joined_out(family)} if family.states and family.states.joined else {}


def joined_out(family: Family) -> Dict[str, Tuple[str, ...]]:
    """Those of newer files."""
    return {GGUF_BA: BOTH_SMALL} if family.states and family.states.joined else {}
