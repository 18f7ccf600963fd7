// What engines do otherwise than Hugging Face 5. tests/engines/README.md has the sources.
#include "engines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../configs/json.h"
#include "../configs/rope_config.h"
#include "../rope_settings.h"
#include "reading.h"

// dynamic, in the engines where it does not follow the text: ntk with one factor for every length.
static void fix_base(Config *c, double factor) {
    c->rope->dynamic = false;
    c->rope->factor = fmax(factor, 1);
}

static void limit_by_factor(Config *c, int length) {
    double most = length * c->rope->factor;
    if (most > 0) c->as->out->max_len = (int)fmin(most, MOST);
}

static bool is_typed(const Config *c) {
    return config_has_type_blocks(c->family, json_member(c->config, "rope_parameters"));
}

// What transformers 5 is known to do with the family; NULL: nothing.
static const FamilyEngine *of_transformers(const Config *c) {
    return family_engine(c->family, engines[0].name);
}

// Whether transformers has one block for all layers, as it had for OLMo 3 until 5.13.
static bool has_one_block(const Config *c) {
    const FamilyEngine *below = of_transformers(c);
    return below && c->as->transformers < below->one_block_before;
}

// ---- Hugging Face ----

// With one block for all layers, its class had a theta of its own.
static void prepare_hf5(Config *c) {
    if (has_one_block(c)) c->layout = ONE_BLOCK;
    if (has_one_block(c)) c->theta = c->as->own->theta;
    reading_unseen(c, c->as->own && c->as->own->known > 0 &&
                          c->as->transformers >= c->as->own->known &&
                          c->as->transformers < c->as->own->since);
}

// Whether rope_parameters has a key of its own beside the blocks of kinds of layers.
static bool has_shared_keys(const Config *c) {
    const Json *v = json_members(json_member(c->config, "rope_parameters"));
    while (v && (v->kind == '{' || v->kind == 'n')) v = v->next;
    return v;
}

// What the classes of transformers 5 refuse, in all engines that use them.
static void refuse_by_classes(Config *c) {
    bool by_type = c->family->flags & FAMILY_BY_TYPE && !has_one_block(c);
    bool is_flat = reading_is_on(json_member(c->config, "rope_parameters")) && !is_typed(c) &&
                   c->kind == KIND_FULL;
    const FamilyEngine *below = of_transformers(c);
    double known = !below ? 0 : below->known > 0 ? below->known : below->since;
    if (below) config_refuse(c, below->before && c->as->transformers < known, below->before);
    config_refuse(c, by_type && is_flat && reading_has_rule(c, RULE_FLAT_BLOCK),
                  "KeyError: full_attention");
    config_refuse(c, by_type && is_flat && reading_is_on(json_member(c->config, "rope_scaling")),
                  "KeyError: full_attention");
    config_refuse(c, by_type && c->type == TYPE_YARN && reading_has_rule(c, RULE_YARN_BY_KIND),
                  "KeyError: original_max_position_embeddings, though it is there");
    config_refuse(c, reading_has_rule(c, RULE_SHARED_KEYS) && is_typed(c) && has_shared_keys(c),
                  "AttributeError: 'int' object has no attribute 'get'");
}

// What transformers 5 does without a word where each kind of layers has a block.
static void note_silence_by_type(Config *c) {
    const Json *truncate = config_member(c, "truncate");
    bool is_local = c->kind == KIND_SLIDING && c->family->theta == c->family->local_theta;
    if (c->type == TYPE_YARN && truncate && truncate->kind == 'f') {
        config_note(c, "truncate in a layer type's block is not read");
        c->rope->truncate = true;
    }
    if (!is_local || config_member(c, "rope_theta")) return;
    double local = c->family->local_theta;
    if (reading_number(c, c->config, "rope_theta", local) != local)
        config_note(c, "rope_theta is of full layers: %.12g in sliding ones", local);
}

// What transformers 5 does without a word.
static void note_silence(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    const Json *parameters = json_member(c->config, "rope_parameters");
    if (!c->rope_type_member && !c->type_member && config_member(c, "factor"))
        config_note(c, "no rope_type: nothing is scaled");
    if (c->block == scaling && json_member(parameters, "rope_theta") &&
        c->rope->theta == c->family->theta)
        config_note(c, "rope_scaling replaces rope_parameters: rope_theta is %.12g",
                    c->rope->theta);
    if (c->kind == KIND_FULL && c->layout == BY_TYPE && c->why_plain)
        config_note(c, "%s: it has no effect", c->why_plain);
    if (c->block == c->of_class[KIND_FULL] && reading_does(c, DOES_TELLS_BLOCK))
        config_note(c, "%s: YaRN of %.12g all the same",
                    scaling ? "rope_scaling is null" : "no rope_scaling", c->rope->factor);
    if (c->type == TYPE_LLAMA3 && c->rope->low_freq_factor == c->rope->high_freq_factor)
        config_note(c, "low_freq_factor is high_freq_factor, with a warning: a step, no ramp");
    if (c->layout == BY_TYPE) note_silence_by_type(c);
}

