// Products by a processor's matrix units (AMX), of bytes, or of bfloat16 added up in float32, with
// 16 times the arithmetic of AVX-512. A float32 number is split into parts: it is the sum of three
// bfloat16 numbers of 8 bits each, a float16 of two, and an int8 is one. A product is the sum of
// the products of parts, without those that are too small to count (Henry, Tang and Heinecke, arXiv
// 1904.06376).
#pragma once

#include "../base/util.h"

enum {
    UNIT = 32,         // rows, columns and depth of a product of parts are multiples of it
    UNIT_ROWS = 16,    // rows of a tile of A, columns of a tile of B
    MAX_PARTS = 3,     // of a float32 number
    TILE_PAIRS = 256,  // pairs of bfloat16 in a tile, 1 KB: 16 x 32 of A, or 32 x 16 of B
};

static inline int64_t whole_units(int64_t n) { return (n + UNIT - 1) / UNIT * UNIT; }

// Whether the program was built for such units and the system lets it use them. Must be called
// before all others.
bool matrix_units_allowed(void);

// C (m, n) = A (m, k) B (k, n). A lies in tiles (k / 32, m / 16, a_parts), put there by split_row.
// Parts i and j are multiplied if i + j is less than the larger number of parts: the result has 8
// bits for each of these.
typedef struct {
    int64_t m, n, k;
    const uint32_t *a;
    const float *b;
    uint32_t *tiles;       // memory for B's, (k / 32, n / 16, b_parts)
    int a_parts, b_parts;  // 2 or 3; 1 to 3
    float *c;              // (m, n)
    bool add;              // to what is in C
} PartsGemm;

void gemm_of_parts(const PartsGemm *gemm);

// Pairs in the tiles of 32 columns of A with m rows, or of 32 rows of B with n columns.
static inline int64_t parts_depth(int64_t m_or_n, int parts) {
    return m_or_n / UNIT_ROWS * parts * TILE_PAIRS;
}

// Puts one of A's m rows, x with k numbers, into its tiles, in 2 or 3 parts.
void split_row(uint32_t *tiles, int parts, int64_t row, int64_t m, const float *x, int64_t k);

// A thread multiplies bytes between these two. `depth` is how many bytes have a common scale, 32 or
// 64.
void units_begin(int depth);
void units_end(void);

// Signed bytes times unsigned ones. A's 16 rows lie a_stride apart. Of B's 16 columns, four bytes
// of each lie together, and the next four b_stride behind. Every `depth` bytes give one of `count`
// products (16, 16).
void multiply_bytes(int32_t *products, int64_t count, int depth, const int8_t *a, int64_t a_stride,
                    const uint8_t *b, int64_t b_stride);
