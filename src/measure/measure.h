// What a method is worth, what it does in numbers, and how fast a model runs. Tables go to standard output: `# key`
// lines, the columns' names and rows, between tabs. All functions return false or NULL with the reason.
#pragma once

#include "../forward/session.h"
#include "../options.h"
#include "../rope_config.h"
#include "../text/tokenizer.h"
#include "table.h"

enum { BENCH_DEPTH = 8192 };  // the length of a bench, unless asked otherwise

typedef struct {
    const Options *options;  // the command line: what differs from measurement to measurement, and kv
    const Model *model;
    const Tokenizer *tokenizer;  // NULL where a text is ids
    const RopePlan *plans;       // the methods to compare, at least one
    int n_plans;
    int length;              // -n: tokens of a window, the longest haystack, or how deep a bench goes
    const RopeConfig *file;  // what the model's file says, where --rope-config has taken its place; NULL: model->rope
    const int32_t *ids;      // (n_ids) of the text, without BOS; NULL: none
    size_t n_ids;
} Measurement;

// Does the job of the options, one of those below: all but text and --quantize. *passed becomes false when it was done
// and found wanting. Without a tokenizer a check judges the settings alone, and leaves *err, which says why there is
// none, as it is.
bool measure(const Measurement *m, bool *passed, Error *err);

// What a job's length is without -n. For texts and tasks it is enough to see what happens past the trained context.
int measured_length(const Measurement *m);

// Warns of settings without effect (but not for each of `all`), of a reach too short, unless that is what is measured,
// and of methods that the model was not tuned with, for which --check has a row. `methods` are those of m->plans.
void print_advice(const Measurement *m, const RopeSettings *methods);

// The ids of a file to measure, which the caller frees: the tokenizer's, without BOS, or, where that is NULL, those
// that the file lists. All are in the model's vocabulary.
int32_t *measured_text(const char *path, const Model *model, const Tokenizer *tokenizer, size_t *n, Error *err);

// Perplexity of `samples` windows, spread evenly over the text, each read as one prompt behind BOS, if there is one, or
// with stepwise token by token. Prints a row per bucket of positions and a last one per method: method from to tokens
// nll ppl se (from <= p < to; nll is the mean of -ln p(token), ppl is exp(nll), se the standard error of nll over
// windows and blocks of 16 tokens), or with per_token a row per position: method position token nll.
bool measure_perplexity(const Measurement *m, Error *err);

// Tasks by length and depth: those of --tasks, or the passkey task alone. Lengths double from half the trained context
// to m->length, depths go from 0 (what is asked for stands first) to 1 (last). Prints method length depth trials
// correct accuracy, before them, with --tasks, the task. *passed: no method's overall accuracy in a task is below
// --min-accuracy; standard error says so when one is. Texts are made of m->ids, if there are any.
bool measure_tasks(const Measurement *m, bool *passed, Error *err);
bool tasks_check(const char *list, Error *err);  // is a --tasks right? NULL is

// One verdict for the first method as it stands: check length value limit verdict, then `# holds to LENGTH`. See
// check.c. *passed: it holds to m->length.
bool check_model(const Measurement *m, bool *passed, Error *err);
// Its rows about settings alone, which need neither weights nor a tokenizer; without options as bare rows.
bool check_settings(const Measurement *m, Error *err);

// The scores and weights of one head for the last query of a prompt (ids, of which there are n_ids), by key: position
// distance score weight token.
bool show_attention(const Measurement *m, Error *err);

// Times the first method: reading a short prompt and one of m->length positions, and decoding at the start and behind
// m->length positions, each the median of several runs on the same made-up tokens. Prints two yardsticks as `#` lines
// (how fast all threads read the model file, and a float32 matrix product), and a row per phase: phase depth tokens
// seconds tokens_per_s gbytes_per_s, counting weights and key-value cache once for each token that is decoded, or once
// for a prompt. On standard error: the share that decoding reaches of the speed at which threads read as many bytes.
bool bench(const Measurement *m, Error *err);

// Writes the copy with smaller weights that --quantize asks for. Prints what rounding did to each class of tensors:
// tensors worst mean, in shares of the class's mean absolute weight.
bool quantize_model(const Model *model, const Options *options, Error *err);