// Whether there is a share of a head that the family's class does not know: it turns all of it.
static bool loses_share(const Config *c) {
    return c->partial != 1 && !(c->family->flags & FAMILY_PARTIAL) && c->type != TYPE_PROPORTIONAL;
}

// transformers 5. rope_parameters has theta, too. rope_scaling wins where there are both.
static void hf5(Config *c) {
    bool grows = c->family->flags & FAMILY_GROWS, no_scaling = c->family->flags & FAMILY_NO_SCALING;
    bool is_flat = reading_is_on(json_member(c->config, "rope_parameters")) && !is_typed(c);
    bool is_pasted = reading_is_on(json_member(c->config, "rope_scaling")) || is_flat;
    bool no_beta = !config_member(c, "llama_4_scaling_beta") ||
                   (!config_type_has(c, TYPE_HAS_ORIGINAL) && !c->inside);
    refuse_by_classes(c);
    config_refuse(c, no_scaling && is_pasted,
                  "KeyError: sliding_attention, since rope_scaling replaces rope_parameters");
    config_refuse(c, grows && no_beta, "TypeError: no llama_4_scaling_beta");
    note_silence(c);
    config_find_growth(c);
    if (reading_has_rule(c, RULE_ROTARY_UNREAD)) c->turning = 0;
    if (!loses_share(c)) return;
    if (c->type == TYPE_PLAIN) c->partial = 1;
    else config_note(c, "partial_rotary_factor: the rotation fails");
}

// transformers 4 has rope_scaling in the full layers alone, and thetas of its own.
static void prepare_hf4(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    if (c->layout == BY_TYPE) c->layout = FULL_ONLY;
    reading_unseen(c, reading_does(c, DOES_NULL_BLOCK_UNSEEN) && scaling && scaling->kind == 'n');
}

// Whether a block has `type`, linear or dynamic, and a factor with a point, and no more.
static bool has_two_keys(const Config *c) {
    const Json *factor = config_member(c, "factor");
    int keys = 0;
    for (const Json *v = json_members(c->block); v; v = v->next) keys++;
    const bool is_type = c->type_member && (c->type == TYPE_LINEAR || c->type == TYPE_DYNAMIC);
    return keys == 2 && is_type && factor && !json_is_whole(factor);
}

static const char three_keys_error[] =
    "ValueError: its class takes type, short_factor and long_factor, and no more";

// Whether a block has what Phi-3's class, for one, takes in transformers 4.
static bool has_three_keys(const Config *c) {
    int keys = 0;
    for (const Json *v = json_members(c->block); v; v = v->next) keys++;
    return c->type == TYPE_LONGROPE && keys == 3 && c->type_member;
}

// Whether llama3's block has both bounds of its ramp.
static bool has_bounds(const Config *c) {
    return c->rope->low_freq_factor > 0 && c->rope->high_freq_factor > 0;
}

// What the classes of transformers 4 refuse.
static void refuse_by_hf4(Config *c) {
    bool is_strange_su = c->is_su && !c->longrope_alone;
    bool is_newer = c->type == TYPE_UNKNOWN || c->type == TYPE_PROPORTIONAL;
    const Json *scaling = json_member(c->config, "rope_scaling");
    bool has_type = json_member(scaling, "rope_type") || json_member(scaling, "type");
    config_refuse(c, json_members(scaling) && !has_type, "KeyError: rope_type");
    config_refuse(c, c->family->flags & FAMILY_NEW, "ValueError: the model_type is not known");
    config_refuse(c, is_newer || is_strange_su, "KeyError: the rope_type is not known");
    config_refuse(c, c->block && reading_does(c, DOES_THREE_KEYS) && !has_three_keys(c),
                  three_keys_error);
    config_refuse(c, c->block && reading_does(c, DOES_TWO_KEYS) && !has_two_keys(c),
                  "ValueError: rope_scaling must be a dictionary with two fields, type and factor");
    config_refuse(c, c->type == TYPE_LLAMA3 && !config_member(c, key_of_original),
                  "KeyError: original_max_position_embeddings");
    config_refuse(c, c->type == TYPE_LLAMA3 && !has_bounds(c),
                  "KeyError: low_freq_factor or high_freq_factor");
}

// The block's L. In some releases the factor is by lengths.
static void hf4_yarn(Config *c) {
    const bool by_max = reading_has_rule(c, RULE_YARN_BY_MAX);
    c->rope->train_ctx = by_max || !c->inside ? c->trained : c->inside;
    if (reading_has_rule(c, RULE_FACTOR_BY_LENGTHS) && c->inside)
        c->rope->factor = (double)c->trained / c->inside;
    if (by_max && c->rope->attention_factor == 0) reading_multiply_by(c, 0);
}

