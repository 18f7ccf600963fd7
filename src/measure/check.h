// --check: does a model hold to so many positions as it stands?
#pragma once

#include "../job/as_read.h"

// Judges within the budget whether the model holds to job->length positions. *answer becomes NO or
// UNDECIDED, or YES. False with the reason.
bool check_model(const Job *job, const CheckOptions *options, Answer *answer, Error *err);
