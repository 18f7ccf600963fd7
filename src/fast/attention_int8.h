// Attention of prompts in whole numbers of 8 bits: the past and rows of queries as these, and the
// results of rows that meet blocks of the past.
#pragma once

#include "kv_cache.h"

enum {
    MEANS = 16,       // blocks whose means lie side by side
    INT8_BLOCKS = 4,  // the most that rows meet in one call
};

// A block of the past: 64 keys less their mean, each with its own scale, and 64 values with a scale
// for each element. Numbers are in the order of a product's lanes, four to a lane or two (see Whole
// in simd_int8.h).
typedef struct {
    float *key_scales;    // (KV_BLOCK)
    float *value_scales;  // (value_width)
    uint8_t *keys;        // (lanes of a key, KV_BLOCK, 4 bytes)
    uint8_t *values;      // (lanes of KV_BLOCK, value_width, 4 bytes)
    float *means;         // (head_dim, MEANS) also of the blocks beside it
    int place;            // among these
} Int8Block;

// All blocks of a layer, for one call: data has int8_past_bytes.
typedef struct {
    const KvCache *cache;
    uint8_t *data;
} Int8Past;

int64_t int8_past_bytes(const KvCache *cache);
Int8Block int8_past_block(const Int8Past *past, int kv_head, int64_t index);

// Rounds a block of keys (head_dim, KV_BLOCK), less their mean and times the focus (head_dim; NULL:
// ones), which changes them, and of values (KV_BLOCK, value_width). NaN or infinity makes its scale
// NaN.
void int8_block_write(const Int8Past *past, const Int8Block *block, float *keys,
                      const float *values, const float *focus);

// Rows of queries of a thread.
typedef struct {
    uint8_t *queries;  // (rows, lanes of a key, 4 bytes), each over its scale
    float *scales;     // (rows)
    int32_t *starts;   // (rows) the sums of products begin with these
    float *biases;     // (rows, MEANS) scores of the means
} RoundedQueries;

RoundedQueries int8_queries_lay_out(Arena *arena, int64_t rows, int64_t head_dim);

// Rounds n rows of queries (n, head_dim), which are times the scale of scores, over the focus.
void int8_queries_write(const RoundedQueries *rows, int64_t n, const float *q, int64_t head_dim,
                        const float *focus);

// Computes the scores of the means of a block and those beside it. int8_attend needs them for these
// blocks.
void int8_queries_meet_means(const RoundedQueries *rows, int64_t n, const float *q,
                             int64_t head_dim, const Int8Block *block);

// Online softmax of n rows that meet n_blocks blocks, all of whose keys they see: their maxima (n),
// totals (n) and sums (n, value_width).
void int8_attend(const RoundedQueries *rows, int64_t n, const KvCache *cache,
                 const Int8Block *blocks, int n_blocks, float *maxima, float *totals, float *sums);
