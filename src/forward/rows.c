// Few vectors: rows of weights are read once, where they lie, front to back, and memory is the limit. What is loaded is
// multiplied at once; prefetches keep the stream of loads going across the ends of rows and pages.
#include <string.h>

#include "product.h"

// The sum of products of one of `parts` parts of a group of weights with group `at` of the vectors.
ALWAYS_INLINE vi dot_part(WeightType type, const uint8_t *weights, const Vectors *v, int64_t at, int part, int parts) {
    const Dot how = dot_of(type);
    const int n = group_vecs(type) / parts, offset = type == WEIGHT_Q4 ? Q4_OFFSET : INT8_OFFSET;
    const int8_t *x = v->values + (at * parts + part) * n * 4 * LANES;
    vi start = {0}, sum = {0};
    if (offset) start = (vi)load(v->corrections + at * STARTS + part * (STARTS / 2));
    if (how != NIBBLES) sum = start;
    UNROLLED (i, n) sum = dot(how, sum, load_weights(type, weights, part * n + i), load_bytes(x + 4 * LANES * i));
    return how == NIBBLES ? whole_sums(how, sum) + start : sum;
}

// Two groups at a time, so that their sums do not wait for one another.
static inline float q8_row_dot(const Matrix *m, int64_t row, const Vectors *v, int64_t t) {
    const uint8_t *weights = group_values(m, row, 0), *scales = group_scales(m, row, 0);
    const int64_t groups = v->groups, first = t * groups;
    vf sum[2] = {{0}};
    for (int64_t g = 0; g < groups; g += 2)
        UNROLLED (h, 2) {
            if (g + h >= groups) continue;
            const uint8_t *group = weights + (g + h) * Q8_GROUP;
            vf scale = splat(float_at(scales + 4 * (g + h)) * v->scales[first + g + h]);
            prefetch_ahead(group);
            sum[h] += to_float(dot_part(WEIGHT_Q8, group, v, first + g + h, 0, 1)) * scale;
        }
    return sum_lanes(sum[0] + sum[1]);
}

enum {
    PACKS = LANES / 2,                   // a pack of q4 has two scales, so that those of PACKS packs fill a register
    SCALED_PARTS = LANES == 16 ? 1 : 2,  // of a pack, which have scales of their own
};

// The scales of n packs, at most PACKS: what lies behind them may be the file's end.
static inline vf q4_scales(const uint8_t *scales, int64_t n) {
    uint16_t some[LANES] = {0};
    if (n >= PACKS) return load_f16(scales);
    memcpy(some, scales, 2 * n * sizeof *some);
    return load_f16(some);
}

static inline float q4_row_dot(const Matrix *m, int64_t row, const Vectors *v, int64_t t) {
    const uint8_t *weights = group_values(m, row, 0), *scales = group_scales(m, row, 0);
    const int64_t packs = v->groups, first = t * packs;
    vf sum[2] = {{0}};
    for (int64_t p = 0; p < packs; p += PACKS) {
        const int64_t left = packs - p;
        prefetch_ahead(scales + 4 * p);
        vf both = q4_scales(scales + 4 * p, left) * load(v->scales + 2 * (first + p));
        UNROLLED (k, PACKS) {
            if (k >= left) continue;
            const uint8_t *pack = weights + (p + k) * (Q4_PACK / 2);
            if (k % 2 == 0) prefetch_ahead(pack);
            UNROLLED (i, SCALED_PARTS) {
                vi dots = dot_part(WEIGHT_Q4, pack, v, first + p + k, i, SCALED_PARTS);
                sum[k % 2] += to_float(dots) * spread(both, k, i);
            }
        }
    }
    return sum_lanes(sum[0] + sum[1]);
}

enum { FLOAT_STEP = 4 * LANES };  // four sums that do not wait for one another

