// Differences of llama.cpp and ik_llama.cpp from Hugging Face 5, through GGUF files.
// tests/engines/README.md has the sources.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "engine_rules.h"

void engine_prepare_gguf(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    reading_unseen(c, reading_is_on(json_member(c->config, key_of_chunks)));
    bool has_null = scaling && scaling->kind == 'n' && !json_member(c->config, "rope_parameters");
    if (c->layout == BY_TYPE) c->layout = FULL_ONLY;
    reading_unseen(c, reading_does(c, DOES_NULL_BLOCK_UNSEEN) && has_null);
    if (reading_does(c, DOES_LAYERS_BY_DEFAULT)) reading_read_layers(c, false);
}

// Whether transformers 5 reads the config for the converter.
static bool stands_on_5(const Config *c) {
    return c->as->transformers >= 5 && c->as->transformers < 1e9;
}

void engine_prepare_llama_cpp(Config *c) {
    if (reading_does(c, DOES_READS_ALPHA)) c->flags |= READS_ALPHA;
    if (!stands_on_5(c)) {
        c->flags |= TYPE_FIRST;
        engine_prepare_gguf(c);
        return;
    }
    c->flags &= ~(unsigned)PARAMETERS_FIRST;
    reading_unseen(c, reading_is_on(json_member(c->config, key_of_chunks)));
}

// Refusals and changes of a config by transformers 5, before the converter.
static void read_by_5(Config *c) {
    const bool is_pasted = reading_is_on(json_member(c->config, "rope_scaling"));
    config_refuse(c, c->family->flags & FAMILY_NO_SCALING && is_pasted, "KeyError: full_attention");
    if (c->type == TYPE_LLAMA3 && !c->inside) c->rope->train_ctx = c->trained;
    const bool is_own = c->block == AT_SCALING || c->block == AT_PARAMETERS;
    const bool is_inside = json_member(c->config, "text_config") && !is_own;
    reading_switch_off(c, is_inside, "text_config's rope_scaling is not read");
    if (c->layout == BY_TYPE && c->kind == KIND_SLIDING)
        reading_switch_off(c, true, "a sliding layers' block is not converted");
}

// The GGUF file, for example Ministral 3's, keeps the betas, and mscale_all_dim, by which its
// attention factor is divided.
static void load_told_yarn(Config *c) {
    const double grows = rope_yarn_growth(c->rope->factor);
    const double all = config_block_number(c, KEY_MSCALE_ALL_DIM, 0);
    config_refuse(c, c->type != TYPE_YARN, "AssertionError: rope_type is not yarn");
    config_refuse(c, c->type == TYPE_YARN && !config_member(c, KEY_MSCALE_ALL_DIM),
                  "KeyError: mscale_all_dim");
    config_refuse(c, c->type == TYPE_YARN && !config_member(c, KEY_LLAMA_4_SCALING_BETA),
                  "KeyError: llama_4_scaling_beta");
    c->rope->beta_fast = config_block_number(c, KEY_BETA_FAST, 0);
    c->rope->beta_slow = config_block_number(c, KEY_BETA_SLOW, 0);
    reading_multiply_by(c, (grows + 1) / (grows * all + 1));
    config_find_growth(c);
}

// The converter knows only three values for the score function of experts.
static void refuse_gating(Config *c) {
    static const char *const keys[] = {"score_function",        "scoring_func",
                                       "score_func",            "moe_router_activation",
                                       "moe_router_activation_func", "expert_selection_fn"};
    const Json *word = NULL;
    for (int i = 0; i < 6 && !word; i++) word = json_member(c->config, keys[i]);
    config_refuse(c, word && word->string && !json_is_one_of(word, "sigmoid softmax sqrtsoftplus"),
                  "ValueError: Unsupported expert score gating function value");
}

// A block that is no object cannot be written. Gemma 4's class knows one type.
static void refuse_strange_block(Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    const Json *block = parameters ? parameters : json_member(c->config, "rope_scaling");
    const bool is_gemma4 = c->family->global_head_dim && c->kind == KIND_FULL;
    config_refuse(c, config_is_something(block) && !json_is_object(block),
                  "TypeError: the block is no object");
    config_refuse(c, is_gemma4 && reading_is_typed(c) && c->type != TYPE_PROPORTIONAL,
                  "AssertionError: rope_type is not proportional");
}

