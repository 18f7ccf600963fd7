// What a method does, in numbers.
#pragma once

#include "../job/job.h"

// Prints what the first plan does to each pair of a head at job->length positions, or what another
// encoding adds. At a terminal, or if it `plots`, the pairs are drawn on standard error, too. False
// with the reason.
bool explain(const Job *job, bool plots, Error *err);
