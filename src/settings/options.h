// The command line: one table of options, from which come --help, reading, limits and what goes
// with what.
#pragma once

#include "../base/session_config.h"
#include "../base/util.h"
#include "jobs.h"
#include "methods.h"

enum { MODE_GENERATE, MODE_CHAT };
enum { THINKING_ON, THINKING_OFF };
enum { MOST_OPTIONS = 96 };

typedef struct {
    const char *model_path;   // NULL: none
    JobKind job;              // the last one that was asked for
    bool said[MOST_OPTIONS];  // by row of the table
    // Text.
    double temperature, top_p, min_p;
    int top_k;      // 0: all
    uint64_t seed;  // 0: from the clock
    int steps;      // -1: not given; 0: the model's context
    int spread;     // 0: not given, as in the next two
    int piece;
    int threads;
    int mode;      // MODE_...
    int thinking;  // THINKING_...
    bool ignore_eos, plain, crowd;
    const char *prompt, *prompt_file, *tokenizer_path, *system_prompt;  // NULL: not given
    KvType kv;
    int activations;  // 0: int8, 1: f32
    // RoPE.
    const char *methods;  // of --rope, NULL: the model's own
    const char *sliding;  // of --rope-sliding, likewise
    RopeSettings rope;    // the other rope options
    // What options_check reads of these: (n_asked) of --rope, at least one, and of --rope-sliding.
    RopeSettings *asked;  // the caller frees it, also when an option is wrong
    int n_asked;
    RopeSettings asked_sliding;
    int head_dim;             // 0: not given
    const char *rope_config;  // a file that replaces the model's settings, NULL: none
    const char *engines;      // a list, NULL: all
    const char *reading;      // engines whose readings are in force, NULL: none
    const char *about_rope;   // the last option that needs a model with RoPE, NULL: none
    // Measurements.
    const char *text_path, *quantize_path;
    const char *tasks, *check_path;  // a list, NULL: passkey; the text of --check, NULL: made up
    const char *like_path;           // a model, NULL: none
    const char *next;                // a number of tokens, or a file that names some
    bool ids, per_token, plot, stepwise, stale_keys, whole, tsv, json, prompts;
    bool settings_alone;  // --check judges no more
    int samples, trials;
    int attn[2];  // layer and head, from 0
    double min_accuracy, budget;
    double min_page, min_updates, max_cache;  // -1: not given
    int quantize_type;                        // 0: q8, 1: q4, 2: f16, 3: f32
    // Search.
    int reads, population, search_windows, minimize;
    double seconds;  // 0: no limit
    bool search_attention, search_unscaled;
    bool help, version;
} Options;

// Reads the command line. The strings stay in argv. False with the reason.
bool options_parse(int argc, char **argv, Options *options, Error *err);
// Reads the methods of --rope and --rope-sliding. False with the reason when they cannot be read,
// and when options contradict each other, or one lacks another. An option that
// has no effect in the job is warned of on standard error, and becomes what it is when it is not
// given.
bool options_check(Options *options, Error *err);
// Whether --rope is given, or, with a model, a setting that blocks of JSON have.
bool options_say_block(const Options *options);
// Prints --help. `program` is what it was called by, argv[0].
void options_help(const char *program);
