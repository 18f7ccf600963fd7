// Settings of RoPE: names of methods, defaults, what makes sense together, and what is worth a warning.
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const RopeSettings settings_nothing_said = {.method = -1, .ramp = -1, .window = -1, .sinks = -1, .logn = -1};

// Reads the name of a map at the end of `name`: what stands before it and a + is its length.
static const RopeMap *read_map(const char *name, size_t *before) {
    const char *plus = strrchr(name, '+'), *last = plus ? plus + 1 : name;
    *before = plus ? (size_t)(plus - name) : 0;
    for (int i = 0; i < rope_n_maps; i++)
        if (strcmp(last, rope_maps[i].name) == 0) return &rope_maps[i];
    *before = strlen(name);
    return NULL;
}

// "dynamic-X" is X with a scale that follows the length; "dynamic" alone means dynamic-ntk, as in Hugging Face. A map
// alone stands behind none.
bool settings_read_method(RopeSettings *s, const char *text) {
    static const char prefix[] = "dynamic-";
    char method[MAX_METHOD_NAME];
    const char *name = method;
    size_t length;
    s->map = read_map(text, &length);
    snprintf(method, sizeof method, "%.*s", (int)length, text);
    if (s->map && text[length] != '+') name = rope_methods[ROPE_NONE].name;
    if (s->map && strcmp(name, "window") == 0) return false;
    if (strcmp(name, "dynamic") == 0) name = "dynamic-ntk";
    s->is_window = strcmp(name, "window") == 0;
    if (s->is_window) name = rope_methods[ROPE_NONE].name;
    s->dynamic = strncmp(name, prefix, sizeof prefix - 1) == 0;
    if (s->dynamic) name += sizeof prefix - 1;
    for (s->method = 0; s->method < rope_n_methods; s->method++) {
        const RopeMethod *m = &rope_methods[s->method];
        if (strcmp(name, m->name) == 0) return !s->dynamic || m->flags & ROPE_CAN_BE_DYNAMIC;
    }
    return false;
}

void settings_method_name(int method, bool dynamic, char *out, size_t capacity) {
    snprintf(out, capacity, "%s%s", dynamic ? "dynamic-" : "", rope_methods[method].name);
}

static double either(double said, double otherwise) { return said != 0 ? said : otherwise; }

void settings_fill_defaults(RopeConfig *c, int context) {
    if (c->factor == 0) c->factor = c->dynamic ? 1 : fmax(1, (double)context / c->train_ctx);
    c->beta_fast = either(c->beta_fast, 32);
    c->beta_slow = either(c->beta_slow, 1);
    c->low_freq_factor = either(c->low_freq_factor, 1);
    c->high_freq_factor = either(c->high_freq_factor, 4);
    if (c->near == 0) c->near = c->train_ctx / 2;
    if (c->chunk == 0) c->chunk = (int)(c->train_ctx * 3L / 4);
    // From w on, the longest distance, N-1, has to come down to L-1. Where w is L-1, all are one group.
    double left = c->train_ctx - 1 - c->near, stretch = left > 0 ? fmax(1, (context - 1 - c->near) / left) : context;
    c->k = either(c->k, stretch);
    if (c->group == 0) c->group = (int)ceil(stretch);
}

bool settings_has_one_list(const RopeConfig *c) {
    return memcmp(c->short_factors, c->long_factors, (size_t)(c->rotary_dim / 2) * sizeof *c->short_factors) == 0;
}

static bool positive(double x) { return x > 0 && isfinite(x); }

static const char *check_lists(const RopeConfig *c) {
    if (!c->short_factors || !c->long_factors)
        return "longrope needs the model's short and long factor lists, which it does not have";
    if (c->train_ctx < 2) return "longrope needs a train_ctx of at least 2";
    for (int i = 0; i < c->rotary_dim / 2; i++)
        if (!positive(c->short_factors[i]) || !positive(c->long_factors[i]))
            return "longrope's factors must be numbers above 0";
    if (c->unscaled_positions && c->map) return "unscaled_positions and a distance map exclude one another";
    if (c->unscaled_positions < 0) return "unscaled_positions must be 0 or more";
    if (c->unscaled_positions && !settings_has_one_list(c))
        return "unscaled_positions need one list of factors for all lengths, short and long the same";
    return NULL;
}

