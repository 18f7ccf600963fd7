// How the products are shaped. Few vectors (decode): each thread reads its share of the rows once, front to back, and
// multiplies them as they come; memory is the limit. Many vectors (prefill): 64 rows of weights are unpacked into a panel,
// transposed so that a SIMD register holds the same column of neighbouring rows; a tile of 6 vectors x 64 rows is kept in
// registers while a block of columns goes by, so each loaded value is used 6 or 64 times and arithmetic is the limit.
#define _POSIX_C_SOURCE 200809L
#include "matmul.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "simd.h"
#include "team.h"

const char *const weight_type_names[N_WEIGHT_TYPES] = {"float32", "float16", "bfloat16", "q8", "q4"};

enum {
    PANEL = 64,         // rows of weights in a panel
    K_BLOCK = 128,      // columns of a float panel: 32 KB, a first-level cache
    INT8_BLOCK = 4,     // groups of an int8 panel at a time: 16 KB
    FEW = 3,            // up to this many vectors, rows are read in place
    FEW_ROWS = 16,      // rows of one piece of work then
    VECS = 16 / LANES,  // vectors of bytes in a group of 64
};

// ---- matrices -------------------------------------------------------------------------------------------------------

static size_t groups_of(int cols) {
    return ((size_t)cols + Q8_GROUP - 1) / Q8_GROUP;  // and packs of q4
}

static void bf16_to_f32(float *out, const uint8_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, x + 2 * i, 2);
        uint32_t bits = (uint32_t)h << 16;
        memcpy(out + i, &bits, 4);
    }
}

static inline float half_to_float(const void *p) {
    uint16_t lanes[LANES] = {0};
    memcpy(lanes, p, 2);
    return load_f16(lanes)[0];
}

static inline float q8_scale(const Matrix *m, size_t group) {
    float scale;
    memcpy(&scale, (const uint8_t *)m->scales + 4 * group, 4);
    return scale;
}

static inline const uint8_t *q4_pack(const Matrix *m, int row, size_t pack) {
    return (const uint8_t *)m->data + ((size_t)row * groups_of(m->cols) + pack) * (Q4_PACK / 2);
}

static inline float q4_scale(const Matrix *m, int row, size_t pack, int half) {
    return half_to_float((const uint8_t *)m->scales +
                         2 * (2 * ((size_t)row * groups_of(m->cols) + pack) + (size_t)half));
}

static void q4_to_f32(const Matrix *m, int row, int col, int n, float *out) {
    for (int i = 0; i < n;) {
        size_t pack = (size_t)(col + i) / Q4_PACK;
        const uint8_t *bytes = q4_pack(m, row, pack);
        for (int j = (col + i) % Q4_PACK; j < Q4_PACK && i < n; j++, i++) {
            int value = (j < Q4_GROUP ? bytes[j] & 15 : bytes[j - Q4_GROUP] >> 4) - 8;
            out[i] = (float)value * q4_scale(m, row, pack, j / Q4_GROUP);
        }
    }
}

static void q8_to_f32(const Matrix *m, int row, int col, int n, float *out) {
    size_t group_size = (size_t)m->group_size, first = (size_t)row * (size_t)m->cols + (size_t)col;
    size_t row_group = (size_t)row * (((size_t)m->cols + group_size - 1) / group_size);
    const int8_t *q = (const int8_t *)m->data + first;
    for (size_t i = 0; i < (size_t)n;) {
        size_t at = m->groups_cross_rows ? first + i : (size_t)col + i;
        float scale = q8_scale(m, at / group_size + (m->groups_cross_rows ? 0 : row_group));
        size_t end = i + group_size - at % group_size;
        for (end = end < (size_t)n ? end : (size_t)n; i < end; i++) out[i] = (float)q[i] * scale;
    }
}

void matrix_row(const Matrix *m, int row, int col, int n, float *out) {
    size_t first = (size_t)row * (size_t)m->cols + (size_t)col;
    const uint8_t *data = m->data;
    switch (m->type) {
    case WEIGHT_F32: memcpy(out, data + 4 * first, 4 * (size_t)n); break;
    case WEIGHT_F16: f16_to_f32(out, (const uint16_t *)(const void *)(data + 2 * first), (size_t)n); break;
    case WEIGHT_BF16: bf16_to_f32(out, data + 2 * first, (size_t)n); break;
    case WEIGHT_Q4: q4_to_f32(m, row, col, n, out); break;
    default: q8_to_f32(m, row, col, n, out);
    }
}

