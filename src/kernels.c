// How the products are shaped. One vector (decode): a row of weights is read once, front to back, and multiplied as it
// comes; memory is the limit. Many vectors (prefill): 64 rows of weights are unpacked into a panel, transposed so that
// a SIMD register holds the same column of neighbouring rows; a tile of 6 vectors x 64 rows is kept in registers
// while a block of columns goes by, so each loaded value is used 6 or 64 times and arithmetic is the limit.
//
// Plain loops over vf, the compiler's vector type of the widest registers there are, serve AVX-512, AVX2, NEON and SSE
// alike. Intrinsics are used only where a processor has an instruction that C has no word for.
#define _POSIX_C_SOURCE 200809L
#include "kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined __AVX512F__ || defined __F16C__
#include <immintrin.h>
#endif

const char *const weight_type_names[N_WEIGHT_TYPES] = {"float32", "float16", "bfloat16", "q8", "q4"};

#if defined __AVX512F__
enum { LANES = 16, TILE_VECS = 4 };  // 6 x 4 sums in 32 registers
#elif defined __AVX__
enum { LANES = 8, TILE_VECS = 2 };   // 6 x 2 sums in 16 registers
#elif defined __ARM_NEON
enum { LANES = 4, TILE_VECS = 4 };
#else
enum { LANES = 4, TILE_VECS = 2 };
#endif
enum {
    TILE_ROWS = 6,     // vectors that share each loaded weight
    PANEL = 64,        // rows of weights in a panel
    K_BLOCK = 128,     // columns of a float panel: 32 KB, a first-level cache
    Q8_BLOCK = 4,      // groups of a q8 panel at a time: 16 KB
    FEW = 3,           // up to this many vectors, rows are read in place
    WORTH_A_TEAM = 1 << 16,  // products with fewer multiplications are done before other threads have woken
};

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));    // what comparing gives
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));   // bits
typedef float vf_mem __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vf load(const float *p) { return *(const vf_mem *)p; }
static inline void store(float *p, vf x) { *(vf_mem *)p = x; }
static inline vf splat(float x) { return x - (vf){0}; }
static inline vf select_vf(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

static inline float sum_lanes(vf x) {
    float lanes[LANES], sum = 0;
    memcpy(lanes, &x, sizeof x);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    sum = lanes[0];
    return sum;
}

// ---- number formats -------------------------------------------------------------------------------------------------

static inline float bits_to_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t float_to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

// The exponent is moved by multiplying with a power of two, which gets subnormals right; infinity and NaN are apart.
static inline float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    float x = bits_to_float(rest) * 0x1p112f;
    uint32_t bits = rest >= 0x0f800000 ? rest | 0x7f800000 : float_to_bits(x);
    return bits_to_float(sign | bits);
}

static inline uint16_t float_to_half(float x) {
    uint32_t bits = float_to_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);     // NaN
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);    // rounds past 65504: infinity
    if (rest < 0x38800000)                                       // subnormal: the addition rounds to a multiple of 2^-24
        return (uint16_t)(sign | (float_to_bits(bits_to_float(rest) + 0.5f) - 0x3f000000));
    rest += 0xfff + (rest >> 13 & 1);                            // to nearest, ties to even
    return (uint16_t)(sign | ((rest - 0x38000000) >> 13));
}

void f16_to_f32(float *out, const uint16_t *x, size_t n) {
    size_t i = 0;
#if defined __AVX512F__
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#elif defined __F16C__
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#endif
    for (; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)x + 2 * i, 2);  // weights may lie at odd addresses
        out[i] = half_to_float(h);
    }
}

void f32_to_f16(uint16_t *out, const float *x, size_t n) {
    size_t i = 0;
#if defined __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) out[i] = float_to_half(x[i]);
}

void i8_to_f32(float *out, const int8_t *x, float scale, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = (float)x[i] * scale;
}

// Adding 1.5 * 2^23 leaves the nearest whole number (ties to even) in the low bits of the sum.
static inline int nearest(float x) {
    return (int)(float_to_bits(x + 0x1.8p23f) - 0x4b400000);
}

static inline float max_abs(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        most = a > most ? a : most;
    }
    return most;
}

