// The command line: one table of options, from which --help, parsing, limits, rules about
// combinations, and the places of the values follow. The jobs find their values in their own
// structs of Options.
#pragma once

#include "../decoder/session_config.h"
#include "../llama/sampler.h"
#include "jobs.h"
#include "methods.h"

// ---- the options of each job ----

// Options of all sessions, in any job.
typedef struct {
    KvType kv;
    int floats;              // 1: activations stay float32, see SessionConfig
    bool plain, stale_keys;  // both as in SessionConfig
    bool stepwise;           // texts are read token by token
    int threads;             // 0: the fastest number
    int spread, piece;       // positions and tokens, see Spread; 0: not given
    const char *short_heads;  // a list of kv heads, NULL: none; see ShortHeads
    int short_window;         // the window of these heads
    int best_keys;            // see SessionConfig; 0: all
} SessionOptions;

enum { THINKING_ON, THINKING_OFF };

typedef struct {
    Sampling sampling;
    bool ignore_eos;            // continue after a token that ends the text
    const char *prompt;         // the first message of a chat; NULL: it is read from standard
                                // input,
    const char *system_prompt;  // the same for the system prompt
    int thinking;               // in a chat: THINKING_OFF, answers begin at once
} TextOptions;

typedef struct {
    int samples;     // windows spread evenly over the text, at least 1
    bool per_token;  // a row for each position
} PerplexityOptions;

// Options for key tokens, see src/measure/key_tokens.h.
typedef struct {
    bool asked;
    const char *given;       // "T,STEP,GAIN,LOSS" or the first of these; NULL: the defaults
    int trim, step;          // tokens before the first scored token of a trimmed text; tokens
                             // scored in each
    double gain, loss;       // nats that the whole text must save, at least; nats that may remain,
                             // at most
    const char *judge_name;  // from --judge, as in --rope; NULL: the model's own settings
    RopeSettings judge;
} KeyOptions;

typedef struct {
    // task names, separated by commas; NULL: passkey, in a table without the task's name
    const char *list;
    int trials;           // at each length and depth
    double min_accuracy;  // the answer is NO below it
    double effective;     // share of the score in short texts that must remain at an effective
                          // length
} TasksOptions;

enum { MOST_LENGTHS = 16 };

typedef struct {
    const char *text_path;   // source of job->ids; NULL: the built-in story
    const char *like_path;   // another model, for comparison; NULL: none
    const char *save_path;   // destination of the ladder's readings, for a later like_path; NULL:
                             // none
    const char *junit_path;  // destination of a report for build servers; NULL: none
    int lengths[MOST_LENGTHS], n_lengths;  // from -n if it has several, rising; none: one length
    double effort;  // how many times the usual number of tokens may be read to decide a row
    double budget;  // seconds it may take; 0: no limit
    double cost;    // how many times as hard the settings may make texts within the model's
                    // own reach
    // nats for each token by which rounding the cache may change the text, at most; -1: not tested
    double max_cache;
    bool settings;  // only the settings are judged, without weights or a tokenizer
} CheckOptions;

// Options about one head, for the last query of a prompt.
typedef struct {
    int head[2];       // layer and head, from 0
    const char *key;   // --key: a position; NULL: the likeliest key
    bool by_pairs;     // --key is given
    int position;      // of `key`; -1: the likeliest
    bool everywhere;   // pairs get another speed in all heads, not only in this one
    const char *instead_name;  // from --instead, as in --rope; NULL: the default
    RopeSettings instead;
} AttentionOptions;

// ---- all options ----

enum { MODE_DEFAULT = -1, MODE_GENERATE, MODE_CHAT };
enum { CACHE_LIST, CACHE_EMPTY };
enum { MOST_OPTIONS = 96 };

