// The job of --check.
#pragma once

#include "../job/job.h"

// Judges within the budget whether the model holds to job->length positions. The answer becomes NO
// or UNDECIDED if it does not. Returns false with the reason on an error.
RunJob check_model;
