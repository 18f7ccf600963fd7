// Attention over the key-value cache, without a matrix of all scores.
#pragma once

#include "kv_cache.h"
#include "team.h"

// What attention sees and how. Query t of a call stands at position first + t.
typedef struct {
    int n_heads;
    int window;  // a query sees the last `window` positions, itself included; 0: all before it
    int sinks;   // and the first `sinks` positions always
    // For keys that are cached un-rotated, the angles of all positions: that of position p is the block's, p /
    // KV_BLOCK, plus the step's, p % KV_BLOCK. Blocks (blocks, head_dim / 2), steps (head_dim / 2, KV_BLOCK), the
    // attention factor in the steps. NULL: the cached keys are rotated.
    float *block_cosines, *block_sines, *step_cosines, *step_sines;
} AttentionView;

// n queries at positions first, first + 1, ..., whose own keys and values are in the cache already.
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
