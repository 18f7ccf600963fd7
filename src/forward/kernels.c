// Small products: a tile of 6 rows by TILE_VECS vectors of columns is kept in registers while k goes by, so that arithmetic is
// the limit and not loading. Keys and values are multiplied as they lie in the cache, widened on the way to the registers.
#define _POSIX_C_SOURCE 200809L
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd.h"

enum { FEW = 3 };  // rows that are multiplied no faster than memory is read

// ---- number formats -------------------------------------------------------------------------------------------------

void f16_to_f32(float *out, const uint16_t *x, size_t n) {
    const char *from = (const char *)x;  // weights may lie at odd addresses
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store(out + i, load_f16(from + 2 * i));
    if (i < n) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, from + 2 * i, 2 * (n - i));
        vf wide = load_f16(rest);
        memcpy(out + i, &wide, 4 * (n - i));
    }
}

void f32_to_f16(uint16_t *out, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store_f16(out + i, load(x + i));
    if (i < n) {
        float rest[LANES] = {0};
        uint16_t half[LANES];
        memcpy(rest, x + i, 4 * (n - i));
        store_f16(half, load(rest));
        memcpy(out + i, half, 2 * (n - i));
    }
}

void i8_to_f32(float *out, const int8_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = x[i];
}

// The first n of LANES elements, zeros behind them; a call only where it is needed.
static inline vf load_some(const float *x, size_t n) {
    float lanes[LANES] = {0};
    if (n >= LANES) return load(x);
    memcpy(lanes, x, n * sizeof *x);
    return load(lanes);
}

static inline void store_some(float *out, vf x, size_t n) {
    if (n >= LANES) store(out, x);
    else memcpy(out, &x, n * sizeof *out);
}

float f32_to_i8(int8_t *out, const float *x, size_t n) {
    vf most = {0}, strange = {0};
    for (size_t i = 0; i < n; i += LANES) {
        vf v = load_some(x + i, n - i), a = (vf)((vu)v & 0x7fffffff);
        most = select_vf(a > most, a, most);
        strange += v * 0.0f;
    }
    float max = max_lanes(most), scale = max / 127, inverse = scale > 0 ? 127 / max : 0;
    for (size_t i = 0; i < n; i += LANES) {
        // Adding 1.5 * 2^23 leaves the nearest whole number (ties to even) in the low bits of the sum.
        vu bits = (vu)(load_some(x + i, n - i) * inverse + 0x1.8p23f);
        int8_t bytes[LANES];
        for (int j = 0; j < LANES; j++) bytes[j] = (int8_t)bits[j];
        if (n - i >= LANES) memcpy(out + i, bytes, LANES);
        else memcpy(out + i, bytes, n - i);
    }
    return scale + sum_lanes(strange);
}

// ---- float tiles ----------------------------------------------------------------------------------------------------

static inline __attribute__((always_inline)) vf load_number(const void *b, Number type, size_t at) {
    return type == NUMBER_F32   ? load((const float *)b + at)
           : type == NUMBER_F16 ? load_f16((const uint16_t *)b + at)
                                : load_i8((const int8_t *)b + at);
}

// One register tile: C (m, vecs * LANES) += A (m, k) B. Inlined with constant m, vecs and type, so that `sum` is registers.
static inline __attribute__((always_inline)) void tile(int m, int vecs, int k, const float *a, size_t lda,
                                                       const void *b, Number type, size_t at, size_t ldb, float *c,
                                                       size_t ldc) {
    vf sum[TILE_ROWS][TILE_VECS];
    const int size = type == NUMBER_F32 ? 4 : type == NUMBER_F16 ? 2 : 1;
    UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < vecs; j++) sum[i][j] =
        load(c + (size_t)i * ldc + (size_t)(j * LANES));
    const float *rows[] = {a, a + 3 * lda};  // two pointers and one stride reach all six rows
    for (int p = 0; p < k; p++, at += ldb) {
        vf column[TILE_VECS];
        for (int j = 0; m <= FEW && j < vecs * LANES; j += 64 / size)
            ask_for((const char *)b + (at + (size_t)j) * (size_t)size);
        UNROLL for (int j = 0; j < vecs; j++) column[j] = load_number(b, type, at + (size_t)(j * LANES));
        UNROLL for (int i = 0; i < m; i++) {
            float x = rows[i / 3][(size_t)(i % 3) * lda + (size_t)p];
            UNROLL for (int j = 0; j < vecs; j++) sum[i][j] += x * column[j];
        }
    }
    UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < vecs; j++)
        store(c + (size_t)i * ldc + (size_t)(j * LANES), sum[i][j]);
}

