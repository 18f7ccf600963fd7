// Rows of weights as float32. Those of q4 and of ggml's blocks are unpacked a super-block at a
// time.
#include <string.h>

#include "kernels.h"
#include "layouts.h"
#include "matmul.h"

static void q8_to_f32(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    int64_t size = m->group_size;
    int64_t stride = m->groups_cross_rows ? m->cols : (m->cols + size - 1) / size * size;
    int64_t first = row * stride + col;  // the place of the values if every group were full
    const int8_t *values = (const int8_t *)m->data + row * m->cols + col;
    for (int64_t i = 0; i < n;) {
        float scale = float_at((const uint8_t *)m->scales + 4 * ((first + i) / size));
        int64_t end = i + size - (first + i) % size;
        if (end > n) end = n;
        for (; i < end; i++) out[i] = (float)values[i] * scale;
    }
}

typedef struct {
    SuperBlock at;
    int first, end;  // registers; columns before and after those stay unchanged
    Unpacked *out;
} Unpacking;

ALWAYS_INLINE void unpack(WeightType type, const void *given) {
    Unpacking u = *(const Unpacking *)given;
    Scales s = scales_of(type, u.at);
    UNROLLED (i, REGISTERS) {
        if (i >= u.first && i < u.end)
            store(u.out->q + i * REGISTER, (vf)weights_of(type, u.at.values, i));
    }
    memcpy(u.out->scales, &s.scales, sizeof s.scales);
    if (layouts[type].has_offset) memcpy(u.out->offsets, &s.offsets, sizeof s.offsets);
}

void unpack_super_block(WeightType type, SuperBlock at, int first, int end, Unpacked *out) {
    Unpacking given = {
        .at = at,
        .first = first / REGISTER,
        .end = (end + REGISTER - 1) / REGISTER,
        .out = out,
    };
    for_type(type, unpack, &given);
}

// For types that the core decodes: n columns, whole blocks from `at` on.
static SuperBlock decoded(WeightType type, const uint8_t *at, int n, SuperBlockCopy *out) {
    BlockSize size = block_sizes[type];
    int every = layouts[type].columns / 16;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < n; i += size.weights, at += size.bytes)
        block_types[type].numbers(at, (int8_t *)out->values + i, out->scales + i / 16);
    for (int s = 0; s < 2 * PARTS / every; s++) out->scales[s] = out->scales[s * every];
    return (SuperBlock){out->values, (const uint8_t *)out->scales};
}

SuperBlock super_block_at(const Matrix *m, int64_t row, int64_t index, SuperBlockCopy *copy) {
    BlockSize size = block_sizes[m->type];
    int64_t first = index * SUPER_BLOCK;
    int64_t left = m->cols - first;
    if (is_coded(m->type)) {
        const uint8_t *start = (const uint8_t *)m->data + row * matrix_row_bytes(m);
        const uint8_t *values = start + first / size.weights * size.bytes;
        int n = left < SUPER_BLOCK ? (int)left : SUPER_BLOCK;
        uint8_t apart[MAX_BLOCK_BYTES];
        if (row < packed_rows(m)) {
            matrix_blocks(m, row, index, 1, apart);
            values = apart;
        }
        return decoded(m->type, values, n, copy);
    }
    if (row < packed_rows(m)) {
        int64_t n = (left < SUPER_BLOCK ? left : SUPER_BLOCK) / size.weights;
        memset(copy, 0, sizeof *copy);
        matrix_blocks(m, row, first / size.weights, n, copy->values);
        return (SuperBlock){.values = copy->values};
    }
    int64_t row_values = m->type == WEIGHT_Q4 ? groups_of(m->cols) * Q4_PACK : m->cols;
    SuperBlock at = {.values = (const uint8_t *)m->data};
    at.values += (row * row_values + first) / size.weights * size.bytes;
    if (!is_ggml(m->type)) at.scales = group_scales(m, row, 4 * index);
    if (left >= SUPER_BLOCK) return at;
    if (is_ggml(m->type)) {
        int64_t bytes = left / size.weights * size.bytes;
        memset(copy->values, 0, sizeof copy->values);
        at.values = memcpy(copy->values, at.values, bytes);
    } else {
        memset(copy->scales, 0, sizeof copy->scales);
        at.scales = memcpy(copy->scales, at.scales, 4 * groups_of(left));
    }
    return at;
}

// Columns [first, end): scale * (q - zero) + offset.
static void widen_columns(WeightType type, const Unpacked *u, int first, int end, float *out) {
    const Layout *layout = &layouts[type];
    for (int i = first / LANES * LANES; i < end; i += LANES) {
        int s = i / layout->columns;
        vf scale = splat(u->scales[s]);
        vf offset = splat(layout->has_offset ? u->offsets[s] : 0);
        int8_t values[LANES];
        for (int j = 0; j < LANES; j++) values[j] = (int8_t)(u->q[i + j] - zero_of(type));
        vf widened = load_i8(values) * scale + offset;
        if (i >= first && i + LANES <= end) {
            store(out + i - first, widened);
            continue;
        }
        for (int j = 0; j < LANES; j++)
            if (i + j >= first && i + j < end) out[i + j - first] = widened[j];
    }
}

static void blocks_to_f32(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    for (int64_t stop = col + n; col < stop;) {
        int first = (int)(col % SUPER_BLOCK);
        int left = (int)(stop - col);
        int end = left < SUPER_BLOCK - first ? first + left : SUPER_BLOCK;
        SuperBlockCopy copy;
        Unpacked u;
        SuperBlock at = super_block_at(m, row, col / SUPER_BLOCK, &copy);
        unpack_super_block(m->type, at, first, end, &u);
        widen_columns(m->type, &u, first, end, out);
        out += end - first;
        col += end - first;
    }
}

void matrix_row(const Matrix *m, int64_t row, int64_t col, int64_t n, float *out) {
    static const Number numbers[] = {
        [WEIGHT_F32] = NUMBER_F32, [WEIGHT_F16] = NUMBER_F16, [WEIGHT_BF16] = NUMBER_BF16};
    int bytes = block_sizes[m->type].bytes;
    const uint8_t *at = (const uint8_t *)m->data + (row * m->cols + col) * bytes;
    if (m->type == WEIGHT_Q8) q8_to_f32(m, row, col, n, out);
    else if (m->type > WEIGHT_Q8) blocks_to_f32(m, row, col, n, out);
    else numbers_to_f32(out, at, numbers[m->type], n);
}
