// Attention over the key-value cache, without a matrix of all scores.
#pragma once

#include "../../rope.h"
#include "kv_cache.h"
#include "team.h"
#include "terms.h"

// How far a key is for a query, as the distance map tells.
typedef enum { NEAR, FAR } Zone;

// Angles that keys lack in a zone, on top of those that they are cached with: that of position p is its block's, plus
// its step's. Steps repeat from block to block, but where the map's rule begins anew every `period` positions: there is
// a variant of them for each place in a block where that can happen first (see steps_of). NULL: they lack nothing.
typedef struct {
    int period;
    float *block_cosines, *block_sines;  // (blocks, n_pairs)
    float *step_cosines, *step_sines;    // (variants, n_pairs, KV_BLOCK), the attention factor in them if keys lack it
} KeyAngles;

// How many variants there are, and which is a block's.
static inline int step_variants(int period) { return period <= KV_BLOCK ? period : KV_BLOCK + 1; }
static inline int steps_of(int period, int64_t block) {
    int64_t to_border = (period - block * KV_BLOCK % period) % period;
    return to_border < KV_BLOCK ? (int)to_border : period > KV_BLOCK ? KV_BLOCK : 0;
}

// What attention sees and how.
typedef struct {
    int n_heads;
    int n_pairs;          // of a head that turn: its first 2 n_pairs elements
    int window;           // a query sees the last `window` positions, itself included; 0: all before it
    int sinks;            // and the first `sinks` positions always
    KeyAngles angles[2];  // of near keys and of far ones
    // Of the queries from position `first` on: where the near zone of each begins, and cosines and sines (n, n_pairs)
    // of the angles by which it goes on to meet far keys. NULL: all keys are near.
    int first;
    int *near_from;
    float *far_cosines, *far_sines;
    float *factors;              // of each query's scores; NULL: 1
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
