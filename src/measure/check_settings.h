// The rows of --check about settings.
#pragma once

#include "../job/job.h"
#include "table.h"

enum { FAILED_BYTES = 400 };

// Prints the columns of --check and its rows about settings. `own` is the plan of the model's own
// settings. `failed` becomes what the first row that fails says, or empty. True when one fails that
// would fail at any length.
bool judge_settings(const Job *job, const RopePlan *own, Table *table, char failed[FAILED_BYTES]);
