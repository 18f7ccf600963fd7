#!/usr/bin/env python3
"""Model families: random models
in every variant that a config.json can ask for, written as Hugging Face lays them out, exported, and held against
reference.py with the settings that ../shared/FAMILIES.md says the config means; and what is refused, by its key."""

import json
import os
import struct

import kept
import source_writers as w
import common
from common import (FIELDS, HEADER_BYTES, check, close, config, good, in_work, main, perplexity, random_ids,
                    random_weights, read, table, takes_long, tiny_model, write)
from test_forward import TOLERANCE, nll_close, session_test

SEES_ALL, WITHOUT_ROPE = 1, 2
FULL, SLIDING = 'full_attention', 'sliding_attention'


def export(folder, out):
    return common.export('--no-tokenizer', folder, out)


# ---- model files ----

LISTS = {'short_factors': [1.0, 1.2, 1.9], 'long_factors': [1.1, 3.0, 9.0]}
VARIANTS = {
    'biases': dict(qkv_bias=1), 'a bias of wo': dict(o_bias=1), 'head norms': dict(qk_norm=1),
    'a part turns': dict(rotary_dim=6), 'one pair turns': dict(rotary_dim=2),
    'layers without rope': dict(layers=[0, WITHOUT_ROPE, 0]),
    'layers that see all': dict(layers=[0, SEES_ALL, 0], sliding_window=9),
    'everything': dict(qkv_bias=1, o_bias=1, qk_norm=1, rotary_dim=6, layers=[3, 0, 1], sliding_window=11)}
METHODS = {'none': {}, 'yarn': dict(method='yarn', factor=4.0, train_ctx=16),
           'dynamic': dict(method='ntk', rope_dynamic=1, factor=2.0, train_ctx=16),
           'longrope': dict(method='longrope', factor=8.0, train_ctx=16, **LISTS)}


def variants(**shape):
    for name, variant in VARIANTS.items():
        for method, settings in METHODS.items():
            if method != 'longrope' or variant.get('rotary_dim') == 6:
                yield '%s, %s' % (name, method), dict(shape, n_layers=3, theta=50.0, **variant, **settings)


def test_against_the_reference():
    for seed, (name, c) in enumerate(variants(head_dim=10, n_heads=4, n_kv_heads=2)):
        for n in (16, 90) if 'longrope' in name else (40,):
            nll_close(config(**c), seed, n, 1e-4, 'the naive reference, %s, %d tokens' % (name, n))


def test_prompt_against_decode():
    for name, c in variants(head_dim=10, n_heads=4, n_kv_heads=2, dim=24):
        model = tiny_model('pieces.bin', **c)
        session_test('chunks', model, 'f32', c.get('sliding_window', 0), 0, 140, TOLERANCE['f32'], 'pieces, ' + name)
    for kv in ('f16', 'q8'):
        session_test('chunks', model, kv, 11, 0, 140, TOLERANCE[kv], 'pieces, %s, %s' % (name, kv))


def test_quantized_copies():
    """Everything that version 4 says is in a copy, too: q8 is near enough to tell, on average."""
    for name, c in variants(head_dim=10, n_heads=4, n_kv_heads=2, dim=64, hidden_dim=64):
        c = config(**c)
        model, copy, ids = tiny_model('whole.bin', **c), in_work('copy.bin'), random_ids(40, 50, 5)
        good(model, '--quantize', 'q8', copy)
        apart = [abs(a - b) for a, b in zip(perplexity(copy, ids), perplexity(model, ids))]
        check(sum(apart) / len(apart) < 0.12, 'a q8 copy, ' + name, sum(apart) / len(apart))
        before, after = header_of(model), header_of(copy)
        check({key for key in before if before[key] != after[key]} == {'weight_type', 'group_size'},
              "a q8 copy's header, " + name, after)


