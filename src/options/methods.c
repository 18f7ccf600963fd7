// Parses lists of methods, word by word. A setting with several values turns each method before it
// into several methods.
#include "methods.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"

enum { MAX_METHODS = 256 };  // in one list, with sweeps expanded

typedef struct {
    const RopeSettings *base;
    RopeSettings *items;  // (MAX_METHODS)
    int n, first;         // those from `first` on come from one name in the list
    char key[32];         // of the setting whose values are being read; empty: none
    int n_each;           // methods for each of its values
    Error *err;
} List;

// Fails because there is no such method, and lists the methods that exist.
static bool fail_no_method(const char *name, Error *err) {
    char names[sizeof err->text] = "expected ";
    const char *plain = strncmp(name, "dynamic-", 8) == 0 ? name + 8 : name;
    const char *nearest = nearer_name(plain, "dynamic", nearer_name(plain, "window", ""));
    for (int i = 0; i < rope_n_methods + rope_n_maps; i++) {
        bool is_map = i >= rope_n_methods;
        const char *known = is_map ? rope_maps[i - rope_n_methods].name : rope_methods[i].name;
        if (i == rope_n_methods)
            add_name(names, sizeof names, ", dynamic, dynamic-NAME, window", "");
        add_name(names, sizeof names, i > 0 ? ", " : "", known);
        nearest = nearer_name(plain, known, nearest);
    }
    add_name(names, sizeof names, ", ", "METHOD+MAP");
    char turned[96];
    RopeSettings unused;
    const char *plus = strchr(name, '+');
    if (plus) {  // MAP+METHOD
        snprintf(turned, sizeof turned, "%s+%.*s", plus + 1, (int)(plus - name), name);
        if (settings_read_method(&unused, turned)) nearest = turned;
    }
    return fail_unknown(err, "there is no method", name, nearest, names);
}

static bool append(List *list, const RopeSettings *item) {
    if (list->n == MAX_METHODS) return fail(list->err, "more than %d methods", MAX_METHODS);
    list->items[list->n++] = *item;
    return true;
}

static bool append_method(List *list, const char *name, bool of_all) {
    RopeSettings s = *list->base;
    if (settings_read_method(&s, name)) {
        s.of_all = of_all;
        return append(list, &s);
    }
    return fail_no_method(name, list->err);
}

static bool append_all(List *list) {
    bool ok = true;
    for (int i = 0; ok && i < 2 * rope_n_methods; i++) {
        RopeConfig c = {.method = i % rope_n_methods, .dynamic = i >= rope_n_methods};
        if (!c.dynamic || rope_methods[c.method].flags & ROPE_CAN_BE_DYNAMIC)
            ok = append_method(list, settings_method_name(&c).text, true);
    }
    for (int i = 0; ok && i < rope_n_maps; i++) ok = append_method(list, rope_maps[i].name, true);
    return ok && append_method(list, "window", true);
}

// Appends each method of the setting with this value. In the method's name, a later value replaces
// the first one.
static bool append_value(List *list, const char *value) {
    for (int i = 0; i < list->n_each; i++) {
        RopeSettings s = list->items[list->first + i];
        if (list->n > list->first + i) *strrchr(s.name, ':') = '\0';
        if (!settings_read_setting(&s, list->key, value, list->err)) return false;
        size_t used = strlen(s.name), room = sizeof s.name - used;
        if ((size_t)snprintf(s.name + used, room, ":%s=%s", list->key, value) >= room)
            return fail(list->err, "'%.60s...' is too long", s.name);
        if (!append(list, &s)) return false;
    }
    return true;
}

// Reads a word: KEY=VALUE after a colon, otherwise a method, or another value of the setting before
// it.
static bool read_method_word(List *list, char before, const char *word, char behind) {
    RopeSettings unused;
    const char *equals = strchr(word, '=');
    if (before == ':') {
        if (!equals || equals == word)
            return fail(list->err, "':%.60s' is not a setting (expected :NAME=VALUE)", word);
        snprintf(list->key, sizeof list->key, "%.*s", (int)(equals - word), word);
        list->n_each = list->n - list->first;
        list->n = list->first;
        return append_value(list, equals + 1);
    }
    if (equals && equals > word && list->n > 0) {
        char *name = list->items[list->n - 1].name;
        return fail(list->err, "there is no method '%.60s' (did you mean %.60s:%.60s?)", word, name,
                    word);
    }
    if (list->key[0] && !settings_read_method(&unused, word)) return append_value(list, word);
    list->key[0] = '\0';
    list->first = list->n;
    return strcmp(word, "all") == 0 && behind != ':' ? append_all(list)
                                                     : append_method(list, word, false);
}

// methods_parse, without the name of the option in errors.
static RopeSettings *parse_methods(const char *text, const RopeSettings *base, int *n, Error *err) {
    List list = {.base = base, .err = err};
    list.items = alloc_array(MAX_METHODS, sizeof *list.items, "a list of methods", err);
    bool ok = list.items && (text || append(&list, base));
    for (char word[96], before = ','; ok && text && before; before = *text++) {
        size_t length = strcspn(text, ",:");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c);
        text += length;
        ok = length < sizeof word ? read_method_word(&list, before, word, *text)
                                  : fail(err, "'%.60s...' is too long", word);
    }
    *n = list.n;
    return keep_if(ok, list.items);
}