// A rope_type that is null or a list has no lower(), which some classes call.
static void refuse_strange_type(Config *c) {
    const Json *name = c->rope_type_member ? c->rope_type_member : c->type_member;
    const bool asks = c->family->flags & FAMILY_GGUF_DIVISORS || c->longrope_alone;
    const bool is_null = name && name->kind == 'n' && asks && c->type == TYPE_UNKNOWN;
    config_refuse(c, is_null || (name && name->kind == '['),
                  "AttributeError: rope_type has no 'lower'");
}

// The graph of latent attention multiplies scores by mscale_all_dim, as transformers does, and
// rotates without an attention factor. llama.cpp's factor without that key was not run.
static void load_latent_yarn(Config *c) {
    const bool is_told = config_block_number(c, KEY_MSCALE_ALL_DIM, 0) != 0;
    if (c->type != TYPE_YARN || !(c->family->flags & FAMILY_LATENT)) return;
    reading_unseen(c, !is_told && c->as->out->row == ENGINE_LLAMA_CPP);
    reading_multiply_by(c, 1);
    c->as->why_attention = "its graph rotates without an attention factor";
}

// Hunyuan's alpha goes into theta, and the file is for 262,144 positions.
static void convert_alpha(Config *c) {
    if (!reading_does(c, DOES_READS_ALPHA) || c->type != TYPE_DYNAMIC) return;
    const bool is_expected = c->trained == 32768 || c->trained == 262144;
    config_refuse(c, c->rope->theta != 1e4 || !is_expected,
                  "AssertionError: HunYuan dynamic RoPE scaling assumptions changed");
    if (c->alpha <= 0) c->alpha = 50;
    config_take_alpha(c);
    reading_end_at(c, 262144, "that of Hunyuan's converter");
}

// Drops settings that are not written to the GGUF file, or not read back from it.
static void lose_block(Config *c) {
    const bool is_named = c->type_member || reading_has_rule(c, RULE_YARN_BY_EITHER);
    bool by_type = reading_does(c, DOES_YARN_BY_TYPE) && is_named;
    reading_switch_off(c, c->type == TYPE_UNKNOWN, "the rope_type is not known");
    reading_switch_off(c, c->type == TYPE_PROPORTIONAL && !reading_does(c, DOES_PROPORTIONAL),
                       "the rope_type is not known");
    const Json *factor = config_member(c, KEY_FACTOR);
    reading_switch_off(c, c->type == TYPE_LINEAR && (!factor || factor->kind == 'n'),
                       "there is no factor");
    if (c->type == TYPE_LLAMA3 && !factor) c->rope->factor = 8;
    const bool is_llama3 = c->type == TYPE_LLAMA3 && !(c->family->flags & FAMILY_GGUF_DIVISORS);
    reading_unseen(c, is_llama3 && reading_does(c, DOES_LLAMA3_UNSEEN));
    // llama3's divisors are tensors, which a class that writes no block may write all the same.
    if (c->type != TYPE_LLAMA3 || is_llama3) reading_lose_block(c);
    reading_switch_off(c,
                       c->longrope_alone && reading_has_rule(c, RULE_PHI3_BY_SCALING) &&
                           c->block == AT_PARAMETERS,
                       "its lists are looked for in rope_scaling alone");
    reading_switch_off(c,
                       c->longrope_alone && c->type == TYPE_LONGROPE &&
                           !config_is_something(config_member(c, KEY_LONG_FACTOR)),
                       "there is no long_factor");
    reading_switch_off(c, c->type == TYPE_DYNAMIC && c->alpha <= 0, "dynamic is not converted");
    reading_switch_off(c, c->type == TYPE_LONGROPE && !(c->family->flags & FAMILY_GGUF_LONGROPE),
                       "longrope's lists are not converted");
    config_refuse(c, c->type == TYPE_LLAMA3 && reading_does(c, DOES_LLAMA3_REFUSED),
                  "ValueError: Missing MODEL_TENSOR.ROPE_FREQS");
    reading_switch_off(c, is_llama3 && c->type == TYPE_LLAMA3, "llama3's divisors are not converted");
    reading_switch_off(c, c->type == TYPE_YARN && c->rope->factor == 0, "factor is not a number");
    reading_switch_off(c,
                       c->type == TYPE_YARN && reading_has_rule(c, RULE_YARN_BY_CLASS) && !by_type,
                       "yarn was not converted before December 2025");
}

