"""config.json: the header's fields, by the names of docs/format.md, and what the RoPE settings mean."""

import os

from .common import (MAX_EOS, MAX_EPS, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH, REFUSED,
                     Keys, is_number, notes, read_json)

ARCHITECTURES = {'llama': 'LlamaForCausalLM', 'mistral': 'MistralForCausalLM'}
ROPE_METHODS = {'default': 0, 'linear': 1, 'dynamic': 2, 'yarn': 4, 'llama3': 5, 'longrope': 6}  # dynamic: of ntk


def read_config(folder):
    config = read_json(os.path.join(folder, 'config.json'))
    guess = next((t for t, name in ARCHITECTURES.items() if config.values.get('architectures') == [name]), REFUSED)
    family = config.get('model_type', lambda v: v in list(ARCHITECTURES), '"llama" or "mistral"', guess)
    mistral = family == 'mistral'
    config.only('architectures', [ARCHITECTURES[family]], None)
    config.only('hidden_act', 'silu', 'swish')
    config.only('attention_bias', False)
    config.only('mlp_bias', False)
    config.only('quantization_config', None)
    config.get('layer_types', lambda v: isinstance(v, list) and all(t == 'full_attention' for t in v),
               'full_attention in every layer', None, None)
    if not mistral:
        config.only('sliding_window', None)

    dim, n_heads = config.integer('hidden_size', MAX_WIDTH), config.integer('num_attention_heads', MAX_HEADS)
    if config.values.get('head_dim') is None and dim % (2 * n_heads):
        config.refuse('hidden_size', 'an even multiple of num_attention_heads, %d' % n_heads)
    head_dim = config.integer('head_dim', MAX_HEAD_DIM, dim // n_heads, dim // n_heads)
    if head_dim % 2 or head_dim > MAX_HEAD_DIM:
        config.refuse('head_dim', 'an even number up to %d' % MAX_HEAD_DIM)
    n_kv_heads = config.integer('num_key_value_heads', MAX_HEADS, 8 if mistral else n_heads, n_heads)
    if n_heads % n_kv_heads:
        config.refuse('num_key_value_heads', 'a divisor of num_attention_heads, %d' % n_heads)
    vocab_size = config.integer('vocab_size', MAX_VOCAB)
    seq_len = config.integer('max_position_embeddings', MAX_SEQ, 131072 if mistral else 2048)

    # generate() stops at the tokens of generation_config.json where there is one: chat checkpoints name the end of a
    # turn only there (Llama 3: config.json has end_of_text, generation_config.json adds eot_id). Ours stops at both.
    eos_ids = end_tokens(config, 2, vocab_size)
    if os.path.exists(os.path.join(folder, 'generation_config.json')):
        eos_ids += end_tokens(read_json(os.path.join(folder, 'generation_config.json')), None, vocab_size)
    eos_ids = list(dict.fromkeys(eos_ids))
    if len(eos_ids) > MAX_EOS:
        config.refuse('eos_token_id', 'at most %d end tokens with those of generation_config.json' % MAX_EOS)
    return {
        'dim': dim, 'hidden_dim': config.integer('intermediate_size', MAX_WIDTH),
        'n_layers': config.integer('num_hidden_layers', MAX_LAYERS),
        'n_heads': n_heads, 'n_kv_heads': n_kv_heads, 'head_dim': head_dim, 'vocab_size': vocab_size,
        'seq_len': seq_len, 'tied': config.flag('tie_word_embeddings', False),
        'sliding_window': config.integer('sliding_window', MAX_SEQ, 4096, 0) if mistral else 0,
        'norm_eps': config.number('rms_norm_eps', 1e-6, high=MAX_EPS),
        'bos_id': config.integer('bos_token_id', vocab_size - 1, 1, -1, 0), 'eos_ids': eos_ids,
        **read_rope(config, head_dim, seq_len)}


def end_tokens(config, default, vocab_size):
    """eos_token_id as a list: it may be an id, a list of ids, or null."""
    value = config.values.get('eos_token_id', default)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(id) is int and 0 <= id < vocab_size for id in ids):
        config.refuse('eos_token_id', 'token ids below %d' % vocab_size)
    return ids


def read_rope(config, head_dim, seq_len):
    """The RoPE fields. By the rules of Transformers 5.17 the block is rope_scaling, or rope_parameters when that is
    empty; in it, rope_type goes before type and rope_theta before one beside the block, yet an
    original_max_position_embeddings beside the block goes before one in it."""
    name = 'rope_scaling' if config.values.get('rope_scaling') else 'rope_parameters'
    values = config.values.get(name) or {}
    if not isinstance(values, dict) or any(isinstance(value, dict) for value in values.values()):
        config.refuse(name, 'one object of settings for all layers')
    if name == 'rope_scaling' and config.values.get('rope_parameters'):
        notes.append('rope_parameters is not used, since there is a rope_scaling')
    block = Keys(config.path, values, name + '.')
    key = 'type' if 'type' in values and 'rope_type' not in values else 'rope_type'
    kind = block.get(key, lambda v: v in list(ROPE_METHODS), 'one of ' + ', '.join(ROPE_METHODS), 'default')
    for keys in config, block:
        keys.only('partial_rotary_factor', 1, 1.0, None)

    theta = block.number('rope_theta', config.number('rope_theta', 10000.0, above=1.0), above=1.0)
    rope = {'rope_method': ROPE_METHODS[kind], 'rope_dynamic': int(kind == 'dynamic'), 'theta': theta,
            'train_ctx': seq_len, 'truncate': 1}
    if kind in ('yarn', 'longrope', 'llama3'):  # the others count from max_position_embeddings, whatever else is said
        key = 'original_max_position_embeddings'
        low = 2 if kind == 'longrope' else 1  # longrope divides by its logarithm
        rope['train_ctx'] = config.integer(key, MAX_SEQ, block.integer(key, MAX_SEQ, seq_len, low=low), low=low)
        if rope['train_ctx'] < low:
            config.refuse('max_position_embeddings', '%d or more' % low)
    if kind in ('linear', 'dynamic', 'llama3'):
        rope['factor'] = block.number('factor')
    if kind in ('yarn', 'longrope'):
        ratio = seq_len / rope['train_ctx']
        rope['factor'] = block.number('factor', ratio, ratio)
        rope['attention_factor'] = block.number('attention_factor', 0, 0)
    if kind == 'yarn':  # 0 means not said, to the library as in our header
        for key in 'beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim':
            rope[key] = block.number(key, 0, 0, zero=True)
        if (rope['beta_fast'] or 32) < (rope['beta_slow'] or 1):
            block.refuse('beta_fast', 'no less than beta_slow')
        if not (rope['mscale'] and rope['mscale_all_dim']):  # one without the other has no effect
            rope['mscale'] = rope['mscale_all_dim'] = 0
        rope['truncate'] = int(block.flag('truncate', True, False))
    if kind == 'llama3':
        rope['low_freq_factor'] = block.number('low_freq_factor')
        rope['high_freq_factor'] = block.number('high_freq_factor', above=rope['low_freq_factor'])
    if kind == 'longrope':
        for key in 'short_factor', 'long_factor':
            rope[key] = block.get(key, lambda v: isinstance(v, list) and len(v) == head_dim // 2 and all(
                map(is_number, v)), 'a list of head_dim / 2 = %d numbers above 0' % (head_dim // 2))
    for key in sorted(set(values) - block.asked - {'type', 'rope_type'}):
        notes.append('%s%s means nothing to rope_type %s and is not used' % (block.inside, key, kind))
    return rope
