// Looks up keys of a config, and says what is wrong.
#include "config_reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../base/settings.h"
#include "json.h"

const char *const rope_types[TYPE_UNKNOWN] = {"default", "linear", "dynamic", "proportional",
                                              "llama3",  "yarn",   "longrope"};
const int rope_type_methods[TYPE_UNKNOWN + 1] = {ROPE_NONE,         ROPE_LINEAR, ROPE_NTK,
                                                 ROPE_PROPORTIONAL, ROPE_LLAMA3, ROPE_YARN,
                                                 ROPE_LONGROPE,     ROPE_NONE};

bool config_has_type_blocks(const RopeFamily *family, const char *parameters) {
    bool found = false;
    for (int kind = 0; kind < N_KINDS; kind++) {
        const char *v = json_member(parameters, family_block_name(family, kind));
        found = found || (v && *v == '{');
    }
    return found;
}

bool config_has_kinds(const char *object) {
    const char *key;
    int n = 0;
    for (const char *v = json_first(object, &key); v; v = json_next(v, &key), n++) {
        bool is_kind = json_is(key, kind_keys[KIND_FULL]) || json_is(key, kind_keys[KIND_SLIDING]);
        if (!is_kind || *v != '{') return false;
    }
    return n > 0;
}

// ---- what is wrong ----

void config_note(Config *c, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_name(c->note, sizeof c->note, "; ", text);
}

void config_refuse(Config *c, bool stops, const char *reason) {
    if (!stops || c->stopped) return;
    snprintf(c->note, sizeof c->note, "%.200s", reason);
    c->stopped = true;
}

int config_line(const Config *c, const char *place) {
    uintptr_t start = (uintptr_t)c->whole, at = (uintptr_t)place;
    return at >= start && at <= start + strlen(c->whole) ? json_line(c->whole, place) : 1;
}

void config_reject(Config *c, const char *object, const char *key, const char *format, ...) {
    const char *v = json_member(object, key), *where = v ? v : object ? object : c->whole;
    const char *found = !v ? "nothing" : *v == '[' ? "a list" : *v == '{' ? "an object" : v;
    size_t length = *found == '"' ? 2 + strcspn(v + 1, "\"")
                    : found == v  ? strcspn(v, ",]} \t\r\n")
                                  : strlen(found);
    bool is_inside = object && (object == c->block || object == c->under);
    char expected[400];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (!c->good) return;
    c->good = fail(c->err, "line %d: %s%s cannot be used (found %.*s, expected %s)",
                   config_line(c, where), is_inside ? c->called.inside : "", key,
                   length < 40 ? (int)length : 40, found, expected);
}

Word config_word(const char *quoted) {
    Word w;
    snprintf(w.text, sizeof w.text, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
    return w;
}

void config_remark(Config *c, const char *format, ...) {
    char line[300];
    va_list args;
    if (!c->file) return;  // an engine's reading
    va_start(args, format);
    vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    if (!strstr(c->file->remarks, line))
        add_name(c->file->remarks, sizeof c->file->remarks, "", line);
}

// ---- looking up ----

// Marks a member of the block as looked for. Returns how many there are of this key.
static int mark_asked(Config *c, const char *object, const char *key) {
    int times = 0;
    int i = 0;
    for (const char *name, *in = json_first(object, &name); in; in = json_next(in, &name), i++) {
        if (!json_is(name, key)) continue;
        times++;
        if (object == c->block && i < 64) c->called.asked[0] |= 1ull << i;
        if (object == c->under && i < 64) c->called.asked[1] |= 1ull << i;
    }
    return times;
}

const char *config_get(Config *c, const char *object, const char *key) {
    if (c->flags & STRICT && mark_asked(c, object, key) > 1)
        config_reject(c, object, key, "it once, and it appears twice");
    return json_member(object, key);
}

const char *config_object_with(const Config *c, const char *key) {
    bool is_under = !json_member(c->block, key) && json_member(c->under, key);
    return is_under ? c->under : c->block;
}

const char *config_member(const Config *c, const char *key) {
    return json_member(config_object_with(c, key), key);
}

const char *config_block_get(Config *c, const char *key) {
    if (c->under) config_get(c, c->under, key);  // it is looked for there, too
    return config_get(c, config_object_with(c, key), key);
}

static double lenient_number(Config *c, const char *v, double missing) {
    double x;
    if (!v || *v == 'n') return missing;
    if (json_number(v, &x, NULL) && fabs(x) <= CONFIG_LIMIT) return x;
    config_refuse(c, true, "TypeError: a setting is no number that can be used");
    return missing;
}

double config_number(Config *c, const char *object, const char *key, double missing, int low,
                     int high, MayBe may_be) {
    const char *v = config_get(c, object, key);
    double x;
    bool is_whole;
    if (!(c->flags & STRICT)) return lenient_number(c, v, missing);
    if (v ? *v == 'n' && may_be >= NULL_TOO : may_be >= OPTIONAL) return missing;
    bool good = json_number(v, &x, &is_whole);
    if (good && high) good = is_whole && x >= low && x <= high;
    else if (good) good = (x > low && x <= CONFIG_LIMIT) || (x == 0 && may_be == UNSAID);
    if (good) return x;
    if (high) config_reject(c, object, key, "a whole number from %d to %d", low, high);
    else config_reject(c, object, key, "a number above %d, at most %g", low, CONFIG_LIMIT);
    return missing;
}

int config_length(Config *c, const char *object, const char *key, int missing, int low) {
    double x = config_number(c, object, key, missing, low, MOST, OPTIONAL);
    bool is_length = x >= 0 && x <= MOST;
    config_refuse(c, !is_length, "ValueError: a length is none");
    return is_length ? (int)x : 0;
}

bool config_is_something(const char *v) {
    double x;
    if (json_number(v, &x, NULL)) return x != 0;
    if (!v) return false;
    if (*v == '"') return v[1] != '"';
    return *v == 't' || json_first(v, NULL) || json_has_members(v);
}
