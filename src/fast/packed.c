// Few vectors by rows that lie side by side. A register has the same four columns of BAND_ROWS
// rows, or eight, and a vector's columns are brought to all lanes. So a lane adds up one row, and
// the scales of all rows are in one register, too.
//
// Whatever the width of a register, memory is read as one stream: with sixteen rows in a register,
// from two groups at once, Q6_K ran at 20 GB/s instead of 33 (one thread of Zen 5). From memory all
// types but IQ5_K run at its speed. Instructions for 256 weights and one vector on AVX2 (gcc 12,
// counted by callgrind, including all costs of a row of 2,048): Q4_0 53, Q5_0 82, Q4_K 64, Q5_K
// 100, Q6_K 103, IQ4_XS 92, IQ4_NL 81, MXFP4 70, IQ5_K 148, Q8_0 68.
#include "packed.h"

// Clang does not unroll loops that would become too long.
#pragma clang diagnostic ignored "-Wpass-failed"

#include <string.h>

#include "kernels.h"
#include "product.h"

// Prefetches the share of a register, word i of a run and the next, in a super-block's bytes. With
// the register, x, so that prefetches are spread evenly over a super-block.
ALWAYS_INLINE vb prefetch_part(WeightType type, Band band, int run, int i, vb x) {
    int64_t bytes = group_bytes(type), words = runs_of(type) * words_of_run(type);
    int64_t word = run * words_of_run(type) + i, line = 64;
    int64_t first = (word * bytes / words + line - 1) / line;
    int64_t end = ((word + WORDS) * bytes / words + line - 1) / line;
    UNROLLED (k, 3) {
        if (first + k < end) x = prefetch_pinned(x, band.at + (first + k) * line);
    }
    return x;
}

// The number of registers that are added up in 16 bits, of 8, 4 or 1 words: of numbers up to 15, 31
// and 128. Q6_K's are between -32 and 31, as its sums begin at minus the zero's share; only the
// last sum of four need fit.
ALWAYS_INLINE int shorts_of(WeightType type) {
    int bits = layouts[type].bits;
    return bits <= 4 ? 8 / WORDS : bits <= 6 ? 4 / WORDS : 1;
}

// If a register has two words of a row, the row's sums are in two lanes, and single summands are
// added to both by half.
enum { HALVED = WORDS - 1 };

// The sums of a run for each of its parts: times scales, unless these meet the sums later. Those
// have a number for each half of a part with its own scales.
typedef struct {
    vi scaled[2], whole[2][2];
    vs shorts[2];
    vb word;  // all of its halves
} RunSums;

// Adds a half of word i of a run, and of the next where a register has it, to its part's sums.
ALWAYS_INLINE void add_of_words(WeightType type, Band band, int run, int i, int upper,
                                const int8_t *x, const InLanes *lanes, const PackedScales *s,
                                RunSums *to) {
    bool by_halves = layouts[type].columns == 16;
    int column = run_column(type, run, upper, i);
    int p = column / PART;
    int half = by_halves ? column % PART / 16 : 0;
    int part = parts_of_run(type) == 1 ? 0 : upper;
    bool are_one_part = halves_of_word(type) > parts_of_run(type);
    int count = are_one_part ? 2 * (i / WORDS) + upper : i / WORDS;  // words before it
    int most = shorts_of(type);
    Columns columns = load_columns(packed_dot(type), x, column);
    if (upper == 0) {
        vb word = in_register(numbers_of_rows(type, band, run, i));
        to->word = prefetch_part(type, band, run, i, word);
    }
    vb q = packed_numbers(type, band, run, upper, i, to->word);
    if (!SUMS_OF_PAIRS) {
        if (type == WEIGHT_IQ5_K) q += packed_shift(s, 2 * p + half);
        to->whole[part][half] = dot_rows(packed_dot(type), to->whole[part][half], q, columns);
        return;
    }
    vs *shorts = &to->shorts[part];
    bool has_start = type == WEIGHT_Q6_K;
    if (has_start && count % most == 0)
        *shorts = (vs)splat_lane(lanes->q6_starts[2 * p + half]) >> HALVED;
    bool are_first = !has_start && count % most == 0;
    *shorts = short_sums(*shorts, q, columns.even, is_int8(type), are_first);
    if (count % most != most - 1) return;
    vi scale = packed_scale(type, s, by_halves ? 2 * p + half : p, true);
    vi scaled = times_short(*shorts, scale);
    to->scaled[part] = count < most ? scaled : to->scaled[part] + scaled;
}

