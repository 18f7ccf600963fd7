"""Latent attention: keys and values come from one narrow vector. Hugging Face and llama.cpp have the part of a head
that does not rotate first and the part that rotates after it, and keys and values of a head in one matrix; model.bin
has the rotating part first, and a matrix for each. Newer GGUF files have separate keys and values, with the keys'
matrices transposed, and their length of a key is the cache's size for a token."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Dict, Iterator, Tuple

from ..common import MAX_HEAD_DIM, MAX_SEQ, MAX_WIDTH, NUMBER_LIMIT, Keys, Problem
from ..families import Family, Gguf
from ..model import Model
from ..rows import ByHead, Taken, Transposed
from ..tensors import F32, ITEM_SIZES, U32, Made, Tensors
from ..widened import WIDENED, Widened
from .key_rows import Row, read_config, read_gguf, written_config, written_gguf

ORDERED = 'wq', 'wkv_a', 'b_kv_a'  # rows, or elements, that have another order elsewhere
BOTH = 'model.layers.%d.self_attn.kv_b_proj.weight'    # keys and values


# The widths of the narrow vectors: of keys and values, and of queries if they have one.
OF_KEYS = Row('kv_rank', 'attention.kv_lora_rank', 'kv_lora_rank', MAX_HEAD_DIM)
OF_QUERIES = Row('q_rank', 'attention.q_lora_rank', 'q_lora_rank', MAX_WIDTH, optional=True)


# ---- config.json ----

def from_config(config: Keys, family: Family) -> Dict[str, Any]:
    """The widths of heads and of latent vectors. The two inner norms have their own epsilon."""
    def width(key: str, high: int = MAX_HEAD_DIM) -> int:
        return config.integer(key, high, family.default(key))

    still, turning = width('qk_nope_head_dim'), width('qk_rope_head_dim')
    for key, value in ('qk_nope_head_dim', still), ('qk_rope_head_dim', turning):
        if value % 2 or still + turning > MAX_HEAD_DIM:
            config.refuse(key, 'an even number, and at most %d together with the rest of a head' % MAX_HEAD_DIM)
    ranks = read_config(config, family, (OF_QUERIES, OF_KEYS))
    value_dim = width('v_head_dim')
    return {**ranks, 'head_dim': still + turning, 'rotary_dim': turning,
            'value_dim': value_dim if value_dim != still + turning else 0, 'latent_norm_eps': 1e-6}


def to_config(family: Family, model: Model) -> Dict[str, Any]:
    """The same keys, for a model that is exported."""
    keys = {**written_config(model, (OF_KEYS, OF_QUERIES)),
            'qk_nope_head_dim': model.head_dim - model.turning, 'qk_rope_head_dim': model.turning,
            'v_head_dim': model.value_dim or model.head_dim}
    return {**keys, 'rope_interleave': True} if family.latent == 'interleave' else keys


def is_interleaved(config: Keys, family: Family) -> bool:
    """Whether the rows of a pair are neighbors."""
    return family.latent != 'interleave' or config.flag('rope_interleave', True)


# ---- rows ----

@dataclass(frozen=True)
class Reordered(Made):
    """A matrix with its rows reordered within each block of len(order) rows: new row i is the block's old row
    order[i]."""
    order: Tuple[int, ...]

    def read(self) -> Iterator[bytes]:
        row, size = self.tensor.size // self.shape[0], len(self.order)
        for first in range(0, self.shape[0], size):
            rows = b''.join(self.tensor.read(first * row, size * row))
            yield b''.join(rows[i * row:(i + 1) * row] for i in self.order)


def order_of(part: str, model: Model, interleaved: bool) -> Tuple[int, ...]:
    """The places of our rows of a head elsewhere, for wq, or for wkv_a and its bias."""
    turning, still = model.turning, model.head_dim - model.turning
    pairs = [i if interleaved else i // 2 + i % 2 * (turning // 2) for i in range(turning)]
    if part == 'wq':
        return tuple([still + i for i in pairs] + list(range(still)))
    return tuple(list(range(model.kv_rank)) + [model.kv_rank + i for i in pairs])


def order_back(part: str, model: Model) -> Tuple[int, ...]:
    """Our places of the other programs' rows, with adjacent pairs."""
    order = order_of(part, model, True)
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def take_latent(path: str, tensors: Tensors, model: Model, names: Dict[str, str], both: str, interleaved: bool) -> None:
    """Converts a source's tensors to our order: the rotating part first, and keys and values separately if `both` joins
    them."""
    still, value_dim = model.head_dim - model.turning, model.value_dim or model.head_dim
    rows = dict.fromkeys(ORDERED, model.kv_rank + model.turning)
    rows['wq'] = model.n_heads * model.head_dim
    for layer in range(model.n_layers):
        for part, count in rows.items():
            tensor = tensors.get(names.get(part, '%d') % layer)
            if tensor and tensor.shape[0] == count:  # otherwise it is refused later
                tensors[names[part] % layer] = Reordered(tensor, order_of(part, model, interleaved))
        whole = tensors.pop(both % layer, None)
        if not whole:
            continue
        of_one = still + value_dim
        if whole.shape != (model.n_heads * of_one, model.kv_rank):
            raise Problem(whole.path, '%s does not fit the configuration (found %s, expected %s)' % (
                whole.name, list(whole.shape), [model.n_heads * of_one, model.kv_rank]))
        for part, taken in ('wk', range(still)), ('wv', range(still, of_one)):
            tensors[names[part] % layer] = Taken(whole.name, whole, model.n_heads, of_one, taken)