// The product of the whole steps of n columns.
ALWAYS_INLINE float dot_of_type(WeightType type, const uint8_t *w, const float *x, int64_t n) {
    vf sum[4] = {{0}};
    const int size = type == WEIGHT_F32 ? 4 : 2;
    for (int64_t i = 0; i + FLOAT_STEP <= n; i += FLOAT_STEP)
        UNROLLED (j, 4) {
            const uint8_t *at = w + size * (i + j * LANES);
            if (size * LANES * j % 64 == 0) prefetch_ahead(at);
            vf weights = type == WEIGHT_F32 ? load(at) : type == WEIGHT_F16 ? load_f16(at) : load_bf16(at);
            sum[j] += weights * load(x + i + j * LANES);
        }
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static inline float float_row_dot(const Matrix *m, int64_t row, const float *x) {
    const uint8_t *data = m->data;
    int64_t n = m->cols, first = row * n, whole = n / FLOAT_STEP * FLOAT_STEP;
    float sum, rest[FLOAT_STEP];
    switch (m->type) {
    case WEIGHT_F32: sum = dot_of_type(WEIGHT_F32, data + 4 * first, x, n); break;
    case WEIGHT_F16: sum = dot_of_type(WEIGHT_F16, data + 2 * first, x, n); break;
    default: sum = dot_of_type(WEIGHT_BF16, data + 2 * first, x, n);
    }
    if (whole < n) matrix_row(m, row, whole, n - whole, rest);
    for (int64_t i = whole; i < n; i++) sum += rest[i - whole] * x[i];
    return sum;
}

// A row of any other type: stretches of it are widened, once for all vectors.
static void widened_row_dots(const Matrix *m, int64_t row, const Vectors *v, float *sums) {
    enum { STRETCH = 256 };
    const int64_t row_bytes = matrix_row_bytes(m), stretch_bytes = row_bytes * STRETCH / m->cols;
    vf sum[VECTORS_IN_PLACE][2] = {{{0}}};
    float rest[VECTORS_IN_PLACE] = {0}, widened[STRETCH];
    for (int64_t col = 0, n; col < m->cols; col += n) {
        n = m->cols - col < STRETCH ? m->cols - col : STRETCH;
        const uint8_t *at = (const uint8_t *)m->data + row * row_bytes + row_bytes * col / m->cols;
        for (int64_t i = 0; i < stretch_bytes; i += 64) prefetch_ahead(at + i);
        matrix_row(m, row, col, n, widened);
        for (int64_t t = 0; t < v->n; t++) {
            const float *x = v->x + t * v->cols + col;
            int64_t i = 0;
            for (; i + 2 * LANES <= n; i += 2 * LANES)
                UNROLLED (j, 2) sum[t][j] += load(widened + i + j * LANES) * load(x + i + j * LANES);
            for (; i < n; i++) rest[t] += widened[i] * x[i];
        }
    }
    for (int64_t t = 0; t < v->n; t++) sums[t * ROWS_IN_PLACE] = sum_lanes(sum[t][0] + sum[t][1]) + rest[t];
}

void multiply_float_rows(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v, float *sums) {
    for (int64_t r = 0; r < n_rows; r++) {
        if (m->type > WEIGHT_BF16) widened_row_dots(m, row + r, v, sums + r);
        else
            for (int64_t t = 0; t < v->n; t++)
                sums[t * ROWS_IN_PLACE + r] = float_row_dot(m, row + r, v->x + t * v->cols);
    }
}

void multiply_q8_rows(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v, float *sums) {
    for (int64_t t = 0; t < v->n; t++)
        for (int64_t r = 0; r < n_rows; r++) sums[t * ROWS_IN_PLACE + r] = q8_row_dot(m, row + r, v, t);
}

void multiply_q4_rows(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v, float *sums) {
    for (int64_t t = 0; t < v->n; t++)
        for (int64_t r = 0; r < n_rows; r++) sums[t * ROWS_IN_PLACE + r] = q4_row_dot(m, row + r, v, t);
}
