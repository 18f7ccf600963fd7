// The arithmetic below the layers: products of small float32 matrices, and the few vector loops that take time.
// Processors' own instructions are in simd.h. Vectors and matrices are row-major float32 unless said.
#ifndef KERNELS_H
#define KERNELS_H

#include "../util.h"

// Element types that gemm_accumulate can multiply with.
typedef enum { NUMBER_F16, NUMBER_F32, NUMBER_I8 } Number;

// C (m, n) += A (m, k) B (k, n), with row strides lda, ldb, ldc in elements; n a multiple of 16. A and C are float32.
void gemm_accumulate(int m, int n, int k, const float *a, size_t lda, const void *b, Number b_type, size_t ldb,
                     float *c, size_t ldc);

// C (m, 64) += A (m, 2 pairs) B (2 pairs, 64) with B rotated on the way: rows 2i and 2i + 1, (x, y), become
// (x cos - y sin, x sin + y cos) with row i of the cosines and sines (pairs, 64).
void gemm_rotated(int m, int pairs, const float *a, size_t lda, const void *b, Number b_type, const float *cosines,
                  const float *sines, float *c, size_t ldc);

// out = x / sqrt(mean(x^2) + eps) * weight, all of n elements.
void rmsnorm(float *out, const float *x, const float *weight, int n, float eps);

// gate = silu(gate) * up, silu(x) = x / (1 + exp(-x)). SwiGLU, arXiv 2002.05202.
void swiglu(float *gate, const float *up, size_t n);

void scale_by(float *x, float factor, size_t n);  // x *= factor
bool all_finite(const float *x, size_t n);        // neither NaN nor infinity among them
float max_of(const float *x, int n);              // -inf when n is 0
// x = exp(x - max), exactly 0 where x is -inf; returns the sum.
float exp_and_sum(float *x, int n, float max);

// Conversions of n elements. f16 is rounded to nearest even and overflows to infinity.
void f32_to_f16(uint16_t *out, const float *x, size_t n);
void f16_to_f32(float *out, const uint16_t *x, size_t n);
void i8_to_f32(float *out, const int8_t *x, size_t n);
// out = round(x / scale) with scale = max|x| / 127, which is returned: 0 when all are 0, NaN when one is no number.
float f32_to_i8(int8_t *out, const float *x, size_t n);
// Rotates pair rows by a table, elementwise over n lanes: (a, b) = (a c - b s, a s + b c).
void rotate_lanes(float *a, float *b, const float *cosines, const float *sines, int n);

#endif
