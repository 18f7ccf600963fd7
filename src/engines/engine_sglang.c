// Differences of SGLang from Hugging Face 5. tests/engines/README.md has the sources.
#include <math.h>
#include <stdio.h>

#include "../configs/json.h"
#include "../rope_settings.h"
#include "engine_rules.h"

// SGLang's own config class of OLMo 3 has only rope_scaling.
void engine_prepare_sglang(Config *c) {
    if (reading_does(c, DOES_TAKES_TEXT_CONFIG)) c->flags &= ~(unsigned)SERVES;
    reading_unseen(c, server_has_no_chunks(c));
    if (reading_does(c, DOES_FLAT_BY_KIND) && server_flat_block(c)) c->layout = ONE_BLOCK;
    if (!reading_does(c, DOES_SCALING_ALONE)) return;
    c->layout = FULL_ONLY;
    c->flags |= SCALING_ONLY;
}

// SGLang's settings by layer.
static void sglang_layers(Config *c) {
    bool is_full = c->kind == KIND_FULL;
    bool is_pasted = reading_does(c, DOES_PASTED_TURNS_ALL) &&
                     reading_is_on(json_member(c->config, "rope_scaling"));
    if (!reading_does(c, DOES_SCALING_ALONE)) hf_refuse_by_classes(c);
    reading_lose_block(c);
    if (reading_does(c, DOES_FLAT_BY_KIND) && server_flat_block(c)) {
        const bool is_new = server_flat_block(c) != json_member(c->config, "rope_scaling");
        c->rope->theta = is_new ? 1e4 : config_number(c, AT_BESIDE, KEY_ROPE_THETA, 1e4);
        c->partial = 1;
        reading_switch_off(c, is_new || !is_full, "rope_scaling alone is read, of full layers");
    }
    if (reading_does(c, DOES_FULL_PLAIN) && is_full && !c->stopped)
        reading_switch_off(c, true, "full layers get no block");
    if (is_pasted && is_full) {
        c->type = TYPE_PLAIN;
        c->rope->theta = 1e4;
        c->partial = 1;
        config_note(c,
                    "all pairs turn, with a base of 10000: rope_scaling replaces rope_parameters");
    }
    if (c->type == TYPE_PROPORTIONAL) c->rope->factor = 1;
}

// The end of texts: the first of five keys, times the factor of a block for all layers that has no
// original length.
static void limit_sglang(Config *c) {
    static const char *const keys[] = {"max_sequence_length", "seq_length", "max_seq_len",
                                       "model_max_length", NULL};
    const char *key = "max_position_embeddings";
    const int told = reading_length_of(c, keys, &key), most = told ? told : c->trained;
    const Json *parameters = json_member(c->config, "rope_parameters");
    const bool by_kind = c->family->flags & FAMILY_BY_TYPE;
    reading_end_at(c, most, key);
    const Json *flat = json_is_object(parameters) && !reading_is_typed(c) ? parameters : NULL;
    const bool is_multiplied =
        config_type_has(c, TYPE_EXTENDS_MOST) || c->type == TYPE_PROPORTIONAL;
    const bool is_own = reading_does(c, DOES_SCALING_ALONE);  // a class of SGLang's own
    if (by_kind && flat && !is_own && !json_member(flat, "original_max_position_embeddings")) {
        const double factor = config_number(c, AT_PARAMETERS, KEY_FACTOR, 1);
        c->as->out->max_len = (int)fmin(fmax(most * factor, 1), MOST);
    } else if ((!by_kind || is_own) && is_multiplied && !c->inside) {
        server_limit_by_factor(c, most);
    }
    const Reading *out = c->as->out;
    char words[200];
    snprintf(words, sizeof words,
             "ValueError: User-specified context_length (%d) is greater than the derived "
             "context_length (%d: %s)",
             out->served, out->max_len, key);
    config_refuse(c, out->served > out->max_len, words);
}

