// A choice of keys (index.c of the core), a chunk of rows at a time.
#pragma once

#include "../kinds/kinds.h"
#include "attention.h"
#include "matmul.h"

enum { AT_ONCE_CHOSEN = 8 };  // queries whose keys are chosen together

// What a chunk needs.
typedef struct {
    const Model *model;
    KvCache *caches;  // (n_layers) the indexer's keys; no data where a layer shares a choice
    float *queries;   // (chunk, heads * dim), turned
    float *keys;      // (chunk, dim)
    float *weights;   // (chunk, heads)
    float *likings;   // (AT_ONCE_CHOSEN, whole blocks of context) of the queries under way
    uint32_t
        *ordered;  // (n_threads, the same) the likings of a query as numbers that can be counted
    uint64_t *chosen;  // (chunk, blocks) a bit for each key that a row's query sees
    int64_t n_blocks;  // of the context
} Index;

// The cache of a layer's indexer, for so many positions, yet without memory. It keeps half precision
// at least.
KvCache index_cache_of(const Model *model, const Layer *layer, KvType kept, int positions);

// Takes all arrays from an arena; without a choice none. Adds to what attention needs. Returns the
// bytes of the caches.
uint64_t index_lay_out(Index *index, Arena *arena, const Model *model, const SessionConfig *config,
                       AttentionNeeds *needs, int n_threads);

// Stores the indexer's keys of the n rows of the input from token number `first` on, and chooses those
// of rows [skipped, n). q_latent is what wq reads.
void index_by_team(const Team *team, Index *index, int layer, const Input *input,
                   const Input *q_latent, const Attention *call, int skipped, Workspace *workspace);
