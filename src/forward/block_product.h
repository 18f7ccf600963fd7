// Products of rows with a block of the key-value cache. Few rows multiply the block as it lies, many have it widened to
// float32 once, and where the processor has matrix units, these multiply: nobody outside needs to know which.
#pragma once

#include "kv_cache.h"

// Rows that are multiplied with blocks.
typedef struct {
    float *x;         // (rows, width), the caller's to fill in
    int64_t width;    // elements of a row
    uint32_t *parts;  // the same for matrix units; NULL: they do not multiply these rows
} BlockRows;

// Memory for n rows of `width` elements, taken from an arena, that will be multiplied with blocks of a cache that have
// so many columns.
void block_rows_lay_out(BlockRows *rows, Arena *arena, const KvCache *cache, int64_t n, int64_t width, int64_t columns);

// Must be called when x has n new rows.
void block_rows_changed(const BlockRows *rows, int64_t n);

// Whether so few rows multiply a block as it lies.
bool block_rows_are_few(int64_t n);

// How many rows of a result n rows may write: matrix units write whole tiles, whatever is in the rows past the n-th.
int64_t block_rows_written(int64_t n);

// What one thread needs for products with blocks of so many elements.
typedef struct {
    float *widened;
    uint32_t *parts;
} BlockMemory;

void block_memory_lay_out(BlockMemory *memory, Arena *arena, int64_t elements);

// out (n, columns) = the first n rows, of which the first k elements count, . block (k, block_columns). Columns of the
// block past its last are zeros; `columns` is a multiple of 16. For matrix units there are more rows: block_rows_written(n) of
// `out`, and of the block all up to a multiple of 32.
typedef struct {
    const BlockRows *rows;
    int64_t n, k;
    const void *block;
    Number type;  // of the block
    int64_t block_columns;
    float *out;
    int64_t columns;
    bool add;  // to what is in `out`
} BlockProduct;

void block_product(const BlockProduct *product, const BlockMemory *memory);
