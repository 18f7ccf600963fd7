"""A folder as Hugging Face loads it: config.json, generation_config.json, model.safetensors and the tokenizer."""

import json
import os
import struct
import subprocess
from math import ceil, prod

from .common import PROGRAM, RUN, Problem, notes
from .config import FAMILIES
from .experts import EXPERT_PARTS
from .existing import WRITTEN_BY
from .huggingface import names_of
from .layers import SEES_ALL, WITHOUT_ROPE
from .out_experts import config_of_experts, fused as fused_experts, keeps_mxfp4, one_by_one
from .out_layers import config_of_layers, ropes_of
from .out_model import (AFTER, BETWEEN, BOTH, EMBEDDING, EXPERTS, GELU, GROWING, METHODS, OF_GPT_OSS, SCORES, SHARES,
                        SOME, TWO_ROPES, WHOLE, family_of, features_of, rope_of, temperature)
from .out_tokenizer import tokenizer_config, tokenizer_json
from .tensors import ITEM_SIZES, Joined, Shifted, narrowed
from .write import NORMS, plan_model

ALL_BIASES = 'biases of q, k, v and o'
KINDS = [  # families, what they need, and what they may have besides
    ('llama', set(), set()), ('mistral', {'a window'}, set()), ('qwen2', {'biases of q, k and v'}, {'a window', SOME}),
    ('qwen3', {'head norms'}, {ALL_BIASES, 'a window', SOME}), ('phi3', {'a part that turns'}, {'a window'}),
    ('smollm3', set(), {ALL_BIASES, 'layers without RoPE', 'a window', SOME}),
    ('gemma3_text', {BOTH, 'head norms', GELU, EMBEDDING}, {SCORES, TWO_ROPES, 'a window', SOME, ALL_BIASES}),
    ('olmo2', {AFTER, WHOLE}, {ALL_BIASES}), ('olmo3', {AFTER, WHOLE}, {TWO_ROPES, 'a window', SOME, ALL_BIASES}),
    ('exaone4', {AFTER, 'head norms'}, {TWO_ROPES, 'layers without RoPE', 'a window', SOME}),
    ('ministral3', {GROWING}, {'a window'}), ('mixtral', {EXPERTS}, {'a window'}),
    ('qwen3_moe', {EXPERTS, 'head norms'}, {ALL_BIASES, 'a window', BETWEEN, SHARES}),
    ('gpt_oss', {EXPERTS, *OF_GPT_OSS}, {TWO_ROPES, 'a window', SOME, ALL_BIASES})]
NEWER = 'gemma3_text', 'olmo2', 'olmo3', 'exaone4', 'ministral3', 'gpt_oss'  # out_layers.py has their keys
ORIGINAL = 'original_max_position_embeddings'
DTYPES = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}


def stays_in_folder(checkpoint, name):
    """Whether a folder has the type of a tensor."""
    dtype = checkpoint.tensors[name].dtype
    return dtype in ITEM_SIZES or dtype == 'MXFP4' and name.startswith(EXPERT_PARTS[:3]) and keeps_mxfp4(checkpoint)


def write_huggingface(folder, checkpoint, tokenizer):
    """Fills a folder that is there already."""
    path, model = checkpoint.path, checkpoint.model
    plan, family = plan_model(checkpoint, in_pairs=False), family_in_folder(path, model)
    tensors, config = named_tensors(path, plan, family, model), config_of(path, family, model)
    ends = list(dict.fromkeys(model['eos_ids'] + (tokenizer['eos_ids'] if tokenizer else [])))
    files = {'config.json': config, 'generation_config.json': {
        'bos_token_id': config['bos_token_id'], 'eos_token_id': ends if ends[1:] else ends[0] if ends else None}}
    if tokenizer:
        files['tokenizer.json'] = tokenizer_json(path, tokenizer)
        files['tokenizer_config.json'] = tokenizer_config(tokenizer, model, ends)
    for name, values in files.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            json.dump(values, file, indent=None if name == 'tokenizer.json' else 2, ensure_ascii=False)
            file.write('\n')
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        write_safetensors(file, tensors, float_type(model))
    write_readme(folder, config)


def family_in_folder(path, model):
    """Longrope makes a Phi-3 of what would be a Llama or a Mistral, which it computes just as well: llama.cpp's
    converter keeps the lists of that class alone."""
    family = family_of(path, features_of(model), KINDS, "Hugging Face's that is known here")
    is_longrope = METHODS[model['rope_method']] == 'longrope'
    return 'phi3' if is_longrope and family in ('llama', 'mistral') else family


