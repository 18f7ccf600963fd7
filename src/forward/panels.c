// Many vectors: 64 rows of weights are unpacked into a panel, a block of columns at a time, and arithmetic is the
// limit. The panel is transposed, so that a register holds the same column (or four columns of int8) of neighbouring
// rows, and stays in the first-level cache while all vectors go by. What a last panel has too many repeats the matrix's
// last row.
#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/matrix_units.h"
#include "product.h"

// Prefetches what will be unpacked next, while the present block is multiplied: `bytes` bytes of each row from `at` on,
// or when the row has no more, the first bytes of the next 64 rows. Rows lie row_bytes apart.
static void prefetch_block(const Matrix *m, int64_t row, int64_t row_bytes, int64_t at, int64_t bytes) {
    const int64_t offset = at < row_bytes ? row * row_bytes + at : (row + PANEL_ROWS) * row_bytes;
    const uintptr_t first = (uintptr_t)m->data + (uintptr_t)offset;
    for (int64_t r = 0; r < PANEL_ROWS; r++)
        for (int64_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(first + (uintptr_t)(r * row_bytes + i)));
}

enum { BLOCK_GROUPS = 4 };  // groups of 64 columns in an int8 panel: 16 KB, or 32 KB as int16

// A block of int8 or 4-bit weights from `first_group` on. Four columns of a row lie together, or two as int16, as dot
// takes them.
typedef struct {
    uint8_t values[BLOCK_GROUPS * Q8_GROUP / (Q8_DOT == PAIRS ? 2 : 4)][PANEL_ROWS][4];
    float scales[2 * BLOCK_GROUPS][PANEL_ROWS];  // for every stretch of columns that has a scale
    int64_t first_group, n_groups;               // last, so that registers are loaded from whole cache lines
} Int8Panel;

ALWAYS_INLINE int columns_per_scale(WeightType type) { return type == WEIGHT_Q4 ? Q4_GROUP : Q8_GROUP; }
ALWAYS_INLINE int bytes_per_group(WeightType type) { return type == WEIGHT_Q4 ? Q4_PACK / 2 : Q8_GROUP; }

ALWAYS_INLINE void unpack_int8(WeightType type, const Matrix *m, int64_t row, int64_t n_rows, Int8Panel *panel) {
    const int group_bytes = bytes_per_group(type), scales_per_group = Q8_GROUP / columns_per_scale(type);
    for (int r0 = 0; r0 < PANEL_ROWS; r0 += LANES) {
        const uint8_t *weights[LANES], *scales[LANES];
        for (int r = 0; r < LANES; r++) {
            int64_t from = row + (r0 + r < n_rows ? r0 + r : n_rows - 1);
            weights[r] = group_values(m, from, panel->first_group);
            scales[r] = group_scales(m, from, panel->first_group);
        }
        for (int g = 0; g < panel->n_groups; g++)
            for (int i = 0; i < group_vecs(type); i++) {
                vf square[LANES];
                for (int r = 0; r < LANES; r++) square[r] = (vf)load_weights(type, weights[r] + g * group_bytes, i);
                transpose(square);
                for (int q = 0; q < LANES; q++)
                    store(panel->values[(g * group_vecs(type) + i) * LANES + q][r0], (vf)in_panel((vb)square[q]));
            }
        for (int s = 0; s < panel->n_groups * scales_per_group; s++)
            for (int r = 0; r < LANES; r++)
                panel->scales[s][r0 + r] = type == WEIGHT_Q4 ? half_at(scales[r] + 2 * s) : float_at(scales[r] + 4 * s);
    }
}