def test_explain():
    model = tiny_model('part.bin', head_dim=16, rotary_dim=12)
    settings, _, rows = table(good(model, '--explain', '--rope', 'linear', '--factor', 4).out)
    check((settings['head_dim'], settings['rotary_dim'], len(rows)) == ('16', '12', 6), 'what turns is said', settings)
    close([float(row['inv_freq']) for row in rows], [10000 ** (-2 * i / 12) for i in range(6)], 1e-9, 'its frequencies')
    for d, r in (16, 12), (96, 32), (80, 34), (12, 10), (100, 58), (200, 114):
        model = tiny_model('part.bin', head_dim=d, rotary_dim=r)
        block = json.loads([line for line in good(model, '--rope-json').out.splitlines() if line[0] == '{'][0])
        check(int(d * block['partial_rotary_factor']) == r, 'partial_rotary_factor of %d in %d' % (r, d), block)
    whole, _, _ = table(good(tiny_model('whole.bin'), '--explain').out)
    check('rotary_dim' not in whole, 'nothing is said of a whole head', whole)


# ---- config.json ----

NAMES = {'embedding': 'model.embed_tokens', 'final_norm': 'model.norm', 'classifier': 'lm_head'}
PARTS = {'attention_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm', 'w1': 'mlp.gate_proj',
         'w2': 'mlp.down_proj', 'w3': 'mlp.up_proj', 'q_norm': 'self_attn.q_norm', 'k_norm': 'self_attn.k_norm'}


def in_halves(values, head_dim, turning):
    """Rows of heads, each a list, in Hugging Face's order: of the elements that turn first all x, then all y."""
    out = []
    for head in range(0, len(values), head_dim):
        rows = values[head:head + head_dim]
        out += rows[0:turning:2] + rows[1:turning:2] + rows[turning:]
    return out


def hf_tensors(c, weights, fused):
    """{name: rows, each a list} as Hugging Face has them."""
    tensors, turning = {}, c['rotary_dim'] or c['head_dim']
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        columns = {'wo': c['n_heads'] * c['head_dim'], 'w2': c['hidden_dim']}.get(part, c['dim'])
        vector = part[0] == 'b' or part.endswith('norm')
        rows = values.tolist() if vector else [values[i:i + columns].tolist() for i in range(0, len(values), columns)]
        if part in ('wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'):
            rows = in_halves(rows, c['head_dim'], turning)
        if part in NAMES:
            tensors[NAMES[part] + '.weight'] = rows
        else:
            place = PARTS.get(part) or 'self_attn.%s_proj' % part[1]
            tensors['model.layers.%s.%s.%s' % (layer, place, 'bias' if part[0] == 'b' else 'weight')] = rows
    for layer in range(c['n_layers'] if fused else 0):
        for whole, parts in (('self_attn.qkv_proj', 'qkv'), ('mlp.gate_up_proj', ('gate', 'up'))):
            names = ['model.layers.%d.%s.%s_proj.weight' % (layer, whole.split('.')[0], part) for part in parts]
            tensors['model.layers.%d.%s.weight' % (layer, whole)] = sum((tensors.pop(name) for name in names), [])
    return tensors


def write_folder(folder, settings, tensors):
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b''
    for name, rows in tensors.items():
        flat = [x for row in rows for x in row] if isinstance(rows[0], list) else rows
        shape = [len(rows), len(rows[0])] if isinstance(rows[0], list) else [len(rows)]
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + 4 * len(flat)]}
        data += struct.pack('<%df' % len(flat), *flat)
    text = json.dumps(header).encode()
    write(os.path.join(folder, 'model.safetensors'), struct.pack('<Q', len(text)) + text + data)
    write(os.path.join(folder, 'config.json'), json.dumps(settings))
    return folder


def settings_of(family, **changes):
    """A config.json for the sizes of common.config; ... takes a key away."""
    name = {'llama': 'Llama', 'mistral': 'Mistral', 'qwen2': 'Qwen2', 'qwen3': 'Qwen3', 'phi3': 'Phi3',
            'smollm3': 'SmolLM3'}[family]
    all_keys = dict(architectures=[name + 'ForCausalLM'], model_type=family, hidden_size=32, intermediate_size=44,
                    num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=50,
                    max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, bos_token_id=1, eos_token_id=2,
                    tie_word_embeddings=False)
    all_keys.update(changes)
    return {key: value for key, value in all_keys.items() if value is not ...}


YARN = dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16)
LONG = dict(type='longrope', short_factor=[1.0, 1.2, 1.9], long_factor=[1.1, 3.0, 9.0])
PARTIAL = dict(partial_rotary_factor=0.75, original_max_position_embeddings=16)
LONGROPE = dict(method='longrope', rotary_dim=6, train_ctx=16, factor=4.0, **LISTS)
EVERY = dict(qkv_bias=1, o_bias=1)