// The top level's L.
static void hf4_longrope(Config *c) {
    const bool is_long = reading_has_rule(c, RULE_LONG_LIST);
    if (c->top || c->longrope_alone) c->rope->factor = 0;
    else c->rope->train_ctx = c->trained;
    config_refuse(c, !c->longrope_alone && !c->top && !config_member(c, "factor"),
                  "TypeError: factor is None");
    if (!c->longrope_alone && (is_long || reading_has_rule(c, RULE_SHORT_LIST)))
        reading_choose_list(c, is_long, "at any length");
}

// transformers 4.
static void hf4(Config *c) {
    refuse_by_hf4(c);
    if (c->type == TYPE_YARN) hf4_yarn(c);
    if (reading_has_rule(c, RULE_WHOLE_RAMP)) c->rope->truncate = true;
    if (c->type == TYPE_LONGROPE) hf4_longrope(c);
}

// ---- servers ----

// Whether vLLM finds two different types in `type` and `rope_type`.
static bool types_disagree(const Config *c) {
    if (!c->type_member || !c->rope_type_member || !c->type_member->string) return false;
    return !json_is(c->rope_type_member, c->type_member->string) &&
           !(json_is(c->type_member, "su") && json_is(c->rope_type_member, "longrope")) &&
           !(json_is(c->type_member, "mrope") && json_is(c->rope_type_member, "default"));
}

// The quotient of mscale and mscale_all_dim, as far as the release reads the pair. False: it does
// not.
static bool take_quotient(Config *c, double grows, double *a) {
    static const char one[] = "mscale", all[] = "mscale_all_dim";
    const double m = reading_block_number(c, one, 0), m_all = reading_block_number(c, all, 0);
    const bool are_there = config_member(c, one) && config_member(c, all);
    const bool are_on = (m != 0 && m_all != 0) || reading_has_rule(c, RULE_PAIR_OF_ZEROS);
    if (!reading_has_rule(c, RULE_PAIR) || !are_there || !are_on) return false;
    *a = (grows * m + 1) / (grows * m_all + 1);
    return true;
}

// DeepSeek's quotient, of which one or both may be missing.
static void serve_deepseek(Config *c) {
    const double grows = rope_yarn_growth(c->rope->factor);
    const double m = reading_block_number(c, "mscale", 1);
    const double m_all = reading_block_number(c, "mscale_all_dim", 0);
    const double more =
        reading_has_rule(c, RULE_ATTN_FACTOR) ? reading_block_number(c, "attn_factor", 1) : 1;
    reading_multiply_by(c, more * (grows * m + 1) / (grows * m_all + 1));
    c->rope->truncate = true;
}

// yarn's attention factor in vLLM and SGLang, by the rules of the release.
static void serve_yarn(Config *c) {
    if (c->as->other == OTHER_DEEPSEEK) {
        serve_deepseek(c);
        return;
    }
    if (reading_does(c, DOES_FOUR_KEYS)) {
        reading_multiply_by(c, rope_yarn_growth(c->rope->factor) + 1);
        return;
    }
    const Json *apply = config_member(c, "apply_yarn_scaling");
    const bool is_off = reading_has_rule(c, RULE_APPLY_YARN) && apply && apply->kind == 'f' &&
                        !config_member(c, "mrope_section");
    const double grows = rope_yarn_growth(c->rope->factor);
    double a = is_off ? 1 : grows + 1;
    const char *why = is_off && grows > 0 ? "apply_yarn_scaling is false" : NULL;
    double own = reading_block_number(c, "attention_factor", 0);
    if (c->as->other == OTHER_TELECHAT) a = own = 0.7 * grows + 1;  // 0.07 ln s + 1
    const bool is_read =
        reading_has_rule(c, RULE_ATTENTION_FACTOR) || reading_does(c, DOES_READS_FACTOR);
    if (is_read && own > 0) {
        reading_multiply_by(c, own);
        c->as->why_attention = NULL;
        return;
    }
    if (take_quotient(c, grows, &a)) why = "the quotient of mscale and mscale_all_dim";
    const double more =
        reading_has_rule(c, RULE_ATTN_FACTOR) ? reading_block_number(c, "attn_factor", 1) : 1;
    reading_multiply_by(c, more * a);
    if (more != 1) c->as->why_attention = "attn_factor is read";
    else if (why) c->as->why_attention = why;
}

// Whether the class of a text model by itself, outside its wrapper, drops the sections of its block.
static bool drops_sections(const Config *c) {
    return reading_does(c, DOES_TELLS_POSITIONS) && c->config == c->whole &&
           !reading_has_rule(c, RULE_SECTIONS_IN_TEXT);
}

