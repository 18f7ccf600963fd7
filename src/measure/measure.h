// The jobs that measure, and what they share. Tables go to standard output. What fails returns false or NULL with why.
#pragma once

#include "../core/tokenizer.h"
#include "../fast/process.h"
#include "../fast/session.h"
#include "../settings/engines.h"
#include "../settings/options.h"
#include "../settings/publish.h"
#include "table.h"

// Usual lengths of a text, a bench and a piece of --spread, and the longest that a job may have, in positions.
enum { USUAL_LENGTH = 256, BENCH_DEPTH = 8192, USUAL_PIECE = 128, MOST_LENGTH = 1 << 30 };

// Kinds of layers: full ones see all positions, sliding ones have a window or settings of RoPE of their own.
enum { LAYERS_FULL, LAYERS_SLIDING, N_LAYER_KINDS };

// Which kinds a model has, whether queries and keys turn in any of their layers, and whether the sliding ones turn by
// settings of their own.
typedef struct {
    bool is_there[N_LAYER_KINDS], turns[N_LAYER_KINDS], own_sliding;
} LayerKinds;

typedef struct {
    const Options *options;
    const Model *model;
    Tokenizer *tokenizer;  // NULL where a text is ids
    RopePlan *plans;       // (n_plans) the methods to compare, at least one
    int n_plans;
    int length;               // -n: positions of a text or a window, of the longest haystack, or how deep a bench goes
    RopeConfig file;          // the settings in the model's file, also when --rope-config replaces them
    RopeConfig file_sliding;  // likewise, of layers with LAYER_SLIDING
    RopeSettings sliding;     // of --rope-sliding
    LayerKinds kinds;         // of the model's layers; none: they are not known, and taken to be alike
    const RopeFile *rope_file;  // --rope-config; nothing in it: none
    int32_t *ids;               // (n_ids) of the text, without BOS; NULL: none
    size_t n_ids;
} Measurement;

// ---- for run.c ----

// model_open and a check of the model's settings of RoPE. When it fails there is nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// The kinds of layers that a model has; of one without weights nothing is known.
LayerKinds kinds_of_layers(const Model *model);

// The same of what --rope-config read, for which there is no model.
LayerKinds kinds_of_file(const RopeFile *file);

// Puts the settings of --rope-config in place of the model's or, without a model, of --head-dim, --theta and
// --train-ctx. The model points into *file from then on, which must not move.
bool take_rope_config(const Options *options, Model *model, RopeFile *file, Error *err);

// The length of a job in positions: -n, or what suits the job.
int length_of_job(const Measurement *m);

// Warns of settings without effect, of methods that the model was not tuned with, and, unless the job measures that, of
// a reach that is too short. `methods` are the settings of m->plans.
void print_advice(const Measurement *m, const RopeSettings *methods);

// The tasks of a list between commas (NULL: passkey) as bits by their order. 0 with the reason where one is not known.
unsigned tasks_asked(const char *list, Error *err);

// Writes the copy with smaller weights that --quantize asks for, and prints what rounding did.
bool quantize_model(const Model *model, const Options *options, Error *err);

// Does the job of the options, one of those below. *answer becomes what it answers, where that is not YES.
bool measure(const Measurement *m, Answer *answer, Error *err);

// ---- the jobs, whose tables the manual explains ----

// Perplexity by position of --samples windows that are spread evenly over the text.
bool measure_perplexity(const Measurement *m, Error *err);

// Tasks by length and depth. *answer becomes NO when a method's accuracy in a task at a length is below --min-accuracy.
bool measure_tasks(const Measurement *m, Answer *answer, Error *err);

// Prints the trials of these tasks instead, as lines of JSON for other programs. Of m it needs the tokenizer, the
// options and the length; lengths begin at half the model's trained context, or (0) there is that length alone.
bool print_prompts(const Measurement *m, Error *err);

// Judges within --budget whether the model holds to m->length positions. *answer becomes NO or UNDECIDED, or stays.
// Without a tokenizer only the settings are judged: that takes no weights, and *answer stays as it is.
bool check_model(const Measurement *m, Answer *answer, Error *err);

// The scores and weights of one head for the last query of a prompt, by key.
bool show_attention(const Measurement *m, Error *err);
// The text of a token on one line, cut where it is longer; bytes that cannot be shown stand as C spells them.
enum { MAX_SPELLED = 256 };
void spell(const char *piece, size_t n, char *out, size_t capacity);

// Log-probabilities of the likeliest tokens behind the prompt, or of those that the file of --next names behind
// beginnings of the text. A method that follows the length reads each beginning afresh.
bool show_next(const Measurement *m, Error *err);

// Times reading and decoding by the first method, and what the machine could give.
bool bench(const Measurement *m, Error *err);

// Is called after each window with NULL, and for each new best plan, which is valid during the call. `nll` is the mean
// -ln p of the best so far, `done` the share of the search that is done.
typedef void SearchListener(const RopePlan *better, double nll, double done);

