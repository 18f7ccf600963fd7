// The first half of a layer that attends: queries, keys and values, attention, and what is added.
#pragma once

#include "encodings.h"
#include "transformer.h"

typedef struct {
    float *gates;                // (chunk, n_heads * value_dim) what multiplies the mix, NULL: none
    const DistanceTerms *terms;  // what encodings other than RoPE add to scores, NULL: nothing
    // (chunk, chosen_stride) a bit for each key that a row's query sees, see Attention; NULL: all
    const uint64_t *chosen;
    int64_t chosen_stride;
} FastAttention;

// Of any layer that attends: x += wo . attention of its input.
void mix_attention_by_team(const Team *team, Transformer *t, int index, int n_wanted);

// How the last n_wanted rows of a chunk attend, but for their queries and what becomes of them.
Attention attention_of(const Transformer *t, int index, int n_wanted);

// Its parts, for layers that make queries and keys otherwise. out (n_wanted, n_heads * value_dim) =
// softmax(scale q k) v over all tokens so far, of the last n_wanted of the chunk's queries
// q (n, n_heads * head_dim of the cache). Whoever watches a head of the layer gets its scores.
void attend_by_team(const Team *team, Transformer *t, int index, const float *q, int n_wanted,
                    float *out);
// x (n_wanted, dim) += wo . mixed, times a scale and the gates before that, if there are any.
void add_mixed_by_team(const Team *team, Transformer *t, int index, int n_wanted);