// What a search tells when it has read a window, the share `done` of all: the plan that has become the best by it, or
// NULL, which is there until it returns, and the mean -ln p of the best so far.
typedef void SearchListener(void *whose, const RopePlan *better, double nll, double done);

// LongRoPE's search (arXiv 2402.13753) for windows of m->length positions of the text, some of which search and others
// judge. Prints as `#` lines what it began with, what it found and what the judges say, then the block as explain_json
// does. Ctrl-C ends it with the best so far, after the window at hand. The same seed gives the same result, unless
// --seconds ends the search. `listener` may be NULL.
bool search(const Measurement *m, SearchListener *listener, void *whose, Error *err);

// What the first method does to every pair of a head at m->length positions: `# key` lines and a row per pair; at a
// terminal, or with --plot, also a picture on standard error, one bar per pair, from interpolated (left) to kept
// (right). Of a model without RoPE, what explain_encoding says.
bool explain(const Measurement *m, Error *err);

// What an encoding other than RoPE adds, in numbers: `# key` lines and a row per distance, layer and head.
bool explain_encoding(const Model *model, int length, bool tsv, Error *err);

// The settings in force as a rope_scaling block (JSON) for Hugging Face and vLLM, and on # lines llama.cpp's options.
// False with the reason when those programs have no such method.
bool explain_json(const RopePlan *plan, Error *err);

// Maps and checks a model file (model_open), and its settings of RoPE. False with the reason, and nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// Puts what --rope-config says in the place of the model's settings; a block alone is about them, or, without a model,
// about --head-dim, --theta and --train-ctx. The model needs the file from then on, which must not move.
bool take_rope_config(const Options *options, Model *model, RopeFile *file, Error *err);

// A new session of a plan, for a text of `context` tokens, with the cache and the threads of the command line. The
// memory it takes is said on standard error, once it has been got.
Session *open_session(const Options *options, const Model *model, const RopePlan *plan, int context, bool say_memory,
                      Error *err);

// For the measurements themselves. The lines that every table begins with:
void print_heading(const Measurement *m, Table *table, const char *what);

// The method whose turn it is.
typedef struct {
    const Measurement *m;
    Table *table;
    const RopePlan *plan;
    Session *session;            // for m->length tokens, nothing read yet
    int part;                    // it is that one of m->n_plans
    double start, began, shown;  // seconds: when the first one began, when this one, when progress was last shown
} Method;

typedef bool Work(void *job, Method *method, Error *err);

// Shows, a few times a second and only on a terminal, that the share `done` of the work of what `name` says is done.
void show_progress(Method *method, const char *name, double done);

// Prints heading and columns, then calls `work` for one method after another, to print its rows. Makes sure at first
// that there is memory for each of them, so that the last one is not refused after the first has taken an hour.
bool measure_methods(const Measurement *m, const char *what, const char *columns, TableShape shape, Work *work,
                     void *job, Error *err);

// Fills a window of m->length positions with BOS, if there is one, and the i-th of n stretches spread evenly over the
// text, which is long enough.
void fill_window(const Measurement *m, int i, int n, int32_t *window);

// nll[i] = -ln p(ids[i + 1]) for i in [0, n - 1): reads all but the last of n ids behind what the session has read, in
// one go in a text of `length` tokens, or (0) token by token.
bool score_next(Session *s, const int32_t *ids, int n, int length, double *nll, Error *err);

// The same by numbers: nll[p] = -ln p(ids[p]) for p in [from, to), 0 < from, when ids[0] to ids[from - 2] are read.
bool score_tokens(Session *s, const int32_t *ids, int from, int to, int length, double *nll, Error *err);

// The passkey task for a check: of `trials` prompts that fill `length` tokens, answer included, with the key at as many
// depths, the share in which it is found; -1 when not even the bare task fits. The session forgets what it has read.
// One that is spread spreads these prompts (session_begin).
bool passkey_accuracy(const Measurement *m, Session *s, int length, int trials, double *accuracy, Error *err);

// Ids (n) of plain English that means nothing: sentences made of a few hundred words, always the same ones for a seed,
// at least so many bytes and ids of them, which the caller frees. NULL with the reason.
int32_t *plain_english(const Tokenizer *tokenizer, size_t bytes, size_t least, uint64_t seed, size_t *n, Error *err);
