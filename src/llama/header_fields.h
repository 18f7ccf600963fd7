// The fields of a model file's header: what each is called, where it lies, and what it may be.
// header.c alone includes this table, and reads, checks and writes by it.
#pragma once

#include <float.h>

#include "model.h"

enum { MAGIC = 0x616b3432 };

// Larger than any released model, and small enough that the size of a tensor fits in 64 bits.
enum { MAX_WIDTH = 1 << 20, MAX_LAYERS = 1 << 16, MAX_HEADS = 1 << 14, MAX_VOCAB = 1 << 24 };
enum { MAX_EXPERTS = 1 << 12, MAX_SCALE = 1000000, MAX_CONV_WIDTH = 64 };

// The type of a field, by its bytes in the file. Of I32X8, a list, the first n_eos are in use.
typedef enum { U32 = 4, I32 = 4, F64 = 8, I32X8 = 32 } FieldType;

// Values of `high`: no limit, and limits that are known only at run time.
#define ANY DBL_MAX
enum { LAST_TOKEN = -1, LAST_METHOD = -2 };

typedef struct {
    const char *name;
    size_t offset;  // in the file
    FieldType type;
    double low, high;     // what it may be, both included
    size_t place, bytes;  // where it goes in a Model; of a list, its first element
} Field;

#define CONFIG(member) offsetof(Model, config.member), sizeof((Model *)0)->config.member
#define ROPE(member) offsetof(Model, rope.member), sizeof((Model *)0)->rope.member
#define SLIDING(member) offsetof(Model, sliding.member), sizeof((Model *)0)->sliding.member
#define N_FIELDS (sizeof fields / sizeof fields[0])

