// Differences of vLLM from Hugging Face 5. tests/engines/README.md has the sources.
#include <math.h>
#include <stdio.h>

#include "../configs/json.h"
#include "../rope_settings.h"
#include "engine_rules.h"

// ---- on transformers 4 ----

// On transformers 4 vLLM reads the block itself: up to 0.11 rope_scaling, with L in it, from 0.12 on
// rope_parameters, too.
static void prepare_vllm_on_4(Config *c) {
    c->flags &= ~(unsigned)THROUGH_HF5;
    if (reading_has_rule(c, RULE_SCALING_ONLY)) c->flags |= SCALING_ONLY | L_OF_BLOCK;
    // Verified only with the families that it knows, and whose layers are alike.
    reading_unseen(c, reading_is_new(c) || c->family->flags & FAMILY_NEW);
}

// The refusals of the block that vLLM reads itself.
static void refuse_on_4(Config *c) {
    const FamilyEngine *below = family_engine(c->family, engines[ENGINE_HF4].name);
    const bool by_class = below && below->does & DOES_THREE_KEYS;
    const bool is_scaling = c->block == AT_SCALING;
    const bool needs_length = config_type_has(c, TYPE_HAS_ORIGINAL) && !c->longrope_alone;
    reading_unseen(c, c->is_su && !c->longrope_alone);
    hf4_refuse_three_keys(c, by_class && is_scaling);
    config_refuse(c, c->block && !c->rope_type_member && !c->type_member,
                  "ValueError: no rope_type");
    config_refuse(c, c->type == TYPE_UNKNOWN || c->type == TYPE_PROPORTIONAL,
                  "ValueError: Unknown RoPE scaling type");
    config_refuse(c,
                  needs_length && !config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS) &&
                      !(c->top && !(c->flags & L_OF_BLOCK)),
                  "KeyError: original_max_position_embeddings");
    config_refuse(c, config_type_has(c, TYPE_NEEDS_FACTOR) && !config_member(c, KEY_FACTOR),
                  "KeyError: factor");
    config_refuse(c, c->type == TYPE_LLAMA3 && !reading_has_bounds(c),
                  "KeyError: low_freq_factor or high_freq_factor");
}

// If classes of transformers 4 have theta and a share of a head, these go before the block's.
static void vllm_on_4(Config *c) {
    static const KeyId share = KEY_PARTIAL_ROTARY_FACTOR;
    const bool has_share = c->family->flags & FAMILY_PARTIAL || config_beside(c, share);
    refuse_on_4(c);
    c->rope->theta = c->theta;
    c->as->why_theta = "transformers 4 has the one beside the block, or its class's";
    if (c->why_plain) c->as->why_theta = c->why_plain;
    if (!has_share) return;
    c->partial =
        config_number(c, AT_BESIDE, share, c->family->partial > 0 ? c->family->partial : 1);
    c->as->why_share = "transformers 4 has the one beside the block, or its class's";
}

// ---- refusals ----

// Whether vLLM finds two different types in `type` and `rope_type`.
static bool types_disagree(const Config *c) {
    if (!c->type_member || !c->rope_type_member) return false;
    if (!c->type_member->string) return true;
    return !json_is(c->rope_type_member, c->type_member->string) &&
           !(json_is(c->type_member, "su") && json_is(c->rope_type_member, "longrope")) &&
           !(json_is(c->type_member, "mrope") && json_is(c->rope_type_member, "default"));
}