// Vectors [t, t + m): what the panel's columns give is added to sums (n, PANEL_ROWS), or begins them. Inlined with
// constant m and type, so that `sum` is registers.
ALWAYS_INLINE void int8_tile(int m, WeightType type, const Vectors *v, int64_t t, const Int8Panel *panel, float *sums) {
    const Dot how = dot_of(type);
    const int columns = columns_per_scale(type), per_group = Q8_GROUP / columns,
              stretch_bytes = columns * value_bytes(type);
    const int64_t group_bytes = Q8_GROUP * value_bytes(type), x_stride = v->groups * group_bytes;
    const int64_t first = panel->first_group;
    for (int64_t s = 0; s < panel->n_groups * per_group; s++) {  // stretches of columns that share a scale
        const int8_t *x = v->values + t * x_stride + first * group_bytes + s * stretch_bytes;
        const float *x_scales = v->scales + (first + s / per_group) * v->n + t;
        const int32_t *corrections = v->corrections + (first * per_group + s) * v->n + t;
        const bool is_first = first == 0 && s == 0;
        for (int r0 = 0; r0 < PANEL_ROWS; r0 += TILE_VECS * LANES) {
            vi sum[TILE_ROWS][TILE_VECS];
            UNROLLED (i, m) {
                vi start = {0};
                if (how == BYTES) start += corrections[i];
                UNROLLED (j, TILE_VECS) sum[i][j] = start;
            }
            for (int q = 0; q < stretch_bytes / 4; q++) {
                vb w[TILE_VECS];
                UNROLLED (j, TILE_VECS) w[j] = load_bytes(panel->values[s * (stretch_bytes / 4) + q][r0 + j * LANES]);
                UNROLLED (i, m) {
                    vb four = splat_lane(x + i * x_stride + 4 * q);
                    UNROLLED (j, TILE_VECS) sum[i][j] = dot(how, sum[i][j], w[j], four);
                }
            }
            vf scales[TILE_VECS];
            UNROLLED (j, TILE_VECS) scales[j] = load(panel->scales[s] + r0 + j * LANES);
            UNROLLED (i, m)
                UNROLLED (j, TILE_VECS) {
                    float *out = sums + i * PANEL_ROWS + r0 + j * LANES;
                    vf before = {0};
                    if (!is_first) before = load(out);
                    vi whole = how == NIBBLES ? whole_sums(how, sum[i][j]) + corrections[i] : sum[i][j];
                    store(out, multiply_add(to_float(whole), scales[j] * x_scales[i], before));
                }
        }
    }
}

// The same for up to 16 vectors by matrix units.
ALWAYS_INLINE void int8_by_units(int64_t m, WeightType type, const Vectors *v, int64_t t, const Int8Panel *panel,
                                 float *sums) {
    const int columns = columns_per_scale(type), per_group = Q8_GROUP / columns;
    const int64_t x_stride = v->groups * Q8_GROUP, first = panel->first_group, stretches = panel->n_groups * per_group;
    const int8_t *x = v->values + t * x_stride + first * Q8_GROUP;
    const float *x_scales = v->scales + first * v->n + t;
    const int32_t *corrections = v->corrections + first * per_group * v->n + t;
    for (int r0 = 0; r0 < PANEL_ROWS; r0 += UNIT_ROWS) {
        int32_t products[2 * BLOCK_GROUPS][UNIT_ROWS][UNIT_ROWS];
        multiply_bytes(products[0][0], stretches, columns, x, x_stride, panel->values[0][r0], sizeof panel->values[0]);
        for (int64_t i = 0; i < m; i++) {
            float *out = sums + i * PANEL_ROWS + r0;
            vf sum = {0};
            if (first > 0) sum = load(out);
            for (int64_t s = 0; s < stretches; s++) {
                vi whole = (vi)load(products[s][i]) + corrections[s * v->n + i];
                vf scale = load(panel->scales[s] + r0) * x_scales[s / per_group * v->n + i];
                sum = multiply_add(to_float(whole), scale, sum);
            }
            store(out, sum);
        }
    }
}

ALWAYS_INLINE void multiply_int8_panel(WeightType type, const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v,
                                       float *sums) {
    const int64_t group_bytes = bytes_per_group(type), groups = v->groups;
    const int64_t row_bytes = type == WEIGHT_Q4 ? groups * group_bytes : m->cols;
    Int8Panel *panel = v->panel;
    if (v->by_units) units_begin(columns_per_scale(type));
    for (int64_t g = 0; g < groups; g += BLOCK_GROUPS) {
        panel->first_group = g;
        panel->n_groups = groups - g < BLOCK_GROUPS ? groups - g : BLOCK_GROUPS;
        unpack_int8(type, m, row, n_rows, panel);
        prefetch_block(m, row, row_bytes, (g + BLOCK_GROUPS) * group_bytes, BLOCK_GROUPS * group_bytes);
        for (int64_t t = 0; v->by_units && t < v->n; t += UNIT_ROWS)
            int8_by_units(v->n - t < UNIT_ROWS ? v->n - t : UNIT_ROWS, type, v, t, panel, sums + t * PANEL_ROWS);
        float *out = sums;
        for (int64_t t = 0; !v->by_units && t < v->n; t += TILE_ROWS, out += TILE_ROWS * PANEL_ROWS) {
            switch (v->n - t) {
            case 1: int8_tile(1, type, v, t, panel, out); break;
            case 2: int8_tile(2, type, v, t, panel, out); break;
            case 3: int8_tile(3, type, v, t, panel, out); break;
            case 4: int8_tile(4, type, v, t, panel, out); break;
            case 5: int8_tile(5, type, v, t, panel, out); break;
            default: int8_tile(6, type, v, t, panel, out);
            }
        }
    }
    if (v->by_units) units_end();
}

