// The state that every job uses: the command line, a model and its RoPE settings, plans, a text,
// and the sessions that read it.
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

// Kinds of layers: full ones see all positions; sliding ones have a window, or their own RoPE
// settings.
enum { LAYERS_FULL, LAYERS_SLIDING, N_LAYER_KINDS };

// The kinds that a model has, whether queries and keys rotate in any of their layers, and whether
// the sliding ones have their own RoPE settings.
typedef struct {
    bool is_there[N_LAYER_KINDS];
    bool turns[N_LAYER_KINDS];
    bool own_sliding;
} LayerKinds;

typedef struct {
    Options *options;           // the command line; each job's own options are a struct in it
    const Model *model;         // as in its file; without layers if no model is given
    const RopeFile *rope_file;  // the RoPE settings before a method is asked for
    const char *gguf;           // the GGUF file that the model was imported from; NULL: none
    LayerKinds kinds;           // of its layers
    int length;       // -n in positions: of a text or a window, of the longest haystack, or the
                      // depth
    RopePlan *plans;  // (n_plans) the methods to compare, at least one; for `length` positions
    int n_plans;
    Readings *readings;    // for --reading; plans point to the lists in them; NULL: none
    Tokenizer *tokenizer;  // NULL if the text is ids
    int32_t *ids;          // (n_ids) of the text, without BOS, or of the prompt; NULL: none
    size_t n_ids;
    ShortHeads short_heads;  // for --short-heads, in the job's memory
    TableForm form;          // of tables
    Answer answer;           // YES, unless the job answers otherwise
} Job;

// Runs a job, which may change its answer. False with the reason.
typedef bool RunJob(Job *job, Error *err);

// ---- length ----

// The length of the job in positions: -n, or the job's default. 0: the model's context.
int length_of_job(const Job *job);

// ---- plans ----

// The plan for job->length positions from `settings`, or from `start` where these are not given,
// with the spread and stale keys of the job's sessions. False with the reason when it makes no
// sense.
bool plan_for_job(const Job *job, const RopeSettings *settings, const RopeConfig *start,
                  RopePlan *plan, Error *err);

// Replaces the job's plans and readings: a plan for each method, or for each engine of --reading.
// `all` leaves out methods whose lists the model lacks. The caller frees both, also after an error.
// False with the reason.
bool plan_job(Job *job, Error *err);

// Plans the settings that the model was made with, regardless of --rope-config, or (plain) plain
// RoPE, with theta multiplied by `times`.
bool reference_plan(const Job *job, bool plain, double times, RopePlan *plan, Error *err);

// The settings that the model was made with; without a model, the given ones.
const RopeConfig *own_settings(const Job *job);

// Whether the angles never limit the length: full layers do not rotate, and the window of the other
// layers is within the trained length.
bool turns_in_windows(const Job *job);

// Warns of settings without effect and, if asked to, of a reach that is too short for the length,
// and of methods that the model was not tuned for.
void print_advice(const Job *job, bool of_reach, bool of_tuning);

// ---- engines and other programs ----

// The settings that engines read: the file of --rope-config, or a plan as it would be published.
typedef struct {
    const Job *job;
    const RopePlan *plan;
    bool as_it_stands;  // the file is read, not the plan
    bool of_file;       // the model is a GGUF file, whose own keys are read by engines of GGUF
} ReadByEngines;

// The file, if no settings are given in addition to it that blocks have.
ReadByEngines read_by_engines(const Job *job);

// The readings of the engines in a list (NULL: all), for a text of `length` positions. The caller
// frees them. NULL with the reason.
Readings *readings_of(const ReadByEngines *what, const char *list, int length, Error *err);

// How many of all *n engines interpret it the same way, at job->length positions; 0 of 0 if other
// programs have no such method.
int engines_alike(const ReadByEngines *what, int *n);

// A plan, with the other data that a config for other programs needs.
Publication publication_of(const Job *job, const RopePlan *plan);

// Prints the first plan as a block of JSON, see publish_print.
RunJob print_block;

// ---- fields.c: the fields of a config, for the exporter ----

// Prints the settings in --rope-config's file as one object of JSON, with the names of a header's
// fields; `remarks` has the warnings of --explain, and `unused` a line about keys without use.
RunJob print_fields;
// Prints the reason for a refusal in its place.
void print_refused(const Error *err);