typedef struct {
    JobKind job;               // the last job that was asked for
    bool given[MOST_OPTIONS];  // which rows of the table are given
    // The inputs. A path or list is NULL if it is not given.
    const char *model_path, *tokenizer_path;
    bool no_import;                       // models of other programs are refused
    const char *prompt_file, *text_path;  // of -f; of a text to measure
    const char *answers_path;             // of --answers
    bool ids;                             // the text file contains token ids
    int steps;                            // -1: not given; 0: the model's context
    int mode;                             // MODE_...
    bool is_bare;   // a text without a beginning, at a terminal: a model with a chat template chats
                    // instead
    uint64_t seed;  // 0: from the clock
    // The options of each job.
    SessionOptions sessions;
    TextOptions text;
    PerplexityOptions ppl;
    KeyOptions keys;  // of --ppl
    TasksOptions tasks;
    CheckOptions check;
    bool prompts, plot;
    // of --next: the number of likeliest tokens, or a file with tokens that follow beginnings of
    // the text
    const char *next;
    AttentionOptions attn;
    bool whole;           // of --heads and --why: the texts are as long as N
    const char *engines;  // a list, NULL: all
    const char *family;   // of --rope-json, a model_type; NULL: a block
    int cache;            // CACHE_...
    int quantize_type;    // 0: q8, 1: q4, 2: f16, 3: f32
    const char *quantize_path;
    // RoPE.
    const char *methods;  // of --rope, NULL: the model's own
    const char *sliding;  // of --rope-sliding, NULL: the model's own
    RopeSettings rope;    // the other rope options
    // The methods that options_check parses from these: (n_asked) from --rope, at least one, and
    // from --rope-sliding.
    RopeSettings *asked;  // the caller frees it, even if an option is wrong
    int n_asked;
    RopeSettings asked_sliding;
    int head_dim;             // 0: not given
    const char *rope_config;  // a file that replaces the model's settings, NULL: none
    const char *reading;      // engines whose readings are used, NULL: none
    const char *about_rope;   // the last option that needs a model with RoPE, NULL: none
    // The form of the output.
    bool tsv, json, version;
    const char *help;  // a topic, "": the first screen, NULL: not asked for
} Options;

// A line of --help JOB about the job's output.
typedef struct {
    JobKind job;
    const char *title;  // of the rows from here on; NULL: the same as before
    const char *name, *text;
} OutputHelp;
extern const OutputHelp output_help[];
extern const int n_output_help;

// Parses the command line. The strings stay in argv. False with the reason.
bool options_parse(int argc, char **argv, Options *options, Error *err);
// Parses the methods of --rope and --rope-sliding. False with the reason if that fails, or if
// options contradict or require each other. An option without effect in the job causes a warning on
// standard error, and is reset to its default.
bool options_check(Options *options, Error *err);
// Turns a chat that began without -m (is_bare) back into a text, for a model without a chat
// template. Warns of options that only have an effect in chats.
void options_write_text(Options *options);
// Whether --rope is given, or, with a model, a setting that blocks of JSON have.
bool options_say_block(const Options *options);
// Prints --help: its first screen, or a topic. `program` is argv[0], and `version` the title. False
// with the reason if there is no such topic.
bool options_help(const char *program, const char *version, const char *topic, Error *err);

// Fails for argv's word at `option`, which is not an option, and the words after it (NULL ends
// them). The message has the corresponding option here if it is another program's, or the nearest
// name ("": none). In foreign_options.c.
bool fail_no_option(char **option, const char *nearest, Error *err);

// ---- the table ----

// Another option that takes away an option's effect in these jobs, either if it is given or if it
// is not.
typedef struct {
    const char *option;  // NULL: there is none
    bool is_given;
    unsigned jobs;
} Partner;

// An option is a value in Options, and the jobs it is about. A row without an option is a heading
// of --help.
typedef struct {
    Setting value;
    int job;         // the Job that it starts; 0: none
    unsigned jobs;   // it has an effect in these jobs (ON_...),
    unsigned needs;  // and in all that need one of these; if both are 0, in all jobs
    Partner idle;    // it has no effect with this option, or without it
    // The next three name other options, "MODEL", or an option with its optional value ("--check
    // FILE"). NULL: none.
    const char *not_with;  // it cannot be combined with this
    const char *with[2];   // it requires these,
    const char *unless;    // except when this is given; NULL: always
    bool about_rope;       // it needs a model with RoPE
    bool is_common;        // --help has it on its first screen
    bool is_rope;          // not an option: the place of the rows of rope_settings
} Option;

extern const Option option_table[];
extern const int n_option_rows;  // at most MOST_OPTIONS, for which Options.given has places
// The values of options that are not given.
extern const Options options_default;

// The jobs in which an option has an effect, as bits (ON_...).
unsigned option_jobs(const Option *option);

// The number of the option that a word names, up to a `=`: a row of the table, or after these a row
// of rope_settings. Case matters only for short names. -1: it is not an option, and *nearest
// becomes the probable one, or "".
int option_find(const char *word, const char **nearest);
// The value of the option with a number. Settings of RoPE are stored in a RopeConfig.
const Setting *option_value(int number);
