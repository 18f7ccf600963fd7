// Made by tools/family_table.py from export/families.json, not by hand.
// families.c includes it behind families.h.
#pragma once

static const FamilyEngine engines_of_llama[] = {
    {.name = "hf5"},
    {.name = "hf4"},
    {.name = "vllm"},
    {.name = "sglang"},
    {.name = "llama.cpp"},
    {.name = "ik_llama.cpp"},
    {.name = "mlx-lm"},
    {.name = "exllamav3"},
    {.name = "exllamav2"},
    {0},
};

static const FamilyEngine engines_of_mistral[] = {
    {.name = "hf5"},
    {.name = "hf4"},
    {.name = "vllm"},
    {.name = "sglang"},
    {.name = "llama.cpp"},
    {.name = "ik_llama.cpp"},
    {.name = "mlx-lm"},
    {.name = "exllamav3"},
    {.name = "exllamav2"},
    {0},
};

static const FamilyEngine engines_of_qwen2[] = {
    {.name = "hf5"},
    {.name = "hf4"},
    {.name = "vllm", .does = DOES_TAKES_CHUNKS},
    {.name = "sglang", .does = DOES_TAKES_CHUNKS},
    {.name = "llama.cpp", .does = DOES_YARN_BY_TYPE},
    {.name = "ik_llama.cpp", .does = DOES_YARN_BY_TYPE},
    {.name = "mlx-lm", .theta = 1000000},
    {.name = "exllamav3"},
    {.name = "exllamav2"},
    {0},
};

static const FamilyEngine engines_of_qwen3[] = {
    {.name = "hf5"},
    {.name = "hf4"},
    {.name = "vllm", .does = DOES_TAKES_CHUNKS},
    {.name = "sglang", .does = DOES_TAKES_CHUNKS},
    {.name = "llama.cpp"},
    {.name = "ik_llama.cpp"},
    {.name = "mlx-lm"},
    {.name = "exllamav3"},
    {.name = "exllamav2"},
    {0},
};

static const FamilyEngine engines_of_phi3[] = {
    {.name = "hf5"},
    {.name = "hf4", .does = DOES_THREE_KEYS},
    {.name = "vllm"},
    {.name = "sglang"},
    {.name = "llama.cpp"},
    {.name = "mlx-lm", .does = DOES_NEEDS_LONG_LIST | DOES_THETA_IN_PARAMETERS},
    {.name = "exllamav3"},
    {.name = "exllamav2"},
    {0},
};

static const FamilyEngine engines_of_smollm3[] = {
    {.name = "hf5"},
    {.name = "hf4"},
    {.name = "llama.cpp"},
    {.name = "mlx-lm"},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_gemma3_text[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang", .does = DOES_FULL_PLAIN | DOES_TAKES_TEXT_CONFIG},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "ik_llama.cpp",
        .does = DOES_LAYERS_BY_DEFAULT | DOES_SLIDING_BASE_FIXED | DOES_LINEAR_ALONE},
    {.name = "mlx-lm", .since = 0.32, .does = DOES_LAYERS_BY_PERIOD},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_olmo2[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang"},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "ik_llama.cpp", .refuses = "the file's architecture is not known"},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_olmo3[] = {
    {.name = "hf5", .theta = 10000, .one_block_before = 5.13},
    {.name = "hf4", .since = 4.57, .theta = 10000},
    {.name = "vllm", .since = 0.24, .theta = 10000, .one_block_before = 5.13},
    {.name = "sglang", .theta = 10000, .does = DOES_FULL_ONLY | DOES_REFUSES_TYPED},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "ik_llama.cpp", .refuses = "the file's architecture is not known"},
    {.name = "mlx-lm", .since = 0.32, .does = DOES_NEEDS_THETA},
    {.name = "exllamav3", .theta = 10000},
    {0},
};

