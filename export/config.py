"""config.json: the header's fields, by the names of docs/format.md. layers.py and rope.py read what a config says of
layers and of RoPE."""

import os
from math import sqrt
from typing import NamedTuple

from .common import (ENCODINGS, MAX_EOS, MAX_EPS, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH,
                     REFUSED, Keys, notes, read_json)
from .experts import read_experts
from .layers import read_layers
from .rope import read_ropes, refuse_by_layer, warn


class Family(NamedTuple):
    """What its class in Transformers fills in where config.json says nothing, and the norms that it has."""
    architecture: str
    n_kv_heads: int = 0   # 0: as many as heads
    seq_len: int = 32768
    bos_id: int = None
    eos_id: int = None
    norm_eps: float = 1e-6
    theta: float = 10000.0
    tied: bool = False
    head_dim: int = 0     # 0: hidden_size / heads
    qk_norm: int = 0      # as in model.bin
    norm_place: int = 0   # likewise


FAMILIES = {
    'llama': Family('LlamaForCausalLM', 0, 2048, 1, 2), 'mistral': Family('MistralForCausalLM', 8, 131072, 1, 2),
    'qwen2': Family('Qwen2ForCausalLM', 32), 'qwen3': Family('Qwen3ForCausalLM', 32, head_dim=128, qk_norm=1),
    'phi3': Family('Phi3ForCausalLM', 0, 4096, 1, 32000, 1e-5),
    'rope.c': Family('SmallForCausalLM'),  # what tools/train.py writes of models that no other family describes
    'smollm3': Family('SmolLM3ForCausalLM', 4, 32768, 128000, 128001, theta=2e6, tied=True),
    'gemma3_text': Family('Gemma3ForCausalLM', 4, 131072, 2, 1, theta=1e6, tied=True, head_dim=256, qk_norm=1,
                          norm_place=2),
    'olmo2': Family('Olmo2ForCausalLM', 0, 2048, None, 50279, 1e-5, qk_norm=2, norm_place=1),
    'olmo3': Family('Olmo3ForCausalLM', 0, 2048, None, 50279, 1e-5, theta=5e5, qk_norm=2, norm_place=1),
    'ministral3': Family('Ministral3ForCausalLM', 8, 262144, 1, 2, 1e-5, head_dim=128),
    'exaone4': Family('Exaone4ForCausalLM', 32, 2048, 0, 2, 1e-5, qk_norm=1, norm_place=1),
    'mixtral': Family('MixtralForCausalLM', 8, 131072, 1, 2, 1e-5, theta=1e6),
    'qwen3_moe': Family('Qwen3MoeForCausalLM', 4, qk_norm=1),
    'gpt_oss': Family('GptOssForCausalLM', 8, 131072, norm_eps=1e-5, theta=150000.0, head_dim=64)}
# Models of pictures and text: the architecture, and the model_types that the text model inside may have, the first of
# them where text_config does not say it.
WRAPPERS = {'gemma3': ('Gemma3ForConditionalGeneration', ('gemma3_text',)),
            'mistral3': ('Mistral3ForConditionalGeneration', ('mistral', 'ministral3'))}
GEMMA = {'num_attention_heads': 8, 'vocab_size': 262208}  # of its class, which published text_configs leave out
WITH_BIASES = 'qwen3', 'smollm3', 'gemma3_text', 'olmo2', 'olmo3', 'qwen3_moe', 'gpt_oss'  # by attention_bias
# Families that are not run, and that ./run explains.
EXPLAINED = ('cohere2', 'gemma4', 'gemma4_text', 'gemma4_unified', 'gemma4_unified_text', 'laguna', 'qwen3_5',
             'qwen3_5_text')
NOT_COMPUTED = {'attn_logit_softcapping': 'null, since softcaps are not computed',
                'final_logit_softcapping': 'null, since softcaps are not computed',
                'hidden_size_per_layer_input': 'none, since per-layer embeddings are not computed'}