# ---- out ----

def keys_and_values(path: str, model: Model, wk: Any, wv: Any) -> ByHead:
    if wk.dtype != wv.dtype or wk.dtype not in ITEM_SIZES:
        raise Problem(path, 'has keys of type %s and values of type %s (expected floats of one type, since they go '
                      'into one matrix)' % (wk.dtype, wv.dtype))
    return ByHead([wk, wv], model.n_heads)


# ---- GGUF ----

YARN = 4          # value of rope_method
MULTIPLIER = 'rope.scaling.yarn_log_multiplier'
GGUF_BOTH = 'blk.%d.attn_kv_b.weight'


def from_gguf(keys: Keys, n_heads: int) -> Dict[str, Any]:
    """The widths of heads and of latent vectors."""
    turning = keys.integer('rope.dimension_count', MAX_HEAD_DIM)
    ranks = read_gguf(keys, (OF_KEYS, OF_QUERIES))
    rank = ranks['kv_rank']
    is_new = 'attention.key_length_mla' in keys.values
    key, value = ('attention.%s_length%s' % (name, '_mla' * is_new) for name in ('key', 'value'))
    head_dim, value_dim = keys.integer(key, MAX_HEAD_DIM), keys.integer(value, MAX_HEAD_DIM)
    if turning % 2 or head_dim % 2 or turning >= head_dim:
        keys.refuse('rope.dimension_count', 'an even number below the length of a key, %d' % head_dim)
    keys.get('attention.head_count_kv', lambda v: v in (1, n_heads), '1 or the number of heads, %d' % n_heads, n_heads)
    if is_new:
        keys.only('attention.key_length', rank + turning)
        keys.only('attention.value_length', rank)
    return {**ranks, 'n_kv_heads': n_heads, 'head_dim': head_dim, 'rotary_dim': turning,
            'value_dim': 0 if value_dim == head_dim else value_dim}


# ---- YaRN ----

def grown(factor: float, mscale: float = 1.0) -> float:
    """The factor that follows from an mscale."""
    return 0.1 * mscale * log(factor) + 1 if factor > 1 else 1.0


def own_growth(rule: Gguf, factor: float, multiplier: float) -> float:
    """The factor by which llama.cpp multiplies both queries and keys before attn_factor. The multiplier is
    mscale_all_dim, and also mscale if the row has `both`; otherwise mscale is 1."""
    return grown(factor, multiplier if rule.yarn == 'both' and multiplier else 1.0)


def read_multiplier(keys: Keys, rule: Gguf) -> float:
    """The mscale_all_dim of a file."""
    if rule.yarn == 'unread':
        keys.only(MULTIPLIER, 0.0)
    return 10 * keys.number(MULTIPLIER, 0.0, above=-NUMBER_LIMIT, zero=True)


def read_yarn(keys: Keys, rule: Gguf, factor: float) -> Dict[str, Any]:
    """The factors of cos and sin, and of scores, in the terms of config.json."""
    multiplier = read_multiplier(keys, rule)
    scores = keys.number('rope.scaling.attn_factor', 1.0) * own_growth(rule, factor, multiplier)
    turned = scores / grown(factor, multiplier)
    if is_same(scores, 1):
        return {'attention_factor': 0 if is_same(turned, grown(factor)) else turned}
    if factor <= 1 or scores < 1:
        keys.refuse('rope.scaling.attn_factor', 'one by which the scores of latent attention do not become less')
    each = 0.1 * log(factor)
    pair = {'mscale_in_scores': 1, 'mscale_all_dim': shortest((scores - 1) / each)}
    if is_same(turned, grown(factor)):
        return pair
    mscale = shortest((turned * scores - 1) / each)
    return {**pair, 'mscale': mscale} if mscale > 0 else {**pair, 'attention_factor': turned}