float f32_to_i8(int8_t *out, const float *x, size_t n) {
    float most = max_abs(x, n), scale = most / 127, inverse = scale > 0 ? 127 / most : 0;
    for (size_t i = 0; i < n; i++) out[i] = (int8_t)nearest(x[i] * inverse);
    return scale;
}

static void bf16_to_f32(float *out, const uint8_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, x + 2 * i, 2);
        out[i] = bits_to_float((uint32_t)h << 16);
    }
}

static inline float q8_scale(const Matrix *m, size_t group) {
    float scale;
    memcpy(&scale, (const uint8_t *)m->scales + 4 * group, 4);
    return scale;
}

static inline size_t q8_first_group(const Matrix *m, int row) {
    return (size_t)row * (size_t)((m->cols + m->group_size - 1) / m->group_size);
}

static size_t packs_of(int cols) {
    return ((size_t)cols + Q4_PACK - 1) / Q4_PACK;
}

static inline const uint8_t *q4_pack(const Matrix *m, int row, size_t pack) {
    return (const uint8_t *)m->data + ((size_t)row * packs_of(m->cols) + pack) * (Q4_PACK / 2);
}

static inline float q4_scale_of(const Matrix *m, int row, size_t pack, int half) {
    uint16_t scale;
    memcpy(&scale, (const uint8_t *)m->scales + 2 * (2 * ((size_t)row * packs_of(m->cols) + pack) + (size_t)half), 2);
    return half_to_float(scale);
}

static inline void q4_unpack(const uint8_t *pack, int8_t out[Q4_PACK]) {
    for (int i = 0; i < Q4_GROUP; i++) {
        out[i] = (int8_t)((pack[i] & 15) - 8);
        out[i + Q4_GROUP] = (int8_t)((pack[i] >> 4) - 8);
    }
}

static void q4_to_f32(const Matrix *m, int row, int col, int n, float *out) {
    for (int i = 0; i < n;) {
        int8_t values[Q4_PACK];
        size_t pack = (size_t)(col + i) / Q4_PACK;
        q4_unpack(q4_pack(m, row, pack), values);
        for (int j = (col + i) % Q4_PACK; j < Q4_PACK && i < n; j++, i++)
            out[i] = (float)values[j] * q4_scale_of(m, row, pack, j / Q4_GROUP);
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
    default: {
        size_t group_size = (size_t)m->group_size;
        const int8_t *q = (const int8_t *)data + first;
        for (size_t i = 0; i < (size_t)n;) {
            size_t at = m->groups_cross_rows ? first + i : (size_t)col + i;
            size_t group = at / group_size + (m->groups_cross_rows ? 0 : q8_first_group(m, row));
            size_t run = group_size - at % group_size;
            if (run > (size_t)n - i) run = (size_t)n - i;
            i8_to_f32(out + i, q + i, q8_scale(m, group), run);
            i += run;
        }
    }
    }
}

// ---- float tiles ----------------------------------------------------------------------------------------------------

// One register tile: C (m, vecs * LANES) += A (m, k) B. Inlined with constant m and vecs, so that `sum` is registers.
static inline __attribute__((always_inline)) void tile(int m, int vecs, int k, const float *a, size_t lda, const float *b,
                                                       size_t ldb, float *c, size_t ldc) {
    vf sum[TILE_ROWS][TILE_VECS];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < vecs; j++) sum[i][j] = load(c + (size_t)i * ldc + (size_t)(j * LANES));
    for (int p = 0; p < k; p++) {
        vf column[TILE_VECS];
        for (int j = 0; j < vecs; j++) column[j] = load(b + (size_t)p * ldb + (size_t)(j * LANES));
        for (int i = 0; i < m; i++) {
            float x = a[(size_t)i * lda + (size_t)p];
            for (int j = 0; j < vecs; j++) sum[i][j] += x * column[j];
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < vecs; j++) store(c + (size_t)i * ldc + (size_t)(j * LANES), sum[i][j]);
}