// Minus the shifts' share of a part's scaled sums.
ALWAYS_INLINE vi shifts_of(const InLanes *lanes, const PackedScales *s, int p) {
    vi minus_sums = (vi)splat_lane(&lanes->half_shorts[2 * (int64_t)p]);
    vi own = (vi){0} + (1 << 2 * p | (int)(2u << 2 * p << 16));
    vs shifted = (vs)((s->shifted | s->shifted << 16) & (vu)own) == (vs)own;
    vi scales = (packed_scale(WEIGHT_IQ5_K, s, 2 * p, true) & 0xffff) |
                (packed_scale(WEIGHT_IQ5_K, s, 2 * p + 1, true) & ~0xffff);
    return times_short((vs)minus_sums, scales & (vi)shifted) << (1 - HALVED);
}

// A part of a run as float32, for s->d.
ALWAYS_INLINE vf part_sums(WeightType type, const RunSums *of, int part, int p, const Rounded *x,
                           const InLanes *lanes, const PackedScales *s) {
    int zero_bits = zero_bits_of(type);
    bool by_halves = layouts[type].columns == 16;
    if (SUMS_OF_PAIRS) {
        vi sums = of->scaled[part];
        if (type == WEIGHT_IQ5_K) sums -= shifts_of(lanes, s, p);
        if (zero_bits && !by_halves) sums += splat_int(x->part_starts[p]) << (zero_bits - HALVED);
        return to_float(sums);
    }
    vf sums = {0};
    UNROLLED (half, 2) {
        int k = by_halves ? 2 * p + half : p;
        const int32_t *minus_sum = by_halves ? &x->half_starts[k] : &x->part_starts[k];
        vi whole = whole_sums(packed_dot(type), of->whole[part][half]);
        if (zero_bits) whole += splat_int(*minus_sum) << (zero_bits - HALVED + (IN_PAIRS ? 8 : 0));
        vf scaled = to_float(whole) * to_float(packed_scale(type, s, k, false));
        if (half == 0 || by_halves) sums += scaled;
    }
    return sums;
}

// The sums of a super-block: for s->d and s->dm, unless its runs have their own scales.
typedef struct {
    vf products, offsets;
} BlockSums;

ALWAYS_INLINE void add_run(WeightType type, Band band, int run, const Rounded *x,
                           const InLanes *lanes, const PackedScales *s, BlockSums *to) {
    const int8_t *values = IN_PAIRS ? x->values + SUPER_BLOCK : x->values;
    RunSums of = {0};
    UNROLLED (i, words_of_run(type) / WORDS)
        UNROLLED (upper, halves_of_word(type))
            add_of_words(type, band, run, i * WORDS, upper, values, lanes, s, &of);
    UNROLLED (part, parts_of_run(type)) {
        int p = run_column(type, run, part, 0) / PART;
        vf sums = part_sums(type, &of, part, p, x, lanes, s);
        if (is_run_a_block(type)) sums *= run_scales(type, band, run);
        to->products += sums * x->scales[p];
        if (!layouts[type].has_offset) continue;
        if (is_run_a_block(type)) to->offsets += run_offsets(type, band, run) * x->sums[p];
        else to->offsets -= packed_minimum(s, p) * x->sums[p];
    }
}

