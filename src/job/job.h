// What every job uses: the command line, a model and the settings of its RoPE, plans, a text, and
// the sessions that read it.
#pragma once

#include "../configs/rope_config.h"
#include "../engines/engines.h"
#include "../fast/process.h"
#include "../fast/session.h"
#include "../kinds/all.h"
#include "../llama/sampler.h"
#include "../options/options.h"
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
    const Model *model;    // as in its file; without layers: no model is given
    const RopeFile *said;  // of its RoPE before a method is asked for
    const char *gguf;      // the GGUF file that the exporter brought the model in from; NULL: none
    LayerKinds kinds;      // of its layers
    int length;       // -n: positions of a text or a window, of the longest haystack, or how deep
    RopePlan *plans;  // (n_plans) the methods to compare, at least one; for `length` positions
    int n_plans;
    Readings *readings;    // of --reading; plans point to the lists in them; NULL: there are none
    Tokenizer *tokenizer;  // NULL where a text is ids
    int32_t *ids;          // (n_ids) of the text, without BOS, or of the prompt; NULL: none
    size_t n_ids;
    ShortHeads short_heads;  // of --short-heads, in memory of the job's
    TableForm form;          // of tables
    Answer answer;           // YES, unless the job answers otherwise
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

// Replaces the job's plans and readings: a plan for each method, without those of `all` that need
// lists which the model lacks, or a plan for each engine of --reading. The caller frees both, also
// after an error. False with the reason.
bool plan_job(Job *job, Error *err);

// Plans the settings that the model was made with, whatever --rope-config says, or (plain) plain
// RoPE, with theta times `times`.
bool reference_plan(const Job *job, bool plain, double times, RopePlan *plan, Error *err);

// The settings that the model was made with; without a model, what is said.
const RopeConfig *own_settings(const Job *job);

// Whether no length is too long for the angles: full layers do not turn, and the window of the
// others is within the trained length.
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
    bool of_file;       // the model is a GGUF file, which engines of GGUF read by its own keys
} ReadByEngines;

// The file, where nothing that blocks have is given besides.
ReadByEngines read_by_engines(const Job *job);

// How the engines of a list (NULL: all) read it, for a text of `length` positions. The caller frees
// it. NULL with the reason.
Readings *readings_of(const ReadByEngines *what, const char *list, int length, Error *err);

// How many of all *n engines read it alike, at job->length positions; 0 of 0 where other programs
// have no such method.
int engines_alike(const ReadByEngines *what, int *n);

// What other programs and engines need to know of a plan.
Publication publication_of(const Job *job, const RopePlan *plan);

// Prints the first plan as a block of JSON, see publish_print.
RunJob print_block;

// ---- fields.c: what a config says, for the exporter ----

// Prints what --rope-config's file says, by the names of a header's fields, as one object of JSON:
// with `remarks`, the warnings of --explain, and `unused`, a line about keys without use.
RunJob print_fields;
// Prints in its place why there are none.
void print_refused(const Error *err);

// ---- sessions ----

// The configuration of a session for a plan, to which it points, and a text of `context` tokens.
SessionConfig session_config(const Job *job, const RopePlan *plan, int context);

// Opens such a session, which the plan must outlive. If say_memory, prints its memory on standard
// error. NULL with the reason.
Session *open_session(const Job *job, const RopePlan *plan, int context, bool say_memory,
                      Error *err);

// Prints a line if a text grew past longrope's L, and was read anew by the long list.
void say_read_anew(const Session *session);

// ---- short_heads.c ----

// Reads a list of kv heads ("4.0,5.1", "3" for all of a layer, "all-but:4.0"), which then see
// `window` positions and the first four. The caller frees short_heads->is_short. False with the reason.
bool short_heads_parse(const char *list, int window, const Model *model, ShortHeads *short_heads,
                       Error *err);

// ---- foreign.c: files of other programs ----

// model_open, and what other programs' files are called, and how they are brought in. When it fails
// there is nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// Whether the path leads to what the exporter can bring in: then `source` is what it is given, a GGUF
// file or a folder.
bool foreign_source(const char *path, char *source, size_t size);
// The same of a GGUF file alone, of its first part.
bool gguf_source(const char *path, char *source, size_t size);

// The command of the exporter. Beside a program that is installed as NAME it is NAME-export; else
// it is that of the folder of the sources. `path` is room for it, of `size` bytes.
const char *exporter_command(char *path, size_t size);
// Where a file of the data that was installed with the program is, if it is called by its bare name and
// the current folder has none: in `place` (size), and said on standard error. False: it is not such a file.
bool installed_file(const char *name, char *place, size_t size);
// The path of the exporter itself, beside the program, as NAME-export or as model_export.py, in `path`
// (size, PATH_MAX). False: it is not there.
bool exporter_script(char *path, size_t size);

// ---- said.c: what is said of a model's RoPE before a method is asked for ----
// By the model's file, by --rope-config in its place, or by --head-dim, --theta and --train-ctx
// where there is no model. The Model itself stays what its file says.

// What the model's file says.
void said_by_model(const Model *model, RopeFile *said);

// The family of the GGUF file that a model came from, by its architecture, where only one has that.
void said_by_gguf(const char *path, RopeFile *said);

// What is said without a model. head_dim, theta and train_ctx may be 0: not known.
void said_by_numbers(int head_dim, double theta, int train_ctx, RopeFile *said);

// Puts what the file of --rope-config says in place of what *said holds, and warns of what is
// remarkable in it, unless engines are to read it (`is_read`). These may get a file that fails
// here: then only said->whole and its context are new. False with the reason. `said` must not move
// afterwards, and the caller frees said->whole.
bool said_by_config(const char *path, const Model *model, bool is_read, RopeFile *said, Error *err);
// A line about keys of the file that are not used; there are some.
void said_unused(const RopeFile *said, char *line, size_t size);
// Warns of what the file says and no reader looks at, engines neither.
void warn_of_unread(const char *path, const RopeFile *said);

// A model whose file says this, for a copy that is written. It shares all that the model owns.
Model model_as_said(const Model *model, const RopeFile *said, struct ModelExtra *extra);

// Below, a model without layers is not given, and what is said is all that is known.

// The kinds of layers that there are.
LayerKinds kinds_of_layers(const Model *model, const RopeFile *said);
// The positions that the model is meant for.
int said_context(const RopeFile *said);
// The window of sliding layers; 0: none slide.
int said_window(const Model *model, const RopeFile *said);

// ---- import.c: models of other programs, brought in ----

// Where to read the model of `path`: there, or, if it is another program's, where the exporter has
// brought it in. That is done now if it was not, and said on standard error. `version` is the
// program's. False with the reason.
bool import_model(const char *path, const char *version, char *place, size_t size, Error *err);

// ---- text.c: writing text ----

// Writes the prompt and what the model answers, up to an end token, the end of the context or
// Ctrl-C, or the same for the turns of a chat, which are asked for on standard input until it ends.
// Prints on standard error how fast that was.
RunJob generate_text;
