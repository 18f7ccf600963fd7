"""config.json of a model that goes out: the keys that its family reads, as its row and the readers (config.py,
layers.py, rope.py) have them, and nothing left to a default that differs from release to release."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, Callable, Dict

from .common import Job, Problem
from .config import said_by
from .existing import WRITTEN_BY
from .families import GATES, TYPES, Family
from .kinds import altup, experts, gaussian_topk, latent, layers, shapes, states, steps
from .model import TURNS_AS_SLIDING, Model
from .out_model import rope_of, temperature
from .tensors import rounded

NTK = 2  # of rope_method
ORIGINAL = 'original_max_position_embeddings'
DTYPES = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}


def float_type(model: Model) -> str:
    """The type of all matrices of floats; float32 if they are of several."""
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
    if family.rope.partial and not family.rope.by_kind and (
            model.rotary_dim or family.default('partial_rotary_factor')):
        config['partial_rotary_factor'] = share_of(model)
    if family.rope.rotary_key:
        config[family.rope.rotary_key] = model.turning
    config.update(family.keys.writes, **config_of_scales(job, path, family, model))
    config.update(states.to_config(path, family, model) if family.states else layers.to_config(path, family, model))
    config.update(ropes_of(job, path, family, model))
    return config


def share_of(model: Model) -> float:
    """partial_rotary_factor. Readers multiply a head's elements by it and cut: 58 of 100 are 0.580000000001, since 100
    times 0.58 is less than 58 in floating point."""
    digits = ceil(1e12 * model.turning / model.head_dim)
    while int(model.head_dim * (digits / 1e12)) < model.turning:
        digits += 1
    return digits / 1e12


def config_of_scales(job: Job, path: str, family: Family, model: Model) -> Dict[str, Any]:
    """What embeddings and scores are multiplied by, and what caps logits and scores."""
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
    """The number of the fewest digits that means the value."""
    guess = back(value, head_dim)
    some = (float('%.*g' % (digits, guess)) for digits in range(1, 18))
    return next((number for number in some if number and make(number, head_dim) == value), guess)


# ---- RoPE ----

def ropes_of(job: Job, path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys about RoPE: in the older layout, which most engines read, where it can say it."""
    if family.rope.by_kind:
        return ropes_by_kind(path, family, model)
    if family.rope.goes_out == 'with_alpha' and model.rope_method == NTK and not model.rope_dynamic:
        return {'rope_theta': model.theta, 'rope_scaling': {'type': 'dynamic', 'alpha': model.factor, 'factor': 1.0}}
    if family.rope.grows:
        return {'rope_parameters': {**block_of(path, model), 'llama_4_scaling_beta': model.temperature_beta,
                                    ORIGINAL: model.train_ctx}}
    if family.rope.one_for_both:
        refuse_two_ropes(path, family, model)
    one = layers.sliding_model(model) if model.sliding_rope else model
    if family.rope.goes_out == 'for_engines':
        return rope_keys(job, path, family, one)
    block, own = block_of(path, one), family.default('rope_parameters')
    if own and block['rope_type'] == 'default':  # the class takes a missing block for its own
        return {'rope_parameters': block}
    return {'rope_theta': block.pop('rope_theta'), 'rope_scaling': block if block['rope_type'] != 'default' else None}


