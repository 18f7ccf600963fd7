// The command line: one table of options, from which come --help, reading, limits and what goes
// with what.
#pragma once

#include "../base/util.h"
#include "asked.h"
#include "jobs.h"
#include "methods.h"

enum { MODE_GENERATE, MODE_CHAT };
enum { MOST_OPTIONS = 96 };

typedef struct {
    JobKind job;              // the last one that was asked for
    bool said[MOST_OPTIONS];  // by row of the table
    // What is read. Of paths and lists, NULL: not given.
    const char *model_path, *tokenizer_path;
    const char *prompt_file, *text_path;  // of -f; of a text that is measured
    bool ids;                             // it holds token ids
    int steps;                            // -1: not given; 0: the model's context
    int mode;                             // MODE_...
    uint64_t seed;                        // 0: from the clock
    // What is asked of each job.
    SessionOptions sessions;
    TextOptions text;
    PerplexityOptions ppl;
    TasksOptions tasks;
    CheckOptions check;
    NextOptions next;
    SearchOptions search;
    bool prompts, plot;
    int attn[2];          // layer and head, from 0
    const char *engines;  // a list, NULL: all
    int quantize_type;    // 0: q8, 1: q4, 2: f16, 3: f32
    const char *quantize_path;
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
    const char *reading;      // engines whose readings are in force, NULL: none
    const char *about_rope;   // the last option that needs a model with RoPE, NULL: none
    // How it is printed.
    bool tsv, json, version;
    const char *help;  // a topic, "": the first screen, NULL: not asked for
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
// Prints --help: its first screen, or a topic. `program` is what it was called by, argv[0], and
// `version` its title. False
// with the reason when there is no such topic.
bool options_help(const char *program, const char *version, const char *topic, Error *err);
