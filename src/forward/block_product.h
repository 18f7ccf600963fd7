// Products of rows with a block of the key-value cache. Few rows multiply the block as it lies, many have it widened to
// float32 once, and where the processor has matrix units, these multiply: nobody outside needs to know which.
#pragma once

#include "kv_cache.h"

// Rows that are multiplied with blocks.
typedef struct {
    float *x;         // (rows, width), the caller's to fill in
    uint32_t *parts;  // the same for matrix units; NULL: they do not multiply these rows
} BlockRows;

// Memory for n rows that will be multiplied with blocks of so many columns, taken from an arena.
void block_rows_lay_out(BlockRows *rows, Arena *arena, const KvCache *cache, int64_t n, int64_t width, int64_t columns);

// Must be called when x has n new rows.
void block_rows_changed(const BlockRows *rows, int64_t n, int64_t width);

// Whether so few rows multiply a block as it lies.
bool block_rows_are_few(int64_t n);

// How many rows of a result n rows may write: those past the n-th hold anything.
int64_t block_rows_written(int64_t n);

// What one thread needs for products with blocks of so many elements.
typedef struct {
    float *widened;
    uint32_t *parts;
} BlockMemory;

void block_memory_lay_out(BlockMemory *memory, Arena *arena, int64_t elements);

// C = A B, or C += A B, as `product` has them, but for A, which is the first m rows. B and C lie without gaps. Of the
// block, rows may be read from the k-th on, up to a multiple of 32.
void block_product(const BlockRows *rows, Gemm product, bool add, const BlockMemory *memory);
