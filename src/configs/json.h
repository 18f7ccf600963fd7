// A small reader of JSON, for settings that people paste. A value is the place where it begins, in
// a text that passed json_check. Its first character tells its kind: { [ " t f n, or one of a
// number (NaN and Infinity are numbers).
#pragma once

#include "../base/util.h"

enum { JSON_DEPTH = 32 };  // of lists and objects in one another

// True when `length` bytes and a NUL are one value, as Python's json module takes it or as model
// cards show it: dots ("...") stand for members, and a comma may follow the last one. False with
// the reason, which begins with the line.
bool json_check(const char *text, size_t length, Error *err);

// Where a text that json_check has passed is no JSON: the first comma behind a last member (what:
// ','), or the first dots ('.'). NULL: there are none.
const char *json_loose(const char *text, char what);

// The line of a place in the text, from 1.
int json_line(const char *text, const char *place);

// The first value of a list or object, and the one behind a value. NULL: none, or `container` is
// neither.
const char *json_first(const char *container,
                       const char **key);  // of an object's member, at its quote; NULL for a list
const char *json_next(const char *value, const char **key);

// The bytes of a value that is no list or object, the quotes of a string included.
size_t json_length(const char *value);

// Whether an object has a member at all.
bool json_has_members(const char *object);

// True when a string (at its quote) is this text. Escapes are not read: no known word has one.
bool json_is(const char *string, const char *text);
// The value of a key in an object, the last one if there are many. NULL: none, or no object.
const char *json_member(const char *object, const char *key);
// True when the value is a number, which goes to *x.
bool json_number(const char *value, double *x,
                 bool *is_whole);  // of digits and signs alone, at most 20; may be NULL
