// Differences of ExLlamaV2 from Hugging Face 5. tests/engines/README.md has the sources.
#include <math.h>

#include "../configs/json.h"
#include "engine_rules.h"

static const char missing[] =
    "ValueError: Could not find a Llama's layers in model, loading it as one";

static bool is_a_number(const Json *v) {
    double x;
    return json_number(v, &x);
}

static bool is_gemma3_wrapper(const Config *c) {
    return c->config != c->whole && reading_is_class(c, exllamav2_of_two_bases);
}

// It has a separate theta for sliding layers only in Gemma 3's wrapper: any other class has one
// RoPE for all layers. A class that it does not know is loaded as a Llama.
void engine_prepare_exllamav2(Config *c) {
    c->theta = is_gemma3_wrapper(c) ? 1e6 : 1e4;
    if (c->layout == BY_TYPE) c->layout = ONE_BLOCK;
}

// A wrapper must be one of its classes; keys beside text_config take precedence over keys in it,
// which is unverified.
static void refuse_wrappers(Config *c) {
    static const char *const keys[] = {"rope_scaling", "rope_theta", "max_position_embeddings",
                                       "max_sequence_length", "partial_rotary_factor"};
    const Json *type = family_model_type(json_member(c->whole, "vision_config"));
    if (c->config == c->whole) return;
    config_refuse(c, !reading_is_class(c, exllamav2_wrappers), missing);
    config_refuse(c, json_is(family_model_type(c->whole), "llava") && !json_is(type, "pixtral"),
                  missing);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        reading_unseen(c, !c->stopped && config_is_something(json_member(c->whole, keys[i])));
}

// A Gemma 4 by itself has all of a Llama's layers, unless its keys are also its values. The result
// for the wider heads of its full layers is unverified.
static void refuse_gemma4(Config *c) {
    const Json *shares = json_member(c->config, "attention_k_eq_v");
    const bool is_gemma4 = c->family->global_head_dim, is_shared = shares && shares->kind == 't';
    config_refuse(c, is_gemma4 && is_shared, missing);
    reading_unseen(c, is_gemma4 && !is_shared && !c->stopped);
}

// The end of texts, and the length that yarn and longrope follow: the one of its start, by default
// one of these keys.
static void find_length(Config *c) {
    static const char *const keys[] = {"max_sequence_length", "model_max_length",
                                       "max_position_embeddings", "max_seq_len", "n_positions",
                                       NULL};
    const char *key = "max_position_embeddings";
    const int told = reading_length_of(c, keys, &key);
    reading_end_at(c, told ? told : 2048, key);
    if (c->as->out->served) reading_end_at(c, c->as->out->served, "max_seq_len");
    c->as->served = c->as->out->max_len;
}

// The keys that a block must have, and their forms.
static void refuse_exllamav2_blocks(Config *c) {
    const Json *factor = config_member(c, KEY_FACTOR);
    const Json *original = config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS);
    const bool is_yarn = c->type == TYPE_YARN, is_llama3 = c->type == TYPE_LLAMA3;
    const bool are_two = c->type_member && c->rope_type_member;
    config_refuse(c,
                  are_two && c->type_member->kind != 'n' && c->rope_type_member->kind != 'n',
                  "AssertionError: type and rope_type are both there");
    config_refuse(c, c->type == TYPE_LINEAR && !factor, "AssertionError: factor");
    config_refuse(c, (is_yarn || is_llama3) && !factor, "KeyError: factor");
    config_refuse(c, (is_yarn || is_llama3) && !original,
                  "KeyError: original_max_position_embeddings");
    config_refuse(c, is_llama3 && !reading_has_bounds(c),
                  "KeyError: low_freq_factor or high_freq_factor");
    config_refuse(c, c->type == TYPE_LONGROPE && !c->top,
                  "AssertionError: original_max_position_embeddings at the top level");
    config_refuse(c, is_yarn && original && original->kind == 'n',
                  "TypeError: original_max_position_embeddings is null");
    const bool is_on = !is_yarn || c->as->served > c->inside;
    const bool has_no_factor = is_yarn && is_on && !is_a_number(factor);
    // Layers that it does not know are missed before the factor is read.
    const bool is_refused = c->as->own && c->as->own->refuses;
    config_refuse(c, has_no_factor && !is_refused, "TypeError: factor is no number");
}

void engine_exllamav2(Config *c) {
    const Json *pattern = json_member(c->whole, "sliding_window_pattern");
    config_refuse(c, config_is_something(pattern) && !is_a_number(pattern),
                  "TypeError: sliding_window_pattern is not of expected type int");
    const Json *block = json_member(c->config, "rope_scaling");
    config_refuse(c, config_is_something(block) && block->kind != '{',
                  "TypeError: Value for rope_scaling is not of expected type <class 'dict'>");
    // Stable LM 2 12B has one norm for a layer.
    const Json *parallel = json_member(c->config, "use_parallel_residual");
    config_refuse(c, parallel && parallel->kind == 't', missing);
    find_length(c);
    refuse_exllamav2_blocks(c);
    refuse_wrappers(c);
    refuse_gemma4(c);
    c->partial = config_number(c, AT_BESIDE, KEY_PARTIAL_ROTARY_FACTOR, 1);
    c->as->why_share = "that beside the block";
    if (is_gemma3_wrapper(c) && c->kind == KIND_SLIDING) {
        c->rope->theta = c->family->local_theta;
        c->as->why_theta = "the sliding layers' base is a constant";
    } else {
        c->rope->theta = config_number(c, AT_BESIDE, KEY_ROPE_THETA, c->theta);
    }
    // The factor of linear is only for the full layers there; other types are for both kinds.
    reading_switch_off(c, is_gemma3_wrapper(c) && c->kind == KIND_SLIDING && c->type == TYPE_LINEAR,
                       "a factor is of full layers");
    reading_switch_off(c, c->type == TYPE_UNKNOWN || c->type == TYPE_DYNAMIC,
                       "the rope_type is not known");
    reading_switch_off(c,
                       c->type == TYPE_LINEAR && !is_a_number(config_member(c, KEY_FACTOR)),
                       "there is no factor");
    reading_switch_off(c, c->type == TYPE_YARN && c->as->served <= c->inside,
                       "max_seq_len does not exceed the original length");
    if (c->type == TYPE_YARN) c->rope->train_ctx = c->as->served;
    if (c->type != TYPE_LONGROPE) return;
    c->rope->train_ctx = c->top;
    c->rope->factor = fmax((double)c->as->served / fmax(c->top, 1), 1);
    reading_choose_list(c, c->as->served > c->top, "by max_seq_len");
}