# Label, family, what its config.json says, what that means: fields of the header.
CASES = [
    ('qwen2', 'qwen2', {}, dict(qkv_bias=1)),
    ('qwen2, attention_bias is not looked at', 'qwen2', dict(attention_bias=False), dict(qkv_bias=1)),
    ('qwen2, no head_dim', 'qwen2', dict(head_dim=...), dict(qkv_bias=1)),
    ('qwen2, another head_dim', 'qwen2', dict(head_dim=12), dict(qkv_bias=1, head_dim=12)),
    ('qwen2, a window that is not used', 'qwen2', dict(sliding_window=5, max_window_layers=1, use_sliding_window=False),
     dict(qkv_bias=1)),
    ('qwen2, upper layers slide', 'qwen2', dict(sliding_window=7, max_window_layers=2, use_sliding_window=True),
     dict(qkv_bias=1, sliding_window=7, layers=[1, 1, 0, 0])),
    ('qwen2, all layers slide', 'qwen2', dict(sliding_window=7, max_window_layers=0, use_sliding_window=True),
     dict(qkv_bias=1, sliding_window=7)),
    ('qwen2, 28 layers before the window', 'qwen2', dict(sliding_window=7, use_sliding_window=True), dict(qkv_bias=1)),
    ('qwen2, a window of null', 'qwen2', dict(sliding_window=None, max_window_layers=0, use_sliding_window=True),
     dict(qkv_bias=1)),
    ('qwen2, window not said', 'qwen2', dict(max_window_layers=1, use_sliding_window=True),
     dict(qkv_bias=1, sliding_window=4096, layers=[1, 0, 0, 0])),
    ('qwen2, layer_types go before max_window_layers', 'qwen2',
     dict(sliding_window=7, max_window_layers=2, use_sliding_window=True, layer_types=[SLIDING, FULL, SLIDING, FULL]),
     dict(qkv_bias=1, sliding_window=7, layers=[0, 1, 0, 1])),
    ('qwen2, layer_types all full', 'qwen2',
     dict(sliding_window=7, max_window_layers=0, use_sliding_window=True, layer_types=[FULL] * 4), dict(qkv_bias=1)),
    ('qwen2, the newest layout', 'qwen2',
     dict(dtype='float32', rope_theta=..., rope_parameters=dict(YARN, rope_theta=500.0), layer_types=[FULL] * 4,
          use_sliding_window=False), dict(qkv_bias=1, method='yarn', factor=4.0, train_ctx=16, theta=500.0)),
    ('qwen2, tied', 'qwen2', dict(tie_word_embeddings=True), dict(qkv_bias=1, shared_classifier=1)),
    ('qwen2, defaults', 'qwen2',
     dict(num_key_value_heads=..., num_attention_heads=32, head_dim=2, max_position_embeddings=..., rms_norm_eps=...,
          rope_theta=..., tie_word_embeddings=..., bos_token_id=..., eos_token_id=...),
     dict(qkv_bias=1, n_heads=32, n_kv_heads=32, head_dim=2, seq_len=32768, train_ctx=32768, norm_eps=1e-6, bos_id=-1,
          n_eos=0, eos_ids=(0,) * 8)),
    ('qwen3', 'qwen3', {}, dict(qk_norm=1)),
    ('qwen3, head_dim not said', 'qwen3', dict(head_dim=..., num_attention_heads=2, num_key_value_heads=1),
     dict(qk_norm=1, head_dim=128, n_heads=2, n_kv_heads=1)),
    ('qwen3, biases', 'qwen3', dict(attention_bias=True), dict(qk_norm=1, **EVERY)),
    ('qwen3, upper layers slide', 'qwen3', dict(sliding_window=7, max_window_layers=3, use_sliding_window=True),
     dict(qk_norm=1, sliding_window=7, layers=[1, 1, 1, 0])),
    ('qwen3, tied, yarn', 'qwen3', dict(tie_word_embeddings=True, rope_scaling=YARN),
     dict(qk_norm=1, shared_classifier=1, method='yarn', factor=4.0, train_ctx=16)),
    ('phi3', 'phi3', dict(head_dim=...), {}),
    ('phi3, defaults', 'phi3', dict(num_key_value_heads=..., rms_norm_eps=..., max_position_embeddings=...,
                                    head_dim=...),
     dict(n_kv_heads=4, norm_eps=1e-5, seq_len=4096, train_ctx=4096)),
    ('phi3, a part turns', 'phi3', dict(partial_rotary_factor=0.5), dict(rotary_dim=4)),
    ('phi3, a part by the newest layout', 'phi3',
     dict(rope_theta=..., rope_parameters=dict(rope_type='default', rope_theta=300.0, partial_rotary_factor=0.25)),
     dict(rotary_dim=2, theta=300.0)),
    ('phi3, longrope', 'phi3', dict(PARTIAL, rope_scaling=LONG), LONGROPE),
    ('phi3, longrope as su', 'phi3', dict(PARTIAL, rope_scaling=dict(LONG, type='su')), LONGROPE),
    ('phi3, longrope as yarn', 'phi3', dict(PARTIAL, rope_scaling=dict(LONG, type='yarn')), LONGROPE),
    ('phi3, longrope with a factor, and what is ignored', 'phi3',
     dict(PARTIAL, rope_scaling=dict(LONG, factor=2.0, short_mscale=1.5, long_mscale=2.5)), dict(LONGROPE, factor=2.0)),
    ('phi3, longrope with an attention_factor', 'phi3', dict(PARTIAL, rope_scaling=dict(LONG, attention_factor=1.3)),
     dict(LONGROPE, attention_factor=1.3)),
    ('phi3, the length inside the block is not looked at', 'phi3',
     dict(partial_rotary_factor=0.75, rope_scaling=dict(LONG, original_max_position_embeddings=16)),
     dict(LONGROPE, train_ctx=4096, factor=64 / 4096)),
    ('phi3, a window', 'phi3', dict(sliding_window=9), dict(sliding_window=9)),
    ('smollm3', 'smollm3', {}, dict(layers=[0, 0, 0, 2])),
    ('smollm3, null', 'smollm3', dict(no_rope_layers=None, no_rope_layer_interval=2), dict(layers=[0, 2, 0, 2])),
    ('smollm3, a list', 'smollm3', dict(no_rope_layers=[0, 1, 0, 1]), dict(layers=[2, 0, 2, 0])),
    ('smollm3, a list with more than layers', 'smollm3', dict(no_rope_layers=[1, 1, 0, 1, 0, 0]),
     dict(layers=[0, 0, 2, 0])),
    ('smollm3, layers without rope slide', 'smollm3', dict(use_sliding_window=True, sliding_window=6),
     dict(layers=[1, 1, 1, 2], sliding_window=6)),
    ('smollm3, layer_types slide', 'smollm3',
     dict(use_sliding_window=True, sliding_window=6, layer_types=[SLIDING, FULL, FULL, FULL]),
     dict(layers=[0, 1, 1, 3], sliding_window=6)),
    ('smollm3, no window', 'smollm3', dict(use_sliding_window=True), dict(layers=[0, 0, 0, 2])),
    ('smollm3, biases', 'smollm3', dict(attention_bias=True), dict(layers=[0, 0, 0, 2], **EVERY)),
    ('smollm3, defaults', 'smollm3',
     dict(num_key_value_heads=..., tie_word_embeddings=..., rope_theta=..., rms_norm_eps=...,
          max_position_embeddings=...,
          bos_token_id=..., eos_token_id=...),
     dict(layers=[0, 0, 0, 2], n_kv_heads=4, shared_classifier=1, theta=2e6, norm_eps=1e-6, seq_len=32768,
          train_ctx=32768, bos_id=-1, n_eos=0, eos_ids=(0,) * 8)),
    ('mistral', 'mistral', dict(sliding_window=7, layer_types=[FULL] * 4), dict(sliding_window=7)),
    ('llama', 'llama', dict(layer_types=[FULL] * 4), {}),
]


