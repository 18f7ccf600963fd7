// The arithmetic of the forward pass and the sampler as its definition: float32 vectors, and a loop
// where a formula has a sum. The fast engine has kernels of its own.
#pragma once

#include <stdint.h>

#include "../weights/matrix.h"

// The sum of a[i] * b[i], all (n).
float dot(const float *a, const float *b, int64_t n);
// out (rows) = w (rows, cols) @ x (cols). Weights of any type are widened row by row, in `row` (see
// weights_row).
void matmul(float *out, const Matrix *w, const float *x, float *row);
// x (n) *= scale.
void scale_all(float *x, float scale, int64_t n);
// out += scale * x, both (n).
void add(float *out, float scale, const float *x, int64_t n);
// out = x / sqrt(mean(x^2) + eps) * weight, all (n); out may be x. A weight of NULL is ones. arXiv
// 1910.07467.
void rmsnorm(float *out, const float *x, const float *weight, int64_t n, double eps);
// The same of x less its mean. arXiv 1607.06450.
void layernorm(float *out, const float *x, const float *weight, int64_t n, double eps);
// x (n >= 1) = exp(x) / sum(exp(x)); 0 where x is -infinity. Not all of it may be that.
void softmax(float *x, int n);
// 1 / (1 + exp(-z)).
float sigmoid(float z);
// z / (1 + exp(-z)). arXiv 1702.03118.
float silu(float z);
// z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2, the usual form of GELU. arXiv 1606.08415.
float gelu(float z);
// max(z, 0)^2. arXiv 2109.08668.
float relu2(float z);
// ln(1 + exp(z))
float softplus(float z);
// Of alpha_p, alpha_n, beta and eps. With p = softplus(alpha_p) and n = beta + softplus(alpha_n):
// p z^2 + beta z above 0, and n (exp(min(z, eps)) - 1 - z) + beta z below. arXiv 2411.13010.
float xielu(float z, const float parameters[4]);
// cap tanh(z / cap)
float capped(float z, float cap);
// g sigmoid(1.702 g) (u + 1), with g at most 7 and u from -7 to 7. NaN stays. gpt-oss's SwiGLU,
// arXiv 2508.10925.
float clamped_swiglu(float g, float u);
