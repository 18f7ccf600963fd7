"""Experts in GGUF files: their keys, and their tensors, which have an axis for the expert. Older files of Mixtral have
a tensor for each expert, newer ones may have gate and up in one."""

from __future__ import annotations

from typing import Dict, List

from .common import MAX_EXPERTS, MAX_WIDTH, Keys, Problem
from .experts import EXPERT_PARTS, Taken, layers_with_experts
from .families import Family
from .model import Feature, Model
from .tensors import Joined, Tensor, Tensors

BOTH = 'blk.%d.ffn_gate_up_exps.weight'
ONE_BY_ONE = {'experts_w1': 'blk.%d.ffn_gate.%d.weight', 'experts_w3': 'blk.%d.ffn_up.%d.weight',
              'experts_w2': 'blk.%d.ffn_down.%d.weight'}


def read_experts(keys: Keys, families: List[Family]) -> Dict[str, int]:
    """The fields about experts. Their weights are always brought to a sum of 1, which some files say, too."""
    with_experts = [family for family in families if Feature.EXPERTS in family.always]
    if not with_experts:
        keys.only('expert_count', 0)
        return {}
    n_experts = keys.integer('expert_count', MAX_EXPERTS, 0, low=int(with_experts == families))
    if not n_experts:
        return {}
    keys.only('expert_weights_norm', True)
    keys.only('expert_weights_scale', 1.0)
    keys.only('expert_shared_count', 0)
    used = keys.integer('expert_used_count', MAX_EXPERTS)
    if used > n_experts:
        keys.refuse('expert_used_count', 'no more than there are experts, %d' % n_experts)
    dense = keys.integer('feed_forward_length', MAX_WIDTH)
    return {'n_experts': n_experts, 'n_experts_used': used,
            'expert_hidden_dim': keys.integer('expert_feed_forward_length', MAX_WIDTH, dense, low=0) or dense}


def stack_experts(path: str, tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """Brings the experts' matrices into two axes, and their biases into one, under the names that they have."""
    n, dim, hidden = model.n_experts, model.dim, model.expert_hidden_dim
    for layer in layers_with_experts(model):
        split_halves(tensors, model, layer, names)
        for part in EXPERT_PARTS:
            name, rows = names[part] % layer, dim if part[-1] == '2' else hidden
            shape = (n, rows) if part[-2] == 'b' else (n, rows, hidden if part[-1] == '2' else dim)
            each = ONE_BY_ONE.get(part)
            if each and each % (layer, 0) in tensors and name not in tensors:
                found = [tensors.pop(each % (layer, e), None) for e in range(n)]
                tensors[name] = joined(path, found, [each % (layer, e) for e in range(n)], shape[1:])
            elif isinstance(tensors.get(name), Tensor):
                tensors[name] = in_two_axes(tensors[name], shape)


def joined(path, found, names, shape):
    """One tensor of those of each expert."""
    for tensor, name in zip(found, names):
        if not tensor:
            raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
        if (tensor.shape, tensor.dtype) != (shape, found[0].dtype):
            raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                          % (name, tensor.dtype, list(tensor.shape), found[0].dtype, list(shape)))
    return Joined(found, 0)


def in_two_axes(tensor, shape):
    """The axes of experts and rows as one, where the shape is the one expected; else it stays and is refused later."""
    if tensor.shape != shape:
        raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s)'
                      % (tensor.name, tensor.dtype, list(tensor.shape), list(shape)))
    return tensor._replace(shape=(shape[0] * shape[1], *shape[2:]))


def split_halves(tensors, model, layer, names):
    """Gate and up of each expert in one tensor, gate first, become two."""
    n, hidden, dim = model.n_experts, model.expert_hidden_dim, model.dim
    both = tensors.pop(BOTH % layer, None)
    if both:
        both = in_two_axes(both, (n, 2 * hidden, dim))
        for part, first in ('experts_w1', 0), ('experts_w3', hidden):
            tensors[names[part] % layer] = Taken(both.name, both, n, 2 * hidden, range(first, first + hidden))