// LongRoPE's search (arXiv 2402.13753) for windows of m->length positions of the text. Prints what it found, and the
// block as --rope-json does. Ctrl-C ends it with the best so far. `listener` may be NULL.
bool search(const Measurement *m, SearchListener *listener, Error *err);

// Prints how the engines of --engines read --rope-config's file as it stands, or what the first plan would be published
// as, for a text of m->length positions. hf5 comes first and is the reference. *answer becomes NO when one differs.
bool show_engines(const Measurement *m, Answer *answer, Error *err);
// Returns how many of all *n engines read that config alike, 0 of 0 where other programs have no
// such method. It is the file, or if *as_published what the first plan would be published as.
int engines_alike(const Measurement *m, int *n, bool *as_published);
// Replaces the plans by that config as each engine of --reading reads it, named ENGINE:METHOD, with the command line's
// window, sinks and logn. Their lists lie in *readings; the caller frees both. Fails where an engine refuses it.
bool plans_as_read(Measurement *m, Reading **readings, Error *err);
// Says which layers of a config are of which kind.
void note_layers(Table *t, const ConfigLayers *layers);

// Prints what the first method does to each pair of a head at m->length positions, or what another encoding adds.
bool explain(const Measurement *m, Error *err);

// ---- what they share ----

// The command line's configuration of a session for a plan and a text of `context` tokens.
SessionConfig session_config(const Measurement *m, const RopePlan *plan, int context);
// Opens such a session and, if say_memory, prints its memory on standard error.
Session *open_session(const Measurement *m, const RopePlan *plan, int context, bool say_memory, Error *err);

// The plan for m->length positions of `settings`, or of `start` where these say nothing, run as the options say.
bool plan_for_job(const Measurement *m, const RopeSettings *settings, const RopeConfig *start, RopePlan *plan,
                  Error *err);
// The plan for m->length positions of the model's own settings, or (plain) of plain RoPE, with theta times `times`.
bool reference_plan(const Measurement *m, bool plain, double times, RopePlan *plan, Error *err);

// What --rope-json and engines are told of a plan.
Publication publication_of(const Measurement *m, const RopePlan *plan);

// A window is m->length positions: BOS, if there is one, and ids of the text. Returns the number of these ids.
size_t window_ids(const Measurement *m);
// Fills window (m->length) with the i-th of n stretches that are spread evenly over the text.
void fill_window(const Measurement *m, int i, int n, int32_t *window);

// `least` ids (n), or some thousand more, of meaningless English, always the same for a seed. The caller frees them.
int32_t *plain_english(const Tokenizer *tokenizer, size_t least, uint64_t seed, size_t *n, Error *err);

// Reads all but the last of n ids behind what the session has read: nll[i] = -ln p(ids[i + 1]) for i in [0, n - 1).
// They are read as part of a text of `length` tokens, or (0) token by token.
bool score_next(Session *s, const int32_t *ids, int n, int length, double *nll, Error *err);

// nll[p - from] = -ln p(ids[p]) for p in [from, to), 0 < from. The session first reads the ids before that it lacks.
bool score_span(Session *s, const int32_t *ids, int from, int to, int length, double *nll, Error *err);

// The story of book.txt, 83,610 bytes: what --check reads when no FILE is given.
extern const char prose[];

// Passkeys in texts of one length, the same ones for any --seed. NULL with the reason.
typedef struct Tasks Passkeys;
Passkeys *passkeys_open(const Measurement *m, int length, Error *err);
void passkeys_close(Passkeys *keys);
// Whether a key and its question fit in the length at all. If not, no key may be asked for.
bool passkeys_fit(const Passkeys *keys);
// Hides key number `number` in one of five depths, 0 to 4, of a text that the session then reads, and asks for it.
bool passkeys_ask(Passkeys *keys, Session *s, int number, int depth, bool *found, Error *err);

// Of a row of --check. OPEN: not decided. BETWEEN: it lies between what jumps can pass and what they can fail.
// UNKNOWN: the model cannot do this in a short text either.
typedef enum { FAIL, OK, UNKNOWN, OPEN, BETWEEN } Verdict;

// The lines that every table begins with.
void print_heading(const Measurement *m, Table *table, const char *what);

// The method whose turn it is.
typedef struct {
    const Measurement *m;
    Table *table;
    const RopePlan *plan;
    Session *session;  // for m->length tokens, nothing read yet
    int part;          // its number in m->plans
} Method;

// Prints heading and columns, then calls `work` for each method in turn. Before that it tries the memory for each.
typedef bool Work(void *job, Method *method, Error *err);
bool measure_methods(const Measurement *m, const char *what, const char *columns, Work *work, void *job, Error *err);

// Shows the share `done` of a method's work.
void show_progress(const Method *method, double done);
