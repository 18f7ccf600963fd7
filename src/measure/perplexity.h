// Perplexity by position of windows of a text.
#pragma once

#include "../job/job.h"

typedef struct {
    int samples;     // windows that are spread evenly over the text, at least 1
    bool per_token;  // a row for each position
    bool stepwise;   // tokens are read one by one
} PerplexityOptions;

// Reads job->length positions of job->ids by each plan, and prints the table. False with the
// reason.
bool measure_perplexity(const Job *job, const PerplexityOptions *options, Error *err);