// ---- quantized activations ------------------------------------------------------------------------------------------

// Vectors rounded to int8 in groups of 64 columns, the last group filled up with zeros.
typedef struct {
    int8_t *values;  // (n, groups, 64)
    float *scales;   // (n, groups)
    int32_t
        *starts;  // (n, groups, 2): where sums begin, minus the weights' offset times the sum of what shares a scale
    size_t groups;
} Int8Vectors;

// What int8 weights are stored as, beyond their value, when they are multiplied.
static int offset_of(WeightType type) { return type == WEIGHT_Q4 ? 8 : INT8_OFFSET; }

// Vector i of a group of 64 int8 weights as dot4 takes them. A q8 row's last group may be shorter: what is read past its
// end, in the file still (the scales lie behind the weights), is multiplied by zeros.
static inline vb load_weights(const uint8_t *group, WeightType type, int i) {
    return type == WEIGHT_Q4 ? load_nibbles(group, i) : load_bytes(group + 4 * LANES * i) ^ INT8_OFFSET;
}

static bool multiplies_int8(const Matrix *m) {
    return m->type == WEIGHT_Q4 || (m->type == WEIGHT_Q8 && m->group_size == Q8_GROUP && !m->groups_cross_rows);
}

// Vector t of q, for weights of this type.
static void quantize(const float *x, int cols, WeightType type, const Int8Vectors *q, int t) {
    const vb ones = (vb){0} + 1;
    for (size_t g = 0; g < q->groups; g++) {
        size_t at = (size_t)t * q->groups + g,
               n = (size_t)cols - g * Q8_GROUP < Q8_GROUP ? (size_t)cols - g * Q8_GROUP : Q8_GROUP;
        int8_t *values = q->values + at * Q8_GROUP;
        if (n < Q8_GROUP) memset(values + n, 0, Q8_GROUP - n);
        q->scales[at] = f32_to_i8(values, x + g * Q8_GROUP, n);
        int32_t sums[16], halves[2] = {0};
        for (int i = 0; i < VECS; i++) {
            vi quads = dot4((vi){0}, ones, load_bytes(values + 4 * LANES * i));
            memcpy(sums + LANES * i, &quads, sizeof quads);
        }
        for (int i = 0; i < 16; i++) halves[i / 8] += sums[i];
        q->starts[2 * at] = -offset_of(type) * (type == WEIGHT_Q4 ? halves[0] : halves[0] + halves[1]);
        q->starts[2 * at + 1] = -offset_of(type) * halves[1];
    }
}

// ---- few vectors ----------------------------------------------------------------------------------------------------

// sum += vector i of a group of a q8 row, or of a pack of a q4 row, times a vector's group; `starts` takes the offset off.
static inline vf add_dot(vf sum, const uint8_t *w, WeightType type, const int8_t *x, const vi *starts, int i,
                         vf scale) {
    return sum + to_float(dot4(starts[i], load_weights(w, type, i), load_bytes(x + 4 * LANES * i))) * scale;
}

// One q8 row times one vector, two groups at a time so that their sums do not wait for one another.
static float q8_row_dot(const Matrix *m, int row, const int8_t *x, const float *xs, const vi *starts) {
    size_t groups = groups_of(m->cols), from = (size_t)row * groups;
    const uint8_t *w = (const uint8_t *)m->data + (size_t)row * (size_t)m->cols;
    vf sum[2] = {{0}};
    for (size_t g = 0; g < groups; g += 2) UNROLL for (size_t h = 0; h < 2; h++) {
            if (g + h == groups) break;
            vf scale = splat(q8_scale(m, from + g + h) * xs[g + h]);
            ask_for(w + (g + h) * Q8_GROUP);
            UNROLL for (int i = 0; i < VECS; i++) sum[h] = add_dot(
                sum[h], w + (g + h) * Q8_GROUP, WEIGHT_Q8, x + (g + h) * Q8_GROUP, starts + (g + h) * VECS, i, scale);
        }
    return sum_lanes(sum[0] + sum[1]);
}

