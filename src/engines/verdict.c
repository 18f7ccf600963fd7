// The differences between an engine's reading and a reference, and their reasons.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "reading.h"

const char *const verdict_names[N_VERDICTS] = {"same",  "differs", "ignored",
                                               "taken", "too long", "refused",
                                               "not looked at"};

// The reason why a value differs: the engine's own reason, or else the one of one or two keys
// (KEY_NONE: none) that is present and not read; if neither is, the class's own value is not read.
// NULL: no explanation is known.
static const char *why_not_read(const Config *c, const char *own, const KeyId keys[2], char *out,
                                size_t size) {
    if (own || keys[0] == KEY_NONE) return own;
    const bool has_first = reading_has(c, keys[0]);
    const bool has_second = keys[1] != KEY_NONE && reading_has(c, keys[1]);
    const bool are_both = has_first && has_second;
    if (!has_first && !has_second) snprintf(out, size, "its class's is not read");
    else
        snprintf(out, size, "%s%s%s %s not read", has_first ? config_key_rows[keys[0]].name : "",
                 are_both ? " and " : "", has_second ? config_key_rows[keys[1]].name : "",
                 are_both ? "are" : "is");
    return out;
}

// The reason why a reading is scaled RoPE though the reference is plain.
static const char *why_scaled(const Config *c) {
    if (c->block == AT_CLASS_FULL) return "the family's own block";
    if (reading_flat_parameters(c)) return "a flat rope_parameters is read";
    if (c->layout == ONE_BLOCK && c->family->flags & FAMILY_BY_TYPE)
        return "one block is of all layers";
    if (c->block >= AT_TEXT_SCALING && c->block <= AT_TEXT_PARAMETERS_FULL)
        return "the block of text_config is read";
    return c->block == AT_SCALING_FULL ? "rope_scaling by layer type is read" : "the block is read";
}

// Notes each fact that differs. If one of the two is plain RoPE, only the first two facts count.
static void compare_settings(Config *c, const Reading *reference, const RopeFreqs *here,
                             const RopeFreqs *there) {
    const EngineReader *as = c->as;
    const RopeConfig *r = c->rope, *s = &reference->rope;
    const bool is_plain = r->method == ROPE_NONE, was_plain = s->method == ROPE_NONE;
    const bool is_lost = is_plain && !was_plain;  // noted by itself, not with theta
    if (is_lost)
        config_note(c, "plain RoPE: %s", c->why_plain ? c->why_plain : "the block is not read");
    if (was_plain && !is_plain) config_note(c, "%s", why_scaled(c));

    const char *why_theta = as->why_theta || is_lost ? as->why_theta : c->why_plain;
    const char *why_alpha = reading_does(c, DOES_READS_ALPHA)
                                ? "alpha counts up to max_position_embeddings"
                                : "Hunyuan's class alone reads alpha";
    const char *why_scale = c->alpha > 0                   ? why_alpha
                            : c->type == TYPE_DYNAMIC      ? "one base for all lengths"
                            : config_member(c, KEY_FACTOR) ? "factor is not read"
                                                           : "max_position_embeddings / L";
    const char *why_length = as->why_length;
    if (!why_length && r->train_ctx == c->inside) why_length = "the block's";
    // An attention factor that follows the scale is not noted beside it.
    const bool is_other_scale = fabs(here->scale / there->scale - 1) > 1e-6;
    const double a = is_other_scale ? here->attention_factor : there->attention_factor;
    const KeyId share = KEY_PARTIAL_ROTARY_FACTOR, rotary = c->family->rotary_key;
    const KeyId fast = KEY_BETA_FAST, slow = KEY_BETA_SLOW;
    const struct {
        const char *name;
        double here, there;
        const char *why;
        KeyId keys[2];  // keys that are not read, if no other reason is known
    } facts[] = {
        {"rotary_dim", r->rotary_dim, s->rotary_dim, as->why_share, {share, rotary}},
        {"rope_theta", r->theta, s->theta, why_theta, {KEY_NONE}},
        {"s", here->scale, there->scale, why_scale, {KEY_NONE}},
        {"L", r->train_ctx, s->train_ctx, why_length, {KEY_NONE}},
        {"a", here->attention_factor, a, as->why_attention, {KEY_NONE}},
        {"beta_fast", r->beta_fast, s->beta_fast, as->why_betas, {fast, slow}},
        {"beta_slow", r->beta_slow, s->beta_slow, as->why_betas, {fast, slow}},
        {"truncate", r->truncate, s->truncate, as->why_truncate, {KEY_TRUNCATE}},
        {"pairs that turn", r->rotated_pairs, s->rotated_pairs, NULL, {KEY_NONE}},
    };
    const int n = is_plain || was_plain ? 2 : (int)(sizeof facts / sizeof *facts);
    for (int i = 0; i < n; i++) {
        char keys[100];
        if (!(fabs(facts[i].here - facts[i].there) > 1e-6 * fabs(facts[i].there))) continue;
        const char *why = why_not_read(c, facts[i].why, facts[i].keys, keys, sizeof keys);
        config_note(c, "%s %.6g, not %.6g%s%s", facts[i].name, facts[i].here, facts[i].there,
                    why ? ": " : "", why ? why : "");
    }

    // Longrope's lists, and lists made for other methods.
    static const char *const names[] = {"short_factor", "long_factor"};
    const double *list = as->length > r->train_ctx ? r->long_factors : r->short_factors;
    const bool is_long = list == as->out->long_factors;
    const bool was_long = as->length > s->train_ctx;
    if (as->has_divisors) config_note(c, "%s", as->why_list ? as->why_list : "its own base");
    else if (c->type == TYPE_LONGROPE && is_long != was_long)
        config_note(c, "%s, not %s: %s", names[is_long], names[was_long],
                    as->why_list ? as->why_list : "by that L");
}

