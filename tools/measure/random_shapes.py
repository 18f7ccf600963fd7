"""The shapes of published models, as llama.cpp's GGUF names them: settings(shape) and tensors(shape, mix).

SHAPES has a row for each. A deep model has fewer layers here, so that its file fits a small machine, and where a
layer alone is large fewer experts or words (Nemotron has 131,072 words); the others are whole. A mix is
llama-quantize's type of a file: Q4_K_M has Q6_K where more bits help, Q8_0 is one type.
"""

LONG_CONTEXT = 131072
SHAPES = {
    'qwen3moe-1.5B': dict(family='qwen3moe', layers=16, dim=1024, hidden=768, heads=16, kv_heads=4, head=128,
                          experts=32, used=4, vocab=96000, context=32768, theta=1e6, pre='qwen2'),
    'gpt-oss-20b': dict(family='gpt-oss', layers=24, dim=2880, hidden=2880, heads=64, kv_heads=8, head=64, experts=32,
                        used=4, vocab=201088, context=LONG_CONTEXT, theta=150000.0, pre='gpt-4o', window=128),
    'gemma4-E2B': dict(family='gemma4', layers=35, dim=1536, hidden=6144, heads=8, kv_heads=1, head=512, vocab=262144,
                       context=LONG_CONTEXT, theta=1e6, sliding_head=256, window=512, period=5, shared=20,
                       per_layer=256),
    'glm-4.7-flash-6': dict(family='deepseek2', layers=6, dim=2048, hidden=10240, heads=20, kv_heads=1, head=576,
                            experts=64, used=4, expert_hidden=1536, vocab=154880, context=LONG_CONTEXT, theta=1e6,
                            q_rank=768, kv_rank=512, straight=192, turning=64, value=256),
    'qwen3.5-0.8B': dict(family='qwen35', layers=24, dim=1024, hidden=3584, heads=8, kv_heads=2, head=256,
                         vocab=248320, context=262144, theta=1e7, turning=64, period=4, state_heads=16, state=128),
    'lfm2-1.2B': dict(family='lfm2', layers=16, dim=2048, hidden=8192, heads=32, kv_heads=8, head=64, vocab=65536,
                      context=LONG_CONTEXT, theta=1e6, attends=(2, 5, 8, 10, 12, 14)),
    'lfm2-8b-a1b-4': dict(family='lfm2moe', layers=4, dim=2048, hidden=7168, heads=32, kv_heads=8, head=64, vocab=65536,
                          context=LONG_CONTEXT, theta=1e6, attends=(2,), experts=32, used=4, expert_hidden=1792,
                          dense=2),
    'qwen3-vl-2b-14': dict(family='qwen3vl', layers=14, dim=2048, hidden=6144, heads=16, kv_heads=8, head=128,
                           vocab=151936, context=262144, theta=5e6),
    'granite-4.0-h-1b-20': dict(family='granitehybrid', kinds='MMMMM*MMMMMMMMM*MMMM', layers=20, dim=1536, hidden=4096,
                                heads=12, kv_heads=4, head=128, vocab=100352, context=LONG_CONTEXT, theta=1e4,
                                state_heads=48, state_head=64, groups=1, state=128),
    'nemotron-nano-9b-v2-8': dict(family='nemotron_h', kinds='M-M-M*M-', layers=8, dim=4480, hidden=15680, heads=40,
                                  kv_heads=8, head=128, vocab=32768, context=LONG_CONTEXT, theta=1e4, state_heads=128,
                                  state_head=80, groups=8, state=128),
    'nemotron-3-nano-4': dict(family='nemotron_h_moe', kinds='MEM*', layers=4, dim=2688, hidden=1856, heads=32,
                              kv_heads=2, head=128, vocab=32768, context=262144, theta=1e4, state_heads=64,
                              state_head=64, groups=8, state=128, experts=128, used=6, expert_hidden=1856,
                              shared_hidden=3712),
}
SHAPES['gpt-oss-2B'] = dict(SHAPES['gpt-oss-20b'], layers=8, dim=1440, hidden=1440, heads=32, kv_heads=4)


