// The table of options, by which the command line is read and checked: for options_parse.c and
// options_check.c alone.
#pragma once

#include "options.h"

// Sets of jobs, for options that have an effect in these alone. A chat and --prompts have bits of
// their own.
enum {
    ON_GENERATE = 1 << JOB_TEXT,
    ON_PPL = 1 << JOB_PPL,
    ON_TASKS = 1 << JOB_TASKS,
    ON_CHECK = 1 << JOB_CHECK,
    ON_ATTN = 1 << JOB_ATTN,
    ON_EXPLAIN = 1 << JOB_EXPLAIN,
    ON_BENCH = 1 << JOB_BENCH,
    ON_SEARCH = 1 << JOB_SEARCH,
    ON_QUANTIZE = 1 << JOB_QUANTIZE,
    ON_NEXT = 1 << JOB_NEXT,
    ON_CHAT = 1 << N_JOBS,
    ON_PROMPTS = 2 << N_JOBS,
    ON_TEXT = ON_GENERATE | ON_CHAT,
    ON_PROMPT = ON_TEXT | ON_ATTN | ON_NEXT,
    ON_TOKENS =
        ON_PROMPT | ON_PPL | ON_TASKS | ON_CHECK | ON_SEARCH | ON_PROMPTS,  // what has a tokenizer
    ON_SPREAD = ON_TEXT | ON_ATTN | ON_PPL | ON_TASKS,
    ON_SESSION = (ON_TOKENS & ~ON_PROMPTS) | ON_BENCH,  // what runs the model
    ON_SEED = ON_TEXT | ON_TASKS | ON_SEARCH | ON_PROMPTS,
    ON_TABLES = ON_PPL | ON_TASKS | ON_CHECK | ON_ATTN | ON_EXPLAIN | ON_BENCH | ON_QUANTIZE |
                ON_NEXT | 1 << JOB_ENGINES,
    ON_ALL = (2 << N_JOBS) - 1,
    ON_PLAN = ON_ALL & ~ON_QUANTIZE  // what plans a RoPE
};

// An option is a value in Options, and what job it is about. A row without an option is a heading
// of --help.
typedef struct {
    Setting value;
    int job;          // the Job that it asks for; 0: none
    unsigned jobs;    // those in which it has an effect (ON_...); 0: all
    bool about_rope;  // it needs a model with RoPE
    bool is_rope;     // not an option: here stand the rows of rope_settings
} Option;

extern const Option option_table[];
extern const int n_option_rows;  // at most 64: Options.said has a bit for each
// What options are that are not given.
extern const Options options_unsaid;

// The number of the option that a word names, before a `=`: a row of the table, or behind these a
// row of rope_settings. Case counts for short names only. -1: none, and *nearest becomes the one
// that was meant, or "".
int option_find(const char *word, const char **nearest);
// The value that the option of a number has. Of settings of RoPE it lies in a RopeConfig.
const Setting *option_value(int number);