def check_model(model, c, weights, seed, label, unsaid, scored=True):
    """An exported model says of every token what the reference does, below and past L where there are two lists, and
    its header is c but for the fields in `unsaid`."""
    for n in ((16, 40) if c['n_longrope'] else (40,)) if scored else ():
        ids = random_ids(n, 50, seed)
        close(perplexity(model, ids, '--kv', 'f32'), kept.nll(c, weights, ids), 1e-4,
              '%s, %d tokens' % (label, n))
    said = header_of(model)
    wrong = {key: (said[key], c[key]) for key in said if key not in unsaid and said[key] != c[key]}
    check(not wrong, label + ': the header', wrong)


def test_config():
    configs(4)


@takes_long
def test_every_config():
    configs(1)


def configs(step):
    """What each means, and the numbers of every `step`th and of each family's first: a header that is right runs."""
    families = set()
    for seed, (label, family, changes, meaning) in enumerate(CASES):
        c = config(**dict(n_layers=4, norm_eps=1e-5, **{k: v for k, v in meaning.items() if k != 'norm_eps'}))
        c['norm_eps'] = meaning.get('norm_eps', 1e-5)
        weights, model, folder = random_weights(c, seed), in_work('case.bin'), in_work('case')
        write_folder(folder, settings_of(family, **changes), hf_tensors(c, weights, family == 'phi3'))
        done = export(folder, model)
        if not check(done.returncode == 0, label, done.stderr):
            continue
        check_model(model, c, weights, seed, label, ('version', 'n_eos'), seed % step == 0 or family not in families)
        families.add(family)


