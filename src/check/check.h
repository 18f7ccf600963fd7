// The job of --check.
#pragma once

#include "../job/job.h"

// Judges within the budget whether the model holds to job->length positions. The answer becomes NO
// or UNDECIDED where it does not. What fails returns false with the reason.
RunJob check_model;
