// Rows of weights widened to float32: a function for each type, and one place where they are chosen.
#include "matrix.h"

#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/simd.h"
#include "blocks.h"

const char *const weight_type_names[N_WEIGHT_TYPES] = {"float32", "float16", "bfloat16", "q8",     "q4",     "Q4_0",
                                                       "Q4_1",    "Q5_0",    "Q5_1",     "Q8_0",   "Q2_K",   "Q3_K",
                                                       "Q4_K",    "Q5_K",    "Q6_K",     "IQ4_NL", "IQ4_XS", "MXFP4"};

// bfloat16: the upper half of a float32.
static void bf16_to_f32(float *out, const uint8_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, x + 2 * i, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

// q8: int8 values, each group with a float32 scale. Groups begin anew with every row, a row's last one may be shorter;
// or they run on from row to row.
static void q8_to_f32(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    int64_t size = m->group_size, stride = m->groups_cross_rows ? m->cols : (m->cols + size - 1) / size * size;
    int64_t first = row * stride + col;  // where the values would lie if every group were full
    const int8_t *values = (const int8_t *)m->data + row * m->cols + col;
    for (int64_t i = 0; i < n;) {
        float scale = float_at((const uint8_t *)m->scales + 4 * ((first + i) / size));
        int64_t end = i + size - (first + i) % size;
        if (end > n) end = n;
        for (; i < end; i++) out[i] = (float)values[i] * scale;
    }
}

// q4: a pack of 64 columns is 32 bytes and two float16 scales. Byte j holds column j in its low half and column j + 32
// in its high half, each as value + 8. When byte 5 is 0x3c and the scales are 0.5 and 2, column 5 is (12 - 8) * 0.5 = 2
// and column 37 is (3 - 8) * 2 = -10.
static void q4_to_f32(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t pack = (col + i) / Q4_PACK, group = (col + i) / Q4_GROUP % 2;
        int byte = group_values(m, row, pack)[(col + i) % Q4_GROUP], value = (group ? byte >> 4 : byte & 15) - 8;
        out[i] = (float)value * half_at(group_scales(m, row, pack) + 2 * group);
    }
}

int64_t matrix_row_bytes(const Matrix *m) {
    const BlockSize block = block_size(m->type);
    if (block.values) return m->cols / block.values * block.bytes;
    if (m->type == WEIGHT_Q4) return groups_of(m->cols) * (Q4_PACK / 2);
    return m->type == WEIGHT_F32 ? 4 * m->cols : m->type == WEIGHT_Q8 ? m->cols : 2 * m->cols;
}

int64_t matrix_scale_bytes(const Matrix *m) {
    int64_t size = m->group_size;
    if (m->type == WEIGHT_Q4) return 4 * m->rows * groups_of(m->cols);
    if (m->type != WEIGHT_Q8) return 0;
    return 4 * (m->groups_cross_rows ? m->rows * m->cols / size : m->rows * ((m->cols + size - 1) / size));
}

void matrix_row(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    const uint8_t *data = m->data;
    int64_t first = row * m->cols + col;
    switch (m->type) {
    case WEIGHT_F32: memcpy(out, data + 4 * first, 4 * n); break;
    case WEIGHT_F16: f16_to_f32(out, (const uint16_t *)(const void *)(data + 2 * first), n); break;
    case WEIGHT_BF16: bf16_to_f32(out, data + 2 * first, n); break;
    case WEIGHT_Q4: q4_to_f32(m, row, col, n, out); break;
    case WEIGHT_Q8: q8_to_f32(m, row, col, n, out); break;
    default: blocks_to_f32(m->type, data + row * matrix_row_bytes(m), col, n, out);
    }
}
