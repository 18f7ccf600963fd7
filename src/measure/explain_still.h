// What --explain tells of layers without RoPE, where layers of the same kind turn.
#pragma once

#include "../job/job.h"
#include "table.h"

// Says which layers do not turn, what chunks the others see, and of a config without weights the
// temperature of the former; of a model the notes have that.
void note_still(Table *t, const Job *job);
