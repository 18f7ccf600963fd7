"""config.json: the header's fields, by the names of docs/format.md, and what the RoPE settings mean."""

import os
from math import log
from typing import NamedTuple

from .common import (ENCODINGS, MAX_EOS, MAX_EPS, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH,
                     NUMBER_LIMIT, REFUSED, Keys, is_number, notes, read_json)


class Family(NamedTuple):
    """What its class in Transformers fills in where config.json says nothing; 0 kv heads: as many as heads."""
    architecture: str
    n_kv_heads: int = 0
    seq_len: int = 32768
    bos_id: int = None
    eos_id: int = None
    norm_eps: float = 1e-6
    theta: float = 10000.0
    tied: bool = False


FAMILIES = {
    'llama': Family('LlamaForCausalLM', 0, 2048, 1, 2), 'mistral': Family('MistralForCausalLM', 8, 131072, 1, 2),
    'qwen2': Family('Qwen2ForCausalLM', 32), 'qwen3': Family('Qwen3ForCausalLM', 32),
    'phi3': Family('Phi3ForCausalLM', 0, 4096, 1, 32000, 1e-5),
    'rope.c': Family('SmallForCausalLM'),  # what tools/train.py writes of models that know positions in other ways
    'smollm3': Family('SmolLM3ForCausalLM', 4, 32768, 128000, 128001, theta=2e6, tied=True)}
SEES_ALL, WITHOUT_ROPE = 1, 2  # a layer's byte in model.bin
# Keys that give layers or positions a RoPE of their own, which nothing here reads yet; and the families in which the
# key is about layers without RoPE or about windows, or means nothing.
BY_LAYER = {'rope_local_base_freq': (), 'local_rope_theta': (), 'global_rope_theta': (), 'swa_rope_theta': (),
            'sliding_window_pattern': (), 'attn_temperature_tuning': (), 'llama_4_scaling_beta': (),
            'no_rope_layers': ('smollm3',), 'no_rope_layer_interval': ('smollm3',),
            'layer_types': ('mistral', 'qwen2', 'qwen3', 'phi3', 'smollm3')}
BLOCKS = 'rope_scaling', 'rope_parameters'
ORIGINAL = 'original_max_position_embeddings'
# What some rope_type has in a block. Released blocks have the last four, which the library does not read.
IN_BLOCKS = {'rope_theta', 'factor', ORIGINAL, 'beta_fast', 'beta_slow', 'truncate', 'attention_factor', 'mscale',
             'mscale_all_dim', 'low_freq_factor', 'high_freq_factor', 'unscaled_positions', 'short_factor',
             'long_factor', 'short_mscale', 'long_mscale', 'finetuned', 'attn_factor'}
ROPE_METHODS = {'default': 0, 'linear': 1, 'dynamic': 2, 'yarn': 4, 'llama3': 5, 'longrope': 6}  # dynamic: of ntk