// Whether the sections of a block are not as many as the pairs that turn.
static bool sections_are_wrong(const Config *c) {
    const Json *sections = config_member(c, "mrope_section");
    const int n = (c->turning ? c->turning : (int)(c->rope->rotary_dim * c->partial)) / 2;
    double sum = 0, x;
    for (const Json *v = json_items(sections); v; v = v->next) sum += json_number(v, &x) ? x : 0;
    return json_items(sections) && sum != n;
}

// What multiplies the ramp of yarn, and the length by which a block with sections places it.
static void serve_ramp(Config *c) {
    const bool has_sections = config_member(c, "mrope_section");
    const bool is_told = reading_does(c, DOES_TELLS_POSITIONS) &&
                         (drops_sections(c) || !reading_has_rule(c, RULE_SECTIONS_AT_ALL));
    if (reading_has_rule(c, RULE_EXTRAPOLATION) && !reading_does(c, DOES_FOUR_KEYS))
        c->as->spread = reading_block_number(c, "extrapolation_factor", 0);
    if (!reading_has_rule(c, RULE_SECTIONS) || !has_sections || is_told) return;
    if (c->rope->train_ctx <= MOST / 4) c->rope->train_ctx *= 4;
    c->as->why_length = "with mrope_section the ramp is placed by 4 L";
}

// Some classes alone take dual_chunk_attention_config, Qwen's.
static bool has_chunks_elsewhere(const Config *c) {
    bool has_chunks = reading_is_on(json_member(c->config, key_of_chunks));
    return has_chunks && !reading_does(c, DOES_TAKES_CHUNKS);
}

// Whether the release of vLLM uses transformers 4, as those up to 0.19.0 do.
static bool stands_on_4(const Config *c) { return c->as->transformers < 5; }

// On transformers 4 vLLM reads the block itself: up to 0.11 rope_scaling, with L in it, from 0.12 on
// rope_parameters, too.
static void prepare_vllm_on_4(Config *c) {
    c->flags &= ~(unsigned)THROUGH_HF5;
    if (reading_has_rule(c, RULE_SCALING_ONLY)) c->flags |= SCALING_ONLY | L_OF_BLOCK;
    // Which was looked at with the families alone that it knows, and whose layers are alike.
    reading_unseen(c, reading_is_new(c) || c->family->flags & FAMILY_NEW);
}

// The block for all layers in a family that has one for each kind alone. NULL: there is none.
static const Json *flat_block(const Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    const Json *parameters = json_member(c->config, "rope_parameters");
    if (!(c->family->flags & FAMILY_NO_SCALING) || stands_on_4(c)) return NULL;
    if (reading_is_on(scaling) && json_members(scaling)) return scaling;
    return !is_typed(c) && json_members(parameters) ? parameters : NULL;
}

// The type of a block.
static RopeType type_of(const Config *c, const Json *block) {
    const Json *newer = json_member(block, "rope_type");
    return config_type_named(c, newer ? newer : json_member(block, "type"));
}

// transformers puts no theta into such a block, and checks llama3 for one.
static void refuse_flat_llama3(Config *c) {
    const Json *flat = flat_block(c);
    const bool is_llama3 = flat && type_of(c, flat) == TYPE_LLAMA3;
    config_refuse(c, is_llama3 && !json_member(flat, "rope_theta"), "KeyError: rope_theta");
}

// vLLM takes a layer type's block, else the whole one, of what transformers made of the config.
static void prepare_vllm(Config *c) {
    if (stands_on_4(c)) prepare_vllm_on_4(c);
    const bool is_own = reading_has_rule(c, RULE_OWN_OLMO3) && reading_does(c, DOES_OWN_CLASS);
    if (flat_block(c)) c->layout = ONE_BLOCK;
    if (has_one_block(c) && !is_typed(c)) c->layout = is_own ? FULL_ONLY : ONE_BLOCK;
    if (has_one_block(c) && c->as->own) c->theta = c->as->own->theta;
    bool has_chunks = reading_is_on(json_member(c->config, key_of_chunks));
    reading_unseen(c, has_chunks && c->as->out->release < 0.24);
    reading_unseen(c, has_chunks_elsewhere(c));
}

// Checks the block that vLLM reads itself for what it refuses.
static void refuse_on_4(Config *c) {
    const FamilyEngine *below = family_engine(c->family, engines[1].name);
    const bool by_class = below && below->does & DOES_THREE_KEYS;
    const bool is_scaling = c->block && c->block == json_member(c->config, "rope_scaling");
    const bool needs_length = config_type_has(c, TYPE_HAS_ORIGINAL) && !c->longrope_alone;
    reading_unseen(c, c->is_su && !c->longrope_alone);
    config_refuse(c, by_class && is_scaling && !has_three_keys(c), three_keys_error);
    config_refuse(c, c->block && !c->rope_type_member && !c->type_member,
                  "ValueError: no rope_type");
    config_refuse(c, c->type == TYPE_UNKNOWN || c->type == TYPE_PROPORTIONAL,
                  "ValueError: Unknown RoPE scaling type");
    config_refuse(c,
                  needs_length && !config_member(c, key_of_original) &&
                      !(c->top && !(c->flags & L_OF_BLOCK)),
                  "KeyError: original_max_position_embeddings");
    config_refuse(c, config_type_has(c, TYPE_NEEDS_FACTOR) && !config_member(c, "factor"),
                  "KeyError: factor");
    config_refuse(c, c->type == TYPE_LLAMA3 && !has_bounds(c),
                  "KeyError: low_freq_factor or high_freq_factor");
}

