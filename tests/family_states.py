"""Layers with a state for test_family_formats.py: the fields that features mean, the keys of config.json, and tensors
of a folder and of a GGUF file, by the names and orders of published checkpoints."""

import math

SIZES = dict(linear_conv_kernel_dim=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
             linear_value_head_dim=5)
FIELDS = dict(
    gates=dict(attention_gate=1), gate_bias=dict(gate_bias=1), state_bias=dict(state_bias=1),
    delta_rule=dict(state_kind=1, conv_width=4, state_key_heads=2, state_value_heads=4, state_key_dim=6,
                    state_value_dim=5),
    short_conv=dict(state_kind=2, conv_width=3))
STATE, DENSE, FULL = 64, 8, 'full_attention'
OF_LFM2 = {'input_layernorm': 'operator_norm', 'post_attention_layernorm': 'ffn_norm', 'self_attn.o_proj':
           'self_attn.out_proj', 'self_attn.q_norm': 'self_attn.q_layernorm', 'self_attn.k_norm':
           'self_attn.k_layernorm', 'mlp.gate_proj': 'feed_forward.w1', 'mlp.up_proj': 'feed_forward.w3',
           'mlp.down_proj': 'feed_forward.w2'}
DELTA_NAMES = {'state_in': 'in_proj_qkv.weight', 'state_gate': 'in_proj_z.weight', 'state_beta': 'in_proj_b.weight',
               'state_step': 'in_proj_a.weight', 'state_decay': 'A_log', 'state_dt': 'dt_bias',
               'state_norm': 'norm.weight', 'state_out': 'out_proj.weight'}
CONV_NAMES = {'state_in': 'in_proj.weight', 'b_state_in': 'in_proj.bias', 'b_state_conv': 'conv.bias',
              'state_out': 'out_proj.weight', 'b_state_out': 'out_proj.bias'}
GGUF_NAMES = {'state_in': 'attn_qkv.weight', 'state_gate': 'attn_gate.weight', 'state_beta': 'ssm_beta.weight',
              'state_step': 'ssm_alpha.weight', 'state_conv': 'ssm_conv1d.weight', 'state_decay': 'ssm_a',
              'state_dt': 'ssm_dt.bias', 'state_norm': 'ssm_norm.weight', 'state_out': 'ssm_out.weight',
              'wq': 'attn_q.weight', 'wg': 'attn_q.weight', 'shared_gate': 'ffn_gate_inp_shexp.weight',
              'ffn_norm': 'post_attention_norm.weight'}
GGUF_OF_LFM2 = {'state_in': 'shortconv.in_proj.weight', 'state_conv': 'shortconv.conv.weight',
                'state_out': 'shortconv.out_proj.weight', 'final_norm': 'token_embd_norm.weight'}
OWN = ('wg', 'bg', 'state_conv', 'shared_gate', *DELTA_NAMES, *CONV_NAMES)


def together(facts, features):
    """A gate's bias comes with the others."""
    return set(features) | ({'all_biases', 'gate_bias'} if 'gate_bias' in facts.may and set(features) & {
        'all_biases', 'gate_bias'} else set())


def say_states(case):
    facts, fields, settings, found = case.facts, case.fields, case.settings, case.features
    rule, experts = facts.row['states'], facts.row.get('experts', {})
    conv = rule['kind'] == 'conv'
    layers = [64, 0, 64, 0] if conv else [64, 64, 64, 0]
    settings['layer_types'] = [rule['words'][0] if flags else FULL for flags in layers]
    settings.pop('sliding_window', None)
    if experts.get('dense'):
        settings.update(mlp_only_layers=[0] if 'dense_between' in found else [], decoder_sparse_step=1)
    if 'dense_between' in found:
        layers[0] |= DENSE
    if experts:
        settings['shared_expert_intermediate_size'] = fields['shared_hidden_dim'] = 24
    if conv:
        settings.update(conv_L_cache=3, norm_eps=settings.pop('rms_norm_eps'), block_auto_adjust_ff_dim=False)
    else:
        settings.update(SIZES)
    fields.update(layers=layers, sliding_window=0)
    case.slides = case.still = [False] * len(layers)


def cut(values, columns):
    return [list(values[i:i + columns]) for i in range(0, len(values), columns)]


