"""For test_family_formats.py, families with steps that few have: no gate in the feed-forward layer, scales, caps, norms
of other kinds and places, gates of attention, chunks. The keys of config.json, the fields that they mean, and the
tensors by the names of Hugging Face."""

from math import pi

SEES_ALL, WITHOUT_ROPE, DENSE = 1, 2, 8
FULL, SLIDING, CHUNKED = 'full_attention', 'sliding_attention', 'chunked_attention'
FIELDS = dict(
    o_bias=dict(o_bias=1), ffn_bias=dict(ffn_bias=1), layer_norms=dict(layer_norm=1), parallel=dict(norm_place=3),
    relu2=dict(activation=3), xielu=dict(activation=4), bare_norms=dict(qk_norm=3), late_norms=dict(qk_norm_late=1),
    turning_norms=dict(qk_norm_turning=1), embedding_norm=dict(embedding_norm=1), gates=dict(attention_gate=1),
    residual_scale=dict(residual_scale=0.5), logit_scale=dict(logit_scale=0.25),
    after_eps=dict(after_norm_eps=1e-8), chunks=dict(attention_chunk=7), unturned_temperature=dict(
        temperature_beta=0.25, temperature_length=5, temperature_unturned=1))
FAMILIES = {'seed_oss', 'ernie4_5', 'arcee', 'ministral', 'glm4', 'granite', 'granitemoehybrid', 'cohere2', 'apertus',
            'hunyuan_v1_dense', 'llama4_text', 'muse_glimmer_text'}
OF_EXPERTS = {'experts', 'sigmoids', 'scaled_input', 'shared_expert'}
# Features that never come alone: each of the first brings all of the second.
ALONGSIDE = [({'bare_norms', 'turning_norms'}, {'bare_norms', 'turning_norms'}),
             ({'unturned_temperature', 'temperature'}, {'unturned_temperature', 'temperature', 'without_rope'}),
             (OF_EXPERTS | {'dense_between'}, OF_EXPERTS)]


def together(facts, found):
    """The features with those that never come without them."""
    if facts.name == 'ernie4_5' and found:
        return {'all_biases', 'ffn_bias'}
    if facts.name == 'seed_oss' and (found >= {'qkv_bias', 'o_bias'} or 'all_biases' in found):
        return found - {'qkv_bias', 'o_bias'} | {'all_biases'}
    for some, whole in ALONGSIDE if facts.name == 'llama4_text' else ():
        found = found | whole if found & some else found
    return found


def say(case):
    """Changes the case's keys and fields so far."""
    facts, row, settings, fields, found = case.facts, case.facts.row, case.settings, case.fields, case.features
    if facts.name not in FAMILIES:
        return
    keys, scales = row.get('keys', {}), row.get('scales', {})
    settings.update(row.get('activation', {}))
    said_by = keys.get('said_by', {})
    for key, name in (said_by.get('hidden_dim'), 'intermediate_size'), (said_by.get('norm_eps'), 'rms_norm_eps'):
        if key:
            settings[key] = settings[name] if key == 'intermediate_size_mlp' else settings.pop(name)
    if 'after_norm_eps' in said_by:
        settings[said_by['after_norm_eps']] = 1e-8
    biases = found | ({'qkv_bias', 'o_bias'} if 'all_biases' in found else set())
    settings.update({key: set(names.split()) <= biases for key, names in keys.get('says', {}).items()})
    for word, feature, there, silent in (
            ('embedding_factor', 'embedding_scale', 4.0, 1.0), ('residual_factor', 'residual_scale', 0.5, 1.0),
            ('score_factor', 'score_scale', 0.25, 8 ** -0.5), ('query_factor', 'score_scale', 0.5, 1.0),
            ('logit_factor', 'logit_scale', 0.25, 1.0), ('logit_divisor', 'logit_scale', 4.0, 1.0)):
        if word in scales:
            settings[scales[word]] = there if feature in found else silent
            if word in ('score_factor', 'query_factor') and feature in found:
                fields['score_scale'] = there * (8 ** -0.5 if word == 'query_factor' else 1)
    OWN.get(facts.name, lambda case: None)(case)


def say_listed(case):
    window = any(case.slides)
    case.settings.update(sliding_window=9 if window else None,
                         layer_types=[SLIDING if slide else FULL for slide in case.slides])


def say_attention_alone(case):
    still = 'without_rope' in case.features
    case.settings.update(num_local_experts=0, layer_types=['attention'] * 4,
                         position_embedding_type='nope' if still else 'rope')
    case.fields.update({'layers': [WITHOUT_ROPE] * 4} if still else {})


