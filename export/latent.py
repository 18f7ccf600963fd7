"""Latent attention: keys and values come from one narrow vector. Hugging Face and llama.cpp have a head's still part
first and what turns of it behind that, and keys and values of a head in one matrix; model.bin has what turns first, and
a matrix of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Tuple

from .common import MAX_HEAD_DIM, MAX_WIDTH, Keys, Problem
from .experts import Taken
from .families import Family
from .model import Model
from .tensors import ITEM_SIZES, Made, Tensors

LATENT_NAMES = {part: 'model.layers.%%d.self_attn.%s.weight' % name for part, name in (
    ('wq_a', 'q_a_proj'), ('q_a_norm', 'q_a_layernorm'), ('wkv_a', 'kv_a_proj_with_mqa'),
    ('kv_a_norm', 'kv_a_layernorm'))}
QUERIES = 'model.layers.%d.self_attn.q_b_proj.weight'  # where they come from a narrow vector, too
BOTH = 'model.layers.%d.self_attn.kv_b_proj.weight'    # keys and values


# ---- config.json ----

def read_latent(config: Keys, family: Family) -> Dict[str, Any]:
    """The widths of heads and of latent vectors. The two inner norms have an epsilon of their own."""
    def width(key: str, high: int = MAX_HEAD_DIM) -> int:
        return config.integer(key, high, family.default(key))

    still, turning = width('qk_nope_head_dim'), width('qk_rope_head_dim')
    for key, value in ('qk_nope_head_dim', still), ('qk_rope_head_dim', turning):
        if value % 2 or still + turning > MAX_HEAD_DIM:
            config.refuse(key, 'an even number, and at most %d together with the rest of a head' % MAX_HEAD_DIM)
    q_rank = config.integer('q_lora_rank', MAX_WIDTH, family.default('q_lora_rank'), 0) or 0
    value_dim = width('v_head_dim')
    return {'head_dim': still + turning, 'rotary_dim': turning, 'kv_rank': width('kv_lora_rank'), 'q_rank': q_rank,
            'value_dim': value_dim if value_dim != still + turning else 0, 'latent_norm_eps': 1e-6}


def config_of_latent(family: Family, model: Model) -> Dict[str, Any]:
    """The same keys of a model that goes out."""
    keys = {'kv_lora_rank': model.kv_rank, 'q_lora_rank': model.q_rank or None,
            'qk_nope_head_dim': model.head_dim - model.turning, 'qk_rope_head_dim': model.turning,
            'v_head_dim': model.value_dim or model.head_dim}
    return {**keys, 'rope_interleave': True} if family.latent == 'interleave' else keys


def is_interleaved(config: Keys, family: Family) -> bool:
    """Whether the rows of a pair are neighbors."""
    return family.latent != 'interleave' or config.flag('rope_interleave', True)


# ---- rows ----

@dataclass(frozen=True)
class Reordered(Made):
    """The rows of a matrix in another order in each block of so many: new row i is the block's old row order[i]."""
    order: Tuple[int, ...]

    def read(self) -> Iterator[bytes]:
        row, size = self.tensor.size // self.shape[0], len(self.order)
        for first in range(0, self.shape[0], size):
            rows = b''.join(self.tensor.read(first * row, size * row))
            yield b''.join(rows[i * row:(i + 1) * row] for i in self.order)


def order_of(part: str, model: Model, interleaved: bool) -> Tuple[int, ...]:
    """Where our rows of a head of wq, or of wkv_a, stand elsewhere."""
    turning, still = model.turning, model.head_dim - model.turning
    pairs = [i if interleaved else i // 2 + i % 2 * (turning // 2) for i in range(turning)]
    if part == 'wq':
        return tuple([still + i for i in pairs] + list(range(still)))
    return tuple(list(range(model.kv_rank)) + [model.kv_rank + i for i in pairs])


def order_back(part: str, model: Model) -> Tuple[int, ...]:
    """Where the rows of others, with pairs side by side, stand in ours."""
    order = order_of(part, model, True)
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def take_latent(path: str, tensors: Tensors, model: Model, names: Dict[str, str], both: str, interleaved: bool) -> None:
    """Brings a source's tensors into our order: what turns first, keys and values apart, where `both` has them."""
    still, value_dim = model.head_dim - model.turning, model.value_dim or model.head_dim
    rows = {'wq': model.n_heads * model.head_dim, 'wkv_a': model.kv_rank + model.turning}
    for layer in range(model.n_layers):
        for part, count in rows.items():
            tensor = tensors.get(names[part] % layer)
            if tensor and len(tensor.shape) == 2 and tensor.shape[0] == count:  # else it is refused later
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

@dataclass(frozen=True)
class Alternating:
    """The rows of several matrices, those of each head of one below those of the one before."""
    parts: List[Any]
    n_heads: int

    name = property(lambda self: self.parts[0].name)
    path = property(lambda self: self.parts[0].path)
    dtype = property(lambda self: self.parts[0].dtype)
    shape = property(lambda self: (sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]))

    def read(self) -> Iterator[bytes]:
        for head in range(self.n_heads):
            for part in self.parts:
                size = part.size // self.n_heads
                yield from part.read(head * size, size)


def keys_and_values(path: str, model: Model, wk: Any, wv: Any) -> Alternating:
    if wk.dtype != wv.dtype or wk.dtype not in ITEM_SIZES:
        raise Problem(path, 'has keys of type %s and values of type %s (expected floats of one type, since they go '
                      'into one matrix)' % (wk.dtype, wv.dtype))
    return Alternating([wk, wv], model.n_heads)