def ropes_by_kind(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """A block for each kind of layers, or rope_scaling for the full ones where the sliding ones are plain."""
    kinds = [layers.full_model(model)] + [layers.sliding_model(model)] * model.sliding_rope
    blocks, local_key = [block_of(path, kind) for kind in kinds], family.rope.theta_keys.get('sliding')
    for kind, block in zip(kinds, blocks):
        if family.rope.partial:
            block['partial_rotary_factor'] = share_of(kind)
    full, sliding = blocks[0], blocks[1] if model.sliding_rope else None
    if 'truncate' in full or sliding and 'truncate' in sliding:
        raise Problem(path, 'has yarn with a ramp that is not cut to whole pairs, which Hugging Face has not where '
                      'each kind of layers has a block')
    plain = not sliding or sliding['rope_type'] == 'default'
    alike = not sliding or local_key or sliding['rope_theta'] == full['rope_theta'] == family.rope.local_theta
    if not plain or not alike or family.rope.one_block == 'refused':
        return {'rope_parameters': {layers.FULL: full, **({layers.SLIDING: sliding} if sliding else {})}}
    keys = {'rope_theta': full.pop('rope_theta'), 'rope_scaling': full if full['rope_type'] != 'default' else None}
    return {**keys, **({local_key: sliding['rope_theta']} if sliding and local_key else {})}


def refuse_two_ropes(path: str, family: Family, model: Model) -> None:
    """Some families have one RoPE for their full layers and their sliding ones."""
    if model.sliding_rope and any(not flags & TURNS_AS_SLIDING for flags in model.layers):
        full, sliding = rope_of(path, model), rope_of(path, layers.sliding_model(model))
        for key, value in full.items():
            if sliding[key] != value:
                raise Problem(path, 'has another RoPE in its sliding layers (%s: found %s, expected %s), which %s has '
                              'not' % (key, sliding[key], value, family.title))


def block_of(path: str, model: Model) -> Dict[str, Any]:
    """One block with all that it needs, as the newest layout has it."""
    rope = rope_of(path, model)
    kind, pair = rope['kind'], (model.mscale, model.mscale_all_dim)
    block = {'rope_type': 'default' if kind == 'none' else kind, 'rope_theta': rope['theta']}
    if kind == 'dynamic' and rope['train_ctx'] != model.seq_len:
        raise Problem(path, 'has dynamic RoPE that counts from %d, where Hugging Face takes max_position_embeddings, %d'
                      % (rope['train_ctx'], model.seq_len))
    if kind != 'none':
        block['factor'] = float(rope['factor'])
    if kind in ('yarn', 'llama3', 'longrope'):
        block[ORIGINAL] = rope['train_ctx']
    if kind == 'linear' and model.named_original:
        block[ORIGINAL] = model.named_original
    if kind == 'yarn':
        block.update({key: rope[key] for key in ('beta_fast', 'beta_slow') if getattr(model, key)})  # else as usual
        block.update({} if rope['truncate'] else {'truncate': False})
    if kind == 'llama3':
        block.update(low_freq_factor=rope['low_freq_factor'], high_freq_factor=rope['high_freq_factor'])
    if kind == 'longrope':
        block.update(short_factor=rope['short_factor'], long_factor=rope['long_factor'])
    if model.mscale_in_scores or kind == 'yarn' and all(pair) and not model.attention_factor and not model.kv_rank:
        block.update({key: value for key, value in zip(('mscale', 'mscale_all_dim'), pair) if value})
        block.update({'attention_factor': model.attention_factor} if model.attention_factor else {})
    elif rope['attention_factor'] and kind not in ('yarn', 'longrope'):
        raise Problem(path, 'has an attention factor with rope %s (found %g), which Hugging Face has not'
                      % (kind, rope['attention_factor']))
    elif rope['attention_factor']:
        block['attention_factor'] = rope['attention_factor']
    return block


def rope_keys(job: Job, path: str, family: Family, model: Model) -> Dict[str, Any]:
    """One block of all layers, and what some engines look for beside it."""
    rope = rope_of(path, model)
    kind, length = rope['kind'], rope['train_ctx']
    keys, block = {'rope_theta': rope['theta']}, {'rope_type': kind}
    if rope['attention_factor'] and kind not in ('yarn', 'longrope'):
        raise Problem(path, 'has an attention factor with rope %s (found %g), which Hugging Face has not'
                      % (kind, rope['attention_factor']))
    kinds = sorted({'none' if name == 'default' else name for name in TYPES[family.rope.types].values()})
    if family.rope.types != 'usual' and kind not in kinds:
        raise Problem(path, 'has rope %s, which the class of %s in Hugging Face has not (expected %s)'
                      % (kind, family.title, ' or '.join(kinds)))
    if kind == 'none':
        return keys
    if kind == 'dynamic' and length != model.seq_len:
        job.note('max_position_embeddings is %d, the length that dynamic scaling counts from' % length)
        keys['max_position_embeddings'] = length
    if kind == 'longrope':
        return longrope_keys(job, family, model, rope, keys)
    block['factor'] = float(rope['factor'])  # vLLM and SGLang stop at a whole number
    if kind == 'linear' and model.named_original:
        block[ORIGINAL] = model.named_original
    if kind in ('yarn', 'llama3'):
        keys[ORIGINAL] = block[ORIGINAL] = length
    if kind == 'yarn':
        keys.update(reach(job, model, rope))
    if kind == 'yarn':
        block.update(beta_fast=rope['beta_fast'], beta_slow=rope['beta_slow'])
        block.update({} if rope['truncate'] else {'truncate': False})
    if kind == 'llama3':
        block.update(low_freq_factor=rope['low_freq_factor'], high_freq_factor=rope['high_freq_factor'])
    if rope['attention_factor']:
        block['attention_factor'] = rope['attention_factor']
        block.update(twins(rope))
    return {**keys, 'rope_scaling': block}


def reach(job: Job, model: Model, rope: Dict[str, Any]) -> Dict[str, int]:
    """ExLlama takes yarn's factor from the lengths, or none where the first is not longer than L."""
    most = ceil(rope['train_ctx'] * rope['factor'])
    if most != model.seq_len:
        job.note('max_position_embeddings is %d, as far as the factor reaches: some engines take the factor from '
                 'that' % most)
    return {'max_position_embeddings': most}


def twins(rope: Dict[str, Any]) -> Dict[str, float]:
    """attention_factor for those who do not read it: vLLM and SGLang multiply 0.1 ln s + 1 by attn_factor, MLX-LM puts
    mscale into it."""
    grows, a = temperature(rope['factor']) - 1, rope['attention_factor']
    return {'attn_factor': a / (grows + 1), **({'mscale': (a - 1) / grows} if grows > 0 and a >= 1 else {})}


def longrope_keys(job: Job, family: Family, model: Model, rope: Dict[str, Any], keys: Dict[str, Any]) -> Dict[str, Any]:
    """Transformers 4 looks for L beside the block, which it also takes the factor from; others look inside. Its class
    of Phi-3 takes `type` and the lists, as they were released, and refuses a block with any more."""
    key, length = ORIGINAL, rope['train_ctx']
    lists = {'short_factor': rope['short_factor'], 'long_factor': rope['long_factor']}
    bare = family.rope.types == 'longrope_alone'  # a class that knows a block of lists alone
    block = {'type': 'longrope', **lists} if bare else {'rope_type': 'longrope', key: length, **lists}
    most = rope['factor'] * length
    if most == int(most):
        keys.update(reach(job, model, rope))
    if rope['factor'] != keys.get('max_position_embeddings', model.seq_len) / length:
        block.update(factor=rope['factor'], attention_factor=rope['attention'])
    elif rope['attention_factor']:
        block['attention_factor'] = rope['attention_factor']
    if bare and len(block) > 3:
        job.note("Transformers 4 will refuse the folder, since its class of %s has no factors beside longrope's "
                 'lists' % family.title)
    return {**keys, key: length, 'rope_scaling': block}
