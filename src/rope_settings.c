// Settings of RoPE: names of methods, defaults, and checks of one against another.
#define _POSIX_C_SOURCE 200809L
#include "rope_settings.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

static const char *const rope_ramps[2] = {"dims", "turns"};  // by RopeRamp

#define IN(field) .place = offsetof(RopeConfig, field)

// To add a setting, give it a place in RopeConfig and a row here. The option, the merge with the
// model's settings, blocks of JSON, --explain and the warning that nothing uses it follow.
const Setting rope_settings[N_ROPE_SETTINGS] = {
    [SET_THETA] = {"--theta", "B", "base of the inverse frequencies", NUMBER, IN(theta), 1 + 1e-9,
                   1e18, .key = "rope_theta"},
    [SET_FACTOR] = {"--factor", "S",
                    "scale: how many times longer than trained [N / L; 1 for dynamic methods and "
                    "proportional]",
                    NUMBER, IN(factor), 1, 1e6, .key = "factor", .methods = ROPE_USES_FACTOR},
    [SET_TRAIN_CTX] = {"--train-ctx", "L", "trained length (original context length)", WHOLE,
                       IN(train_ctx), 1, MOST, .key = "original_max_position_embeddings"},
    [SET_RAMP] =
        {"--ramp", "FORM",
         "dims (as in released checkpoints and libraries) or turns (as in the paper) [dims]", WORD,
         IN(ramp), 0, 1, rope_ramps, .methods = ROPE_USES_BETAS},
    [SET_BETA_FAST] = {"--beta-fast", "R", "pairs of R turns or more within L are kept [32]",
                       NUMBER, IN(beta_fast), 1e-6, 1e9, .key = "beta_fast", .missing = 32,
                       .methods = ROPE_USES_BETAS},
    [SET_BETA_SLOW] = {"--beta-slow", "R",
                       "pairs of R turns or fewer within L are interpolated [1]", NUMBER,
                       IN(beta_slow), 1e-6, 1e9, .key = "beta_slow", .missing = 1,
                       .methods = ROPE_USES_BETAS},
    [SET_TRUNCATE] = {.key = "truncate", .type = FLAG, IN(truncate), .methods = ROPE_USES_BETAS},
    [SET_ATTN_FACTOR] = {"--attention-factor", "A",
                         "factor of cos and sin, instead of the method's own", NUMBER,
                         IN(attention_factor), 1e-6, 1e6, .key = "attention_factor",
                         .older = "--attn-factor"},
    [SET_MSCALE] =
        {.key = "mscale", .type = NUMBER, IN(mscale), .high = 1e6, .methods = ROPE_USES_BETAS},
    [SET_MSCALE_ALL_DIM] = {.key = "mscale_all_dim",
                            .type = NUMBER,
                            IN(mscale_all_dim),
                            .high = 1e6,
                            .methods = ROPE_USES_BETAS},
    [SET_LOW_FREQ] = {"--low-freq-factor", "F",
                      "llama3: pairs with a wavelength above L / F rotate s times slower; a "
                      "larger F "
                      "slows more [1]",
                      NUMBER, IN(low_freq_factor), 1e-6, 1e9, .key = "low_freq_factor",
                      .missing = 1, .methods = ROPE_USES_FREQ_FACTORS},
    [SET_HIGH_FREQ] =
        {"--high-freq-factor", "F",
         "llama3: pairs with a wavelength below L / F are kept; a larger F keeps fewer "
         "[4]",
         NUMBER, IN(high_freq_factor), 1e-6, 1e9, .key = "high_freq_factor", .missing = 4,
         .methods = ROPE_USES_FREQ_FACTORS},
    [SET_TURNING] = {"--turning", "K", "proportional: the first K pairs rotate [a quarter of them]",
                     WHOLE, IN(rotated_pairs), 1, ROPE_MAX_PAIRS,
                     .methods = ROPE_USES_ROTATED_PAIRS},
    [SET_CLIP] = {"--clip", "K",
                  "cope: the last K pairs are slowed to a stop [those of fewer than 2 turns in L]",
                  WHOLE, IN(clip), 1, ROPE_MAX_PAIRS, .methods = ROPE_USES_CLIP},
    [SET_UNSCALED] = {.key = "unscaled_positions",
                      .type = WHOLE,
                      IN(unscaled_positions),
                      .high = MOST,
                      .methods = ROPE_USES_LISTS},
    [SET_WINDOW] = {"--window", "W", "attend only to the last W positions; 0: to all", WHOLE,
                    IN(window), 0, MOST},
    [SET_SINKS] = {"--sinks", "K",
                   "also attend to the first K positions [0; streaming 4, lm-infinite 10]", WHOLE,
                   IN(sinks), 0, MOST},
    [SET_NEAR] =
        {"--near", "W",
         "distances that rerope, leaky-rerope, self-extend [L / 2] and string [L / 3] keep", WHOLE,
         IN(near), 1, MOST, .maps = ROPE_MAP_NEAR},
    [SET_LOCAL] = {"--local", "W",
                   "string: the distance that replaces --near [128, or half of --near]", WHOLE,
                   IN(local), 1, MOST, .maps = ROPE_MAP_LOCAL},
    [SET_K] = {"--k", "K",
               "leaky-rerope: far distances grow K times slower [so that N - 1 becomes L - 1]",
               NUMBER, IN(k), 1, 1e9, .maps = ROPE_MAP_K},
    [SET_GROUP] = {"--group", "G", "self-extend: far positions in groups of G [as --k]", WHOLE,
                   IN(group), 1, MOST, .maps = ROPE_MAP_GROUP},
    [SET_CHUNK] = {"--chunk", "C", "dca: positions of a chunk [3 L / 4]", WHOLE, IN(chunk), 1, MOST,
                   .maps = ROPE_MAP_CHUNK},
    [SET_X] = {"--x", "X", "parameter of a method or a map of your own [0]", NUMBER, IN(x),
               -1e9, 1e9, .methods = ROPE_USES_X, .maps = ROPE_MAP_X},
    [SET_LOGN] = {"--logn", NULL,
                  "multiply the scores of the query at position p by ln(p + 1) / ln L, past L",
                  FLAG, IN(logn)},
    [SET_TEMPERATURE_BETA] =
        {"--temperature-beta", "B",
         "multiply the query at position p by 1 + B ln(1 + floor(p / L)); 0: off", NUMBER,
         IN(temperature_beta), 0, 1e6},
    [SET_TEMPERATURE_FLOOR] =
        {"--temperature-floor", "F",
         "multiply the query at position p by 1 + B ln((p + 1) / F) instead, past F [B 0.1]", WHOLE,
         IN(temperature_floor), 1, MOST},
};
_Static_assert(N_ROPE_SETTINGS <= 32, "settings that are given are bits");

