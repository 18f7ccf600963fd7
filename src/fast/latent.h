// Latent attention by absorption: the cache keeps the narrow vector that keys and values of all
// heads come from, and queries are brought to it.
#pragma once

#include "transformer.h"

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

// Its two parts: queries and latent vectors of the chunk, without queries if no rows are wanted; and
// attention of them, with what it adds. Between the two stands what wq reads.
void project_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted);
void mix_projected_by_team(const Team *team, Transformer *t, int index, int n_wanted);
Input normed_q_latent(const Transformer *t, int index);
