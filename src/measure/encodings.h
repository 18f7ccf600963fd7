// --explain of a model that knows positions by an encoding other than RoPE.
#pragma once

#include "../job/job.h"

// Prints what it adds at distances up to job->length. False with the reason.
bool explain_encoding(const Job *job, Error *err);
