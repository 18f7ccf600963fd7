// JSON, for settings that people paste: a text is parsed once, into a table of its values.
#pragma once

#include "../base/util.h"

enum { JSON_DEPTH = 32 };        // of lists and objects in one another
enum { JSON_VALUES = 1 << 22 };  // of a text at most

// A value. Those of a list or of an object are a chain.
typedef struct Json {
    char
        kind;  // its first character: { [ " t f n, or one of a number (NaN and Infinity are numbers)
    int line;            // of the text, from 1
    size_t length;       // bytes of `text`
    const char *text;    // the value as it is written, in the text that was parsed
    const char *key;     // of a member: its name without quotes and escapes; NULL: it is an item
    const char *name;    // and as it is written, from its quote on
    const char *string;  // of a string: it without quotes and escapes; else NULL
    struct Json *first,
        *next;  // of a list or an object: what is first in it; what follows this one
} Json;

// Parses `length` bytes and a NUL as one value, as Python's json module takes it or as model cards
// show it: dots ("...") stand for members, and a comma may follow the last one. In keys and strings a
// ? stands for what cannot be printed. The caller frees the result, and nothing else, and keeps
// the text as long. NULL with the reason, which begins with the line.
Json *json_parse(const char *text, size_t length, Error *err);

// Where `length` bytes of a text that was parsed are no JSON: the first comma after a last member or
// value (what: ','), or the first dots ('.'). NULL: there are none.
const char *json_loose(const char *text, size_t length, char what);
// The line of a place in a text, from 1.
int json_line(const char *text, const char *place);

// The first member of an object, and the first item of a list. NULL: none, or `value` is neither
// (or NULL).
const Json *json_members(const Json *value);
const Json *json_items(const Json *value);
// The member of an object under a key, the last one if there are several. NULL: none, or no object.
const Json *json_member(const Json *object, const char *key);
// Whether an object has a key more than once.
bool json_is_twice(const Json *object, const char *key);

bool json_is_object(const Json *value);
// Whether a value is a string, and this one.
bool json_is(const Json *value, const char *string);
// Whether a value is a number, which goes to *x.
bool json_number(const Json *value, double *x);
// Whether a number is written as a whole one: digits and a sign alone, 20 at most.
bool json_is_whole(const Json *value);
