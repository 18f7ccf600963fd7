// Few vectors by rows that lie side by side. A register has the same four columns of LANES rows, and a
// vector's four columns are brought to all lanes. So a lane adds up one row, and scales of all rows
// are in one register, too.
#include "packed.h"

#include <string.h>

#include "kernels.h"
#include "product.h"

// Prefetches a run's share of the bytes of a super-block.
ALWAYS_INLINE void prefetch_run(WeightType type, Band band, int run) {
    int share = packed_bytes(type) / runs_of(type);
    for (int i = 0; i < share; i += 64) {
        prefetch_ahead(band.at + run * share + i);
        if (band.next) prefetch_ahead(band.at + band.next + run * share + i);
    }
}

// What a run's stretches of columns with a scale of their own add up to: whole[half][i / 4].
ALWAYS_INLINE void dot_run(WeightType type, Band band, int run, const int8_t *x, vi whole[2][2]) {
    Dot how = packed_dot(type);
    UNROLLED (i, words_of_run(type) / 2)
        UNROLLED (half, 2) {
            vb q[2];
            bool by_halves = layouts[type].columns == 16;
            vi *sum = &whole[is_nibbles(type) ? 0 : half][by_halves ? i / 2 : 0];
            UNROLLED (k, 2) q[k] = packed_numbers(type, band, run, half, 2 * i + k);
            *sum = dot_rows_twice(how, *sum, q, x, column_of(type, run, half, 2 * i));
        }
}

// sum += a super-block of `runs` runs of a band times a vector's.
ALWAYS_INLINE vf add_packed(WeightType type, Band band, int runs, const Rounded *x, vf sum) {
    const Layout *layout = &layouts[type];
    Dot how = packed_dot(type);
    int zero_bits = zero_bits_of(type) ? zero_bits_of(type) + (IN_PAIRS ? 8 : 0) : 0;
    int stretches = layout->columns == 16 ? 2 : 1;
    const int8_t *values = IN_PAIRS ? x->values + SUPER_BLOCK : x->values;
    PackedScales s = packed_scales(type, band);
    vf products = {0};
    vf minima = {0};
    UNROLLED (run, 8) {
        if (run >= runs) break;
        vi whole[2][2] = {{{0}}};
        prefetch_run(type, band, run);
        dot_run(type, band, run, values, whole);
        UNROLLED (part, parts_of_run(type)) {
            int p = column_of(type, run, part, 0) / PART;
            vf scaled = {0};
            UNROLLED (i, stretches) {
                int k = p * stretches + i;
                int32_t minus_sum = stretches == 2 ? x->half_starts[k] : x->part_starts[k];
                vi dots = whole_sums(how, whole[part][i]);
                if (zero_bits) dots += minus_sum * (1 << zero_bits);
                if (type == WEIGHT_Q4_0) scaled = to_float(dots) * halves_of_rows(band, run * 144);
                else scaled += to_float(dots) * packed_scale(type, &s, k);
            }
            products += scaled * x->scales[p];
            if (layout->has_offset) minima += packed_minimum(&s, p) * x->sums[p];
        }
    }
    if (IN_PAIRS) products *= 1.0f / PAIRS_UNIT;
    if (type == WEIGHT_Q4_0) return sum + products;
    sum += products * s.d;
    return layout->has_offset ? sum - minima * s.dm : sum;
}

typedef struct {
    const Matrix *m;
    int64_t row, n_rows;
    const Vectors *v;
    float *sums;
} PackedRows;

ALWAYS_INLINE void packed_rows_of(WeightType type, const void *given) {
    const PackedRows *g = given;
    int64_t row_bytes = matrix_row_bytes(g->m);
    int64_t whole = g->m->cols / SUPER_BLOCK;
    int left = (int)(g->m->cols % SUPER_BLOCK) / PART / parts_of_run(type);
    for (int64_t t = 0; t < g->v->n; t++) {
        for (int64_t r = 0; r < g->n_rows; r += LANES) {
            Band band = band_at(g->m, g->row + r, row_bytes);
            const Rounded *x = g->v->rounded + t;
            vf sum = {0};
            for (int64_t i = 0; i < whole; i++, x += g->v->n, band.at += packed_bytes(type))
                sum = add_packed(type, band, runs_of(type), x, sum);
            if (left > 0) sum = add_packed(type, band, left, x, sum);
            float *out = g->sums + t * ROWS_IN_PLACE + r;
            int64_t n = g->n_rows - r < LANES ? g->n_rows - r : LANES;
            memcpy(out, &sum, n * sizeof *out);
        }
    }
}

void multiply_packed_rows(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v,
                          float *sums) {
    PackedRows given = {m, row, n_rows, v, sums};
    for_packed_type(m->type, packed_rows_of, &given);
}

// ---- panels ----

typedef struct {
    Band band;
    int runs;  // of the super-block
    PanelShare to;
} PackedPanel;

ALWAYS_INLINE void unpack_values(WeightType type, Band band, int run, PanelShare to) {
    UNROLLED (i, words_of_run(type))
        UNROLLED (half, 2) {
            vb q = packed_numbers(type, band, run, half, i);
            int word = column_of(type, run, half, i) / 4;
            if (packed_dot(type) != PAIRS) {
                store(to.values[word], (vf)in_panel(q));
                continue;
            }
            int first = LANES == 4 ? word / 4 * 8 + word % 4 : 2 * word;
            store(to.values[first], (vf)widened_half(q, 0));
            store(to.values[first + (LANES == 4 ? 4 : 1)], (vf)widened_half(q, 1));
        }
}

ALWAYS_INLINE void unpack_panel(WeightType type, const void *given) {
    const PackedPanel *g = given;
    const Layout *layout = &layouts[type];
    PackedScales s = packed_scales(type, g->band);
    float unit = packed_dot(type) == PAIRS ? 1.0f / PAIRS_UNIT : 1;
    for (int run = 0; run < g->runs; run++) unpack_values(type, g->band, run, g->to);
    UNROLLED (k, SUPER_BLOCK / layout->columns) {
        if (k * layout->columns >= g->runs * parts_of_run(type) * PART) break;
        vf scale = type == WEIGHT_Q4_0 ? halves_of_rows(g->band, k * packed_bytes(type) / PARTS)
                                       : packed_scale(type, &s, k) * s.d;
        store(g->to.scales[k], scale * unit);
        if (layout->has_offset) store(g->to.offsets[k], packed_minimum(&s, k) * -s.dm);
    }
}

void unpack_packed_rows(const Matrix *m, int64_t row, int64_t index, PanelShare to) {
    Band band = band_at(m, row, matrix_row_bytes(m));
    int64_t left = m->cols - index * SUPER_BLOCK;
    int columns = left < SUPER_BLOCK ? (int)left : SUPER_BLOCK;
    int words = PARTS * PART / 4 * (packed_dot(m->type) == PAIRS ? 2 : 1);
    band.at += index * packed_bytes(m->type);
    for (int i = columns < SUPER_BLOCK ? 0 : words; i < words; i++) {
        store(to.values[i], (vf){0});
        if (i < PARTS) store(to.scales[i], (vf){0});
    }
    PackedPanel given = {band, columns / PART / parts_of_run(m->type), to};
    for_packed_type(m->type, unpack_panel, &given);
}