static inline __attribute__((always_inline)) void tile_of_width(int vecs, int m, int k, const float *a, size_t lda, const float *b,
                                                                size_t ldb, float *c, size_t ldc) {
    switch (m) {
    case 1: tile(1, vecs, k, a, lda, b, ldb, c, ldc); break;
    case 2: tile(2, vecs, k, a, lda, b, ldb, c, ldc); break;
    case 3: tile(3, vecs, k, a, lda, b, ldb, c, ldc); break;
    case 4: tile(4, vecs, k, a, lda, b, ldb, c, ldc); break;
    case 5: tile(5, vecs, k, a, lda, b, ldb, c, ldc); break;
    default: tile(6, vecs, k, a, lda, b, ldb, c, ldc); break;
    }
}

void gemm_accumulate(int m, int n, int k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc) {
    for (int i = 0; i < m; i += TILE_ROWS) {
        int rows = m - i < TILE_ROWS ? m - i : TILE_ROWS;
        const float *ai = a + (size_t)i * lda;
        float *ci = c + (size_t)i * ldc;
        int j = 0;
        for (; j + TILE_VECS * LANES <= n; j += TILE_VECS * LANES)
            tile_of_width(TILE_VECS, rows, k, ai, lda, b + j, ldb, ci + j, ldc);
        for (; j < n; j += LANES) tile_of_width(1, rows, k, ai, lda, b + j, ldb, ci + j, ldc);
    }
}

// ---- int8 tiles, for q8 and q4 ---------------------------------------------------------------------------------------

// Activations are stored as value + 128, an unsigned byte, because the processors' instructions multiply unsigned with
// signed bytes. The surplus, 128 * (sum of the group's weights), is known per row and taken off first.

// What weights of 64 rows and one block of groups of 64 columns look like in a panel. A group has one scale (q8) or one
// for each half (q4): `halves` is 1 or 2.
typedef struct {
    int halves;
    int8_t values[Q8_BLOCK][Q8_GROUP / 4][PANEL][4];  // four neighbouring columns of a row lie together
    float scales[Q8_BLOCK][2][PANEL];
    int32_t surplus[Q8_BLOCK][2][PANEL];
} Q8Panel;

// c (m, PANEL) += the products of m quantized vectors with `groups` groups of a panel; x and xs are the first vector's
// values and scales, ldx and ldxs the distances to the next one's.
static inline __attribute__((always_inline)) void q8_tile(int m, int groups, const uint8_t *x, size_t ldx, const float *xs, size_t ldxs,
                                                          const Q8Panel *panel, float *c) {
    int halves = panel->halves, quads = Q8_GROUP / 4 / halves;  // quads of columns that share a scale
    for (int part = 0; part < groups * halves; part++) {
        int g = part / halves, half = part % halves, first = half * quads;
        const float *scales = panel->scales[g][half];
        const int32_t *surplus = panel->surplus[g][half];
#ifdef __AVX512VNNI__
        __m512i sum[TILE_ROWS][4];
        for (int i = 0; i < m; i++)
            for (int j = 0; j < 4; j++) sum[i][j] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(surplus + 16 * j));
        for (int q = first; q < first + quads; q++) {
            __m512i w[4];
            for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_si512(panel->values[g][q][16 * j]);
            for (int i = 0; i < m; i++) {
                int32_t four;
                memcpy(&four, x + (size_t)i * ldx + (size_t)(g * Q8_GROUP + 4 * q), 4);
                __m512i xi = _mm512_set1_epi32(four);
                for (int j = 0; j < 4; j++) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], xi, w[j]);
            }
        }
        for (int i = 0; i < m; i++)
            for (int j = 0; j < 4; j++) {
                float *out = c + i * PANEL + 16 * j;
                __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(scales + 16 * j), _mm512_set1_ps(xs[(size_t)i * ldxs + (size_t)g]));
                _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i][j]), scale, _mm512_loadu_ps(out)));
            }
#else
        for (int i = 0; i < m; i++) {
            int32_t sum[PANEL];
            const uint8_t *xg = x + (size_t)i * ldx + (size_t)(g * Q8_GROUP);
            for (int r = 0; r < PANEL; r++) sum[r] = -surplus[r];
            for (int q = first; q < first + quads; q++)
                for (int r = 0; r < PANEL; r++) {
                    const int8_t *w = panel->values[g][q][r];
                    sum[r] += xg[4 * q] * w[0] + xg[4 * q + 1] * w[1] + xg[4 * q + 2] * w[2] + xg[4 * q + 3] * w[3];
                }
            for (int r = 0; r < PANEL; r++)
                c[i * PANEL + r] = fmaf((float)sum[r], scales[r] * xs[(size_t)i * ldxs + (size_t)g], c[i * PANEL + r]);
        }
