// What a key of a config is: the rows of their table, how one is found and read, and how it is said
// that one is wrong.
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/names.h"
#include "../rope_settings.h"
#include "json.h"
#include "made/key_table.h"

bool config_has_type_blocks(const RopeFamily *family, const Json *parameters) {
    bool found = false;
    for (int kind = 0; kind < N_KINDS; kind++)
        found = found || json_is_object(json_member(parameters, family_block_name(family, kind)));
    return found;
}

bool config_has_kinds(const Json *object) {
    for (const Json *v = json_members(object); v; v = v->next) {
        bool is_kind = strcmp(v->key, kind_keys[KIND_FULL]) == 0 ||
                       strcmp(v->key, kind_keys[KIND_SLIDING]) == 0;
        if (!is_kind || v->kind != '{') return false;
    }
    return json_members(object);
}

// ---- keys ----

const ConfigKey *const config_key_rows = config_keys;
const int n_config_keys = sizeof config_keys / sizeof *config_keys;

const ConfigKey *config_key(const char *name) {
    for (int i = 0; i < n_config_keys; i++)
        if (strcmp(config_keys[i].name, name) == 0) return &config_keys[i];
    return NULL;
}

// Whether an object, or one in it, has a key of a config or a name that is written like one.
static bool has_some_key(const Json *object, int depth) {
    static const char *const own[] = {"model_type", "architectures", "vocab_size",
                                      "sliding_window"};
    for (const Json *v = json_members(object); v; v = v->next) {
        bool is_some = config_key(v->key) || config_key_meant(v->key, KEY_AT_TOP | KEY_AT_BLOCK);
        for (int i = 0; i < n_config_keys; i++)
            is_some = is_some || has_word(config_keys[i].also, v->key);
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

// A name in small letters and digits alone.
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
    for (int i = 0; i < n_config_keys; i++) {
        const ConfigKey *key = &config_keys[i];
        const Word known = letters_of(key->name);
        const size_t m = strlen(known.text), most = n > 6 ? 2 : 1;
        bool is_near = strlen(key->name) > 4 && m <= n + most && n <= m + most &&
                       name_distance(plain.text, known.text) <= (int)most;
        if (key->at & at && (is_near || has_word(key->misspelled, plain.text))) return key->name;
    }
    return NULL;
}

// ---- what is wrong ----

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

// What errors have before the keys of an object: where it is in the config.
static void put_place(const Config *c, const Json *object, char *out, size_t size) {
    static const char *const objects[] = {"rope_scaling", "rope_parameters",
                                          "dual_chunk_attention_config"};
    bool is_block = object && (object == c->block || object == c->under) && c->called.name[0];
    snprintf(out, size, "%s", is_block ? c->called.inside : "");
    for (int i = 0; i < 3 && object && !is_block; i++) {
        const Json *at = json_member(c->config, objects[i]);
        if (at == object) snprintf(out, size, "%s.", objects[i]);
        for (const Json *in = json_members(at); in; in = in->next)
            if (in == object) snprintf(out, size, "%s.%.39s.", objects[i], in->key);
    }
}

// The member whose name is no key, and is written like `key`. NULL: there is none.
static const Json *written_like(const Json *object, const char *key) {
    for (const Json *v = json_members(object); v; v = v->next) {
        const Word name = config_key_word(v);
        const char *meant =
            config_key(name.text) ? NULL : config_key_meant(name.text, KEY_AT_BLOCK);
        if (meant && strcmp(meant, key) == 0) return v;
    }
    return NULL;
}

// Another library's name of a key that an object has, as it is written there. NULL: none.
static const char *other_name_in(const Json *object, const char *key) {
    const ConfigKey *row = config_key(key);
    for (const Json *v = row && row->also ? json_members(object) : NULL; v; v = v->next)
        if (has_word(row->also, v->key)) return v->key;
    return NULL;
}

void config_reject(Config *c, const Json *object, const char *key, const char *format, ...) {
    const Json *v = json_member(object, key), *where = v ? v : object;
    bool has_objects = false;
    for (const Json *in = json_members(v); in; in = in->next)
        has_objects = has_objects || in->kind == '{';
    const char *found = !v               ? ""
                        : v->kind == '[' ? "a list"
                        : v->kind != '{' ? v->text
                        : has_objects    ? "an object of objects"
                                         : "an object";
    size_t length = v && found == v->text ? v->length : strlen(found);
    const int line = where ? where->line : 1;
    char expected[400], inside[100];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (!c->good) return;
    put_place(c, object, inside, sizeof inside);
    const Json *misspelled = v ? NULL : written_like(object, key);
    if (misspelled) {
        c->good = fail(c->err, "line %d: %s%.39s is not a key (did you mean %.39s?)",
                       misspelled->line, inside, config_key_word(misspelled).text, key);
        return;
    }
    const char *other = v ? NULL : other_name_in(object, key);
    if (other)
        c->good = fail(c->err,
                       "line %d: %s%.39s is missing (expected %s; %.39s is another library's name "
                       "of it)",
                       line, inside, key, expected, other);
    else if (!v)
        c->good =
            fail(c->err, "line %d: %s%.39s is missing (expected %s)", line, inside, key, expected);
    else
        c->good = fail(c->err, "line %d: %s%.39s cannot be used (found %.*s, expected %s)", line,
                       inside, key, length < 40 ? (int)length : 40, found, expected);
}

// A line more in a list of such lines, unless it is there.
static void add_line(char *lines, size_t size, const char *format, va_list args) {
    char line[700];
    vsnprintf(line, sizeof line - 1, format, args);
    strcat(line, "\n");
    const size_t length = strlen(line);
    for (const char *at = lines; *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, line, length) == 0) return;
    add_name(lines, size, "", line);
}

