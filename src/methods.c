// Lists of methods. The text is read once; every function here that reads moves `at` behind what it has read.
#include "methods.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "options.h"

enum { MAX_METHODS = 256 };  // of one list, sweeps unfolded

typedef struct {
    const char *at;            // what is still to be read
    const RopeSettings *base;  // where a method starts from
    RopeSettings *items;       // (MAX_METHODS), and as many that a setting multiplies
    int n;
    Error *err;
} List;

// Reads a word, which ends before one of `ends`, in small letters. False when it is cut as there is no room for it.
static bool read_word(List *list, const char *ends, char *word, size_t capacity) {
    size_t length = strcspn(list->at, ends);
    snprintf(word, capacity, "%.*s", (int)length, list->at);
    for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c);
    list->at += length;
    return length < capacity;
}

static bool append(List *list, const RopeSettings *item) {
    if (list->n == MAX_METHODS) return fail(list->err, "--rope: more than %d methods", MAX_METHODS);
    list->items[list->n++] = *item;
    return true;
}

static bool append_method(List *list, const char *name, bool of_all) {
    RopeSettings s = *list->base;
    if (settings_read_method(&s, name)) {
        s.of_all = of_all;
        snprintf(s.name, sizeof s.name, "%s", name);
        return append(list, &s);
    }
    char names[300] = "expected ";
    const char *plain = strncmp(name, "dynamic-", 8) == 0 ? name + 8 : name;
    const char *nearest = nearer_name(plain, "dynamic", nearer_name(plain, "window", ""));
    for (int i = 0; i < rope_n_methods + rope_n_maps; i++) {
        const char *known = i < rope_n_methods ? rope_methods[i].name : rope_maps[i - rope_n_methods].name;
        if (i == rope_n_methods) add_name(names, sizeof names, ", dynamic, dynamic-NAME, window", "");
        add_name(names, sizeof names, i > 0 ? ", " : "", known);
        nearest = nearer_name(plain, known, nearest);
    }
    add_name(names, sizeof names, ", ", "METHOD+MAP");
    return fail_unknown(list->err, "--rope: there is no method", name, nearest, names);
}

// The method `s`, with the setting key=value.
static bool append_set(List *list, RopeSettings s, const char *key, const char *value) {
    if (!options_set_rope(&s, key, value, list->err)) return fail(list->err, "--rope: %s", list->err->text);
    size_t used = strlen(s.name), room = sizeof s.name - used;
    if ((size_t)snprintf(s.name + used, room, ":%s=%s", key, value) >= room)
        return fail(list->err, "--rope: '%.60s...' is too long", s.name);
    return append(list, &s);
}

// Reads ":key=value,value..." and makes each method from `first` on one for each value. A method's name ends them.
static bool read_setting(List *list, int first) {
    char key[32], value[64];
    const char *start = ++list->at;
    if (!read_word(list, "=:,", key, sizeof key) || !key[0] || *list->at != '=')
        return fail(list->err, "--rope: ':%.60s' is not a setting (expected :NAME=VALUE)", start);
    RopeSettings unused, *before = list->items + MAX_METHODS;
    int n = list->n - first;
    memcpy(before, list->items + first, (size_t)n * sizeof *before);
    list->n = first;
    do {
        list->at++;
        if (!read_word(list, ":,", value, sizeof value))
            return fail(list->err, "--rope: '%.60s...' is too long", value);
        for (int i = 0; i < n; i++)
            if (!append_set(list, before[i], key, value)) return false;
        if (*list->at != ',') return true;
        List next = {.at = list->at + 1};
        read_word(&next, ":,", value, sizeof value);
    } while (!settings_read_method(&unused, value));
    return true;
}

static bool append_all(List *list) {
    char name[MAX_METHOD_NAME];
    bool ok = true;
    for (int i = 0; ok && i < 2 * rope_n_methods; i++) {
        const int method = i % rope_n_methods, dynamic = i / rope_n_methods;
        settings_method_name(method, dynamic, name, sizeof name);
        if (!dynamic || rope_methods[method].flags & ROPE_CAN_BE_DYNAMIC) ok = append_method(list, name, true);
    }
    for (int i = 0; ok && i < rope_n_maps; i++) ok = append_method(list, rope_maps[i].name, true);
    return ok && append_method(list, "window", true);
}

// Reads a method with its settings, or `all`.
static bool read_method(List *list) {
    char name[64];
    int first = list->n;
    read_word(list, ":,", name, sizeof name);  // one that is cut is none
    if (strcmp(name, "all") == 0 && *list->at != ':') return append_all(list);
    bool ok = append_method(list, name, false);
    while (ok && *list->at == ':') ok = read_setting(list, first);
    return ok;
}

RopeSettings *methods_parse(const char *text, const RopeSettings *base, int *n, Error *err) {
    List list = {.at = text, .base = base, .err = err};
    list.items = alloc_array(2 * MAX_METHODS, sizeof *list.items, "a list of methods", err);
    bool ok = list.items && (text || append(&list, base));
    if (ok && text) {
        do ok = read_method(&list);
        while (ok && *list.at++ == ',');
    }
    *n = list.n;
    return keep_if(ok, list.items);
}