static bool is_given(const RopeSettings *s, int row) { return s->given >> row & 1; }

// "dynamic" alone is dynamic-ntk, as in Hugging Face. A map alone has the method none.
bool settings_read_method(RopeSettings *s, const char *text) {
    char copy[MAX_METHOD_NAME];
    const char *name = copy;
    RopeConfig *c = &s->rope;
    snprintf(s->name, sizeof s->name, "%s", text);
    snprintf(copy, sizeof copy, "%s", text);
    char *plus = strrchr(copy, '+');
    c->map = NULL;
    for (int i = 0; i < rope_n_maps; i++)
        if (strcmp(plus ? plus + 1 : copy, rope_maps[i].name) == 0) c->map = &rope_maps[i];
    if (c->map && plus) *plus = '\0';
    s->is_window = !c->map && strcmp(name, "window") == 0;
    if (s->is_window || (c->map && !plus)) name = "none";
    if (strcmp(name, "dynamic") == 0) name = "dynamic-ntk";
    for (int i = 0; i < 2 * rope_n_methods; i++) {
        c->method = i / 2;
        c->dynamic = i % 2;
        if (strcmp(name, settings_method_name(c).text) == 0)
            return !c->dynamic || rope_methods[c->method].flags & ROPE_CAN_BE_DYNAMIC;
    }
    return false;
}

MethodName settings_method_name(const RopeConfig *c) {
    MethodName name;
    snprintf(name.text, sizeof name.text, "%s%s", c->dynamic ? "dynamic-" : "",
             rope_methods[c->method].name);
    return name;
}