# For rows that are no whole blocks of 256, which llama-quantize writes in blocks of 32.
INSTEAD = {'Q4_K': 'Q5_0', 'Q6_K': 'Q8_0'}


def has_more_bits(layer, n):
    """Which layers' down projections llama.cpp's Q4_K_M has in Q6_K."""
    return layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2


# ---- tensors: (name after blk.N., axes with the innermost first, type) ----

def dense(shape, hidden, usual, down):
    dim = shape['dim']
    return [('ffn_gate', [dim, hidden], usual), ('ffn_up', [dim, hidden], usual), ('ffn_down', [hidden, dim], down)]


def attention(shape, head, usual, more, keys=True):
    """Queries, keys and values of heads of this size; without keys a layer reads those of another."""
    dim, q, kv = shape['dim'], shape['heads'] * head, shape['kv_heads'] * head
    queries = [('attn_q', [dim, q], usual), ('attn_output', [q, dim], usual)]
    return queries + [('attn_k', [dim, kv], usual), ('attn_v', [dim, kv], more)] * keys


def norms(*named):
    return [(name, [size], 'F32') for name, size in named]


def experts(shape, hidden, usual, down):
    """All of a layer's experts, and their router."""
    dim, n = shape['dim'], shape['experts']
    return [('ffn_gate_inp', [dim, n], 'F32'), ('ffn_gate_exps', [dim, hidden, n], usual),
            ('ffn_up_exps', [dim, hidden, n], usual), ('ffn_down_exps', [hidden, dim, n], down)]


def qwen3moe(shape, i, usual, more, down):
    dim, head = shape['dim'], shape['head']
    return (norms(('attn_norm', dim), ('ffn_norm', dim), ('attn_q_norm', head), ('attn_k_norm', head)) +
            attention(shape, head, usual, more) + experts(shape, shape['hidden'], usual, down))


def gpt_oss(shape, i, usual, more, down):
    dim, n, hidden = shape['dim'], shape['experts'], shape['hidden']
    q, kv = shape['heads'] * shape['head'], shape['kv_heads'] * shape['head']
    biases = [('attn_q', [q]), ('attn_k', [kv]), ('attn_v', [kv]), ('attn_output', [dim]), ('ffn_gate_inp', [n]),
              ('ffn_gate_exps', [hidden, n]), ('ffn_up_exps', [hidden, n]), ('ffn_down_exps', [dim, n])]
    return (norms(('attn_norm', dim), ('post_attention_norm', dim), ('attn_sinks', shape['heads'])) +
            attention(shape, shape['head'], 'Q8_0', 'Q8_0') + experts(shape, hidden, 'MXFP4', 'MXFP4') +
            [(name + '.bias', axes, 'F32') for name, axes in biases])


def gemma4(shape, i, usual, more, down):
    dim, P, own = shape['dim'], shape['per_layer'], i < shape['layers'] - shape['shared']
    head = shape['sliding_head'] if slides(shape, i) else shape['head']
    return (norms(('attn_norm', dim), ('attn_q_norm', head), ('post_attention_norm', dim), ('ffn_norm', dim),
                  ('post_ffw_norm', dim), ('post_norm', dim), ('layer_output_scale', 1)) +
            norms(('attn_k_norm', head)) * own + attention(shape, head, usual, more, keys=own) +
            dense(shape, shape['hidden'] * (1 if own else 2), usual, down) +
            [('inp_gate', [dim, P], usual), ('proj', [P, dim], usual)])