// ---- sessions ----

// The configuration of a session for a plan, which it points to, and a text of `context` tokens.
SessionConfig session_config(const Job *job, const RopePlan *plan, int context);

// Opens a session; the plan must outlive it. If say_memory, prints its memory on standard error.
// NULL with the reason.
Session *open_session(const Job *job, const RopePlan *plan, int context, bool say_memory,
                      Error *err);

// Prints a line if a text grew past longrope's L and was recomputed with the long list.
void say_read_anew(const Session *session);

// ---- short_heads.c ----

// Reads a list of kv heads ("4.0,5.1", "3" for a whole layer, "all-but:4.0"); these heads then see
// only `window` positions and the first four. The caller frees short_heads->is_short. False with
// the reason.
bool short_heads_parse(const char *list, int window, const Model *model, ShortHeads *short_heads,
                       Error *err);

// ---- foreign.c: files of other programs ----

// Opens a model like model_open; the reason for a failure also names the kind of another program's
// file, and the command to import it. After a failure there is nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// Whether the exporter can import the path: `source` then becomes its argument, a GGUF file or a
// folder.
bool foreign_source(const char *path, char *source, size_t size);
// The first part of the GGUF file at the path, in the same way; false for folders.
bool gguf_source(const char *path, char *source, size_t size);

// The command that runs the exporter: NAME-export beside a program that is installed as NAME, or
// the script in the folder of the sources. `path` is room for it, of `size` bytes.
const char *exporter_command(char *path, size_t size);
// Finds a data file that was installed with the program, if it is given by its bare name and is not
// in the current folder. Stores its path in `place` (size), and prints it on standard error. False:
// it is not such a file.
bool installed_file(const char *name, char *place, size_t size);
// The path of the exporter itself, NAME-export or model_export.py beside the program, in `path`
// (size, PATH_MAX). False: it is missing.
bool exporter_script(char *path, size_t size);

// ---- rope_file.c: a model's RoPE settings before a method is asked for ----
// They are in the model's file, or in --rope-config instead, or, without a model, in --head-dim,
// --theta and --train-ctx. The Model itself keeps the settings of its file.

// Takes the settings from the model's file.
void rope_file_of_model(const Model *model, RopeFile *file);

// Finds the family of the GGUF file that a model came from, if only one family has its
// architecture.
void rope_file_add_gguf(const char *path, RopeFile *file);

// Takes the settings without a model. head_dim, theta and train_ctx may be 0: not known.
void rope_file_of_numbers(int head_dim, double theta, int train_ctx, RopeFile *file);

// Replaces the settings in *file by those in the file of --rope-config, and warns of oddities in
// it, unless engines are to read it (`is_read`). Engines may read a file that is refused here: then
// only file->whole and its context are new. False with the reason. `file` must not be moved
// afterwards, and the caller frees file->whole.
bool rope_file_read(const char *path, const Model *model, bool is_read, RopeFile *file, Error *err);
// Writes a line about the keys of the file that are not used. There must be some.
void rope_file_unused(const RopeFile *file, char *line, size_t size);
// Warns of keys in the file that neither this program nor any engine reads.
void warn_of_unread(const char *path, const RopeFile *file);

// The model with these settings, for writing a copy of its file. It shares all memory of the model.
Model model_of_rope_file(const Model *model, const RopeFile *file, struct ModelExtra *extra);

// In the functions below, `model` may have no layers: then none is given, and only `file` is known.

// The kinds of layers that the model has.
LayerKinds kinds_of_layers(const Model *model, const RopeFile *file);
// The positions that the model is meant for.
int rope_file_context(const RopeFile *file);
// The window of sliding layers; 0: none slide.
int rope_file_window(const Model *model, const RopeFile *file);

// ---- import.c: importing models of other programs ----

// The place to read the model of `path` from: the path itself or, for another program's model, the
// place it was imported to. If it has not been imported yet, that happens now, with a message on
// standard error. `version` is the program's. False with the reason.
bool import_model(const char *path, const char *version, char *place, size_t size, Error *err);

// ---- text.c: writing text ----

// Writes the prompt and the model's answer, up to an end token, the end of the context or Ctrl-C;
// in a chat, writes answers to the messages on standard input until it ends. Prints the speed on
// standard error.
RunJob generate_text;
