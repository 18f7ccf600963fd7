// A job's settings as engines read them: readings of a config, and the plans that they make.
#pragma once

#include "job.h"

// What is read: the file of --rope-config, or a plan as it would be published.
typedef struct {
    const Job *job;
    const RopePlan *plan;
    bool as_it_stands;  // the file is read, and not the plan
} ReadByEngines;

// `says_block`: --rope or another setting that blocks have is given, so that the file is not all.
ReadByEngines read_by_engines(const Job *job, bool says_block);

// What the engines of a list (NULL: all) make of it, for a text of `length` positions. The caller
// frees it. NULL with the reason.
Readings *readings_of(const ReadByEngines *what, const char *list, int length, Error *err);

// How many of all *n engines read it alike, at job->length positions; 0 of 0 where other programs
// have no such method.
int engines_alike(const ReadByEngines *what, int *n);

// Replaces the job's plans by what each engine of a list makes of it, named ENGINE:METHOD, with
// `given`'s window, sinks and logn. Their lists lie in *readings; the caller frees both, and what
// *readings had before is freed. False with the reason where an engine refuses it.
bool plans_as_read(Job *job, const char *list, bool says_block, const RopeSettings *given,
                   Readings **readings, Error *err);