def header_of(path):
    data = read(path)
    size = HEADER_BYTES[struct.unpack_from('<I', data, 4)[0]]
    data = data[:size] + bytes(HEADER_BYTES[6] - size)
    fields = {name: struct.unpack_from('<' + kind, data, at) for name, at, kind, _ in FIELDS}
    return {name: value if len(value) > 1 else value[0] for name, value in fields.items()}


WINDOW = dict(use_sliding_window=True, sliding_window=7)
REFUSED = [
    ('qwen2', dict(layer_types=[SLIDING] * 4, sliding_window=7), 'layer_types'),
    ('qwen2', dict(layer_types=[SLIDING] * 4, use_sliding_window=True, sliding_window=None), 'layer_types'),
    ('qwen2', dict(WINDOW, layer_types=[SLIDING] * 3), 'layer_types'),
    ('qwen2', dict(WINDOW, layer_types=[SLIDING] * 3 + ['chunked_attention']), 'layer_types'),
    ('qwen2', dict(WINDOW, layer_types='full_attention'), 'layer_types'),
    ('qwen2', dict(WINDOW, max_window_layers=None), 'max_window_layers'),
    ('qwen2', dict(WINDOW, max_window_layers=-1), 'max_window_layers'),
    ('qwen2', dict(use_sliding_window=1), 'use_sliding_window'),
    ('qwen2', dict(use_sliding_window=True, sliding_window=0, max_window_layers=0), 'sliding_window'),
    ('qwen2', dict(num_key_value_heads=...), 'num_key_value_heads'),  # 32
    ('qwen2', dict(partial_rotary_factor=0.5), 'partial_rotary_factor'),
    ('qwen2', dict(model_type='qwen2_moe'), 'model_type'),
    ('qwen2', dict(architectures=['Qwen3ForCausalLM']), 'architectures'),
    ('qwen3', dict(head_dim=None), 'head_dim'),
    ('qwen3', dict(attention_bias='yes'), 'attention_bias'),
    ('phi3', dict(attention_bias=True), 'attention_bias'),
    ('phi3', dict(partial_rotary_factor=0.4), 'partial_rotary_factor'),
    ('phi3', dict(partial_rotary_factor=0.1), 'partial_rotary_factor'),
    ('phi3', dict(partial_rotary_factor=1.5), 'partial_rotary_factor'),
    ('phi3', dict(rope_scaling=LONG), 'rope_scaling.short_factor'),  # three factors, and four pairs
    ('phi3', dict(PARTIAL, rope_scaling=dict(LONG, long_factor=[1.0, 2.0])), 'rope_scaling.long_factor'),
    ('phi3', dict(rope_scaling=dict(type='linear', factor=4.0)), 'rope_scaling.type'),
    ('phi3', dict(rope_scaling=dict(type='dynamic', factor=4.0)), 'rope_scaling.type'),
    ('phi3', dict(PARTIAL, original_max_position_embeddings=None, rope_scaling=LONG),
     'original_max_position_embeddings'),
    ('smollm3', dict(no_rope_layers=[1, 1, 1]), 'no_rope_layers'),
    ('smollm3', dict(no_rope_layers=[]), 'no_rope_layers'),
    ('smollm3', dict(no_rope_layers=[1, 1, 1, 2]), 'no_rope_layers'),
    ('smollm3', dict(no_rope_layer_interval=0), 'no_rope_layer_interval'),
    ('smollm3', dict(no_rope_layer_interval=None), 'no_rope_layer_interval'),
    ('smollm3', dict(mlp_bias=True), 'mlp_bias'),
    ('smollm3', dict(layer_types=[SLIDING] * 4), 'layer_types'),
]