def read_config(folder):
    config = read_json(os.path.join(folder, 'config.json'))
    guess = next((t for t, f in FAMILIES.items() if config.values.get('architectures') == [f.architecture]), REFUSED)
    if guess is REFUSED and 'model_type' not in config.values and 'architectures' not in config.values:
        refuse_by_layer(config, None)  # which says more than that there is no model_type
    kind = config.get('model_type', lambda v: v in list(FAMILIES), 'one of ' + ', '.join(FAMILIES), guess)
    family = FAMILIES[kind]
    refuse_by_layer(config, kind)
    config.only('architectures', [family.architecture], None)
    config.only('hidden_act', 'silu', 'swish')
    config.only('mlp_bias', False)
    config.only('quantization_config', None)
    if kind not in ('qwen2', 'qwen3', 'smollm3'):  # Qwen2's class does not look at it
        config.only('attention_bias', False)
    biased = kind in ('qwen3', 'smollm3') and config.flag('attention_bias', False, False)

    dim, n_heads = config.integer('hidden_size', MAX_WIDTH), config.integer('num_attention_heads', MAX_HEADS)
    if kind == 'qwen3':
        head_dim = config.integer('head_dim', MAX_HEAD_DIM, 128)
    else:
        if config.values.get('head_dim') is None and dim % (2 * n_heads):
            config.refuse('hidden_size', 'an even multiple of num_attention_heads, %d' % n_heads)
        head_dim = config.integer('head_dim', MAX_HEAD_DIM, dim // n_heads, dim // n_heads)
    if head_dim % 2 or head_dim > MAX_HEAD_DIM:
        config.refuse('head_dim', 'an even number up to %d' % MAX_HEAD_DIM)
    n_kv_heads = config.integer('num_key_value_heads', MAX_HEADS, family.n_kv_heads or n_heads, n_heads)
    if n_heads % n_kv_heads:
        config.refuse('num_key_value_heads', 'a divisor of num_attention_heads, %d' % n_heads)
    vocab_size = config.integer('vocab_size', MAX_VOCAB)
    seq_len = config.integer('max_position_embeddings', MAX_SEQ, family.seq_len)
    n_layers = config.integer('num_hidden_layers', MAX_LAYERS)
    bos_id, eos_id = (-1 if id is None or id >= vocab_size else id for id in (family.bos_id, family.eos_id))

    # generate() stops at the tokens of generation_config.json where there is one: chat checkpoints name the end of a
    # turn only there (Llama 3: config.json has end_of_text, generation_config.json adds eot_id). Ours stops at both.
    eos_ids = end_tokens(config, None if eos_id < 0 else eos_id, vocab_size)
    if os.path.exists(os.path.join(folder, 'generation_config.json')):
        eos_ids += end_tokens(read_json(os.path.join(folder, 'generation_config.json')), None, vocab_size)
    eos_ids = list(dict.fromkeys(eos_ids))
    if len(eos_ids) > MAX_EOS:
        config.refuse('eos_token_id', 'at most %d end tokens with those of generation_config.json' % MAX_EOS)
    return {
        'dim': dim, 'hidden_dim': config.integer('intermediate_size', MAX_WIDTH),
        'n_layers': n_layers, 'n_heads': n_heads, 'n_kv_heads': n_kv_heads, 'head_dim': head_dim,
        'vocab_size': vocab_size, 'seq_len': seq_len, 'tied': config.flag('tie_word_embeddings', family.tied),
        'norm_eps': config.number('rms_norm_eps', family.norm_eps, high=MAX_EPS),
        'bos_id': config.integer('bos_token_id', vocab_size - 1, bos_id, -1, 0), 'eos_ids': eos_ids,
        'qkv_bias': int(biased or kind == 'qwen2'), 'o_bias': int(biased), 'qk_norm': int(kind == 'qwen3'),
        'fused': kind == 'phi3', **read_encoding(config, kind, seq_len),
        **read_layers(config, kind, n_layers), **read_rope(config, kind, head_dim, seq_len)}


def is_by_layer(value):
    """Whether a value gives layers or positions a RoPE of their own. Nothing, a list of ones and a list of one word do
    not."""
    if not isinstance(value, list):
        return bool(value)
    return not all(value[0] == x if isinstance(x, str) else type(x) in (int, float) and x == 1 for x in value)


def refuse_by_layer(config, kind):
    """Refuses, by its key, what differs by layer or by position."""
    expected = 'none, since what differs by layer or position is not read'
    for key, but_in in BY_LAYER.items():
        if kind not in but_in and is_by_layer(config.values.get(key)):
            config.refuse(key, expected)
    for name in BLOCKS:
        block = config.values.get(name)
        if isinstance(block, dict) and is_by_layer(block.get('llama_4_scaling_beta')):
            Keys(config.path, block, name + '.').refuse('llama_4_scaling_beta', expected)
        if isinstance(block, dict) and any(isinstance(value, dict) for value in block.values()):
            config.refuse(name, 'one object of settings for all layers')


def read_encoding(config, kind, seq_len):
    """How the model knows positions, and the rows of its tables."""
    if kind != 'rope.c':
        return {}
    name = config.get('position_encoding', lambda v: v in ENCODINGS[1:], 'one of ' + ', '.join(ENCODINGS[1:]))
    rows = seq_len if name == 'learned' else 1 + config.integer('clip_distance', MAX_SEQ) if name == 'shaw' else 0
    return {'encoding': ENCODINGS.index(name), 'encoding_rows': rows}


def read_layers(config, kind, n_layers):
    """sliding_window, and a byte for each layer where they are not alike: SEES_ALL, WITHOUT_ROPE."""
    still = [False] * n_layers  # layers without RoPE
    if kind == 'smollm3':
        given = config.get('no_rope_layers', lambda v: isinstance(v, list) and len(v) >= n_layers and all(
            x in (0, 1) for x in v), 'a 1 (RoPE) or a 0 for each of %d layers' % n_layers, None, None)
        interval = None if given else config.integer('no_rope_layer_interval', MAX_SEQ, 4)
        still = [not given[i] if given else (i + 1) % interval == 0 for i in range(n_layers)]

    if kind in ('mistral', 'phi3'):  # in these every layer slides when one does
        window = config.integer('sliding_window', MAX_SEQ, 4096 if kind == 'mistral' else 0, 0)
        if config.values.get('layer_types') is not None:
            notes.append('layer_types means nothing to model_type %s and is not used' % kind)
        return {'sliding_window': window, 'layers': []}
    window = 0
    if kind in ('llama', 'rope.c'):
        config.only('sliding_window', None)
    elif config.flag('use_sliding_window', False, False):
        window = config.integer('sliding_window', MAX_SEQ, 0 if kind == 'smollm3' else 4096, 0)
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        t == 'full_attention' or t == 'sliding_attention' and window for t in v),
        '%s for each of %d layers' % ('full_attention or sliding_attention' if window else
                                      'full_attention, since there is no window,', n_layers), None, None)
    if types:
        slides = [t == 'sliding_attention' for t in types]
    elif kind == 'smollm3':
        slides = still
    else:
        first = config.integer('max_window_layers', MAX_SEQ, 28, low=0) if window else 0
        slides = [i >= first for i in range(n_layers)]
    if not any(slides):
        window = 0
    layers = [SEES_ALL * bool(window and not slides[i]) + WITHOUT_ROPE * still[i] for i in range(n_layers)]
    return {'sliding_window': window, 'layers': layers if any(layers) else []}


