"""GGUF as llama.cpp loads it: named settings, the tensors' places, then their bytes; ggml's blocks stay as they are."""

import os
import struct
from math import pi, prod

from .common import Problem, notes
from .existing import WRITTEN_BY
from .experts import EXPERT_PARTS
from .gguf import ARCHITECTURES, NAMES, OF_GPT_OSS as NAMES_OF_GPT_OSS, STRING, TYPES
from .out_layers import gguf_of_layers, scores_of_gemma, sliding_model
from .out_model import (AFTER, BOTH, EMBEDDING, EXPERTS, GELU, GROWING, OF_GPT_OSS, SCORES, SOME, TWO_ROPES, WHOLE,
                        family_of, features_of, rope_of, temperature)
from .out_tokenizer import gguf_tokenizer
from .tensors import BLOCKS, ITEM_SIZES, Joined, Scaled, Small
from .write import most_used, pieces, plan_model

ALL_BIASES, PART = 'biases of q, k, v and o', 'biases of q, k and v'
KINDS = [  # architectures, what they need, and what they may have besides
    ('qwen2', {PART}, set()), ('qwen3', {'head norms'}, set()), ('smollm3', {'layers without RoPE'}, set()),
    ('phi3', {'a part that turns'}, {'a window', 'longrope'}), ('phi3', {'longrope'}, {'a window'}),
    ('llama', set(), {ALL_BIASES, 'a bias of o', 'a window', 'divisors'}),
    ('gemma3', {BOTH, 'head norms', GELU, EMBEDDING}, {SCORES, TWO_ROPES, 'a window', SOME}),
    ('olmo2', {AFTER, WHOLE}, {TWO_ROPES, 'a window', SOME}),
    ('exaone4', {AFTER, 'head norms'}, {TWO_ROPES, 'layers without RoPE', 'a window', SOME, 'divisors'}),
    ('mistral3', {GROWING}, {'a window', 'divisors'}), ('llama', {EXPERTS}, {'a window', 'divisors'}),
    ('qwen3moe', {EXPERTS, 'head norms'}, {'a window'}),
    ('gpt-oss', {EXPERTS, TWO_ROPES, ALL_BIASES, *OF_GPT_OSS}, {'a window', SOME})]
NEWER = 'gemma3', 'olmo2', 'exaone4', 'mistral3', 'gpt-oss'  # out_layers.py has their keys
U32, I32, F32, BOOL, ARRAY = 4, 5, 6, 7, 9
ALIGNMENT = 32
FILE_TYPES = {'F32': 0, 'F16': 1, 'Q4_0': 2, 'Q4_1': 3, 'Q8_0': 7, 'Q5_0': 8, 'Q5_1': 9, 'Q2_K': 10, 'Q3_K': 12,
              'Q4_K': 15, 'Q5_K': 17, 'Q6_K': 18, 'IQ4_NL': 25, 'IQ4_XS': 30, 'BF16': 32, 'MXFP4': 38}


def stays_in_gguf(checkpoint, name):
    """Whether GGUF has the type of a tensor."""
    return checkpoint.tensors[name].dtype in {**ITEM_SIZES, **BLOCKS}


def write_gguf(file, checkpoint, tokenizer, name):
    path, model = checkpoint.path, checkpoint.model
    one = sliding_model(model) if 'layers without RoPE' in features_of(model) and model.sliding_rope else model
    rope, found = rope_of(path, one), features_of(model)
    found |= {{'longrope': 'longrope', 'llama3': 'divisors'}.get(rope['kind'])} - {None}
    family = family_of(path, found, KINDS, "llama.cpp's that is known here")
    plan = plan_model(checkpoint, in_pairs=ARCHITECTURES[family])
    if tokenizer and tokenizer.get('takes_spaces'):
        name = 'phi-3 ' + name  # by which llama.cpp knows that tokens take the spaces behind them
    settings = {'general.architecture': (STRING, family), 'general.name': (STRING, name),
                'general.description': (STRING, 'written by ' + WRITTEN_BY),
                'general.file_type': (U32, FILE_TYPES[most_used(model)[0]]),
                'general.quantization_version': (U32, 2)}
    settings.update({'%s.%s' % (family, key): value for key, value in {
        **settings_of(path, family, model), **rope_settings(path, family, model, rope),
        **(gguf_of_layers(path, family, model) if family in NEWER else {})}.items()})
    settings.update(gguf_tokenizer(tokenizer, model))
    tensors = [*rope_tensors(model, rope), *named_tensors(plan, family, model)]
    file.write(struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(settings)))
    for key, value in settings.items():
        file.write(text_of(key.encode()) + value_of(*value))
    write_tensors(file, tensors)