#endif
    }
}

static inline int columns_left(const Matrix *m, size_t group) {
    size_t left = (size_t)m->cols - group * Q8_GROUP;
    return left < Q8_GROUP ? (int)left : Q8_GROUP;
}

// The int8 values of a row's group of 64 columns, zeros past its end.
static inline void int8_group(const Matrix *m, int row, size_t group, int8_t out[Q8_GROUP]) {
    if (m->type == WEIGHT_Q4) {
        q4_unpack(q4_pack(m, row, group), out);
    } else {
        memset(out, 0, Q8_GROUP);
        memcpy(out, (const int8_t *)m->data + (size_t)row * (size_t)m->cols + group * Q8_GROUP, (size_t)columns_left(m, group));
    }
}

static inline float int8_scale(const Matrix *m, int row, size_t group, int half) {
    return m->type == WEIGHT_Q4 ? q4_scale_of(m, row, group, half) : q8_scale(m, q8_first_group(m, row) + group);
}

// The dot product of one row of q8 or q4 weights with one quantized vector.
static float int8_row_dot(const Matrix *m, int row, const uint8_t *x, const float *xs) {
    size_t groups = ((size_t)m->cols + Q8_GROUP - 1) / Q8_GROUP;
    bool q4 = m->type == WEIGHT_Q4;
#ifdef __AVX512VNNI__
    __m512 sum = _mm512_setzero_ps();
    const __m512i bias = _mm512_set1_epi8((char)128);
    const int8_t *w8 = (const int8_t *)m->data + (size_t)row * (size_t)m->cols;
    for (size_t g = 0; g < groups; g++) {
        __m512i w;
        __m512 scale;
        if (q4) {
            __m256i packed = _mm256_loadu_si256((const void *)q4_pack(m, row, g)), low = _mm256_set1_epi8(15);
            w = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_and_si256(packed, low)), _mm256_and_si256(_mm256_srli_epi16(packed, 4), low), 1);
            w = _mm512_sub_epi8(w, _mm512_set1_epi8(8));
            scale = _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(q4_scale_of(m, row, g, 0)), _mm512_set1_ps(q4_scale_of(m, row, g, 1)));
        } else {
            int n = columns_left(m, g);
            w = n == Q8_GROUP ? _mm512_loadu_si512(w8 + g * Q8_GROUP) : _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, w8 + g * Q8_GROUP);
            scale = _mm512_set1_ps(int8_scale(m, row, g, 0));
        }
        __m512i product = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(x + g * Q8_GROUP), w);
        __m512i surplus = _mm512_dpbusd_epi32(_mm512_setzero_si512(), bias, w);
        scale = _mm512_mul_ps(scale, _mm512_set1_ps(xs[g]));
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(product, surplus)), scale, sum);
    }
    return _mm512_reduce_add_ps(sum);
#else
    float sum = 0;
    int run = q4 ? Q4_GROUP : Q8_GROUP;  // columns that share a scale
    for (size_t g = 0; g < groups; g++) {
        int8_t w[Q8_GROUP];
        int8_group(m, row, g, w);
        for (int first = 0; first < Q8_GROUP; first += run) {
            int32_t product = 0;
            for (int i = first; i < first + run; i++) product += (x[g * Q8_GROUP + (size_t)i] - 128) * w[i];
            sum = fmaf((float)product, int8_scale(m, row, g, first / run) * xs[g], sum);
        }
    }
    return sum;
#endif
}

static void q8_quantize(const float *x, int cols, uint8_t *out, float *scales) {
    for (int g = 0; g * Q8_GROUP < cols; g++) {
        const float *group = x + g * Q8_GROUP;
        uint8_t *q = out + g * Q8_GROUP;
        int n = cols - g * Q8_GROUP < Q8_GROUP ? cols - g * Q8_GROUP : Q8_GROUP;
        float most = max_abs(group, (size_t)n), inverse = most > 0 ? 127 / most : 0;
        for (int i = 0; i < n; i++) q[i] = (uint8_t)(nearest(group[i] * inverse) + 128);
        for (int i = n; i < Q8_GROUP; i++) q[i] = 128;
        scales[g] = most / 127;
    }
}

