// The anchor of a model: how well it read a short text when its file was made, noted in the file.
#pragma once

#include "../job/job.h"

// What a file notes behind its tensors: how well the model read a text when it was made.
typedef struct {
    bool is_noted;
    uint32_t window;  // tokens of a stretch, of which the second half counts
    uint32_t text;    // a checksum of the ids
    double nll;       // their mean -ln p
} Anchor;
enum { ANCHOR_STRETCHES = 2, ANCHOR_BYTES = 32 };

// The note of a model's file.
Anchor anchor_of(const Model *model);

// Reads stretches of the story that is compiled in, by the settings of the model's file, behind a
// cache of float16, and with activations as they are: so the same file gives the same number
// everywhere. `timed` is a session that gives up; NULL: none does. False with the reason.
bool anchor_measure(const Job *job, const SessionConfig *timed, Anchor *found, Error *err);

// Measures it, notes it in the file at job->model_path, in place of one that is there, and prints
// it. False with the reason.
bool anchor_write(const Job *job, Error *err);