def deepseek2(shape, i, usual, more, down):
    dim, hidden, heads, rank = shape['dim'], shape['expert_hidden'], shape['heads'], shape['kv_rank']
    straight, turning, value = shape['straight'], shape['turning'], shape['value']
    parts = norms(('attn_norm', dim), ('attn_q_a_norm', shape['q_rank']), ('attn_kv_a_norm', rank), ('ffn_norm', dim))
    parts += [('attn_q_a', [dim, shape['q_rank']], usual), ('attn_kv_a_mqa', [dim, rank + turning], usual),
              ('attn_q_b', [shape['q_rank'], heads * (straight + turning)], usual),
              ('attn_k_b', [straight, rank, heads], 'Q8_0'),  # 192 is no multiple of a block of 256
              ('attn_v_b', [rank, value, heads], usual), ('attn_output', [heads * value, dim], usual)]
    if i == 0:
        return parts + dense(shape, shape['hidden'], usual, down)
    return (parts + experts(shape, hidden, usual, down) + [('exp_probs_b.bias', [shape['experts']], 'F32')] +
            [(name + '_shexp', axes, kind) for name, axes, kind in dense(shape, hidden, usual, down)])


def qwen35(shape, i, usual, more, down):
    dim, head, heads, state = shape['dim'], shape['head'], shape['state_heads'], shape['state']
    parts = norms(('attn_norm', dim), ('post_attention_norm', dim)) + dense(shape, shape['hidden'], usual, down)
    if not slides(shape, i):  # a layer that attends: queries with their gates
        wide = [(name, [dim, 2 * shape['heads'] * head] if name == 'attn_q' else axes, kind)
                for name, axes, kind in attention(shape, head, usual, more)]
        return parts + wide + norms(('attn_q_norm', head), ('attn_k_norm', head))
    width = heads * state
    return (parts + norms(('ssm_a', heads), ('ssm_dt.bias', heads), ('ssm_norm', state)) +
            [('attn_qkv', [dim, 3 * width], usual), ('attn_gate', [dim, width], usual),
             ('ssm_conv1d', [4, 3 * width], 'F32'), ('ssm_beta', [dim, heads], usual),
             ('ssm_alpha', [dim, heads], usual), ('ssm_out', [width, dim], usual)])


def lfm2(shape, i, usual, more, down):
    dim, head = shape['dim'], shape['head']
    parts = norms(('attn_norm', dim), ('ffn_norm', dim)) + dense(shape, shape['hidden'], usual, down)
    if i in shape['attends']:
        return parts + attention(shape, head, usual, more) + norms(('attn_q_norm', head), ('attn_k_norm', head))
    return parts + [('shortconv.in_proj', [dim, 3 * dim], usual), ('shortconv.out_proj', [dim, dim], usual),
                    ('shortconv.conv', [3, dim], 'F32')]


def lfm2moe(shape, i, usual, more, down):
    parts = lfm2(shape, i, usual, more, down)
    if i < shape['dense']:
        return parts
    return ([part for part in parts if part[0] not in ('ffn_gate', 'ffn_up', 'ffn_down')] +
            experts(shape, shape['expert_hidden'], usual, down) + [('exp_probs_b.bias', [shape['experts']], 'F32')])


def qwen3vl(shape, i, usual, more, down):
    head = shape['head']
    return (norms(('attn_norm', shape['dim']), ('ffn_norm', shape['dim']), ('attn_q_norm', head),
                  ('attn_k_norm', head)) + attention(shape, head, usual, more) +
            dense(shape, shape['hidden'], usual, down))


