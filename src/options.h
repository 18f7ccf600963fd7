// The command line: one table of options, from which help, reading, ranges and what goes with what all follow.
#pragma once

#include "forward/activations.h"
#include "forward/kv_cache.h"
#include "settings.h"
#include "util.h"

// What the program is asked to do.
typedef enum {
    JOB_TEXT,
    JOB_PPL,
    JOB_TASKS,
    JOB_CHECK,
    JOB_ATTN,
    JOB_EXPLAIN,
    JOB_BENCH,
    JOB_ROPE_JSON,
    JOB_SEARCH,
    JOB_QUANTIZE,
    JOB_ENGINES
} Job;

enum { MODE_GENERATE, MODE_CHAT };
enum { MINIMIZE_PAST, MINIMIZE_HALF, MINIMIZE_ALL };

typedef struct {
    const char *model_path;  // NULL: none
    Job job;                 // the last one asked for
    uint64_t said;           // bits (1 << row of the table)
    // Text.
    double temperature, top_p, min_p;
    int top_k;      // 0: all
    uint64_t seed;  // 0: from the clock
    int steps;      // -1: not said; 0: the model's context
    int spread;     // 0: not said
    int piece;      // likewise
    int threads;    // 0: not said
    int mode;       // MODE_...
    bool ignore_eos, plain;
    const char *prompt, *prompt_file, *tokenizer_path, *system_prompt;  // NULL: not said
    KvType kv;
    Activations activations;
    // RoPE.
    const char *methods;      // --rope as it was written, NULL: the model's own
    RopeSettings rope;        // the other rope options
    int head_dim;             // 0: not said
    const char *rope_config;  // a file that stands in the model's place, NULL: none
    const char *engines;      // a list, NULL: all
    const char *reading;      // engines whose readings are in force, NULL: our own
    const char *about_rope;   // the last option that only a model with RoPE has a use for, NULL: none
    // Measurements.
    const char *text_path, *quantize_path;
    const char *tasks, *check_path;  // a list, NULL: passkey; the text of --check, NULL: made up
    bool ids, per_token, plot, stepwise, stale_keys, whole, tsv;
    int samples, trials;
    int attn[2];  // layer and head, from 0
    double min_accuracy, budget;
    int quantize_type;  // 0: q8, 1: q4, 2: f16, 3: f32
    // Search.
    int reads, population, search_windows, minimize;  // MINIMIZE_...
    double seconds;                                   // 0: no limit
    bool search_attention, search_unscaled;
    bool help, version;
} Options;

// Reads the command line. The strings stay in argv. False with the reason, which is about usage.
bool options_parse(int argc, char **argv, Options *options, Error *err);
// Refuses options that contradict each other or miss one another.
bool options_check(const Options *options, Error *err);
// Whether something is said that a block of JSON says; without a model some of that may stand beside a block.
bool options_say_block(const Options *options);
// Prints the table to standard output.
void options_help(void);
