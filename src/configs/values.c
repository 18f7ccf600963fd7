// The value of a key for a reader, and the messages if it cannot be used.
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"

// ---- errors and warnings ----

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

// The prefix of an object's keys in errors: the object's place in the config.
static void put_place(const Config *c, const Json *object, char *out, size_t size) {
    static const char *const objects[] = {"rope_scaling", "rope_parameters",
                                          "dual_chunk_attention_config"};
    const BlockName *called = &c->strict->called;
    bool is_block = object && called->name[0] &&
                    (object == config_at(c, c->block) || object == config_at(c, c->under));
    snprintf(out, size, "%s", is_block ? called->inside : "");
    for (int i = 0; i < 3 && object && !is_block; i++) {
        const Json *at = json_member(c->config, objects[i]);
        if (at == object) snprintf(out, size, "%s.", objects[i]);
        for (const Json *in = json_members(at); in; in = in->next)
            if (in == object) snprintf(out, size, "%s.%.39s.", objects[i], in->key);
    }
}

// The member whose name is not a key, but resembles `key`. NULL: there is none.
static const Json *written_like(const Json *object, const char *key) {
    for (const Json *v = json_members(object); v; v = v->next) {
        const Word name = config_key_word(v);
        const char *meant =
            config_key(name.text) ? NULL : config_key_meant(name.text, KEY_AT_BLOCK);
        if (meant && strcmp(meant, key) == 0) return v;
    }
    return NULL;
}

// Another library's name of a key, in the spelling of the object that has it. NULL: none.
static const char *other_name_in(const Json *object, const char *key) {
    const char *also = config_key_rows[config_key(key)].also;
    for (const Json *v = also ? json_members(object) : NULL; v; v = v->next)
        if (has_word(also, v->key)) return v->key;
    return NULL;
}

// The description of a value in a message; *length becomes the number of bytes to print.
static const char *found_in(const Json *v, int *length) {
    bool has_objects = false;
    for (const Json *in = json_members(v); in; in = in->next)
        has_objects = has_objects || in->kind == '{';
    const char *found = v->kind == '['   ? "a list"
                        : v->kind != '{' ? v->text
                        : has_objects    ? "an object of objects"
                                         : "an object";
    const size_t n = found == v->text ? v->length : strlen(found);
    *length = n < 40 ? (int)n : 40;
    return found;
}

static void reject(Config *c, const Json *object, const char *key, const char *format,
                   va_list args) {
    StrictReader *own = c->strict;
    if (!own || !own->good) return;
    own->good = false;
    const Json *v = json_member(object, key);
    const Json *misspelled = v ? NULL : written_like(object, key);
    const char *other = v ? NULL : other_name_in(object, key);
    const int line = v ? v->line : object ? object->line : 1;
    char expected[400], inside[100], hint[100] = "";
    int length;
    vsnprintf(expected, sizeof expected, format, args);
    put_place(c, object, inside, sizeof inside);
    if (other) snprintf(hint, sizeof hint, "; %.39s is another library's name of it", other);
    if (misspelled)
        fail(own->err, "line %d: %s%.39s is not a key (did you mean %.39s?)", misspelled->line,
             inside, config_key_word(misspelled).text, key);
    else if (!v)
        fail(own->err, "line %d: %s%.39s is missing (expected %s%s)", line, inside, key, expected,
             hint);
    else {
        const char *found = found_in(v, &length);
        fail(own->err, "line %d: %s%.39s cannot be used (found %.*s, expected %s)", line, inside,
             key, length, found, expected);
    }
}

void config_reject(Config *c, const Json *object, const char *key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reject(c, object, key, format, args);
    va_end(args);
}

void config_reject_key(Config *c, KeyPlace at, KeyId key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reject(c, config_at(c, at), config_key_rows[key].name, format, args);
    va_end(args);
}

// Adds a line to a list of lines, unless it is already there.
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
    if (!c->strict) return;  // an engine's reading
    va_start(args, format);
    add_line(c->strict->file->remarks, sizeof c->strict->file->remarks, format, args);
    va_end(args);
}