// ---- products -------------------------------------------------------------------------------------------------------

// One thread's room for unpacking weights.
typedef union {
    struct {
        float panel[K_BLOCK][PANEL];
        float row[K_BLOCK];
    } f;
    Q8Panel q8;
} Unpacked;

struct Workspace {
    int max_n, max_cols, n_threads;
    uint8_t *x8;       // (max_n, padded cols) quantized activations
    float *x8_scales;  // (max_n, groups)
    float *sums;       // (n_threads, max_n, PANEL)
    Unpacked *unpacked;  // (n_threads)
};

static size_t groups_of(int cols) {
    return ((size_t)cols + Q8_GROUP - 1) / Q8_GROUP;
}

size_t workspace_bytes(int max_n, int max_cols) {
    size_t n = (size_t)max_n, threads = (size_t)thread_count(), groups = groups_of(max_cols);
    return n * groups * (Q8_GROUP + sizeof(float)) + threads * (n * PANEL * sizeof(float) + sizeof(Unpacked));
}

Workspace *workspace_new(int max_n, int max_cols, Error *err) {
    Workspace *w = calloc(1, sizeof *w);
    if (!w) {
        fail(err, "no memory for the products");
        return NULL;
    }
    *w = (Workspace){.max_n = max_n, .max_cols = max_cols, .n_threads = thread_count()};
    size_t n = (size_t)max_n, threads = (size_t)w->n_threads;
    w->x8 = alloc_array(n, groups_of(max_cols) * Q8_GROUP, "quantized activations", err);
    w->x8_scales = alloc_array(n, groups_of(max_cols) * sizeof(float), "quantized activations", err);
    w->sums = alloc_array(threads * n, PANEL * sizeof(float), "sums of products", err);
    w->unpacked = alloc_array(threads, sizeof(Unpacked), "panels of weights", err);
    if (w->x8 && w->x8_scales && w->sums && w->unpacked) return w;
    workspace_free(w);
    return NULL;
}

void workspace_free(Workspace *w) {
    if (!w) return;
    free(w->x8);
    free(w->x8_scales);
    free(w->sums);
    free(w->unpacked);
    free(w);
}

static bool multiplies_int8(const Matrix *m) {
    return m->type == WEIGHT_Q4 || (m->type == WEIGHT_Q8 && m->group_size == Q8_GROUP && !m->groups_cross_rows);
}

static float row_dot(const Matrix *m, int row, const float *x, float *scratch) {
    const float *w = scratch;
    vf sum[4] = {{0}};
    float rest = 0;
    for (int k = 0; k < m->cols; k += K_BLOCK) {
        int n = m->cols - k < K_BLOCK ? m->cols - k : K_BLOCK, i = 0;
        if (m->type == WEIGHT_F32)
            w = (const float *)m->data + (size_t)row * (size_t)m->cols + (size_t)k;
        else
            matrix_row(m, row, k, n, scratch);
        for (; i + 4 * LANES <= n; i += 4 * LANES)
            for (int j = 0; j < 4; j++) sum[j] += load(w + i + j * LANES) * load(x + k + i + j * LANES);
        for (; i < n; i++) rest += w[i] * x[k + i];
    }
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

// Rows [first, last) of a product with few vectors.
static void rows_in_place(const Product *p, int first, int last, const float *x, int n, const Workspace *ws, float *scratch) {
    const Matrix *m = p->matrix;
    bool int8 = multiplies_int8(m);
    size_t groups = groups_of(m->cols);
    for (int r = first; r < last; r++)
        for (int t = 0; t < n; t++) {
            float *out = p->out + (size_t)t * p->stride + (size_t)r;
            if (int8)
                *out = int8_row_dot(m, r, ws->x8 + (size_t)t * groups * Q8_GROUP, ws->x8_scales + (size_t)t * groups);
            else
                *out = row_dot(m, r, x + (size_t)t * (size_t)m->cols, scratch);
        }
}

static void unpack_int8(const Matrix *m, int row, int rows, size_t group, int groups, Q8Panel *panel) {
    memset(panel, 0, sizeof *panel);
    panel->halves = m->type == WEIGHT_Q4 ? 2 : 1;
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < groups; g++) {
            int8_t values[Q8_GROUP];
            int run = Q8_GROUP / panel->halves;
            int8_group(m, row + r, group + (size_t)g, values);
            for (int q = 0; q < Q8_GROUP / 4; q++) memcpy(panel->values[g][q][r], values + 4 * q, 4);
            for (int half = 0; half < panel->halves; half++) {
                int32_t sum = 0;
                for (int i = half * run; i < (half + 1) * run; i++) sum += values[i];
                panel->surplus[g][half][r] = 128 * sum;
                panel->scales[g][half][r] = int8_scale(m, row + r, group + (size_t)g, half);
            }
        }
}