def mamba(shape, usual):
    dim, heads, groups, state = (shape[name] for name in ('dim', 'state_heads', 'groups', 'state'))
    width = heads * shape['state_head']
    read = width + 2 * groups * state  # the convolution's output
    return [('ssm_in', [dim, width + read + heads], usual), ('ssm_conv1d', [4, read], 'F32'),
            ('ssm_conv1d.bias', [read], 'F32'), ('ssm_a', [1, heads], 'F32'), ('ssm_d', [1, heads], 'F32'),
            ('ssm_dt.bias', [heads], 'F32'), ('ssm_norm', [width // groups, groups], 'F32'),
            ('ssm_out', [width, dim], usual)]


def granitehybrid(shape, i, usual, more, down):
    mixes = mamba(shape, usual) if shape['kinds'][i] == 'M' else attention(shape, shape['head'], usual, more)
    return (norms(('attn_norm', shape['dim']), ('ffn_norm', shape['dim'])) + mixes +
            dense(shape, shape['hidden'], usual, down))


def nemotron_h(shape, i, usual, more, down):
    """One step a layer, and no gates."""
    kind = shape['kinds'][i]
    parts = norms(('attn_norm', shape['dim']))
    if kind in 'M*':
        return parts + (mamba(shape, usual) if kind == 'M' else attention(shape, shape['head'], usual, more))
    fed = dense(shape, shape['hidden'], usual, down)
    if kind == 'E':
        shared = dense(shape, shape['shared_hidden'], usual, down)
        fed = (experts(shape, shape['expert_hidden'], usual, down) + [('exp_probs_b.bias', [shape['experts']], 'F32')] +
               [(name + '_shexp', axes, kind) for name, axes, kind in shared])
    return parts + [part for part in fed if 'ffn_gate' not in part[0] or part[0] == 'ffn_gate_inp']


def slides(shape, i):
    """Whether a layer is of the first kind, of which `period` - 1 come before one of the other."""
    return (i + 1) % shape['period'] != 0


LAYERS = {'qwen3moe': qwen3moe, 'gpt-oss': gpt_oss, 'gemma4': gemma4, 'deepseek2': deepseek2, 'qwen35': qwen35,
          'lfm2': lfm2, 'lfm2moe': lfm2moe, 'qwen3vl': qwen3vl, 'granitehybrid': granitehybrid,
          'nemotron_h': nemotron_h, 'nemotron_h_moe': nemotron_h}
TIED = 'gemma4', 'qwen35', 'lfm2', 'lfm2moe', 'qwen3vl', 'granitehybrid'


def tensors(shape, mix):
    """(name, axes with the innermost first, type), in the order of the file."""
    for name, axes, kind in all_tensors(shape, mix):
        yield name, axes, INSTEAD.get(kind, kind) if axes[0] % 256 else kind


def all_tensors(shape, mix):
    family, dim, vocab, layers = shape['family'], shape['dim'], shape['vocab'], shape['layers']
    usual, more = ('Q4_K', 'Q6_K') if mix == 'Q4_K_M' else ('Q8_0', 'Q8_0')
    tied = family in TIED
    yield 'token_embd.weight', [dim, vocab], more if tied else usual
    if family == 'gemma4':
        yield 'rope_freqs.weight', [shape['head'] // 2], 'F32'
        yield 'per_layer_token_embd.weight', [shape['per_layer'] * layers, vocab], more
        yield 'per_layer_model_proj.weight', [dim, shape['per_layer'] * layers], usual
        yield 'per_layer_proj_norm.weight', [shape['per_layer']], 'F32'
    for i in range(layers):
        for name, axes, kind in LAYERS[family](shape, i, usual, more, more if has_more_bits(i, layers) else usual):
            whole = name in ('ssm_a', 'ssm_d') or name.endswith('.bias')
            yield 'blk.%d.%s%s' % (i, name, '' if whole else '.weight'), axes, kind
    yield ('token_embd_norm' if family in ('lfm2', 'lfm2moe') else 'output_norm') + '.weight', [dim], 'F32'
    if not tied:
        yield 'output.weight', [dim, vocab], more


# ---- settings ----

def settings(shape):
    """{key after the family's name: number, or a list of them}"""
    head, n = shape.get('head'), shape['layers']
    keys = {'block_count': n, 'context_length': shape['context'], 'embedding_length': shape['dim'],
            'feed_forward_length': shape['hidden'], 'attention.head_count': shape['heads'],
            'attention.head_count_kv': shape['kv_heads'], 'attention.key_length': head,
            'attention.value_length': head, 'attention.layer_norm_rms_epsilon': 1e-5, 'rope.freq_base': shape['theta'],
            'rope.dimension_count': shape.get('turning', head), 'vocab_size': shape['vocab']}
    if 'experts' in shape:
        keys.update({'expert_count': shape['experts'], 'expert_used_count': shape['used'],
                     'expert_feed_forward_length': shape.get('expert_hidden', shape['hidden'])})
    keys.update(OWN.get(shape['family'], lambda shape: {})(shape))
    return keys


def own_of_gpt_oss(shape):
    return {'attention.sliding_window': shape['window'], 'rope.scaling.type': 'yarn', 'rope.scaling.factor': 32.0,
            'rope.scaling.original_context_length': 4096}


def own_of_gemma4(shape):
    n, hidden, head = shape['layers'], shape['hidden'], shape['sliding_head']
    return {'feed_forward_length': [hidden * (1 if i < n - shape['shared'] else 2) for i in range(n)],
            'attention.sliding_window': shape['window'], 'attention.shared_kv_layers': shape['shared'],
            'attention.sliding_window_pattern': [slides(shape, i) for i in range(n)],
            'attention.key_length_swa': head, 'attention.value_length_swa': head, 'rope.dimension_count_swa': head,
            'rope.freq_base_swa': 1e4, 'embedding_length_per_layer_input': shape['per_layer'],
            'final_logit_softcapping': 30.0}


def own_of_deepseek2(shape):
    """GLM-4.7-Flash's latent attention and router."""
    return {'attention.value_length': shape['kv_rank'], 'attention.kv_lora_rank': shape['kv_rank'],
            'attention.q_lora_rank': shape['q_rank'], 'attention.key_length_mla': shape['straight'] + shape['turning'],
            'attention.value_length_mla': shape['value'], 'expert_shared_count': 1,
            'expert_shared_feed_forward_length': shape['expert_hidden'], 'leading_dense_block_count': 1,
            'expert_gating_func': 2, 'expert_weights_norm': True, 'expert_weights_scale': 1.8}


def own_of_qwen35(shape):
    heads, state = shape['state_heads'], shape['state']
    return {'ssm.conv_kernel': 4, 'ssm.state_size': state, 'ssm.group_count': heads, 'ssm.time_step_rank': heads,
            'ssm.inner_size': heads * state, 'full_attention_interval': shape['period'],
            'rope.dimension_sections': [11, 11, 10, 0]}


def own_of_lfm2(shape):
    return {'attention.head_count_kv': [shape['kv_heads'] * (i in shape['attends']) for i in range(shape['layers'])],
            'shortconv.l_cache': 3}


def own_of_lfm2moe(shape):
    return {**own_of_lfm2(shape), 'leading_dense_block_count': shape['dense'], 'expert_gating_func': 2,
            'expert_weights_norm': True, 'expert_weights_scale': 1.0}


def own_of_qwen3vl(shape):
    return {'rope.dimension_sections': [24, 20, 20, 0], 'n_deepstack_layers': 3}


def own_of_mamba(shape):
    attends = [kind == '*' for kind in shape['kinds']]
    return {'attention.head_count_kv': [shape['kv_heads'] * own for own in attends], 'ssm.conv_kernel': 4,
            'ssm.state_size': shape['state'], 'ssm.group_count': shape['groups'],
            'ssm.time_step_rank': shape['state_heads'], 'ssm.inner_size': shape['state_heads'] * shape['state_head']}


def own_of_granite(shape):
    return {**own_of_mamba(shape), 'embedding_scale': 12.0, 'residual_scale': 0.22, 'attention.scale': 1 / 128,
            'logit_scale': 6.0, 'rope.scaling.finetuned': False}


def own_of_nemotron(shape):
    keys = {**own_of_mamba(shape), 'attention.layer_norm_epsilon': 1e-5,
            'feed_forward_length': [shape['hidden'] * (kind in '-E') for kind in shape['kinds']]}
    if 'experts' in shape:
        keys.update({'expert_shared_count': 1, 'expert_shared_feed_forward_length': shape['shared_hidden'],
                     'expert_gating_func': 2, 'expert_weights_norm': True, 'expert_weights_scale': 2.5})
    return keys


OWN = {'gpt-oss': own_of_gpt_oss, 'gemma4': own_of_gemma4, 'deepseek2': own_of_deepseek2, 'qwen35': own_of_qwen35,
       'lfm2': own_of_lfm2, 'lfm2moe': own_of_lfm2moe, 'qwen3vl': own_of_qwen3vl, 'granitehybrid': own_of_granite,
       'nemotron_h': own_of_nemotron, 'nemotron_h_moe': own_of_nemotron}