// The same for q4. A pack has two scales; those of LANES / 2 packs are made ready at a time.
static float q4_row_dot(const Matrix *m, int row, const int8_t *x, const float *xs, const vi *starts) {
    enum { PACKS = LANES / 2 };
    size_t packs = groups_of(m->cols);
    const uint8_t *w = q4_pack(m, row, 0), *scales = (const uint8_t *)m->scales + 4 * (size_t)row * packs;
    vf sum[2] = {{0}};
    for (size_t first = 0; first < packs; first += PACKS) {
        size_t n = packs - first < PACKS ? packs - first : PACKS;
        uint16_t last[LANES] = {0};
        float last_xs[PACKS] = {0};
        const void *halfs = scales + 4 * first;
        ask_for(halfs);
        const float *some_xs = xs + first;
        if (n < PACKS) {
            halfs = memcpy(last, halfs, 4 * n);
            some_xs = memcpy(last_xs, some_xs, n * sizeof *xs);
        }
        vf pairs = load_f16(halfs) * load_twice(some_xs);
        UNROLL for (size_t k = 0; k < PACKS; k++) {
            size_t g = first + k;
            if (k == n) break;
            if (k % 2 == 0) ask_for(w + g * (Q4_PACK / 2));
            UNROLL for (int i = 0; i < VECS; i++) {
                vf scale = spread(pairs, (int)k, i);
                sum[k % 2] = add_dot(sum[k % 2], w + g * (Q4_PACK / 2), WEIGHT_Q4, x + g * Q8_GROUP, starts + g * VECS,
                                     i, scale);
            }
        }
    }
    return sum_lanes(sum[0] + sum[1]);
}

static inline __attribute__((always_inline)) float dot_of_type(WeightType type, const char *w, const float *x, int n) {
    vf sum[4] = {{0}};
    const int size = type == WEIGHT_F32 ? 4 : 2;
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            const char *at = w + size * (i + j * LANES);
            if (size * LANES * j % 64 == 0) ask_for(at);
            sum[j] += (type == WEIGHT_F32   ? load(at)
                       : type == WEIGHT_F16 ? load_f16(at)
                                            : load_bf16(at)) *
                      load(x + i + j * LANES);
        }
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// One row times one float32 vector.
static float float_row_dot(const Matrix *m, int row, const float *x) {
    size_t first = (size_t)row * (size_t)m->cols;
    int n = m->cols, whole = n / (4 * LANES) * (4 * LANES);
    float sum = 0, part[4 * LANES];
    const char *data = m->data;
    switch (m->type) {
    case WEIGHT_F32: sum = dot_of_type(WEIGHT_F32, data + 4 * first, x, n); break;
    case WEIGHT_F16: sum = dot_of_type(WEIGHT_F16, data + 2 * first, x, n); break;
    case WEIGHT_BF16: sum = dot_of_type(WEIGHT_BF16, data + 2 * first, x, n); break;
    default:
        for (int i = 0; i < whole; i += 4 * LANES) {
            matrix_row(m, row, i, 4 * LANES, part);
            sum += dot_of_type(WEIGHT_F32, (const char *)part, x + i, 4 * LANES);
        }
    }
    if (whole < n) matrix_row(m, row, whole, n - whole, part);
    for (int i = whole; i < n; i++) sum += part[i - whole] * x[i];
    return sum;
}

// What a thread makes of few vectors for itself: cheaper than sharing the work and waiting for it.
typedef struct {
    float *x;  // (FEW, cols) normed
    Int8Vectors q;
    vi *starts;  // (FEW, groups, VECS): minus the offset times each lane's sum
} Prepared;

static float row_dot(const Matrix *m, int row, const Input *in, const Prepared *own, int t) {
    size_t groups = groups_of(m->cols), at = (size_t)t * groups;
    if (!multiplies_int8(m)) return float_row_dot(m, row, (in->norm ? own->x : in->x) + (size_t)t * (size_t)m->cols);
    return (m->type == WEIGHT_Q4 ? q4_row_dot : q8_row_dot)(m, row, own->q.values + at * Q8_GROUP, own->q.scales + at,
                                                            own->starts + at * VECS);
}

