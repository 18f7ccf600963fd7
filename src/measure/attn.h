// The scores and weights that one head gives to every key.
#pragma once

#include "../job/job.h"

// Prints them by key, for the last query of the prompt. Layer and head count from 0. False with the
// reason.
bool show_attention(const Job *job, int layer, int head, Error *err);
