// The common part of vLLM and SGLang: transformers reads a config for both, and they make RoPE
// themselves. tests/engines/README.md has the sources.
#include <math.h>

#include "../configs/json.h"
#include "../rope_settings.h"
#include "engine_rules.h"

// ---- the settings that are read ----

const Json *server_flat_block(const Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    if (!(c->family->flags & FAMILY_NO_SCALING) || server_stands_on_4(c)) return NULL;
    return reading_is_on(scaling) && json_members(scaling) ? scaling : reading_flat_block(c);
}

RopeType server_block_type(const Config *c, const Json *block) {
    const Json *newer = json_member(block, "rope_type");
    return config_type_named(c, newer ? newer : json_member(block, "type"));
}

void server_refuse_flat_llama3(Config *c) {
    const Json *flat = server_flat_block(c);
    const bool is_llama3 = flat && server_block_type(c, flat) == TYPE_LLAMA3;
    config_refuse(c, is_llama3 && !json_member(flat, "rope_theta"), "KeyError: rope_theta");
}

bool server_has_no_chunks(const Config *c) {
    bool has_chunks = reading_is_on(json_member(c->config, key_of_chunks));
    return has_chunks && !reading_does(c, DOES_TAKES_CHUNKS);
}

bool server_is_of_transformers(const Config *c) {
    const bool is_olmo3 = reading_does(c, DOES_OWN_CLASS);
    return reading_does(c, DOES_CLASS_BELOW) || reading_wrapper_is_below(c) ||
           (is_olmo3 && reading_has_rule(c, RULE_CLASS_OF_OLMO3));
}

bool server_loses_width(const Config *c) {
    return c->family->flags & FAMILY_LATENT && c->family->flags & FAMILY_GROWS &&
           c->block == AT_SCALING;
}

void server_limit_by_factor(Config *c, int length) {
    double most = length * c->rope->factor;
    if (most > 0) c->as->out->max_len = (int)fmin(most, MOST);
}

// ---- yarn ----

// The quotient of mscale and mscale_all_dim, in releases that read the pair. False in others.
static bool take_quotient(Config *c, double grows, double *a) {
    static const KeyId one = KEY_MSCALE, all = KEY_MSCALE_ALL_DIM;
    const double m = config_block_number(c, one, 0), m_all = config_block_number(c, all, 0);
    const Json *first = config_member(c, one), *last = config_member(c, all);
    const bool are_there = first && last && first->kind != 'n' && last->kind != 'n';
    const bool are_on = (m != 0 && m_all != 0) || reading_has_rule(c, RULE_PAIR_OF_ZEROS);
    if (!reading_has_rule(c, RULE_PAIR) || !are_there || !are_on) return false;
    *a = (grows * m + 1) / (grows * m_all + 1);
    return true;
}

// DeepSeek's quotient, of which one or both may be missing.
static void serve_deepseek(Config *c) {
    const double grows = rope_yarn_growth(c->rope->factor);
    const double m = config_block_number(c, KEY_MSCALE, 1);
    const double m_all = config_block_number(c, KEY_MSCALE_ALL_DIM, 0);
    const double more =
        reading_has_rule(c, RULE_ATTN_FACTOR) ? config_block_number(c, KEY_ATTN_FACTOR, 1) : 1;
    reading_multiply_by(c, more * (grows * m + 1) / (grows * m_all + 1));
    c->rope->truncate = true;
}

void server_yarn(Config *c) {
    if (c->as->other == OTHER_DEEPSEEK) {
        serve_deepseek(c);
        return;
    }
    if (reading_does(c, DOES_FOUR_KEYS)) {
        reading_multiply_by(c, rope_yarn_growth(c->rope->factor) + 1);
        return;
    }
    const Json *apply = config_member(c, KEY_APPLY_YARN_SCALING);
    const bool is_off = reading_has_rule(c, RULE_APPLY_YARN) && apply && apply->kind == 'f' &&
                        !config_member(c, KEY_MROPE_SECTION);
    const double grows = rope_yarn_growth(c->rope->factor);
    double a = is_off ? 1 : grows + 1;
    const char *why = is_off && grows > 0 ? "apply_yarn_scaling is false" : NULL;
    double own = config_block_number(c, KEY_ATTENTION_FACTOR, 0);
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
        reading_has_rule(c, RULE_ATTN_FACTOR) ? config_block_number(c, KEY_ATTN_FACTOR, 1) : 1;
    reading_multiply_by(c, more * a);
    if (more != 1) c->as->why_attention = "attn_factor is read";
    else if (why) c->as->why_attention = why;
}

bool server_drops_sections(const Config *c) {
    return reading_does(c, DOES_TELLS_POSITIONS) && c->config == c->whole &&
           !reading_has_rule(c, RULE_SECTIONS_IN_TEXT);
}

void server_ramp(Config *c) {
    const bool has_sections = config_member(c, KEY_MROPE_SECTION);
    const bool is_told = reading_does(c, DOES_TELLS_POSITIONS) &&
                         (server_drops_sections(c) || !reading_has_rule(c, RULE_SECTIONS_AT_ALL));
    if (reading_has_rule(c, RULE_EXTRAPOLATION) && !reading_does(c, DOES_FOUR_KEYS))
        c->as->spread = config_block_number(c, KEY_EXTRAPOLATION_FACTOR, 0);
    if (!reading_has_rule(c, RULE_SECTIONS) || !has_sections || is_told) return;
    if (c->rope->train_ctx <= MOST / 4) c->rope->train_ctx *= 4;
    c->as->why_length = "with mrope_section the ramp is placed by 4 L";
}

// ---- dynamic and longrope ----

void server_fix_base(Config *c, double factor) {
    c->rope->dynamic = false;
    c->rope->factor = fmax(factor, 1);
}

void server_mscale(Config *c, bool is_long) {
    const KeyId key = is_long ? KEY_LONG_MSCALE : KEY_SHORT_MSCALE;
    const double own = config_block_number(c, key, 0);
    if (!reading_has_rule(c, RULE_MSCALE_OF_LIST) || own == 0) return;
    c->rope->attention_factor = own;
    c->as->why_attention = is_long ? "long_mscale is read" : "short_mscale is read";
}