def read_rotary_dim(config, block, partial, head_dim):
    """How many elements of a head turn: all of them, but in families that can turn a part."""
    if not partial:
        for keys in config, block:
            keys.only('partial_rotary_factor', 1, 1.0, None)
        return head_dim
    key = 'partial_rotary_factor'
    outside = config.number(key, 1.0, 1.0, high=1)
    rotary_dim = int(head_dim * block.number(key, outside, outside, high=1))
    if rotary_dim < 2 or rotary_dim % 2:
        (block if block.values.get(key) else config).refuse(key, 'what makes an even part of head_dim, %d' % head_dim)
    return rotary_dim


def end_tokens(config, default, vocab_size):
    """eos_token_id as a list: it may be an id, a list of ids, or null."""
    value = config.values.get('eos_token_id', default)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(id) is int and 0 <= id < vocab_size for id in ids):
        config.refuse('eos_token_id', 'token ids below %d' % vocab_size)
    return ids


def rope_block(config):
    """The settings of RoPE, by themselves."""
    name = 'rope_scaling' if config.values.get('rope_scaling') else 'rope_parameters'
    values = config.values.get(name) or {}
    if not isinstance(values, dict):
        config.refuse(name, 'one object of settings for all layers')
    if name == 'rope_scaling' and config.values.get('rope_parameters'):
        warn(config, 'rope_parameters is not used, since there is a rope_scaling')
    return Keys(config.path, values, name + '.')


def warn(config, text, *values):
    """src/rope_config.c has the same words."""
    notes.append('warning: %s: %s' % (config.path, text % values))