// Versions 3 to 6. In version 3 all bytes from V3_FIELDS on are 0. tests/test_format.py compares
// docs/format.md.
static const Field fields[] = {
    {"magic", 0, U32, MAGIC, MAGIC, CONFIG(magic)},
    {"version", 4, U32, 1, 6, CONFIG(version)},
    {"weight_type", 8, U32, 0, N_WEIGHT_TYPES - 1, CONFIG(weight_type)},
    {"group_size", 12, U32, 0, MAX_WIDTH, CONFIG(group_size)},
    {"dim", 16, U32, 1, MAX_WIDTH, CONFIG(dim)},
    {"hidden_dim", 20, U32, 1, MAX_WIDTH, CONFIG(hidden_dim)},
    {"n_layers", 24, U32, 1, MAX_LAYERS, CONFIG(n_layers)},
    {"n_heads", 28, U32, 1, MAX_HEADS, CONFIG(n_heads)},
    {"n_kv_heads", 32, U32, 1, MAX_HEADS, CONFIG(n_kv_heads)},
    {"head_dim", 36, U32, 2, ROPE_MAX_HEAD_DIM, CONFIG(head_dim)},
    {"vocab_size", 40, U32, 1, MAX_VOCAB, CONFIG(vocab_size)},
    {"seq_len", 44, U32, 1, MOST, CONFIG(seq_len)},
    {"shared_classifier", 48, U32, 0, 1, CONFIG(shared_classifier)},
    {"sliding_window", 52, U32, 0, MOST, CONFIG(sliding_window)},
    {"norm_eps", 56, F64, 0, 1, CONFIG(norm_eps)},
    {"bos_id", 64, I32, -1, LAST_TOKEN, CONFIG(bos_id)},
    {"n_eos", 68, U32, 0, MAX_EOS, CONFIG(n_eos)},
    {"eos_ids", 72, I32X8, 0, LAST_TOKEN, CONFIG(eos_ids[0])},
    {"rope_method", 104, U32, 0, LAST_METHOD, ROPE(method)},
    {"rope_dynamic", 108, U32, 0, 1, ROPE(dynamic)},
    {"theta", 112, F64, 0, ANY, ROPE(theta)},
    {"factor", 120, F64, 0, ANY, ROPE(factor)},
    {"train_ctx", 128, U32, 1, MOST, ROPE(train_ctx)},
    {"ramp", 132, U32, 0, ROPE_RAMP_TURNS, ROPE(ramp)},
    {"truncate", 136, U32, 0, 1, ROPE(truncate)},
    {"beta_fast", 144, F64, 0, ANY, ROPE(beta_fast)},
    {"beta_slow", 152, F64, 0, ANY, ROPE(beta_slow)},
    {"attention_factor", 160, F64, 0, ANY, ROPE(attention_factor)},
    {"mscale", 168, F64, 0, ANY, ROPE(mscale)},
    {"mscale_all_dim", 176, F64, 0, ANY, ROPE(mscale_all_dim)},
    {"low_freq_factor", 184, F64, 0, ANY, ROPE(low_freq_factor)},
    {"high_freq_factor", 192, F64, 0, ANY, ROPE(high_freq_factor)},
    {"n_longrope", 200, U32, 0, ROPE_MAX_PAIRS, CONFIG(n_longrope)},
    {"rotary_dim", 204, U32, 0, ROPE_MAX_HEAD_DIM, ROPE(rotary_dim)},
    {"qkv_bias", 208, U32, 0, 1, CONFIG(qkv_bias)},
    {"o_bias", 212, U32, 0, 1, CONFIG(o_bias)},
    {"qk_norm", 216, U32, 0, N_QK_NORMS - 1, CONFIG(qk_norm)},
    {"logn", 220, U32, 0, 1, ROPE(logn)},
    {"encoding", 224, U32, 0, N_ENCODINGS - 1, CONFIG(encoding)},
    {"unscaled_positions", 228, U32, 0, MOST, ROPE(unscaled_positions)},
    {"layer_table", 232, U32, 0, 1, CONFIG(has_layers)},
    {"type_table", 236, U32, 0, 1, CONFIG(has_types)},
    {"encoding_rows", 240, U32, 0, MAX_VOCAB, CONFIG(encoding_rows)},
    {"sliding_rope", 256, U32, 0, 1, CONFIG(sliding_rope)},
    {"sliding_method", 260, U32, 0, LAST_METHOD, SLIDING(method)},
    {"sliding_theta", 264, F64, 0, ANY, SLIDING(theta)},
    {"sliding_factor", 272, F64, 0, ANY, SLIDING(factor)},
    {"sliding_train_ctx", 280, U32, 0, MOST, SLIDING(train_ctx)},
    {"sliding_ramp", 284, U32, 0, ROPE_RAMP_TURNS, SLIDING(ramp)},
    {"sliding_truncate", 288, U32, 0, 1, SLIDING(truncate)},
    {"sliding_rotary_dim", 292, U32, 0, ROPE_MAX_HEAD_DIM, SLIDING(rotary_dim)},
    {"sliding_beta_fast", 296, F64, 0, ANY, SLIDING(beta_fast)},
    {"sliding_beta_slow", 304, F64, 0, ANY, SLIDING(beta_slow)},
    {"sliding_attention_factor", 312, F64, 0, ANY, SLIDING(attention_factor)},
    {"sliding_mscale", 320, F64, 0, ANY, SLIDING(mscale)},
    {"sliding_mscale_all_dim", 328, F64, 0, ANY, SLIDING(mscale_all_dim)},
    {"sliding_low_freq_factor", 336, F64, 0, ANY, SLIDING(low_freq_factor)},
    {"sliding_high_freq_factor", 344, F64, 0, ANY, SLIDING(high_freq_factor)},
    {"temperature_beta", 352, F64, 0, MAX_SCALE, ROPE(temperature_beta)},
    {"embedding_scale", 360, F64, 0, MAX_SCALE, CONFIG(embedding_scale)},
    {"score_scale", 368, F64, 0, MAX_SCALE, CONFIG(score_scale)},
    {"norm_place", 376, U32, 0, N_NORM_PLACES - 1, CONFIG(norm_place)},
    {"activation", 380, U32, 0, N_ACTIVATIONS - 1, CONFIG(activation)},
    {"n_experts", 384, U32, 0, MAX_EXPERTS, CONFIG(n_experts)},
    {"n_experts_used", 388, U32, 0, MAX_EXPERTS, CONFIG(n_experts_used)},
    {"expert_hidden_dim", 392, U32, 0, MAX_WIDTH, CONFIG(expert_hidden_dim)},
    {"router", 396, U32, 0, N_ROUTERS - 1, CONFIG(router)},
    {"router_bias", 400, U32, 0, 1, CONFIG(router_bias)},
    {"expert_bias", 404, U32, 0, 1, CONFIG(expert_bias)},
    {"attention_sinks", 408, U32, 0, 1, CONFIG(attention_sinks)},
    {"layer_shapes", 512, U32, 0, 1, CONFIG(has_shapes)},
    {"value_dim", 516, U32, 0, ROPE_MAX_HEAD_DIM, CONFIG(value_dim)},
    {"value_scale", 520, F64, 0, MAX_SCALE, CONFIG(value_scale)},
    {"value_norm", 528, U32, 0, 1, CONFIG(value_norm)},
    {"attention_gate", 532, U32, 0, N_GATES - 1, CONFIG(attention_gate)},
    {"layer_norm", 536, U32, 0, 1, CONFIG(layer_norm)},
    {"qk_norm_late", 540, U32, 0, 1, CONFIG(qk_norm_late)},
    {"qk_norm_turning", 544, U32, 0, 1, CONFIG(qk_norm_turning)},
    {"embedding_norm", 548, U32, 0, 1, CONFIG(embedding_norm)},
    {"residual_scale", 552, F64, 0, MAX_SCALE, CONFIG(residual_scale)},
    {"logit_scale", 560, F64, 0, MAX_SCALE, CONFIG(logit_scale)},
    {"logit_cap", 568, F64, 0, MAX_SCALE, CONFIG(logit_cap)},
    {"score_cap", 576, F64, 0, MAX_SCALE, CONFIG(score_cap)},
    {"after_norm_eps", 584, F64, 0, 1, CONFIG(after_norm_eps)},
    {"ffn_bias", 592, U32, 0, 1, CONFIG(ffn_bias)},
    {"attention_chunk", 596, U32, 0, MOST, CONFIG(attention_chunk)},
    {"temperature_unturned", 600, U32, 0, 1, ROPE(temperature_unturned)},
    {"temperature_length", 604, U32, 0, MOST, ROPE(temperature_length)},
    {"q_rank", 608, U32, 0, MAX_WIDTH, CONFIG(q_rank)},
    {"kv_rank", 612, U32, 0, ROPE_MAX_HEAD_DIM, CONFIG(kv_rank)},
    {"latent_norm_eps", 616, F64, 0, 1, CONFIG(latent_norm_eps)},
    {"mscale_in_scores", 624, U32, 0, 1, ROPE(mscale_in_scores)},
    {"layer_scale", 628, U32, 0, 1, CONFIG(layer_scale)},
    {"per_layer_dim", 632, U32, 0, 1 << 14, CONFIG(per_layer_dim)},
    {"experts_beside", 636, U32, 0, 1, CONFIG(experts_beside)},
    {"shared_hidden_dim", 640, U32, 0, MAX_WIDTH, CONFIG(shared_hidden_dim)},
    {"shared_gate", 644, U32, 0, 1, CONFIG(shared_gate)},
    {"router_choice_bias", 648, U32, 0, 1, CONFIG(router_choice_bias)},
    {"router_groups", 652, U32, 0, MAX_EXPERTS, CONFIG(router_groups)},
    {"router_groups_used", 656, U32, 0, MAX_EXPERTS, CONFIG(router_groups_used)},
    {"router_group_best", 660, U32, 0, 2, CONFIG(router_group_best)},
    {"router_scale", 664, F64, 0, MAX_SCALE, CONFIG(router_scale)},
    {"router_cap", 672, F64, 0, MAX_SCALE, CONFIG(router_cap)},
    {"router_renormalizes", 680, U32, 0, 1, CONFIG(router_renormalizes)},
    {"router_scales_input", 684, U32, 0, 1, CONFIG(router_scales_input)},
    {"state_kind", 688, U32, 0, N_STATES - 1, CONFIG(state_kind)},
    {"conv_width", 692, U32, 0, MAX_CONV_WIDTH, CONFIG(conv_width)},
    {"state_key_heads", 696, U32, 0, MAX_HEADS, CONFIG(state_key_heads)},
    {"state_value_heads", 700, U32, 0, MAX_HEADS, CONFIG(state_value_heads)},
    {"state_key_dim", 704, U32, 0, ROPE_MAX_HEAD_DIM, CONFIG(state_key_dim)},
    {"state_value_dim", 708, U32, 0, ROPE_MAX_HEAD_DIM, CONFIG(state_value_dim)},
    {"state_bias", 712, U32, 0, 1, CONFIG(state_bias)},
    {"gate_bias", 716, U32, 0, 1, CONFIG(gate_bias)},
    {"state_tiled", 720, U32, 0, 1, CONFIG(state_tiled)},
};
