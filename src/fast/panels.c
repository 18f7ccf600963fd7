// Many vectors: 64 rows of weights are unpacked into a panel, a block of columns at a time, and
// arithmetic is the limit. The panel is transposed, so that a register holds the same column (or
// four columns of int8) of neighboring rows. It stays in the first-level cache while all vectors go
// by. A panel of fewer rows repeats its last row.
//
// float32 runs at 68 % of the multipliers' peak, and the tiles alone at 90 %. On AVX2, numbers of 8
// bits take four instructions for 4 columns of 8 rows, two of them multiplications. Other ways take
// as many: weights without signs times activations with theirs, as in ik_llama.cpp; upper and lower
// nibbles, each added up in 16 bits; seven bits and the eighth apart takes five. Two products of
// 127 times 127 need 17 bits. Strassen's and Winograd's products gained 2 to 6 % in loops of their
// own. Instructions for 256 columns, 8 rows and a vector: Q4_K 237, Q4_0 and MXFP4 254, Q5_K 273,
// Q6_K 302, IQ4_NL, IQ4_XS and Q8_0 422, IQ5_K 459.
#include <string.h>

#include "kernels.h"
#include "matmul.h"
#include "product.h"

// Prefetches the next input of unpacking: `bytes` bytes of each row from `at` on, or of the next 64
// rows if `at` is its end.
static void prefetch_block(const Matrix *m, int64_t row, int64_t row_bytes, int64_t at,
                           int64_t bytes) {
    int64_t offset = at < row_bytes ? row * row_bytes + at : (row + PANEL_ROWS) * row_bytes;
    const uintptr_t first = (uintptr_t)m->data + (uintptr_t)offset;
    for (int64_t r = 0; r < PANEL_ROWS; r++)
        for (int64_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(first + (uintptr_t)(r * row_bytes + i)));
}

enum {
    // AVX-512 with VNNI keeps a tile's results in registers for a super-block, if it is three
    // vectors by a whole panel.
    HOLDS_RESULTS = PANEL_ROWS == TILE_VECS * LANES && Q8_DOT == BYTES,
    TILE_VECTORS = HOLDS_RESULTS ? 3 : TILE_ROWS,
};

// The loop of a kind of panel, as constants. Stretches of 16 or 32 columns, or 64 in q8, are added
// up as whole numbers, and then meet their scale. SHORTS add up as many as fit in 16 bits: half of
// 32 products in each of a lane's two sums, or half of 16.
//
//     weights               | sums begin at         | largest sum
//     0 to 15               | 0                     | 16 * 15 * 127 = 30,480
//     0 to 31               | 0                     | 8 * 31 * 127 = 31,496
//     0 to 31 less 16       | -16 times the values  | 16 * 16 * 127 = 32,512
//     0 to 63 less 32       | -32 times the values  | 8 * 32 * 127 = 32,512
//
// A sum may leave 16 bits on its way, if it ends within them.
typedef struct {
    Dot how;
    int stretch;     // columns that are added up
    int columns;     // that share a scale
    bool has_start;  // sums begin at minus the zero of the weights times the sum of the values
} Loop;

// A super-block of 64 rows. Four columns of a row lie together, or two as int16, as dot_bytes takes
// them.
typedef struct {
    uint8_t values[SUPER_BLOCK / (HAS_PAIRS ? 2 : 4)][PANEL_ROWS][4];
    // for every stretch of columns that has a scale
    float scales[16][PANEL_ROWS], offsets[16][PANEL_ROWS];
    Unpacked rows[LANES];  // before they are transposed
    int64_t index;         // of the super-block in its rows
    int zero_bits;         // see Layout
} Int8Panel;

// Transposes a square of 32-bit elements: column i of the rows becomes row i of `to`. Weights come
// as dot_bytes takes them.
ALWAYS_INLINE void transpose_into(float *to, const vf rows[LANES], bool are_weights) {
    vf square[LANES];
    memcpy(square, rows, sizeof square);
    transpose(square);
    for (int i = 0; i < LANES; i++)
        store(to + i * PANEL_ROWS, are_weights ? (vf)in_panel((vb)square[i]) : square[i]);
}