def say_whole_width(case):
    """Heads that are as wide together as the model."""
    del case.settings['head_dim']
    case.settings.update(num_attention_heads=2, num_key_value_heads=1)
    case.fields.update(n_heads=2, n_kv_heads=1)


def say_thetas(case):
    """Which layers turn goes by a list, and all by one RoPE."""
    for key in [key for key in case.fields if key.startswith('sliding_') and key != 'sliding_window']:
        del case.fields[key]
    case.settings['layer_rope_theta'] = [0 if still else case.theta for still in case.still]
    layers = [SEES_ALL * (any(case.slides) and not slide) + WITHOUT_ROPE * still
              for slide, still in zip(case.slides, case.still)]
    case.fields.pop('layers', None)
    case.fields.update({'layers': layers} if any(layers) else {})
    case.features.discard('two_ropes')


def say_chunks(case):
    fields, settings, found = case.fields, case.settings, case.features
    for key in 'method', 'factor', 'mscale', 'mscale_all_dim', 'beta_fast', 'beta_slow':
        fields.pop(key, None)
    fields.update(train_ctx=64)
    chunks, flags = 'chunks' in found, [WITHOUT_ROPE * still for still in case.still]
    settings.update(
        no_rope_layers=[int(not still) for still in case.still], attention_chunk_size=7 if chunks else None,
        layer_types=[CHUNKED if i != 2 else FULL for i in range(4)], attn_temperature_tuning=False)
    flags[2] |= SEES_ALL * chunks
    if 'unturned_temperature' in found:
        settings.update(attn_temperature_tuning=True, attn_scale=0.25, floor_scale=5)
        fields.update(FIELDS['unturned_temperature'])
    if 'experts' not in found:
        settings['moe_layers'] = []
        fields.pop('shared_hidden_dim')
    elif 'dense_between' in found:
        settings['moe_layers'] = [1, 2, 3]
        flags[0] |= DENSE
    if case.as_published and chunks:  # by which llama.cpp goes
        settings.update(no_rope_layers=[1, 1, 1, 0], attention_chunk_size=8192, attn_scale=0.1, floor_scale=8192,
                        layer_types=[CHUNKED] * 3 + [FULL], moe_layers=[1, 3])
        fields.update(attention_chunk=8192, temperature_beta=0.1, temperature_length=8192)
        flags = [DENSE, 0, DENSE, SEES_ALL + WITHOUT_ROPE]
    fields.pop('layers', None)
    fields.update({'layers': flags} if any(flags) else {})


def is_published(c):
    """Whether Llama 4's numbers are those that llama.cpp has."""
    flags = [flag & ~DENSE for flag in c.get('layers', [0] * 4)]
    dense = [bool(flag & DENSE) for flag in c.get('layers', [0] * 4)]
    chunks = c['attention_chunk'] == 8192 and flags == [0, 0, 0, SEES_ALL + WITHOUT_ROPE] and (
        c['temperature_beta'] == 0.1 and c['temperature_length'] == 8192)
    return chunks and c['qk_norm'] == 3 and dense == [True, False] * 2


OWN = {'ministral': say_listed, 'granitemoehybrid': say_attention_alone, 'cohere2': say_whole_width,
       'muse_glimmer_text': say_thetas, 'llama4_text': say_chunks}

# ---- tensors ----

NAMES = {
    'wg': 'self_attn.gate_proj.weight', 'attention_norm': 'input_layernorm.weight',
    'ffn_norm': 'post_attention_layernorm.weight', 'q_norm': 'self_attn.q_norm.weight',
    'k_norm': 'self_attn.k_norm.weight',
    **{'w' + part: 'self_attn.%s_proj.weight' % part for part in 'qkvo'},
    **{'b' + part: 'self_attn.%s_proj.bias' % part for part in 'qkvo'},
    **{kind + number: 'mlp.%s_proj.%s' % (name, end) for kind, end in (('w', 'weight'), ('b', 'bias'))
       for number, name in (('1', 'gate'), ('3', 'up'), ('2', 'down'))}}
