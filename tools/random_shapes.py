"""The shapes of published models, as llama.cpp's GGUF names them: settings(shape) and tensors(shape, mix).

SHAPES has a row for each. A deep model has fewer layers here, so that its file fits a small machine; the others are
whole. A mix is what llama-quantize calls a file's type: Q4_K_M has Q6_K where more bits help, Q8_0 is one type.
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
}
SHAPES['gpt-oss-2B'] = dict(SHAPES['gpt-oss-20b'], layers=8, dim=1440, hidden=1440, heads=32, kv_heads=4)


def has_more_bits(layer, n):
    """Which layers' down projections llama.cpp's Q4_K_M has in Q6_K."""
    return layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2


# ---- tensors: (name behind blk.N., axes with the innermost first, type) ----

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
    """All of a layer's experts, and what chooses among them."""
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


def slides(shape, i):
    """Whether a layer is of the first kind, of which `period` - 1 stand before one of the other."""
    return (i + 1) % shape['period'] != 0


LAYERS = {'qwen3moe': qwen3moe, 'gpt-oss': gpt_oss, 'gemma4': gemma4, 'deepseek2': deepseek2, 'qwen35': qwen35,
          'lfm2': lfm2}


def tensors(shape, mix):
    """(name, axes with the innermost first, type), in the order of the file."""
    family, dim, vocab, layers = shape['family'], shape['dim'], shape['vocab'], shape['layers']
    usual, more = ('Q4_K', 'Q6_K') if mix == 'Q4_K_M' else ('Q8_0', 'Q8_0')
    tied = family in ('gemma4', 'qwen35', 'lfm2')
    yield 'token_embd.weight', [dim, vocab], more if tied else usual
    if family == 'gemma4':
        yield 'rope_freqs.weight', [shape['head'] // 2], 'F32'
        yield 'per_layer_token_embd.weight', [shape['per_layer'] * layers, vocab], more
        yield 'per_layer_model_proj.weight', [dim, shape['per_layer'] * layers], usual
        yield 'per_layer_proj_norm.weight', [shape['per_layer']], 'F32'
    for i in range(layers):
        for name, axes, kind in LAYERS[family](shape, i, usual, more, more if has_more_bits(i, layers) else usual):
            whole = name == 'ssm_a' or name.endswith('.bias')
            yield 'blk.%d.%s%s' % (i, name, '' if whole else '.weight'), axes, kind
    yield ('token_embd_norm' if family == 'lfm2' else 'output_norm') + '.weight', [dim], 'F32'
    if not tied:
        yield 'output.weight', [dim, vocab], more


# ---- settings ----

def settings(shape):
    """{key behind the family's name: number, or a list of them}"""
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


OWN = {'gpt-oss': own_of_gpt_oss, 'gemma4': own_of_gemma4, 'deepseek2': own_of_deepseek2, 'qwen35': own_of_qwen35,
       'lfm2': own_of_lfm2}