static const FamilyEngine engines_of_ministral3[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang", .refuses = "AttributeError: bool object has no attribute items"},
    {.name = "llama.cpp", .since = 2026.08, .does = DOES_YARN_TOLD},
    {.name = "ik_llama.cpp", .does = DOES_YARN_TOLD | DOES_MULTIPLIES_AGAIN},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_exaone4[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang"},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "ik_llama.cpp", .refuses = "the file's architecture is not known"},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_mixtral[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang"},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "ik_llama.cpp"},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_qwen3_moe[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24, .does = DOES_TAKES_CHUNKS},
    {.name = "sglang", .does = DOES_TAKES_CHUNKS},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "ik_llama.cpp"},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_gpt_oss[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57, .does = DOES_NULL_BLOCK_UNSEEN},
    {.name = "vllm", .since = 0.24, .does = DOES_NEEDS_BETAS},
    {.name = "sglang"},
    {.name = "llama.cpp", .since = 2026.08, .does = DOES_NULL_BLOCK_UNSEEN},
    {.name = "ik_llama.cpp", .does = DOES_NULL_BLOCK_UNSEEN},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_gemma4_text[] = {
    {.name = "hf5", .since = 5.05, .before = "KeyError: the model_type is not known"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang", .does = DOES_PASTED_TURNS_ALL},
    {.name = "llama.cpp", .since = 2026.08, .does = DOES_PROPORTIONAL},
    {.name = "mlx-lm", .since = 0.32, .does = DOES_PROPORTIONAL},
    {.name = "exllamav3", .does = DOES_PROPORTIONAL},
    {0},
};

static const FamilyEngine engines_of_laguna[] = {
    {.name = "hf5", .since = 5.15, .known = 5.06,
        .before = "KeyError: the model_type is not known"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "llama.cpp", .since = 2026.08},
    {.name = "mlx-lm", .since = 0.32},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_cohere2[] = {
    {.name = "hf5"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang"},
    {.name = "llama.cpp", .since = 2026.08, .block = "the block is not converted"},
    {.name = "mlx-lm", .since = 0.32, .block = "rope_scaling is not read"},
    {.name = "exllamav3"},
    {0},
};

static const FamilyEngine engines_of_qwen3_5_text[] = {
    {.name = "hf5", .since = 5.05, .before = "KeyError: the model_type is not known"},
    {.name = "hf4", .since = 4.57},
    {.name = "vllm", .since = 0.24},
    {.name = "sglang"},
    {.name = "mlx-lm", .since = 0.32, .theta = 100000},
    {.name = "exllamav3"},
    {0},
};

static const RopeFamily families[] = {
    {"llama", "LlamaForCausalLM", .max_positions = 2048, .theta = 10000,
        .flags = FAMILY_RUNS | FAMILY_SEEN_FIRST, .engines = engines_of_llama},
    {"mistral", "MistralForCausalLM", .max_positions = 131072, .theta = 10000,
        .layer_keys = "layer_types", .flags = FAMILY_RUNS | FAMILY_SEEN_FIRST,
        .sign = FEATURE_WINDOW, .engines = engines_of_mistral},
    {"qwen2", "Qwen2ForCausalLM", .max_positions = 32768, .theta = 10000,
        .layer_keys = "layer_types", .flags = FAMILY_RUNS | FAMILY_SEEN_FIRST,
        .always = FEATURE_QKV_BIAS, .may = FEATURE_WINDOW, .engines = engines_of_qwen2},
    {"qwen3", "Qwen3ForCausalLM", .max_positions = 32768, .head_dim = 128, .theta = 10000,
        .layer_keys = "layer_types", .flags = FAMILY_RUNS | FAMILY_SEEN_FIRST,
        .always = FEATURE_HEAD_NORMS, .may = FEATURE_WINDOW, .engines = engines_of_qwen3},
    {"phi3", "Phi3ForCausalLM", .max_positions = 4096, .original = 4096, .theta = 10000,
        .layer_keys = "layer_types",
        .flags = FAMILY_PARTIAL | FAMILY_RUNS | FAMILY_SEEN_FIRST | FAMILY_LONGROPE_ALONE | FAMILY_GGUF_LONGROPE,
        .sign = FEATURE_PARTIAL, .may = FEATURE_PARTIAL | FEATURE_WINDOW,
        .engines = engines_of_phi3},
    {"smollm3", "SmolLM3ForCausalLM", .max_positions = 32768, .theta = 2000000,
        .layer_keys = "layer_types no_rope_layers no_rope_layer_interval",
        .flags = FAMILY_RUNS | FAMILY_SEEN_FIRST, .may = FEATURE_WINDOW,
        .engines = engines_of_smollm3},
    {"gemma3_text", "Gemma3ForCausalLM", .max_positions = 131072, .head_dim = 256, .theta = 1000000,
        .local_theta = 10000, .window = 4096, .period = 6, .local_key = "rope_local_base_freq",
        .period_key = "sliding_window_pattern",
        .layer_keys = "rope_local_base_freq sliding_window_pattern layer_types",
        .flags = FAMILY_BY_TYPE | FAMILY_RUNS,
        .always = FEATURE_EMBEDDING_SCALE | FEATURE_GELU | FEATURE_HEAD_NORMS | FEATURE_NORMS_BOTH,
        .may = FEATURE_WINDOW, .engines = engines_of_gemma3_text},
    {"olmo2", "Olmo2ForCausalLM", .max_positions = 2048, .theta = 10000, .flags = FAMILY_RUNS,
        .always = FEATURE_NORMS_AFTER | FEATURE_WHOLE_NORMS, .engines = engines_of_olmo2},
    {"olmo3", "Olmo3ForCausalLM", .max_positions = 2048, .theta = 500000, .local_theta = 500000,
        .window = 4096, .period = 4, .layer_keys = "sliding_window_pattern layer_types",
        .flags = FAMILY_BY_TYPE | FAMILY_RUNS, .always = FEATURE_NORMS_AFTER | FEATURE_WHOLE_NORMS,
        .may = FEATURE_WINDOW, .engines = engines_of_olmo3},
    {"ministral3", "Ministral3ForCausalLM", .max_positions = 262144, .head_dim = 128,
        .theta = 10000, .layer_keys = "layer_types",
        .block = "{\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "
            "\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
            "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}",
        .flags = FAMILY_NEW | FAMILY_GROWS | FAMILY_RUNS, .always = FEATURE_TEMPERATURE,
        .may = FEATURE_WINDOW, .engines = engines_of_ministral3},
    {"exaone4", "Exaone4ForCausalLM", .max_positions = 2048, .theta = 10000, .window = 4096,
        .period = 4, .slides_with = 64, .period_key = "sliding_window_pattern",
        .layer_keys = "sliding_window_pattern layer_types",
        .flags = FAMILY_BARE_FULL | FAMILY_WINDOWLESS | FAMILY_RUNS,
        .always = FEATURE_HEAD_NORMS | FEATURE_NORMS_AFTER, .may = FEATURE_WINDOW,
        .engines = engines_of_exaone4},
    {"mixtral", "MixtralForCausalLM", .max_positions = 131072, .theta = 1000000,
        .flags = FAMILY_RUNS, .always = FEATURE_EXPERTS, .may = FEATURE_WINDOW,
        .engines = engines_of_mixtral},
    {"qwen3_moe", "Qwen3MoeForCausalLM", .max_positions = 32768, .theta = 10000,
        .layer_keys = "layer_types", .flags = FAMILY_RUNS,
        .always = FEATURE_EXPERTS | FEATURE_HEAD_NORMS, .may = FEATURE_WINDOW,
        .engines = engines_of_qwen3_moe},
    {"gpt_oss", "GptOssForCausalLM", .max_positions = 131072, .head_dim = 64, .theta = 150000,
        .window = 128, .period = 2, .layer_keys = "layer_types",
        .block = "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"original_max_position_embeddings\": 4096, "
            "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false}",
        .flags = FAMILY_RUNS | FAMILY_ONE_FOR_BOTH | FAMILY_TELLS_BLOCK,
        .always = FEATURE_CLAMPED | FEATURE_EXPERTS | FEATURE_EXPERT_BIAS | FEATURE_ROUTER_BIAS | FEATURE_SINKS,
        .may = FEATURE_WINDOW, .engines = engines_of_gpt_oss},
    {"glm4_moe", "Glm4MoeForCausalLM", .max_positions = 131072, .theta = 10000, .partial = 0.5,
        .flags = FAMILY_PARTIAL | FAMILY_RUNS, .always = FEATURE_EXPERTS,
        .may = FEATURE_HEAD_NORMS | FEATURE_PARTIAL | FEATURE_QKV_BIAS},
    {"minimax_m2", "MiniMaxM2ForCausalLM", .max_positions = 196608, .head_dim = 128,
        .theta = 5000000, .flags = FAMILY_PARTIAL | FAMILY_RUNS,
        .always = FEATURE_EXPERTS | FEATURE_WHOLE_NORMS, .may = FEATURE_PARTIAL},
    {"flex_olmo", "FlexOlmoForCausalLM", .max_positions = 4096, .theta = 500000,
        .flags = FAMILY_RUNS,
        .always = FEATURE_EXPERTS | FEATURE_NORMS_AFTER | FEATURE_WHOLE_NORMS},
    {"exaone_moe", "ExaoneMoeForCausalLM", .max_positions = 2048, .theta = 10000, .window = 4096,
        .period = 4, .period_key = "sliding_window_pattern",
        .layer_keys = "sliding_window_pattern layer_types",
        .flags = FAMILY_NEW | FAMILY_BARE_FULL | FAMILY_RUNS,
        .always = FEATURE_EXPERTS | FEATURE_HEAD_NORMS, .may = FEATURE_WINDOW},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", .max_positions = 202752, .still = 192,
        .turning = 64, .theta = 10000, .flags = FAMILY_NEW | FAMILY_RUNS | FAMILY_LATENT,
        .always = FEATURE_EXPERTS},
    {"deepseek_v2", "DeepseekV2ForCausalLM", .max_positions = 2048, .still = 128, .turning = 64,
        .theta = 10000, .flags = FAMILY_RUNS | FAMILY_LATENT, .always = FEATURE_EXPERTS},
    {"deepseek_v3", "DeepseekV3ForCausalLM", .max_positions = 4096, .still = 128, .turning = 64,
        .theta = 10000, .flags = FAMILY_RUNS | FAMILY_LATENT, .always = FEATURE_EXPERTS},
    {"mistral4", "Mistral4ForCausalLM", .max_positions = 1048576, .still = 64, .turning = 64,
        .theta = 10000,
        .block = "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 128.0, "
            "\"original_max_position_embeddings\": 8192, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
            "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}",
        .flags = FAMILY_NEW | FAMILY_GROWS | FAMILY_RUNS | FAMILY_LATENT,
        .always = FEATURE_EXPERTS | FEATURE_TEMPERATURE},
    {"gemma4_text", "Gemma4ForCausalLM", .max_positions = 131072, .head_dim = 256,
        .global_head_dim = 512, .theta = 1000000, .local_theta = 10000, .window = 512, .period = 6,
        .layer_keys = "layer_types", .aliases = "gemma4_unified_text",
        .block = "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25}",
        .flags = FAMILY_BY_TYPE | FAMILY_NEW | FAMILY_NO_SCALING | FAMILY_PARTIAL | FAMILY_PROPORTIONAL,
        .engines = engines_of_gemma4_text},
    {"laguna", "LagunaForCausalLM", .max_positions = 131072, .head_dim = 128, .theta = 500000,
        .local_theta = 10000, .window = 512, .period = 4, .layer_keys = "layer_types",
        .flags = FAMILY_BY_TYPE | FAMILY_NEW | FAMILY_NO_SCALING | FAMILY_FULL_FIRST | FAMILY_PARTIAL,
        .engines = engines_of_laguna},
    {"cohere2", "Cohere2ForCausalLM", .max_positions = 8192, .theta = 10000, .window = 4096,
        .period = 4, .period_key = "sliding_window_pattern",
        .layer_keys = "sliding_window_pattern layer_types", .flags = FAMILY_BARE_FULL,
        .engines = engines_of_cohere2},
    {"qwen3_5_text", "Qwen3_5ForCausalLM", .max_positions = 32768, .head_dim = 256, .theta = 10000,
        .period = 4, .partial = 0.25, .period_key = "full_attention_interval",
        .layer_keys = "layer_types",
        .flags = FAMILY_NEW | FAMILY_LINEAR | FAMILY_PARTIAL | FAMILY_RUNS | FAMILY_SECTIONS,
        .always = FEATURE_HEAD_NORMS, .may = FEATURE_PARTIAL, .engines = engines_of_qwen3_5_text},
    {"qwen3_next", "Qwen3NextForCausalLM", .max_positions = 32768, .head_dim = 256, .theta = 10000,
        .period = 4, .partial = 0.25, .period_key = "full_attention_interval",
        .layer_keys = "layer_types", .flags = FAMILY_LINEAR | FAMILY_PARTIAL | FAMILY_RUNS,
        .always = FEATURE_EXPERTS | FEATURE_HEAD_NORMS, .may = FEATURE_PARTIAL},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", .max_positions = 32768, .head_dim = 256,
        .theta = 10000, .period = 4, .partial = 0.25, .period_key = "full_attention_interval",
        .layer_keys = "layer_types",
        .flags = FAMILY_NEW | FAMILY_LINEAR | FAMILY_PARTIAL | FAMILY_RUNS | FAMILY_SECTIONS,
        .always = FEATURE_EXPERTS | FEATURE_HEAD_NORMS, .may = FEATURE_PARTIAL},
    {"lfm2", "Lfm2ForCausalLM", .max_positions = 128000, .theta = 1000000,
        .layer_keys = "layer_types", .flags = FAMILY_RUNS, .always = FEATURE_HEAD_NORMS},
};

// Models of pictures and text; inside is NULL where it may be one of several families.
static const FamilyWrapper wrappers[] = {
    {"mistral3", "Mistral3ForConditionalGeneration", NULL},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text"},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text"},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", "gemma4_text"},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text"},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"},
    {"lfm2_vl", "Lfm2VlForConditionalGeneration", "lfm2"},
};