// The queries' growth with their position.
static void compare_growth(Config *c, const Reading *reference) {
    const RopeConfig *r = c->rope, *s = &reference->rope;
    const KeyId keys[2] = {KEY_LLAMA_4_SCALING_BETA};
    char beta[100];
    const char *why = why_not_read(c, c->as->why_grows, keys, beta, sizeof beta);
    if (r->temperature_beta != s->temperature_beta)
        config_note(c, "queries grow by %.6g, not %.6g: %s", r->temperature_beta,
                    s->temperature_beta, why);
    if (r->temperature_early != s->temperature_early)
        config_note(c, "queries grow one position early");
}

static bool same_growth(const Reading *here, const Reading *there) {
    const RopeConfig *r = &here->rope, *s = &there->rope;
    bool grows = r->temperature_beta != 0 || s->temperature_beta != 0;
    bool alike = r->temperature_beta == s->temperature_beta && r->train_ctx == s->train_ctx;
    return !grows || (alike && r->temperature_early == s->temperature_early);
}

// Whether an engine turns layers that have no RoPE: full ones, or those that a list names with a 0.
static bool turns_bare_layers(const Config *c) {
    const Json *v = json_items(json_member(c->config, "no_rope_layers"));
    if (!reading_does(c, DOES_TURNS_ALL)) return false;
    if (!v) return true;
    while (v && !(v->kind == '0' && v->length == 1)) v = v->next;
    return v;
}

// Notes a difference in the kinds of the layers, or in which have no RoPE, with its reason.
static bool same_layers(Config *c, const Reading *reference) {
    const ConfigLayers *here = &c->as->out->layers, *there = &reference->layers;
    if (turns_bare_layers(c)) {
        config_note(c, "layers without RoPE turn, too");
        return false;
    }
    if (memcmp(here->kinds, there->kinds, (size_t)there->n) == 0) return true;
    const char *why = c->as->why_layers ? c->as->why_layers
                      : json_member(c->config, "layer_types")
                          ? "layer_types is not read"
                          : "the layers go by a period of its own";
    config_note(c, "%s: %d of %d layers slide, not %d", why, here->n_of[KIND_SLIDING], here->n,
                there->n_of[KIND_SLIDING]);
    return false;
}

// True if both are equal to 1e-5. Else out->worst_pair is the pair with the largest difference, if
// a pair differs. A pair that rests in one and rotates in the other has the largest possible
// difference.
static bool same(const RopeFreqs *here, const RopeFreqs *there, Reading *out) {
    double worst = 1e-5;
    for (int i = 0; i < here->n_pairs && i < there->n_pairs; i++) {
        if (here->inv_freq[i] == there->inv_freq[i]) continue;
        double ratio = there->inv_freq[i] > 0 ? here->inv_freq[i] / there->inv_freq[i] : INFINITY;
        if (!(fabs(log(ratio)) > worst)) continue;
        worst = fabs(log(ratio));
        out->worst_pair = i;
        out->worst_ratio = ratio;
    }
    return out->worst_pair < 0 && here->n_pairs == there->n_pairs &&
           fabs(here->attention_factor / there->attention_factor - 1) < 1e-5;
}

// Distances differ only past L, by the map or its accompanying settings.
static bool same_distances(Config *c, const Reading *reference) {
    const RopeMap *map = c->rope->map;
    const RopeMap *meant = reference->rope.map;
    const RopeConfig *mapped = map ? c->rope : &reference->rope;
    const char *why = "distances are not mapped: dual_chunk_attention_config is not read";
    if (map == meant) why = c->as->why_far;
    bool differ = why && c->as->length > mapped->train_ctx;
    if (differ) config_note(c, "%s", why);
    return !differ;
}

void reading_judge(Config *c, const Reading *reference) {
    Reading *out = c->as->out;
    RopeFreqs here, there;
    if (!reference || c->stopped) return;
    rope_frequencies(c->rope, c->as->length, &here);
    bool was_asked = c->why_plain || c->type != TYPE_PLAIN,
         is_plain = fabs(here.attention_factor - 1) < 1e-5;
    for (int i = 0; i < here.n_pairs; i++)
        is_plain = is_plain && fabs(log(here.inv_freq[i] / rope_plain(c->rope, i))) <= 1e-5;
    if (reference->verdict >= VERDICT_REFUSED) {
        if (c->why_plain) config_note(c, "plain RoPE: %s", c->why_plain);
    } else {
        rope_frequencies(&reference->rope, c->as->length, &there);
        bool alike = same(&here, &there, out), as_layers = same_layers(c, reference);
        bool is_as_far = same_distances(c, reference);
        if (alike && as_layers && is_as_far && same_growth(out, reference)) return;
        was_asked = reference->rope.method != ROPE_NONE || reference->rope.map;
        if (!alike) compare_settings(c, reference, &here, &there);
        compare_growth(c, reference);
    }
    out->verdict = is_plain && was_asked && !c->rope->map ? VERDICT_IGNORED : VERDICT_DIFFERS;
}
