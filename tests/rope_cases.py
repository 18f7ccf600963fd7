"""What RoPE's keys in a config.json mean, and which are refused: one list for the exporter (test_export.py), for the
program's --rope-config, and for both side by side (test_rope_config.py)."""

ORIGINAL = 'original_max_position_embeddings'
LONG = {'rope_type': 'longrope', 'short_factor': [1.0, 1.5, 2], 'long_factor': [1, 4.0, 16.0], ORIGINAL: 64}


def changed(config, **changes):
    """A copy with other values; ... as a value takes the key away."""
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


NOTHING = {'rope_method': 0, 'rope_dynamic': 0, 'theta': 10000.0, 'factor': 0.0, 'train_ctx': 256, 'ramp': 0,
           'truncate': 1, 'beta_fast': 0.0, 'beta_slow': 0.0, 'attention_factor': 0.0, 'mscale': 0.0,
           'mscale_all_dim': 0.0, 'low_freq_factor': 0.0, 'high_freq_factor': 0.0, 'short': [], 'long': []}
YARN = {'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 64}
CHUNKS = {'chunk_size': 256, 'local_size': 32, ORIGINAL: 256}
LLAMA3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, ORIGINAL: 32}

# What each spelling means, in words, and the fields that differ from NOTHING. max_position_embeddings is 256.
SPELLINGS = [
    ('nothing said', {}, {}),
    ('null is nothing', {'rope_scaling': None, 'rope_parameters': None}, {}),
    ('an empty block is nothing', {'rope_scaling': {}}, {}),
    ('default', {'rope_scaling': {'rope_type': 'default'}}, {}),
    ('a block without a type is default', {'rope_parameters': {'rope_theta': 5e5}}, {'theta': 5e5}),
    ('default ignores a factor', {'rope_scaling': {'type': 'default', 'factor': 8.0}}, {}),
    ('rope_theta beside', {'rope_theta': 500000}, {'theta': 500000.0}),
    ('rope_theta is 10000 unless said', {'rope_theta': ...}, {}),
    ('rope_theta inside goes before beside', {'rope_theta': 7.0, 'rope_parameters': {'rope_theta': 1e6}},
     {'theta': 1e6}),
    ('rope_theta inside rope_scaling too', {'rope_scaling': {'type': 'linear', 'factor': 2, 'rope_theta': 1e6}},
     {'rope_method': 1, 'factor': 2.0, 'theta': 1e6}),
    ('linear by type', {'rope_scaling': {'type': 'linear', 'factor': 4.0}}, {'rope_method': 1, 'factor': 4.0}),
    ('linear by rope_type', {'rope_scaling': {'rope_type': 'linear', 'factor': 4}}, {'rope_method': 1, 'factor': 4.0}),
    ('linear in rope_parameters',
     {'rope_theta': ..., 'rope_parameters': {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 2e4}},
     {'rope_method': 1, 'factor': 4.0, 'theta': 2e4}),
    ('a factor below 1 that the lengths give', {ORIGINAL: 512, 'rope_scaling': {'type': 'yarn', 'factor': 0.5}},
     {'rope_method': 4, 'factor': 0.5, 'train_ctx': 512}),
    ('rope_type goes before type', {'rope_scaling': {'rope_type': 'linear', 'type': 'yarn', 'factor': 4.0}},
     {'rope_method': 1, 'factor': 4.0}),
    ('rope_scaling goes before rope_parameters, rope_theta and all',
     {'rope_theta': ..., 'rope_scaling': {'type': 'linear', 'factor': 2.0},
      'rope_parameters': {'rope_theta': 1e6, 'factor': 3.0}},
     {'rope_method': 1, 'factor': 2.0}),
    ('linear counts from max_position_embeddings',
     {ORIGINAL: 32, 'rope_scaling': {'type': 'linear', 'factor': 4.0, ORIGINAL: 64}},
     {'rope_method': 1, 'factor': 4.0}),
    ('linear has no attention factor', {'rope_scaling': {'type': 'linear', 'factor': 4.0, 'attention_factor': 2.0,
                                                         'beta_fast': 8}}, {'rope_method': 1, 'factor': 4.0}),
    ('dynamic is ntk', {'rope_scaling': {'type': 'dynamic', 'factor': 2.0}},
     {'rope_method': 2, 'rope_dynamic': 1, 'factor': 2.0}),
    ('dynamic counts from max_position_embeddings',
     {ORIGINAL: 32, 'rope_scaling': {'rope_type': 'dynamic', 'factor': 2.0, ORIGINAL: 64}},
     {'rope_method': 2, 'rope_dynamic': 1, 'factor': 2.0}),
    ('yarn', {'rope_scaling': YARN}, {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn with finetuned, as in the wild',
     {'rope_scaling': {'type': 'yarn', 'factor': 4.0, ORIGINAL: 64, 'finetuned': True}},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('original beside the block', {ORIGINAL: 128, 'rope_scaling': {'type': 'yarn', 'factor': 4.0}},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 128}),
    ('original beside goes before inside', {ORIGINAL: 128, 'rope_scaling': YARN},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 128}),
    ('original missing is max_position_embeddings', {'rope_scaling': {'type': 'yarn', 'factor': 4.0}},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 256}),
    ('yarn, factor null', {'rope_scaling': dict(YARN, factor=None)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, a factor that is not the ratio', {'rope_scaling': dict(YARN, factor=3.5)},
     {'rope_method': 4, 'factor': 3.5, 'train_ctx': 64}),
    ('yarn, attention_factor', {'rope_scaling': dict(YARN, attention_factor=1.25)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'attention_factor': 1.25}),
    ('yarn, nulls', {'rope_scaling': dict(YARN, attention_factor=None, beta_fast=None, beta_slow=None, mscale=None,
                                          mscale_all_dim=None)}, {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, betas', {'rope_scaling': dict(YARN, beta_fast=16, beta_slow=2.5)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'beta_fast': 16.0, 'beta_slow': 2.5}),
    ('yarn, betas of 0 are not said', {'rope_scaling': dict(YARN, beta_fast=0, beta_slow=0.0)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, DeepSeek', {'rope_scaling': dict(YARN, mscale=1.0, mscale_all_dim=0.707)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'mscale': 1.0, 'mscale_all_dim': 0.707}),
    ('yarn, mscale alone means nothing', {'rope_scaling': dict(YARN, mscale=0.707)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, mscale with an mscale_all_dim of 0', {'rope_scaling': dict(YARN, mscale=0.707, mscale_all_dim=0)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('yarn, not truncated', {'rope_scaling': dict(YARN, truncate=False)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'truncate': 0}),
    ('yarn, truncate null is false', {'rope_scaling': dict(YARN, truncate=None)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'truncate': 0}),
    ('yarn in rope_parameters', {'rope_theta': ..., 'rope_parameters': dict(YARN, rope_theta=1e6, truncate=True)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'theta': 1e6}),
    ('llama3', {'rope_scaling': LLAMA3},
     {'rope_method': 5, 'factor': 8.0, 'train_ctx': 32, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}),
    ('llama3, original missing', {'rope_scaling': changed(LLAMA3, **{ORIGINAL: ...})},
     {'rope_method': 5, 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}),
    ('llama3 has no attention factor', {'rope_scaling': dict(LLAMA3, attention_factor=2.0)},
     {'rope_method': 5, 'factor': 8.0, 'train_ctx': 32, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}),
    ('llama3 with equal factors is a step', {'rope_scaling': dict(LLAMA3, high_freq_factor=1.0)},
     {'rope_method': 5, 'factor': 8.0, 'train_ctx': 32, 'low_freq_factor': 1.0, 'high_freq_factor': 1.0}),
    ("Hunyuan's alpha is ntk at every length", {'rope_scaling': {'type': 'dynamic', 'alpha': 1000.0, 'factor': 1.0}},
     {'rope_method': 2, 'factor': 1000.0}),
    ('no alpha', {'rope_scaling': {'type': 'dynamic', 'alpha': None, 'factor': 2.0}},
     {'rope_method': 2, 'rope_dynamic': 1, 'factor': 2.0}),
    ('the three axes of mrope are one in a text', {'rope_scaling': {'type': 'mrope', 'mrope_section': [1, 1, 1]}}, {}),
    ('mrope and default', {'rope_scaling': {'type': 'mrope', 'rope_type': 'default', 'mrope_section': [1, 1, 1]}}, {}),
    ('sections of yarn', {'rope_scaling': dict(YARN, mrope_section=[1, 1, 1], mrope_interleaved=True)},
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64}),
    ('dual chunks: L is theirs', {'max_position_embeddings': 1024, 'dual_chunk_attention_config': CHUNKS},
     {'train_ctx': 256}),
    ('dual chunks without a length', {'max_position_embeddings': 1024, 'dual_chunk_attention_config': changed(
        CHUNKS, **{ORIGINAL: ...})}, {'train_ctx': 256}),
    ('no dual chunks', {'dual_chunk_attention_config': None}, {}),
    ('longrope', {'rope_scaling': LONG}, {'rope_method': 6, 'factor': 4.0, 'train_ctx': 64, 'short': [1.0, 1.5, 2.0],
                                          'long': [1.0, 4.0, 16.0]}),
    ('longrope, factor, attention_factor', {'rope_scaling': dict(LONG, factor=8, attention_factor=1.19)},
     {'rope_method': 6, 'factor': 8.0, 'attention_factor': 1.19, 'train_ctx': 64, 'short': [1.0, 1.5, 2.0],
      'long': [1.0, 4.0, 16.0]}),
    ('longrope, original beside, as Phi-3', {ORIGINAL: 128, 'rope_scaling': changed(LONG, **{ORIGINAL: ...})},
     {'rope_method': 6, 'factor': 2.0, 'train_ctx': 128, 'short': [1.0, 1.5, 2.0], 'long': [1.0, 4.0, 16.0]}),
    ('unscaled positions, ours', {'rope_scaling': dict(LONG, long_factor=LONG['short_factor'], unscaled_positions=0)},
     {'rope_method': 6, 'factor': 4.0, 'train_ctx': 64, 'short': [1.0, 1.5, 2.0], 'long': [1.0, 1.5, 2.0]}),
    ('partial_rotary_factor of 1', {'partial_rotary_factor': 1.0, 'rope_parameters': {'partial_rotary_factor': 1}}, {}),
]

# Whole configs of the families, and the fields that they mean: `head_dim` is what turns of a head.
LISTS = {'short_factor': [1.0, 1.1, 1.2], 'long_factor': [1.0, 3.0, 9.0]}
PHI = {'model_type': 'phi3', 'architectures': ['Phi3ForCausalLM'], 'hidden_size': 24, 'num_attention_heads': 4,
       'max_position_embeddings': 256, ORIGINAL: 64, 'rope_theta': 10000.0}
IS_LONG = {'rope_method': 6, 'factor': 4.0, 'train_ctx': 64, 'head_dim': 6, 'short': LISTS['short_factor'],
           'long': LISTS['long_factor']}


def family(model_type, architecture, **changes):
    return changed({'model_type': model_type, 'architectures': [architecture], 'hidden_size': 64,
                    'num_attention_heads': 4, 'max_position_embeddings': 256}, **changes)


def phi(block, **changes):
    return changed(PHI, rope_scaling=block, **changes)


FAMILIES = [
    ('llama, all defaults', family('llama', 'LlamaForCausalLM', max_position_embeddings=...),
     {'train_ctx': 2048, 'head_dim': 16}),
    ('mistral', family('mistral', 'MistralForCausalLM', max_position_embeddings=..., head_dim=32),
     {'train_ctx': 131072, 'head_dim': 32}),
    ('qwen2', family('qwen2', 'Qwen2ForCausalLM', max_position_embeddings=..., rope_theta=1e6),
     {'train_ctx': 32768, 'head_dim': 16, 'theta': 1e6}),
    ('qwen2, as its card says', family('qwen2', 'Qwen2ForCausalLM', max_position_embeddings=32768, rope_scaling={
        'factor': 4.0, ORIGINAL: 32768, 'type': 'yarn'}),
     {'rope_method': 4, 'factor': 4.0, 'train_ctx': 32768, 'head_dim': 16}),
    ('qwen2, the newest layout', family('qwen2', 'Qwen2ForCausalLM', dtype='bfloat16', rope_parameters={
        'rope_theta': 1e6, 'rope_type': 'default'}, layer_types=['full_attention']), {'theta': 1e6, 'head_dim': 16}),
    ('qwen3 without head_dim', family('qwen3', 'Qwen3ForCausalLM'), {'head_dim': 128}),
    ('qwen3', family('qwen3', 'Qwen3ForCausalLM', head_dim=32, max_position_embeddings=...),
     {'head_dim': 32, 'train_ctx': 32768}),
    ('smollm3', family('smollm3', 'SmolLM3ForCausalLM', max_position_embeddings=...),
     {'head_dim': 16, 'theta': 2e6, 'train_ctx': 32768}),
    ('smollm3 with a theta', family('smollm3', 'SmolLM3ForCausalLM', rope_theta=5e6), {'head_dim': 16, 'theta': 5e6}),
    ('phi3', phi(None), {'head_dim': 6}),
    ('phi3, longrope', phi(dict(LISTS, type='longrope')), IS_LONG),
    ('phi3, su', phi(dict(LISTS, type='su')), IS_LONG),
    ('phi3, yarn is longrope', phi(dict(LISTS, rope_type='yarn')), IS_LONG),
    ('phi3, mscales are not used', phi(dict(LISTS, type='longrope', short_mscale=1.1, long_mscale=1.2)), IS_LONG),
    ('phi3, a factor', phi(dict(LISTS, type='longrope', factor=8)), dict(IS_LONG, factor=8.0)),
    ('phi3, attention_factor', phi(dict(LISTS, type='longrope', attention_factor=1.25)),
     dict(IS_LONG, attention_factor=1.25)),
    ('phi3, the original of the block is not read', phi(dict(LISTS, type='longrope', **{ORIGINAL: 32}), **{
        ORIGINAL: ..., 'max_position_embeddings': 8192}), dict(IS_LONG, factor=2.0, train_ctx=4096)),
    ('phi3, part of a head', phi(dict(LISTS, type='longrope'), head_dim=8, partial_rotary_factor=0.75), IS_LONG),
    ('phi3, part of a head inside', phi(dict(LISTS, type='longrope', partial_rotary_factor=0.8), head_dim=8), IS_LONG),
    ('phi3, all defaults', phi({}, max_position_embeddings=..., **{ORIGINAL: ...}), {'head_dim': 6, 'train_ctx': 4096}),
]

# Changes of a Llama's config (24 wide, 4 heads, 256 positions), and the key that is refused.
REFUSED = [
    ('layer-specific rope', {'rope_parameters': {'full_attention': {'rope_type': 'default'}}}, 'rope_parameters'),
    ('rope block of another kind', {'rope_scaling': 'linear'}, 'rope_scaling'),
    ('rope block a list', {'rope_scaling': [1]}, 'rope_scaling'),
    ('partial rotary', {'partial_rotary_factor': 0.5}, 'partial_rotary_factor'),
    ('partial rotary inside', {'rope_parameters': {'partial_rotary_factor': 0.25}},
     'rope_parameters.partial_rotary_factor'),
    ('unknown rope_type', {'rope_scaling': {'rope_type': 'su', 'factor': 4.0}}, 'rope_scaling.rope_type'),
    ('unknown type', {'rope_scaling': {'type': 'xpos'}}, 'rope_scaling.type'),
    ('null rope_type', {'rope_scaling': {'rope_type': None, 'type': 'linear', 'factor': 2}}, 'rope_scaling.rope_type'),
    ('linear without factor', {'rope_scaling': {'type': 'linear'}}, 'rope_scaling.factor'),
    ('linear factor null', {'rope_scaling': {'type': 'linear', 'factor': None}}, 'rope_scaling.factor'),
    ('yarn without factor', {'rope_scaling': {'type': 'yarn', ORIGINAL: 100}}, 'rope_scaling.factor'),
    ('dynamic without factor', {'rope_scaling': {'type': 'dynamic'}}, 'rope_scaling.factor'),
    ('llama3 without factor', {'rope_scaling': changed(LLAMA3, factor=...)}, 'rope_scaling.factor'),
    ('llama3 without low', {'rope_scaling': changed(LLAMA3, low_freq_factor=...)}, 'low_freq_factor'),
    ('llama3 without high', {'rope_scaling': changed(LLAMA3, high_freq_factor=...)}, 'high_freq_factor'),
    ('a negative alpha', {'rope_scaling': {'type': 'dynamic', 'alpha': -1.0, 'factor': 1.0}}, 'alpha'),
    ('dual chunks that are none', {'dual_chunk_attention_config': [1]}, 'dual_chunk_attention_config'),
    ('dual chunks without a size', {'dual_chunk_attention_config': changed(CHUNKS, chunk_size=...)}, 'chunk_size'),
    ('dual chunks of nothing', {'dual_chunk_attention_config': dict(CHUNKS, local_size=256)}, 'local_size'),
    ('dual chunks of another length', {'dual_chunk_attention_config': dict(CHUNKS, **{ORIGINAL: 512})}, ORIGINAL),
    ('dual chunks beside a scaled block', {'rope_scaling': YARN, 'dual_chunk_attention_config': CHUNKS},
     'dual_chunk_attention_config'),
    ('llama3 high below low', {'rope_scaling': dict(LLAMA3, high_freq_factor=0.5)}, 'high_freq_factor'),
    ('factor 0', {'rope_scaling': dict(YARN, factor=0)}, 'rope_scaling.factor'),
    ('attention_factor 0', {'rope_scaling': dict(YARN, attention_factor=0)}, 'attention_factor'),
    ('betas the wrong way', {'rope_scaling': dict(YARN, beta_fast=1, beta_slow=32)}, 'beta_fast'),
    ('negative mscale', {'rope_scaling': dict(YARN, mscale=-1.0, mscale_all_dim=1.0)}, 'mscale'),
    ('truncate of another kind', {'rope_scaling': dict(YARN, truncate='no')}, 'truncate'),
    ('original null', {'rope_scaling': {**YARN, ORIGINAL: None}}, ORIGINAL),
    ('original null beside', {ORIGINAL: None, 'rope_scaling': YARN}, ORIGINAL),
    ('original 0', {'rope_scaling': {**YARN, ORIGINAL: 0}}, ORIGINAL),
    ('longrope, original 1', {'rope_scaling': {**LONG, ORIGINAL: 1}}, ORIGINAL),
    ('longrope, original 1 beside', {ORIGINAL: 1, 'rope_scaling': LONG}, ORIGINAL),
    ('longrope of one position', {'max_position_embeddings': 1, 'rope_scaling': changed(LONG, **{ORIGINAL: ...})},
     'max_position_embeddings'),
    ('original a fraction', {'rope_scaling': {**YARN, ORIGINAL: 64.5}}, ORIGINAL),
    ('longrope list too short', {'rope_scaling': dict(LONG, short_factor=[1.0, 1.0])}, 'short_factor'),
    ('longrope list missing', {'rope_scaling': changed(LONG, long_factor=...)}, 'long_factor'),
    ('longrope list of another kind', {'rope_scaling': dict(LONG, long_factor=[1.0, 'x', 1.0])}, 'long_factor'),
    ('longrope list with 0', {'rope_scaling': dict(LONG, long_factor=[1.0, 0, 1.0])}, 'long_factor'),
    ('unscaled positions of another kind', {'rope_scaling': dict(LONG, unscaled_positions=True)}, 'unscaled_positions'),
    ('unscaled positions below 0', {'rope_scaling': dict(LONG, unscaled_positions=-1)}, 'unscaled_positions'),
    ('unscaled positions and two lists', {'rope_scaling': dict(LONG, unscaled_positions=4)}, 'unscaled_positions'),
    ('linear below 1', {'rope_scaling': {'type': 'linear', 'factor': 0.5}}, 'rope_scaling.factor'),
    ('dynamic below 1', {'rope_scaling': {'type': 'dynamic', 'factor': 0.99}}, 'rope_scaling.factor'),
    ('yarn below 1', {'rope_scaling': dict(YARN, factor=0.5)}, 'rope_scaling.factor'),
    ('llama3 below 1', {'rope_scaling': dict(LLAMA3, factor=0.5)}, 'rope_scaling.factor'),
    ('longrope below 1', {'rope_scaling': dict(LONG, factor=0.5)}, 'rope_scaling.factor'),
    ('name for type', {'rope_scaling': {'name': 'yarn', 'factor': 4.0, ORIGINAL: 64}}, 'rope_scaling.name'),
    ('a misspelled length', {'rope_scaling': {'type': 'yarn', 'factor': 4.0, 'original_max_position_embedding': 64}},
     'rope_scaling.original_max_position_embedding'),
    ('a misspelled beta', {'rope_parameters': dict(YARN, beta_fats=16)}, 'rope_parameters.beta_fats'),
    ('a key of another engine', {'rope_scaling': {'type': 'linear', 'factor': 2, 'beta': 1}}, 'rope_scaling.beta'),
    ('rope_theta 1', {'rope_theta': 1.0}, 'rope_theta'), ('rope_theta null', {'rope_theta': None}, 'rope_theta'),
    ('head_dim', {'head_dim': 7}, 'head_dim'),
]

# Those of Phi3, of a whole config, likewise.
PHI_REFUSED = [
    ('phi3, linear', phi({'type': 'linear', 'factor': 2.0}), 'rope_scaling.type'),
    ('phi3, no lists', phi({'type': 'longrope'}), 'rope_scaling.short_factor'),
    ('phi3, lists for whole heads', phi(dict(LISTS, type='longrope'), partial_rotary_factor=0.67), 'short_factor'),
    ('phi3, an odd part', phi(dict(LISTS, type='longrope'), partial_rotary_factor=0.5), 'partial_rotary_factor'),
    ('phi3, no part', phi(dict(LISTS, type='longrope'), partial_rotary_factor=0), 'partial_rotary_factor'),
    ('phi3, more than all', phi(dict(LISTS, type='longrope'), partial_rotary_factor=1.5), 'partial_rotary_factor'),
    ('phi3, original null', phi(dict(LISTS, type='longrope'), **{ORIGINAL: None}), ORIGINAL),
]

# Two settings that contradict each other: changes as above, or a whole config, and the warning, which says what counts.
ALONE = 'nor is there one beside it: '
CONTRADICTIONS = [
    ('yarn without its length', {'rope_scaling': {'rope_type': 'yarn', 'factor': 8.0}},
     'rope_scaling has no %s, %sit counts from max_position_embeddings, 256; llama.cpp, ik_llama.cpp and ExLlamaV2 '
     'refuse such a file, and MLX-LM counts from 4096' % (ORIGINAL, ALONE)),
    ('scaled without a theta', {'rope_theta': ..., 'rope_parameters': {'type': 'linear', 'factor': 2.0}},
     'rope_parameters has no rope_theta, %s10000, the default of its class, counts' % ALONE),
    ('an older name of rope_scaling', {'rope_scale': {'type': 'linear', 'factor': 2.0}},
     'rope_scale means nothing, and is not used: did you mean rope_scaling?'),
    ('a dash in rope_scaling', {'rope-scaling': {'type': 'linear', 'factor': 2.0}},
     'rope-scaling means nothing, and is not used: did you mean rope_scaling?'),
    ('a typo in rope_theta', {'rope_thetta': 5e5},
     'rope_thetta means nothing, and is not used: did you mean rope_theta?'),
    ('a type beside the blocks', {'rope_type': 'yarn'},
     'rope_type beside the blocks is not used: its place is in rope_scaling'),
    ("a key of vLLM's", {'rope_scaling': dict(YARN, apply_yarn_scaling=False)},
     'rope_scaling.apply_yarn_scaling is not used: vLLM alone reads it: where it is false, the attention factor is 1'),
    ('two original lengths', {ORIGINAL: 128, 'rope_scaling': YARN},
     ORIGINAL + ' is 128 beside rope_scaling and 64 in it: 128 counts'),
    ('two original lengths of llama3', {ORIGINAL: 64, 'rope_parameters': LLAMA3},
     ORIGINAL + ' is 64 beside rope_parameters and 32 in it: 64 counts'),
    ('two original lengths of longrope', {ORIGINAL: 32, 'rope_scaling': LONG},
     ORIGINAL + ' is 32 beside rope_scaling and 64 in it: 32 counts'),
    ('two thetas', {'rope_theta': 10000.0, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 500000}},
     'rope_theta is 10000 beside rope_parameters and 500000 in it: 500000 counts'),
    ('two thetas with digits', {'rope_theta': 12345.678901234567, 'rope_scaling': dict(YARN, rope_theta=2e6 / 7)},
     'rope_theta is 12345.6789012 beside rope_scaling and 285714.285714 in it: 285714.285714 counts'),
    ('type and rope_type', {'rope_scaling': dict(YARN, type='linear')},
     'type is linear and rope_type is yarn in rope_scaling: yarn counts'),
    ('a type that nobody knows', {'rope_parameters': {'type': 'stretch', 'rope_type': 'default'}},
     'type is stretch and rope_type is default in rope_parameters: default counts'),
    ('two blocks', {'rope_scaling': {'type': 'linear', 'factor': 2}, 'rope_parameters': {'rope_theta': 1e6}},
     'rope_parameters is not used, since there is a rope_scaling'),
    ('two attention factors', {'rope_scaling': dict(YARN, attention_factor=1.25, mscale=1, mscale_all_dim=1)},
     'attention_factor is 1.25 in rope_scaling, and mscale and mscale_all_dim make it 1: 1.25 counts'),
    ('two shares of a head', phi(dict(LISTS, type='longrope', partial_rotary_factor=0.75), head_dim=8,
                                 partial_rotary_factor=1.0),
     'partial_rotary_factor is 1 beside rope_scaling and 0.75 in it: 0.75 counts'),
]
# What looks like one and is none.
NO_CONTRADICTION = [
    ('the same twice', {ORIGINAL: 64, 'rope_theta': 5e5, 'rope_scaling': dict(YARN, type='yarn', rope_theta=500000)}),
    ('an older name', {'rope_scaling': dict(LONG, type='su')}),
    ('Phi-3, an older name', phi(dict(LISTS, type='yarn', rope_type='longrope'))),
    ('an attention factor and its pair',
     {'rope_scaling': dict(YARN, attention_factor=1, mscale=0.7, mscale_all_dim=0.7)}),
    ('an attention factor and half a pair', {'rope_scaling': dict(YARN, attention_factor=1.5, mscale=2.0)}),
    ('an empty block', {'rope_scaling': {'type': 'linear', 'factor': 2}, 'rope_parameters': {}}),
]

# Keys by which layers or positions differ: of a Llama, and of a config without a model_type; each is refused by its
# name until it is read. Then values that make no difference.
KINDS = ['sliding_attention', 'full_attention']
BY_LAYER = [
    ('a local theta', {'rope_local_base_freq': 10000.0}), ("ModernBERT's local theta", {'local_rope_theta': 10000.0}),
    ("ModernBERT's global theta", {'global_rope_theta': 160000.0}), ('a theta of windows', {'swa_rope_theta': 1e4}),
    ('a pattern', {'sliding_window_pattern': 6}), ('a pattern in letters', {'sliding_window_pattern': 'LLLG'}),
    ('both kinds of layers', {'layer_types': KINDS}), ('layers without RoPE', {'no_rope_layers': [1, 1, 1, 0]}),
    ('every fourth layer', {'no_rope_layer_interval': 4}), ('a growing temperature', {'attn_temperature_tuning': True}),
    ('its slope', {'llama_4_scaling_beta': 0.1}),
    ('its slope in the block', {'rope_scaling': dict(YARN, llama_4_scaling_beta=0.1)}),
    ('blocks by layer', {'rope_parameters': {kind: {'rope_type': 'default', 'rope_theta': 1e4} for kind in KINDS}}),
    ('a block by layer beside one', {'rope_scaling': {'type': 'linear', 'factor': 8.0},
                                     'rope_parameters': {'full_attention': {'rope_theta': 1e6}}}),
]
ALIKE = [
    ('nulls', {'rope_local_base_freq': None, 'sliding_window_pattern': None, 'no_rope_layers': None,
               'layer_types': None, 'llama_4_scaling_beta': None}),
    ('nothing', {'attn_temperature_tuning': False, 'no_rope_layers': [], 'no_rope_layer_interval': 0}),
    ('all alike', {'no_rope_layers': [1, 1], 'layer_types': ['full_attention']}),
]

# ---- families whose layers differ ----

FULL, SLIDING = 'full_attention', 'sliding_attention'
LAYERS = {'hidden_size': 32, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 16,
          'num_hidden_layers': 6, 'max_position_embeddings': 256}
GEMMA3 = {'model_type': 'gemma3_text', 'architectures': ['Gemma3ForCausalLM'], **LAYERS}
OLMO3 = {'model_type': 'olmo3', 'architectures': ['Olmo3ForCausalLM'], **LAYERS}
OLMO2 = {'model_type': 'olmo2', 'architectures': ['Olmo2ForCausalLM'], **LAYERS}
MINISTRAL3 = {'model_type': 'ministral3', 'architectures': ['Ministral3ForCausalLM'], **LAYERS}
EXAONE4 = {'model_type': 'exaone4', 'architectures': ['Exaone4ForCausalLM'], **LAYERS}
MIXTRAL = {'model_type': 'mixtral', 'architectures': ['MixtralForCausalLM'], **LAYERS}
QWEN3_MOE = {'model_type': 'qwen3_moe', 'architectures': ['Qwen3MoeForCausalLM'], **LAYERS}
GPT_OSS = {'model_type': 'gpt_oss', 'architectures': ['GptOssForCausalLM'], **LAYERS}
LINEAR8 = {'rope_type': 'linear', 'factor': 8.0}
GROWING = dict(YARN, llama_4_scaling_beta=0.1, mscale=1.0, mscale_all_dim=1.0)
BY_TYPE = {FULL: {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 5e4},
           SLIDING: {'rope_type': 'default', 'rope_theta': 500.0}}
IS_LINEAR8 = {'rope_method': 1, 'factor': 8.0, 'theta': 1e6}
IS_YARN = {'rope_method': 4, 'factor': 4.0, 'train_ctx': 64, 'theta': 5e5}
IS_GROWING = dict(IS_YARN, theta=1e4, mscale=1.0, mscale_all_dim=1.0)
IS_MINISTRAL = {'rope_method': 4, 'factor': 16.0, 'train_ctx': 16384, 'theta': 1e6, 'beta_fast': 32.0,
                'beta_slow': 1.0, 'mscale': 1.0, 'mscale_all_dim': 1.0}
IS_LLAMA3 = {'rope_method': 5, 'factor': 8.0, 'train_ctx': 32, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0}
IS_GPT_OSS = {'rope_method': 4, 'factor': 32.0, 'train_ctx': 4096, 'theta': 150000.0, 'beta_fast': 32.0,
              'beta_slow': 1.0, 'truncate': 0}
IS_MILLION, IS_PLAIN = {'theta': 1e6}, {'theta': 150000.0}
LOCAL, SAME = {'theta': 1e4}, {'theta': 5e5}


def inside(model_type, architecture, text, **beside):
    """A model of pictures and text with this text model."""
    return {'model_type': model_type, 'architectures': [architecture + 'ForConditionalGeneration'],
            'text_config': changed(text, architectures=...), 'vision_config': {'hidden_size': 32}, **beside}


# Name, config; the fields of full layers and those of sliding ones that differ from NOTHING, None where they do not
# turn or there are none; the layers by their first letters; the window; the temperature's beta.
LAYERED = [
    ('gemma 3, all defaults', GEMMA3, {'theta': 1e6}, LOCAL, 'SSSSSF', 4096, 0),
    ('gemma 3, release 4', changed(GEMMA3, rope_theta=1e6, rope_local_base_freq=2e4, rope_scaling=LINEAR8,
                                   sliding_window=32, sliding_window_pattern=3),
     IS_LINEAR8, {'theta': 2e4}, 'SSFSSF', 32, 0),
    ('gemma 3, a theta of full layers', changed(GEMMA3, rope_theta=5e4), {'theta': 5e4}, LOCAL, 'SSSSSF', 4096, 0),
    ('gemma 3, release 5', changed(GEMMA3, rope_parameters=BY_TYPE, sliding_window=16,
                                   layer_types=[SLIDING, FULL, FULL, SLIDING, SLIDING, FULL]),
     {'rope_method': 1, 'factor': 4.0, 'theta': 5e4}, {'theta': 500.0}, 'SFFSSF', 16, 0),
    ('gemma 3, a block of full layers alone', changed(GEMMA3, rope_parameters={FULL: dict(LINEAR8)}),
     IS_LINEAR8, LOCAL, 'SSSSSF', 4096, 0),
    ('gemma 3, a block of null', changed(GEMMA3, rope_parameters={FULL: None, SLIDING: {'rope_theta': 300.0}}),
     {'theta': 1e6}, {'theta': 300.0}, 'SSSSSF', 4096, 0),
    ('gemma 3, scaled sliding layers', changed(GEMMA3, rope_parameters={FULL: {}, SLIDING: dict(LINEAR8)}),
     {'theta': 1e6}, dict(IS_LINEAR8, theta=1e4), 'SSSSSF', 4096, 0),
    ('gemma 3, yarn', changed(GEMMA3, rope_scaling=YARN), dict(IS_YARN, theta=1e6), LOCAL, 'SSSSSF', 4096, 0),
    ('gemma 3, yarn of max_position_embeddings', changed(GEMMA3, rope_scaling={'type': 'yarn', 'factor': 2.0}),
     {'rope_method': 4, 'factor': 2.0, 'theta': 1e6}, LOCAL, 'SSSSSF', 4096, 0),
    ('gemma 3, a pattern of 1', changed(GEMMA3, sliding_window_pattern=1), {'theta': 1e6}, None, 'FFFFFF', 0, 0),
    ('gemma 3, all layers slide', changed(GEMMA3, layer_types=[SLIDING] * 6), {'theta': 1e6}, LOCAL, 'SSSSSS', 4096,
     0),
    ('gemma 3 with pictures', inside('gemma3', 'Gemma3', changed(GEMMA3, rope_scaling=LINEAR8)), IS_LINEAR8, LOCAL,
     'SSSSSF', 4096, 0),
    ('olmo 3, all defaults', OLMO3, SAME, SAME, 'SSSFSS', 4096, 0),
    ('olmo 3, release 4', changed(OLMO3, rope_theta=500000, rope_scaling=YARN, sliding_window=8), IS_YARN, SAME,
     'SSSFSS', 8, 0),
    ('olmo 3, release 5', changed(OLMO3, rope_parameters={FULL: dict(YARN, rope_theta=5e5), SLIDING: {
        'rope_type': 'default', 'rope_theta': 5e5}}), IS_YARN, SAME, 'SSSFSS', 4096, 0),
    ('olmo 2', OLMO2, {}, None, 'FFFFFF', 0, 0),
    ('olmo 2, yarn', changed(OLMO2, rope_theta=5e5, rope_scaling=YARN), IS_YARN, None, 'FFFFFF', 0, 0),
    ('ministral 3, no block', MINISTRAL3, IS_MINISTRAL, None, 'FFFFFF', 0, 0.1),
    ('ministral 3, release 5', changed(MINISTRAL3, rope_parameters=dict(GROWING, rope_theta=1e6, type='yarn')),
     dict(IS_GROWING, theta=1e6), None, 'FFFFFF', 0, 0.1),
    ('ministral 3, release 4', changed(MINISTRAL3, rope_theta=1e6, rope_scaling=GROWING), dict(IS_GROWING, theta=1e6),
     None, 'FFFFFF', 0, 0.1),
    ('ministral 3, no theta', changed(MINISTRAL3, rope_parameters=GROWING), IS_GROWING, None, 'FFFFFF', 0, 0.1),
    ('ministral 3, a beta of 0', changed(MINISTRAL3, rope_parameters=dict(GROWING, llama_4_scaling_beta=0)),
     IS_GROWING, None, 'FFFFFF', 0, 0),
    ('ministral 3, not scaled', changed(MINISTRAL3, rope_parameters={
        'rope_type': 'default', ORIGINAL: 32, 'llama_4_scaling_beta': 0.5, 'rope_theta': 1e6}),
     {'train_ctx': 32, 'theta': 1e6}, None, 'FFFFFF', 0, 0.5),
    ('ministral 3 with pictures', inside('mistral3', 'Mistral3', changed(MINISTRAL3, rope_parameters=GROWING)),
     IS_GROWING, None, 'FFFFFF', 0, 0.1),
    ('exaone 4, all defaults', EXAONE4, None, {}, 'SSSFSS', 4096, 0),
    ('exaone 4, llama3', changed(EXAONE4, rope_scaling=LLAMA3, sliding_window=32, sliding_window_pattern='LLLG',
                                 layer_types=[SLIDING, FULL] * 3), None, IS_LLAMA3, 'SFSFSF', 32, 0),
    ('exaone 4, a pattern', changed(EXAONE4, sliding_window_pattern=2, rope_theta=1e6), None, {'theta': 1e6}, 'SFSFSF',
     4096, 0),
    ('exaone 4, no window', changed(EXAONE4, sliding_window=None, layer_types=[FULL] * 6, rope_scaling=LLAMA3),
     IS_LLAMA3, None, 'FFFFFF', 0, 0),
]

LAYERED += [
    ('gpt-oss, all defaults', GPT_OSS, IS_GPT_OSS, IS_GPT_OSS, 'SFSFSF', 128, 0),
    ('gpt-oss, as published', changed(GPT_OSS, rope_theta=150000, initial_context_length=4096, rope_scaling={
        'beta_fast': 32.0, 'beta_slow': 1.0, 'factor': 32.0, ORIGINAL: 4096, 'rope_type': 'yarn', 'truncate': False}),
     IS_GPT_OSS, IS_GPT_OSS, 'SFSFSF', 128, 0),
    ('gpt-oss, release 5', changed(GPT_OSS, rope_parameters=dict(YARN, rope_theta=5e5), sliding_window=16,
                                   layer_types=[FULL, SLIDING, SLIDING, FULL, FULL, SLIDING]),
     IS_YARN, IS_YARN, 'FSSFFS', 16, 0),
    ('gpt-oss, not scaled', changed(GPT_OSS, rope_parameters={'rope_type': 'default'}), IS_PLAIN, IS_PLAIN, 'SFSFSF',
     128, 0),
    ('mixtral, all defaults', MIXTRAL, IS_MILLION, None, 'FFFFFF', 0, 0),
    ('mixtral, a window', changed(MIXTRAL, sliding_window=5, rope_scaling=YARN), dict(IS_YARN, theta=1e6), None,
     'FFFFFF', 5, 0),
    ('qwen 3 moe, all defaults', QWEN3_MOE, {}, None, 'FFFFFF', 0, 0),
    ('qwen 3 moe, a window', changed(QWEN3_MOE, use_sliding_window=True, sliding_window=7, max_window_layers=3,
                                     rope_theta=1e6), IS_MILLION, None, 'FFFFFF', 7, 0),
    ('qwen 3 moe, a window that is not used', changed(QWEN3_MOE, sliding_window=7), {}, None, 'FFFFFF', 0, 0),
]

# Whole configs of these families, and the key that is refused.
LAYERED_REFUSED = [
    ('too few layers', changed(GEMMA3, layer_types=[FULL] * 5), 'layer_types'),
    ('too many layers', changed(OLMO3, layer_types=[FULL] * 7), 'layer_types'),
    ('an unknown word', changed(OLMO3, layer_types=[FULL] * 5 + ['chunked_attention']), 'layer_types'),
    ('a word for a list', changed(EXAONE4, layer_types=FULL), 'layer_types'),
    ('a window of 0', changed(GEMMA3, sliding_window=0), 'sliding_window'),
    ('no window', changed(GEMMA3, sliding_window=None), 'sliding_window'),
    ('no window in exaone 4', changed(EXAONE4, sliding_window=None), 'sliding_window'),
    ('a window of 0 in ministral 3', changed(MINISTRAL3, sliding_window=0), 'sliding_window'),
    ('a window as a text', changed(OLMO3, sliding_window='4096'), 'sliding_window'),
    ('layers slide without a window', changed(EXAONE4, sliding_window=None, layer_types=[SLIDING] * 6), 'layer_types'),
    ('a pattern in letters', changed(EXAONE4, sliding_window_pattern='LLLG'), 'sliding_window_pattern'),
    ('a pattern of 0', changed(GEMMA3, sliding_window_pattern=0), 'sliding_window_pattern'),
    ('a pattern of null', changed(GEMMA3, sliding_window_pattern=None), 'sliding_window_pattern'),
    ('a pattern of halves', changed(GEMMA3, sliding_window_pattern=2.5), 'sliding_window_pattern'),
    ('bidirectional attention', changed(GEMMA3, use_bidirectional_attention=True), 'use_bidirectional_attention'),
    ('softcaps of logits', changed(GEMMA3, final_logit_softcapping=30.0), 'final_logit_softcapping'),
    ('a flat block and rope_scaling', changed(GEMMA3, rope_scaling=LINEAR8, rope_parameters={'rope_theta': 1e6}),
     'rope_parameters'),
    ('a key beside the kinds', changed(OLMO3, rope_parameters={FULL: {}, 'rope_theta': 1e4}),
     'rope_parameters.rope_theta'),
    ('an unknown kind', changed(GEMMA3, rope_parameters={FULL: {}, 'chunked_attention': {}}),
     'rope_parameters.chunked_attention'),
    ('a kind that is a list', changed(GEMMA3, rope_parameters={FULL: []}), 'rope_parameters.full_attention'),
    ('kinds in rope_scaling', changed(GEMMA3, rope_scaling={FULL: LINEAR8}), 'rope_scaling'),
    ('kinds in a family of one block', changed(EXAONE4, rope_parameters=BY_TYPE), 'rope_parameters'),
    ('a bad factor of full layers', changed(GEMMA3, rope_parameters={FULL: dict(LINEAR8, factor=0.5)}),
     'rope_parameters.full_attention.factor'),
    ('a bad factor in rope_scaling', changed(OLMO3, rope_scaling=dict(YARN, factor=0)), 'rope_scaling.factor'),
    ('an unknown key of sliding layers', changed(GEMMA3, rope_parameters={SLIDING: {'rope_thete': 1e4}}),
     'rope_parameters.sliding_attention.rope_thete'),
    ('dynamic sliding layers', changed(GEMMA3, rope_parameters={SLIDING: {'rope_type': 'dynamic', 'factor': 2.0}}),
     'rope_parameters.sliding_attention.rope_type'),
    ('a local theta of 0', changed(GEMMA3, rope_local_base_freq=0), 'rope_local_base_freq'),
    ("another family's local theta", changed(OLMO3, rope_local_base_freq=1e4), 'rope_local_base_freq'),
    ('ministral 3 without its beta', changed(MINISTRAL3, rope_parameters=YARN),
     'rope_parameters.llama_4_scaling_beta'),
    ('ministral 3 of release 4 without its beta', changed(MINISTRAL3, rope_scaling=YARN),
     'rope_scaling.llama_4_scaling_beta'),
    ('ministral 3, a beta of null', changed(MINISTRAL3, rope_parameters=dict(GROWING, llama_4_scaling_beta=None)),
     'rope_parameters.llama_4_scaling_beta'),
    ('ministral 3, an empty block', changed(MINISTRAL3, rope_parameters={}), 'rope_parameters.llama_4_scaling_beta'),
    ('ministral 3, no length to count from', changed(MINISTRAL3, rope_parameters={
        'rope_type': 'default', 'llama_4_scaling_beta': 0.1}), 'rope_parameters.' + ORIGINAL),
    ('ministral 3, two lengths to count from', changed(MINISTRAL3, rope_parameters={
        'rope_type': 'dynamic', 'factor': 2.0, ORIGINAL: 64, 'llama_4_scaling_beta': 0.1}),
     'rope_parameters.' + ORIGINAL),
    ('gpt-oss without a window', changed(GPT_OSS, sliding_window=None), 'sliding_window'),
    ('another limit', changed(GPT_OSS, swiglu_limit=5.0), 'swiglu_limit'),
    ('another slope', changed(GPT_OSS, swiglu_alpha=1.5), 'swiglu_alpha'),
    ('another activation', changed(GPT_OSS, hidden_act='gelu'), 'hidden_act'),
    ('other blocks than MXFP4', changed(GPT_OSS, quantization_config={'quant_method': 'fp8'}), 'quantization_config'),
    ('blocks in mixtral', changed(MIXTRAL, quantization_config={'quant_method': 'mxfp4'}), 'quantization_config'),
    ('more chosen than there are', changed(MIXTRAL, num_local_experts=4, num_experts_per_tok=5),
     'num_experts_per_tok'),
    ('a top k of 0', changed(QWEN3_MOE, num_experts_per_tok=0), 'num_experts_per_tok'),
    ('a top k that is no number', changed(GPT_OSS, num_experts_per_tok=True), 'num_experts_per_tok'),
    ('no experts', changed(QWEN3_MOE, num_experts=0), 'num_experts'),
    ('two numbers of experts', changed(QWEN3_MOE, num_experts=4, num_local_experts=8), 'num_experts'),
    ('a sparse step of 0', changed(QWEN3_MOE, decoder_sparse_step=0), 'decoder_sparse_step'),
    ('a dense layer that is not there', changed(QWEN3_MOE, mlp_only_layers=[6]), 'mlp_only_layers'),
    ('experts without a width', changed(QWEN3_MOE, moe_intermediate_size=0), 'moe_intermediate_size'),
    ('shares that are no answer', changed(QWEN3_MOE, norm_topk_prob=1), 'norm_topk_prob'),
    ('another text model inside', inside('gemma3', 'Gemma3', OLMO3), 'model_type'),
    ('no text model inside', changed(inside('gemma3', 'Gemma3', GEMMA3), text_config=...), 'text_config'),
]

# Configs of these families that are taken with a remark, which stands in some line.
LAYERED_REMARKS = [
    ("Gemma's own name of the pattern", changed(GEMMA3, _sliding_window_pattern=3),
     '_sliding_window_pattern means nothing to model_type gemma3_text and is not used'),
    ('a pattern in olmo 3', changed(OLMO3, sliding_window_pattern=2),
     'sliding_window_pattern means nothing to model_type olmo3 and is not used'),
    ('layer types in ministral 3', changed(MINISTRAL3, layer_types=[FULL] * 6),
     'layer_types means nothing to model_type ministral3 and is not used'),
    ('a flat block in gemma 3', changed(GEMMA3, rope_parameters=dict(LINEAR8, rope_theta=1e6)),
     'warning: CONFIG: rope_parameters means nothing to model_type gemma3_text without full_attention and '
     'sliding_attention, and is not used'),
    ('a flat block in olmo 3', changed(OLMO3, rope_parameters=YARN),
     'warning: CONFIG: rope_parameters means nothing to model_type olmo3 without full_attention and '
     'sliding_attention, and is not used'),
    ('both layouts', changed(GEMMA3, rope_scaling=LINEAR8, rope_parameters=BY_TYPE),
     'warning: CONFIG: rope_scaling is laid over rope_parameters.full_attention'),
    ('two local thetas', changed(GEMMA3, rope_local_base_freq=1e4, rope_parameters=BY_TYPE),
     'warning: CONFIG: rope_local_base_freq is 10000 beside rope_parameters.sliding_attention and rope_theta 500 in '
     'it: 500 counts'),
    ('two thetas of full layers', changed(GEMMA3, rope_theta=1e6, rope_parameters=BY_TYPE),
     'warning: CONFIG: rope_theta is 1000000 beside rope_parameters.full_attention and 50000 in it: 50000 counts'),
    ("a theta of olmo 3's full layers", changed(OLMO3, rope_theta=2e6),
     'warning: CONFIG: rope_theta is 2000000 for full_attention alone: sliding_attention has 500000'),
    ('truncate in a block of one kind', changed(OLMO3, rope_parameters={FULL: dict(YARN, truncate=False)}),
     'rope_parameters.full_attention.truncate means nothing to model_type olmo3 and is not used'),
    ('truncate in the older layout', changed(GEMMA3, rope_scaling=dict(YARN, truncate=False)),
     'rope_scaling.truncate means nothing to model_type gemma3_text and is not used'),
    ('two original lengths', changed(OLMO3, rope_scaling=YARN, **{ORIGINAL: 128}),
     'warning: CONFIG: ' + ORIGINAL + ' is 128 beside rope_scaling and 64 in it: 64 counts'),
    ('softcaps of scores in gemma 3', changed(GEMMA3, attn_logit_softcapping=50.0),
     'attn_logit_softcapping means nothing to model_type gemma3_text and is not used'),
    ('no block in gpt-oss', changed(GPT_OSS, rope_scaling=None),
     'warning: CONFIG: rope_scaling is null, and model_type gpt_oss has YaRN all the same'),
    ("what Apertus' class has", {'model_type': 'apertus', 'architectures': ['ApertusForCausalLM'],
                                'hidden_act': 'xielu', **LAYERS, 'rope_scaling': None},
     'warning: CONFIG: rope_scaling is null, and model_type apertus has llama3 all the same'),
    ('another name of the top', changed(GPT_OSS, num_experts_per_tok=2, experts_per_token=4),
     'experts_per_token means nothing to model_type gpt_oss and is not used'),
    ('dense layers', changed(QWEN3_MOE, mlp_only_layers=[3], decoder_sparse_step=2),
     'dense layers, without experts, by decoder_sparse_step and mlp_only_layers: 0, 2, 3, 4 of 6'),
    ('layer types in qwen 3 moe', changed(QWEN3_MOE, layer_types=[FULL] * 6),
     'layer_types means nothing to model_type qwen3_moe and is not used'),
    ('two answers about tying', inside('gemma3', 'Gemma3', changed(GEMMA3, tie_word_embeddings=False)),
     'warning: CONFIG: tie_word_embeddings is true beside text_config and false in it: true counts'),
]