def test_refused():
    out = in_work('refused.bin')
    for family, changes, key in REFUSED:
        done = export(write_folder(in_work('bad'), settings_of(family, **changes), {'x': [0.0]}), out)
        lines = done.stderr.splitlines()
        check(done.returncode == 2 and len(lines) == 1 and key + ' cannot be used' in lines[0]
              and not os.path.exists(out),
              'refused: %s, %s' % (family, changes), done.stderr)


def test_refused_tensors():
    """One tensor is missing, is one too many, or has another shape: it is named."""
    for family, fields, name in (('qwen2', dict(qkv_bias=1), 'q_proj.bias'), ('qwen2', dict(qkv_bias=1), 'v_proj.bias'),
                                 ('qwen3', dict(qk_norm=1), 'q_norm.weight'),
                                 ('qwen3', dict(qk_norm=1), 'k_norm.weight'),
                                 ('phi3', {}, 'qkv_proj.weight'), ('phi3', {}, 'gate_up_proj.weight')):
        c = config(n_layers=4, **fields)
        whole = hf_tensors(c, random_weights(c, 1), family == 'phi3')
        place = 'mlp' if 'gate' in name else 'self_attn'
        name = 'model.layers.2.%s.%s' % (place, name)
        cases = [('without', {k: v for k, v in whole.items() if k != name}, 'is missing'),
                 ('cut', dict(whole, **{name: whole[name][:-1]}), 'does not fit'),
                 ('also', dict(whole, **{'model.layers.2.self_attn.o_proj.bias': [0.0] * 32}), 'has no place')]
        for what, tensors, reason in cases:
            done = export(write_folder(in_work('bad'), settings_of(family), tensors), in_work('refused.bin'))
            named = name if what != 'also' else 'o_proj.bias'
            check(done.returncode == 2 and done.stderr.count('\n') == 1 and named in done.stderr
                  and reason in done.stderr,
                  '%s, %s %s' % (family, what, named), done.stderr)


# ---- GGUF ----

BLOCK = {'q_proj': 'attn_q', 'k_proj': 'attn_k', 'v_proj': 'attn_v', 'o_proj': 'attn_output', 'qkv_proj': 'attn_qkv',
         'q_norm': 'attn_q_norm', 'k_norm': 'attn_k_norm', 'gate_proj': 'ffn_gate', 'up_proj': 'ffn_up',
         'down_proj': 'ffn_down', 'gate_up_proj': 'ffn_up', 'input_layernorm': 'attn_norm',
         'post_attention_layernorm': 'ffn_norm'}
ONCE = {'model.embed_tokens': 'token_embd', 'model.norm': 'output_norm', 'lm_head': 'output'}