static void refuse_by_vllm(Config *c) {
    const Json *factor = config_member(c, KEY_FACTOR);
    const Json *flat = server_flat_block(c);
    const bool has_theta = json_member(flat, "rope_theta");
    const bool is_pasted = flat && !has_theta && !json_member(c->config, "rope_theta");
    bool has_betas = config_member(c, KEY_BETA_FAST) && config_member(c, KEY_BETA_SLOW);
    server_refuse_flat_llama3(c);
    if (!server_stands_on_4(c)) hf_refuse_by_classes(c);
    config_refuse(c,
                  c->type == TYPE_PLAIN && factor && factor->kind == 'n' &&
                      reading_has_rule(c, RULE_NULL_FACTOR),
                  "TypeError: factor is null");
    config_refuse(c, is_pasted,
                  "TypeError: no rope_theta, since rope_scaling replaces rope_parameters");
    config_refuse(c, reading_does(c, DOES_FOUR_KEYS) && !has_betas,
                  "KeyError: beta_fast or beta_slow");
    config_refuse(c, types_disagree(c), "ValueError: type and rope_type disagree");
    config_refuse(c, c->is_mrope && !config_member(c, KEY_MROPE_SECTION),
                  "AssertionError: mrope_section");
    config_refuse(
        c, c->chunks,
        "TypeError: no attention backend takes layer_idx, with dual_chunk_attention_config");
}

// Refuses configs of Qwen's classes in which some layers slide and others do not.
static void refuse_some_that_slide(Config *c) {
    const ConfigLayers *layers = &c->as->out->layers;
    const bool is_qwen = c->family->slides == SLIDES_SOME_BY_FLAG && !c->family->no_rope_each;
    const bool are_mixed = layers->n_of[KIND_SLIDING] > 0 && layers->n_of[KIND_FULL] > 0;
    double first = c->family->max_window_layers;
    json_number(json_member(c->config, "max_window_layers"), &first);
    config_refuse(c, is_qwen && are_mixed && first != layers->n,
                  "AssertionError: Sliding window for some but all layers is not supported");
}

// The classes that transformers' newer configs stop.
static void refuse_by_vllm_classes(Config *c) {
    static const double heads_by_layer = 5.13;  // a release of transformers
    const bool is_one_head = reading_has_rule(c, RULE_ONE_HEAD) && c->family->global_head_dim;
    const bool is_own = reading_has_rule(c, RULE_OWN_OLMO3) && reading_does(c, DOES_OWN_CLASS);
    config_refuse(c, is_one_head && c->as->transformers > heads_by_layer - 1e-9,
                  "AmbiguousGlobalPerLayerAttributeError: head_dim");
    config_refuse(c, is_own && !hf_has_one_block(c), "KeyError: rope_theta");
}

// Whether the sections of a block do not add up to the pairs that rotate.
static bool sections_are_wrong(const Config *c) {
    const Json *sections = config_member(c, KEY_MROPE_SECTION);
    const int by_share = (int)(c->rope->rotary_dim * c->partial);
    const int n = (c->own_rotary_dim ? c->own_rotary_dim : by_share) / 2;
    double sum = 0, x;
    for (const Json *v = json_items(sections); v; v = v->next) sum += json_number(v, &x) ? x : 0;
    return json_items(sections) && sum != n;
}

// ---- the length of texts ----

// Finds the factor of a block whose type lengthens texts. False if there is none.
static bool find_longer(Config *c, const Json *block, double *factor) {
    const RopeType type = server_block_type(c, block);
    const bool lengthens = type_rows[type].flags & TYPE_EXTENDS_MOST || type == TYPE_PROPORTIONAL;
    return lengthens && json_number(json_member(block, "factor"), factor);
}

// In families with blocks for kinds of layers, the last one with a factor counts, or the one block
// for all, even if the class does not read it.
static double factor_of_kinds(Config *c) {
    const Json *kinds = json_member(c->config, "rope_parameters");
    double factor = 1;
    for (const Json *v = reading_is_typed(c) ? json_members(kinds) : NULL; v; v = v->next)
        find_longer(c, v, &factor);
    if (!reading_is_typed(c)) find_longer(c, kinds, &factor);
    return factor;
}

// The end of texts before a factor counts: the smallest value of nine keys, unless model_max_length
// has one.
static int length_of_vllm(const Config *c, const char **key) {
    static const char *const keys[] = {"n_positions",         "max_seq_len",    "seq_length",
                                       "max_target_positions", "max_sequence_length",
                                       "max_seq_length",      "seq_len"};
    static const char *const own[] = {"model_max_length", NULL};
    const int told = reading_length_of(c, own, key);
    int least = c->trained;
    if (told) return told;
    *key = "max_position_embeddings";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *const one[] = {keys[i], NULL}, *found = NULL;
        const int length = reading_length_of(c, one, &found);
        if (!found || length >= least) continue;
        least = length;
        *key = found;
    }
    return least;
}

