// The arithmetic below the layers: products of small float32 matrices, and the few vector loops
// that take time. Vectors and matrices are row-major float32 unless a comment gives another type.
// Processors' own instructions are in simd.h.
#pragma once

#include "../base/util.h"
#include "number.h"

// C (m, n) += A (m, k) B (k, n). Rows of A and B lie a stride apart, in elements. n is a multiple
// of 16. B is of any type but bfloat16. `turns`, if not NULL, has (k / 2, b_stride) cosines, then
// as many sines. Then k is even, and B is rotated on the way: rows 2i and 2i + 1, (x, y), become
// (x cos - y sin, x sin + y cos) with row i of the cosines and sines.
typedef struct {
    int64_t m, n, k;
    const float *a;
    int64_t a_stride;
    const void *b;
    Number b_type;
    int64_t b_stride;
    float *c;
    const float *turns;  // or NULL
} Gemm;

void gemm_accumulate(const Gemm *gemm);

// The sum of a[i] * b[i] over n elements.
float dot_fast(const float *a, const float *b, int64_t n);

// out = x / sqrt(mean(x^2) + eps) * weight, over n elements. A weight of NULL is ones.
void rmsnorm_fast(float *out, const float *x, const float *weight, int64_t n, float eps);
// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight, over n elements.
void layernorm_fast(float *out, const float *x, const float *weight, int64_t n, float eps);

// gate = silu(gate) * up, silu(x) = x / (1 + exp(-x)). SwiGLU, arXiv 2002.05202.
void swiglu(float *gate, const float *up, int64_t n);
// x = silu(x).
void silu_all(float *x, int64_t n);
// gate = gelu(gate) * up, gelu(x) = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. GELU, arXiv
// 1606.08415.
void geglu(float *gate, const float *up, int64_t n);

// gate = g sigmoid(1.702 g) (u + 1) with g = min(gate, 7), u = up clamped to -7 ... 7. gpt-oss,
// arXiv 2508.10925.
void clamped_glu(float *gate, const float *up, int64_t n);

// x = max(x, 0)^2, and xielu of src/kinds/curves.h.
void relu2_all(float *x, int64_t n);
void xielu_all(float *x, const float parameters[4], int64_t n);
// x = cap tanh(x / cap)
void cap_all(float *x, float cap, int64_t n);
// x (n) *= softplus of the gates (n / shared), or sigmoid of the gates (n).
void gate_by_softplus(float *x, const float *gates, int64_t shared, int64_t n);
void gate_by_sigmoid(float *x, const float *gates, int64_t n);

void scale_by(float *x, float factor, int64_t n);  // x *= factor
void add_to(float *x, const float *y, int64_t n);  // x += y
float max_of(const float *x, int64_t n);           // -inf when n is 0
// x = exp(x - max), exactly 0 if x is -inf; returns the sum.
float exp_and_sum(float *x, int64_t n, float max);

// n numbers of any type to float32.
void numbers_to_f32(float *out, const void *x, Number type, int64_t n);
// Numbers of 4 bits, of which 8 stands for 0, times their scales, as float32. n rows are the low
// halves of `half` bytes, a multiple of 16, then their high halves; each column has a scale, and
// each row a summand `plus` (NULL: none).
void columns_of_4_bits(float *out, const uint8_t *bytes, int64_t n, int64_t half,
                       const float *scales, const float *plus);
// Of n rows (n, width), eight are interleaved: (n / 8, width, 4 bytes), where byte j has row j in
// its low half, j + 4 in the high. 32 columns of a row share a scale: (width / 32, n).
void eights_of_4_bits(float *out, const uint8_t *bytes, int64_t n, int64_t width,
                      const float *scales);
// n float32 numbers to any type but bfloat16. float16 is rounded to nearest even and overflows to
// infinity. int8 is round(x / scale). Returns 1, or for int8 scale = max|x| / 127: 0 if all are 0,
// NaN if one is no number.
float numbers_from_f32(void *out, Number type, const float *x, int64_t n);
