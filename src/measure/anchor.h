// The anchor of a model: how well it read a short text when its file was made, noted in the file.
#pragma once

#include "../job/job.h"

enum { ANCHOR_STRETCHES = 2 };

// Reads stretches of the story that is compiled in, by the settings of the model's file, behind a
// cache of float16, and with activations as they are: so the same file gives the same number
// everywhere. `timed` is a session that gives up; NULL: none does. False with the reason.
bool anchor_measure(const Job *job, const SessionConfig *timed, Anchor *found, Error *err);

// Measures it, notes it in the file at job->model_path, in place of one that is there, and prints
// it. False with the reason.
bool anchor_write(const Job *job, Error *err);
