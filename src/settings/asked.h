// What the command line asks of each job: where the values of its options lie, and what the jobs
// read. The jobs themselves stand above, in src/job and src/measure.
#pragma once

#include "../base/session_config.h"

// Of all sessions, whatever they read.
typedef struct {
    KvType kv;
    int floats;              // 1: activations stay float32, see SessionConfig
    bool plain, stale_keys;  // likewise
    bool stepwise;           // texts are read token by token
    int threads;             // 0: what is fastest
    int spread, piece;       // positions and tokens, see Spread; 0: not given
    bool crowd;              // of --spread
} SessionOptions;

enum { THINKING_ON, THINKING_OFF };

typedef struct {
    double temperature, top_p, min_p;  // see sampler.h
    int top_k;
    bool ignore_eos;            // go on behind a token that ends the text
    const char *prompt;         // of a chat: what the user says first; NULL: it is asked for,
    const char *system_prompt;  // likewise
    int thinking;               // of a chat: THINKING_OFF, answers begin at once
} TextOptions;

typedef struct {
    int samples;     // windows that are spread evenly over the text, at least 1
    bool per_token;  // a row for each position
} PerplexityOptions;

typedef struct {
    // of tasks, between commas; NULL: passkey, in a table without the task's name
    const char *list;
    const char *text_path;  // what they are hidden in; NULL: filler
    int trials;             // at each length and depth
    double min_accuracy;    // below which the answer is NO
} TasksOptions;

typedef struct {
    const char *text_path;  // of job->ids; NULL: the story that is compiled in is read
    const char *like_path;  // of another model, which it is to read as well as; NULL: none
    double budget;          // seconds that it may take; 0: only what all costs is printed
    bool whole;             // it holds only when texts were read whole
    // what is left, at least, of the gain of reading a page again; -1: that is not asked
    double min_page;
    // of the surety with which the last of several values is said; -1: likewise
    double min_updates;
    // nats for each token that the rounding of the cache changes, at most; -1: likewise
    double max_cache;
    bool says_block;  // see read_by_engines
    bool settings;    // only these are judged: that takes neither weights nor a tokenizer
} CheckOptions;

typedef struct {
    // how many of the likeliest tokens behind job->ids, or a file that names tokens behind
    // beginnings of them
    const char *asked;
} NextOptions;

// What of a window's nll is minimized: past the trained context, of the last half, or of all.
enum { MINIMIZE_PAST, MINIMIZE_HALF, MINIMIZE_ALL };

typedef struct {
    int reads;       // most windows that are read
    double seconds;  // most time; 0: no limit
    int windows;     // of the text that search, and as many that judge
    int population;  // lists to begin with
    int minimize;    // MINIMIZE_...
    bool attention;  // the attention factor is looked for, too
    bool unscaled;   // so is the number of first positions that stay unscaled
} SearchOptions;
