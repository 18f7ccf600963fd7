// Attention over the key-value cache, without a matrix of all scores.
#pragma once

#include "angles.h"
#include "encodings.h"

typedef struct AttentionScratch AttentionScratch;

// The attention of one layer for the queries of n tokens, those of number first, first + 1, ..., rotated to meet near
// keys. Their own keys and values are in the cache already.
typedef struct {
    const KvCache *cache;
    AttentionScratch *scratch;
    const SessionConfig *config;
    int layer, n_heads;
    int window;                  // a query sees the last `window` positions, itself included; 0: all before it
    int sinks;                   // and the first `sinks` tokens always
    const Angles *angles;        // by which queries and keys turn, made ready for these queries; NULL: they do not
    const DistanceTerms *terms;  // of an encoding other than RoPE; NULL: none
    const float *q;              // (n, n_heads * head_dim)
    int first, n;
    float *out;          // (n, n_heads * head_dim)
    const Watch *watch;  // gets the scores of its head, of a single query; NULL: nobody wants any
} Attention;

// Memory for calls with up to max_n queries by teams of up to n_threads; NULL while the arena only counts.
AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n, int n_threads);

// out = softmax(q k / sqrt(head_dim)) v over one layer of the cache. The threads of a team call it together and share
// the work, everything is done when it returns; the result does not depend on how many there are.
void attention_by_team(const Team *team, const Attention *attention);