// Where classes of transformers 4 have theta and a share of a head, these go before the block's.
static void vllm_on_4(Config *c) {
    static const char share[] = "partial_rotary_factor";
    const bool has_share = c->family->flags & FAMILY_PARTIAL || json_member(c->config, share);
    refuse_on_4(c);
    c->rope->theta = c->theta;
    c->as->why_theta = "transformers 4 has the one beside the block, or its class's";
    if (c->why_plain) c->as->why_theta = c->why_plain;
    if (!has_share) return;
    c->partial =
        reading_number(c, c->config, share, c->family->partial > 0 ? c->family->partial : 1);
    c->as->why_share = "transformers 4 has the one beside the block, or its class's";
}

static void refuse_by_vllm(Config *c) {
    const Json *factor = config_member(c, "factor");
    const Json *flat = flat_block(c);
    const bool has_theta = json_member(flat, "rope_theta");
    const bool is_pasted = flat && !has_theta && !json_member(c->config, "rope_theta");
    bool has_betas = config_member(c, "beta_fast") && config_member(c, "beta_slow");
    refuse_flat_llama3(c);
    if (!stands_on_4(c)) refuse_by_classes(c);
    config_refuse(c,
                  c->type == TYPE_PLAIN && factor && factor->kind == 'n' &&
                      reading_has_rule(c, RULE_NULL_FACTOR),
                  "TypeError: factor is null");
    config_refuse(c, is_pasted,
                  "TypeError: no rope_theta, since rope_scaling replaces rope_parameters");
    config_refuse(c, reading_does(c, DOES_FOUR_KEYS) && !has_betas,
                  "KeyError: beta_fast or beta_slow");
    config_refuse(c, types_disagree(c), "ValueError: type and rope_type disagree");
    config_refuse(c, c->is_mrope && !config_member(c, "mrope_section"),
                  "AssertionError: mrope_section");
    config_refuse(
        c, c->chunks,
        "TypeError: no attention backend takes layer_idx, with dual_chunk_attention_config");
}

// One base, since 0.22 the unscaled one.
static void vllm_dynamic(Config *c) {
    double s = c->rope->factor;
    double known = fmax(reading_block_number(c, "max_trained_positions", c->trained), 1);
    fix_base(c,
             reading_has_rule(c, RULE_ONE_BASE) ? s * s - s + 1 : s * c->trained / known - (s - 1));
}

// longrope's attention factor in vLLM and SGLang: that of the list in use, if it has one.
static void serve_mscale(Config *c, bool is_long) {
    const char *key = is_long ? "long_mscale" : "short_mscale";
    const double own = reading_block_number(c, key, 0);
    if (!reading_has_rule(c, RULE_MSCALE_OF_LIST) || own == 0) return;
    c->rope->attention_factor = own;
    c->as->why_attention = is_long ? "long_mscale is read" : "short_mscale is read";
}

// The list goes by the length that the server was started with, by default L of the top level.
static void vllm_longrope(Config *c) {
    const int top = c->top ? c->top : c->family->original ? c->family->original : c->trained;
    const int most = c->as->out->served ? c->as->out->served : top;
    const bool by_server = reading_has_rule(c, RULE_LIST_BY_SERVER);
    const bool is_long = (by_server ? most : c->as->length) > c->rope->train_ctx;
    if (by_server) c->as->out->max_len = most;
    if (by_server) reading_choose_list(c, is_long, "by max_model_len");
    serve_mscale(c, is_long);
}

// Finds the factor of a block whose type lengthens texts. False where there is none.
static bool find_longer(Config *c, const Json *block, double *factor) {
    const RopeType type = type_of(c, block);
    const bool lengthens = type_rows[type].flags & TYPE_EXTENDS_MOST || type == TYPE_PROPORTIONAL;
    return lengthens && json_number(json_member(block, "factor"), factor);
}

// In families with blocks for kinds of layers, the last one counts that has a factor, or the one
// block for all, also where the class does not read that.
static double factor_of_kinds(Config *c) {
    const Json *kinds = json_member(c->config, "rope_parameters");
    double factor = 1;
    for (const Json *v = is_typed(c) ? json_members(kinds) : NULL; v; v = v->next)
        find_longer(c, v, &factor);
    if (!is_typed(c)) find_longer(c, kinds, &factor);
    return factor;
}

