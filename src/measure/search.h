// LongRoPE's search (arXiv 2402.13753).
#pragma once

#include "../job/job.h"

// Is called after each window with NULL, and for each new best plan, which is valid during the
// call. `nll` is the mean -ln p of the best so far, `done` the share of the search that is done.
typedef void SearchListener(const RopePlan *better, double nll, double done);

// Searches windows of job->length positions of job->ids. Prints what it found, and the block as
// --rope-json does. Ctrl-C ends it with the best so far. `listener` may be NULL. False with the
// reason.
bool search(const Job *job, const SearchOptions *options, SearchListener *listener, Error *err);
