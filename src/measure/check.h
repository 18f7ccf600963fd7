// --check: does a model hold to so many positions as it stands?
#pragma once

#include "../job/as_read.h"

typedef struct {
    const char *text_path;  // of job->ids; NULL: the story that is compiled in is read
    const char *like_path;  // of another model, which it is to read as well as; NULL: none
    double budget;          // seconds that it may take; 0: only what all costs is printed
    bool whole;             // it holds only when texts were read whole
    // what is left, at least, of the gain of reading a page again; -1: that is not asked
    double min_page;
    // of the surety with which the last of several values is said; -1: likewise
    double min_updates;
    // nats for each token that the rounding of the cache changes, at most; -1: likewise
    double max_cache;
    bool says_block;  // see read_by_engines
    bool settings;    // only these are judged: that takes neither weights nor a tokenizer
} CheckOptions;

// Judges within the budget whether the model holds to job->length positions. *answer becomes NO or
// UNDECIDED, or YES. False with the reason.
bool check_model(const Job *job, const CheckOptions *options, Answer *answer, Error *err);