def settings_of(path, family, model):
    settings = {
        'context_length': (U32, model.seq_len), 'embedding_length': (U32, model.dim),
        'block_count': (U32, model.n_layers), 'feed_forward_length': (U32, model.hidden_dim),
        'attention.head_count': (U32, model.n_heads), 'attention.head_count_kv': (U32, model.n_kv_heads),
        'attention.key_length': (U32, model.head_dim), 'attention.value_length': (U32, model.head_dim),
        'attention.layer_norm_rms_epsilon': (F32, model.norm_eps), 'vocab_size': (U32, model.vocab_size),
        'rope.dimension_count': (U32, model.rotary_dim or model.head_dim)}
    if model.sliding_window and (family not in NEWER or family == 'mistral3'):
        settings['attention.sliding_window'] = U32, model.sliding_window
        notes.append('llama.cpp does not slide in architecture %s: it sees all positions, not the last %d'
                     % (family, model.sliding_window))
    if model.n_experts:
        settings.update({'expert_count': (U32, model.n_experts), 'expert_used_count': (U32, model.n_experts_used),
                         'expert_feed_forward_length': (U32, model.expert_hidden_dim)})
        if family == 'llama':
            settings['feed_forward_length'] = U32, model.expert_hidden_dim
    layers = model.layers or [0]
    if family == 'smollm3' and layers != [2 * (layer % 4 == 3) for layer in range(model.n_layers)]:
        raise Problem(path, 'has layers without RoPE that are not each fourth one, which GGUF cannot say')
    return settings


def rope_settings(path, family, model, rope):
    """The keys. In every architecture attn_factor multiplies what llama.cpp's method does to attention by itself."""
    kind, factor, length = rope['kind'], rope['factor'], rope['train_ctx']
    settings = {'rope.freq_base': (F32, rope['theta'])}
    attention = rope.get('attention') or rope['attention_factor'] or 1.0
    if kind == 'dynamic':
        raise Problem(path, 'has dynamic RoPE, which llama.cpp has not (--rope ntk is the nearest fixed method)')
    if kind in ('linear', 'yarn', 'longrope'):
        settings['rope.scaling.type'] = STRING, kind
    if kind in ('linear', 'yarn'):
        settings['rope.scaling.factor'] = F32, factor
    if kind in ('yarn', 'longrope'):
        settings['rope.scaling.original_context_length'] = U32, length
    if kind == 'longrope' and abs(model.seq_len / length / factor - 1) > 1e-6 and not rope['attention_factor']:
        notes.append('attn_factor is that of factor %g, which is not context / trained context' % factor)
    if kind == 'yarn':
        check_truncate(path, family, rope)
        told = family == 'mistral3'  # of which it reads the betas, and a multiplier that the factor follows from
        attention = attention / temperature(factor) if rope['attention_factor'] and not told else 1.0
        for ours, default in ('beta_fast', 32), ('beta_slow', 1):
            if rope[ours] != default or told:
                settings['rope.scaling.yarn_' + ours] = F32, rope[ours]
            if rope[ours] != default and not told:
                notes.append('llama.cpp needs --yarn-%s %g besides: it takes that from its command line alone'
                             % (ours.replace('_', '-'), rope[ours]))
    if attention != 1 or kind == 'longrope':
        settings['rope.scaling.attn_factor'] = F32, attention
    return settings


def check_truncate(path, family, rope):
    """No key says whether YaRN's ramp is cut to whole pairs. llama.cpp always cuts it, gpt-oss never."""
    if family != 'gpt-oss' and not rope['truncate']:
        raise Problem(path, 'has yarn with a ramp that is not cut to whole pairs, which llama.cpp has not')
    if family == 'gpt-oss' and rope['truncate']:
        raise Problem(path, 'has yarn with a ramp that is cut to whole pairs, which gpt-oss does not mean in GGUF')
    if family == 'gpt-oss':
        notes.append("llama.cpp will cut the ends of YaRN's ramp to whole pairs, which the model does not: its logits "
                     'will differ')