static void prepare_few(const Input *in, const Matrix *m, Prepared *own) {
    size_t groups = own->q.groups = groups_of(m->cols);
    const vb ones = (vb){0} + 1;
    for (int t = 0; t < in->n; t++) {
        const float *x = in->x + (size_t)t * (size_t)m->cols;
        if (in->norm) {
            rmsnorm(own->x + (size_t)t * (size_t)m->cols, x, in->norm, m->cols, in->eps);
            x = own->x + (size_t)t * (size_t)m->cols;
        }
        if (!multiplies_int8(m)) continue;
        quantize(x, m->cols, m->type, &own->q, t);
        for (size_t i = (size_t)t * groups * VECS; i < (size_t)(t + 1) * groups * VECS; i++)
            own->starts[i] = dot4((vi){0}, ones, load_bytes(own->q.values + i * 4 * LANES)) * -offset_of(m->type);
    }
}

// Rows [first, last) of a product with few vectors.
static void multiply_rows(const Product *p, int first, int last, const Input *in, const Prepared *own) {
    for (int t = 0; t < in->n; t++) {
        float sums[FEW_ROWS], gates[FEW_ROWS], *out = p->out + (size_t)t * p->stride + first;
        for (int r = first; p->gate && r < last; r++) gates[r - first] = row_dot(p->gate, r, in, own, t);
        for (int r = first; r < last; r++) sums[r - first] = row_dot(p->matrix, r, in, own, t);
        if (p->gate) {
            swiglu(gates, sums, (size_t)(last - first));
            memcpy(sums, gates, sizeof sums);
        }
        for (int r = 0; r < last - first; r++) out[r] = sums[r] + (p->add ? out[r] : 0);
    }
}

// ---- many vectors ---------------------------------------------------------------------------------------------------

// A block of int8 weights of 64 rows. A group has one scale (q8) or one for each half (q4).
typedef struct {
    uint8_t values[INT8_BLOCK][Q8_GROUP / 4][PANEL][4];  // four neighbouring columns of a row lie together
    float scales[INT8_BLOCK][2][PANEL];
} Int8Panel;

typedef struct {
    float panel[K_BLOCK][PANEL];
    float rows[LANES][K_BLOCK];
} FloatPanel;

typedef union {
    FloatPanel f;
    Int8Panel int8;
} Panel;

// c (m, PANEL) = (from group 0 on) or += the products of m int8 vectors, from vector t and group `first` on, with `groups`
// groups of a panel, of which `halves` parts, 1 or 2, have a scale of their own.
static inline __attribute__((always_inline)) void int8_tile(int m, int halves, int groups, const Int8Vectors *q, int t,
                                                            size_t first, const Int8Panel *panel, float *c) {
    const int quads = Q8_GROUP / 4 / halves;  // quads of columns that share a scale
    const size_t per_row = q->groups;
    for (int part = 0; part < groups * halves; part++) {
        int g = part / halves, half = part % halves;
        size_t at = (size_t)t * per_row + first + (size_t)g;
        const int8_t *x = q->values + at * Q8_GROUP + half * 4 * quads;
        const float *x_scales = q->scales + at;
        const int32_t *starts = q->starts + 2 * at + half;
        for (int column = 0; column < PANEL; column += TILE_VECS * LANES) {
            vi sum[TILE_ROWS][TILE_VECS];
            UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < TILE_VECS; j++) sum[i][j] =
                (vi){0} + starts[2 * (size_t)i * per_row];
            for (int k = 0; k < quads; k++) {
                vb w[TILE_VECS];
                UNROLL for (int j = 0; j < TILE_VECS; j++) w[j] =
                    load_bytes(panel->values[g][half * quads + k][column + j * LANES]);
                UNROLL for (int i = 0; i < m; i++) {
                    int32_t four;
                    memcpy(&four, x + (size_t)i * per_row * Q8_GROUP + 4 * k, 4);
                    UNROLL for (int j = 0; j < TILE_VECS; j++) sum[i][j] = dot4(sum[i][j], w[j], (vb)((vi){0} + four));
                }
            }
            UNROLL for (int j = 0; j < TILE_VECS; j++) {
                vf scale = load(panel->scales[g][half] + column + j * LANES);
                UNROLL for (int i = 0; i < m; i++) {
                    float *out = c + i * PANEL + column + j * LANES;
                    vf before = {0};
                    if (first + (size_t)part > 0) before = load(out);
                    store(out, before + to_float(sum[i][j]) * (scale * x_scales[(size_t)i * per_row]));
                }
            }
        }
    }
}