// max_position_embeddings, times the factor of some types; Gemma 3's is never multiplied.
static void limit_vllm(Config *c) {
    const bool lengthens = c->type == TYPE_YARN && reading_has_rule(c, RULE_YARN_LENGTHENS);
    const bool is_multiplied =
        config_type_has(c, TYPE_EXTENDS_MOST) || c->type == TYPE_PROPORTIONAL;
    if (reading_does(c, DOES_KEEPS_LENGTH)) return;
    if (lengthens) limit_by_factor(c, c->as->other == OTHER_NONE ? c->rope->train_ctx : c->trained);
    else if (c->layout == BY_TYPE && json_members(json_member(c->config, "rope_parameters")))
        c->as->out->max_len = (int)fmin(fmax(c->trained * factor_of_kinds(c), 1), MOST);
    else if (is_multiplied && !(c->kind == KIND_SLIDING && c->layout == BY_TYPE))
        limit_by_factor(c, c->trained);
}

// The type ntk: theta s^(-2(i + 1)/d) times as fast.
static void vllm_ntk(Config *c) {
    const double s = c->rope->factor, mixed = reading_block_number(c, "mixed_b", 0);
    const int n = (c->turning ? c->turning : (int)(c->rope->rotary_dim * c->partial)) / 2;
    for (int i = 0; i < n && i < ROPE_MAX_PAIRS; i++) {
        const double grown = mixed > 0 ? log(s) * pow((i + 1.0) / n, mixed) : log(s) * (i + 1) / n;
        c->as->out->long_factors[i] = exp(grown);
    }
    reading_take_divisors(c, 1);
}

// The classes that transformers' newer configs stop.
static void refuse_by_vllm_classes(Config *c) {
    static const double heads_by_layer = 5.13;  // a release of transformers
    const bool is_one_head = reading_has_rule(c, RULE_ONE_HEAD) && c->family->global_head_dim;
    const bool is_own = reading_has_rule(c, RULE_OWN_OLMO3) && reading_does(c, DOES_OWN_CLASS);
    config_refuse(c, is_one_head && c->as->transformers > heads_by_layer - 1e-9,
                  "AmbiguousGlobalPerLayerAttributeError: head_dim");
    config_refuse(c, is_own && !has_one_block(c), "KeyError: rope_theta");
}

// Whether the engine makes the model by transformers' own class.
static bool is_transformers_class(const Config *c) {
    const bool is_olmo3 = reading_does(c, DOES_OWN_CLASS);
    return reading_does(c, DOES_CLASS_BELOW) ||
           (is_olmo3 && reading_has_rule(c, RULE_CLASS_OF_OLMO3));
}

// On transformers before 5.17 vLLM puts the share beside a block into it.
static void share_beside(Config *c) {
    static const char key[] = "partial_rotary_factor";
    const Json *beside = json_member(c->config, key);
    if (!beside || beside->kind == 'n' || stands_on_4(c) || c->layout == BY_TYPE) return;
    if (reading_has_rule(c, RULE_SHARE_INSIDE)) return;
    c->partial = reading_number(c, c->config, key, 1);
    c->as->why_share = "that beside the block";
}

// vLLM.
static void vllm(Config *c) {
    if (stands_on_4(c)) vllm_on_4(c);
    refuse_by_vllm_classes(c);
    refuse_by_vllm(c);
    limit_vllm(c);
    char words[160];
    snprintf(words, sizeof words,
             "ValueError: User-specified max_model_len (%d) is greater than the derived "
             "max_model_len (max_position_embeddings=%d)",
             c->as->out->served, c->as->out->max_len);
    config_refuse(c, c->as->out->served > c->as->out->max_len, words);
    const double width =
        reading_has_rule(c, RULE_ROPE_DIM) ? reading_block_number(c, "rope_dim", 0) : 0;
    if (width > 0) c->turning = (int)width;
    if (is_transformers_class(c)) {
        hf5(c);
        return;
    }
    share_beside(c);
    const bool has_sections = c->type == TYPE_PLAIN || c->type == TYPE_YARN;
    config_refuse(c, has_sections && !drops_sections(c) && sections_are_wrong(c),
                  "AssertionError: the sum of mrope_section is not the number of pairs");
    if (c->as->other == OTHER_NTK && !c->stopped) vllm_ntk(c);
    if (c->as->other == OTHER_TELECHAT && c->inside && reading_has_rule(c, RULE_ATTN_FACTOR))
        c->rope->factor = (double)c->trained / c->inside;
    if (c->type == TYPE_PROPORTIONAL) c->rope->factor = 1;
    c->as->why_grows = "no llama_4_scaling at the top level";
    if (flat_block(c) && reading_does(c, DOES_SLIDING_BASE_FIXED) && c->kind == KIND_SLIDING) {
        c->rope->theta = c->family->local_theta;
        c->as->why_theta = "the sliding layers' base is a constant";
    }
    if (c->type == TYPE_DYNAMIC && c->alpha <= 0) vllm_dynamic(c);
    config_take_alpha(c);
    if (c->type == TYPE_YARN) serve_yarn(c);
    if (c->type == TYPE_YARN) serve_ramp(c);
    if (reading_has_rule(c, RULE_WHOLE_RAMP)) c->rope->truncate = true;
    if (c->type == TYPE_LONGROPE && !c->as->has_divisors) vllm_longrope(c);
}