void multiply_q8_panel(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v, float *sums) {
    multiply_int8_panel(WEIGHT_Q8, m, row, n_rows, v, sums);
}

void multiply_q4_panel(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v, float *sums) {
    multiply_int8_panel(WEIGHT_Q4, m, row, n_rows, v, sums);
}

enum { BLOCK_COLUMNS = 128, PARTS_COLUMNS = 64 };

// A block of weights as float32, or in parts for matrix units, in a first-level cache.
typedef struct {
    union {
        float columns[BLOCK_COLUMNS][PANEL_ROWS];                    // 32 KB
        uint32_t parts[MAX_PARTS * PARTS_COLUMNS * PANEL_ROWS / 2];  // 24 KB
    } as;
    float rows[UNIT_ROWS][BLOCK_COLUMNS];  // widened, before they are transposed
} FloatPanel;
_Static_assert(sizeof(FloatPanel) <= PANEL_BYTES && sizeof(Int8Panel) <= PANEL_BYTES, "they have room");

// Columns [col, col + n) of a row as float32: where they lie if they may, else widened into `memory`.
static const float *float_row(const Matrix *m, int64_t row, int64_t col, int64_t n, float *memory) {
    if (m->type == WEIGHT_F32 && n % LANES == 0) return (const float *)m->data + row * m->cols + col;
    matrix_row(m, row, col, n, memory);
    return memory;
}

// Numbers of 8, 11 and up to 24 bits.
static int parts_of(WeightType type) { return type == WEIGHT_BF16 ? 1 : type == WEIGHT_F16 ? 2 : MAX_PARTS; }

// n columns from `col` on; up to a multiple of LANES the panel's last ones are rubbish, which is not multiplied.
static void unpack_float(const Matrix *m, int64_t row, int64_t n_rows, int64_t col, int64_t n, bool in_parts,
                         FloatPanel *panel) {
    for (int64_t r0 = 0; r0 < PANEL_ROWS; r0 += UNIT_ROWS) {
        const float *rows[UNIT_ROWS];
        for (int64_t r = 0; r < UNIT_ROWS; r++) {
            int64_t from = row + (r0 + r < n_rows ? r0 + r : n_rows - 1);
            rows[r] = float_row(m, from, col, n, panel->rows[r]);
        }
        if (in_parts) split_columns(panel->as.parts, parts_of(m->type), r0, rows, n, PANEL_ROWS);
        for (int64_t r = 0; !in_parts && r < UNIT_ROWS; r += LANES)
            for (int64_t i = 0; i < n; i += LANES) {
                vf square[LANES];
                for (int j = 0; j < LANES; j++) square[j] = load(rows[r + j] + i);
                transpose(square);
                for (int j = 0; j < LANES; j++) store(panel->as.columns[i + j] + r0 + r, square[j]);
            }
    }
}

void multiply_float_panel(const Matrix *m, int64_t row, int64_t n_rows, const Vectors *v, float *sums) {
    const int64_t row_bytes = matrix_row_bytes(m), step = v->by_units ? PARTS_COLUMNS : BLOCK_COLUMNS;
    FloatPanel *panel = v->panel;
    PartsGemm of_parts = {whole_units(v->n), PANEL_ROWS, .a_parts = MAX_PARTS, .b_parts = parts_of(m->type), .c = sums};
    Gemm gemm = {.m = v->n, .n = PANEL_ROWS, .a_stride = v->cols, .b_type = NUMBER_F32, .b_stride = PANEL_ROWS};
    gemm.c = sums;
    gemm.c_stride = PANEL_ROWS;
    gemm.b = panel->as.columns;
    of_parts.b = panel->as.parts;
    if (!v->by_units) memset(sums, 0, v->n * PANEL_ROWS * sizeof *sums);
    for (int64_t col = 0; col < m->cols; col += step) {
        gemm.k = of_parts.k = m->cols - col < step ? m->cols - col : step;
        gemm.a = v->x + col;
        of_parts.a = v->parts + col / UNIT * parts_depth(of_parts.m, MAX_PARTS);
        of_parts.add = col > 0;
        unpack_float(m, row, n_rows, col, gemm.k, v->by_units, panel);
        prefetch_block(m, row, row_bytes, row_bytes * (col + gemm.k) / m->cols, row_bytes * step / m->cols);
        if (v->by_units) gemm_of_parts(&of_parts);
        else gemm_accumulate(&gemm);
    }
}
