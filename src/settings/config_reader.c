// Looks up keys of a config, and says what is wrong by the line and the key.
#include "config_reader.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

const char *const rope_types[TYPE_UNKNOWN] = {"default", "linear", "dynamic", "proportional",
                                              "llama3",  "yarn",   "longrope"};
const int rope_type_methods[TYPE_UNKNOWN + 1] = {ROPE_NONE,         ROPE_LINEAR, ROPE_NTK,
                                                 ROPE_PROPORTIONAL, ROPE_LLAMA3, ROPE_YARN,
                                                 ROPE_LONGROPE,     ROPE_NONE};

bool config_list(const char *block, const char *key, int n, double *out) {
    int i = 0;
    const char *v = json_first(json_member(block, key), NULL);
    for (; v && i < n && json_number(v, &out[i], NULL) && out[i] > 0 && out[i] <= 1e12; i++)
        v = json_next(v, NULL);
    return !v && i == n;
}

bool config_has_type_blocks(const char *parameters) {
    bool found = false;
    for (int kind = 0; kind < N_KINDS; kind++) {
        const char *v = json_member(parameters, kind_keys[kind]);
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

int config_line(const Reader *r, const char *place) {
    uintptr_t start = (uintptr_t)r->text, at = (uintptr_t)place;
    return at >= start && at <= start + strlen(r->text) ? json_line(r->text, place) : 1;
}

void config_reject(Reader *r, const char *object, const char *key, const char *format, ...) {
    const char *v = json_member(object, key), *where = v ? v : object ? object : r->text;
    const char *found = !v ? "nothing" : *v == '[' ? "a list" : *v == '{' ? "an object" : v;
    size_t length = *found == '"' ? 2 + strcspn(v + 1, "\"")
                    : found == v  ? strcspn(v, ",]} \t\r\n")
                                  : strlen(found);
    bool is_inside = object && (object == r->block.object || object == r->block.under);
    char expected[400];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (!r->good) return;
    r->good = fail(r->err, "line %d: %s%s cannot be used (found %.*s, expected %s)",
                   config_line(r, where), is_inside ? r->block.inside : "", key,
                   length < 40 ? (int)length : 40, found, expected);
}

Word config_word(const char *quoted) {
    Word w;
    snprintf(w.text, sizeof w.text, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
    return w;
}

void config_remark(Reader *r, const char *format, ...) {
    char line[300];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    if (!strstr(r->file->remarks, line))
        add_name(r->file->remarks, sizeof r->file->remarks, "", line);
}

const char *config_get(Reader *r, const char *object, const char *key) {
    const char *v = json_member(object, key);
    int times = 0, i = 0;
    for (const char *name, *in = json_first(object, &name); in; in = json_next(in, &name), i++) {
        if (!json_is(name, key)) continue;
        times++;
        if (object == r->block.object && i < 64) r->block.asked[0] |= 1ull << i;
        if (object == r->block.under && i < 64) r->block.asked[1] |= 1ull << i;
    }
    if (times > 1) config_reject(r, object, key, "it once, and it appears twice");
    return v;
}

const char *config_object_with(const Reader *r, const char *key) {
    bool is_under = !json_member(r->block.object, key) && json_member(r->block.under, key);
    return is_under ? r->block.under : r->block.object;
}

const char *config_block_get(Reader *r, const char *key) {
    if (r->block.under) config_get(r, r->block.under, key);  // it is looked for there, too
    return config_get(r, config_object_with(r, key), key);
}

double config_number(Reader *r, const char *object, const char *key, double missing, int low,
                     int high, MayBe may_be) {
    const char *v = config_get(r, object, key);
    double x;
    bool is_whole;
    if (v ? *v == 'n' && may_be >= NULL_TOO : may_be >= OPTIONAL) return missing;
    bool good = json_number(v, &x, &is_whole);
    if (good && high) good = is_whole && x >= low && x <= high;
    else if (good) good = (x > low && x <= CONFIG_LIMIT) || (x == 0 && may_be == UNSAID);
    if (good) return x;
    if (high) config_reject(r, object, key, "a whole number from %d to %d", low, high);
    else config_reject(r, object, key, "a number above %d, at most %g", low, CONFIG_LIMIT);
    return missing;
}

bool config_is_something(const char *v) {
    double x;
    if (json_number(v, &x, NULL)) return x != 0;
    if (!v) return false;
    if (*v == '"') return v[1] != '"';
    return *v == 't' || json_first(v, NULL) || json_has_members(v);
}
