// ggml's quantized blocks, as GGUF files hold them. How they lie: layouts.h.
#pragma once

#include "matrix.h"

// Values that a block of this type holds, and its bytes; 0 values: the type has no blocks.
typedef struct {
    int values, bytes;
} BlockSize;
BlockSize block_size(WeightType type);

// Columns [col, col + n) of a row of blocks as float32. A scale that is no number makes its values NaN or infinite.
void blocks_to_f32(WeightType type, const uint8_t *row, int64_t col, int64_t n, float *out);