bool settings_is_flag(const char *key) {
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++)
        if (f->option && strcmp(key, f->option + 2) == 0) return f->type == FLAG;
    return false;
}

bool settings_read_setting(RopeSettings *s, const char *key, const char *value, Error *err) {
    char names[sizeof err->text] = "expected ";
    const char *nearest = "", *between = "";
    for (int i = 0; i < N_ROPE_SETTINGS; i++) {
        if (!rope_settings[i].option) continue;
        const char *name = rope_settings[i].option + 2, *older = rope_settings[i].older;
        add_name(names, sizeof names, between, name);
        between = ", ";
        nearest = nearer_name(key, name, nearest);
        if (strcmp(key, name) != 0 && !(older && strcmp(key, older + 2) == 0)) continue;
        s->given |= 1u << i;
        return setting_read(&rope_settings[i], &s->rope, name, value, err);
    }
    return fail_unknown(err, "there is no setting", key, nearest, names);
}

bool settings_read(RopeSettings *s, const char *text, Error *err) {
    char copy[MAX_METHOD_NAME], whole[MAX_METHOD_NAME], *rest;
    int length = snprintf(copy, sizeof copy, "%s", text);
    if (length >= (int)sizeof copy) return fail(err, "'%.60s...' is too long", text);
    for (char *c = copy; *c; c++) *c = (char)tolower((unsigned char)*c);
    memcpy(whole, copy, sizeof whole);
    char *word = strtok_r(copy, ":", &rest);
    if (!word || !settings_read_method(s, word))
        return fail(
            err, "there is no method '%s' (expected none, yarn, rerope or another row of rope.c)",
            text);
    while ((word = strtok_r(NULL, ":", &rest))) {
        char *value = strchr(word, '=');
        if (!value || value == word)
            return fail(err, "':%.60s' is not a setting (expected :NAME=VALUE)", word);
        *value++ = '\0';
        if (!settings_read_setting(s, word, value, err)) return false;
    }
    memcpy(s->name, whole, sizeof whole);
    return true;
}

int settings_rotary_dim(const RopeConfig *r) {
    return r->method == ROPE_PROPORTIONAL ? 2 * r->rotated_pairs : r->rotary_dim;
}

bool settings_set_rotary_dim(RopeConfig *r, const char *field, int rotary_dim, int head_dim,
                             Error *err) {
    bool counts_all = r->method == ROPE_PROPORTIONAL;
    if (rotary_dim % 2 || rotary_dim > head_dim)
        return fail(err, "%s is %d (expected an even number up to head_dim, %d)", field, rotary_dim,
                    head_dim);
    r->rotary_dim = counts_all ? head_dim : rotary_dim;
    r->rotated_pairs = counts_all ? rotary_dim / 2 : 0;
    return true;
}

// How many pairs make fewer than two turns within L; at least 1.
static int pairs_below_two_turns(const RopeConfig *c) {
    const double two_turns = 4 * 3.14159265358979323846;
    int n = 0;
    for (int i = 0; i < c->rotary_dim / 2; i++) n += c->train_ctx * rope_plain(c, i) < two_turns;
    return n > 1 ? n : 1;
}

void settings_fill_defaults(RopeConfig *c, int context) {
    bool is_kept = c->dynamic || rope_methods[c->method].flags & ROPE_USES_ROTATED_PAIRS;
    if (c->factor == 0) c->factor = is_kept ? 1 : fmax(1, (double)context / c->train_ctx);
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++)
        if (f->missing != 0 && setting_value(c, f) == 0) setting_put(c, f, f->missing);
    // A quarter of the pairs.
    if (c->rotated_pairs == 0) c->rotated_pairs = (c->rotary_dim + 7) / 8;
    if (c->clip == 0) c->clip = pairs_below_two_turns(c);
    bool has_local = c->map && c->map->flags & ROPE_MAP_LOCAL;
    if (c->near == 0) c->near = has_local ? (int)fmax(1, c->train_ctx / 3) : c->train_ctx / 2;
    if (c->local == 0) c->local = (int)fmax(1, fmin(128, c->near / 2));
    if (c->chunk == 0) c->chunk = (int)(c->train_ctx * 3L / 4);
    // From w on, the longest distance, N-1, has to come down to L-1. Where w is L-1, all are one
    // group.
    double left = c->train_ctx - 1 - c->near,
           stretch = left > 0 ? fmax(1, (context - 1 - c->near) / left) : context;
    if (c->k == 0) c->k = stretch;
    if (c->group == 0) c->group = (int)ceil(stretch);
}