def read_config(folder):
    whole = read_json(os.path.join(folder, 'config.json'))
    config, kind = text_config(whole)
    family = FAMILIES[kind]
    refuse_by_layer(config, kind)
    config.only('architectures', [family.architecture], None)
    if kind == 'gemma3_text':
        config.only('hidden_activation', 'gelu_pytorch_tanh')
        config.only('use_bidirectional_attention', False, None)
    else:
        config.only('hidden_act', 'silu', 'swish')
    config.only('mlp_bias', False)
    if kind == 'gpt_oss':
        config.get('quantization_config', is_mxfp4, 'null, or an object with a quant_method of mxfp4', None, None)
    else:
        config.only('quantization_config', None)
    if kind not in WITH_BIASES + ('qwen2', 'exaone4', 'ministral3'):  # these three do not look at it
        config.only('attention_bias', False)
    biased = kind in WITH_BIASES and config.flag('attention_bias', kind == 'gpt_oss', False)

    usual = GEMMA if kind == 'gemma3_text' else {}
    dim = config.integer('hidden_size', MAX_WIDTH)
    n_heads = config.integer('num_attention_heads', MAX_HEADS, usual.get('num_attention_heads', REFUSED))
    head_dim = read_head_dim(config, kind, dim, n_heads)
    n_kv_heads = config.integer('num_key_value_heads', MAX_HEADS, family.n_kv_heads or n_heads, n_heads)
    if n_heads % n_kv_heads:
        config.refuse('num_key_value_heads', 'a divisor of num_attention_heads, %d' % n_heads)
    vocab_size = config.integer('vocab_size', MAX_VOCAB, usual.get('vocab_size', REFUSED))
    seq_len = config.integer('max_position_embeddings', MAX_SEQ, family.seq_len)
    n_layers = config.integer('num_hidden_layers', MAX_LAYERS)
    layers = read_layers(config, kind, n_layers)
    experts = read_experts(config, kind, n_layers, layers)
    return {
        'dim': dim, 'hidden_dim': config.integer('intermediate_size', MAX_WIDTH),
        'n_layers': n_layers, 'n_heads': n_heads, 'n_kv_heads': n_kv_heads, 'head_dim': head_dim,
        'vocab_size': vocab_size, 'seq_len': seq_len, 'tied': read_tied(whole, config, family),
        'norm_eps': config.number('rms_norm_eps', family.norm_eps, high=MAX_EPS),
        **read_special(folder, whole, config, family, vocab_size),
        'qkv_bias': int(biased or kind == 'qwen2'), 'o_bias': int(biased), 'qk_norm': family.qk_norm,
        'norm_place': family.norm_place, 'fused': kind == 'phi3', 'wrapped': config is not whole,
        **read_gemma(config, kind, dim, head_dim), **read_encoding(config, kind, seq_len), **experts, **layers,
        **read_ropes(config, kind, family.theta, layers, head_dim, seq_len)}


def is_mxfp4(value):
    return isinstance(value, dict) and value.get('quant_method') == 'mxfp4'


def text_config(config):
    """The config of the text model, and its model_type: what is written, or what the architecture implies."""
    names = {**{kind: family.architecture for kind, family in FAMILIES.items()},
             **{kind: architecture for kind, (architecture, _) in WRAPPERS.items()}}
    guess = next((kind for kind, name in names.items() if config.values.get('architectures') == [name]), REFUSED)
    if guess is REFUSED and 'model_type' not in config.values and 'architectures' not in config.values:
        refuse_by_layer(config, None)  # which says more than that there is no model_type
    inside = config.values.get('text_config')
    for keys in config, Keys(config.path, inside if isinstance(inside, dict) else {}):
        refuse_not_computed(keys)
    kind = config.get('model_type', lambda v: v in list(names), way_out(config), guess)
    if kind not in WRAPPERS:
        return config, kind
    architecture, kinds = WRAPPERS[kind]
    config.only('architectures', [architecture], None)
    config.only('quantization_config', None)
    text = Keys(config.path, config.get('text_config', lambda v: isinstance(v, dict), 'the config of a text model'))
    return text, text.get('model_type', lambda v: v in kinds, 'one of ' + ', '.join(kinds), kinds[0])


def way_out(config):
    """What is expected of a model_type, and what can be done with another."""
    if config.values.get('model_type') in EXPLAINED:
        return 'a family that is run; this one is explained: ./run --explain --rope-config %s' % config.path
    return ('a family that is run, see docs/checkpoints.md; what its RoPE does is shown by its rope_scaling alone, as '
            'a file: ./run --explain --rope-config FILE --head-dim D --theta T --train-ctx L')