// sum += a super-block of a band times a vector's; of the last one `left` runs, or 0: all.
ALWAYS_INLINE vf add_packed(WeightType type, Band band, int left, const Rounded *x,
                            const InLanes *lanes, vf sum) {
    PackedScales s = packed_scales(type, band);
    BlockSums of = {.products = {0}};
    for (int run = 0; run < left; run++) add_run(type, band, run, x, lanes, &s, &of);
    if (left == 0)
        UNROLLED (run, runs_of(type)) add_run(type, band, run, x, lanes, &s, &of);
    if (IN_PAIRS) of.products *= 1.0f / PAIRS_UNIT;
    bool has_own = is_run_a_block(type);
    of.offsets *= 1.0f / WORDS;
    sum += has_own ? of.products : of.products * s.d;
    if (layouts[type].has_offset) sum += has_own ? of.offsets : of.offsets * s.dm;
    return sum;
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
    for (int64_t t = 0; t < g->v->n; t++)
        for (int64_t r = 0; r < g->n_rows; r += BAND_ROWS) {
            const Rounded *x = g->v->rounded + t;
            const InLanes *lanes = g->v->in_lanes + t;
            Band band = band_at(g->m, g->row + r, row_bytes);
            vf sum = {0};
            for (int64_t i = 0; i < whole; i++, x += g->v->n, lanes += g->v->n) {
                sum = add_packed(type, band, 0, x, lanes, sum);
                band.at += group_bytes(type);
            }
            // Other types have whole super-blocks.
            if (is_run_a_block(type) && left > 0) sum = add_packed(type, band, left, x, lanes, sum);
            store_rows(g->sums + t * ROWS_IN_PLACE + r, sums_of_rows(sum));
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

ALWAYS_INLINE void unpack_values(WeightType type, Band band, int run, const PackedScales *s,
                                 PanelShare to) {
    UNROLLED (i, words_of_run(type) / WORDS)
        UNROLLED (half, halves_of_word(type)) {
            vb numbers = numbers_of_rows(type, band, run, i * WORDS);
            vb q = packed_numbers(type, band, run, half, i * WORDS, numbers);
            int word = run_column(type, run, half, i * WORDS) / 4;
            if (type == WEIGHT_IQ5_K) q += packed_shift(s, word / 4);
            if (packed_dot(type) != PAIRS) {
                store_words(to.values[word], to.values[word + 1], in_panel(q));
                continue;
            }
            int first = LANES == 4 ? word / 4 * 8 + word % 4 : 2 * word;
            int second = first + (LANES == 4 ? 4 : 1);
            store_words(to.values[first], to.values[first + 2], widened_half(q, 0));
            store_words(to.values[second], to.values[second + 2], widened_half(q, 1));
        }
}

ALWAYS_INLINE void unpack_panel(WeightType type, const void *given) {
    const PackedPanel *g = given;
    const Layout *layout = &layouts[type];
    PackedScales s = packed_scales(type, g->band);
    float unit = packed_dot(type) == PAIRS ? 1.0f / PAIRS_UNIT : 1;
    for (int run = 0; run < g->runs; run++) unpack_values(type, g->band, run, &s, g->to);
    int scales = g->runs * parts_of_run(type) * PART / layout->columns;
    UNROLLED (k, 2 * PARTS) {
        if (k < scales) {
            vf scale = is_run_a_block(type) ? run_scales(type, g->band, k)
                                            : to_float(packed_scale(type, &s, k, false)) * s.d;
            store_rows(g->to.scales[k], scale * unit);
            if (!layout->has_offset) continue;
            vf offset = is_run_a_block(type) ? run_offsets(type, g->band, k)
                                             : packed_minimum(&s, k) * -s.dm;
            store_rows(g->to.offsets[k], offset);
        }
    }
}

void unpack_packed_rows(const Matrix *m, int64_t row, int64_t index, PanelShare to) {
    int64_t left = m->cols - index * SUPER_BLOCK;
    int columns = left < SUPER_BLOCK ? (int)left : SUPER_BLOCK;
    int words = PARTS * PART / 4 * (packed_dot(m->type) == PAIRS ? 2 : 1);
    for (int i = columns < SUPER_BLOCK ? 0 : words; i < words; i++) {
        store(to.values[i], (vf){0});
        if (i < PARTS) store(to.scales[i], (vf){0});
        if (i < PARTS) store(to.offsets[i], (vf){0});
    }
    for (int r = 0; r < LANES; r += BAND_ROWS) {
        Band band = band_at(m, row + r, matrix_row_bytes(m));
        band.at += index * group_bytes(m->type);
        PanelShare share = {(void *)to.values[0][r], (void *)(to.scales[0] + r),
                            (void *)(to.offsets[0] + r)};
        PackedPanel given = {band, columns / PART / parts_of_run(m->type), share};
        for_packed_type(m->type, unpack_panel, &given);
    }
}