def rope_tensors(model, rope):
    """Divisors of the frequencies, where llama.cpp wants them as tensors: longrope's lists, and Llama 3's rule."""
    if rope['kind'] == 'longrope':
        yield Small('rope_factors_long.weight', rope['long_factor']), False
        yield Small('rope_factors_short.weight', rope['short_factor']), False
    if rope['kind'] == 'llama3':
        r, divisors = model.rotary_dim or model.head_dim, []
        low, high = rope['low_freq_factor'], rope['high_freq_factor']
        for i in range(r // 2):
            turns = rope['train_ctx'] * rope['theta'] ** (-2 * i / r) / (2 * pi)
            kept = min(max((turns - low) / (high - low), 0), 1)
            divisors.append(1 / ((1 - kept) / rope['factor'] + kept))
        yield Small('rope_freqs.weight', divisors), False


def named_tensors(plan, family, model):
    """(tensor with its name, whether it is a matrix). Phi-3's are fused, and Gemma's other scale of scores is in the
    norm of its queries."""
    waiting, fused, scores = {}, family == 'phi3', scores_of_gemma(model) if family == 'gemma3' else 1
    names = {**NAMES, **(NAMES_OF_GPT_OSS if family == 'gpt-oss' else {})}
    for place in plan:
        whole = {'wq': 'blk.%d.attn_qkv.weight', 'wk': 'blk.%d.attn_qkv.weight', 'wv': 'blk.%d.attn_qkv.weight',
                 'w1': 'blk.%d.ffn_up.weight', 'w3': 'blk.%d.ffn_up.weight'}.get(place.part) if fused else None
        name = whole or names[place.part]
        name = name if place.layer is None else name % place.layer
        parts = waiting.setdefault(name, [])
        parts.append(Scaled(place.tensor, scores) if place.part == 'q_norm' and scores != 1 else place.tensor)
        if whole and place.part not in ('wv', 'w3'):
            continue
        if len({part.dtype for part in parts}) > 1:
            raise Problem(place.tensor.path, '%s is of several types (found %s, expected one, since Phi-3 has it in '
                          'one matrix)' % (name, ', '.join(part.dtype for part in parts)))
        yield Named(name, parts, model.n_experts if place.part in EXPERT_PARTS else 0), place.is_matrix


class Named:
    """Tensors one below the other under one name; with an axis for experts, if there are n_experts."""

    def __init__(self, name, parts, n_experts):
        whole = Joined(parts, 0) if parts[1:] else parts[0]
        self.name, self.dtype, self.shape, self.read = name, whole.dtype, whole.shape, whole.read
        if n_experts:
            self.shape = (n_experts, whole.shape[0] // n_experts, *whole.shape[1:])


# ---- the file ----

def text_of(data):
    return struct.pack('<Q', len(data)) + data


def value_of(kind, value):
    """A setting's type and value; of a list, which is (type of its items, items), each item's."""
    if kind == STRING:
        return struct.pack('<I', kind) + text_of(value if isinstance(value, bytes) else value.encode())
    if kind != ARRAY:
        return struct.pack('<I' + {U32: 'I', I32: 'i', F32: 'f', BOOL: '?'}[kind], kind, value)
    item, values = value
    data = b''.join(map(text_of, values)) if item == STRING else struct.pack(
        '<%d%s' % (len(values), {I32: 'i', F32: 'f', BOOL: '?'}[item]), *values)
    return struct.pack('<IIQ', kind, item, len(values)) + data


def write_tensors(file, tensors):
    """Names, shapes (the shortest step first), types and places; then the bytes, each at a multiple of 32."""
    numbers, at, sizes = {name: number for number, name in TYPES.items()}, 0, []
    for tensor, is_matrix in tensors:
        dtype = tensor.dtype if is_matrix else 'F32'
        values, size = BLOCKS.get(dtype) or (1, ITEM_SIZES[dtype])
        file.write(text_of(tensor.name.encode()) + struct.pack(
            '<I%dQIQ' % len(tensor.shape), len(tensor.shape), *tensor.shape[::-1], numbers[dtype], at))
        sizes.append(prod(tensor.shape) // values * size)
        at += sizes[-1] + -sizes[-1] % ALIGNMENT
    file.write(bytes(-file.tell() % ALIGNMENT))
    for (tensor, is_matrix), size in zip(tensors, sizes):
        for chunks in pieces(tensor, is_matrix):
            for chunk in chunks:
                file.write(chunk)
        file.write(bytes(-size % ALIGNMENT))
    file.flush()


def name_of(source):
    """What llama.cpp shows."""
    stem = os.path.basename(os.path.normpath(source))
    return ''.join(c for c in os.path.splitext(stem)[0] if c.isprintable()) or 'model'
