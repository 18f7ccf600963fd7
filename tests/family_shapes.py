"""For test_family_formats.py, families whose layers differ in their heads and widths, whose experts are beside a dense
layer, or whose full layers have another RoPE than sliding ones in blocks of their own: the keys of config.json, the
fields that they mean, and the tensors by the names of Hugging Face."""

from common import shape_of

FULL, SLIDING = 'full_attention', 'sliding_attention'
SEES_ALL, TURNS_AS_SLIDING, DENSE, KEYS_ARE_VALUES, WITHOUT_SINKS = 1, 4, 8, 16, 32
TOGETHER = {'experts', 'shared_expert', 'experts_beside'}  # where a dense layer is beside experts
FIELDS = dict(
    value_norms=dict(value_norm=1), layer_scales=dict(layer_scale=1), experts_beside=dict(experts_beside=1),
    logit_cap=dict(logit_cap=5.0), score_cap=dict(score_cap=3.0), value_scale=dict(value_scale=0.75),
    value_dim=dict(value_dim=6), layer_embeddings=dict(per_layer_dim=6), head_gates=dict(attention_gate=3),
    element_gates=dict(attention_gate=2), altup=dict(altup_streams=4, laurel_rank=6),
    sparse_gates=dict(sparse_layers=2, sparsity=0.8))
LISTED = {'own_shapes', 'shared_keys', 'keys_as_values', 'proportional', 'some_sinks'}


def together(facts, features):
    """The features with those that never come without them; of two gates one."""
    found = set(features)
    if 'experts_beside' in facts.may and found & TOGETHER:
        found |= TOGETHER
    if facts.row.get('keys', {}).get('said_by', {}).get('attention_gate'):
        found = found - {'element_gates'} if 'head_gates' in found else found | {'head_gates'} - (
            {'head_gates'} if 'element_gates' in found else set())
    return found


def say_scales(case):
    """Caps and scales, by the keys that the row has for them."""
    scales = case.facts.row.get('scales', {})
    for word, silent in ('logit_cap', None), ('score_cap', None), ('values', 1.0):
        feature = 'value_scale' if word == 'values' else word
        if word in scales:
            case.settings[scales[word]] = FIELDS[feature][feature] if feature in case.features else silent
    if scales.get('scores') == 'one':
        case.fields['score_scale'] = 1.0


def say_experts(case):
    """Experts beside a dense layer, or none."""
    rule = case.facts.row['experts']
    there = 'experts' in case.features
    case.settings[rule['flag']] = there
    if there:
        case.settings.update({rule['counts'][0]: 4, rule['used']: 2, rule['width']: 12})
        case.fields['shared_hidden_dim'] = 12


def slides_of(row, window, every):
    """Which of four layers slide, where the last one is full whatever a config says, or GGUF has each second one so."""
    layers = row.get('layers', {})
    in_twos = layers.get('also_full') == 'last' or row.get('shapes', {}).get('shared') or row.get('gguf', {}).get('pattern') == 'fixed' and not every
    if layers.get('full') == 'first' and not every:
        return [window and i != 0 for i in range(4)]
    return [window and (i % 2 == 0 if in_twos else every or i != 2) for i in range(4)]