// llama.cpp recognizes the EXAONE 4 with windows by its 64 layers. In a model of such a family with
// another number of layers all are full, and rotate.
static void lose_windows(Config *c) {
    ConfigLayers *layers = &c->as->out->layers;
    const int known = c->family->slides_with;
    if (!known || !layers->n_of[KIND_SLIDING] || layers->n == known) return;
    memset(layers->kinds, KIND_FULL, sizeof layers->kinds);
    layers->n_of[KIND_FULL] = layers->n;
    layers->n_of[KIND_SLIDING] = 0;
    snprintf(c->as->why_text, sizeof c->as->why_text,
             "windows are known by %d layers alone, and all layers turn", known);
    c->as->why_layers = c->as->why_text;
}

// Whether the block of full layers is present, and null.
static bool has_null_block(const Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    const Json *full = json_member(parameters, kind_keys[KIND_FULL]);
    return full && full->kind == 'n';
}

// Each slot of its server ends at the file's length, for any context (without YaRN by flags).
static void limit_slot(Config *c) {
    Reading *out = c->as->out;
    if (out->served > 0 && out->served < out->max_len)
        reading_end_at(c, out->served, "the server's context");
    else reading_end_at(c, out->max_len, "a slot of llama-server ends at the file's length");
}

// llama.cpp through its converter.
void engine_llama_cpp(Config *c) {
    convert_alpha(c);
    limit_slot(c);
    if (!(c->family->flags & FAMILY_PARTIAL)) c->partial = 1;
    else c->partial = config_block_number(c, KEY_PARTIAL_ROTARY_FACTOR, c->partial);
    c->as->why_share = "that of rope_parameters";
    if (c->type == TYPE_PROPORTIONAL) c->rope->factor = 1;
    if (reading_does(c, DOES_MILLION)) c->as->out->max_len = 1 << 20;
    if (reading_does(c, DOES_THETA_FIXED)) {
        c->rope->theta = c->as->own->theta;
        c->as->why_theta = "theta is not converted";
    }
    // Of theta beside a block that the class has for itself transformers 4 and 5 think differently.
    const bool is_of_class = c->block == AT_CLASS_FULL && config_member(c, KEY_ROPE_THETA);
    reading_unseen(c, !stands_on_5(c) && is_of_class && json_member(c->config, "rope_theta"));
    if (stands_on_5(c)) read_by_5(c);
    else
        config_refuse(c, has_null_block(c),
                      "AttributeError: 'NoneType' object has no attribute 'get'");
    config_refuse(c, reading_flat_block(c), "KeyError: full_attention");
    refuse_gating(c);
    refuse_strange_block(c);
    refuse_strange_type(c);
    lose_block(c);
    if (c->as->has_no_theta) c->rope->theta = 1e4;
    config_refuse(c,
                  c->type == TYPE_YARN && !config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS) &&
                      !c->top && !stands_on_5(c),
                  "KeyError: original_max_position_embeddings");
    const bool has_null = config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS) && !c->inside;
    if (c->type == TYPE_YARN && !c->inside && c->top && !stands_on_5(c))
        c->rope->train_ctx = has_null ? c->trained : c->top;
    if (reading_does(c, DOES_YARN_TOLD)) load_told_yarn(c);
    load_latent_yarn(c);
    lose_windows(c);
    if (c->type == TYPE_LLAMA3 && reading_has_rule(c, RULE_LLAMA3_BESIDE))
        c->rope->train_ctx = c->top ? c->top : 8192;
    if (c->type != TYPE_LONGROPE) return;
    if (c->was_yarn)
        reading_multiply_by(c, rope_yarn_growth((double)c->trained / c->rope->train_ctx) + 1);
    reading_choose_list(c, c->as->served > c->rope->train_ctx, "by the context, not the text");
}