const char *settings_check(const RopeConfig *config, int context) {
    RopeConfig filled = *config, *c = &filled;
    settings_fill_defaults(c, context);
    if (c->method < 0 || c->method >= rope_n_methods) return "there is no such rope method";
    const RopeMethod *m = &rope_methods[c->method];
    if (c->dynamic && !(m->flags & ROPE_CAN_BE_DYNAMIC)) return "this rope method has no dynamic form";
    if (c->rotary_dim < 2 || c->rotary_dim > ROPE_MAX_HEAD_DIM || c->rotary_dim % 2)
        return "head_dim must be even, from 2 to 1024";
    if (!isfinite(c->theta) || c->theta <= 1) return "theta must be a number above 1";
    if (c->train_ctx < 1) return "train_ctx must be at least 1";
    if (!positive(c->factor)) return "factor must be a number above 0";
    if (!positive(c->beta_fast) || !positive(c->beta_slow)) return "beta_fast and beta_slow must be numbers above 0";
    if (c->beta_fast < c->beta_slow) return "beta_fast must not be below beta_slow";
    if (c->ramp == ROPE_RAMP_TURNS && c->beta_fast == c->beta_slow)
        return "the turns ramp needs beta_fast above beta_slow";
    if (!positive(c->low_freq_factor) || !positive(c->high_freq_factor) || c->low_freq_factor >= c->high_freq_factor)
        return "high_freq_factor must be above low_freq_factor, and both above 0";
    if (c->attention_factor != 0 && !positive(c->attention_factor)) return "attention_factor must be a number above 0";
    if (!isfinite(c->mscale) || !isfinite(c->mscale_all_dim)) return "mscale and mscale_all_dim must be numbers";
    return m->flags & ROPE_USES_LISTS ? check_lists(c) : NULL;
}

// The settings of the map, and what goes with any.
static bool check_map(const RopePlan *plan, Error *err) {
    const RopeConfig *c = &plan->rope;
    const unsigned flags = c->map ? c->map->flags : 0;
    const bool has_chunk = flags & ROPE_MAP_CHUNK;
    const int found = has_chunk ? c->chunk : c->near, most = c->train_ctx - 1;
    if (flags & (ROPE_MAP_NEAR | ROPE_MAP_CHUNK) && (found < 1 || found > most))
        return fail(err, "rope %s: %s is %d (expected 1 to %d, below the trained context of %d)", plan->name,
                    has_chunk ? "chunk" : "near", found, most, c->train_ctx);
    if (flags & ROPE_MAP_WINDOW && c->window < 1)
        return fail(err, "rope %s: the window is %d (expected at least 1; %d sinks, trained context %d)", plan->name,
                    c->window, c->sinks, c->train_ctx);
    if (c->sinks > 0 && c->window == 0)
        return fail(err, "rope %s: %d sinks without a window (--window says how many of the last positions are seen)",
                    plan->name, c->sinks);
    if (c->logn && c->train_ctx < 2) return fail(err, "rope %s: logn needs a train_ctx of at least 2", plan->name);
    return true;
}

// Window and sinks, which streaming and lm-infinite choose themselves when they are not said; but a model that was
// trained with a window never sees more.
static void resolve_window(const RopeSettings *s, int window, RopeConfig *c) {
    const unsigned map = c->map ? c->map->flags : 0;
    if (s->is_window) window = c->train_ctx;
    c->sinks = s->sinks > 0 ? s->sinks : 0;
    if (map & ROPE_MAP_WINDOW) {
        if (s->sinks < 0) c->sinks = c->map->sinks;
        int own = map & ROPE_MAP_SINKS_INSIDE ? c->train_ctx - c->sinks : c->train_ctx;
        if (window == 0 || window > own) window = own;
    }
    c->window = s->window >= 0 ? s->window : window;
    c->all_slide = s->is_window || s->window >= 0 || map & ROPE_MAP_WINDOW;
}

