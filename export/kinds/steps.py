"""Steps that few architectures have: scales that are keys, xIELU's numbers, head norms without weights, chunks of
attention, and layers that do not rotate; their keys in GGUF files, in both directions."""

from __future__ import annotations

import struct
from typing import Any, Callable, Dict, List, Tuple

from ..common import MAX_SEQ, Keys, Problem, is_number
from ..families import Gguf
from ..model import DENSE, SEES_ALL, STATE, WITHOUT_ROPE, XIELU, Model
from ..tensors import ARRAY, BOOL, F32, U32, XIELU_NUMBERS, Small, Tensors, widen

XIELU_KEYS = tuple('xielu.' + each for each, _ in XIELU_NUMBERS)  # without an architecture's name
Settings = Dict[str, Tuple[int, Any]]


# ---- scales ----

# Words of a row's scales that have a key's number: the field, its value as a function of the number and the width of a
# head, and the inverse.
FACTORS: Dict[str, Tuple[str, Callable[[float, int], float], Callable[[float, int], float]]] = {
    'embedding_factor': ('embedding_scale', lambda x, d: x, lambda x, d: x),
    'residual_factor': ('residual_scale', lambda x, d: x, lambda x, d: x),
    'score_factor': ('score_scale', lambda x, d: x, lambda x, d: x),
    'query_factor': ('score_scale', lambda x, d: x * d ** -0.5, lambda x, d: x / d ** -0.5),
    'logit_factor': ('logit_scale', lambda x, d: x, lambda x, d: x),
    'value_factor': ('value_scale', lambda x, d: x, lambda x, d: x),
    'logit_divisor': ('logit_scale', lambda x, d: 1 / x, lambda x, d: 1 / x)}


def read_factors(keys: Keys, rule: Gguf, model: Model) -> Dict[str, float]:
    """The fields of scales. A factor of 1 is no scale; for llama.cpp neither is 0, or a missing key."""
    found = {}
    for word, key in rule.scales.items():
        field, make, _ = FACTORS[word]
        number = keys.number(key, 0.0, zero=True, high=1e6)
        factor = make(number, model.head_dim) if number else 0.0
        found[field] = 0.0 if abs(factor / usual_of(field, model) - 1) < 1e-6 else factor
    return found


def usual_of(field: str, model: Model) -> float:
    """The value of a scale if no key has one."""
    return model.head_dim ** -0.5 if field == 'score_scale' else 1.0


def factor_settings(rule: Gguf, model: Model) -> Settings:
    """Each key that the architecture has for a scale, even if it changes nothing: some are required."""
    settings: Settings = {}
    for word, key in rule.scales.items():
        field, _, back = FACTORS[word]
        settings[key] = F32, back(getattr(model, field) or usual_of(field, model), model.head_dim)
    return settings


# ---- layers that do not rotate ----

def read_turns(keys: Keys, rule: Gguf, n_layers: int) -> List[int]:
    """Bytes of layers, if one key says that none rotates."""
    return [] if keys.flag(rule.turns, True) else [WITHOUT_ROPE] * n_layers


def turns_setting(path: str, rule: Gguf, model: Model) -> Settings:
    if not rule.turns:
        return {}
    still = [bool(flags & WITHOUT_ROPE) for flags in model.layer_flags if not flags & STATE]
    if any(still) and not all(still):
        raise Problem(path, 'has layers with RoPE and layers without, which %s has no key for' % rule.architecture)
    return {rule.turns: (BOOL, not any(still))}


# ---- chunks, and the facts that llama.cpp has with them ----

# Every fourth layer sees all positions and does not rotate; its queries grow by this once for each chunk. Heads have
# norms in layers that rotate, except in the model with this many experts.
GROWS, WITHOUT_NORMS = 0.1, 128


def chunked_fields(rule: Gguf, n_layers: int, n_experts: int) -> Dict[str, Any]:
    """The fields that the architecture fixes."""
    fields: Dict[str, Any] = {'qk_norm': 0, 'qk_norm_turning': 0} if n_experts == WITHOUT_NORMS else {
        'qk_norm': 3, 'qk_norm_turning': 1}
    return {**fields, 'attention_chunk': rule.chunks, 'temperature_beta': GROWS, 'temperature_length': rule.chunks,
            'temperature_unturned': 1,
            'layers': [(SEES_ALL | WITHOUT_ROPE) * (layer % 4 == 3) for layer in range(n_layers)]}