bool settings_has_one_list(const RopeConfig *c) {
    return memcmp(c->short_factors, c->long_factors,
                  (size_t)(c->rotary_dim / 2) * sizeof *c->short_factors) == 0;
}

bool settings_have_no_factor(const RopeConfig *c) {
    return c->method != ROPE_NONE && !(rope_methods[c->method].flags & ROPE_USES_FACTOR);
}

bool settings_changes_list(const RopeConfig *c, int before, int now) {
    bool has_lists = rope_methods[c->method].flags & ROPE_USES_LISTS;
    bool crosses = (before > c->train_ctx) != (now > c->train_ctx);
    return has_lists && crosses && !settings_has_one_list(c);
}

static bool positive(double x) { return x > 0 && isfinite(x); }

bool settings_check(const RopeConfig *config, int context, Error *err) {
    RopeConfig filled = *config;
    const RopeConfig *c = &filled;
    const unsigned flags = rope_methods[c->method].flags, map = c->map ? c->map->flags : 0;
    const int n_pairs = c->rotary_dim / 2;
    settings_fill_defaults(&filled, context);
    // Settings of every method.
    if (c->dynamic && !(flags & ROPE_CAN_BE_DYNAMIC))
        return fail(err, "this rope method has no dynamic form");
    if (c->rotary_dim < 2 || c->rotary_dim > ROPE_MAX_HEAD_DIM || c->rotary_dim % 2)
        return fail(err, "head_dim must be even, from 2 to 1024");
    if (!isfinite(c->theta) || c->theta <= 1) return fail(err, "theta must be a number above 1");
    if (c->train_ctx < 1) return fail(err, "train_ctx must be at least 1");
    if (!positive(c->factor)) return fail(err, "factor must be a number above 0");
    if (!positive(c->beta_fast) || !positive(c->beta_slow))
        return fail(err, "beta_fast and beta_slow must be numbers above 0");
    if (c->beta_fast < c->beta_slow) return fail(err, "beta_fast must not be below beta_slow");
    if (c->ramp == ROPE_RAMP_TURNS && c->beta_fast == c->beta_slow)
        return fail(err, "the turns ramp needs beta_fast above beta_slow");
    if (!positive(c->low_freq_factor) || !positive(c->high_freq_factor) ||
        c->low_freq_factor > c->high_freq_factor)
        return fail(err, "high_freq_factor must not be below low_freq_factor, and both above 0");
    if (c->attention_factor != 0 && !positive(c->attention_factor))
        return fail(err, "attention_factor must be a number above 0");
    // Settings of some methods.
    if (flags & ROPE_USES_ROTATED_PAIRS && (c->rotated_pairs < 1 || c->rotated_pairs > n_pairs))
        return fail(err, "turning is %d (expected 1 to %d, the pairs of a head)", c->rotated_pairs,
                    n_pairs);
    if (flags & ROPE_USES_CLIP && (c->clip < 1 || c->clip > n_pairs))
        return fail(err, "clip is %d (expected 1 to %d, the pairs of a head)", c->clip, n_pairs);
    if (flags & ROPE_USES_LISTS) {
        if (!c->short_factors || !c->long_factors)
            return fail(err, "longrope needs the model's short and long factor lists, which it "
                             "does not have");
        if (c->train_ctx < 2) return fail(err, "longrope needs a train_ctx of at least 2");
        for (int i = 0; i < n_pairs; i++)
            if (!positive(c->short_factors[i]) || !positive(c->long_factors[i]))
                return fail(err, "longrope's factors must be numbers above 0");
        if (c->unscaled_positions && c->map)
            return fail(err, "unscaled_positions and a distance map cannot be combined");
        if (c->unscaled_positions && !settings_has_one_list(c))
            return fail(err, "unscaled_positions need one list of factors for all lengths, short "
                             "and long the same");
    }
    // Distance maps, windows, and L.
    const int far = map & ROPE_MAP_CHUNK ? c->chunk : c->near;
    if (map & (ROPE_MAP_NEAR | ROPE_MAP_CHUNK) && (far < 1 || far > c->train_ctx - 1))
        return fail(err, "%s is %d (expected 1 to %d, below the trained length of %d)",
                    map & ROPE_MAP_CHUNK ? "chunk" : "near", far, c->train_ctx - 1, c->train_ctx);
    if (map & ROPE_MAP_LOCAL && c->local > c->near)
        return fail(err, "local is %d (expected 1 to %d, the distance near)", c->local, c->near);
    if (map & ROPE_MAP_WINDOW && c->window < 1)
        return fail(err,
                    "%d sinks leave no window within the trained length of %d (expected at most "
                    "%d)",
                    c->sinks, c->train_ctx, c->train_ctx - 1);
    if (c->sinks > 0 && c->window == 0)
        return fail(
            err,
            "%d sinks without a window (--window sets how many of the last positions are seen)",
            c->sinks);
    return !c->logn || c->train_ctx >= 2 || fail(err, "logn needs a train_ctx of at least 2");
}