def say_shapes(case):
    """Heads, widths, and layers that read the keys of others."""
    rule, found, fields, settings, n = case.facts.row['shapes'], case.features, case.fields, case.settings, 4
    heads, kv, dims, hidden, sources = [4] * n, [2] * n, [8] * n, [12] * n, list(range(n))
    flags, own = list(fields.get('layers', [0] * n)), 'own_shapes' in found
    full = [not slide for slide in case.slides]
    if rule.get('heads'):
        heads = [4, 2, 4, 2] if own else heads
        settings[rule['heads']] = heads
    kv = [2 if is_full else 2 * rule.get('sliding_kv_times', 1) for is_full in full]
    if rule.get('values'):
        settings[rule['values']] = 6 if 'value_dim' in found else 8
    if rule.get('full_head'):
        same = 'keys_as_values' in found
        settings.update({rule['full_head']: 16 if own else 8, rule['full_kv']: 4 if own else None,
                         rule['keys_are_values']: same})
        dims = [16 if own and is_full else 8 for is_full in full]
        kv = [4 if own and same and is_full else 2 for is_full in full]
    if rule.get('shared') and 'shared_keys' in found:
        sources[2:] = [0, 1] if any(case.slides) else [1, 1]
    if rule.get('double'):
        wide = own and 'shared_keys' in found and 'experts' not in found
        settings[rule['double']] = wide
        hidden[2:] = [24, 24] if wide else hidden[2:]
    if rule.get('shared'):
        settings[rule['shared']] = 2 * ('shared_keys' in found)
    if rule.get('widths') and own:
        settings['intermediate_size'] = hidden = [12, 8, 12, 4]
    for layer in range(n):
        if 'keys_as_values' in found and full[layer] and sources[layer] == layer:
            flags[layer] |= KEYS_ARE_VALUES
        if full[layer] and case.facts.row.get('layers', {}).get('full_sinks') is False:
            flags[layer] |= WITHOUT_SINKS
    shapes = list(zip(heads, kv, dims, hidden, sources))
    most = [max(numbers) for numbers in list(zip(*shapes))[:4]]
    fields.update(zip(('n_heads', 'n_kv_heads', 'head_dim', 'hidden_dim'), most))
    fields.update({'layers': flags} if any(flags) else {})
    fields.update({'shapes': shapes} if any(shape != (*most, i) for i, shape in enumerate(shapes)) else {})
    found.update({'own_shapes'} if 'shapes' in fields else set(), {'some_sinks'} if any(
        flag & WITHOUT_SINKS for flag in flags) else set())
    if case.facts.row.get('keys', {}).get('said_by', {}).get('per_layer_dim'):
        settings[case.facts.row['keys']['said_by']['per_layer_dim']] = 6 * ('layer_embeddings' in found)
        settings['vocab_size_per_layer_input'] = 40
    if 'altup' in case.facts.always:
        fields['per_layer_dim'] = settings[case.facts.row['keys']['said_by']['per_layer_dim']] = 6
        settings.update(altup_num_inputs=4, laurel_rank=6)
    if 'sparse_gates' in found:
        settings['activation_sparsity_pattern'] = [0.8, 0.8, 0.0, 0.0]
    if case.facts.row.get('keys', {}).get('said_by', {}).get('attention_gate'):
        settings['gating'] = 'per-element' if 'element_gates' in found else True


def say_blocks(case):
    """A block of RoPE for each kind of layers, with the share of a head that turns there."""
    found, fields, settings, slides = case.features, case.fields, case.settings, any(case.slides)
    head = fields['head_dim']
    full_dim = max([8] + [dim for (_, _, dim, *_), slide in zip(
        fields.get('shapes', [(0, 0, head)] * 4), case.slides) if not slide])
    proportional = 'proportional' in found
    share, own_share = 0.5 if found & {'partial', 'proportional'} else 1.0, 0.75 if 'partial' in found else 1.0
    own_share = share if 'value_dim' in found else own_share
    turning, own = int(full_dim * share), int(8 * own_share)
    settings.pop('rope_theta')
    settings.pop('partial_rotary_factor', None)
    settings['rope_parameters'] = {
        FULL: dict(rope_type='proportional' if proportional else 'default', rope_theta=case.theta,
                   partial_rotary_factor=share),
        SLIDING: dict(rope_type='default', rope_theta=case.local, partial_rotary_factor=own_share)}
    fields.update(rotary_dim=turning % head, sliding_rotary_dim=own if slides and own != turning else 0,
                  **(dict(method='proportional', factor=1.0) if proportional else {}))


# ---- tensors ----

NAMES = {
    'altup_norm': 'altup.router_norm.weight', 'altup_router': 'altup.modality_router.weight',
    'altup_predict': 'altup.prediction_coefs.weight', 'altup_correct': 'altup.correction_coefs.weight',
    'altup_scale': 'altup.correct_output_scale', 'laurel_in': 'laurel.linear_left.weight',
    'laurel_out': 'laurel.linear_right.weight', 'laurel_after': 'laurel.post_laurel_norm.weight',
    'scale': 'layer_scalar', 'wg': 'self_attn.g_proj.weight', 'sinks': 'self_attn.attention_sink_bias',
    'per_layer_gate': 'per_layer_input_gate.weight', 'per_layer_out': 'per_layer_projection.weight',
    'per_layer_after': 'post_per_layer_input_norm.weight', 'router_norm': 'router.scale',
    'expert_scales': 'router.per_expert_scale', 'shared_w1': 'mlp.gate_proj.weight',
    'shared_w3': 'mlp.up_proj.weight', 'shared_w2': 'mlp.down_proj.weight',
    'shared_after': 'post_feedforward_layernorm_1.weight', 'experts_norm': 'pre_feedforward_layernorm_2.weight',
    'experts_after': 'post_feedforward_layernorm_2.weight', 'w1': 'mlp.gate_proj.weight', 'w3': 'mlp.up_proj.weight',
    'w2': 'mlp.down_proj.weight', 'q_norm': 'self_attn.q_norm.weight', 'k_norm': 'self_attn.k_norm.weight',
    **{'w' + part: 'self_attn.%s_proj.weight' % part for part in 'qkvo'},
    **{'b' + part: 'self_attn.%s_proj.bias' % part for part in 'qkvo'}}
