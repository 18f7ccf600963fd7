// Perplexity by position of windows of a text.
#pragma once

#include "../job/job.h"

// Reads job->length positions of job->ids by each plan, and prints the table. False with the
// reason.
bool measure_perplexity(const Job *job, const PerplexityOptions *options, Error *err);