def gguf_of(family, c, weights, **changes):
    """As llama.cpp's converter writes it: heads in halves, but in two families in pairs, as in our own files."""
    in_pairs = dict(c, rotary_dim=2) if family in ('smollm3', 'ernie4_5') else c
    tensors = {}
    for name, rows in hf_tensors(in_pairs, weights, family == 'phi3').items():
        stem, kind = name.rsplit('.', 1)
        parts = stem.split('.')
        name = '%s.%s' % (ONCE.get(stem) or 'blk.%s.%s' % (parts[2], BLOCK[parts[-1]]), kind)
        flat = [x for row in rows for x in row] if isinstance(rows[0], list) else rows
        shape = (len(rows), len(rows[0])) if isinstance(rows[0], list) else (len(rows),)
        tensors[name] = 0, shape, struct.pack('<%df' % len(flat), *flat)
    for name, key in ('rope_factors_short', 'short_factors'), ('rope_factors_long', 'long_factors'):
        if key in c:
            tensors[name + '.weight'] = 0, (len(c[key]),), struct.pack('<%df' % len(c[key]), *c[key])
    settings = {key.replace('llama.', family + '.'): value for key, value in w.gguf_settings(c).items()}
    settings['general.architecture'] = w.STRING, family
    settings[family + '.rope.dimension_count'] = w.U32, c['rotary_dim'] or c['head_dim']
    if family in ('qwen2', 'qwen3'):  # whose files do not say it
        del settings[family + '.rope.dimension_count']
        settings[family + '.attention.key_length'] = w.U32, c['head_dim']
    for key, value in changes.items():
        settings['%s.%s' % (family, key.replace('__', '.'))] = value
    return w.gguf(settings, tensors)


GGUF_LISTS = {key: [struct.unpack('<f', struct.pack('<f', x))[0] for x in values] for key, values in LISTS.items()}
GGUF_CASES = [
    ('qwen2', dict(qkv_bias=1, head_dim=12), {}),
    ('qwen2', dict(qkv_bias=1, method='yarn', factor=4.0, train_ctx=16),
     dict(rope__scaling__type=(w.STRING, 'yarn'), rope__scaling__factor=(w.GF32, 4.0),
          rope__scaling__original_context_length=(w.U32, 16))),
    ('qwen3', dict(qk_norm=1, head_dim=12), {}), ('qwen3', dict(qk_norm=1, shared_classifier=1), {}),
    ('phi3', dict(sliding_window=9), dict(attention__sliding_window=(w.U32, 9))), ('phi3', dict(rotary_dim=4), {}),
    ('phi3', dict(method='longrope', rotary_dim=6, train_ctx=16, factor=4.0, attention_factor=1.25, **GGUF_LISTS),
     dict(rope__scaling__original_context_length=(w.U32, 16), rope__scaling__attn_factor=(w.GF32, 1.25),
          attention__sliding_window=(w.U32, 0))),
    ('ernie4_5', dict(shared_classifier=1), {}),
    ('smollm3', dict(n_layers=8, layers=[0, 0, 0, 2, 0, 0, 0, 2]), {}),
    ('smollm3', dict(n_layers=5, layers=[0, 0, 0, 2, 0], shared_classifier=1, qkv_bias=1, o_bias=1), {})]


def test_gguf():
    for seed, (family, meaning, keys) in enumerate(GGUF_CASES):
        c = config(**dict(meaning, norm_eps=1e-5))
        weights, model = random_weights(c, seed), in_work('case.bin')
        label = 'GGUF %s, %s' % (family, sorted(meaning))
        done = export(write(in_work('case.gguf'), gguf_of(family, c, weights, **keys)), model)
        if not check(done.returncode == 0, label, done.stderr):
            continue
        check_model(model, c, weights, seed, label, ('version',))


def test_gguf_refused():
    c = config()
    weights = random_weights(c, 1)
    for family, keys, word in (('qwen2', {}, 'blk.0.attn_q.bias is missing'),
                               ('qwen3', {}, 'blk.0.attn_q_norm.weight is missing'),
                               ('qwen2', dict(attention__sliding_window=(w.U32, 9)), 'attention.sliding_window'),
                               ('smollm3', dict(rope__dimension_count=(w.U32, 4)), 'rope.dimension_count'),
                               ('phi3', dict(rope__dimension_count=(w.U32, 7)), 'rope.dimension_count'),
                               ('phi3', dict(feed_forward_length=(w.U32, 43)), 'blk.0.ffn_up.weight does not fit'),
                               ('phi3', dict(attention__head_count_kv=(w.U32, 4)),
                                'blk.0.attn_qkv.weight does not fit'),
                               ('phi3', dict(attention__clamp=(w.U32, 4)), 'attention.clamp')):
        done = export(write(in_work('bad.gguf'), gguf_of(family, c, weights, **keys)), in_work('refused.bin'))
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and word in done.stderr,
              'refused: GGUF %s, %s' % (family, word), done.stderr)


if __name__ == '__main__':
    main(globals())
