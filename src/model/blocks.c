// Super-blocks out of registers: into memory, for panels, and as float32. Inlining makes a loop for each type.
#include "blocks.h"

#include <string.h>

#include "layouts.h"

BlockSize block_size(WeightType type) { return (BlockSize){layouts[type].values, layouts[type].bytes}; }

// Registers [first, end) of the numbers; columns before and after those are left alone.
ALWAYS_INLINE void unpack(WeightType type, SuperBlock at, int first, int end, Unpacked *out) {
    const Scales s = scales_of(type, at);
    UNROLLED (i, REGISTERS) {
        if (i >= first && i < end) store(out->q + i * REGISTER, (vf)weights_of(type, at.values, i));
    }
    memcpy(out->scales, &s.scales, sizeof out->scales);
    if (layouts[type].has_offset) memcpy(out->offsets, &s.offsets, sizeof out->offsets);
}

static void unpack_registers(WeightType type, SuperBlock at, int first, int end, Unpacked *out) {
    switch (type) {
    case WEIGHT_Q8: unpack(WEIGHT_Q8, at, first, end, out); break;
    case WEIGHT_Q4: unpack(WEIGHT_Q4, at, first, end, out); break;
    case WEIGHT_Q4_0: unpack(WEIGHT_Q4_0, at, first, end, out); break;
    case WEIGHT_Q4_1: unpack(WEIGHT_Q4_1, at, first, end, out); break;
    case WEIGHT_Q5_0: unpack(WEIGHT_Q5_0, at, first, end, out); break;
    case WEIGHT_Q5_1: unpack(WEIGHT_Q5_1, at, first, end, out); break;
    case WEIGHT_Q8_0: unpack(WEIGHT_Q8_0, at, first, end, out); break;
    case WEIGHT_Q2_K: unpack(WEIGHT_Q2_K, at, first, end, out); break;
    case WEIGHT_Q3_K: unpack(WEIGHT_Q3_K, at, first, end, out); break;
    case WEIGHT_Q4_K: unpack(WEIGHT_Q4_K, at, first, end, out); break;
    case WEIGHT_Q5_K: unpack(WEIGHT_Q5_K, at, first, end, out); break;
    case WEIGHT_Q6_K: unpack(WEIGHT_Q6_K, at, first, end, out); break;
    case WEIGHT_IQ4_NL: unpack(WEIGHT_IQ4_NL, at, first, end, out); break;
    case WEIGHT_IQ4_XS: unpack(WEIGHT_IQ4_XS, at, first, end, out); break;
    default: unpack(WEIGHT_MXFP4, at, first, end, out);
    }
}

void unpack_super_block(WeightType type, SuperBlock at, int n_columns, Unpacked *out) {
    unpack_registers(type, at, 0, (n_columns + REGISTER - 1) / REGISTER, out);
    if (n_columns < SUPER_BLOCK) memset(out->q + n_columns, 0, SUPER_BLOCK - n_columns);
}

SuperBlock super_block_at(const Matrix *m, int64_t row, int64_t index, SuperBlockCopy *copy, int *n_columns) {
    const Layout *layout = &layouts[m->type];
    const int64_t first = index * SUPER_BLOCK, left = m->cols - first;
    SuperBlock at = {.values = (const uint8_t *)m->data};
    if (layout->values == 0) {
        at.values = group_values(m, row, 4 * index);
        at.scales = group_scales(m, row, 4 * index);
    } else at.values += (row * m->cols + first) / layout->values * layout->bytes;
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

void blocks_to_f32(WeightType type, const uint8_t *row, int64_t col, int64_t n, float *out) {
    const Matrix m = {.type = type, .rows = 1, .cols = col + n, .data = row};
    while (n > 0) {
        const int first = (int)(col % SUPER_BLOCK), end = first + n < SUPER_BLOCK ? first + (int)n : SUPER_BLOCK;
        const int from = first / REGISTER, to = (end + REGISTER - 1) / REGISTER;  // registers
        const bool in_place = first % LANES == 0 && end % LANES == 0;
        float whole[SUPER_BLOCK];
        int n_columns;
        SuperBlockCopy copy;
        Unpacked u;
        unpack_registers(type, super_block_at(&m, 0, col / SUPER_BLOCK, &copy, &n_columns), from, to, &u);
        if (in_place) widen(type, &u, first, end, out);
        else {
            widen(type, &u, from * REGISTER, to * REGISTER, whole);
            memcpy(out, whole + first - from * REGISTER, (end - first) * sizeof *out);
        }
        out += end - first;
        col += end - first;
        n -= end - first;
    }
}
