// How fast a model is read and decoded.
#pragma once

#include "../job/job.h"

// Times reading and decoding by the first plan, at the start and behind job->length positions, and
// what the machine could give. False with the reason.
bool bench(const Job *job, Error *err);