// The same for all n vectors.
static inline __attribute__((always_inline)) void int8_tiles(int halves, int groups, const Int8Vectors *q, int n,
                                                             size_t first, const Int8Panel *panel, float *c) {
    for (int t = 0; t < n; t += TILE_ROWS, c += TILE_ROWS * PANEL) switch (n - t) {
        case 1: int8_tile(1, halves, groups, q, t, first, panel, c); break;
        case 2: int8_tile(2, halves, groups, q, t, first, panel, c); break;
        case 3: int8_tile(3, halves, groups, q, t, first, panel, c); break;
        case 4: int8_tile(4, halves, groups, q, t, first, panel, c); break;
        case 5: int8_tile(5, halves, groups, q, t, first, panel, c); break;
        default: int8_tile(6, halves, groups, q, t, first, panel, c);
        }
}

// Rows that the matrix does not have are as good as any: what comes of them is not used.
static int row_or_last(const Matrix *m, int row) { return row < m->rows ? row : m->rows - 1; }

// Asks for what will be unpacked next, while the present block is multiplied: 64 rows of `bytes` bytes from `at` bytes
// into row `row` on, or at the row's end the first bytes of the next 64 rows. Rows lie `stride` bytes apart.
static void ask_for_block(const Matrix *m, int row, size_t stride, size_t at, size_t bytes) {
    if (at >= stride) row += PANEL, at = 0;
    uintptr_t first = (uintptr_t)m->data + (size_t)row * stride + at;
    for (size_t r = 0; r < PANEL; r++)
        for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const void *)(first + r * stride + i));
}

static void unpack_int8(const Matrix *m, int row, size_t group, int groups, Int8Panel *panel) {
    bool q4 = m->type == WEIGHT_Q4;
    size_t per_row = groups_of(m->cols);
    for (int g = 0; g < groups; g++)
        for (int r0 = 0; r0 < PANEL; r0 += LANES)
            for (int i = 0; i < VECS; i++) {
                vf square[LANES];
                for (int r = 0; r < LANES; r++) {
                    size_t from = (size_t)row_or_last(m, row + r0 + r), at = group + (size_t)g;
                    const uint8_t *w = q4 ? q4_pack(m, (int)from, at)
                                          : (const uint8_t *)m->data + from * (size_t)m->cols + at * Q8_GROUP;
                    square[r] = (vf)load_weights(w, m->type, i);
                    for (int half = 0; i == 0 && half < (q4 ? 2 : 1); half++)
                        panel->scales[g][half][r0 + r] =
                            q4 ? q4_scale(m, (int)from, at, half) : q8_scale(m, from * per_row + at);
                }
                transpose(square);
                for (int k = 0; k < LANES; k++) store(panel->values[g][i * LANES + k][r0], square[k]);
            }
}

static void multiply_int8_panel(const Matrix *m, int row, const Int8Vectors *q, int n, Int8Panel *panel, float *sums) {
    size_t size = m->type == WEIGHT_Q4 ? Q4_PACK / 2 : Q8_GROUP,
           stride = m->type == WEIGHT_Q4 ? q->groups * size : (size_t)m->cols;
    for (size_t g = 0; g < q->groups; g += INT8_BLOCK) {
        int count = q->groups - g < INT8_BLOCK ? (int)(q->groups - g) : INT8_BLOCK;
        unpack_int8(m, row, g, count, panel);
        ask_for_block(m, row, stride, (g + INT8_BLOCK) * size, INT8_BLOCK * size);
        if (m->type == WEIGHT_Q4) int8_tiles(2, count, q, n, g, panel, sums);
        else int8_tiles(1, count, q, n, g, panel, sums);
    }
}

