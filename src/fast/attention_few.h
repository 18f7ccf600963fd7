// Attention of a few queries, as in writing tokens, over a cache of 8 or 4 bits, without making the
// past float32 first.
#pragma once

#include "angles.h"

enum { FEW_ROWS = 12 };  // up to so many rows multiply a block in place

// A thread's memory for that.
typedef struct {
    uint8_t *queries;  // (2, FEW_ROWS, lanes of a key, 4 bytes) see Lanes in attention_few.c
    int64_t bytes;     // of one of the two
    float *scales;     // (FEW_ROWS) of queries
    int32_t *starts;   // (FEW_ROWS) sums begin here: -KEY_OFFSET times a query's sum
    uint8_t *block;    // a block's keys or values, in lanes
    float *turned;     // (FEW_ROWS, head_dim) queries, rotated back by a block's angle
} FewRows;

FewRows few_rows_lay_out(Arena *arena, int64_t head_dim, int64_t value_width);

// turned (n, d) = rows of queries (n, d), rotated back by a block's missing angle.
void turn_rows_back(float *turned, const float *q, int64_t n, int64_t d,
                    const MissingAngles *missing);

// Whether rows can meet the keys or the values of a block in that way. Keys of 8 bits must lack no
// angle.
bool few_rows_take_keys(const KvCache *cache, const KvBlock *block, const MissingAngles *missing);
bool few_rows_take_values(const KvCache *cache, const KvBlock *block);

// Rounds n rows of queries (n, head_dim) for keys of 8 bits.
void few_rows_round(const FewRows *few, int64_t n, const float *q, int64_t head_dim);

// scores (n, KV_BLOCK) = q (n, head_dim), rounded before by few_rows_round, . the keys of a block;
// for a cache of 8 bits not yet times their scales.
void few_rows_score(const FewRows *few, int64_t n, const float *q, const KvCache *cache,
                    const KvBlock *block, const MissingAngles *missing, float *scores);

// sums (n, value_width) += weights (n, KV_BLOCK), none below 0, times the values of a block.
void few_rows_mix(const FewRows *few, int64_t n, const KvCache *cache, const KvBlock *block,
                  const float *weights, float *sums);