// The values of panel->rows, LANES rows, as columns of the panel from row r0 on.
static inline void transpose_values(Dot how, Int8Panel *panel, int r0) {
    vf square[LANES];
    for (int i = 0; i < SUPER_BLOCK / LANES / (how == PAIRS ? 2 : 4); i++) {
        for (int r = 0; r < LANES; r++) {
            const uint8_t *q = panel->rows[r].q;
            square[r] = (vf)(how == PAIRS ? load_pairs(q, i) : load_bytes(q + 4 * LANES * i));
        }
        transpose_into((float *)(void *)panel->values[i * LANES][r0], square, true);
    }
}

// Their scales, and the offsets that the layout has.
static inline void transpose_scales(Dot how, const Layout *layout, Int8Panel *panel, int r0) {
    float unit = how == PAIRS ? 1.0f / PAIRS_UNIT : 1;
    vf square[LANES];
    for (int s = 0; s < SUPER_BLOCK / layout->columns; s += LANES) {
        for (int r = 0; r < LANES; r++) square[r] = load(panel->rows[r].scales + s) * unit;
        transpose_into(panel->scales[s] + r0, square, false);
        if (!layout->has_offset) continue;
        for (int r = 0; r < LANES; r++) square[r] = load(panel->rows[r].offsets + s);
        transpose_into(panel->offsets[s] + r0, square, false);
    }
}

static inline void unpack_int8(Dot how, const Matrix *m, int64_t row, int64_t n_rows,
                               Int8Panel *panel) {
    const Layout *layout = &layouts[m->type];
    int64_t left = m->cols - panel->index * SUPER_BLOCK;
    int n_columns = left < SUPER_BLOCK ? (int)left : SUPER_BLOCK;
    panel->zero_bits = zero_bits_of(m->type);
    if (panel->zero_bits && IN_PAIRS) panel->zero_bits += 8;  // PAIRS_UNIT
    for (int r0 = 0; r0 < PANEL_ROWS; r0 += LANES) {
        if (r0 + LANES <= n_rows && row + r0 + LANES <= packed_rows(m)) {
            PanelShare to = {(void *)panel->values[0][r0], (void *)(panel->scales[0] + r0),
                             (void *)(panel->offsets[0] + r0)};
            unpack_packed_rows(m, row + r0, panel->index, to);
            continue;
        }
        for (int r = 0; r < LANES; r++) {
            SuperBlockCopy copy;
            Unpacked *to = &panel->rows[r];
            int64_t from = row + (r0 + r < n_rows ? r0 + r : n_rows - 1);
            SuperBlock at = super_block_at(m, from, panel->index, &copy);
            unpack_super_block(m->type, at, 0, n_columns, to);
            if (n_columns < SUPER_BLOCK) memset(to->q + n_columns, 0, SUPER_BLOCK - n_columns);
        }
        transpose_values(how, panel, r0);
        transpose_scales(how, layout, panel, r0);
    }
}

// Where the sums of each stretch begin: minus the zero of the weights, if they have one, times
// the sum of the values.
ALWAYS_INLINE void fill_starts(Loop loop, int zero_bits, const Rounded *x,
                               int32_t starts[2 * PARTS]) {
    int count = SUPER_BLOCK / loop.stretch;
    memset(starts, 0, 2 * PARTS * sizeof *starts);
    if (zero_bits == 0) return;
    for (int s = 0; s < count && loop.stretch == 64; s++)
        starts[s] = (x->part_starts[2 * s] + x->part_starts[2 * s + 1]) * (1 << zero_bits);
    for (int s = 0; s < count && loop.stretch < 64; s += LANES) {
        const int32_t *sums = loop.stretch == 32 ? x->part_starts : x->half_starts;
        const void *pairs = loop.stretch == 32 ? x->part_pairs : x->half_pairs;
        vi of_all = (vi)load(sums + s) << zero_bits;
        vi of_pairs = (vi)((vs)load((const int32_t *)pairs + s) << zero_bits);
        bool in_pairs = loop.how == SHORTS && SUMS_OF_PAIRS;
        store(starts + s, (vf)(in_pairs ? of_pairs : of_all));
    }
}

