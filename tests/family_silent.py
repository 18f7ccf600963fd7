"""The defaults of newer families' classes for keys that a config.json lacks, like those of older ones in
test_family_formats.py: the context, key heads, the width of a head, theta, the norms' epsilon, BOS, EOS; then other
fields that are not 0. By the configuration classes of the Transformers library (main of 2026)."""

SEES_ALL, STILL, TURNS, DENSE, WITHOUT_SINKS, STATE = 1, 2, 4, 8, 32, 64
STILL_FULL = SEES_ALL + STILL
BY_SIGMOIDS = dict(router=2, router_choice_bias=1, router_renormalizes=1)
DELTA = dict(
    norms_lack_one=True, qk_norm=1, attention_gate=1, rotary_dim=64, layers=[STATE, STATE, STATE, 0] * 2, state_kind=1,
    conv_width=4, state_key_heads=16, state_value_heads=32, state_key_dim=128, state_value_dim=128)
FULL_OF_4, FULL_OF_MIMO = (5, 7), (0, 5)  # of eight layers
SILENT = {
    'gemma2': (8192, 4, 256, 1e4, 1e-6, 2, [1], dict(
        sliding_window=4096, layers=[TURNS, SEES_ALL] * 4, sliding_theta=1e4, norm_place=2, activation=1, tied=True,
        embedding_scale=8.0, norms_lack_one=True, logit_cap=30.0, score_cap=50.0)),
    'gemma4_text': (131072, 4, 512, 1e6, 1e-6, 2, [1], dict(
        sliding_window=512, layers=[SEES_ALL if i in FULL_OF_4 else TURNS for i in range(8)], sliding_theta=1e4,
        shapes=[(32, 4, 512 if i in FULL_OF_4 else 256, 16, i) for i in range(8)], rope_method=7, factor=1.0,
        rotary_dim=128, sliding_rotary_dim=256, norm_place=2, qk_norm=1, value_norm=1, layer_scale=1, activation=1,
        tied=True, embedding_scale=8.0, score_scale=1.0, per_layer_dim=256)),
    'gemma3n_text': (32768, 2, 256, 1e6, 1e-6, 2, [1], dict(
        sliding_window=512, layers=[TURNS] * 4 + [SEES_ALL] + [TURNS] * 3, sliding_theta=1e4, norm_place=2, qk_norm=1,
        value_norm=1, activation=1, tied=True, embedding_scale=8.0, score_scale=1.0, logit_cap=30.0, per_layer_dim=256,
        altup_streams=4, laurel_rank=64)),
    'laguna': (131072, 8, 128, 5e5, 1e-6, -1, [], dict(
        BY_SIGMOIDS, rotary_dim=64, layers=[DENSE] + [0] * 7, qk_norm=1, attention_gate=3, n_experts=256,
        n_experts_used=8, expert_hidden_dim=512, shared_hidden_dim=512)),
    'mimo_v2_flash': (131072, 8, 192, 5e6, 1e-5, 1, [], dict(
        BY_SIGMOIDS, sliding_window=129, sliding_theta=1e4, rotary_dim=64, value_dim=128, value_scale=0.707,
        layers=[(SEES_ALL + WITHOUT_SINKS if i in FULL_OF_MIMO else TURNS) + DENSE * (i == 0) for i in range(8)],
        shapes=[(32, 4 if i in FULL_OF_MIMO else 8, 192, 16, i) for i in range(8)], attention_sinks=1, n_experts=256,
        n_experts_used=8, expert_hidden_dim=2048)),
    'seed_oss': (524288, 8, 128, 1e4, 1e-6, 0, [2], dict(qkv_bias=1)),
    'ernie4_5': (131072, 2, 128, 5e5, 1e-5, 1, [2], dict(tied=True)),
    'arcee': (4096, 32, 2, 1e4, 1e-5, 128000, [128001], dict(activation=3)),
    'ministral': (131072, 8, 2, 1e4, 1e-6, 1, [2], dict(sliding_window=4096)),
    'glm4': (131072, 2, 128, 1e4, 1.5625e-7, -1, [151329, 151336, 151338], dict(
        qkv_bias=1, norm_place=2, rotary_dim=64)),
    'granite': (2048, 32, 2, 1e4, 1e-6, 1, [2], dict(score_scale=1.0)),
    'granitemoehybrid': (2048, 32, 2, 1e4, 1e-6, 1, [2], dict(
        hidden_dim=1024, score_scale=1.0, layers=[STILL] * 8)),
    'cohere2': (8192, 32, 2, 1e4, 1e-5, 5, [255001], dict(
        sliding_window=4096, layers=[TURNS, TURNS, TURNS, STILL_FULL] * 2, sliding_theta=1e4, layer_norm=1,
        norm_place=3, tied=True, logit_scale=0.0625)),
    'apertus': (65536, 32, 2, 12e6, 1e-5, 1, [2], dict(
        rope_method=5, factor=8.0, train_ctx=8192, low_freq_factor=1.0, high_freq_factor=4.0, activation=4,
        qk_norm=1)),
    'hunyuan_v1_dense': (2048, 32, 2, 1e4, 1e-5, 1, [2], dict(qk_norm=1, qk_norm_late=1)),
    'llama4_text': (131072, 8, 128, 5e5, 1e-5, 1, [2], dict(
        hidden_dim=16384, qk_norm=3, qk_norm_turning=1, attention_chunk=8192, layers=[0, 0, 0, STILL_FULL] * 2,
        temperature_beta=0.1, temperature_length=8192, temperature_unturned=1, n_experts=16, n_experts_used=1,
        expert_hidden_dim=16, shared_hidden_dim=16, router=2, router_scales_input=1)),
    'muse_glimmer_text': (131072, 2, 128, 1e4, 1e-5, 200000, [200001], dict(
        sliding_window=2048, layers=[0, 0, 0, STILL_FULL] * 2, norm_place=2, qk_norm=3, embedding_norm=1,
        attention_gate=1, after_norm_eps=1e-8, norms_lack_one=True, last_is_whole=True, score_scale=3.87 * 128 ** -0.5,
        logit_scale=0.19611613513818404, logit_cap=20.0)),
    'qwen3_5_text': (32768, 4, 256, 1e4, 1e-6, -1, [], DELTA),
    'qwen3_next': (32768, 2, 256, 1e4, 1e-6, -1, [], dict(
        DELTA, n_experts=512, n_experts_used=10, expert_hidden_dim=512, shared_hidden_dim=512, shared_gate=1)),
    'qwen3_5_moe_text': (32768, 2, 256, 1e4, 1e-6, -1, [], dict(
        DELTA, n_experts=256, n_experts_used=8, expert_hidden_dim=512, shared_hidden_dim=512, shared_gate=1)),
    'lfm2': (128000, 8, 2, 1e6, 1e-5, 1, [2], dict(hidden_dim=256, tied=True, qk_norm=1))}  # all layers attend
# Fields without a default.
ASKED = {'gemma4_text': dict(vocab_size_per_layer_input=300000), 'gemma3n_text': dict(num_kv_shared_layers=0),
         'granitemoehybrid': dict(num_local_experts=0, layer_types=['attention'] * 8)}
