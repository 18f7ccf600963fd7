// Few vectors: rows of weights are read once, in place, front to back, and memory is the limit.
// Loaded weights are multiplied at once; prefetches keep the stream of loads across the ends of
// rows and pages.
#include <string.h>

#include "matmul.h"
#include "product.h"

// Bytes of a super-block, without the scales that are stored elsewhere.
ALWAYS_INLINE int bytes_of(WeightType type) {
    return SUPER_BLOCK / block_sizes[type].weights * block_sizes[type].bytes;
}

// Prefetches with register i of a super-block its share of the cache lines.
ALWAYS_INLINE void prefetch_share(WeightType type, SuperBlock at, int i) {
    if (is_coded(type)) return;  // it has been decoded from elsewhere
    int bytes = bytes_of(type);
    int every = 64 * REGISTERS / bytes;
    if (every < 2 || i % every == 0) prefetch_ahead(at.values + i * bytes / REGISTERS);
}

#ifdef SIMD_FOURS
// sum += n registers of a super-block of up to 6 bits times a vector's. The scales s have the
// vector's in them.
ALWAYS_INLINE void add_by_fours(WeightType type, SuperBlock at, int n, const Rounded *x,
                                const Scales *s, vf sum[4]) {
    int zero_bits = zero_bits_of(type);
    UNROLLED (h, 2) {
        vb weights[4] = {{0}};
        UNROLLED (k, 4) {
            prefetch_share(type, at, 4 * h + k);
            if (4 * h + k < n) weights[k] = weights_of(type, at.values, 4 * h + k);
        }
        vi dots = dot_fours(weights, x->values + h * 4 * REGISTER, layouts[type].bits);
        if (zero_bits) dots += (vi)halves_of_fours(load(x->half_starts + 8 * h)) << zero_bits;
        bool by_halves = layouts[type].columns == 16;
        vf scales =
            by_halves ? halves_of_fours(s->scales.of[h]) : four_of_eight(s->scales.of[0], h);
        sum[2 + h] += to_float(dots) * scales;
    }
}
#endif

// The scales of a vector's stretches of so many columns.
ALWAYS_INLINE const float *scales_for(int columns, const Rounded *x, const InLanes *lanes) {
    if (columns == 16) return lanes->half_scales;
    return columns == 32 ? x->scales : lanes->group_scales;
}

// sum += a super-block, of which the first `n_columns` columns are its row's, times a vector's. Four
// sums, so that they do not wait for one another.
ALWAYS_INLINE void add_super_block(WeightType type, SuperBlock at, int n_columns, const Rounded *x,
                                   const InLanes *lanes, vf sum[4]) {
    const Layout *layout = &layouts[type];
    int columns = layout->columns;
    int n = (n_columns + REGISTER - 1) / REGISTER;
    int zero_bits = zero_bits_of(type);
    const int8_t *values = IN_PAIRS ? x->values + SUPER_BLOCK : x->values;
    const float *x_scales = scales_for(columns, x, lanes);
    const float *x_sums = columns == 16 ? x->half_sums : x->sums;
    Scales s = scales_of(type, at);
    if (n_columns < SUPER_BLOCK) {  // the bytes after a row are arbitrary, and 0 times NaN is NaN
        s.scales = first_of(s.scales, (n_columns + columns - 1) / columns);
        if (layout->has_offset) s.offsets = first_of(s.offsets, n_columns / columns);
    }
    for (int i = 0; i < (SUPER_BLOCK / columns + LANES - 1) / LANES; i++) {
        s.scales.of[i] *= load(x_scales + i * LANES) * (IN_PAIRS ? 1.0f / PAIRS_UNIT : 1);
        if (layout->has_offset) sum[i] += s.offsets.of[i] * load(x_sums + i * LANES);
    }
#ifdef SIMD_FOURS
    if (layout->bits <= 6) {
        add_by_fours(type, at, n, x, &s, sum);
        return;
    }
#endif
    // Clang unrolls no more of a loop that can end early.
    enum { TOGETHER = REGISTERS < 8 ? REGISTERS : 8 };
    UNROLLED (h, REGISTERS / TOGETHER)
        UNROLLED (k, TOGETHER) {
            int i = h * TOGETHER + k;
            if (i >= n) break;
            vi start = {0};
            prefetch_share(type, at, i);
            if (zero_bits) start = (vi)load(lanes->starts + i * LANES) << zero_bits;
            const int8_t *at_x = values + i * REGISTER * (IN_PAIRS ? 2 : 1);
            vb weights = weights_of(type, at.values, i);
            vi dots = dot_in_place(start, weights, at_x, is_int8(type));
            sum[i % 4] += to_float(dots) * spread(&s.scales, columns, i);
        }
}

