// A value that an option, a method of RoPE or a block of JSON sets: its type, limits and place in a
// struct.
#pragma once

#include "util.h"

// The type of a value. Its place is: none, bool, int, double, int or an enum, const char *,
// uint64_t, int[2] (3.5).
typedef enum { NOTHING, FLAG, WHOLE, NUMBER, WORD, TEXT, SEED, PAIR } ValueType;

// A value that can be set. One of RoPE can be on the command line, in a list of methods, and in
// a block of JSON.
typedef struct {
    const char *option, *argument, *help;  // on the command line; option NULL: it has none
    ValueType type;
    size_t place;      // in RopeConfig; of an option, in the struct that it is read into
    double low, high;  // limits, both included; of words: 0 and the last one
    const char *const *words;
    const char *key;  // in a rope_scaling block; NULL: none
    double missing;   // the meaning of 0; 0: itself, or the result of settings_fill_defaults
    unsigned methods, maps;  // flags of those that use it, 0: all
    const char *older;       // a former name of the option, which is still accepted; NULL: none
} Setting;

// Gets and sets a value in `base`: a number, the number of a word, or a flag (0 or 1).
double setting_value(const void *base, const Setting *setting);
void setting_put(void *base, const Setting *setting, double value);
// Reads a value into its place in `base`. False with the reason, which calls the setting `name`.
bool setting_read(const Setting *setting, void *base, const char *name, const char *value,
                  Error *err);
