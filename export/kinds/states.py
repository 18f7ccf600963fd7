"""config.json's and GGUF's keys about layers with a state in place of keys and values, in both directions: the gated
delta rule and short convolutions here, Mamba 2 in mamba.py. state_tensors.py has their tensors."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..common import MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, REFUSED, Job, Keys
from ..families import Family, Gguf
from ..model import CONV, DELTA, MAMBA, STATE, Model
from ..tensors import ARRAY, BOOL, I32, U32, Tensors
from . import mamba
from .key_rows import Row, read_config, read_gguf, written_config, written_gguf
from .layers import FULL
from .shapes import KV_HEADS

OF_DELTA = (Row('conv_width', mamba.KERNEL, 'linear_conv_kernel_dim', mamba.MAX_CONV_WIDTH),
            Row('state_key_heads', mamba.GROUPS, 'linear_num_key_heads', MAX_HEADS),
            Row('state_value_heads', mamba.COUNT, 'linear_num_value_heads', MAX_HEADS),
            Row('state_key_dim', mamba.SIZE, 'linear_key_head_dim', MAX_HEAD_DIM),
            Row('state_value_dim', '', 'linear_value_head_dim', MAX_HEAD_DIM))  # from the width of all heads there
OF_CONV = Row('conv_width', 'shortconv.l_cache', 'conv_L_cache', mamba.MAX_CONV_WIDTH),


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
        return {'state_kind': CONV, 'layers': layers, **read_config(config, family, OF_CONV)}
    found = read_config(config, family, OF_DELTA)
    if found['state_value_heads'] % found['state_key_heads']:
        config.refuse('linear_num_value_heads', 'a multiple of linear_num_key_heads, %d' % found['state_key_heads'])
    return {'state_kind': DELTA, 'layers': layers, **found}


def layers_with_state(config: Keys, family: Family, n_layers: int) -> List[bool]:
    """The layers that keep a state, according to layer_types; otherwise those that are not listed as full, or all but
    the last of each period."""
    rule, words = family.states, (FULL, 'attention')
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        x in (*words, *rule.words) for x in v), ' or '.join((FULL, *rule.words)) + ' for each layer', None, None)
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
    """The same keys, for a model that is exported."""
    rule, layers = family.states, model.layer_flags
    if rule.kind == 'mamba':
        return mamba.to_config(path, family, model)
    keys: Dict[str, Any] = {'layer_types': [rule.words[0] if flags & STATE else FULL for flags in layers]}
    if rule.listed:
        keys[rule.listed] = [layer for layer, flags in enumerate(layers) if not flags & STATE]
    if rule.kind == 'conv':
        return {**keys, **written_config(model, OF_CONV)}
    return {**keys, **written_config(model, OF_DELTA)}


def read_hidden_dim(config: Keys, family: Family) -> int:
    """The width of feed-forward layers. LFM2 computes it from another number, rounded up."""
    key = family.keys.of('hidden_dim')
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
        config.refuse(key, 'numbers that make a width from 1 to %d' % MAX_WIDTH)
    return width


# ---- GGUF ----

RECURRENT, PERIOD = 'attention.recurrent_layers', 'full_attention_interval'
SECTIONS = 'rope.dimension_sections'


# ---- keys ----

def read_kv_heads(keys: Keys, n_heads: int) -> int:
    """The number of key heads. A list has it for each layer, with 0 for layers with a convolution."""
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
        return mamba.from_gguf(keys, family, model, tensors, read_state(keys, rule), widths)
    if family.states.kind == 'conv':
        counts = keys.get(KV_HEADS, lambda v: isinstance(v, list) and len(v) == n_layers,
                          'a number of key heads for each of %d layers' % n_layers)
        fields: Dict[str, Any] = read_gguf(keys, OF_CONV)
        layers = [STATE * (count == 0) for count in counts]
    else:
        fields, layers = read_state(keys, rule), recurrent_layers(keys, n_layers)
        if family.rope.axes:
            check_sections(keys, turning)
    return {**fields, 'layers': layers} if any(layers) else {'state_kind': 0, 'layers': []}


def read_state(keys: Keys, rule: Gguf) -> Dict[str, int]:
    """The fields of the delta rule, and of Mamba 2, which has the same keys in GGUF."""
    fields = mamba.read_widths(keys)
    return {**fields, 'state_tiled': int(rule.tiled and fields['state_key_heads'] != fields['state_value_heads'])}


def recurrent_layers(keys: Keys, n_layers: int) -> List[int]:
    """The layers in a list, which may continue past the last layer; otherwise all but the last of each period."""
    listed = keys.get(RECURRENT, lambda v: isinstance(v, list) and len(v) >= n_layers and all(
        type(x) is bool for x in v), 'true or false for each of %d layers' % n_layers, None)
    period = keys.integer(PERIOD, MAX_LAYERS + 1, 4)
    return [STATE * own for own in listed[:n_layers]] if listed else [
        STATE * ((layer + 1) % period != 0) for layer in range(n_layers)]


def check_sections(keys: Keys, turning: int) -> None:
    """Checks that in a text all three axes have the same position. Pairs in no section rotate with another position,
    which is 0."""
    sections = keys.get(SECTIONS, lambda v: isinstance(v, list) and 3 <= len(v) <= 4 and all(
        type(x) is int and 0 <= x <= MAX_HEAD_DIM for x in v), 'the sections of three axes', None)
    if sections and any(pair >= 3 * sections[pair % 3] for pair in range(turning // 2)):
        keys.job.note('the sections %s of %s%s leave pairs out, which llama.cpp does not rotate; run rotates them, as '
                      'Hugging Face does' % (sections, keys.inside, SECTIONS))


def to_gguf(job: Job, path: str, rule: Gguf, family: Family, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys for a model that is exported."""
    if model.state_kind == MAMBA:
        return mamba.to_gguf(path, rule, family, model)
    own = [bool(flags & STATE) for flags in model.layer_flags]
    if model.state_kind != DELTA:
        return {**written_gguf(model, OF_CONV),
                KV_HEADS: (ARRAY, (I32, [0 if has else model.n_kv_heads for has in own]))}
    settings = mamba.written_widths(model)
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
