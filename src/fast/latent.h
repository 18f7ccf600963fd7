// Latent attention by absorption: the cache keeps the narrow vector that keys and values of all
// heads come from, and queries are brought to it.
#pragma once

#include "../kinds/kinds.h"
#include "angles.h"
#include "matmul.h"

// What a chunk needs. A latent key is what turns, for all heads, and then the latent vector; its
// value is the vector.
typedef struct {
    const Model *model;
    float *q_latent;  // (chunk, q_rank)
    float *vectors;   // (chunk, kv_rank + rotary_dim) as wkv_a makes them
    float *queries;   // (chunk, n_heads * (rotary_dim + kv_rank)) as they meet latent keys
    float *mixed;     // (chunk, n_heads * kv_rank) the mix of latent vectors
    int64_t width;    // kv_rank in whole vectors
    int64_t chunk;
    float *weights;  // (n_threads, head_dim - rotary_dim, width) those of a head of wk as float32
    float *rows;     // (n_threads, chunk, width) a head of all queries
} Latent;

void latent_lay_out(Latent *latent, Arena *arena, const Model *model, int64_t chunk, int n_threads);

// q (n, n_heads * head_dim) and the latent vectors of the input's n rows; without q with `alone`.
void latent_project_by_team(const Team *team, Latent *latent, const Layer *layer,
                            const Input *input, float *q, bool alone, Workspace *workspace);

// Norms the vectors of the n rows from token number `first` on, turns what turns, and stores them
// in the cache.
void latent_store_by_team(const Team *team, const Latent *latent, int index, const Angles *angles,
                          KvCache *cache, int first, int n);

// Rows [skipped, n) of queries, of those of q.
void latent_absorb_by_team(const Team *team, const Latent *latent, const Layer *layer,
                           const Angles *angles, const float *q, int skipped, int n);

// out (n, n_heads * value_dim) = wv . mixed, head by head.
void latent_values_by_team(const Team *team, const Latent *latent, const Layer *layer, int n,
                           float *out);