// That length, times the factor of some types; Gemma 3's is never multiplied.
static void limit_vllm(Config *c) {
    const bool lengthens = c->type == TYPE_YARN && reading_has_rule(c, RULE_YARN_LENGTHENS);
    const bool is_multiplied =
        config_type_has(c, TYPE_EXTENDS_MOST) || c->type == TYPE_PROPORTIONAL;
    const char *key;
    const int most = length_of_vllm(c, &key);
    reading_end_at(c, most, key);
    // Since 0.22 the table of dynamic is as long as the trained length.
    const bool is_fixed = c->type == TYPE_DYNAMIC && c->alpha <= 0;
    if (is_fixed && !reading_has_rule(c, RULE_ONE_BASE)) c->as->out->n_rows = c->trained;
    if (reading_does(c, DOES_KEEPS_LENGTH)) return;
    if (lengthens)
        server_limit_by_factor(c, c->as->other == OTHER_NONE ? c->rope->train_ctx : most);
    else if (c->layout == BY_TYPE && json_members(json_member(c->config, "rope_parameters")))
        c->as->out->max_len = (int)fmin(fmax(most * factor_of_kinds(c), 1), MOST);
    else if (is_multiplied && !(c->kind == KIND_SLIDING && c->layout == BY_TYPE))
        server_limit_by_factor(c, most);
}

// Refuses a server's length above the config's, unless model_max_length covers it.
static void refuse_server_length(Config *c) {
    static const char *const own[] = {"model_max_length", NULL};
    const Reading *out = c->as->out;
    const char *key;
    char words[240];
    snprintf(words, sizeof words,
             "ValueError: User-specified max_model_len (%d) is greater than the derived "
             "max_model_len (%s=%d)",
             out->served, out->ends, out->max_len);
    config_refuse(c, out->served > out->max_len && out->served > reading_length_of(c, own, &key),
                  words);
}

// ---- methods ----

// One base, since 0.22 the unscaled one.
static void vllm_dynamic(Config *c) {
    double s = c->rope->factor;
    double known = fmax(config_block_number(c, KEY_MAX_TRAINED_POSITIONS, c->trained), 1);
    server_fix_base(c, reading_has_rule(c, RULE_ONE_BASE) ? s * s - s + 1
                                                          : s * c->trained / known - (s - 1));
}

// The list follows the length of the server's start, by default L of the top level.
static void vllm_longrope(Config *c) {
    const int top = c->top ? c->top : c->family->original ? c->family->original : c->trained;
    const int most = c->as->out->served ? c->as->out->served : top;
    const bool by_server = reading_has_rule(c, RULE_LIST_BY_SERVER);
    const bool is_long = (by_server ? most : c->as->length) > c->rope->train_ctx;
    if (by_server) reading_end_at(c, most, "longrope's original_max_position_embeddings by default");
    if (by_server) reading_choose_list(c, is_long, "by max_model_len");
    server_mscale(c, is_long);
}

// The type ntk: theta s^(-2(i + 1)/d) times as fast.
static void vllm_ntk(Config *c) {
    const double s = c->rope->factor, mixed = reading_own_number(c, "mixed_b", 0);
    const int by_share = (int)(c->rope->rotary_dim * c->partial);
    const int n = (c->own_rotary_dim ? c->own_rotary_dim : by_share) / 2;
    for (int i = 0; i < n && i < ROPE_MAX_PAIRS; i++) {
        const double grown = mixed > 0 ? log(s) * pow((i + 1.0) / n, mixed) : log(s) * (i + 1) / n;
        c->as->out->long_factors[i] = exp(grown);
    }
    reading_take_divisors(c, 1);
}

