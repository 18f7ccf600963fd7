#include "settings.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_METHODS = 256 };  // of one list, sweeps unfolded

const RopeSettings settings_nothing_said = {.method = -1, .ramp = -1, .window = -1, .sinks = -1};

// ---- one setting ----------------------------------------------------------------------------------------------------

static const char *const ramp_names[] = {"dims", "turns"};

bool settings_set(RopeSettings *s, const char *key, const char *value, bool *known, Error *err) {
    const struct {
        const char *key;
        double *field, low, high;
    } numbers[] = {
        {"factor", &s->factor, 1, 1e6},
        {"theta", &s->theta, 1 + 1e-9, 1e18},
        {"beta-fast", &s->beta_fast, 1e-6, 1e9},
        {"beta-slow", &s->beta_slow, 1e-6, 1e9},
        {"attn-factor", &s->attention_factor, 1e-6, 1e6},
        {"low-freq-factor", &s->low_freq_factor, 1e-6, 1e9},
        {"high-freq-factor", &s->high_freq_factor, 1e-6, 1e9},
    };
    const struct {
        const char *key;
        int *field;
        long low;
    } counts[] = {{"train-ctx", &s->train_ctx, 1}, {"window", &s->window, 0}, {"sinks", &s->sinks, 0}};
    *known = true;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return parse_double(key, value, numbers[i].low, numbers[i].high, numbers[i].field, err);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (strcmp(key, counts[i].key) == 0) return parse_int(key, value, counts[i].low, 1 << 30, counts[i].field, err);
    if (strcmp(key, "ramp") == 0) {
        for (s->ramp = 0; s->ramp < 2; s->ramp++)
            if (strcmp(value, ramp_names[s->ramp]) == 0) return true;
        s->ramp = -1;
        return fail(err, "ramp: '%.60s' is not a ramp (expected dims or turns)", value);
    }
    *known = false;
    return false;
}

// ---- lists of methods -----------------------------------------------------------------------------------------------

static bool set_method(RopeSettings *s, const char *name, size_t length) {
    s->is_window = length == 6 && memcmp(name, "window", 6) == 0;
    if (s->is_window) return rope_parse_name("none", 4, &s->method, &s->dynamic);
    return rope_parse_name(name, length, &s->method, &s->dynamic);
}

