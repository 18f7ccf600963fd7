"""Latent attention in GGUF files. Newer ones have keys and values apart, the keys' matrices transposed, and call what a
token takes in the cache the length of a key; older ones have both in one matrix."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from .common import MAX_HEAD_DIM, MAX_HEADS, MAX_WIDTH, Keys, Problem
from .experts import Transposed
from .model import Model
from .tensors import ITEM_SIZES, Tensors

QUERIES, BOTH = 'blk.%d.attn_q_b.weight', 'blk.%d.attn_kv_b.weight'
LATENT_NAMES = {'wk': 'blk.%d.attn_k_b.weight', 'wv': 'blk.%d.attn_v_b.weight'}


def read_latent(keys: Keys, n_heads: int) -> Dict[str, Any]:
    """The widths of heads and of latent vectors."""
    turning = keys.integer('rope.dimension_count', MAX_HEAD_DIM)
    rank = keys.integer('attention.kv_lora_rank', MAX_HEAD_DIM)
    is_new = 'attention.key_length_mla' in keys.values
    key, value = ('attention.%s_length%s' % (name, '_mla' * is_new) for name in ('key', 'value'))
    head_dim, value_dim = keys.integer(key, MAX_HEAD_DIM), keys.integer(value, MAX_HEAD_DIM)
    if turning % 2 or head_dim % 2 or turning >= head_dim:
        keys.refuse('rope.dimension_count', 'an even number below the length of a key, %d' % head_dim)
    keys.get('attention.head_count_kv', lambda v: v in (1, n_heads), '1 or the number of heads, %d' % n_heads, n_heads)
    if is_new:
        keys.only('attention.key_length', rank + turning)
        keys.only('attention.value_length', rank)
    return {'n_kv_heads': n_heads, 'head_dim': head_dim, 'rotary_dim': turning, 'kv_rank': rank,
            'q_rank': keys.integer('attention.q_lora_rank', MAX_WIDTH, 0, low=0),
            'value_dim': 0 if value_dim == head_dim else value_dim}


def log_multiplier_of(keys: Keys) -> Dict[str, Any]:
    """A tenth of mscale_all_dim, with an mscale of the same: only scores grow then."""
    found = keys.number('rope.scaling.yarn_log_multiplier', 0.0, zero=True)
    return {'mscale': 10 * found, 'mscale_all_dim': 10 * found, 'mscale_in_scores': 1} if found else {}


def take_apart(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """The matrices of keys and values of newer files, head by head, as they stand in model.bin."""
    heads, rank, still = model.n_heads, model.kv_rank, model.head_dim - model.turning
    value_dim = model.value_dim or model.head_dim
    for layer in range(model.n_layers):
        for part, shape in ('wk', (heads, rank, still)), ('wv', (heads, value_dim, rank)):
            tensor = tensors.get(names[part] % layer)
            if not tensor or len(tensor.shape) == 2:  # of an older file
                continue
            if tensor.shape != shape or part == 'wk' and tensor.dtype not in ITEM_SIZES:
                raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s of %s)' % (
                    tensor.name, tensor.dtype, list(tensor.shape), list(shape),
                    'floats, since it stands transposed' if part == 'wk' else 'a type that run reads'))
            tensors[names[part] % layer] = Transposed(tensor.name, tensor, range(still)) if part == 'wk' else \
                tensor._replace(shape=(heads * value_dim, rank))


def settings_of_latent(path: str, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys of a model that goes out, as newer files have them."""
    u32, f32 = 4, 6
    rank, turning = model.kv_rank, model.turning
    settings = {
        'attention.head_count_kv': (u32, 1), 'attention.kv_lora_rank': (u32, rank),
        'attention.key_length': (u32, rank + turning), 'attention.value_length': (u32, rank),
        'attention.key_length_mla': (u32, model.head_dim),
        'attention.value_length_mla': (u32, model.value_dim or model.head_dim)}
    if model.q_rank:
        settings['attention.q_lora_rank'] = u32, model.q_rank
    if model.mscale_in_scores:
        if model.mscale != model.mscale_all_dim or model.attention_factor:
            raise Problem(path, 'has yarn with mscale %g and mscale_all_dim %g, which GGUF cannot say of latent '
                          'attention (expected the same of both)' % (model.mscale, model.mscale_all_dim))
        settings['rope.scaling.yarn_log_multiplier'] = f32, model.mscale_all_dim / 10
    return settings
