// The arithmetic of the forward pass and the sampler, by definition: float32 vectors, and a loop
// for each sum of a formula. The fast engine has its own kernels.
#pragma once

#include <stdint.h>

#include "../weights/matrix.h"

// The sum of a[i] * b[i], all (n).
float dot(const float *a, const float *b, int64_t n);
// out (rows) = w (rows, cols) @ x (cols), large ones by all threads. Weights of any type are
// widened row by row, in `row` (MATMUL_PARTS, cols + Q4_PACK), which has room for a whole last pack
// of each.
enum { MATMUL_PARTS = 64 };  // of the rows, each read by one thread
void matmul(float *out, const Matrix *w, const float *x, float *row);
// out += scale * x, both (n).
void add(float *out, float scale, const float *x, int64_t n);
// out = x / sqrt(mean(x^2) + eps) * weight, all (n); out may be x. A weight of NULL is ones. arXiv
// 1910.07467.
void rmsnorm(float *out, const float *x, const float *weight, int64_t n, double eps);
// x (n >= 1) = exp(x) / sum(exp(x)); 0 where x is -infinity, which not all of it may be.
void softmax(float *x, int n);
// z / (1 + exp(-z)). arXiv 1702.03118.
float silu(float z);