static void multiply_int8_panel(const Matrix *m, int row, int rows, int n, const Workspace *ws, Q8Panel *panel, float *sums) {
    size_t groups = groups_of(m->cols), ldx = groups * Q8_GROUP;
    for (size_t g = 0; g < groups; g += Q8_BLOCK) {
        int count = groups - g < Q8_BLOCK ? (int)(groups - g) : Q8_BLOCK;
        unpack_int8(m, row, rows, g, count, panel);
        for (int t = 0; t < n; t += TILE_ROWS) {
            const uint8_t *x = ws->x8 + (size_t)t * ldx + g * Q8_GROUP;
            const float *xs = ws->x8_scales + (size_t)t * groups + g;
            float *c = sums + (size_t)t * PANEL;
            switch (n - t) {
            case 1: q8_tile(1, count, x, ldx, xs, groups, panel, c); break;
            case 2: q8_tile(2, count, x, ldx, xs, groups, panel, c); break;
            case 3: q8_tile(3, count, x, ldx, xs, groups, panel, c); break;
            case 4: q8_tile(4, count, x, ldx, xs, groups, panel, c); break;
            case 5: q8_tile(5, count, x, ldx, xs, groups, panel, c); break;
            default: q8_tile(6, count, x, ldx, xs, groups, panel, c); break;
            }
        }
    }
}

static void multiply_float_panel(const Matrix *m, int row, int rows, const float *x, int n, Unpacked *u, float *sums) {
    for (int k = 0; k < m->cols; k += K_BLOCK) {
        int count = m->cols - k < K_BLOCK ? m->cols - k : K_BLOCK;
        if (rows < PANEL) memset(u->f.panel, 0, sizeof u->f.panel);
        for (int r = 0; r < rows; r++) {
            matrix_row(m, row + r, k, count, u->f.row);
            for (int i = 0; i < count; i++) u->f.panel[i][r] = u->f.row[i];
        }
        gemm_accumulate(n, PANEL, count, x + k, (size_t)m->cols, u->f.panel[0], PANEL, sums, PANEL);
    }
}

// Rows [row, row + PANEL) of a product with many vectors.
static void multiply_panel(const Product *p, int row, const float *x, int n, const Workspace *ws) {
    const Matrix *m = p->matrix;
    int rows = m->rows - row < PANEL ? m->rows - row : PANEL;
    Unpacked *unpacked = &ws->unpacked[thread_number()];
    float *sums = ws->sums + (size_t)thread_number() * (size_t)ws->max_n * PANEL;
    memset(sums, 0, (size_t)n * PANEL * sizeof *sums);
    if (multiplies_int8(m))
        multiply_int8_panel(m, row, rows, n, ws, &unpacked->q8, sums);
    else
        multiply_float_panel(m, row, rows, x, n, unpacked, sums);
    for (int t = 0; t < n; t++)
        memcpy(p->out + (size_t)t * p->stride + (size_t)row, sums + (size_t)t * PANEL, (size_t)rows * sizeof(float));
}

