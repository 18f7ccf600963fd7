// The table of options, by which the command line is read and checked. Of the files of options.h
// alone.
#pragma once

#include "options.h"

// Another option, by which one has no effect in these jobs: where the other is given, or where it is
// not.
typedef struct {
    const char *option;  // NULL: there is none
    bool is_given;
    unsigned jobs;
} Partner;

// An option is a value in Options, and what job it is about. A row without an option is a heading
// of --help.
typedef struct {
    Setting value;
    int job;               // the Job that it asks for; 0: none
    unsigned jobs;         // it has an effect in these (ON_...),
    unsigned needs;        // and in all that need one of these; where both are 0, in all there are
    Partner idle;          // with this one or without it, it has none
    const char *not_with;  // they exclude one another; NULL: no other one
    bool about_rope;       // it needs a model with RoPE
    bool is_common;        // --help has it on its first screen
    bool is_rope;          // not an option: here stand the rows of rope_settings
} Option;

extern const Option option_table[];
extern const int n_option_rows;  // at most MOST_OPTIONS, for which Options.said has places
// What options are that are not given.
extern const Options options_unsaid;

// The jobs in which an option has an effect, as bits (ON_...).
unsigned option_jobs(const Option *option);

// The number of the option that a word names, before a `=`: a row of the table, or behind these a
// row of rope_settings. Case counts for short names only. -1: none, and *nearest becomes the one
// that was meant, or "".
int option_find(const char *word, const char **nearest);
// The value that the option of a number has. Of settings of RoPE it lies in a RopeConfig.
const Setting *option_value(int number);
