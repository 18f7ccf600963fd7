// Attention over the key-value cache, without a matrix of all scores.
#pragma once

#include "angles.h"
#include "encodings.h"

typedef struct AttentionScratch AttentionScratch;

// The attention of one layer for n tokens from number `first` on, whose keys and values are already in the cache.
typedef struct {
    const KvCache *cache;
    AttentionScratch *scratch;
    const RopeConfig *rope;  // of this layer
    const Spread *spread;    // where tokens stand in this layer
    int layer, n_heads;
    float scale;                 // of the scores, 1 / sqrt(head_dim) unless the model says otherwise
    int window;                  // a query sees the last `window` positions, itself included; 0: all before it
    int sinks;                   // and the first `sinks` tokens always
    const float *learned_sinks;  // (n_heads) a score without a key or a value in each head's softmax; NULL: none
    const Angles *angles;        // made ready for these queries; NULL: queries and keys do not turn
    const DistanceTerms *terms;  // of an encoding other than RoPE; NULL: none
    const float *q;              // (n, n_heads * head_dim), rotated to meet near keys
    int first, n;
    float *out;          // (n, n_heads * head_dim)
    const Watch *watch;  // gets the scores of its head for a single query; NULL: nobody wants any
} Attention;

// Memory for calls with up to max_n queries by teams of up to n_threads; NULL while the arena only counts.
AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n, int n_threads);

// out = softmax(scale q k) v over one layer of the cache. The number of threads does not change the result.
void attention_by_team(const Team *team, const Attention *attention);
