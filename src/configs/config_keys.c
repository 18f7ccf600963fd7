// What a key of a config is: the rows of their table, how one is found and read, and how it is said
// that one is wrong.
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../base/settings.h"
#include "json.h"
#include "key_table.h"
#include "names.h"

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

// ---- keys ----

const ConfigKey *const config_key_rows = config_keys;
const int n_config_keys = sizeof config_keys / sizeof *config_keys;

const ConfigKey *config_key(const char *name) {
    for (int i = 0; i < n_config_keys; i++)
        if (strcmp(config_keys[i].name, name) == 0) return &config_keys[i];
    return NULL;
}

// Whether an object, or one in it, has a key of a config or a name that is written like one.
static bool has_some_key(const char *object, int depth) {
    static const char *const own[] = {"model_type", "architectures", "vocab_size",
                                      "sliding_window"};
    const char *quoted;
    for (const char *v = json_first(object, &quoted); v; v = json_next(v, &quoted)) {
        const Word key = config_word(quoted);
        bool is_some =
            config_key(key.text) || config_key_meant(key.text, KEY_AT_TOP | KEY_AT_BLOCK);
        for (int i = 0; i < n_config_keys; i++)
            is_some = is_some || has_word(config_keys[i].also, key.text);
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            is_some = is_some || strcmp(key.text, own[i]) == 0;
        if (is_some || (depth > 0 && has_some_key(v, depth - 1))) return true;
    }
    return false;
}

const char *config_other_file(const char *object) {
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
    bool is_strange = json_has_members(object) && !has_some_key(object, DEPTH);
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

Word config_word(const char *quoted) {
    Word w;
    json_put_string(quoted, w.text, sizeof w.text);
    return w;
}

Word config_value_word(const char *value) {
    Word w;
    if (*value == '"') return config_word(value);
    snprintf(w.text, sizeof w.text, "%.*s", (int)fmin((double)json_length(value), 39), value);
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

int config_line(const Config *c, const char *place) {
    uintptr_t start = (uintptr_t)c->whole, at = (uintptr_t)place;
    return at >= start && at <= start + strlen(c->whole) ? json_line(c->whole, place) : 1;
}

// What errors have before the keys of an object: where it stands in the config.
static void put_place(const Config *c, const char *object, char *out, size_t size) {
    static const char *const objects[] = {"rope_scaling", "rope_parameters",
                                          "dual_chunk_attention_config"};
    bool is_block = object && (object == c->block || object == c->under) && c->called.name[0];
    snprintf(out, size, "%s", is_block ? c->called.inside : "");
    for (int i = 0; i < 3 && object && !is_block; i++) {
        const char *name, *at = json_member(c->config, objects[i]);
        if (at == object) snprintf(out, size, "%s.", objects[i]);
        for (const char *in = json_first(at, &name); in; in = json_next(in, &name))
            if (in == object) snprintf(out, size, "%s.%s.", objects[i], config_word(name).text);
    }
}

void config_reject(Config *c, const char *object, const char *key, const char *format, ...) {
    const char *v = json_member(object, key), *where = v ? v : object ? object : c->whole;
    bool has_objects = false;
    const char *name;
    for (const char *in = json_first(v, &name); in; in = json_next(in, &name))
        has_objects = has_objects || *in == '{';
    const char *found = !v            ? "nothing"
                        : *v == '['   ? "a list"
                        : *v != '{'   ? v
                        : has_objects ? "an object of objects"
                                      : "an object";
    size_t length = found == v ? json_length(v) : strlen(found);
    char expected[400], inside[100];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (!c->good) return;
    put_place(c, object, inside, sizeof inside);
    c->good =
        fail(c->err, "line %d: %s%s cannot be used (found %.*s, expected %s)",
             config_line(c, where), inside, key, length < 40 ? (int)length : 40, found, expected);
}

// A line more in a list of such lines, unless it is there.
static void add_line(char *lines, size_t size, const char *format, va_list args) {
    char line[300];
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

// Whether a value is a number that the row allows.
static bool is_allowed(const ConfigKey *row, const char *v, double low, double *x) {
    if (!json_number(v, x, NULL)) return false;
    if (row->type == KEY_WHOLE) return *x == floor(*x) && *x >= low && *x <= row->high;
    return (*x > low && *x <= row->high) || (*x == 0 && row->zero);
}

const char *config_name_in(const Config *c, const char *object, const char *key, Word *room) {
    const ConfigKey *row = config_key(key);
    bool is_any = c->family && c->family->flags & FAMILY_ANY;
    if (!is_any || !row || !row->also || json_member(object, key)) return key;
    for (const char *at = row->also; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(room->text, sizeof room->text, "%.*s", (int)strcspn(at, " "), at);
        if (json_member(object, room->text)) return room->text;
    }
    return key;
}

static double number_from(Config *c, const char *object, const char *key, double missing,
                          double low) {
    static const ConfigKey unknown = {.type = KEY_NUMBER, .high = CONFIG_LIMIT};
    const ConfigKey *known = config_key(key), *row = known ? known : &unknown;
    Word room;
    key = config_name_in(c, object, key, &room);
    const char *v = config_get(c, object, key);
    const unsigned type = 1u << c->method;
    double x, otherwise = isnan(missing) ? 0 : missing;
    bool may_lack = !isnan(missing) && !(row->needed & type);
    if (!(c->flags & STRICT)) return lenient_number(c, v, otherwise);
    if (v ? *v == 'n' && row->null & type && !isnan(missing) : may_lack) return missing;
    if (is_allowed(row, v, low, &x)) return x;
    bool is_other = v && (row->type == KEY_WHOLE || (*v != 'n' && !json_number(v, &x, NULL)));
    if (c->file && c->good) c->file->is_malformed = is_other;
    if (row->type == KEY_WHOLE)
        config_reject(c, object, key, "a whole number from %.0f to %.0f", low, row->high);
    else config_reject(c, object, key, "a number above %g, at most %g", low, row->high);
    return otherwise;
}

double config_number(Config *c, const char *object, const char *key, double missing) {
    const ConfigKey *row = config_key(key);
    return number_from(c, object, key, missing, row ? row->low : 0);
}

int config_length(Config *c, const char *object, const char *key, int missing, int low) {
    double x = number_from(c, object, key, missing, low);
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
