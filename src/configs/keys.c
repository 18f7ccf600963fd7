// The table of keys, and names that are not in it.
#include "keys.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/names.h"
#include "family.h"
#include "json.h"
#include "made/key_table.h"

KeyId config_key(const char *name) {
    KeyId key = N_KEYS - 1;
    while (key > KEY_NONE && strcmp(config_key_rows[key].name, name) != 0) key--;
    return key;
}

// Whether an object, or an object in it, has a key of a config, or a name that resembles one.
static bool has_some_key(const Json *object, int depth) {
    static const char *const own[] = {"model_type", "architectures", "vocab_size",
                                      "sliding_window"};
    for (const Json *v = json_members(object); v; v = v->next) {
        bool is_some = config_key(v->key) || config_key_meant(v->key, KEY_AT_TOP | KEY_AT_BLOCK);
        for (KeyId key = KEY_NONE + 1; key < N_KEYS; key++)
            is_some = is_some || has_word(config_key_rows[key].also, v->key);
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            is_some = is_some || strcmp(v->key, own[i]) == 0;
        if (is_some || (depth > 0 && has_some_key(v, depth - 1))) return true;
    }
    return false;
}

const char *config_other_file(const Json *object) {
    static const char *const own[] = {"model_type", "architectures", "hidden_size", "rope_scaling",
                                      "rope_parameters"};
    enum { DEPTH = 3 };  // a block of a kind of layers, in a text model inside
    char key[40];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_member(object, own[i])) return NULL;
    for (size_t i = 0; i < sizeof other_files / sizeof *other_files; i++) {
        bool has_all = true;
        for (const char *at = other_files[i].keys; *at; at += strcspn(at, " "), at += *at == ' ') {
            snprintf(key, sizeof key, "%.*s", (int)strcspn(at, " "), at);
            has_all = has_all && json_member(object, key);
        }
        if (has_all) return other_files[i].name;
    }
    bool is_strange = json_members(object) && !has_some_key(object, DEPTH);
    return is_strange ? "another file, since no key of it is a config's" : NULL;
}

// The letters and digits of a name, in lower case.
static Word letters_of(const char *name) {
    Word w;
    size_t n = 0;
    for (; *name && n + 1 < sizeof w.text; name++)
        if (isalnum((unsigned char)*name)) w.text[n++] = (char)tolower((unsigned char)*name);
    w.text[n] = '\0';
    return w;
}

const char *config_key_meant(const char *name, unsigned at) {
    const Word plain = letters_of(name);
    const size_t n = strlen(plain.text);
    if (n < 4 || n > 32) return NULL;
    for (KeyId id = KEY_NONE + 1; id < N_KEYS; id++) {
        const ConfigKey *key = &config_key_rows[id];
        const Word known = letters_of(key->name);
        const size_t m = strlen(known.text), most = n > 6 ? 2 : 1;
        bool is_near = strlen(key->name) > 4 && m <= n + most && n <= m + most &&
                       name_distance(plain.text, known.text) <= (int)most;
        if (key->at & at && (is_near || has_word(key->misspelled, plain.text))) return key->name;
    }
    return NULL;
}

// ---- in messages ----

Word config_word(const Json *value) {
    Word w = {""};
    if (!value) return w;
    if (value->kind == '[' || value->kind == '{')
        snprintf(w.text, sizeof w.text, "%s", value->kind == '[' ? "a list" : "an object");
    else if (value->string) snprintf(w.text, sizeof w.text, "%s", value->string);
    else snprintf(w.text, sizeof w.text, "%.*s", (int)fmin((double)value->length, 39), value->text);
    return w;
}

Word config_key_word(const Json *member) {
    Word w;
    snprintf(w.text, sizeof w.text, "%s", member->key);
    return w;
}