static void multiply_float_panel(const Matrix *m, int row, const float *x, int n, FloatPanel *f, float *sums) {
    for (int k = 0; k < m->cols; k += K_BLOCK) {
        int count = m->cols - k < K_BLOCK ? m->cols - k : K_BLOCK;
        for (int r0 = 0; r0 < PANEL; r0 += LANES) {
            const float *rows[LANES];
            for (int r = 0; r < LANES; r++) {
                int from = row_or_last(m, row + r0 + r);
                rows[r] = f->rows[r];
                if (m->type == WEIGHT_F32 && count % LANES == 0)
                    rows[r] = (const float *)m->data + (size_t)from * (size_t)m->cols + (size_t)k;
                else matrix_row(m, from, k, count, f->rows[r]);
            }
            for (int i = 0; i < count;
                 i += LANES) {  // the last columns of the panel may be rubbish, which is not multiplied
                vf square[LANES];
                for (int r = 0; r < LANES; r++) square[r] = load(rows[r] + i);
                transpose(square);
                for (int j = 0; j < LANES; j++) store(f->panel[i + j] + r0, square[j]);
            }
        }
        size_t size = m->type == WEIGHT_F32 ? 4 : 2;
        ask_for_block(m, row, size * (size_t)m->cols, size * (size_t)(k + K_BLOCK), size * K_BLOCK);
        gemm_accumulate(n, PANEL, count, x + k, (size_t)m->cols, f->panel, NUMBER_F32, PANEL, sums, PANEL);
    }
}

// ---- products -------------------------------------------------------------------------------------------------------

struct Workspace {
    int max_n, max_cols, n_threads;
    float *x;       // (max_n, max_cols) normed
    Int8Vectors q;  // of max_n
    float *sums;    // (n_threads, 2, max_n, PANEL)
    Panel *panels;  // (n_threads)
    Prepared *few;  // (n_threads)
};

static size_t int8_bytes(size_t n, size_t groups) {
    return n * groups * (Q8_GROUP + sizeof(float) + 2 * sizeof(int32_t));
}

size_t workspace_bytes(int max_n, int max_cols) {
    size_t n = (size_t)max_n, cols = (size_t)max_cols, threads = (size_t)thread_count(), groups = groups_of(max_cols);
    size_t few = FEW * (cols * sizeof(float) + groups * VECS * sizeof(vi)) + int8_bytes(FEW, groups) + sizeof(Prepared);
    return n * cols * sizeof(float) + int8_bytes(n, groups) +
           threads * (2 * n * PANEL * sizeof(float) + sizeof(Panel) + few);
}

static bool int8_new(Int8Vectors *q, size_t n, size_t groups, Error *err) {
    q->values = alloc_array(n, groups * Q8_GROUP, "quantized activations", err);
    q->scales = alloc_array(n, groups * sizeof(float), "quantized activations", err);
    q->starts = alloc_array(n, groups * 2 * sizeof(int32_t), "quantized activations", err);
    return q->values && q->scales && q->starts;
}

static void int8_free(Int8Vectors *q) {
    free(q->values);
    free(q->scales);
    free(q->starts);
}

Workspace *workspace_new(int max_n, int max_cols, Error *err) {
    Workspace *w = alloc_array(1, sizeof *w, "the products", err);
    if (!w) return NULL;
    *w = (Workspace){.max_n = max_n, .max_cols = max_cols, .n_threads = thread_count()};
    size_t n = (size_t)max_n, threads = (size_t)w->n_threads, groups = groups_of(max_cols), cols = (size_t)max_cols;
    w->x = alloc_array(n, cols * sizeof(float), "normed activations", err);
    w->sums = alloc_array(2 * threads * n, PANEL * sizeof(float), "sums of products", err);
    w->panels = alloc_array(threads, sizeof(Panel), "panels of weights", err);
    w->few = alloc_array(threads, sizeof(Prepared), "products of few vectors", err);
    bool ok = w->x && w->sums && w->panels && w->few && int8_new(&w->q, n, groups, err);
    for (size_t i = 0; ok && i < threads; i++) {
        Prepared *own = &w->few[i];
        ok = (own->x = alloc_array(FEW, cols * sizeof(float), "normed activations", err)) != NULL &&
             int8_new(&own->q, FEW, groups, err) &&
             (own->starts = alloc_array(FEW, groups * VECS * sizeof(vi), "quantized activations", err)) != NULL;
    }
    if (ok) return w;
    workspace_free(w);
    return NULL;
}