OF_FAMILY = {
    'glm4': {'attention_after': 'post_self_attn_layernorm.weight', 'ffn_after': 'post_mlp_layernorm.weight'},
    'muse_glimmer_text': {
        'attention_after': 'post_attention_layernorm.weight', 'ffn_norm': 'pre_feedforward_layernorm.weight',
        'ffn_after': 'post_feedforward_layernorm.weight'},
    'apertus': {'attention_norm': 'attention_layernorm.weight', 'ffn_norm': 'feedforward_layernorm.weight'},
    'hunyuan_v1_dense': {'q_norm': 'self_attn.query_layernorm.weight', 'k_norm': 'self_attn.key_layernorm.weight'},
    'granitemoehybrid': {'w2': 'shared_mlp.output_linear.weight'},
    'llama4_text': {part: 'feed_forward.%s_proj.weight' % name for part, name in (
        ('w1', 'gate'), ('w3', 'up'), ('w2', 'down'))}}
FUSED = {'glm4': 'mlp.gate_up_proj.weight', 'granitemoehybrid': 'shared_mlp.input_linear.weight'}
ADJACENT = {'ernie4_5', 'glm4', 'cohere2', 'llama4_text'}
ONCE = {'embedding': 'model.embed_tokens.weight', 'final_norm': 'model.norm.weight', 'classifier': 'lm_head.weight'}
TURNED = 'wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'


def in_halves(rows, head, turning):
    order = list(range(0, turning, 2)) + list(range(1, turning, 2)) + list(range(turning, head))
    return [rows[at + i] for at in range(0, len(rows), head) for i in order]


def tensors(facts, c, weights, theirs):
    """{name: (shape, values)} of all except those in `theirs`."""
    out, names = {}, {**NAMES, **OF_FAMILY.get(facts.name, {})}
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        if name in theirs:
            continue
        place = 'model.layers.%s.' % layer
        if part == 'xielu':
            for number, each in zip(values, ('alpha_p', 'alpha_n', 'beta', 'eps')):
                out['%smlp.act_fn.%s' % (place, each)] = [1] if each[0] == 'a' else [], [number]
            continue
        is_vector = part[0] == 'b' or part.endswith(('_norm', '_after'))
        columns = 1 if is_vector else {'wo': c['n_heads'] * c['head_dim'], 'w2': c['hidden_dim']}.get(part, c['dim'])
        rows = [list(values[i:i + columns]) for i in range(0, len(values), columns)]
        if part in TURNED and facts.name not in ADJACENT:
            rows = in_halves(rows, c['head_dim'], c['rotary_dim'] or c['head_dim'])
        if facts.adds_one and part.endswith(('_norm', '_after')) and part != 'final_norm':
            rows = [[row[0] - 1] for row in rows]
        shape = [len(rows)] + [columns] * (not is_vector)
        out[ONCE[part] if part in ONCE else place + names[part]] = shape, [x for row in rows for x in row]
    for layer in range(c['n_layers'] if facts.name in FUSED else 0):
        place = 'model.layers.%d.' % layer
        gate, up = (out.pop(place + 'mlp.%s_proj.weight' % part) for part in ('gate', 'up'))
        out[place + FUSED[facts.name]] = [gate[0][0] + up[0][0], gate[0][1]], gate[1] + up[1]
    return out


# ---- GGUF ----

def scales_of(architecture, c):
    """Keys that few of llama.cpp's architectures have: scales, all of Granite's, whose logits are divided, and another
    name of the norms' epsilon."""
    scale = c['score_scale'] or c['head_dim'] ** -0.5
    return {'granite': {
        'embedding_scale': c['embedding_scale'] or 1.0, 'residual_scale': c['residual_scale'] or 1.0,
        'attention.scale': scale, 'logit_scale': 1 / (c['logit_scale'] or 1.0)},
        'muse-glimmer': {'logit_scale': c['logit_scale'] or 1.0, 'final_logit_softcapping': c['logit_cap']},
        'cohere2': {'logit_scale': c['logit_scale'] or 1.0, 'attention.layer_norm_epsilon': c['norm_eps']},
        'llama4': {'attention.sliding_window': 8192, 'interleave_moe_layer_step': 2}}.get(architecture, {})


def divisors(c, turning):
    """llama3's divisors of the frequency of each pair: by its wavelength, as in the published rule."""
    low, high, out = c['train_ctx'] / c['low_freq_factor'], c['train_ctx'] / c['high_freq_factor'], []
    for i in range(0, turning, 2):
        wavelength = 2 * pi * c['theta'] ** (i / turning)
        smooth = (c['train_ctx'] / wavelength - c['low_freq_factor']) / (c['high_freq_factor'] - c['low_freq_factor'])
        out.append(1.0 if wavelength < high else c['factor'] if wavelength > low else
                   1 / ((1 - smooth) / c['factor'] + smooth))
    return out
