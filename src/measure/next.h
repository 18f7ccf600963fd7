// What may come next: log-probabilities of tokens.
#pragma once

#include "../job/job.h"

typedef struct {
    const char *asked;  // how many of the likeliest tokens behind job->ids, or a file that names
                        // tokens behind beginnings of them
    bool stepwise;      // tokens are read one by one
} NextOptions;

// Prints them for each plan. A method that follows the length reads each beginning afresh. False
// with the reason.
bool show_next(const Job *job, const NextOptions *options, Error *err);
