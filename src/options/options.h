// The command line: one table of options, from which come --help, reading, limits, what goes with
// what, and where each value goes. The jobs read it there, by their struct of Options.
#pragma once

#include "../decoder/session_config.h"
#include "../llama/sampler.h"
#include "jobs.h"
#include "methods.h"

// ---- what is asked of each job ----

// Of all sessions, whatever they read.
typedef struct {
    KvType kv;
    int floats;              // 1: activations stay float32, see SessionConfig
    bool plain, stale_keys;  // likewise
    bool stepwise;           // texts are read token by token
    int threads;             // 0: what is fastest
    int spread, piece;       // positions and tokens, see Spread; 0: not given
    const char *short_heads;  // a list of kv heads, NULL: none; see ShortHeads
    int short_window;         // what they see
    int best_keys;            // see SessionConfig; 0: all
} SessionOptions;

enum { THINKING_ON, THINKING_OFF };

typedef struct {
    Sampling sampling;
    bool ignore_eos;            // continue after a token that ends the text
    const char *prompt;         // of a chat: what the user says first; NULL: it is asked for,
    const char *system_prompt;  // likewise
    int thinking;               // of a chat: THINKING_OFF, answers begin at once
} TextOptions;

typedef struct {
    int samples;     // windows that are spread evenly over the text, at least 1
    bool per_token;  // a row for each position
} PerplexityOptions;

// Of key tokens, see src/measure/key_tokens.h.
typedef struct {
    bool asked;
    const char *given;       // "T,STEP,GAIN,LOSS" or the first of these; NULL: the usual ones
    int trim, step;          // tokens before a trimmed text's first scored one; scored in each
    double gain, loss;       // nats that the whole text takes off, at least; that are left, at most
    const char *judge_name;  // of --judge, as in --rope; NULL: the model's own settings
    RopeSettings judge;
} KeyOptions;

typedef struct {
    // of tasks, between commas; NULL: passkey, in a table without the task's name
    const char *list;
    int trials;           // at each length and depth
    double min_accuracy;  // below which the answer is NO
    double effective;     // share of the score in short texts that an effective length keeps
} TasksOptions;

enum { MOST_LENGTHS = 16 };

typedef struct {
    const char *text_path;  // of job->ids; NULL: the story that is compiled in is read
    const char *like_path;  // of another model, which it is to read as well as; NULL: none
    const char *save_path;  // where the ladder's readings go, for a later like_path; NULL: nowhere
    const char *junit_path;  // where a report for build servers goes, likewise
    int lengths[MOST_LENGTHS], n_lengths;  // of -n where it names several, rising; none: one
    double effort;          // how many times as much as usual is read, at most, to decide a row
    double budget;          // seconds that it may take; 0: any number
    double cost;            // how many times as hard settings may make texts within the own reach
    // nats for each token that the rounding of the cache changes, at most; -1: that is not asked
    double max_cache;
    bool settings;  // only these are judged: that takes neither weights nor a tokenizer
} CheckOptions;

// Of one head, for the last query of a prompt.
typedef struct {
    int head[2];       // layer and head, from 0
    const char *key;   // --key: a position; NULL: the likeliest key
    bool by_pairs;     // --key is given
    int position;      // of `key`; -1: the likeliest
    bool everywhere;   // pairs get another speed in all heads, and not in this one alone
    const char *instead_name;  // of --instead, as in --rope; NULL: the usual one
    RopeSettings instead;
} AttentionOptions;

// ---- all of it ----

enum { MODE_UNSAID = -1, MODE_GENERATE, MODE_CHAT };
enum { CACHE_LIST, CACHE_EMPTY };
enum { MOST_OPTIONS = 96 };

typedef struct {
    JobKind job;              // the last one that was asked for
    bool said[MOST_OPTIONS];  // by row of the table
    // What is read. Of paths and lists, NULL: not given.
    const char *model_path, *tokenizer_path;
    bool no_import;                       // models of other programs are refused
    const char *prompt_file, *text_path;  // of -f; of a text that is measured
    const char *answers_path;             // of --answers
    bool ids;                             // it holds token ids
    int steps;                            // -1: not given; 0: the model's context
    int mode;                             // MODE_...
    bool is_bare;   // a text without a beginning, at a terminal: a model taught to chat chats
    uint64_t seed;  // 0: from the clock
    // What is asked of each job.
    SessionOptions sessions;
    TextOptions text;
    PerplexityOptions ppl;
    KeyOptions keys;  // of --ppl
    TasksOptions tasks;
    CheckOptions check;
    bool prompts, plot;
    // of --next: how many of the likeliest tokens, or a file with tokens that follow beginnings of
    // the text
    const char *next;
    AttentionOptions attn;
    bool whole;           // of --heads and --why: texts of the whole length are read
    const char *engines;  // a list, NULL: all
    const char *family;   // of --rope-json, a model_type; NULL: a block is printed
    int cache;            // CACHE_...
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

// A line of --help JOB about what the job prints.
typedef struct {
    JobKind job;
    const char *title;  // of the rows from here on; NULL: as before
    const char *name, *text;
} OutputHelp;
extern const OutputHelp output_help[];
extern const int n_output_help;

// Reads the command line. The strings stay in argv. False with the reason.
bool options_parse(int argc, char **argv, Options *options, Error *err);
// Reads the methods of --rope and --rope-sliding. False with the reason when they cannot be read,
// and when options contradict each other, or one lacks another. An option that has no effect in the
// job is warned of on standard error, and becomes what it is when it is not given.
bool options_check(Options *options, Error *err);
// Makes a chat that was begun without -m (is_bare) the text that was asked for, for a model that was
// not taught to chat. Warns of what has an effect in chats alone.
void options_write_text(Options *options);
// Whether --rope is given, or, with a model, a setting that blocks of JSON have.
bool options_say_block(const Options *options);
// Prints --help: its first screen, or a topic. `program` is what it was called by, argv[0], and
// `version` its title. False with the reason when there is no such topic.
bool options_help(const char *program, const char *version, const char *topic, Error *err);

// Fails for argv's word at `option`, which is no option, and the words after it (NULL ends them): with
// what it is here if it is another program's, or with the nearest name ("": none). foreign_options.c
bool fail_no_option(char **option, const char *nearest, Error *err);

// ---- the table ----

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
    int job;         // the Job that it asks for; 0: none
    unsigned jobs;   // it has an effect in these (ON_...),
    unsigned needs;  // and in all that need one of these; where both are 0, in all there are
    Partner idle;    // with this one or without it, it has none
    // What else one of these names gives: other options, "MODEL", or an option with its optional
    // value ("--check FILE"). NULL: nothing.
    const char *not_with;  // which it cannot be combined with
    const char *with[2];   // it needs these beside it,
    const char *unless;    // but not where this is given; NULL: always
    bool about_rope;       // it needs a model with RoPE
    bool is_common;        // --help has it on its first screen
    bool is_rope;          // not an option: the place of the rows of rope_settings
} Option;

extern const Option option_table[];
extern const int n_option_rows;  // at most MOST_OPTIONS, for which Options.said has places
// What options are that are not given.
extern const Options options_unsaid;

// The jobs in which an option has an effect, as bits (ON_...).
unsigned option_jobs(const Option *option);

// The number of the option that a word names, before a `=`: a row of the table, or after these a
// row of rope_settings. Case counts for short names only. -1: no option, and *nearest becomes the
// one that was meant, or "".
int option_find(const char *word, const char **nearest);
// The value that the option of a number has. Of settings of RoPE it lies in a RopeConfig.
const Setting *option_value(int number);