// Prefetches the next tile's part of a vector, which may be past the last one. All vectors are more
// than a second-level cache holds, and a processor looks less far ahead than a tile.
ALWAYS_INLINE void prefetch_vector(Loop loop, const Rounded *x, int from, int end) {
    uintptr_t values = (uintptr_t)x->values + (loop.how == PAIRS ? SUPER_BLOCK : 0);
    int bytes = loop.stretch * (loop.how == PAIRS ? 2 : 1);
    for (int i = from * bytes; i < end * bytes; i += 64)
        __builtin_prefetch((const void *)(values + (uintptr_t)i));
    __builtin_prefetch((const void *)(uintptr_t)x->scales);
    if (!loop.has_start) return;
    __builtin_prefetch((const void *)(uintptr_t)x->part_starts);
    __builtin_prefetch((const void *)(uintptr_t)x->part_pairs);
}

ALWAYS_INLINE void load_results(int m, vf held[TILE_ROWS][TILE_VECS], const float *sums) {
    UNROLLED (i, m)
        UNROLLED (j, TILE_VECS) held[i][j] = load(sums + i * PANEL_ROWS + j * LANES);
}

ALWAYS_INLINE void store_results(int m, vf held[TILE_ROWS][TILE_VECS], float *sums) {
    UNROLLED (i, m)
        UNROLLED (j, TILE_VECS) store(sums + i * PANEL_ROWS + j * LANES, held[i][j]);
}

// sums of m vectors += group q of a stretch's columns, four or two, from row r0 of the panel on.
ALWAYS_INLINE void add_group(int m, Loop loop, const Rounded *x, const Int8Panel *panel, int s,
                             int q, int r0, bool is_first, vi sum[TILE_ROWS][TILE_VECS]) {
    int bytes = loop.stretch * (loop.how == PAIRS ? 2 : 1);
    int from = (loop.how == PAIRS ? SUPER_BLOCK : 0) + s * bytes + 4 * q;
    vb w[TILE_VECS];
    UNROLLED (j, TILE_VECS) w[j] = load_bytes(panel->values[s * bytes / 4 + q][r0 + j * LANES]);
    UNROLLED (i, m) {
        vb four = splat_lane(x[i].values + from);
        UNROLLED (j, TILE_VECS)
            sum[i][j] = is_first ? start_sum(loop.how, loop.has_start, sum[i][j], w[j], four)
                                 : dot_bytes(loop.how, sum[i][j], w[j], four);
    }
}

// sums (m, PANEL_ROWS) += m vectors times stretches of the panel from `from` to before `end`.
// Inlined: sum, held are registers.
ALWAYS_INLINE void int8_tile(int m, Loop loop, const Rounded *x, const Int8Panel *panel, int from,
                             int end, float *sums) {
    int groups = loop.stretch * (loop.how == PAIRS ? 2 : 1) / 4;
    bool in_whole = loop.how == SHORTS && !SUMS_OF_PAIRS;  // where starts are added
    bool in_sum = loop.has_start && !in_whole;
    vf held[TILE_ROWS][TILE_VECS];
    int32_t starts[TILE_ROWS][2 * PARTS];
    if (loop.has_start)
        UNROLLED (i, m) fill_starts(loop, panel->zero_bits, &x[i], starts[i]);
    load_results(m, held, sums);
    UNROLLED (i, m) prefetch_vector(loop, &x[i + m], from, end);
    for (int s = from; s < end; s++) {
        for (int r0 = 0; r0 < PANEL_ROWS; r0 += TILE_VECS * LANES) {
            vi sum[TILE_ROWS][TILE_VECS];
            UNROLLED (i, m) {
                vi start = in_sum ? splat_int(starts[i][s]) : (vi){0};
                UNROLLED (j, TILE_VECS) sum[i][j] = start;
            }
            add_group(m, loop, x, panel, s, 0, r0, true, sum);
            for (int q = 1; q < groups; q++) add_group(m, loop, x, panel, s, q, r0, false, sum);
            const float *scales_at = panel->scales[s * loop.stretch / loop.columns];
            vf scales[TILE_VECS];
            UNROLLED (j, TILE_VECS) scales[j] = load(scales_at + r0 + j * LANES);
            UNROLLED (i, m) {
                float x_scale = x[i].scales[s * loop.stretch / PART];
                UNROLLED (j, TILE_VECS) {
                    float *out = sums + i * PANEL_ROWS + r0 + j * LANES;
                    vi whole = whole_sums(loop.how, sum[i][j]);
                    if (in_whole) whole += splat_int(starts[i][s]);
                    if (!HOLDS_RESULTS) held[i][j] = load(out);
                    held[i][j] = multiply_add(to_float(whole), scales[j] * x_scale, held[i][j]);
                    if (!HOLDS_RESULTS) store(out, held[i][j]);
                }
            }
        }
    }
    if (HOLDS_RESULTS) store_results(m, held, sums);
}

