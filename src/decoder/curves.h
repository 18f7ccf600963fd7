// Arithmetic of other families, in the place of a Llama's SiLU and RMS norm, or beside them.
#pragma once

#include "../weights/matrix.h"

// out (rows) = w (rows, cols) @ x (cols) + bias (rows), which may be NULL: none. `row` is matmul's.
void matmul_biased(float *out, const Matrix *w, const float *x, const float *bias, float *row);
// x (n) *= scale.
void scale_all(float *x, float scale, int64_t n);
// rmsnorm of x less its mean. arXiv 1607.06450.
void layernorm(float *out, const float *x, const float *weight, int64_t n, double eps);
// 1 / (1 + exp(-z)).
float sigmoid(float z);
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