def write_readme(folder, config):
    """rope.README: who reads the settings of RoPE otherwise than Hugging Face 5, by ./run, where it is built."""
    lines, most = {}, config['max_position_embeddings']
    for length in (config.get(ORIGINAL, most) // 2 + 1, most + 1):
        try:
            told = subprocess.run([RUN, '--engines', '--rope-config', os.path.join(folder, 'config.json'), '-n',
                                   str(length)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError:
            return
        for line in told.stdout.decode().splitlines():
            engine, version, verdict, *_, note = line.split('\t') if line.count('\t') > 9 else ['', '', 'same', '']
            if verdict not in ('same', 'verdict', 'not looked at'):
                lines.setdefault(engine, '%s (%s), %s: %s\n' % (engine, version, verdict, note))
    if lines:
        with open(os.path.join(folder, 'rope.README'), 'w', encoding='utf-8') as file:
            file.write('These read the RoPE settings of config.json otherwise than Hugging Face 5 does, by\n'
                       '%s --engines --rope-config config.json -n %d\n\n%s' % (PROGRAM, most, ''.join(lines.values())))


# ---- weights ----

def named_tensors(path, plan, family, model):
    """(name, tensor, whether it is a matrix) as the family has them: Phi-3's are fused, and so are experts' in their
    way."""
    fused, waiting, names = family == 'phi3', {}, names_of(model)
    experts = {}  # of gpt-oss, until a layer's are all there
    for place in plan:
        if place.part in EXPERT_PARTS and model['expert_bias']:
            experts[place.part] = place
            if len(experts) == len(EXPERT_PARTS):
                yield from fused_experts(model, experts)
                experts = {}
            continue
        if place.part in EXPERT_PARTS:
            yield from one_by_one(family, model, place)
            continue
        whole, last = {'wq': ('qkv', False), 'wk': ('qkv', False), 'wv': ('qkv', True), 'w1': ('mlp', False),
                       'w3': ('mlp', True)}.get(place.part, (None, True)) if fused else (None, True)
        if whole:
            waiting.setdefault(whole, []).append(place.tensor)
        if not last:
            continue
        name = names[place.part] if place.layer is None else names[place.part] % place.layer
        tensor = place.tensor
        if place.part in NORMS and family == 'gemma3_text':  # whose classes add 1 again
            tensor = Shifted(tensor, -1)
        if whole:
            parts = waiting.pop(whole)
            if len({part.dtype for part in parts}) > 1:
                raise Problem(path, '%s is of several types (found %s, expected one, since Phi-3 has it in one matrix)'
                              % (name, ', '.join(part.dtype for part in parts)))
            name = 'model.layers.%d.%s.weight' % (place.layer, 'self_attn.qkv_proj' if whole == 'qkv' else
                                                  'mlp.gate_up_proj')
            tensor = Joined(parts, 0)
        if place.is_matrix and tensor.dtype not in ITEM_SIZES:
            raise Problem(path, '%s is %s, which safetensors have not (expected floats: write a model.bin first, and '
                          'carry that out)' % (name, tensor.dtype))
        yield name, tensor, place.is_matrix


def float_type(model):
    """The type of all matrices of floats; float32 if they are of several."""
    types = set(model['types']) - {'MXFP4'}
    return types.pop() if len(types) == 1 else 'F32'


def write_safetensors(file, tensors, dtype):
    """What is no matrix has the type of the matrices, too, where that holds it exactly: model.bin has it in float32."""
    tensors = [(name, tensor if is_matrix else narrowed(tensor, dtype)) for name, tensor, is_matrix in tensors]
    header, at = {'__metadata__': {'format': 'pt'}}, 0
    for name, tensor in tensors:
        size = prod(tensor.shape) * {**ITEM_SIZES, 'U8': 1}[tensor.dtype]
        header[name] = {'dtype': tensor.dtype, 'shape': list(tensor.shape), 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    file.write(struct.pack('<Q', len(text)) + text)
    for _, tensor in tensors:
        for chunk in tensor.read():
            file.write(chunk)


# ---- config.json ----

def config_of(path, family, model):
    """config.json: what its family asks for, and nothing left to a default that differs from release to release."""
    config = {
        'architectures': [FAMILIES[family].architecture], 'model_type': family,
        'vocab_size': model['vocab_size'], 'hidden_size': model['dim'], 'intermediate_size': model['hidden_dim'],
        'num_hidden_layers': model['n_layers'], 'num_attention_heads': model['n_heads'],
        'num_key_value_heads': model['n_kv_heads'], 'head_dim': model['head_dim'], 'hidden_act': 'silu',
        'max_position_embeddings': model['seq_len'], 'rms_norm_eps': model['norm_eps'], 'attention_dropout': 0.0,
        'tie_word_embeddings': bool(model['shared_classifier']), 'pad_token_id': None,
        'bos_token_id': None if model['bos_id'] < 0 else model['bos_id'],
        'eos_token_id': model['eos_ids'] if model['eos_ids'][1:] else model['eos_ids'][0] if model['eos_ids'] else None,
        'torch_dtype': DTYPES[float_type(model)], 'use_cache': True,
        'written_by': WRITTEN_BY}
    if model.get('n_experts'):
        config.update(config_of_experts(family, model))
    if family in NEWER:
        config.update(config_of_layers(path, family, model), **ropes_of(path, family, model))
        if 'hidden_activation' in config:  # Gemma's own key
            del config['hidden_act']
        return config
    if family == 'llama':
        config.update(attention_bias=False, mlp_bias=False)
    elif family in ('qwen3', 'smollm3', 'qwen3_moe'):
        config['attention_bias'] = bool(model['o_bias'])
    if family == 'phi3' and model['rotary_dim']:  # exact, as it is cut to a whole number
        config['partial_rotary_factor'] = ceil(1e12 * model['rotary_dim'] / model['head_dim']) / 1e12
    config.update(layers_of(family, model))
    config.update(rope_keys(path, family, model))
    return config


def layers_of(family, model):
    """Windows, and layers without RoPE."""
    window, n = model['sliding_window'], model['n_layers']
    layers = model.get('layers') or [0] * n
    keys = {}
    if family == 'smollm3':
        keys['no_rope_layers'] = [int(not flags & WITHOUT_ROPE) for flags in layers]
    if family in ('mistral', 'phi3', 'mixtral'):
        keys['sliding_window'] = window or None
    elif family == 'qwen3_moe':
        keys.update(use_sliding_window=bool(window), sliding_window=window or None)
    elif family != 'llama':
        slides = [bool(window) and not flags & SEES_ALL for flags in layers]
        first = slides.index(True) if True in slides else n
        keys.update(use_sliding_window=bool(window), sliding_window=window or None,
                    layer_types=['sliding_attention' if slide else 'full_attention' for slide in slides],
                    max_window_layers=first)
    return keys


def rope_keys(path, family, model):
    rope = rope_of(path, model)
    kind, length = rope['kind'], rope['train_ctx']
    keys, block = {'rope_theta': rope['theta']}, {'rope_type': kind}
    if rope['attention_factor'] and kind not in ('yarn', 'longrope'):
        raise Problem(path, 'has an attention factor with rope %s (found %g), which Hugging Face has not'
                      % (kind, rope['attention_factor']))
    if family == 'phi3' and kind not in ('none', 'longrope'):
        raise Problem(path, "has rope %s where a part of a head turns, which Hugging Face's Phi-3 has not (expected "
                      'none or longrope)' % kind)
    if kind == 'none':
        return keys
    if kind == 'dynamic' and length != model['seq_len']:
        notes.append('max_position_embeddings is %d, the length that dynamic scaling counts from' % length)
        keys['max_position_embeddings'] = length
    if kind == 'longrope':
        return longrope_keys(family, model, rope, keys)
    block['factor'] = float(rope['factor'])  # vLLM and SGLang stop at a whole number
    if kind in ('yarn', 'llama3'):
        keys[ORIGINAL] = block[ORIGINAL] = length
    if kind == 'yarn':
        keys.update(reach(model, rope))
    if kind == 'yarn':
        block.update(beta_fast=rope['beta_fast'], beta_slow=rope['beta_slow'])
        block.update({} if rope['truncate'] else {'truncate': False})
    if kind == 'llama3':
        block.update(low_freq_factor=rope['low_freq_factor'], high_freq_factor=rope['high_freq_factor'])
    if rope['attention_factor']:
        block['attention_factor'] = rope['attention_factor']
        block.update(twins(rope))
    return {**keys, 'rope_scaling': block}


def reach(model, rope):
    """ExLlama takes yarn's factor from the lengths, or none where the first is not longer than L."""
    most = ceil(rope['train_ctx'] * rope['factor'])
    if most != model['seq_len']:
        notes.append('max_position_embeddings is %d, as far as the factor reaches: some engines take the factor from '
                     'that' % most)
    return {'max_position_embeddings': most}


def twins(rope):
    """attention_factor for those who do not read it: vLLM and SGLang multiply 0.1 ln s + 1 by attn_factor, MLX-LM puts
    mscale into it."""
    grows, a = temperature(rope['factor']) - 1, rope['attention_factor']
    return {'attn_factor': a / (grows + 1), **({'mscale': (a - 1) / grows} if grows > 0 and a >= 1 else {})}


def longrope_keys(family, model, rope, keys):
    """Transformers 4 looks for L beside the block, which it also takes the factor from; others look inside. Its class
    of Phi-3 takes `type` and the lists, as they were released, and refuses a block with any more."""
    key, length = ORIGINAL, rope['train_ctx']
    lists = {'short_factor': rope['short_factor'], 'long_factor': rope['long_factor']}
    block = {'type': 'longrope', **lists} if family == 'phi3' else {'rope_type': 'longrope', key: length, **lists}
    most = rope['factor'] * length
    if most == int(most):
        keys.update(reach(model, rope))
    if rope['factor'] != keys.get('max_position_embeddings', model['seq_len']) / length:
        block.update(factor=rope['factor'], attention_factor=rope['attention'])
    elif rope['attention_factor']:
        block['attention_factor'] = rope['attention_factor']
    if family == 'phi3' and len(block) > 3:
        notes.append("Transformers 4 will refuse the folder, since its Phi-3 has no factors beside longrope's lists")
    return {**keys, key: length, 'rope_scaling': block}