ALWAYS_INLINE void multiply_panel(Loop loop, const Vectors *v, const Int8Panel *panel,
                                  float *sums) {
    const Rounded *x = v->rounded + panel->index * v->n;
    // All vectors go by a part of the panel before the next one: 8 KB, which stays in a first-level
    // cache of 32 KB that two threads may share.
    int count = SUPER_BLOCK / loop.stretch;
    int step = HOLDS_RESULTS ? count : loop.how == PAIRS ? count / 4 : count / 2;
    for (int from = 0; from < count; from += step)
        for (int64_t t = 0; t < v->n; t += TILE_VECTORS) {
            float *out = sums + t * PANEL_ROWS;
            int end = from + step;
            switch (v->n - t < TILE_VECTORS ? v->n - t : TILE_VECTORS) {
            case 1: int8_tile(1, loop, x + t, panel, from, end, out); break;
            case 2: int8_tile(2, loop, x + t, panel, from, end, out); break;
            case 3: int8_tile(3, loop, x + t, panel, from, end, out); break;
            case 4: int8_tile(4, loop, x + t, panel, from, end, out); break;
            case 5: int8_tile(5, loop, x + t, panel, from, end, out); break;
            default: int8_tile(6, loop, x + t, panel, from, end, out);
            }
        }
}

// A function for each loop: in one that has all of them gcc finds fewer registers.
typedef void PanelLoop(const Vectors *v, const Int8Panel *panel, float *sums);
#define LOOP(name, ...)                                                                            \
    static __attribute__((noinline)) void name(const Vectors *v, const Int8Panel *panel,           \
                                               float *sums) {                                      \
        multiply_panel((Loop){__VA_ARGS__}, v, panel, sums);                                       \
    }
enum { STARTS = !SUMS_OF_PAIRS };  // if sums are of pairs, numbers of 8 bits have signs
LOOP(bytes_of_64, (Dot)Q8_DOT, 64, 64, STARTS)
LOOP(bytes_of_32, (Dot)Q8_DOT, 32, 32, STARTS)
LOOP(bytes_of_16, (Dot)Q8_DOT, 16, 16, STARTS)
LOOP(shorts_of_32, SHORTS, 32, 32, false)
LOOP(shorts_of_32_less_zero, SHORTS, 32, 32, true)
LOOP(shorts_of_two_16, SHORTS, 16, 32, false)
LOOP(shorts_of_16, SHORTS, 16, 16, false)
LOOP(shorts_of_16_less_zero, SHORTS, 16, 16, true)

static PanelLoop *loop_for(const Layout *layout, Dot how, bool has_zero) {
    bool has_start = STARTS || has_zero;
    if (layout->columns == 64) return bytes_of_64;
    if (layout->columns == 32) {
        if (how != SHORTS) return bytes_of_32;
        if (has_start) return shorts_of_32_less_zero;
        return layout->bits <= 4 ? shorts_of_32 : shorts_of_two_16;  // as many as fit in 16 bits
    }
    if (how != SHORTS) return bytes_of_16;
    return has_start ? shorts_of_16_less_zero : shorts_of_16;
}

