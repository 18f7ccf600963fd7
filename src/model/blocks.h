// Quantized weights as they lie in the file, ggml's blocks above all: where 256 columns of a row are, and what they are
// as whole numbers and scales or as float32. Their layouts: layouts.h.
#pragma once

#include "layouts.h"

// Values that a block of this type holds, and its bytes; 0 values: the type has no blocks.
typedef struct {
    int values, bytes;
} BlockSize;
BlockSize block_size(WeightType type);

// Columns [col, col + n) of a row of blocks as float32. A scale that is no number makes its values NaN or infinite.
void blocks_to_f32(WeightType type, const uint8_t *row, int64_t col, int64_t n, float *out);

// Room for the end of a row, with zeros behind it.
typedef struct {
    uint8_t values[SUPER_BLOCK / 32 * 34], scales[16];
} SuperBlockCopy;

// Super-block number `index` of a row of blocks, of q8 in groups of 64, or of q4. *n_columns: how many the row has of
// it. Those can be read where they lie, in whole registers; scales are there for all, zeros for those that it lacks.
SuperBlock super_block_at(const Matrix *matrix, int64_t row, int64_t index, SuperBlockCopy *copy, int *n_columns);

// The stored numbers of a super-block, 0 behind the row's end, and its scales and offsets, 8 or 16 of each.
typedef struct {
    uint8_t q[SUPER_BLOCK];
    float scales[16], offsets[16];
} Unpacked;

void unpack_super_block(WeightType type, SuperBlock at, int n_columns, Unpacked *out);
