// LongRoPE's search (arXiv 2402.13753).
#pragma once

#include "../job/job.h"

// What of a window's nll is minimized: past the trained context, of the last half, or of all.
enum { MINIMIZE_PAST, MINIMIZE_HALF, MINIMIZE_ALL };

// Is called after each window with NULL, and for each new best plan, which is valid during the
// call. `nll` is the mean -ln p of the best so far, `done` the share of the search that is done.
typedef void SearchListener(const RopePlan *better, double nll, double done);

typedef struct {
    uint64_t seed;
    int reads;       // most windows that are read
    double seconds;  // most time; 0: no limit
    int windows;     // of the text that search, and as many that judge
    int population;  // lists to begin with
    int minimize;    // MINIMIZE_...
    bool attention;  // the attention factor is looked for, too
    bool unscaled;   // so is the number of first positions that stay unscaled
} SearchOptions;

// Searches windows of job->length positions of job->ids. Prints what it found, and the block as
// --rope-json does. Ctrl-C ends it with the best so far. `listener` may be NULL. False with the
// reason.
bool search(const Job *job, const SearchOptions *options, SearchListener *listener, Error *err);
