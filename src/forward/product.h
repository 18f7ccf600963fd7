// What the files of matmul share: vectors made ready, and the functions that multiply rows of weights by them.
#pragma once

#include "../kernels/simd.h"
#include "../model/matrix.h"

enum {
    VECTORS_IN_PLACE = 3,    // up to so many vectors multiply rows in place, where they lie; more, panels of rows
    ROWS_IN_PLACE = 16,      // rows of one piece of work in place
    PANEL_ROWS = 64,         // rows of a panel, which is one piece of work
    PANEL_BYTES = 40 << 10,  // of a panel and what is needed to make it
    STARTS = 16,             // what sums in place start with: a correction and 7 zeros for each of two scales
    Q4_OFFSET = Q4_DOT == PAIRS ? 0 : 8
};

ALWAYS_INLINE Dot dot_of(WeightType type) { return type == WEIGHT_Q4 ? (Dot)Q4_DOT : (Dot)Q8_DOT; }
// Of activations for such weights, and how many registers a group of 64 columns takes.
ALWAYS_INLINE int value_bytes(WeightType type) { return dot_of(type) == PAIRS ? 2 : 1; }
ALWAYS_INLINE int group_vecs(WeightType type) { return Q8_GROUP * value_bytes(type) / (4 * LANES); }

// The input's vectors as a thread multiplies them: normed, and when the weights are q8 or q4 rounded to int8 in groups
// of 64 columns, the last group filled up with zeros. Such weights are multiplied as value + offset, and what that adds
// is known beforehand: sums begin with a correction, minus the offset times the sum of the activations. With the offset
// 8 of q4, weights -3 and 2 are stored as 5 and 10; times activations 4 and 5 that gives 20 + 50, and with the
// correction -8 * (4 + 5) = -72 the product -2 = -12 + 10.
typedef struct {
    int64_t n, cols, groups;
    const float *x;        // (n, cols)
    int value_bytes;       // 1: int8, 2: the same numbers as int16
    int8_t *values;        // (n, groups, 64)
    bool by_units;         // matrix units multiply: bytes, or float32 as
    uint32_t *parts;       // n rows of cols in tiles, see matrix_units.h, where else values are
    int scales_per_group;  // that the weights have
    float *scales;         // in place (n, groups, scales_per_group), all equal; in panels (groups, n)
    int32_t *corrections;  // in place (n, groups, STARTS); in panels (groups, scales_per_group, n)
    float *normed;         // (n, cols) memory for x
    void *panel;           // this thread's memory for weights
} Vectors;

// Rows [row, row + n_rows) times all vectors: sums (n, ROWS_IN_PLACE) or (n, PANEL_ROWS). n_rows is at most that.
typedef void MultiplyRows(const Matrix *matrix, int64_t row, int64_t n_rows, const Vectors *vectors, float *sums);

MultiplyRows multiply_float_rows, multiply_q8_rows, multiply_q4_rows;     // rows.c: up to VECTORS_IN_PLACE vectors
MultiplyRows multiply_float_panel, multiply_q8_panel, multiply_q4_panel;  // panels.c: any number

// Register i of a group of 64 weights, with the offset. A q8 row's last group may be shorter: what is read past its
// end, in the file still (the scales lie behind the weights), is multiplied by zeros.
ALWAYS_INLINE vb load_weights(WeightType type, const uint8_t *group, int i) {
    if (type == WEIGHT_Q4) return load_nibbles(Q4_DOT, group, i);
    return Q8_DOT == PAIRS ? load_pairs(group, i) : load_bytes(group + 4 * LANES * i) ^ INT8_OFFSET;
}