def read_rope(config, family, head_dim, seq_len):
    """The RoPE fields. By the rules of Transformers 5.17 the block is rope_scaling, or rope_parameters when that is
    empty; in it, rope_type goes before type and rope_theta before one beside the block, yet an
    original_max_position_embeddings beside the block goes before one in it."""
    block = rope_block(config)
    phi = family == 'phi3'
    kind = read_type(config, block, family)
    rotary_dim = read_rotary_dim(config, block, phi, head_dim)
    theta = block.number('rope_theta', config.number('rope_theta', FAMILIES[family].theta, above=1.0), above=1.0)
    rope = {'rope_method': ROPE_METHODS[kind], 'rope_dynamic': int(kind == 'dynamic'), 'theta': theta,
            'rotary_dim': rotary_dim % head_dim, 'train_ctx': seq_len, 'truncate': 1}
    if kind in ('yarn', 'longrope', 'llama3'):  # the others count from max_position_embeddings, whatever else is said
        low = 2 if kind == 'longrope' else 1  # longrope divides by its logarithm
        inside = 4096 if phi else block.integer(ORIGINAL, MAX_SEQ, seq_len, low=low)
        rope['train_ctx'] = config.integer(ORIGINAL, MAX_SEQ, inside, low=low)
        if rope['train_ctx'] < low:
            config.refuse('max_position_embeddings', '%d or more' % low)
    if kind != 'default':
        rope['factor'] = read_factor(block, kind, seq_len / rope['train_ctx'])
    if kind in ('yarn', 'longrope'):
        rope['attention_factor'] = block.number('attention_factor', 0, 0)
    if kind == 'yarn':
        rope.update(read_yarn(config, block, rope))
    if kind == 'llama3':
        rope['low_freq_factor'] = block.number('low_freq_factor')
        rope['high_freq_factor'] = block.number('high_freq_factor', above=rope['low_freq_factor'])
    if kind == 'longrope':
        rope.update(read_longrope(block, rotary_dim // 2))
    check_keys(block, kind)
    for key, inner_counts in (('rope_theta', True), ('partial_rotary_factor', True)) + (
            ((ORIGINAL, False),) if kind in ('yarn', 'longrope', 'llama3') else ()):
        warn_of_two(config, block, key, inner_counts)
    return rope


def read_type(config, block, family):
    """rope_type, or `type` where there is none."""
    values, phi = block.values, family == 'phi3'
    key = 'type' if 'type' in values and 'rope_type' not in values else 'rope_type'
    kinds = ['default', 'longrope', 'su', 'yarn'] if phi else list(ROPE_METHODS)
    kinds = ['default'] if family == 'rope.c' else kinds

    def meant(kind):  # the class of Phi-3 takes every older name for longrope
        return kind if kind == 'default' or not phi or kind not in kinds else 'longrope'

    kind = meant(block.get(key, lambda v: v in kinds, 'one of ' + ', '.join(kinds), 'default'))
    older = values.get('type')
    both = isinstance(older, str) and 'rope_type' in values and (older, kind) != ('su', 'longrope')
    if both and meant(older) != kind:
        warn(config, 'type is %s and rope_type is %s in %s: %s counts', older, values[key], block.inside[:-1],
             values[key])
    return kind


def read_factor(block, kind, ratio):
    """The scale. One below 1 is a mistake, unless it is what the lengths give."""
    factor = block.number('factor', ratio, ratio) if kind in ('yarn', 'longrope') else block.number('factor')
    if factor < 1 and factor != ratio:
        block.refuse('factor', 'a number from 1 to %g' % NUMBER_LIMIT)
    return factor


def read_yarn(config, block, rope):
    """0 means not said, to the library as in our header."""
    yarn = {key: block.number(key, 0, 0, zero=True) for key in ('beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim')}
    if (yarn['beta_fast'] or 32) < (yarn['beta_slow'] or 1):
        block.refuse('beta_fast', 'no less than beta_slow')
    given, grown = rope['attention_factor'], 0.1 * log(rope['factor']) if rope['factor'] > 1 else 0
    if not (yarn['mscale'] and yarn['mscale_all_dim']):  # one without the other has no effect
        yarn['mscale'] = yarn['mscale_all_dim'] = 0
    by_pair = (grown * yarn['mscale'] + 1) / (grown * yarn['mscale_all_dim'] + 1)
    if given and yarn['mscale'] and not abs(by_pair / given - 1) < 1e-6:
        warn(config, 'attention_factor is %.12g in %s, and mscale and mscale_all_dim make it %.12g: %.12g counts',
             given, block.inside[:-1], by_pair, given)
    return {**yarn, 'truncate': int(block.flag('truncate', True, False))}


def check_keys(block, kind):
    """Notes the keys that the block's type does not use, and refuses those that no type has."""
    has_type = {'type', 'rope_type'} & set(block.values)
    for key in sorted(set(block.values) - block.asked - {'type', 'rope_type'}):
        if key not in IN_BLOCKS:
            block.refuse(key, 'a key that some rope_type has')
        why = 'means nothing to rope_type %s and is not used' % kind if has_type else (
            'is not used, since a block without a rope_type means no scaling, and Hugging Face 4 refuses it')
        notes.append('%s%s %s' % (block.inside, key, why))


def warn_of_two(config, block, key, inner_counts):
    """A number that stands both beside the block and in it, and not the same one."""
    beside, inside = config.values.get(key), block.values.get(key)
    if {type(beside), type(inside)} <= {int, float} and beside != inside:
        warn(config, '%s is %.12g beside %s and %.12g in it: %.12g counts', key, beside, block.inside[:-1], inside,
             inside if inner_counts else beside)


def read_longrope(block, n_pairs):
    lists = {key: block.get(key, lambda v: isinstance(v, list) and len(v) == n_pairs and all(map(is_number, v)),
                            'a list of %d numbers above 0, half of what turns of a head' % n_pairs)
             for key in ('short_factor', 'long_factor')}
    key = 'unscaled_positions'  # our own, see docs/manual.md: Hugging Face has no such thing
    unscaled = block.integer(key, MAX_SEQ, 0, low=0)
    if unscaled and lists['short_factor'] != lists['long_factor']:
        block.refuse(key, '0, since short_factor and long_factor are not the same')
    return {**lists, key: unscaled}