// On transformers before 5.17 vLLM puts the share beside a block into it.
static void share_beside(Config *c) {
    static const KeyId key = KEY_PARTIAL_ROTARY_FACTOR;
    const Json *beside = config_beside(c, key);
    if (!beside || beside->kind == 'n' || server_stands_on_4(c) || c->layout == BY_TYPE) return;
    if (reading_has_rule(c, RULE_SHARE_INSIDE)) return;
    c->partial = config_number(c, AT_BESIDE, key, 1);
    c->as->why_share = "that beside the block";
}

// ---- the engine ----

// vLLM takes a layer type's block, else the whole one, from transformers' reading of the config.
void engine_prepare_vllm(Config *c) {
    if (server_stands_on_4(c)) prepare_vllm_on_4(c);
    const bool is_own = reading_has_rule(c, RULE_OWN_OLMO3) && reading_does(c, DOES_OWN_CLASS);
    if (server_flat_block(c)) c->layout = ONE_BLOCK;
    if (hf_has_one_block(c) && !reading_is_typed(c)) c->layout = is_own ? FULL_ONLY : ONE_BLOCK;
    if (hf_has_one_block(c) && c->as->own) c->theta = c->as->own->theta;
    bool has_chunks = reading_is_on(json_member(c->config, key_of_chunks));
    reading_unseen(c, has_chunks && c->as->out->release < 0.24);
    reading_unseen(c, server_has_no_chunks(c));
}

void engine_vllm(Config *c) {
    // Values that are no number were tried if these keys are read, from 0.30 on.
    static const KeyId keys[] = {KEY_ATTENTION_FACTOR, KEY_MSCALE, KEY_MSCALE_ALL_DIM};
    for (int i = 0; i < 3 && !reading_has_rule(c, RULE_ATTENTION_FACTOR); i++) {
        const Json *v = config_member(c, keys[i]);
        reading_unseen(c, v && (v->kind == '[' || v->kind == '"'));
    }
    if (server_stands_on_4(c)) vllm_on_4(c);
    reading_unseen(c, server_loses_width(c));
    refuse_by_vllm_classes(c);
    refuse_by_vllm(c);
    refuse_some_that_slide(c);
    limit_vllm(c);
    refuse_server_length(c);
    const double width =
        reading_has_rule(c, RULE_ROPE_DIM) ? reading_own_number(c, "rope_dim", 0) : 0;
    if (width > 0) c->own_rotary_dim = (int)width;
    if (server_is_of_transformers(c)) {
        engine_hf5(c);
        return;
    }
    share_beside(c);
    const bool has_sections = c->type == TYPE_PLAIN || c->type == TYPE_YARN;
    config_refuse(c, has_sections && !server_drops_sections(c) && sections_are_wrong(c),
                  "AssertionError: the sum of mrope_section is not the number of pairs");
    if (c->as->other == OTHER_NTK && !c->stopped) vllm_ntk(c);
    if (c->as->other == OTHER_TELECHAT && c->inside && reading_has_rule(c, RULE_ATTN_FACTOR))
        c->rope->factor = (double)c->trained / c->inside;
    if (c->type == TYPE_PROPORTIONAL) c->rope->factor = 1;
    c->as->why_grows = "no llama_4_scaling at the top level";
    if (server_flat_block(c) && reading_does(c, DOES_SLIDING_BASE_FIXED) &&
        c->kind == KIND_SLIDING) {
        c->rope->theta = c->family->local_theta;
        c->as->why_theta = "the sliding layers' base is a constant";
    }
    if (c->type == TYPE_DYNAMIC && c->alpha <= 0) vllm_dynamic(c);
    config_take_alpha(c);
    if (c->type == TYPE_YARN) server_yarn(c);
    if (c->type == TYPE_YARN) server_ramp(c);
    if (reading_has_rule(c, RULE_WHOLE_RAMP)) c->rope->truncate = true;
    if (c->type == TYPE_LONGROPE && !c->as->has_divisors) vllm_longrope(c);
}