static void list_names(char *out, size_t capacity) {
    size_t used = 0;
    for (int i = 0; i < rope_n_methods && used < capacity; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s, ", rope_methods[i].name);
    if (used < capacity) snprintf(out + used, capacity - used, "dynamic, dynamic-NAME, window");
}

typedef struct {
    RopeSettings *items;
    int n;
} List;

static bool append(List *list, const RopeSettings *item, Error *err) {
    if (list->n == MAX_METHODS) return fail(err, "--rope: more than %d methods", MAX_METHODS);
    list->items[list->n++] = *item;
    return true;
}

static bool append_name(RopeSettings *s, const char *text, size_t length, Error *err) {
    size_t used = strlen(s->name);
    if (used + length >= sizeof s->name) return fail(err, "--rope: '%.60s...' is too long", s->name);
    memcpy(s->name + used, text, length);
    s->name[used + length] = '\0';
    return true;
}

// Reads ":key=value,value..." at *at and multiplies the methods of the list from `first` on by the values.
// A comma ends the values when a method's name follows.
static bool parse_setting(List *list, int first, const char **at, Error *err) {
    char key[32], value[64];
    const char *p = *at + 1;
    size_t key_length = strcspn(p, "=:,");
    if (p[key_length] != '=' || key_length == 0 || key_length >= sizeof key)
        return fail(err, "--rope: ':%.60s' is not a setting (expected :NAME=VALUE)", p);
    snprintf(key, sizeof key, "%.*s", (int)key_length, p);
    p += key_length;
    int n_before = list->n - first;
    RopeSettings *before = alloc_array((size_t)n_before, sizeof *before, "a list of methods", err);
    if (!before) return false;
    memcpy(before, list->items + first, (size_t)n_before * sizeof *before);
    list->n = first;
    bool ok = true;
    do {
        size_t length = strcspn(++p, ":,");
        ok = length < sizeof value || fail(err, "--rope: '%.60s...' is too long", p);
        if (!ok) break;
        snprintf(value, sizeof value, "%.*s", (int)length, p);
        for (int i = 0; ok && i < n_before; i++) {
            RopeSettings s = before[i];
            bool known;
            Error reason;
            ok = settings_set(&s, key, value, &known, &reason) || fail(err, "--rope: %s", reason.text);
            if (!known)
                fail(err,
                     "--rope: there is no setting '%s' (factor, theta, train-ctx, beta-fast, beta-slow, ramp, "
                     "attn-factor, low-freq-factor, "
                     "high-freq-factor, window, sinks)",
                     key);
            if (ok)
                ok = append_name(&s, ":", 1, err) && append_name(&s, key, key_length, err) &&
                     append_name(&s, "=", 1, err) && append_name(&s, value, length, err) && append(list, &s, err);
        }
        p += length;
        RopeSettings unused;
        if (*p == ',' && set_method(&unused, p + 1, strcspn(p + 1, ":,"))) break;
    } while (ok && *p == ',');
    free(before);
    *at = p;
    return ok;
}

static bool parse_method(List *list, const RopeSettings *base, const char **at, Error *err) {
    size_t length = strcspn(*at, ":,");
    RopeSettings s = *base;
    s.name[0] = '\0';
    if (!set_method(&s, *at, length)) {
        char names[200];
        list_names(names, sizeof names);
        return fail(err, "--rope: there is no method '%.*s' (expected %s)", length < 60 ? (int)length : 60, *at, names);
    }
    int first = list->n;
    if (!append_name(&s, *at, length, err) || !append(list, &s, err)) return false;
    *at += length;
    while (**at == ':')
        if (!parse_setting(list, first, at, err)) return false;
    return true;
}

// Every method there is: the static ones, the dynamic ones, and the window.
static bool append_all(List *list, const RopeSettings *base, bool has_longrope_lists, Error *err) {
    for (int dynamic = 0; dynamic < 2; dynamic++)
        for (int m = 0; m < rope_n_methods; m++) {
            RopeSettings s = *base;
            s.method = m;
            s.dynamic = dynamic;
            rope_name(m, dynamic, s.name, sizeof s.name);
            bool needs_lists = rope_methods[m].flags & ROPE_BY_LENGTH;
            if ((dynamic && !(rope_methods[m].flags & ROPE_CAN_BE_DYNAMIC)) || (needs_lists && !has_longrope_lists))
                continue;
            if (!append(list, &s, err)) return false;
        }
    const char *window = "window";
    return parse_method(list, base, &window, err);
}

RopeSettings *settings_parse_list(const char *text, const RopeSettings *base, bool has_longrope_lists, int *n,
                                  Error *err) {
    List list = {.items = alloc_array(MAX_METHODS, sizeof *list.items, "a list of methods", err)};
    bool ok = list.items != NULL;
    const char *p = text;
    while (ok) {
        size_t length = strcspn(p, ":,");
        if (length == 3 && memcmp(p, "all", 3) == 0 && p[3] != ':') {
            ok = append_all(&list, base, has_longrope_lists, err);
            p += 3;
        } else {
            ok = parse_method(&list, base, &p, err);
        }
        if (!ok || *p == '\0') break;
        p++;  // the comma
    }
    *n = list.n;
    if (ok) return list.items;
    free(list.items);
    return NULL;
}

// ---- together with the model ----------------------------------------------------------------------------------------

static void replace(double *field, double said) {
    if (said != 0) *field = said;
}

bool settings_resolve(const RopeSettings *s, const Model *model, RopeConfig start, int context, RopePlan *plan,
                      Error *err) {
    RopeConfig r = model ? model->rope : start;
    if (s->method >= 0) r.method = s->method, r.dynamic = s->dynamic;
    // A temperature in the model is meant for methods that have one; put on another it would only do harm.
    if (!(rope_methods[r.method].flags & ROPE_HAS_ATTENTION)) r.attention_factor = 0;
    replace(&r.factor, s->factor);
    replace(&r.theta, s->theta);
    replace(&r.beta_fast, s->beta_fast);
    replace(&r.beta_slow, s->beta_slow);
    replace(&r.attention_factor, s->attention_factor);
    replace(&r.low_freq_factor, s->low_freq_factor);
    replace(&r.high_freq_factor, s->high_freq_factor);
    if (s->train_ctx) r.train_ctx = s->train_ctx;
    if (s->ramp >= 0) r.ramp = (RopeRamp)s->ramp;
    rope_fill_defaults(&r, context);
    *plan = (RopePlan){.rope = r};
    int model_window = model ? model->config.sliding_window : 0;
    plan->window = s->window >= 0 ? s->window : s->is_window ? r.train_ctx : model_window;
    plan->sinks = s->sinks > 0 ? s->sinks : 0;
    if (s->name[0]) snprintf(plan->name, sizeof plan->name, "%s", s->name);
    else rope_name(r.method, r.dynamic, plan->name, sizeof plan->name);
    const char *reason = rope_check(&r);
    return !reason || fail(err, "rope %s: %s", plan->name, reason);
}

void settings_advice(const RopeSettings *s, const RopePlan *plan, int context, char *out, size_t capacity) {
    const RopeConfig *r = &plan->rope;
    const RopeMethod *m = &rope_methods[r->method];
    out[0] = '\0';
    struct {
        bool said;
        unsigned flag;
        const char *option;
    } needs[] = {
        {s->factor != 0, ROPE_USES_FACTOR, "--factor"},
        {s->beta_fast != 0 || s->beta_slow != 0, ROPE_USES_BETAS, "--beta-fast or --beta-slow"},
        {s->ramp >= 0, ROPE_USES_BETAS, "--ramp"},
        {s->low_freq_factor != 0 || s->high_freq_factor != 0, ROPE_USES_FREQ_FACTORS,
         "--low-freq-factor or --high-freq-factor"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (needs[i].said && !(m->flags & needs[i].flag)) {
            snprintf(out, capacity, "%s has no effect on rope %s", needs[i].option, plan->name);
            return;
        }
    if (plan->sinks > 0 && plan->window == 0) {
        snprintf(out, capacity, "--sinks has no effect without --window");
        return;
    }
    if (r->dynamic || context <= r->train_ctx || (plan->window > 0 && plan->window <= r->train_ctx)) return;
    double times = (double)context / r->train_ctx;
    if (!(m->flags & ROPE_USES_FACTOR))
        snprintf(out, capacity,
                 "%d positions are %.3g times the trained context of %d, and rope %s does nothing about it: try --rope "
                 "yarn or --rope dynamic",
                 context, times, r->train_ctx, plan->name);
    else if (r->factor < times)
        snprintf(out, capacity,
                 "%d positions are %.3g times the trained context of %d, more than the factor %.6g of rope %s: try "
                 "--factor %.3g",
                 context, times, r->train_ctx, r->factor, plan->name, ceil(times));
}
