// Super-blocks out of registers: into memory, for panels, and as float32. A loop for each type is made here by inlining.
#include "blocks.h"

#include <string.h>

BlockSize block_size(WeightType type) { return (BlockSize){layouts[type].values, layouts[type].bytes}; }

// Parts [first, end); columns before and after those are left alone.
ALWAYS_INLINE void unpack(WeightType type, SuperBlock at, int first, int end, Unpacked *out) {
    const Scales s = scales_of(type, at);
    for (int p = first; p < end; p++) {
        const b32 q = part_of(type, at.values, p);
        memcpy(out->q + PART * p, &q, sizeof q);
    }
    memcpy(out->scales, s.scales, sizeof s.scales);
    if (layouts[type].has_offset) memcpy(out->offsets, s.offsets, sizeof s.offsets);
}

static void unpack_parts(WeightType type, SuperBlock at, int first, int end, Unpacked *out) {
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

void unpack_super_block(WeightType type, SuperBlock at, int n_parts, Unpacked *out) {
    unpack_parts(type, at, 0, n_parts, out);
    memset(out->q + PART * n_parts, 0, SUPER_BLOCK - PART * n_parts);
}

SuperBlock super_block_at(const Matrix *m, int64_t row, int64_t index, SuperBlockCopy *copy, int *n_parts) {
    const Layout *layout = &layouts[m->type];
    const int64_t first = index * SUPER_BLOCK, left = m->cols - first, groups = groups_of(m->cols) - 4 * index;
    SuperBlock at = {.values = (const uint8_t *)m->data};
    if (layout->values == 0) {
        at.values = group_values(m, row, 4 * index);
        at.scales = group_scales(m, row, 4 * index);
    } else at.values += (row * m->cols + first) / layout->values * layout->bytes;
    *n_parts = PARTS;
    if (left >= SUPER_BLOCK || layout->values == SUPER_BLOCK) return at;
    *n_parts = (int)((left + PART - 1) / PART);
    memset(copy, 0, sizeof *copy);
    if (layout->values == 0) at.scales = memcpy(copy->scales, at.scales, 4 * groups);
    else at.values = memcpy(copy->values, at.values, *n_parts * layout->bytes);
    return at;
}

// Column i is scale * (q - zero) + offset; those of [first, end), at multiples of LANES.
static void widen(WeightType type, const Unpacked *u, int first, int end, float *out) {
    const Layout *layout = &layouts[type];
    const float zero = layout->zero_bits ? (float)(1 << layout->zero_bits) : 0;
    for (int i = first; i < end; i += LANES, out += LANES) {
        const int s = i / layout->columns;
        const vf scale = splat(u->scales[s]), offset = splat(layout->has_offset ? u->offsets[s] : 0);
        store(out, (load_i8(u->q + i) - zero) * scale + offset);
    }
}

void blocks_to_f32(WeightType type, const uint8_t *row, int64_t col, int64_t n, float *out) {
    const Matrix m = {.type = type, .rows = 1, .cols = col + n, .data = row};
    while (n > 0) {
        int64_t first = col % SUPER_BLOCK, count = SUPER_BLOCK - first < n ? SUPER_BLOCK - first : n;
        int from = (int)(first / PART), end = (int)((first + count + PART - 1) / PART), n_parts;
        float whole[SUPER_BLOCK];
        SuperBlockCopy copy;
        Unpacked u;
        SuperBlock at = super_block_at(&m, 0, col / SUPER_BLOCK, &copy, &n_parts);
        unpack_parts(type, at, from, end, &u);
        bool in_place = first % PART == 0 && count % PART == 0;
        widen(type, &u, from * PART, end * PART, in_place ? out : whole);
        if (!in_place) memcpy(out, whole + first % PART, count * sizeof *out);
        out += count;
        col += count;
        n -= count;
    }
}