// The bytes of super-block i, as far ahead as those of other types.
static inline void prefetch_coded(const Matrix *m, int64_t row, int64_t i) {
    int64_t row_bytes = matrix_row_bytes(m);
    int64_t bytes = row_bytes * SUPER_BLOCK / m->cols;
    const uint8_t *at = (const uint8_t *)m->data + row * row_bytes + i * bytes;
    for (int64_t b = 0; b < bytes; b += 64) prefetch_ahead(at + b);
}

// The beginning of a row that is neither packed nor of a coded type.
static inline SuperBlock row_at(const Matrix *m, int64_t row) {
    SuperBlock at = {.values = (const uint8_t *)m->data + row * matrix_row_bytes(m)};
    if (!is_ggml(m->type)) at.scales = group_scales(m, row, 0);
    return at;
}

// Whether a whole super-block can be read from the end of a row: only the last rows are too short.
static inline bool has_more(WeightType type, const Matrix *m, SuperBlock at) {
    const uint8_t *data = m->data;
    const uint8_t *scales = m->scales;
    if (at.values + bytes_of(type) > data + m->rows * matrix_row_bytes(m)) return false;
    return is_ggml(type) || at.scales + 16 <= scales + matrix_scale_bytes(m);
}

// A row times vector t.
ALWAYS_INLINE float int8_row_dot(WeightType type, const Matrix *m, int64_t row, const Vectors *v,
                                 int64_t t) {
    int64_t whole = m->cols / SUPER_BLOCK;
    vf sum[4] = {{0}};
    const Rounded *x = v->rounded + t;
    const InLanes *lanes = v->in_lanes + t;
    SuperBlock at = {0};
    SuperBlockCopy copy;
    if (!is_coded(type)) at = row_at(m, row);
    for (int64_t i = 0; i < whole; i++, x += v->n, lanes += v->n) {
        if (is_coded(type)) {
            prefetch_coded(m, row, i);
            at = super_block_at(m, row, i, &copy);
        }
        if (type == WEIGHT_Q4) prefetch_ahead(at.scales);
        add_super_block(type, at, SUPER_BLOCK, x, lanes, sum);
        if (is_coded(type)) continue;
        at.values += bytes_of(type);
        if (!is_ggml(type)) at.scales += 16;
    }
    int left = (int)(m->cols - whole * SUPER_BLOCK);
    if (left > 0) {
        bool in_place = !is_coded(type) && has_more(type, m, at);
        if (!in_place) at = super_block_at(m, row, whole, &copy);
        add_super_block(type, at, left, x, lanes, sum);
    }
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

enum { FLOAT_STEP = 4 * LANES };  // four sums that do not wait for one another

ALWAYS_INLINE float dot_of_type(Number type, const Matrix *m, int64_t row, const float *x) {
    vf sum[4] = {{0}};
    int size = number_bytes(type);
    const uint8_t *w = (const uint8_t *)m->data + row * m->cols * size;
    for (int64_t i = 0; i + FLOAT_STEP <= m->cols; i += FLOAT_STEP)
        UNROLLED (j, 4) {
            const uint8_t *at = w + size * (i + j * LANES);
            if (size * LANES * j % 64 == 0) prefetch_ahead(at);
            sum[j] += load_number(type, at) * load(x + i + j * LANES);
        }
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static inline float float_row_dot(const Matrix *m, int64_t row, const float *x) {
    int64_t n = m->cols;
    int64_t whole = n / FLOAT_STEP * FLOAT_STEP;
    float sum, rest[FLOAT_STEP];
    switch (m->type) {
    case WEIGHT_F32: sum = dot_of_type(NUMBER_F32, m, row, x); break;
    case WEIGHT_F16: sum = dot_of_type(NUMBER_F16, m, row, x); break;
    default: sum = dot_of_type(NUMBER_BF16, m, row, x);
    }
    if (whole < n) matrix_row(m, row, whole, n - whole, rest);
    for (int64_t i = whole; i < n; i++) sum += rest[i - whole] * x[i];
    return sum;
}

// A row of any other type, of which stretches are widened once for all vectors.
static void widened_row_dots(const Matrix *m, int64_t row, const Vectors *v, float *sums) {
    enum { STRETCH = 256 };
    int64_t row_bytes = matrix_row_bytes(m);
    int64_t stretch_bytes = row_bytes * STRETCH / m->cols;
    vf sum[VECTORS_IN_PLACE][2] = {{{0}}};
    float rest[VECTORS_IN_PLACE] = {0};
    float widened[STRETCH];
    for (int64_t col = 0, n; col < m->cols; col += n) {
        n = m->cols - col < STRETCH ? m->cols - col : STRETCH;
        const uint8_t *at = (const uint8_t *)m->data + row * row_bytes + row_bytes * col / m->cols;
        for (int64_t i = 0; i < stretch_bytes; i += 64) prefetch_ahead(at + i);
        matrix_row(m, row, col, n, widened);
        for (int64_t t = 0; t < v->n; t++) {
            const float *x = v->x + t * v->cols + col;
            int64_t i = 0;
            for (; i + 2 * LANES <= n; i += 2 * LANES)
                UNROLLED (j, 2)
                    sum[t][j] += load(widened + i + j * LANES) * load(x + i + j * LANES);
            for (; i < n; i++) rest[t] += widened[i] * x[i];
        }
    }
    for (int64_t t = 0; t < v->n; t++)
        sums[t * ROWS_IN_PLACE] = sum_lanes(sum[t][0] + sum[t][1]) + rest[t];
}

void multiply_float_rows(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v,
                         float *sums) {
    for (int64_t r = 0; r < n_rows; r++) {
        if (m->type > WEIGHT_BF16) {
            widened_row_dots(m, row + r, v, sums + r);
            continue;
        }
        for (int64_t t = 0; t < v->n; t++)
            sums[t * ROWS_IN_PLACE + r] = float_row_dot(m, row + r, v->x + t * v->cols);
    }
}

typedef struct {
    const Matrix *m;
    int64_t row, n_rows;
    const Vectors *v;
    float *sums;
} Int8Rows;

ALWAYS_INLINE void int8_rows(WeightType type, const void *given) {
    const Int8Rows *g = given;
    for (int64_t t = 0; t < g->v->n; t++)
        for (int64_t r = 0; r < g->n_rows; r++)
            g->sums[t * ROWS_IN_PLACE + r] = int8_row_dot(type, g->m, g->row + r, g->v, t);
}

void multiply_int8_rows(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v,
                        float *sums) {
    int64_t left = packed_rows(m) - row;
    int64_t packed = left < 0 ? 0 : left < n_rows ? left : n_rows;
    if (packed > 0) multiply_packed_rows(m, row, packed, v, sums);
    if (packed == n_rows) return;
    Int8Rows given = {m, row + packed, n_rows - packed, v, sums + packed};
    for_type(m->type, int8_rows, &given);
}
