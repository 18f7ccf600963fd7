// Many vectors: 64 rows of weights are unpacked into a panel, a block of columns at a time, and
// arithmetic is the limit. The panel is transposed, so that a register holds the same column (or
// four columns of int8) of neighboring rows. It stays in the first-level cache while all vectors go
// by. A panel of fewer rows repeats its last row.
#include <string.h>

#include "kernels.h"
#include "product.h"
#include "widen.h"

// Prefetches what is unpacked next: `bytes` bytes of each row from `at` on, or of the next 64 rows
// if `at` is its end.
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
    SIXES_VECTORS = LANES == 8 ? 4 : TILE_VECTORS,  // SIXES take registers of their own
};

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

// Minus the sum of stretch s of so many columns.
ALWAYS_INLINE int32_t minus_sum(const Rounded *x, int columns, int s) {
    if (columns == 64) return x->part_starts[2 * s] + x->part_starts[2 * s + 1];
    return columns == 32 ? x->part_starts[s] : x->half_starts[s];
}

// Where the sum of a stretch begins: minus the zero of the weights times the sum of the values.
ALWAYS_INLINE int32_t stretch_start(const Rounded *x, const Int8Panel *panel, int columns, int s) {
    return panel->zero_bits ? minus_sum(x, columns, s) * (1 << panel->zero_bits) : 0;
}

ALWAYS_INLINE void load_results(int m, vf held[TILE_ROWS][TILE_VECS], const float *sums) {
    UNROLLED (i, m)
        UNROLLED (j, TILE_VECS) held[i][j] = load(sums + i * PANEL_ROWS + j * LANES);
}

ALWAYS_INLINE void store_results(int m, vf held[TILE_ROWS][TILE_VECS], float *sums) {
    UNROLLED (i, m)
        UNROLLED (j, TILE_VECS) store(sums + i * PANEL_ROWS + j * LANES, held[i][j]);
}

// sums (m, PANEL_ROWS) += m vectors times the panel; `columns` share a scale. Inlined: sum, held
// are registers.
ALWAYS_INLINE void int8_tile(int m, Dot how, int columns, const Rounded *x, const Int8Panel *panel,
                             float *sums) {
    int stretch_bytes = columns * (how == PAIRS ? 2 : 1);
    int first = how == PAIRS ? SUPER_BLOCK : 0;
    int step = how == SIXES ? 2 : 1;  // groups of four that are multiplied together
    // Weights that are int16 in wide registers have signs.
    bool from_zero = how == NIBBLES || (how == PAIRS && !IN_PAIRS);
    vf held[TILE_ROWS][TILE_VECS];
    load_results(m, held, sums);
    for (int s = 0; s < SUPER_BLOCK / columns; s++) {  // stretches of columns that share a scale
        int32_t starts[TILE_ROWS];
        UNROLLED (i, m) starts[i] = stretch_start(&x[i], panel, columns, s);
        for (int r0 = 0; r0 < PANEL_ROWS; r0 += TILE_VECS * LANES) {
            vi sum[TILE_ROWS][TILE_VECS];
            UNROLLED (i, m)
                UNROLLED (j, TILE_VECS) sum[i][j] = from_zero ? (vi){0} : splat_int(starts[i]);
            for (int q = 0; q < stretch_bytes / 4; q += step) {
                vb w[2][TILE_VECS];
                UNROLLED (k, step) {
                    int group = s * (stretch_bytes / 4) + q + k;
                    UNROLLED (j, TILE_VECS)
                        w[k][j] = load_bytes(panel->values[group][r0 + j * LANES]);
                }
                UNROLLED (i, m) {
                    const int8_t *at = x[i].values + first + s * stretch_bytes + 4 * q;
                    vb four = splat_lane(at);
                    vb next = splat_lane(at + 4 * (step - 1));
                    UNROLLED (j, TILE_VECS)
                        sum[i][j] = step == 2 ? dot_twice(sum[i][j], w[0][j], four, w[1][j], next)
                                              : dot_bytes(how, sum[i][j], w[0][j], four);
                }
            }
            vf scales[TILE_VECS];
            UNROLLED (j, TILE_VECS) scales[j] = load(panel->scales[s] + r0 + j * LANES);
            UNROLLED (i, m) {
                vi start = splat_int(starts[i]);
                float x_scale = x[i].scales[s * columns / PART];
                UNROLLED (j, TILE_VECS) {
                    float *out = sums + i * PANEL_ROWS + r0 + j * LANES;
                    vi whole = sum[i][j];
                    if (how == NIBBLES) whole = whole_sums(how, whole) + start;
                    if (!HOLDS_RESULTS) held[i][j] = load(out);
                    held[i][j] = multiply_add(to_float(whole), scales[j] * x_scale, held[i][j]);
                    if (!HOLDS_RESULTS) store(out, held[i][j]);
                }
            }
        }
    }
    if (HOLDS_RESULTS) store_results(m, held, sums);
}

ALWAYS_INLINE void multiply_panel(Dot how, int columns, const Vectors *v, const Int8Panel *panel,
                                  float *sums) {
    const Rounded *x = v->rounded + panel->index * v->n;
    int64_t most = how == SIXES ? SIXES_VECTORS : TILE_VECTORS;
    for (int64_t t = 0; t < v->n; t += most) {
        float *out = sums + t * PANEL_ROWS;
        switch (v->n - t < most ? v->n - t : most) {
        case 1: int8_tile(1, how, columns, x + t, panel, out); break;
        case 2: int8_tile(2, how, columns, x + t, panel, out); break;
        case 3: int8_tile(3, how, columns, x + t, panel, out); break;
        case 4: int8_tile(4, how, columns, x + t, panel, out); break;
        case 5: int8_tile(5, how, columns, x + t, panel, out); break;
        default: int8_tile(6, how, columns, x + t, panel, out);
        }
    }
}

// The same with constants, so that each kind of panel has its own loop.
static inline void multiply_panel_of(Dot how, int columns, const Vectors *v, const Int8Panel *panel,
                                     float *sums) {
    bool is_q8 = how == (Dot)Q8_DOT;
    bool is_q6 = how == (Dot)Q6_DOT;
    if (columns == 64) multiply_panel((Dot)Q8_DOT, 64, v, panel, sums);
    else if (columns == 32 && is_q8) multiply_panel((Dot)Q8_DOT, 32, v, panel, sums);
    else if (columns == 32 && is_q6) multiply_panel((Dot)Q6_DOT, 32, v, panel, sums);
    else if (columns == 32) multiply_panel((Dot)Q4_DOT, 32, v, panel, sums);
    else if (is_q8 && !is_q6) multiply_panel((Dot)Q8_DOT, 16, v, panel, sums);
    else if (is_q6) multiply_panel((Dot)Q6_DOT, 16, v, panel, sums);
    else multiply_panel((Dot)Q4_DOT, 16, v, panel, sums);
}

static Dot dot_of_bits(int bits) {
    if (bits <= 4) return (Dot)Q4_DOT;
    return bits <= 6 ? (Dot)Q6_DOT : (Dot)Q8_DOT;
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
        multiply_panel_of(how, layout->columns, v, panel, sums);
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

// Columns [col, col + n) of a row as float32: where they lie if they may, else widened into
// `memory`.
static const float *float_row(const Matrix *m, int64_t row, int64_t col, int64_t n, float *memory) {
    if (m->type == WEIGHT_F32 && n % LANES == 0)
        return (const float *)m->data + row * m->cols + col;
    matrix_row(m, row, col, n, memory);
    return memory;
}

// n columns from `col` on. Up to a multiple of LANES the panel's last columns are rubbish, which is
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