ONCE = {'per_layer_embedding': 'model.embed_tokens_per_layer.weight',
        'per_layer_projection': 'model.per_layer_model_projection.weight',
        'per_layer_norm': 'model.per_layer_projection_norm.weight',
        **{'altup_%s_%d' % (way, i): 'model.altup_%s.%d.weight' % (name, i) for i in range(3)
           for way, name in (('in', 'projections'), ('out', 'unembed_projections'))}}
TURNED = 'wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'


def order_of(c, layer):
    """The place of Hugging Face's element i of a head in our order: the two of a pair are half of the rotated elements
    apart, or half of the head with proportional."""
    slides = c['layers'][layer] & TURNS_AS_SLIDING if c['layer_table'] else 0
    head = shape_of(c, layer)[2]
    turning = min(slides and c['sliding_rotary_dim'] or c['rotary_dim'] or c['head_dim'], head)
    if not slides and c['rope_method'] == 7:
        rest, half = list(range(turning, head)), (head - turning) // 2
        return list(range(0, turning, 2)) + rest[:half] + list(range(1, turning, 2)) + rest[half:]
    return list(range(0, turning, 2)) + list(range(1, turning, 2)) + list(range(turning, head))


def moved(values, order, width):
    """Rows of heads, of so many numbers each, in another order."""
    rows = [values[i:i + width] for i in range(0, len(values), width)]
    return [x for head in range(0, len(rows), len(order)) for i in order for x in rows[head + i]]