static inline __attribute__((always_inline)) void gemm_of_type(int m, int n, int k, const float *a, size_t lda,
                                                               const void *b, Number type, size_t ldb, float *c,
                                                               size_t ldc) {
    for (int i = 0; i < m; i += TILE_ROWS, a += TILE_ROWS * lda, c += TILE_ROWS * ldc) {
        int j = 0;
        for (; j + TILE_VECS * LANES <= n; j += TILE_VECS * LANES) switch (m - i) {
            case 1: tile(1, TILE_VECS, k, a, lda, b, type, (size_t)j, ldb, c + j, ldc); break;
            case 2: tile(2, TILE_VECS, k, a, lda, b, type, (size_t)j, ldb, c + j, ldc); break;
            case 3: tile(3, TILE_VECS, k, a, lda, b, type, (size_t)j, ldb, c + j, ldc); break;
            case 4: tile(4, TILE_VECS, k, a, lda, b, type, (size_t)j, ldb, c + j, ldc); break;
            case 5: tile(5, TILE_VECS, k, a, lda, b, type, (size_t)j, ldb, c + j, ldc); break;
            default: tile(6, TILE_VECS, k, a, lda, b, type, (size_t)j, ldb, c + j, ldc);
            }
        for (; j < n; j += LANES)
            for (int r = 0; r < TILE_ROWS && i + r < m; r++)
                tile(1, 1, k, a + (size_t)r * lda, lda, b, type, (size_t)j, ldb, c + (size_t)r * ldc + j, ldc);
    }
}

void gemm_accumulate(int m, int n, int k, const float *a, size_t lda, const void *b, Number type, size_t ldb, float *c,
                     size_t ldc) {
    switch (type) {
    case NUMBER_F32: gemm_of_type(m, n, k, a, lda, b, NUMBER_F32, ldb, c, ldc); break;
    case NUMBER_F16: gemm_of_type(m, n, k, a, lda, b, NUMBER_F16, ldb, c, ldc); break;
    default: gemm_of_type(m, n, k, a, lda, b, NUMBER_I8, ldb, c, ldc);
    }
}

// The tile for keys that are rotated on their way into the registers: pair i is rows 2i and 2i + 1 of b, 64 columns wide.
static inline __attribute__((always_inline)) void rotated_tile(int m, int pairs, const float *a, size_t lda,
                                                               const void *b, Number type, const float *cosines,
                                                               const float *sines, float *c, size_t ldc) {
    const int size = type == NUMBER_F32 ? 4 : type == NUMBER_F16 ? 2 : 1;
    for (int column = 0; column < 64; column += TILE_VECS * LANES) {
        vf sum[TILE_ROWS][TILE_VECS];
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < TILE_VECS; j++) sum[i][j] =
            load(c + (size_t)i * ldc + column + j * LANES);
        for (int p = 0; p < pairs; p++) {
            for (int j = 0; j < 2 * TILE_VECS * LANES * size; j += 64) ask_for((const char *)b + 128 * p * size + j);
            UNROLL for (int j = 0; j < TILE_VECS; j++) {
                size_t across = (size_t)column + (size_t)j * LANES, at = (size_t)p * 128 + across,
                       angle = (size_t)p * 64 + across;
                vf x = load_number(b, type, at), y = load_number(b, type, at + 64), cosine = load(cosines + angle),
                   sine = load(sines + angle);
                vf turned = x * cosine - y * sine, other = x * sine + y * cosine;
                UNROLL for (int i = 0; i < m; i++) sum[i][j] +=
                    a[(size_t)i * lda + (size_t)(2 * p)] * turned + a[(size_t)i * lda + (size_t)(2 * p + 1)] * other;
            }
        }
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < TILE_VECS; j++)
            store(c + (size_t)i * ldc + column + j * LANES, sum[i][j]);
    }
}

static inline __attribute__((always_inline)) void rotated_of_type(int m, int pairs, const float *a, size_t lda,
                                                                  const void *b, Number type, const float *cosines,
                                                                  const float *sines, float *c, size_t ldc) {
    for (; m >= 4; m -= 4, a += 4 * lda, c += 4 * ldc) rotated_tile(4, pairs, a, lda, b, type, cosines, sines, c, ldc);
    for (; m > 0; m--, a += lda, c += ldc) rotated_tile(1, pairs, a, lda, b, type, cosines, sines, c, ldc);
}

void gemm_rotated(int m, int pairs, const float *a, size_t lda, const void *b, Number type, const float *cosines,
                  const float *sines, float *c, size_t ldc) {
    switch (type) {
    case NUMBER_F32: rotated_of_type(m, pairs, a, lda, b, NUMBER_F32, cosines, sines, c, ldc); break;
    case NUMBER_F16: rotated_of_type(m, pairs, a, lda, b, NUMBER_F16, cosines, sines, c, ldc); break;
    default: rotated_of_type(m, pairs, a, lda, b, NUMBER_I8, cosines, sines, c, ldc);
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
        store_some(x + i, exp_vf(load_some(x + i, (size_t)(n - i)) - max), (size_t)(n - i));
        for (; i < n; i++) sum += x[i];
    }
    return sum;
}

static inline vf silu(vf x) { return x / (1.0f + exp_vf(select_vf(x < -88.0f, splat(88.0f), -x))); }

void swiglu(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        store_some(gate + i, silu(load_some(gate + i, n - i)) * load_some(up + i, n - i), n - i);
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
    float max = max_lanes(most);
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