void config_remark(Config *c, const char *format, ...) {
    va_list args;
    if (!c->file) return;  // an engine's reading
    va_start(args, format);
    add_line(c->file->remarks, sizeof c->file->remarks, format, args);
    va_end(args);
}

void config_unread(Config *c, const char *format, ...) {
    va_list args;
    if (!c->file) return;
    va_start(args, format);
    add_line(c->file->unread, sizeof c->file->unread, format, args);
    va_end(args);
    va_start(args, format);
    add_line(c->file->remarks, sizeof c->file->remarks, format, args);
    va_end(args);
}

// ---- looking up ----

const Json *config_get(Config *c, const Json *object, const char *key) {
    Json *v = json_member(object, key);
    if (v) v->asked = true;
    if (c->flags & STRICT && v && v->twice)
        config_reject(c, object, key, "it once, and it appears twice");
    return v;
}

const Json *config_object_with(const Config *c, const char *key) {
    bool is_under = !json_member(c->block, key) && json_member(c->under, key);
    return is_under ? c->under : c->block;
}

const Json *config_member(const Config *c, const char *key) {
    return json_member(config_object_with(c, key), key);
}

const Json *config_block_get(Config *c, const char *key) {
    if (c->under) config_get(c, c->under, key);  // it is looked for there, too
    return config_get(c, config_object_with(c, key), key);
}

static double lenient_number(Config *c, const Json *v, double missing) {
    double x;
    if (!v || v->kind == 'n') return missing;
    if (json_number(v, &x) && fabs(x) <= CONFIG_LIMIT) return x;
    config_refuse(c, true, "TypeError: a setting is not a number that can be used");
    return missing;
}

// Whether a value is a number that the row allows.
static bool is_allowed(const ConfigKey *row, const Json *v, double low, double *x) {
    if (!json_number(v, x)) return false;
    if (row->type == KEY_WHOLE) return *x == floor(*x) && *x >= low && *x <= row->high;
    return (*x > low && *x <= row->high) || (*x == 0 && row->zero);
}

const char *config_name_in(const Config *c, const Json *object, const char *key, Word *room) {
    const ConfigKey *row = config_key(key);
    bool is_any = c->family && c->family->flags & FAMILY_ANY;
    if (!is_any || !row || !row->also || json_member(object, key)) return key;
    for (const char *at = row->also; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(room->text, sizeof room->text, "%.*s", (int)strcspn(at, " "), at);
        if (json_member(object, room->text)) return room->text;
    }
    return key;
}

static double number_from(Config *c, const Json *object, const char *key, double missing,
                          double low) {
    static const ConfigKey unknown = {.type = KEY_NUMBER, .high = CONFIG_LIMIT};
    const ConfigKey *known = config_key(key), *row = known ? known : &unknown;
    Word room;
    key = config_name_in(c, object, key, &room);
    const Json *v = config_get(c, object, key);
    const unsigned type = 1u << c->type;
    double x, otherwise = isnan(missing) ? 0 : missing;
    bool may_lack = !isnan(missing) && !(row->needed & type);
    if (!(c->flags & STRICT)) return lenient_number(c, v, otherwise);
    if (v ? v->kind == 'n' && row->null & type && !isnan(missing) : may_lack) return missing;
    if (is_allowed(row, v, low, &x)) return x;
    bool is_other = v && (row->type == KEY_WHOLE || (v->kind != 'n' && !json_number(v, &x)));
    if (c->file && c->good) c->file->is_malformed = is_other;
    if (row->type == KEY_WHOLE)
        config_reject(c, object, key, "a whole number from %.0f to %.0f", low, row->high);
    else config_reject(c, object, key, "a number above %g, at most %g", low, row->high);
    return otherwise;
}

double config_number(Config *c, const Json *object, const char *key, double missing) {
    const ConfigKey *row = config_key(key);
    return number_from(c, object, key, missing, row ? row->low : 0);
}

int config_length(Config *c, const Json *object, const char *key, int missing, int low) {
    double x = number_from(c, object, key, missing, low);
    bool is_length = x >= 0 && x <= MOST;
    config_refuse(c, !is_length, "ValueError: a length is none");
    return is_length ? (int)x : 0;
}

bool config_is_something(const Json *v) {
    double x;
    if (json_number(v, &x)) return x != 0;
    if (!v) return false;
    return v->kind == 't' || v->first || (v->string && v->string[0]);
}
