// What a method is worth, what it does in numbers, and how fast a model runs. Tables go to standard output. A function
// that fails returns false or NULL with the reason.
#pragma once

#include "../engines.h"
#include "../forward/session.h"
#include "../options.h"
#include "../text/tokenizer.h"
#include "table.h"

// The usual lengths of a text, a bench and a piece of --spread; the longest that a job may have.
enum { USUAL_LENGTH = 256, BENCH_DEPTH = 8192, USUAL_PIECE = 128, MOST_LENGTH = 1 << 30 };

typedef struct {
    const Options *options;  // the command line
    const Model *model;
    Tokenizer *tokenizer;  // NULL where a text is ids
    RopePlan *plans;       // (n_plans) the methods to compare, at least one
    int n_plans;
    int length;       // -n: positions of a text or a window, of the longest haystack, or how deep a bench goes
    RopeConfig file;  // what the model's file says, even where --rope-config has taken its place
    const RopeFile *rope_file;  // --rope-config; nothing in it: none
    int32_t *ids;               // (n_ids) of the text, without BOS; NULL: none
    size_t n_ids;
} Measurement;

// ---- for run.c ----

// model_open, which checks a model's settings of RoPE, too. When it fails there is nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// Puts what --rope-config says in the place of the model's settings, or, without a model, of --head-dim, --theta and
// --train-ctx. The model needs the file from then on, which must not move.
bool take_rope_config(const Options *options, Model *model, RopeFile *file, Error *err);

// How many positions a job is about: -n, or what suits it. For texts and tasks it is enough to see what happens past
// the trained context.
int length_of_job(const Measurement *m);

// Warns of settings without effect, of a reach too short, unless that is what is measured, and of methods that the
// model was not tuned with. `methods` are those of m->plans.
void print_advice(const Measurement *m, const RopeSettings *methods);

// The tasks of a list between commas (NULL: passkey), bits by their order; 0 with the reason where one is not known.
unsigned tasks_asked(const char *list, Error *err);

// Writes the copy with smaller weights that --quantize asks for, and prints what rounding did.
bool quantize_model(const Model *model, const Options *options, Error *err);

// Does the job of the options, one of those below. *passed becomes false when it was done and found wanting.
bool measure(const Measurement *m, bool *passed, Error *err);

// ---- the jobs, whose tables the manual explains ----

// Perplexity by position of --samples windows that are spread evenly over the text.
bool measure_perplexity(const Measurement *m, Error *err);

// Tasks by length and depth. *passed: no method's accuracy in a task is below --min-accuracy.
bool measure_tasks(const Measurement *m, bool *passed, Error *err);

// One verdict, within --budget. *passed: the model holds to m->length, and with --whole a text of that length was read.
// Without a tokenizer the settings are judged alone, which takes no weights either, and *passed stays as it is.
bool check_model(const Measurement *m, bool *passed, Error *err);

// The scores and weights of one head for the last query of a prompt, by key.
bool show_attention(const Measurement *m, Error *err);

// Times the first method's reading and decoding, beside what the machine could give.
bool bench(const Measurement *m, Error *err);

// What a search tells when it has read a window, the share `done` of all: the plan that has become the best by it, or
// NULL, which is there until it returns, and the mean -ln p of the best so far.
typedef void SearchListener(const RopePlan *better, double nll, double done);

// LongRoPE's search (arXiv 2402.13753) for windows of m->length positions of the text. Prints what it found, and the
// block as explain_json does. Ctrl-C ends it with the best so far. `listener` may be NULL.
bool search(const Measurement *m, SearchListener *listener, Error *err);

// How the engines of --engines read --rope-config's file as it stands, or what the first plan would be published as,
// for a text of m->length positions, hf5 first, by which the others are measured. *same becomes false when one reads it
// otherwise.
bool show_engines(const Measurement *m, bool *same, Error *err);
// How many of all *n engines read it alike; 0 of 0 where other programs have no such method.
int engines_alike(const Measurement *m, int *n);
// Puts a plan for each engine of --reading in the place of the plans: that config as it reads it, with the command
// line's window, sinks and logn, by the name ENGINE:METHOD. Its lists lie in *readings; the caller frees both. Fails
// where an engine refuses the config.
bool plans_as_read(Measurement *m, Reading **readings, Error *err);