void config_unread(Config *c, const char *format, ...) {
    va_list args;
    if (!c->strict) return;
    va_start(args, format);
    add_line(c->strict->file->unread, sizeof c->strict->file->unread, format, args);
    va_end(args);
    va_start(args, format);
    add_line(c->strict->file->remarks, sizeof c->strict->file->remarks, format, args);
    va_end(args);
}

// ---- looking up ----

static bool is_unverified(const Config *c) { return config_is_of(c, FAMILY_ANY); }

const Json *config_value(const Config *c, KeyPlace at, KeyId key) {
    const Slot *slot = config_slot(c, at, key);
    return slot->other && is_unverified(c) ? slot->other : slot->member;
}

const Slot *config_ask(Config *c, KeyPlace at, KeyId key) {
    const Slot *slot = config_slot(c, at, key);
    const Json *member = config_value(c, at, key);
    if (!c->strict) return slot;
    c->strict->asked[at][key] = true;
    if (slot->twice && member)
        config_reject(c, config_at(c, at), member->key, "it once, and it appears twice");
    return slot;
}

const Slot *config_ask_block(Config *c, KeyId key) {
    config_ask(c, c->under, key);  // it is also looked for there
    return config_ask(c, config_where(c, key), key);
}

const Json *config_get(Config *c, const Json *object, const char *name) {
    if (json_is_twice(object, name))
        config_reject(c, object, name, "it once, and it appears twice");
    return json_member(object, name);
}

static double number_from(Config *c, KeyPlace at, KeyId key, double missing, double low) {
    const ConfigKey *row = &config_key_rows[key];
    const unsigned type = 1u << c->type;
    const double otherwise = isnan(missing) ? 0 : missing;
    Slot slot = *config_ask(c, at, key);
    if (slot.other && is_unverified(c)) slot = slot_of(slot.other);
    const double x = slot.number;
    if (!config_is_strict(c)) {  // the number that an engine reads: in Python also float("8")
        const char *text = c->texts[key] && slot.member ? slot.member->string : NULL;
        char *end = NULL;
        const double parsed = text && text[0] ? strtod(text, &end) : 0;
        if (slot.state <= SLOT_NULL) return otherwise;
        if (end && !*end && fabs(parsed) <= CONFIG_LIMIT) return parsed;
        if (slot.state == SLOT_NUMBER && fabs(x) <= CONFIG_LIMIT) return x;
        config_refuse(c, !c->passes[key], "TypeError: a setting is not a number that can be used");
        return otherwise;
    }
    const bool may_be_absent = !isnan(missing) && !(row->needed & type);
    const bool may_be_null = !isnan(missing) && row->null & type;
    if (slot.state == SLOT_ABSENT && may_be_absent) return missing;
    if (slot.state == SLOT_NULL && may_be_null) return missing;
    const bool is_whole = row->type == KEY_IS_WHOLE;
    const bool is_allowed = is_whole ? x == floor(x) && x >= low && x <= row->high
                                     : (x > low && x <= row->high) || (x == 0 && row->zero);
    if (slot.state == SLOT_NUMBER && is_allowed) return x;
    if (c->strict && c->strict->good)
        c->strict->file->is_malformed =
            slot.state > SLOT_NUMBER || (is_whole && slot.state != SLOT_ABSENT);
    const char *name = slot.member ? slot.member->key : row->name;
    if (is_whole)
        config_reject(c, config_at(c, at), name, "a whole number from %.0f to %.0f", low,
                      row->high);
    else config_reject(c, config_at(c, at), name, "a number above %g, at most %g", low, row->high);
    return otherwise;
}

double config_number(Config *c, KeyPlace at, KeyId key, double missing) {
    return number_from(c, at, key, missing, config_key_rows[key].low);
}

double config_block_number(Config *c, KeyId key, double missing) {
    return number_from(c, config_where(c, key), key, missing, config_key_rows[key].low);
}

int config_length(Config *c, KeyPlace at, KeyId key, int missing, int low) {
    double x = number_from(c, at, key, missing, low);
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
