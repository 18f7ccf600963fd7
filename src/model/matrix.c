// Rows of weights widened to float32. Those of q4 and of ggml's blocks come out of registers, a super-block at a time;
// inlining makes a loop for each type.
#include "matrix.h"

#include <string.h>

#include "../kernels/kernels.h"
#include "layouts.h"

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

// q8: int8 values, each group with a float32 scale. Groups begin anew with every row, or run on from row to row.
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

BlockSize block_size(WeightType type) { return (BlockSize){layouts[type].values, layouts[type].bytes}; }

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

typedef struct {
    SuperBlock at;
    int first, end;  // registers; columns before and after those are left alone
    Unpacked *out;
} Unpacking;

ALWAYS_INLINE void unpack(WeightType type, const void *given) {
    const Unpacking u = *(const Unpacking *)given;
    const Scales s = scales_of(type, u.at);
    UNROLLED (i, REGISTERS) {
        if (i >= u.first && i < u.end) store(u.out->q + i * REGISTER, (vf)weights_of(type, u.at.values, i));
    }
    memcpy(u.out->scales, &s.scales, sizeof s.scales);
    if (layouts[type].has_offset) memcpy(u.out->offsets, &s.offsets, sizeof s.offsets);
}

static void unpack_registers(WeightType type, SuperBlock at, int first, int end, Unpacked *out) {
    for_type(type, unpack, &(Unpacking){at, first, end, out});
}

void unpack_super_block(WeightType type, SuperBlock at, int n_columns, Unpacked *out) {
    unpack_registers(type, at, 0, (n_columns + REGISTER - 1) / REGISTER, out);
    if (n_columns < SUPER_BLOCK) memset(out->q + n_columns, 0, SUPER_BLOCK - n_columns);
}

SuperBlock super_block_at(const Matrix *m, int64_t row, int64_t index, SuperBlockCopy *copy, int *n_columns) {
    const Layout *layout = &layouts[m->type];
    const int64_t first = index * SUPER_BLOCK, left = m->cols - first;
    SuperBlock at = {.values = (const uint8_t *)m->data};
    if (m->type == WEIGHT_Q4) at.values += row * matrix_row_bytes(m) + first / 2;
    else if (m->type == WEIGHT_Q8) at.values += row * m->cols + first;
    else at.values += (row * m->cols + first) / layout->values * layout->bytes;
    if (layout->values == 0) at.scales = group_scales(m, row, 4 * index);
    *n_columns = SUPER_BLOCK;
    if (left >= SUPER_BLOCK || layout->values == SUPER_BLOCK) return at;
    *n_columns = (int)left;
    memset(copy, 0, sizeof *copy);
    if (layout->values == 0) at.scales = memcpy(copy->scales, at.scales, 4 * groups_of(left));
    else at.values = memcpy(copy->values, at.values, (left + PART - 1) / PART * layout->bytes);
    return at;
}

// Column i is scale * (q - zero) + offset; those of [first, end), at multiples of LANES.
static void widen(WeightType type, const Unpacked *u, int first, int end, float *out) {
    const Layout *layout = &layouts[type];
    const int zero = zero_bits_of(type) ? 1 << zero_bits_of(type) : 0;
    for (int i = first; i < end; i += LANES, out += LANES) {
        const int s = i / layout->columns;
        const vf scale = splat(u->scales[s]), offset = splat(layout->has_offset ? u->offsets[s] : 0);
        int8_t values[LANES];
        for (int j = 0; j < LANES; j++) values[j] = (int8_t)(u->q[i + j] - zero);
        store(out, load_i8(values) * scale + offset);
    }
}

// Columns [col, col + n) of a row of q4 or blocks. A scale that is no number makes its values NaN or infinite.
static void blocks_to_f32(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    while (n > 0) {
        const int first = (int)(col % SUPER_BLOCK), end = first + n < SUPER_BLOCK ? first + (int)n : SUPER_BLOCK;
        const int from = first / REGISTER, to = (end + REGISTER - 1) / REGISTER;  // registers
        const bool in_place = first % LANES == 0 && end % LANES == 0;
        float whole[SUPER_BLOCK];
        int n_columns;
        SuperBlockCopy copy;
        Unpacked u;
        unpack_registers(m->type, super_block_at(m, row, col / SUPER_BLOCK, &copy, &n_columns), from, to, &u);
        if (in_place) widen(m->type, &u, first, end, out);
        else {
            widen(m->type, &u, from * REGISTER, to * REGISTER, whole);
            memcpy(out, whole + first - from * REGISTER, (end - first) * sizeof *out);
        }
        out += end - first;
        col += end - first;
        n -= end - first;
    }
}

void matrix_row(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    const uint8_t *data = m->data;
    int64_t first = row * m->cols + col;
    switch (m->type) {
    case WEIGHT_F32: memcpy(out, data + 4 * first, 4 * n); break;
    case WEIGHT_F16: f16_to_f32(out, (const uint16_t *)(const void *)(data + 2 * first), n); break;
    case WEIGHT_BF16: bf16_to_f32(out, data + 2 * first, n); break;
    case WEIGHT_Q8: q8_to_f32(m, row, col, n, out); break;
    default: blocks_to_f32(m, row, col, n, out);
    }
}
