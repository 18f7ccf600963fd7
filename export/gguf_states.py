"""Layers with a state in GGUF files: their keys; and the decay of the delta rule, of which files have -exp(A_log)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import exp, log
from typing import Any, Dict, Iterator, List, Tuple

from .common import MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, Job, Keys, Problem
from .families import Family, Gguf
from .gguf_shapes import KV_HEADS
from .model import DELTA, STATE, Model
from .states import BOTH_SMALL, JOINED, MAX_CONV_WIDTH
from .tensors import Made, Tensors, widen

U32, I32, BOOL, ARRAY = 4, 5, 7, 9  # types
QKVZ, BA = 'blk.%d.ssm_in.weight', 'blk.%d.ssm_ba.weight'
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


def read_states(keys: Keys, family: Family, rule: Gguf, n_layers: int, turning: int) -> Dict[str, Any]:
    """The fields about states, and a byte for each layer."""
    if not family.states:
        return {}
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


def settings_of_states(job: Job, rule: Gguf, family: Family, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys of a model that goes out."""
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


def joined_of(family: Family) -> Dict[str, Tuple[str, ...]]:
    """The matrices that are several, and their parts: older files of Qwen3-Next have both, newer ones the second."""
    return {QKVZ: JOINED, **joined_out(family)} if family.states and family.states.joined else {}


def joined_out(family: Family) -> Dict[str, Tuple[str, ...]]:
    """Those of newer files."""
    return {BA: BOTH_SMALL} if family.states and family.states.joined else {}
