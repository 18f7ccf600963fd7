// JSON, for pasted settings: a text is parsed once, into a table of its values.
#pragma once

#include "../base/util.h"

enum { JSON_DEPTH = 32 };        // levels of nested lists and objects
enum { JSON_VALUES = 1 << 22 };  // in a text, at most

// A value. The values of a list or an object are chained.
typedef struct Json {
    char kind;      // its first character: { [ " t f n, or that of a number (NaN and Infinity are
                    // numbers)
    int line;       // of the text, from 1
    size_t length;  // bytes of `text`
    const char *text;    // the value as it is written in the text that was parsed
    const char *key;     // of a member: its name without quotes and escapes; NULL: an item
    const char *name;    // the name as it is written, from its quote on
    const char *string;  // of a string: its text without quotes and escapes; else NULL
    struct Json *first,
        *next;  // of a list or an object: its first value; the value after this one
} Json;

// Parses `length` bytes and a NUL as one value, in the form that Python's json module accepts or
// model cards show: dots ("...") may replace members, and a comma may follow the last one.
// Characters in keys and strings that cannot be printed become ?. The caller frees only the result,
// and keeps the text as long as it is used. NULL with the reason, which begins with the line.
Json *json_parse(const char *text, size_t length, Error *err);

// The first place where `length` bytes of a parsed text are not JSON: a comma after the last member
// or value (what: ','), or dots ('.'). NULL: there are none.
const char *json_loose(const char *text, size_t length, char what);
// The line of a place in a text, from 1.
int json_line(const char *text, const char *place);

// The first member of an object, and the first item of a list. NULL: it is empty, or `value` is
// neither (or NULL).
const Json *json_members(const Json *value);
const Json *json_items(const Json *value);
// The member of an object under a key, the last one if there are several. NULL: none, or not an
// object.
const Json *json_member(const Json *object, const char *key);
// Whether an object has a key more than once.
bool json_is_twice(const Json *object, const char *key);

bool json_is_object(const Json *value);
// Whether a value is this string.
bool json_is(const Json *value, const char *string);
// Whether a value is a number, which is then stored in *x.
bool json_number(const Json *value, double *x);
// Whether a number is written as an integer: only digits and a sign, at most 20.
bool json_is_whole(const Json *value);