// Puts the fields that are given in place of the model's.
static void take_fields(const RopeSettings *s, RopeConfig *c) {
    // A model's attention factor is meant for methods that have one. On another it would only do
    // harm.
    if (!rope_methods[c->method].attention) c->attention_factor = 0;
    for (int i = 0; i < N_ROPE_SETTINGS; i++)
        if (s->given >> i & 1)
            setting_put(c, &rope_settings[i], setting_value(&s->rope, &rope_settings[i]));
}

bool settings_resolve(const RopeSettings *s, const RopeConfig *start, int window, int context,
                      RopePlan *plan, Error *err) {
    *plan = (RopePlan){.rope = *start, .head_dim = start->rotary_dim};
    RopeConfig *r = &plan->rope;
    if (s->name[0]) {
        r->method = s->rope.method;
        r->dynamic = s->rope.dynamic;
        r->map = s->rope.map;
    }
    take_fields(s, r);
    // The usual one, where only the floor is given.
    bool has_beta = r->temperature_beta != 0 || is_given(s, SET_TEMPERATURE_BETA);
    if (r->temperature_floor > 0 && !has_beta) r->temperature_beta = 0.1;
    settings_fill_defaults(r, context);
    // streaming and lm-infinite have a default window and sinks. But a model trained with a window
    // never sees more than it.
    const unsigned map = r->map ? r->map->flags : 0;
    if (s->is_window) window = r->train_ctx;
    if (map & ROPE_MAP_WINDOW) {
        if (!is_given(s, SET_SINKS)) r->sinks = r->map->sinks;
        const int most = r->train_ctx - (map & ROPE_MAP_SINKS_INSIDE ? r->sinks : 0);
        if (window == 0 || window > most) window = most;
    }
    if (!is_given(s, SET_WINDOW)) r->window = window;
    r->all_slide = s->is_window || is_given(s, SET_WINDOW) || map & ROPE_MAP_WINDOW;
    snprintf(plan->name, sizeof plan->name, "%s",
             s->name[0] ? s->name : settings_method_name(r).text);
    return settings_check(r, context, err) || fail(err, "rope %s: %s", plan->name, err->text);
}

bool settings_resolve_sliding(const RopeSettings *s, const RopeSettings *of_sliding,
                              const RopeConfig *start, int window, int context, RopePlan *plan,
                              Error *err) {
    RopeConfig *r = &plan->sliding;
    *r = *start;
    if (of_sliding->name[0]) r->method = of_sliding->rope.method;
    take_fields(of_sliding, r);
    settings_fill_defaults(r, context);
    r->all_slide = is_given(s, SET_WINDOW);
    r->window = r->all_slide ? s->rope.window : window;
    r->sinks = is_given(s, SET_SINKS) && r->window > 0 ? s->rope.sinks : 0;
    return settings_check(r, context, err) ||
           fail(err, "sliding layers, rope %s: %s", settings_method_name(r).text, err->text);
}