def by_head(parts, n):
    """Rows of several parts, those of each of n heads after those of the one before."""
    return [x for h in range(n) for rows in parts for row in rows[h * len(rows) // n:(h + 1) * len(rows) // n]
            for x in row]


def add_states(facts, c, weights, out):
    """The tensors of these in a folder; `out` has all the rest by the names of a Llama."""
    dim, d, n = c['dim'], c['head_dim'], c['n_heads']
    for layer in range(c['n_layers']):
        own = {part: weights['%s.%d' % (part, layer)] for part in OWN if '%s.%d' % (part, layer) in weights}
        place = 'model.layers.%d.' % layer
        for part, kind, columns in ('wg', 'weight', dim), ('bg', 'bias', 1):
            name = place + 'self_attn.q_proj.' + kind
            if part in own:
                both = by_head((cut(out[name][1], columns), cut(own[part], columns)), n)
                out[name] = [2 * n * d, *([columns] if part == 'wg' else [])], both
        if 'shared_gate' in own:
            out[place + 'mlp.shared_expert_gate.weight'] = [1, dim], own['shared_gate']
        if 'state_in' in own:
            out.update(state_tensors(facts, c, own, place))
    if facts.row['states']['kind'] == 'conv':
        renamed = {name: '.'.join(name.split('.')[:3] + [OF_LFM2.get(middle, middle), name.split('.')[-1]])
                   for name in out if name.startswith('model.layers.')
                   for middle in ['.'.join(name.split('.')[3:-1])]}
        renamed['model.norm.weight'] = 'model.embedding_norm.weight'
        for name, new in renamed.items():
            out[new] = out.pop(name)


def state_tensors(facts, c, own, place):
    dim, conv = c['dim'], c['state_kind'] == 2
    n_keys, key, heads, value = (c[name] for name in ('state_key_heads', 'state_key_dim', 'state_value_heads',
                                                      'state_value_dim'))
    place += 'conv.' if conv else 'linear_attn.'
    names = CONV_NAMES if conv else DELTA_NAMES
    channels, out = dim if conv else 2 * n_keys * key + heads * value, {}
    out[place + ('conv.weight' if conv else 'conv1d.weight')] = [channels, 1, c['conv_width']], own['state_conv']
    for part, name in names.items():
        values = own.get(part)
        columns = heads * value if part == 'state_out' and not conv else dim
        if values is not None:
            is_matrix = part in ('state_in', 'state_gate', 'state_beta', 'state_step', 'state_out')
            out[place + name] = [len(values) // columns, columns] if is_matrix else [len(values)], values
    if facts.row['states'].get('joined'):
        rows, edge = cut(own['state_in'], dim), n_keys * key
        three = rows[:edge], rows[edge:2 * edge], rows[2 * edge:]
        gates, betas, steps = (cut(own[part], dim) for part in ('state_gate', 'state_beta', 'state_step'))
        for name, parts in ('in_proj_qkvz.weight', (*three, gates)), ('in_proj_ba.weight', (betas, steps)):
            out[place + name] = [sum(map(len, parts)), dim], by_head(parts, n_keys)
        for part in 'state_in', 'state_gate', 'state_beta', 'state_step':
            del out[place + names[part]]
    return out


def in_other_order(c, part, values, tiled):
    """Value heads in tiles, or side by side, in which they are in the other order."""
    n, heads, value, keys = (c[name] for name in ('state_key_heads', 'state_value_heads', 'state_value_dim',
                                                  'state_key_dim'))
    each, behind = heads // n, 2 * n * keys if part in ('state_in', 'state_conv') else 0
    order = [k * each + v for v in range(each) for k in range(n)]
    if not tiled:
        order = sorted(range(heads), key=order.__getitem__)
    if part == 'state_out':
        return [x for row in cut(values, heads * value) for i in order for x in row[i * value:(i + 1) * value]]
    columns = len(values) // (heads if part in ('state_decay', 'state_dt', 'state_beta', 'state_step') else
                              behind + heads * value)
    size = (len(values) - behind * columns) // heads
    moved = cut(values[behind * columns:], size)
    return list(values[:behind * columns]) + [x for i in order for x in moved[i]]


MOVED = 'state_in', 'state_conv', 'state_gate', 'state_beta', 'state_step', 'state_decay', 'state_dt', 'state_out'


def side_by_side(c, weights):
    """The same model with the value heads of each key head side by side, and its decays as A_log's exponents."""
    out = dict(weights)
    for name, values in weights.items():
        part = name.partition('.')[0]
        if part in MOVED and c['state_tiled']:
            out[name] = in_other_order(c, part, list(values), False)
        if part == 'state_decay':
            out[name] = [math.exp(x) for x in out[name]]
    return out


def of_gguf(c):
    """The names of these parts."""
    return GGUF_OF_LFM2 if c['state_kind'] == 2 else GGUF_NAMES


def gguf_states(facts, c, weights, halves):
    """{name: values} as llama.cpp's converter writes layers with a state, and gates in queries. `halves` brings rows of
    heads into the order of halves."""
    out, dim, names = {}, c['dim'], of_gguf(c)
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        if part not in names:
            continue
        values, place = list(values), 'blk.%s.' % layer if layer else ''
        if facts.gguf in ('qwen35', 'qwen35moe') and part in MOVED:
            values = in_other_order(c, part, values, True)
        if part == 'state_decay':
            values = [-math.exp(x) for x in values]
        if part == 'wq':
            both = halves(cut(values, dim), c['head_dim'], c['rotary_dim'] or c['head_dim'])
            values = by_head((both, cut(weights['wg.' + layer], dim)), c['n_heads'])
        if part != 'wg':
            out[place + names[part]] = values
    for layer in range(c['n_layers'] if facts.gguf == 'qwen3next' else 0):
        place, n = 'blk.%d.' % layer, c['state_key_heads']
        parts = [out.pop(place + names[part], None) for part in ('state_beta', 'state_step')]
        if parts[0]:
            out[place + 'ssm_ba.weight'] = by_head([cut(values, dim) for values in parts], n)
    return out