def read_chunks(keys: Keys, rule: Gguf, model: Model) -> None:
    """Reads the window. 0 would mean that there are no chunks, on which llama.cpp v0.5.0 fails; all other values have
    the same effect."""
    if rule.chunks:
        keys.integer('attention.sliding_window', MAX_SEQ, rule.chunks)
        model.set(**chunked_fields(rule, model.n_layers, model.n_experts))


def chunk_settings(path: str, rule: Gguf, model: Model) -> Settings:
    """The window. Refuses one that differs from the architecture's."""
    if not rule.chunks:
        return {}
    for name, expected in chunked_fields(rule, model.n_layers, model.n_experts).items():
        found = [flags & ~DENSE for flags in model.layer_flags] if name == 'layers' else getattr(model, name)
        if found != expected:
            raise Problem(path, 'has %s %s, which %s has not (expected %s)' % (
                name, found, rule.architecture, expected))
    if model.shared_hidden_dim != model.expert_hidden_dim:
        raise Problem(path, 'has a shared expert of width %d, which %s has not (expected that of the others, %d)'
                      % (model.shared_hidden_dim, rule.architecture, model.expert_hidden_dim))
    return {'attention.sliding_window': (U32, rule.chunks)}


# ---- head norms without weights ----

def bare_norms(model: Model, names: Dict[str, str]) -> List[Small]:
    """Weights for them: the factor of scores besides the usual scale, and ones."""
    factor = (model.score_scale or usual_of('score_scale', model)) / usual_of('score_scale', model)
    return [Small(names[part] % layer, [number] * model.head_dim) for layer in range(model.n_layers)
            for part, number in (('q_norm', factor), ('k_norm', 1.0))]


def take_bare(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """The reverse: removes the weights and sets the scale of scores, which all of them must equal."""
    factors: Dict[str, float] = {}
    for layer in range(model.n_layers):
        for part in ('q_norm', 'k_norm'):
            name = names[part] % layer
            tensor = tensors.pop(name, None)
            if not tensor or tensor.dtype != 'F32' or tensor.shape != (model.head_dim,):
                raise Problem(path, '%s does not fit the configuration (found %s, expected F32 [%d])' % (
                    name, '%s %s' % (tensor.dtype, list(tensor.shape)) if tensor else 'no such tensor', model.head_dim))
            values = struct.unpack('<%df' % model.head_dim, b''.join(tensor.read()))
            wanted = factors.setdefault(part, values[0] if part == 'q_norm' else 1.0)
            if any(value != wanted for value in values) or not is_number(wanted):
                raise Problem(path, '%s has weights, which the norms of heads of this family have not (expected %g '
                              'everywhere)' % (name, wanted))
    factor = factors['q_norm']
    model.score_scale = 0.0 if factor == 1 else factor * usual_of('score_scale', model)


# ---- xIELU ----

def read_xielu(keys: Keys, tensors: Tensors, model: Model, name: str) -> None:
    """xIELU's four numbers of each layer as tensors of this name. Files have no tensors for them: keys have a list with
    a number for each layer, or one number for all."""
    if model.activation != XIELU:
        return
    n, lists = model.n_layers, []
    for key in XIELU_KEYS:
        value = keys.get(key, lambda v: all(is_number(x, -1e6) for x in (v if isinstance(v, list) else [v])) and (
            not isinstance(v, list) or len(v) == n), 'a number, or one for each of %d layers' % n)
        lists.append(value if isinstance(value, list) else [value] * n)
    for layer, numbers in enumerate(zip(*lists)):
        tensors[name % layer] = Small(name % layer, list(numbers))


def xielu_settings(tensors: List[Any]) -> Settings:
    """The keys, from the tensor of each layer."""
    layers = [struct.unpack('<4f', b''.join(tensor.read() if tensor.dtype == 'F32' else widen(
        tensor.read(), tensor.dtype))) for tensor in tensors]
    return {key: (ARRAY, (F32, list(numbers))) for key, numbers in zip(XIELU_KEYS, zip(*layers))} if layers else {}
