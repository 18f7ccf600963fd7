// A choice of keys (index.c of the core), a chunk of rows at a time.
#pragma once

#include "transformer.h"

enum { AT_ONCE_CHOSEN = 8 };  // queries whose keys are chosen together

// What a chunk needs. The indexer's keys are what a layer keeps besides (Transformer.seconds).
typedef struct {
    const Model *model;
    float *queries;  // (chunk, heads * dim), turned
    float *keys;     // (chunk, dim)
    float *weights;  // (chunk, heads)
    float *likings;  // (AT_ONCE_CHOSEN, whole blocks of context) of the queries under way
    uint32_t
        *ordered;  // (n_threads, the same) the likings of a query as numbers that can be counted
    uint64_t *chosen;  // (chunk, n_blocks) a bit for each key that a row's query sees
    int64_t n_blocks;  // of the context
} Index;