def check_linear(keys: Keys, rule: Gguf, factor: float) -> None:
    """Checks linear interpolation: llama.cpp also multiplies its scores, unless the multiplier cancels that."""
    multiplier = read_multiplier(keys, rule)
    if not is_same(grown(factor) * grown(factor, multiplier), 1):
        if multiplier:
            keys.refuse(MULTIPLIER, 'none, or a value that leaves scores unchanged')
        keys.job.note('llama.cpp multiplies the scores of latent attention by %.6g with linear interpolation; run does '
                      'not' % grown(factor) ** 2)


def yarn_settings(path: str, rule: Gguf, model: Model, rope: Dict[str, Any]) -> Dict[str, Tuple[int, Any]]:
    """The multiplier and attn_factor with which llama.cpp gets the same result. It also multiplies scores with linear
    interpolation."""
    kind, factor = rope['kind'], rope['factor']
    if kind not in ('yarn', 'linear') or factor <= 1:
        return {}
    turned = (rope['attention_factor'] or grown(factor)) if kind == 'yarn' else 1.0
    scores = grown(factor, model.mscale_all_dim) if model.mscale_in_scores else 1.0
    each, by_itself = 0.1 * log(factor), grown(factor) if kind == 'linear' else 1.0
    multiplier = shortest((scores / turned / by_itself - 1) / each)
    multiplier = 0.0 if abs(multiplier) < 1e-6 else multiplier
    if multiplier and rule.yarn == 'unread':
        raise Problem(path, 'has rope %s that multiplies scores and turns by %.6g and %.6g, which no key of %s says '
                      '(expected both alike)' % (kind, scores, turned, rule.architecture))
    own = own_growth(rule, factor, multiplier) if kind == 'yarn' else by_itself * grown(factor, multiplier)
    return {MULTIPLIER: (F32, multiplier / 10), 'rope.scaling.attn_factor': (F32, scores / own)}


def is_same(a: float, b: float) -> bool:
    """Whether two numbers are equal up to the rounding of float32."""
    return abs(a / b - 1) < 1e-6


def shortest(value: float) -> float:
    """The shortest number within the precision that a difference and a quotient of float32 numbers have."""
    return next((near for near in (float('%.*g' % (digits, value)) for digits in range(1, 8))
                 if abs(near - value) <= 2e-6 * abs(value)), value)


# ---- tensors ----

def take_apart(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """Converts the matrices of keys and values in newer files, head by head, to model.bin's order."""
    heads, rank, still = model.n_heads, model.kv_rank, model.head_dim - model.turning
    value_dim = model.value_dim or model.head_dim
    for layer in range(model.n_layers):
        for part, shape in ('wk', (heads, rank, still)), ('wv', (heads, value_dim, rank)):
            tensor = tensors.get(names[part] % layer)
            if not tensor or len(tensor.shape) == 2:  # of an older file
                continue
            if tensor.shape != shape:
                raise Problem(tensor.path, '%s does not fit the configuration (found %s, expected %s)'
                              % (tensor.name, list(tensor.shape), list(shape)))
            tensors[names[part] % layer] = tensor._replace(shape=(heads * value_dim, rank)) if part == 'wv' else \
                Transposed(tensor.name, as_floats(tensor.path, tensor), range(still))


def as_floats(path: str, tensor: Any) -> Any:
    """A matrix of keys, ready to be transposed."""
    if tensor.dtype in WIDENED:
        return Widened(tensor)
    if tensor.dtype not in ITEM_SIZES:
        raise Problem(path, '%s is of type %s (expected one of %s, since it stands transposed in GGUF)'
                      % (tensor.name, tensor.dtype, ', '.join([*ITEM_SIZES, *WIDENED])))
    return tensor


def to_gguf(model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys for a model that is exported, as in newer files."""
    rank, turning = model.kv_rank, model.turning
    settings = {
        'attention.head_count_kv': (U32, 1), **written_gguf(model, [OF_KEYS]),
        'attention.key_length': (U32, rank + turning), 'attention.value_length': (U32, rank),
        'attention.key_length_mla': (U32, model.head_dim),
        'attention.value_length_mla': (U32, model.value_dim or model.head_dim)}
    settings.update(written_gguf(model, [OF_QUERIES]))  # llama.cpp asks for it: 0 without one
    if model.temperature_beta:
        settings.update({'attention.temperature_scale': (F32, model.temperature_beta),
                         'attention.temperature_length': (U32, model.train_ctx)})
    return settings


def gguf_temperature(keys: Keys, model: Model) -> Dict[str, Any]:
    """The growth of queries with their position. model.bin has the same length for it and for YaRN."""
    beta = keys.number('attention.temperature_scale', 0.0, zero=True, high=1e6)
    length = keys.integer('attention.temperature_length', MAX_SEQ, model.train_ctx, low=0)
    if beta and model.rope_method == YARN and length != model.train_ctx:
        keys.refuse('attention.temperature_length', 'rope.scaling.original_context_length, %d' % model.train_ctx)
    return {'temperature_beta': beta, 'train_ctx': length} if beta else {}