void matmul(const Product *products, int n_products, const float *x, int n, Workspace *ws) {
    int cols = products[0].matrix->cols, ends[MAX_PRODUCTS], total = 0;
    size_t work = 0;
    bool int8 = false;
    int unit = n <= FEW ? 16 : PANEL;  // rows of one piece of work
    for (int p = 0; p < n_products; p++) {
        total += (products[p].matrix->rows + unit - 1) / unit;
        ends[p] = total;
        work += (size_t)n * (size_t)products[p].matrix->rows * (size_t)cols;
        int8 = int8 || multiplies_int8(products[p].matrix);
    }
    (void)work;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(ws->n_threads) if (work >= WORTH_A_TEAM)
    {
        if (int8) {
            size_t groups = groups_of(cols);
#pragma omp for schedule(static)
            for (int t = 0; t < n; t++)
                q8_quantize(x + (size_t)t * (size_t)cols, cols, ws->x8 + (size_t)t * groups * Q8_GROUP, ws->x8_scales + (size_t)t * groups);
        }
#pragma omp for schedule(dynamic)
        for (int piece = 0; piece < total; piece++) {
            int p = 0;
            while (piece >= ends[p]) p++;
            int row = (piece - (p ? ends[p - 1] : 0)) * unit;
            if (n > FEW) {
                multiply_panel(&products[p], row, x, n, ws);
            } else {
                int rows = products[p].matrix->rows;
                rows_in_place(&products[p], row, rows - row < unit ? rows : row + unit, x, n, ws, ws->unpacked[thread_number()].f.row);
            }
        }
    }
}

// ---- elementwise ----------------------------------------------------------------------------------------------------

void rmsnorm(float *out, const float *x, const float *weight, int n, float eps) {
    vf squares = {0};
    float sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES) squares += load(x + i) * load(x + i);
    for (; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf((sum + sum_lanes(squares)) / (float)n + eps);
    for (i = 0; i < n; i++) out[i] = x[i] * scale * weight[i];
}

// e^x to 2 units in the last place: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r (the coefficients of
// Cephes' expf), and n added to the exponent. 0 below the smallest normal number; NaN stays NaN.
static inline vf exp_vf(vf x) {
    vf y = select_vf(x < -87.0f, splat(-87.0f), x);
    y = select_vf(y > 88.0f, splat(88.0f), y);
    vf shifted = y * 1.44269504088896341f + 0x1.8p23f;
    vf n = shifted - 0x1.8p23f;
    vf r = y - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    vf power = (vf)(((vu)shifted << 23) + 0x3f800000);
    return select_vf(x < -87.0f, (vf){0}, p * power);
}

// The same for the last elements of an array, fewer than LANES.
static inline vf load_part(const float *p, int n) {
    float lanes[LANES] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return load(lanes);
}

static inline void store_part(float *p, vf x, int n) {
    memcpy(p, &x, (size_t)n * sizeof *p);
}

float exp_and_sum(float *x, int n, float max) {
    vf sums = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf e = exp_vf(load(x + i) - max);
        store(x + i, e);
        sums += e;
    }
    float sum = sum_lanes(sums);
    if (i < n) {
        store_part(x + i, exp_vf(load_part(x + i, n - i) - max), n - i);
        for (; i < n; i++) sum += x[i];
    }
    return sum;
}

static inline vf silu(vf x) {
    return x / (1.0f + exp_vf(-x));
}

void swiglu(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store(gate + i, silu(load(gate + i)) * load(up + i));
    if (i < n) store_part(gate + i, silu(load_part(gate + i, (int)(n - i))) * load_part(up + i, (int)(n - i)), (int)(n - i));
}

void add_to(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

void scale_by(float *x, float factor, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

// 0 * x is 0 unless x is not finite.
bool all_finite(const float *x, size_t n) {
    vf zeros = {0};
    float zero = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) zeros += load(x + i) * 0.0f;
    for (; i < n; i++) zero += x[i] * 0.0f;
    return sum_lanes(zeros) + zero == 0;
}

float max_of(const float *x, int n) {
    vf most = splat(-INFINITY);
    int i = 0;
    for (; i + LANES <= n; i += LANES) most = select_vf(load(x + i) > most, load(x + i), most);
    float max = -INFINITY, lanes[LANES];
    memcpy(lanes, &most, sizeof most);
    for (int j = 0; j < LANES; j++) max = lanes[j] > max ? lanes[j] : max;
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

void rotate_lanes(float *a, float *b, const float *cosines, const float *sines, int n) {
    for (int i = 0; i < n; i++) {
        float x = a[i], y = b[i];
        a[i] = x * cosines[i] - y * sines[i];
        b[i] = x * sines[i] + y * cosines[i];
    }
}