// What the first method does to every pair of a head at m->length positions, or, without RoPE, what the encoding adds.
bool explain(const Measurement *m, Error *err);

// The first plan as a rope_scaling block (JSON) in the form that most engines read alike, and on # lines llama.cpp's
// options, what has to stand beside the block, and the engines that read it otherwise. Fails when other programs have
// no such method. Of m it takes the model's config and rope_file besides.
bool explain_json(const Measurement *m, Error *err);

// ---- what they share ----

// What the command line says of a session of a plan, for a text of `context` tokens: its cache, its threads and so on.
SessionConfig session_config(const Measurement *m, const RopePlan *plan, int context);
// Such a session. The memory it takes is said on standard error, once it has been got.
Session *open_session(const Measurement *m, const RopePlan *plan, int context, bool say_memory, Error *err);

// The plan of some settings where they are said, else of `start`, for m->length positions, run as the options say.
bool plan_for_job(const Measurement *m, const RopeSettings *settings, const RopeConfig *start, RopePlan *plan,
                  Error *err);
// The plan of the model's own settings, or of plain RoPE with its theta so many times larger, for m->length positions.
bool reference_plan(const Measurement *m, bool plain, double times, RopePlan *plan, Error *err);

// A window is m->length positions: BOS, if there is one, and so many ids of the text.
size_t window_ids(const Measurement *m);
// Fills a window with the i-th of n stretches, spread evenly over the text.
void fill_window(const Measurement *m, int i, int n, int32_t *window);

// Ids (n) of plain English that means nothing, always the same for a seed, `least` and some thousand bytes more. The
// caller frees them.
int32_t *plain_english(const Tokenizer *tokenizer, size_t least, uint64_t seed, size_t *n, Error *err);

// nll[i] = -ln p(ids[i + 1]) for i in [0, n - 1): reads all but the last of n ids behind what the session has read, in
// a text of `length` tokens, or (0) token by token.
bool score_next(Session *s, const int32_t *ids, int n, int length, double *nll, Error *err);

// nll[p - from] = -ln p(ids[p]) for p in [from, to), 0 < from. The session reads those of the ids before that it lacks.
bool score_span(Session *s, const int32_t *ids, int from, int to, int length, double *nll, Error *err);

// Of `trials` prompts of the passkey task that fill `length` tokens, answer included, the share in which the key is
// found; -1 when not even the bare task fits. It stands at as many depths, or (not `deep`) first of all. The session
// forgets what it has read.
bool passkey_accuracy(const Measurement *m, Session *s, int length, int trials, bool deep, double *accuracy,
                      Error *err);

typedef enum { FAIL, OK, UNKNOWN, UNTRIED } Verdict;  // of --check; a condition is FAIL or OK

// Prints a row of --check about a length. True when its verdict is OK.
bool judge(Table *table, const char *check, int length, double value, double limit, Verdict verdict);

// Prints the names of the columns of --check, and the rows about settings. Returns the length to which the model holds
// by these. `own` is the plan of the model's own.
int judge_settings(const Measurement *m, const RopePlan *own, Table *table);

// The lines that every table begins with.
void print_heading(const Measurement *m, Table *table, const char *what);

// The method whose turn it is.
typedef struct {
    const Measurement *m;
    Table *table;
    const RopePlan *plan;
    Session *session;  // for m->length tokens, nothing read yet
    int part;          // it is that one of m->n_plans
} Method;

// Prints heading and columns, then calls `work` for one method after another. Makes sure at first that there is memory
// for each, so that the last one is not refused after the first has taken an hour.
typedef bool Work(void *job, Method *method, Error *err);
bool measure_methods(const Measurement *m, const char *what, const char *columns, Work *work, void *job, Error *err);

// Shows that the share `done` of a method's work is done.
void show_progress(const Method *method, double done);
