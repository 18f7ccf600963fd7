// Blocks of quantized weights, as ggml's types have them and as our q4 does: how many weights lie
// in how many bytes, and what they are.
#pragma once

#include "matrix.h"

typedef struct {
    int weights, bytes;  // of a block
    // The block's weights as float32. NULL: their scales lie elsewhere.
    void (*decode)(const uint8_t *block, float *out);
} BlockType;

extern const BlockType block_types[N_WEIGHT_TYPES];

// The numbers at two bytes of any address: IEEE 754's half precision, and the upper half of a
// float32.
float float16_at(const uint8_t *bytes);
float bfloat16_at(const uint8_t *bytes);