// The share of a head follows the class: some read the key beside the block, some none.
static void share_sglang(Config *c) {
    static const KeyId share = KEY_PARTIAL_ROTARY_FACTOR;
    const Json *beside = config_beside(c, share), *inside = config_member(c, share);
    reading_unseen(c, beside && inside && c->family->flags & FAMILY_AXES);
    const bool is_read = reading_does(c, DOES_SHARE_BESIDE);
    const bool is_partial = c->family->flags & FAMILY_PARTIAL && !(is_read && !beside);
    if (is_partial || c->layout == BY_TYPE) return;
    c->partial = is_read ? config_number(c, AT_BESIDE, share, 1) : 1;
    if (is_read) c->as->why_share = "that beside the block";
}

// Most classes take L from the block, into which transformers put the longest text before it read a
// length beside it, unless its own class has a field for that.
static void original_sglang(Config *c) {
    const bool is_read = reading_does(c, DOES_ORIGINAL_BESIDE) || c->layout == BY_TYPE ||
                         reading_has_field(c, "original_max_position_embeddings");
    if (!c->top || is_read || !config_type_has(c, TYPE_HAS_ORIGINAL)) return;
    c->rope->train_ctx = c->inside ? c->inside : c->trained;
    c->as->why_length = "a length beside the block is not read";
}

// Queries grow each time that a text is as long again as the top level's L, or 16,384 positions.
static void grow_sglang(Config *c) {
    config_find_growth(c);
    if (c->rope->temperature_beta == 0) return;
    const int length = c->top ? c->top : 16384;
    if (length != c->rope->train_ctx) c->rope->temperature_length = length;
}

// SGLang. longrope's list follows the text, one token later than elsewhere. dynamic has one base.
void engine_sglang(Config *c) {
    double s = c->rope->factor;
    config_refuse(c, reading_does(c, DOES_SHIFTED) && reading_has_rule(c, RULE_SHIFTED),
                  "AttributeError: 'bool' object has no attribute 'items'");
    reading_unseen(c, server_loses_width(c));
    server_refuse_flat_llama3(c);
    config_refuse(c, c->is_mrope && !hf_renames_mrope(c),
                  "ValueError: Unknown RoPE scaling type mrope");
    config_refuse(c,
                  reading_has_rule(c, RULE_ONE_HEAD) && c->family->global_head_dim &&
                      c->config == c->whole,
                  "AmbiguousGlobalPerLayerAttributeError: num_key_value_heads");
    const Json *flat = json_member(c->config, "rope_parameters");
    const bool is_flat = json_is_object(flat) && !reading_is_typed(c);
    config_refuse(c,
                  is_flat && reading_does(c, DOES_SCALING_ALONE | DOES_OWN_CONFIG) &&
                      type_rows[server_block_type(c, flat)].flags & TYPE_HAS_ORIGINAL,
                  "AttributeError: no max_position_embeddings");
    limit_sglang(c);
    if (server_is_of_transformers(c)) {
        engine_hf5(c);
        return;
    }
    sglang_layers(c);
    if (c->layout != ONE_BLOCK || !server_flat_block(c)) share_sglang(c);
    original_sglang(c);
    grow_sglang(c);
    if (reading_does(c, DOES_THETA_FIXED)) {
        c->rope->theta = c->as->own->theta;
        c->as->why_theta = "its class looks for it where transformers 5 has none";
    }
    if (reading_does(c, DOES_THETA_BESIDE)) {
        c->rope->theta = config_number(c, AT_BESIDE, KEY_ROPE_THETA, c->as->own->theta);
        c->as->why_theta = "that of the block is not read";
    }
    if (c->rope->map)
        c->as->why_far =
            "far distances end at chunk_size, one later, and keys grow by 0.1 ln(n / L) + 1";
    if (c->type == TYPE_DYNAMIC && c->alpha <= 0) server_fix_base(c, s * s - s + 1);
    config_take_alpha(c);
    if (c->type == TYPE_YARN) server_yarn(c);
    if (c->type == TYPE_YARN) server_ramp(c);
    if (c->type != TYPE_LONGROPE) return;
    if (c->as->length == c->rope->train_ctx + 1)
        reading_choose_list(c, false, "the long one from L + 2 tokens on");
    server_mscale(c, c->as->length > c->rope->train_ctx + 1);
}