RopeSettings *methods_parse(const char *text, const RopeSettings *base, int *n, Error *err) {
    RopeSettings *methods = parse_methods(text, base, n, err);
    if (!methods) fail(err, "--rope: %s", err->text);
    return methods;
}

// Checks that sliding layers have only settings that a model file can store for them.
static bool check_sliding_method(const RopeSettings *s, Error *err) {
    const RopeConfig *c = &s->rope;
    if (c->map || s->is_window)
        return fail(err, "'%s' changes distances, which the window of sliding layers keeps short",
                    s->name);
    if (c->dynamic || rope_methods[c->method].flags & ROPE_USES_LISTS)
        return fail(err, "'%s': sliding layers have one scale and no lists", s->name);
    for (int i = 0; i < N_ROPE_SETTINGS; i++)
        if (s->given >> i & 1 && !rope_settings[i].key && !rope_settings[i].methods)
            return fail(err, "'%s': %s cannot be set only for sliding layers", s->name,
                        rope_settings[i].option + 2);
    return true;
}

bool one_method_parse(const char *option, const char *text, RopeSettings *settings, Error *err) {
    int n;
    *settings = (RopeSettings){.given = 0};
    RopeSettings *methods = parse_methods(text, settings, &n, err);
    bool good =
        methods && (n == 1 || fail(err, "'%.100s' is a list of %d (expected one method)", text, n));
    if (good) *settings = methods[0];
    free(methods);
    return good || fail(err, "%s: %s", option, err->text);
}

bool sliding_method_parse(const char *text, RopeSettings *of_sliding, Error *err) {
    *of_sliding = (RopeSettings){.given = 0};
    if (!text) return true;
    return one_method_parse("--rope-sliding", text, of_sliding, err) &&
           (check_sliding_method(of_sliding, err) || fail(err, "--rope-sliding: %s", err->text));
}

void settings_say(RopeSettings *s, int row, double value) {
    setting_put(&s->rope, &rope_settings[row], value);
    s->given |= 1u << row;
}

// ---- advice ----

bool settings_same_method(const RopeConfig *own, const RopeConfig *asked) {
    return own->method == ROPE_NONE ||
           (asked->method == own->method && asked->dynamic == own->dynamic);
}

bool settings_idle(const RopeSettings *s, const RopePlan *plan, int *row, Error *advice) {
    const RopeConfig *r = &plan->rope;
    unsigned flags = rope_methods[r->method].flags, map = r->map ? r->map->flags : 0;
    while (*row < N_ROPE_SETTINGS) {
        int i = (*row)++;
        const Setting *f = &rope_settings[i];
        bool is_used = (!f->methods && !f->maps) || flags & f->methods || map & f->maps;
        if (s->given >> i & 1 && !is_used) {
            bool is_letter = strcmp(f->option, "--k") == 0;  // -k is another option
            return !fail(advice, "%s has no effect on rope %s%s%s%s", f->option, plan->name,
                         is_letter ? " (did you mean " : "", is_letter ? f->option + 1 : "",
                         is_letter ? "?)" : "");
        }
    }
    return false;
}

bool settings_advice(const RopeSettings *s, const RopePlan *plan, int context, Error *advice) {
    const RopeConfig *r = &plan->rope;
    unsigned flags = rope_methods[r->method].flags, map = r->map ? r->map->flags : 0;
    int chunk = map & ROPE_MAP_CHUNK ? (int)fmin(r->chunk, r->train_ctx - r->chunk) : 0;
    int kept = map & ROPE_MAP_NEAR ? r->near : chunk;  // smaller distances do not change
    double times = (double)context / r->train_ctx;
    int most = r->train_ctx + r->near - r->local;  // longest text for string, in positions
    if (map & ROPE_MAP_LOCAL && context > most)
        return fail(advice, "%d positions are more than the %d that rope %s with L %d reaches",
                    context, most, plan->name, r->train_ctx);
    bool reaches =
        r->dynamic || r->map || times <= 1 || (r->window > 0 && r->window <= r->train_ctx);
    // The reach of some methods can only be measured, and Llama 3.1 itself reaches 16 times L with
    // a factor of 8.
    reaches = reaches || flags & (ROPE_USES_FREQ_FACTORS | ROPE_USES_ROTATED_PAIRS) ||
              settings_have_no_factor(r);
    if (s->rope.window > 0 && s->rope.window <= kept)
        return fail(advice,
                    "--window %d hides all that rope %s changes: its distances below %d are plain",
                    s->rope.window, plan->name, kept);
    if (reaches || (flags & ROPE_USES_FACTOR && r->factor >= times)) return true;
    char past[100];
    snprintf(past, sizeof past,
             times < 100 ? "%d positions are %.3g times" : "%d positions are %.0f times", context,
             times);
    if (flags & ROPE_USES_FACTOR)
        return fail(
            advice,
            "%s the trained length of %d, more than the factor %.6g of rope %s: try --factor %.0f",
            past, r->train_ctx, r->factor, plan->name, ceil(times));
    return fail(advice,
                "%s the trained length of %d, and rope %s does not scale: try --rope yarn "
                "or --rope "
                "dynamic",
                past, r->train_ctx, plan->name);
}
