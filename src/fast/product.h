// Shared by the files of matmul: prepared vectors, and the functions that multiply rows of weights
// by them.
#pragma once

#include "layouts.h"

enum {
    // Up to so many vectors multiply rows in place; more, panels of rows.
    VECTORS_IN_PLACE = 3,
    ROWS_IN_PLACE = 16,      // rows of one piece of work in place
    PANEL_ROWS = 64,         // rows of a panel, which is one piece of work
    PANEL_BYTES = 48 << 10,  // of a panel and the memory to fill it
    HAS_PAIRS = Q8_DOT == PAIRS,
    IN_PAIRS = HAS_PAIRS && LANES == 4,  // also in place
};

// A super-block of a vector as int8: x = scale * value, zeros after the vector's end. Weights are
// stored as q = w + zero, so sums begin at -zero times the sum of the values. Example: with the
// zero 8 of Q4_0, weights -3 and 2 are stored as 5 and 10. With values 4 and 5 the sum begins at
// -8 * (4 + 5) = -72, and comes to -72 + 20 + 50 = -2, which is -12 + 10.
typedef struct {
    // Followed by the values as pairs, if dot_bytes takes pairs.
    _Alignas(REGISTER) int8_t values[(HAS_PAIRS ? 3 : 1) * SUPER_BLOCK];
    int32_t half_starts[2 * PARTS], part_starts[PARTS];  // minus the sums of 16 and of 32 values
    // Of 16 and of 32 values minus the sum of the first two of each four, and of the other two.
    int16_t half_pairs[2 * PARTS][2], part_pairs[PARTS][2];
    float scales[PARTS];  // whole registers are loaded: floats must follow these
    // Scale times the sum of values, for weights with an offset.
    float sums[PARTS], half_sums[2 * PARTS];
} Rounded;

// Further numbers for few vectors. Their products add up in the lanes of a register.
typedef struct {
    _Alignas(64) int32_t starts[SUPER_BLOCK / 4];  // minus the sums of each lane's values
    int16_t half_shorts[2 * PARTS];                // minus the sums of 16 values
    int16_t q6_starts[2 * PARTS][2];  // 32 times Rounded.half_pairs: Q6_K's sums begin here
    // So that whole registers can be loaded.
    float half_scales[2 * PARTS], group_scales[PARTS / 2], behind[16];
} InLanes;

// The input's vectors as a thread multiplies them: normed, and rounded to int8 if the weights are
// quantized.
typedef struct {
    int64_t n, cols;
    const float *x;     // (n, cols)
    Rounded *rounded;   // (super-blocks, n)
    InLanes *in_lanes;  // (super-blocks, n); NULL: there are many vectors
    float *normed;      // (n, cols) memory for x
    void *panel;        // this thread's memory for weights
} Vectors;

// Rows [row, row + n_rows) times all vectors: sums (n, ROWS_IN_PLACE) or (n, PANEL_ROWS). n_rows is
// at most that.
typedef void MultiplyRows(const Matrix *matrix, int64_t row, int64_t n_rows, const Vectors *vectors,
                          float *sums);

MultiplyRows multiply_float_rows, multiply_int8_rows;    // rows.c: up to VECTORS_IN_PLACE vectors
MultiplyRows multiply_packed_rows;                       // packed.c: for rows that lie side by side
MultiplyRows multiply_float_panel, multiply_int8_panel;  // panels.c: any number

// LANES rows' share of a panel, from one of its rows on: four columns of a row, or two as int16,
// and scales and offsets for every stretch of columns with offsets.
typedef struct {
    uint8_t (*values)[PANEL_ROWS][4];
    float (*scales)[PANEL_ROWS], (*offsets)[PANEL_ROWS];
} PanelShare;

// Writes super-block `index` of LANES packed rows from `row` on to a panel (packed.c).
void unpack_packed_rows(const Matrix *m, int64_t row, int64_t index, PanelShare to);

static inline int64_t super_blocks_of(int64_t cols) {
    return (cols + SUPER_BLOCK - 1) / SUPER_BLOCK;
}
