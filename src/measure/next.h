// What may come next: log-probabilities of tokens.
#pragma once

#include "../job/job.h"

// Prints them for each plan. A method that follows the length reads each beginning afresh. False
// with the reason.
bool show_next(const Job *job, const NextOptions *options, Error *err);
