// What encodings other than RoPE add to attention, by the distance of a query and a key: positions.c makes the tables.
#pragma once

#include "kv_cache.h"

// Of one layer; NULL: nothing of the kind. Columns of the tables are for distances below `reach`, which is a multiple
// of KV_BLOCK, the farthest first, then KV_BLOCK columns of zeros for keys ahead of the query: distance d is in column
// reach - 1 - d, so that a query meets neighbouring keys in neighbouring columns.
typedef struct {
    int64_t reach;
    const float *slopes;  // (n_heads): score -= slope d
    const float *u, *v;   // (n_heads * head_dim): a query is q + u for keys, and q + v for distances
    float *keys;          // (n_kv_heads, head_dim, columns): score += q . r_d / sqrt(head_dim)
    bool one_for_all;     // those of the first kv head are every one's
    float *queries;       // (n_heads, head_dim, columns), already divided by sqrt(head_dim): score += s_d . k
    float *values;        // (columns, head_dim in whole vectors): out += weight a_d
} DistanceTerms;

// Some neighbouring queries with the heads of one kv head, which are rows, the heads counting fastest, and a block.
typedef struct {
    const DistanceTerms *terms;
    int64_t head_dim;
    int heads, kv_head;  // heads that share a kv head; which
    int n;               // queries
    int64_t distance;    // of the first query to the block's first key; below 0 when that is ahead of it
} TermRows;

// Adds u to queries (rows, head_dim) that will meet keys, and makes of them those that will meet distances. Both are
// divided by sqrt(head_dim) already.
void terms_load(const TermRows *rows, float *q, float *distance_q);

// scores (rows, KV_BLOCK) += s_d . k with the block's keys (head_dim, KV_BLOCK).
void terms_add_keys(const TermRows *rows, const float *keys, float *scores);

// scores += what depends on the query and the distance, or on the distance alone.
void terms_add_distances(const TermRows *rows, const float *distance_q, float *scores);

// sums (rows, width) += the rows' weights (rows, KV_BLOCK) . a_d.
void terms_add_values(const TermRows *rows, const float *weights, float *sums, int64_t width);
