// What the key-value cache takes, and what is read of it.
#pragma once

#include "../job/job.h"
#include "table.h"

// Bytes of the cache that a token at this position reads: in each layer, of the positions that its
// window shows.
double cache_bytes_read(const Job *job, KvType kv, double positions);

// Prints what the model has besides a Llama's, and of its cache what a token takes, and what
// job->length positions do, with what makes it less than keys and values of each head in each layer.
void note_model(Table *t, const Job *job);
