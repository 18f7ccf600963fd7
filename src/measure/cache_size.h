// What the key-value cache takes, and what is read of it.
#pragma once

#include "../job/job.h"
#include "table.h"

// Bytes of the cache that a token at this position reads: in each layer, of the positions that its
// window shows.
double cache_bytes_read(const Job *job, KvType kv, double positions);

// Bytes of the states of all layers that keep one; 0: none does.
double state_bytes(const Model *model);

// Prints what a token takes, and what job->length positions do, with what makes it less than keys
// and values of each head in each layer. Nothing without a model's layers.
void note_cache(Table *t, const Job *job);