void multiply_int8_panel(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v,
                         float *sums) {
    const Layout *layout = &layouts[m->type];
    const Dot how = dot_of_bits(layout->bits);
    int64_t row_bytes = matrix_row_bytes(m);
    int64_t count = super_blocks_of(m->cols);
    Int8Panel *panel = v->panel;
    Gemm offsets = {
        .m = v->n,
        .n = PANEL_ROWS,
        .k = SUPER_BLOCK / layout->columns,
        .a_stride = sizeof(Rounded) / sizeof(float),
        .b = panel->offsets,
        .b_type = NUMBER_F32,
        .b_stride = PANEL_ROWS,
        .c = sums,
    };
    memset(sums, 0, v->n * PANEL_ROWS * sizeof *sums);
    for (panel->index = 0; panel->index < count; panel->index++) {
        const Rounded *x = v->rounded + panel->index * v->n;
        int64_t next = (panel->index + 1) * SUPER_BLOCK;
        unpack_int8(how, m, row, n_rows, panel);
        prefetch_block(m, row, row_bytes, row_bytes * next / m->cols,
                       row_bytes * SUPER_BLOCK / m->cols);
        loop_for(layout, how, panel->zero_bits)(v, panel, sums);
        offsets.a = layout->columns == 16 ? x->half_sums : x->sums;
        if (layout->has_offset) gemm_accumulate(&offsets);
    }
}

enum { BLOCK_COLUMNS = 128 };

// A block of weights as float32, in a first-level cache.
typedef struct {
    float columns[BLOCK_COLUMNS][PANEL_ROWS];  // 32 KB
    float rows[LANES][BLOCK_COLUMNS];          // widened, before they are transposed
} FloatPanel;
_Static_assert(sizeof(FloatPanel) <= PANEL_BYTES && sizeof(Int8Panel) <= PANEL_BYTES,
               "they have room");

// Columns [col, col + n) of a row as float32: in place if possible, else widened into `memory`.
static const float *float_row(const Matrix *m, int64_t row, int64_t col, int64_t n, float *memory) {
    if (m->type == WEIGHT_F32 && n % LANES == 0)
        return (const float *)m->data + row * m->cols + col;
    matrix_row(m, row, col, n, memory);
    return memory;
}

// n columns from `col` on. Up to a multiple of LANES the panel's last columns are undefined, and
// not multiplied.
static void unpack_float(const Matrix *m, int64_t row, int64_t n_rows, int64_t col, int64_t n,
                         FloatPanel *panel) {
    for (int64_t r0 = 0; r0 < PANEL_ROWS; r0 += LANES) {
        const float *rows[LANES];
        for (int64_t r = 0; r < LANES; r++) {
            int64_t from = row + (r0 + r < n_rows ? r0 + r : n_rows - 1);
            rows[r] = float_row(m, from, col, n, panel->rows[r]);
        }
        for (int64_t i = 0; i < n; i += LANES) {
            vf square[LANES];
            for (int j = 0; j < LANES; j++) square[j] = load(rows[j] + i);
            transpose(square);
            for (int j = 0; j < LANES; j++) store(panel->columns[i + j] + r0, square[j]);
        }
    }
}

void multiply_float_panel(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v,
                          float *sums) {
    int64_t row_bytes = matrix_row_bytes(m);
    int64_t step = BLOCK_COLUMNS;
    FloatPanel *panel = v->panel;
    memset(sums, 0, v->n * PANEL_ROWS * sizeof *sums);
    for (int64_t col = 0; col < m->cols; col += step) {
        int64_t k = m->cols - col < step ? m->cols - col : step;
        unpack_float(m, row, n_rows, col, k, panel);
        prefetch_block(m, row, row_bytes, row_bytes * (col + k) / m->cols,
                       row_bytes * step / m->cols);
        gemm_accumulate(&(Gemm){
            .m = v->n,
            .n = PANEL_ROWS,
            .k = k,
            .a = v->x + col,
            .a_stride = v->cols,
            .b = panel->columns,
            .b_type = NUMBER_F32,
            .b_stride = PANEL_ROWS,
            .c = sums,
        });
    }
}
