"""config.json of a model that is exported: the keys that its family reads, according to its row and the readers
(config.py, layers.py), and RoPE's keys as ./run writes them. No setting is left to a default that differs between
releases."""

from __future__ import annotations

import os
import re
from math import sqrt
from typing import Any, Callable, Dict

from .common import Job, Problem
from .config import said_by
from .existing import WRITTEN_BY
from .families import GATES, TYPES, Family
from .kinds import altup, experts, gaussian_topk, latent, layers, shapes, states, steps
from .model import Model
from .out_model import rope_of
from .rope import answer_of
from .tensors import rounded

ORIGINAL = 'original_max_position_embeddings'
DTYPES = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}


def float_type(model: Model) -> str:
    """The common type of all matrices of floats; float32 if they have several."""
    types = set(model.types) - {'MXFP4'}
    return types.pop() if len(types) == 1 else 'F32'


def config_of(job: Job, path: str, family: Family, model: Model) -> Dict[str, Any]:
    config = {
        'architectures': [family.architecture], 'model_type': family.model_type,
        'vocab_size': model.vocab_size, 'hidden_size': model.dim, family.keys.of('hidden_dim'): model.hidden_dim,
        'num_hidden_layers': model.n_layers, 'num_attention_heads': model.n_heads,
        'num_key_value_heads': model.n_kv_heads, 'head_dim': model.head_dim,
        **(family.activation or {'hidden_act': 'silu'}),
        'max_position_embeddings': model.seq_len, family.keys.of('norm_eps'): model.norm_eps, 'attention_dropout': 0.0,
        'tie_word_embeddings': bool(model.shared_classifier), 'pad_token_id': None,
        'bos_token_id': None if model.bos_id < 0 else model.bos_id,
        'eos_token_id': model.eos_ids if model.eos_ids[1:] else model.eos_ids[0] if model.eos_ids else None,
        'torch_dtype': DTYPES[float_type(model)], 'use_cache': True, 'written_by': WRITTEN_BY}
    if model.kv_rank:
        config.update(latent.to_config(family, model))
        del config['head_dim']
    if 'head_dim' in family.keys.unread:
        del config['head_dim']
        if model.head_dim * model.n_heads != model.dim:
            raise Problem(path, 'has heads of %d, which %s has not (expected %d, as many as all make the width)'
                          % (model.head_dim, family.title, model.dim // model.n_heads))
    config.update(shapes.to_config(path, family, model))
    per_layer_key, gate_key = family.keys.of('per_layer_dim'), family.keys.of('attention_gate')
    if per_layer_key:
        config.update({per_layer_key: model.per_layer_dim, 'vocab_size_per_layer_input': model.vocab_size})
    if gate_key:
        config[gate_key] = next(word for word, gate in reversed(GATES.items()) if gate == model.attention_gate)
    config.update(altup.to_config(model), **gaussian_topk.to_config(family, model))
    if model.n_experts:
        config.update(experts.to_config(path, family, model))
    elif family.experts and family.experts.none:
        config.update({family.experts.counts[0]: 0, family.experts.used: 0})
    elif family.experts and family.experts.sparse:
        config[family.experts.sparse[0]] = []
    elif family.experts and family.experts.flag:
        config[family.experts.flag] = False
    config.update({key: all(getattr(model, field) == value for field, value in said_by(names).items())
                   for key, names in family.keys.says.items()})
    if family.keys.of('after_norm_eps'):
        config[family.keys.of('after_norm_eps')] = model.after_norm_eps
    if family.keys.attention_bias == 'read':
        config['attention_bias'] = bool(model.o_bias)
    if family.rope.rotary_key:
        config[family.rope.rotary_key] = model.turning
    config.update(family.keys.writes, **config_of_scales(job, path, family, model))
    config.update(states.to_config(path, family, model) if family.states else layers.to_config(path, family, model))
    config.update(ropes_of(job, path, family, model))
    return config


def config_of_scales(job: Job, path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The scales of embeddings and scores, and the caps of logits and scores."""
    if family.scales.get('embedding') == 'sqrt_dim':
        layers.scale_of_embedding(job, path, model, rounded(sqrt(model.dim), model.types[0]))
    caps = {key: getattr(model, field) or None for field in ('logit_cap', 'score_cap')
            if (key := family.scales.get(field))}
    for word, (field, make, back) in steps.FACTORS.items():
        key = family.scales.get(word)
        if key:
            usual = model.head_dim ** -0.5 if field == 'score_scale' else 1.0
            caps[key] = number_back(getattr(model, field) or usual, make, back, model.head_dim)
    key = family.scales.get('values')
    caps.update({key: model.value_scale or 1.0} if key else {})
    key = family.scales.get('scores')
    if key == 'one' and model.score_scale != 1:
        raise Problem(path, 'has a score scale of %g, which %s has not (expected 1)' % (
            model.score_scale, family.title))
    if not key or key == 'one':
        return caps
    width = model.score_scale ** -2 if model.score_scale else model.head_dim
    if abs(width / round(width) - 1) > 1e-9:
        raise Problem(path, 'has a score scale of %g, which Hugging Face has not (expected a whole number to the '
                      'power of -1/2)' % model.score_scale)
    return {**caps, key: round(width)}


def number_back(value: float, make: Callable[[float, int], float], back: Callable[[float, int], float],
                head_dim: int) -> float:
    """The number with the fewest digits that gives the value."""
    guess = back(value, head_dim)
    some = (float('%.*g' % (digits, guess)) for digits in range(1, 18))
    return next((number for number in some if number and make(number, head_dim) == value), guess)


# ---- RoPE ----

def ropes_of(job: Job, path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys about RoPE, as ./run writes them for the family (src/configs/write.c)."""
    rope = rope_of(path, model)  # refuses settings that no other program has
    kind, length = rope['kind'], rope['train_ctx']
    kinds = sorted({'none' if name == 'default' else name for name in TYPES[family.rope.types].values()})
    if family.rope.types != 'usual' and kind not in kinds:
        raise Problem(path, 'has rope %s, which the class of %s in Hugging Face has not (expected %s)'
                      % (kind, family.title, ' or '.join(kinds)))
    if family.rope.by_kind and kind == 'yarn' and not rope['truncate']:
        raise Problem(path, 'has yarn with a ramp that is not cut to whole pairs, which Hugging Face has not where '
                      'each kind of layers has a block')
    if rope['attention_factor'] and kind not in ('yarn', 'longrope'):
        raise Problem(path, 'has an attention factor with rope %s (found %g), which Hugging Face has not'
                      % (kind, rope['attention_factor']))
    keys = written(path, family)
    most = keys.pop('max_position_embeddings')
    is_whole = keys.get('partial_rotary_factor') == 1 and not family.default('partial_rotary_factor')
    if family.rope.rotary_key or is_whole:
        keys.pop('partial_rotary_factor', None)
    if family.rope.goes_out != 'for_engines':
        keys.pop(ORIGINAL, None)
        if kind == 'dynamic' and length != model.seq_len:
            raise Problem(path, 'has dynamic RoPE that counts from %d, where Hugging Face takes '
                          'max_position_embeddings, %d' % (length, model.seq_len))
        return keys
    if most != model.seq_len:  # some engines compute the factor from the lengths
        job.note('max_position_embeddings is %d, %s' % (most, 'the length that dynamic scaling counts from'
                 if kind == 'dynamic' else 'as far as the factor reaches: some engines take the factor from that'))
    if family.rope.types == 'longrope_alone' and keys['rope_scaling'] and len(keys['rope_scaling']) > 3:
        job.note("Transformers 4 will refuse the folder, since its class of %s has no factors beside longrope's "
                 'lists' % family.title)
    return {'max_position_embeddings': most, **keys}


def written(path: str, family: Family) -> Dict[str, Any]:
    """The RoPE settings that ./run writes for a config of the family."""
    place = path if os.path.isabs(path) else os.path.join('.', path)
    keys, told = answer_of(path, [place, '--rope-json=' + family.model_type])
    if not keys or 'max_position_embeddings' not in keys:
        raise Problem(path, re.sub(r'^run: ', '', told))
    return keys