def shaped_tensors(c, weights, theirs, names=NAMES, once=ONCE, start='model.layers.%s.%s'):
    """{name: (shape, values)} of all that hf_tensors of folders.py does not know, except those in `theirs`."""
    out = {}
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        if name in theirs or part not in once and (part not in names or not layer):
            continue
        if part in once:
            n = c['n_layers'] * c['per_layer_dim']
            shape = [c['dim'], c['dim']] if part[:5] == 'altup' else {'per_layer_embedding': [c['vocab_size'], n], 'per_layer_projection': [n, c['dim']]}.get(
                part, [c['per_layer_dim']])
            out[once[part]] = shape, list(values)
            continue
        heads, _, head, hidden, source = shape_of(c, int(layer))
        columns = {'w2': hidden, 'wo': heads * (c['value_dim'] or head), 'shared_w2': c['shared_hidden_dim'],
                   'per_layer_out': c['per_layer_dim'], 'altup_predict': c['altup_streams'],
                   'altup_correct': c['altup_streams'], 'laurel_out': c['laurel_rank']}.get(part, c['dim'])
        is_matrix = part in ('w1', 'w2', 'w3', 'wg', 'per_layer_gate', 'per_layer_out', 'altup_router', 'altup_predict',
                             'altup_correct', 'laurel_in', 'laurel_out') or part[:8] in (
            'shared_w',) or part in ('wq', 'wk', 'wv', 'wo')
        numbers, order = list(values), order_of(c, int(layer))
        if part in TURNED:
            numbers = moved(numbers, order, columns if is_matrix else 1)
        if part == 'wo' and c['layer_table'] and c['layers'][source] & KEYS_ARE_VALUES:
            numbers = [x for i in range(0, len(numbers), columns) for x in moved(numbers[i:i + columns], order, 1)]
        shape = [len(numbers) // columns, columns] if is_matrix else [len(numbers)]
        out[start % (layer, names[part])] = shape, numbers
    return out


# llama.cpp's names of tensors that differ from other families'.
GGUF_ONCE = {'per_layer_embedding': 'per_layer_token_embd.weight', 'per_layer_norm': 'per_layer_proj_norm.weight',
             'per_layer_projection': 'per_layer_model_proj.weight',
             **{name: name for name in ONCE if name[:5] == 'altup'}}
GGUF = {**{part: 'attn_%s.weight' % name for part, name in (
    ('wq', 'q'), ('wk', 'k'), ('wv', 'v'), ('wo', 'output'), ('q_norm', 'q_norm'), ('k_norm', 'k_norm'), ('wg', 'gate'),
    ('sinks', 'sinks'))}, **{'b' + part: 'attn_%s.bias' % part for part in 'qkv'}}
GGUF_OF = {'gemma4': {
    'scale': 'layer_output_scale.weight', 'per_layer_gate': 'inp_gate.weight', 'per_layer_out': 'proj.weight',
    'per_layer_after': 'post_norm.weight', 'router_norm': 'ffn_gate_inp.scale', 'expert_scales': 'ffn_down_exps.scale',
    'shared_w1': 'ffn_gate.weight', 'shared_w3': 'ffn_up.weight', 'shared_w2': 'ffn_down.weight',
    'shared_after': 'post_ffw_norm_1.weight', 'experts_norm': 'pre_ffw_norm_2.weight',
    'experts_after': 'post_ffw_norm_2.weight'}, 'gemma3n': {
    'per_layer_gate': 'inp_gate.weight', 'per_layer_out': 'proj.weight', 'per_layer_after': 'post_norm.weight',
    'altup_norm': 'altup_router_norm.weight', 'altup_router': 'altup_router.weight',
    'altup_predict': 'altup_predict_coef.weight', 'altup_correct': 'altup_correct_coef.weight',
    'altup_scale': 'altup_correct_scale.weight', 'laurel_in': 'laurel_l.weight', 'laurel_out': 'laurel_r.weight',
    'laurel_after': 'laurel_post_norm.weight'}}


def gguf_shaped(architecture, c, weights):
    """{name: values} of these in GGUF, with the divisors of full layers' frequencies."""
    names, once = {**GGUF, **GGUF_OF.get(architecture, {})}, GGUF_ONCE if architecture in GGUF_OF else {}
    out = {name: values for name, (_, values) in shaped_tensors(c, weights, (), names, once, 'blk.%s.%s').items()}
    if architecture == 'gemma3n':
        for layer, source in ((layer, shape_of(c, layer)[4]) for layer in range(c['n_layers'])):
            for part in 'attn_k.weight', 'attn_v.weight', 'attn_k_norm.weight':  # of layers that read others', unused
                out['blk.%d.%s' % (layer, part)] = out['blk.%d.%s' % (source, part)]
        for way, whole in ('in', 'altup_proj'), ('out', 'altup_unembd_proj'):
            out[whole + '.weight'] = sum((out.pop('altup_%s_%d' % (way, i)) for i in range(3)), [])
    if architecture == 'gemma4':
        full = [shape_of(c, i)[2] for i in range(c['n_layers']) if not c['layers'][i] & TURNS_AS_SLIDING][0]
        pairs = min(c['rotary_dim'] or full, full) // 2 if c['rope_method'] == 7 else full // 2
        out['rope_freqs.weight'] = [c['factor'] or 1.0] * pairs + [1e30] * (full // 2 - pairs)
    return out


def gguf_keys(architecture, c):
    """Keys of heads and widths that are not one number for all layers, in words of the header's fields."""
    shapes, flags = [shape_of(c, i) for i in range(c['n_layers'])], c.get('layers', [0] * c['n_layers'])
    slides = [bool(flag & TURNS_AS_SLIDING) for flag in flags]
    full, own = (next((shape[2] for shape, slide in zip(shapes, slides) if slide == which), c['head_dim'])
                 for which in (False, True))
    turning = min(c['rotary_dim'] or c['head_dim'], full)
    return {
        'gemma4': {'attention.key_length': full, 'attention.key_length_swa': own, 'attention.shared_kv_layers': sum(
            shape[4] != i for i, shape in enumerate(shapes)), 'embedding_length_per_layer_input': c['per_layer_dim'],
            'rope.dimension_count': full if c['rope_method'] == 7 else turning,
            'rope.dimension_count_swa': c['sliding_rotary_dim'] or min(c['rotary_dim'] or own, own)},
        'gemma3n': {'attention.shared_kv_layers': sum(shape[4] != i for i, shape in enumerate(shapes)),
                    'embedding_length_per_layer_input': c['per_layer_dim'], 'altup.num_inputs': c['altup_streams']},
        'laguna': {'rope.dimension_count': turning, 'leading_dense_block_count': int(bool(flags[0] & DENSE)),
                   'expert_shared_feed_forward_length': c['shared_hidden_dim']},
        'mimo2': {'attention.value_length': c['value_dim'] or c['head_dim'], 'rope.dimension_count': turning,
                  'attention.value_scale': c['value_scale'] or 1.0}}.get(architecture, {})
