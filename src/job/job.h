// What every job stands on: a model and what is said of its RoPE, plans, a text, and the sessions
// that read it. Each job takes besides a struct of the few options that are its own.
#pragma once

#include "../engines/published.h"
#include "../fast/process.h"
#include "../fast/session.h"
#include "../settings/asked.h"
#include "../settings/jobs.h"
#include "../settings/methods.h"
#include "../tokens/tokenizer.h"
#include "json_out.h"
#include "said.h"

// The longest text that a job may have, in positions.
enum { MOST_LENGTH = MOST };

typedef struct {
    const char *model_path;  // NULL: there is no model
    const Model *model;      // as its file says; without layers: there is none
    const RopeFile *said;    // of its RoPE before a method is asked for
    LayerKinds kinds;        // of its layers
    SessionOptions sessions;
    uint64_t seed;                // of random numbers
    const RopeSettings *sliding;  // of --rope-sliding
    int length;       // -n: positions of a text or a window, of the longest haystack, or how deep
    RopePlan *plans;  // (n_plans) the methods to compare, at least one; for `length` positions
    int n_plans;
    Tokenizer *tokenizer;   // NULL where a text is ids
    const char *text_path;  // of a text that is measured, for headings; NULL: none
    int32_t *ids;           // (n_ids) of the text, without BOS, or of the prompt; NULL: none
    size_t n_ids;
    TableForm form;  // of tables
} Job;

// ---- length ----

// The length of a job in positions: `steps` (-n), or what is usual for it (-1); 0 is the model's
// context.
int length_of_job(const Job *job, int steps, UsualLength usual);

// ---- plans ----

// The plan for job->length positions of `settings`, or of `start` where these say nothing, with the
// spread and stale keys of the job's sessions. False with the reason when it makes no sense.
bool plan_for_job(const Job *job, const RopeSettings *settings, const RopeConfig *start,
                  RopePlan *plan, Error *err);

// The same of what the model was made with, whatever --rope-config says, or (plain) of plain RoPE,
// with theta times `times`.
bool reference_plan(const Job *job, bool plain, double times, RopePlan *plan, Error *err);

// The settings that the model was made with; without a model, what is said.
const RopeConfig *own_settings(const Job *job);

// Whether no length is too long for the angles: full layers do not turn, and the window of the
// others is within the trained context.
bool turns_in_windows(const Job *job);

// Warns of settings without effect and, if asked to, of a reach that is too short for the length,
// and of methods that the model was not tuned with. `methods` are the settings of job->plans.
void print_advice(const Job *job, const RopeSettings *methods, bool of_reach, bool of_tuning);

// What other programs and engines are told of a plan.
Publication publication_of(const Job *job, const RopePlan *plan);

// ---- sessions ----

// The configuration of a session for a plan, to which it points, and a text of `context` tokens.
SessionConfig session_config(const Job *job, const RopePlan *plan, int context);

// Opens such a session, which the plan must outlive. If say_memory, prints its memory on standard
// error. NULL with the reason.
Session *open_session(const Job *job, const RopePlan *plan, int context, bool say_memory,
                      Error *err);