// Differences of ik_llama.cpp's graphs for the same file.
static void change_graph(Config *c) {
    if (reading_does(c, DOES_SLIDING_BASE_FIXED) && c->kind == KIND_SLIDING) {
        c->rope->theta = c->family->local_theta;
        c->as->why_theta = "the sliding layers' base is a constant";
    }
    if (!reading_does(c, DOES_MULTIPLIES_AGAIN)) return;
    reading_multiply_by(c, rope_yarn_growth(c->rope->factor) + 1);
    c->as->why_attention = "ggml multiplies by it again";
    c->rope->temperature_early = 1;
}

// ik_llama.cpp, a fork of llama.cpp: the same files, but its own graphs.
void engine_ik_llama_cpp(Config *c) {
    c->as->transformers = 4.57;
    engine_llama_cpp(c);
    change_graph(c);
}

// ---- a file by its own keys ----

// Copies longrope's lists into the reading, and chooses one of them by the context.
static void take_file_lists(Config *c) {
    RopeConfig *r = c->rope;
    Reading *out = c->as->out;
    const bool is_long = c->as->served > r->train_ctx;
    const size_t size = (size_t)r->rotary_dim / 2 * sizeof *out->long_factors;
    memcpy(out->long_factors, r->long_factors, size);
    memcpy(out->short_factors, r->short_factors, size);
    r->short_factors = r->long_factors = is_long ? out->long_factors : out->short_factors;
    c->type = TYPE_LONGROPE;
    c->as->why_list = "by the context, not the text";
}

// attn_factor multiplies the method's effect on attention, in sliding layers of most graphs, too;
// and yarn's own factor is divided by a multiplier in the files that have one. yarn_attn_factor is
// not read.
static void multiply_by_file(Config *c, const GgufFile *file) {
    RopeConfig *r = c->rope;
    Reading *out = c->as->out;
    const bool is_bare = c->kind == KIND_SLIDING && c->family->flags & FAMILY_GGUF_BARE_SLIDING;
    const double grows = rope_yarn_growth(r->factor);
    const double told = c->family->flags & FAMILY_GGUF_TELLS_YARN ? file->log_multiplier : 0;
    const double a = is_bare ? 1 : file->attn_factor;
    if (r->method == ROPE_YARN) {
        reading_multiply_by(c, a * (grows + 1) / (grows * told + 1));
    } else if (a != 1 && (r->method == ROPE_NONE || r->method == ROPE_LINEAR)) {
        // Methods without a factor of attention: a list of equal divisors has one.
        for (int i = 0; i < r->rotary_dim / 2; i++) out->long_factors[i] = fmax(r->factor, 1);
        r->method = ROPE_LONGROPE;
        r->short_factors = r->long_factors = out->long_factors;
        reading_take_divisors(c, a);
    }
    c->as->why_attention = "rope.scaling.attn_factor multiplies";
}

void engine_gguf_file(Config *c, const GgufFile *file) {
    Reading *out = c->as->out;
    RopeConfig *r = c->rope;
    c->type = TYPE_PLAIN;
    c->why_plain = NULL;
    c->trained = file->context;
    c->as->served = out->served ? out->served : file->context;
    *r = *file->rope[c->kind];
    reading_end_at(c, file->context, "context_length");
    limit_slot(c);
    lose_windows(c);
    if (r->method == ROPE_LONGROPE) take_file_lists(c);
    if (!(c->family->flags & FAMILY_LATENT)) multiply_by_file(c, file);
    if (r->method == ROPE_YARN && !(c->family->flags & FAMILY_GGUF_TELLS_YARN)) {
        r->beta_fast = r->beta_slow = 0;
        c->as->why_betas = "rope.scaling.yarn_beta_fast and yarn_beta_slow are not read";
    }
    r->truncate = true;
    c->as->why_truncate = "the ramp is always rounded";
    if (out->row == ENGINE_IK_LLAMA_CPP) change_graph(c);
}