def refuse_not_computed(config):
    """Refuses, by its key, what other families have (Gemma 2, Gemma 3n). Gemma 3's class does not look at one."""
    for key, expected in NOT_COMPUTED.items():
        if config.values.get(key) is None or key == 'hidden_size_per_layer_input' and config.values[key] == 0:
            continue
        if key != 'attn_logit_softcapping' or config.values.get('model_type') != 'gemma3_text':
            config.refuse(key, expected)
        notes.append('%s means nothing to model_type gemma3_text and is not used' % key)


def read_head_dim(config, kind, dim, n_heads):
    usual, null = FAMILIES[kind].head_dim, REFUSED
    if not usual:
        if config.values.get('head_dim') is None and dim % (2 * n_heads):
            config.refuse('hidden_size', 'an even multiple of num_attention_heads, %d' % n_heads)
        usual = null = dim // n_heads
    head_dim = config.integer('head_dim', MAX_HEAD_DIM, usual, null)
    if head_dim % 2 or not 0 < head_dim <= MAX_HEAD_DIM:
        config.refuse('head_dim', 'an even number up to %d' % MAX_HEAD_DIM)
    return head_dim


def read_tied(whole, config, family):
    """Whether the classifier is the embedding: a model of pictures and text says that itself, true by default."""
    inside = config.flag('tie_word_embeddings', family.tied)
    if config is whole:
        return inside
    tied = whole.flag('tie_word_embeddings', True)
    if 'tie_word_embeddings' in config.values and inside != tied:
        warn(config, 'tie_word_embeddings is %s beside text_config and %s in it: %s counts',
             *(str(value).lower() for value in (tied, inside, tied)))
    return tied


def read_gemma(config, kind, dim, head_dim):
    """What only Gemma computes. The embedding's scale is rounded to the type of the weights when these are read."""
    if kind != 'gemma3_text':
        return {}
    scalar = config.number('query_pre_attn_scalar', 256)
    return {'activation': 1, 'norms_lack_one': True, 'embedding_scale': sqrt(dim),
            'score_scale': 0 if scalar == head_dim else scalar ** -0.5}


def read_encoding(config, kind, seq_len):
    """How the model knows positions, and the rows of its tables."""
    if kind != 'rope.c':
        return {}
    name = config.get('position_encoding', lambda v: v in ENCODINGS, 'one of ' + ', '.join(ENCODINGS))
    rows = seq_len if name == 'learned' else 1 + config.integer('clip_distance', MAX_SEQ) if name == 'shaw' else 0
    return {'encoding': ENCODINGS.index(name), 'encoding_rows': rows}


# ---- tokens that begin and end texts ----

def read_special(folder, whole, config, family, vocab_size):
    bos_id, eos_id = (-1 if id is None or id >= vocab_size else id for id in (family.bos_id, family.eos_id))
    # generate() stops at the tokens of generation_config.json where there is one: chat checkpoints name the end of a
    # turn only there (Llama 3: config.json has end_of_text, generation_config.json adds eot_id). Ours stops at both.
    beside = [] if config is whole else end_tokens(whole, None, vocab_size)
    eos_ids = beside + end_tokens(config, None if beside or eos_id < 0 else eos_id, vocab_size)
    if os.path.exists(os.path.join(folder, 'generation_config.json')):
        eos_ids += end_tokens(read_json(os.path.join(folder, 'generation_config.json')), None, vocab_size)
    eos_ids = list(dict.fromkeys(eos_ids))
    if len(eos_ids) > MAX_EOS:
        config.refuse('eos_token_id', 'at most %d end tokens with those of generation_config.json' % MAX_EOS)
    return {'bos_id': config.integer('bos_token_id', vocab_size - 1, bos_id, -1, 0), 'eos_ids': eos_ids}


def end_tokens(config, default, vocab_size):
    """eos_token_id as a list: it may be an id, a list of ids, or null."""
    value = config.values.get('eos_token_id', default)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(id) is int and 0 <= id < vocab_size for id in ids):
        config.refuse('eos_token_id', 'token ids below %d' % vocab_size)
    return ids