bool settings_resolve(const RopeSettings *s, const RopeConfig *start, int window, int context, RopePlan *plan,
                      Error *err) {
    RopeConfig r = *start;
    if (s->method >= 0) r.dynamic = s->dynamic;
    if (s->method >= 0) r.method = s->method;
    if (s->method >= 0) r.map = s->map;
    // A temperature in the model is meant for methods that have one; put on another it would only do harm.
    if (!rope_methods[r.method].attention) r.attention_factor = 0;
    r.factor = either(s->factor, r.factor);
    r.theta = either(s->theta, r.theta);
    r.beta_fast = either(s->beta_fast, r.beta_fast);
    r.beta_slow = either(s->beta_slow, r.beta_slow);
    r.attention_factor = either(s->attention_factor, r.attention_factor);
    r.low_freq_factor = either(s->low_freq_factor, r.low_freq_factor);
    r.high_freq_factor = either(s->high_freq_factor, r.high_freq_factor);
    if (s->train_ctx) r.train_ctx = s->train_ctx;
    if (s->ramp >= 0) r.ramp = (RopeRamp)s->ramp;
    r.near = s->near;
    r.group = s->group;
    r.chunk = s->chunk;
    r.k = s->k;
    if (s->logn >= 0) r.logn = s->logn;
    settings_fill_defaults(&r, context);
    resolve_window(s, window, &r);
    *plan = (RopePlan){.rope = r, .head_dim = r.rotary_dim};
    if (s->name[0]) snprintf(plan->name, sizeof plan->name, "%s", s->name);
    else settings_method_name(r.method, r.dynamic, plan->name, sizeof plan->name);
    const char *reason = settings_check(&r, context);
    return reason ? fail(err, "rope %s: %s", plan->name, reason) : check_map(plan, err);
}

bool settings_same_method(const RopeConfig *own, const RopeConfig *asked) {
    return own->method == ROPE_NONE || (asked->method == own->method && asked->dynamic == own->dynamic);
}

// The option that was said and that neither the method nor the map looks at, or NULL.
static const char *unused_option(const RopeSettings *s, unsigned flags, unsigned map) {
    if (s->factor != 0 && !(flags & ROPE_USES_FACTOR)) return "--factor";
    if ((s->beta_fast != 0 || s->beta_slow != 0) && !(flags & ROPE_USES_BETAS)) return "--beta-fast or --beta-slow";
    if (s->ramp >= 0 && !(flags & ROPE_USES_BETAS)) return "--ramp";
    if ((s->low_freq_factor != 0 || s->high_freq_factor != 0) && !(flags & ROPE_USES_FREQ_FACTORS))
        return "--low-freq-factor or --high-freq-factor";
    if (s->near != 0 && !(map & ROPE_MAP_NEAR)) return "--near";
    if (s->group != 0 && !(map & ROPE_MAP_GROUP)) return "--group";
    if (s->chunk != 0 && !(map & ROPE_MAP_CHUNK)) return "--chunk";
    if (s->k != 0 && !(map & ROPE_MAP_K)) return "--k";
    return NULL;
}

void settings_advice(const RopeSettings *s, const RopePlan *plan, int context, char *out, size_t capacity) {
    const RopeConfig *r = &plan->rope;
    const unsigned flags = rope_methods[r->method].flags, map = r->map ? r->map->flags : 0;
    const char *unused = unused_option(s, flags, map);
    const int chunk = map & ROPE_MAP_CHUNK ? (int)fmin(r->chunk, r->train_ctx - r->chunk) : 0;
    const int kept = map & ROPE_MAP_NEAR ? r->near : chunk;  // distances below this one are as they are
    double times = (double)context / r->train_ctx;
    bool reaches = r->dynamic || r->map || times <= 1 || (r->window > 0 && r->window <= r->train_ctx);
    reaches = reaches || flags & ROPE_USES_FREQ_FACTORS;  // Llama 3.1 itself reaches 16 times L with a factor of 8
    out[0] = '\0';
    if (unused) snprintf(out, capacity, "%s has no effect on rope %s", unused, plan->name);
    else if (s->window > 0 && s->window <= kept)
        snprintf(out, capacity, "--window %d hides all that rope %s changes: its distances below %d are plain",
                 s->window, plan->name, kept);
    else if (!reaches && !(flags & ROPE_USES_FACTOR))
        snprintf(out, capacity,
                 "%d positions are %.3g times the trained context of %d, and rope %s does nothing about it: try --rope "
                 "yarn or --rope dynamic",
                 context, times, r->train_ctx, plan->name);
    else if (!reaches && r->factor < times)
        snprintf(out, capacity,
                 "%d positions are %.3g times the trained context of %d, more than the factor %.6g of rope %s: try "
                 "--factor %.3g",
                 context, times, r->train_ctx, r->factor, plan->name, ceil(times));
}