// SGLang's own config class of OLMo 3 has rope_scaling alone.
static void prepare_sglang(Config *c) {
    if (reading_does(c, DOES_TAKES_TEXT_CONFIG)) c->flags &= ~(unsigned)SERVES;
    reading_unseen(c, has_chunks_elsewhere(c));
    if (reading_does(c, DOES_FLAT_BY_KIND) && flat_block(c)) c->layout = ONE_BLOCK;
    if (!reading_does(c, DOES_SCALING_ALONE)) return;
    c->layout = FULL_ONLY;
    c->flags |= SCALING_ONLY;
}

// What SGLang does by layer.
static void sglang_layers(Config *c) {
    bool is_full = c->kind == KIND_FULL;
    bool is_pasted = reading_does(c, DOES_PASTED_TURNS_ALL) &&
                     reading_is_on(json_member(c->config, "rope_scaling"));
    if (!reading_does(c, DOES_SCALING_ALONE)) refuse_by_classes(c);
    reading_lose_block(c);
    if (reading_does(c, DOES_FLAT_BY_KIND) && flat_block(c)) {
        const bool is_new = flat_block(c) != json_member(c->config, "rope_scaling");
        c->rope->theta = is_new ? 1e4 : reading_number(c, c->config, "rope_theta", 1e4);
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

// max_position_embeddings, times the factor of a block for all layers that has no original length.
static void limit_sglang(Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    const bool by_kind = c->family->flags & FAMILY_BY_TYPE;
    const Json *flat = json_is_object(parameters) && !is_typed(c) ? parameters : NULL;
    const bool is_multiplied =
        config_type_has(c, TYPE_EXTENDS_MOST) || c->type == TYPE_PROPORTIONAL;
    const bool is_own = reading_does(c, DOES_SCALING_ALONE);  // a class of SGLang's own
    if (by_kind && flat && !is_own && !json_member(flat, key_of_original)) {
        const double factor = reading_number(c, flat, "factor", 1);
        c->as->out->max_len = (int)fmin(fmax(c->trained * factor, 1), MOST);
    } else if ((!by_kind || is_own) && is_multiplied && !c->inside) {
        limit_by_factor(c, c->trained);
    }
}

// How much of a head turns goes by the class: some read the key beside the block, some none.
static void share_sglang(Config *c) {
    static const char share[] = "partial_rotary_factor";
    const Json *beside = json_member(c->config, share), *inside = config_member(c, share);
    reading_unseen(c, beside && inside && c->family->flags & FAMILY_AXES);
    if (c->family->flags & FAMILY_PARTIAL || c->layout == BY_TYPE) return;
    const bool is_read = reading_does(c, DOES_SHARE_BESIDE);
    c->partial = is_read ? reading_number(c, c->config, share, 1) : 1;
    if (is_read) c->as->why_share = "that beside the block";
}

// Queries grow each time a text is as long again as the top level's L, or 16,384 positions.
static void grow_sglang(Config *c) {
    config_find_growth(c);
    if (c->rope->temperature_beta == 0) return;
    const int length = c->top ? c->top : 16384;
    if (length != c->rope->train_ctx) c->rope->temperature_length = length;
}

// SGLang. longrope's list goes by the text, one token later than elsewhere. dynamic has one base.
static void sglang(Config *c) {
    double s = c->rope->factor;
    config_refuse(c, reading_does(c, DOES_SHIFTED) && reading_has_rule(c, RULE_SHIFTED),
                  "AttributeError: 'bool' object has no attribute 'items'");
    refuse_flat_llama3(c);
    config_refuse(c, c->is_mrope, "ValueError: Unknown RoPE scaling type mrope");
    config_refuse(c,
                  reading_has_rule(c, RULE_ONE_HEAD) && c->family->global_head_dim &&
                      c->config == c->whole,
                  "AmbiguousGlobalPerLayerAttributeError: num_key_value_heads");
    const Json *flat = json_member(c->config, "rope_parameters");
    const bool is_flat = json_is_object(flat) && !is_typed(c);
    config_refuse(c,
                  is_flat && reading_does(c, DOES_SCALING_ALONE) &&
                      type_rows[type_of(c, flat)].flags & TYPE_HAS_ORIGINAL,
                  "AttributeError: no max_position_embeddings");
    limit_sglang(c);
    if (is_transformers_class(c)) {
        hf5(c);
        return;
    }
    sglang_layers(c);
    if (c->layout != ONE_BLOCK || !flat_block(c)) share_sglang(c);
    grow_sglang(c);
    if (reading_does(c, DOES_THETA_FIXED)) {
        c->rope->theta = c->as->own->theta;
        c->as->why_theta = "its class looks for it where transformers 5 has none";
    }
    if (c->rope->map)
        c->as->why_far =
            "far distances end at chunk_size, one later, and keys grow by 0.1 ln(n / L) + 1";
    if (c->type == TYPE_DYNAMIC && c->alpha <= 0) fix_base(c, s * s - s + 1);
    config_take_alpha(c);
    if (c->type == TYPE_YARN) serve_yarn(c);
    if (c->type == TYPE_YARN) serve_ramp(c);
    if (c->type != TYPE_LONGROPE) return;
    if (c->as->length == c->rope->train_ctx + 1)
        reading_choose_list(c, false, "the long one from L + 2 tokens on");
    serve_mscale(c, c->as->length > c->rope->train_ctx + 1);
}

// ---- this program ----

// This program. What was found counts, and read.c in src/configs alone says what is refused.
static void rope_c(Config *c) {
    Error err;
    RopeFile *file = alloc_array(1, sizeof *file, "a reading", &err);
    bool good = file && rope_config_parse(file, c->whole->text, c->whole->length, &err);
    c->as->out->verdict = VERDICT_SAME;
    c->stopped = false;
    c->note[0] = '\0';
    config_refuse(c, !good, err.text);
    if (c->layout == BY_TYPE) c->rope->truncate = true;
    config_take_alpha(c);
    config_find_growth(c);
    if (loses_share(c)) c->partial = 1;
    if (file) free(file->whole);
    free(file);
}

// To add an engine, write a function above for what it does otherwise than hf5, and give it a row
// here.
const Engine engines[] = {
    {"hf5", "5.24.0", "5.0", "5.24", prepare_hf5, hf5, THROUGH_HF5 | OLD_YARN},
    {"hf4", "4.57.6", "4.45", "4.57", prepare_hf4, hf4,
     SCALING_ONLY | TYPE_FIRST | OLD_YARN | NEEDS_FACTOR},
    {"vllm", "0.33.0", "0.11", "0.33", prepare_vllm, vllm,
     THROUGH_HF5 | HAS_LIMIT | OLD_YARN | NEEDS_FACTOR | SERVES | L_OF_MAX | HAS_BELOW |
         READS_MROPE | READS_ALPHA},
    {"sglang", "0.5.23", "0.5.10", "0.5.23", prepare_sglang, sglang,
     THROUGH_HF5 | HAS_LIMIT | OLD_YARN | NEEDS_FACTOR | SERVES | L_OF_MAX | READS_ALPHA |
         READS_CHUNKS | READS_MROPE},
    {"llama.cpp", "0.5.0", "2025-02", "2026-09", engine_prepare_llama_cpp, engine_llama_cpp,
     PARAMETERS_FIRST | TEXT_CONFIG | HAS_LIMIT | OLD_YARN | L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP |
         OWN_YARN | HAS_BELOW},
    {"ik_llama.cpp", "Aug 26", "2026-08", "2026-08", engine_prepare_gguf, engine_ik_llama_cpp,
     PARAMETERS_FIRST | TEXT_CONFIG | HAS_LIMIT | L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP | OWN_YARN},
    {"mlx-lm", "0.32.2", "0.31", "0.32", engine_prepare_mlx_lm, engine_mlx_lm,
     SCALING_ONLY | NEW_PARAMETERS | TYPE_FIRST | NEEDS_FACTOR | L_OF_BLOCK | L_OF_MAX |
         ROUNDS_RAMP | OWN_DEFAULTS | READS_MROPE},
    {"exllamav3", "1.6.5", "1.4", "1.6", engine_prepare_exllamav3, engine_exllamav3,
     L_OF_BLOCK | L_OF_MAX | OWN_DEFAULTS | READS_MROPE},
    {"exllamav2", "0.3.2", "0.3", "0.3", NULL, engine_exllamav2,
     SCALING_ONLY | TEXT_CONFIG | HAS_LIMIT | NEEDS_FACTOR | L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP |
         OWN_YARN},
    // These two are asked for by name alone: of them one class was looked at.
    {"mlx-vlm", "Sep 26", "2026-09", "2026-09", NULL, engine_mlx_vlm,
     TEXT_CONFIG | PARAMETERS_FIRST | OWN_DEFAULTS | READS_MROPE},
    {"lightllm", "Aug 26", "2026-08", "2026-08", NULL, engine_lightllm,
     TEXT_CONFIG | OWN_DEFAULTS | READS_MROPE},
    {"rope.c", "own", "0", "0", NULL, rope_c, OWN_FLAGS},
};
const int n_engines = sizeof engines / sizeof engines[0];