void workspace_free(Workspace *w) {
    if (!w) return;
    free(w->x);
    int8_free(&w->q);
    free(w->sums);
    free(w->panels);
    for (int i = 0; w->few && i < w->n_threads; i++) {
        free(w->few[i].x);
        int8_free(&w->few[i].q);
        free(w->few[i].starts);
    }
    free(w->few);
    free(w);
}

// Rows [row, row + PANEL) of a matrix times many vectors, q when they are rounded to int8, into sums (n, PANEL).
static void multiply_panel(const Matrix *m, int row, const Input *in, const Int8Vectors *q, const Workspace *ws,
                           float *sums) {
    Panel *panel = &ws->panels[thread_number()];
    if (multiplies_int8(m)) {
        multiply_int8_panel(m, row, q, in->n, &panel->int8, sums);
    } else {
        memset(sums, 0, (size_t)in->n * PANEL * sizeof *sums);
        multiply_float_panel(m, row, in->norm ? ws->x : in->x, in->n, &panel->f, sums);
    }
}

static void multiply_panels(const Product *p, int row, const Input *in, const Int8Vectors *q, const Workspace *ws) {
    size_t n = (size_t)in->n, rows = p->matrix->rows - row < PANEL ? (size_t)(p->matrix->rows - row) : PANEL;
    float *sums = ws->sums + (size_t)thread_number() * 2 * (size_t)ws->max_n * PANEL, *gates = sums + n * PANEL;
    if (p->gate) multiply_panel(p->gate, row, in, q, ws, gates);
    for (size_t t = 0; t < n; t++)  // where the result goes comes into the cache meanwhile
        for (size_t r = 0; r < rows; r += 16) __builtin_prefetch(p->out + t * p->stride + (size_t)row + r, 1);
    multiply_panel(p->matrix, row, in, q, ws, sums);
    if (p->gate) {
        swiglu(gates, sums, n * PANEL);
        sums = gates;
    }
    for (size_t t = 0; t < n; t++) {
        float *out = p->out + t * p->stride + (size_t)row;
        if (p->add)
            for (size_t r = 0; r < rows; r++) out[r] += sums[t * PANEL + r];
        else memcpy(out, sums + t * PANEL, rows * sizeof *out);
    }
}

void matmul(const Product *products, int n_products, const Input *in, Workspace *ws) {
    const Matrix *first = products[0].matrix;
    bool few = in->n <= FEW;
    int unit = few ? FEW_ROWS : PANEL, total = 0;  // rows of one piece of work, pieces
    Prepared *own = &ws->few[thread_number()];
    Int8Vectors q = ws->q;
    q.groups = groups_of(first->cols);
    for (int p = 0; p < n_products; p++) total += (products[p].matrix->rows + unit - 1) / unit;
    if (few) {
        prepare_few(in, first, own);
    } else {
#pragma omp for schedule(static)
        for (int t = 0; t < in->n; t++) {
            const float *x = in->x + (size_t)t * (size_t)first->cols;
            if (in->norm) {
                rmsnorm(ws->x + (size_t)t * (size_t)first->cols, x, in->norm, first->cols, in->eps);
                x = ws->x + (size_t)t * (size_t)first->cols;
            }
            if (multiplies_int8(first)) quantize(x, first->cols, first->type, &q, t);
        }
    }
    // Small pieces are dealt out beforehand, each thread a stretch of memory; big ones to who is free.
#pragma omp for schedule(static)
    for (int piece = 0; piece < total; piece++) {
        const Product *p = products;
        int row = piece * unit;
        for (; row >= (p->matrix->rows + unit - 1) / unit * unit; p++)
            row -= (p->matrix->rows + unit - 1) / unit * unit;
        if (few) multiply_rows(p, row, row + unit < p->matrix->rows ? row + unit : p->matrix->rows, in, own);
        else multiply_panels(p, row, in, &q, ws);
    }
}
