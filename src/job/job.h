// What every job stands on: the command line, a model and what is said of its RoPE, plans, a text,
// and the sessions that read it.
#pragma once

#include "../configs/rope_config.h"
#include "../engines/engines.h"
#include "../fast/process.h"
#include "../fast/session.h"
#include "../kinds/all.h"
#include "../llama/sampler.h"
#include "../settings/options.h"
#include "../tokens/tokenizer.h"
#include "json_out.h"

// The longest text that a job may have, in positions.
enum { MOST_LENGTH = MOST };

// Kinds of layers: full ones see all positions, sliding ones have a window or settings of RoPE of
// their own.
enum { LAYERS_FULL, LAYERS_SLIDING, N_LAYER_KINDS };

// Which kinds a model has, whether queries and keys turn in any of their layers, and whether the
// sliding ones turn by settings of their own.
typedef struct {
    bool is_there[N_LAYER_KINDS];
    bool turns[N_LAYER_KINDS];
    bool own_sliding;
} LayerKinds;

typedef struct {
    Options *options;      // what was asked for; the job's own are a struct of these
    const Model *model;    // as its file says; without layers: there is none
    const RopeFile *said;  // of its RoPE before a method is asked for
    LayerKinds kinds;      // of its layers
    int length;       // -n: positions of a text or a window, of the longest haystack, or how deep
    RopePlan *plans;  // (n_plans) the methods to compare, at least one; for `length` positions
    int n_plans;
    Readings *readings;    // of --reading; plans point to the lists in them; NULL: there are none
    Tokenizer *tokenizer;  // NULL where a text is ids
    int32_t *ids;          // (n_ids) of the text, without BOS, or of the prompt; NULL: none
    size_t n_ids;
    TableForm form;  // of tables
    Answer answer;   // YES, unless the job answers otherwise
} Job;

// Does a job, which may change its answer. False with the reason.
typedef bool RunJob(Job *job, Error *err);

// ---- length ----

// The length of the job in positions: -n, or what is usual for it; 0 is the model's context.
int length_of_job(const Job *job);

// ---- plans ----

// The plan for job->length positions of `settings`, or of `start` where these say nothing, with the
// spread and stale keys of the job's sessions. False with the reason when it makes no sense.
bool plan_for_job(const Job *job, const RopeSettings *settings, const RopeConfig *start,
                  RopePlan *plan, Error *err);

// Plans what runs, in place of the job's plans and readings before: a plan for each method, but for
// those of `all` that the model lacks lists for, or what the engines of --reading make of them. The
// caller frees both, also behind an error. False with the reason.
bool plan_job(Job *job, Error *err);

// The same as plan_for_job of what the model was made with, whatever --rope-config says, or (plain)
// of plain RoPE, with theta times `times`.
bool reference_plan(const Job *job, bool plain, double times, RopePlan *plan, Error *err);

// The settings that the model was made with; without a model, what is said.
const RopeConfig *own_settings(const Job *job);

// Whether no length is too long for the angles: full layers do not turn, and the window of the
// others is within the trained context.
bool turns_in_windows(const Job *job);

// Warns of settings without effect and, if asked to, of a reach that is too short for the length,
// and of methods that the model was not tuned with.
void print_advice(const Job *job, bool of_reach, bool of_tuning);

// ---- as engines read it, and other programs ----

// What is read: the file of --rope-config, or a plan as it would be published.
typedef struct {
    const Job *job;
    const RopePlan *plan;
    bool as_it_stands;  // the file is read, and not the plan
} ReadByEngines;

// The file, where nothing that blocks have is given besides.
ReadByEngines read_by_engines(const Job *job);

// What the engines of a list (NULL: all) make of it, for a text of `length` positions. The caller
// frees it. NULL with the reason.
Readings *readings_of(const ReadByEngines *what, const char *list, int length, Error *err);

// How many of all *n engines read it alike, at job->length positions; 0 of 0 where other programs
// have no such method.
int engines_alike(const ReadByEngines *what, int *n);

// What other programs and engines are told of a plan.
Publication publication_of(const Job *job, const RopePlan *plan);

// Prints the first plan as a block of JSON, see publish_print.
RunJob print_block;

// ---- sessions ----

// The configuration of a session for a plan, to which it points, and a text of `context` tokens.
SessionConfig session_config(const Job *job, const RopePlan *plan, int context);

// Opens such a session, which the plan must outlive. If say_memory, prints its memory on standard
// error. NULL with the reason.
Session *open_session(const Job *job, const RopePlan *plan, int context, bool say_memory,
                      Error *err);

// ---- foreign.c: files of other programs ----

// model_open, and what other programs' files are called, and how they are brought in. When it fails
// there is nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// The command of the exporter. Beside a program that is installed as NAME it is NAME-export; else
// it is that of the folder of the sources. `path` is room for it, of `size` bytes.
const char *exporter_command(char *path, size_t size);

// ---- said.c: what is said of a model's RoPE before a method is asked for ----
// By the model's file, by --rope-config in its place, or by --head-dim, --theta and --train-ctx
// where there is no model. The Model itself stays what its file says.

// What the model's file says.
void said_by_model(const Model *model, RopeFile *said);

// What is said without a model. head_dim, theta and train_ctx may be 0: not known.
void said_by_numbers(int head_dim, double theta, int train_ctx, RopeFile *said);

// Puts what the file of --rope-config says in place of what *said holds, and warns of what is
// remarkable in it, unless engines are to read it (`is_read`). These may get a file that fails
// here: then only said->whole and its context are new. False with the reason. `said` must not move
// afterwards, and the caller frees said->whole.
bool said_by_config(const char *path, const Model *model, bool is_read, RopeFile *said, Error *err);
// Warns of what the file says and no reader looks at, engines neither.
void warn_of_unread(const char *path, const RopeFile *said);

// A model whose file says this, for a copy that is written. It shares all that the model owns.
Model model_as_said(const Model *model, const RopeFile *said, struct ModelExtra *extra);

// Below, a model without layers is none, and what is said is all that is known.

// The kinds of layers that there are.
LayerKinds kinds_of_layers(const Model *model, const RopeFile *said);
// The positions that the model is meant for.
int said_context(const RopeFile *said);
// The window of sliding layers; 0: none slide.
int said_window(const Model *model, const RopeFile *said);

// ---- text.c: writing text ----

// Writes the prompt and what the model answers, up to an end token, the end of the context or
// Ctrl-C, or the same for the turns of a chat, which are asked for on standard input until it ends.
// Prints on standard error how fast that was.
RunJob generate_text;
