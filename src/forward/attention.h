// Attention over the key-value cache, without a matrix of all scores.
#pragma once

#include "angles.h"
#include "encodings.h"

// What the attention of one layer sees and how.
typedef struct {
    int n_heads;
    int window;                  // a query sees the last `window` positions, itself included; 0: all before it
    int sinks;                   // and the first `sinks` positions always
    const Angles *angles;        // made ready for the queries' positions; NULL: the encoding is not RoPE
    bool turns;                  // this layer's queries and keys turn by them
    const DistanceTerms *terms;  // of an encoding other than RoPE; NULL: none
} AttentionView;

// n queries at positions first, first + 1, ..., rotated to meet near keys. Their own keys and values are in the cache
// already.
typedef struct {
    const float *q;  // (n, n_heads * head_dim)
    int first, n;
    float *out;  // (n, n_heads * head_dim)
} Queries;

typedef struct AttentionScratch AttentionScratch;

// Memory for calls with up to max_n queries by teams of up to n_threads, taken from an arena; NULL while it only
// counts.
AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n, int n_threads);

// out = softmax(q k / sqrt(head_dim)) v over one layer of the cache. The threads of a team call it together and share
// the work, everything is done when it returns; the result does not depend on how many there are.
void attention_by_team(const Team *team, const KvCache *cache, int layer, const AttentionView *view,
                       const Queries *queries, AttentionScratch *scratch);

// The scores q k / sqrt(head_dim) of one head for a single query, one per position up to its own; -infinity where it
// does not see. By one thread.
void attention_scores(const KvCache *cache, int layer, int head, const AttentionView *view, const Queries *query,
                      AttentionScratch *scratch, float *scores);
