// Arithmetic of other families, in the place of a Llama's SiLU and RMS norm, or beside them.
#include "curves.h"

#include <math.h>

#include "../llama/arithmetic.h"

void matmul_biased(float *out, const Matrix *w, const float *x, const float *bias, float *row) {
    matmul(out, w, x, row);
    if (bias) add(out, 1, bias, w->rows);
}

void scale_all(float *x, float scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

// The fast engine's is layernorm_fast (src/fast/kernels.c).
void layernorm(float *out, const float *x, const float *weight, int64_t n, double eps) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    float mean = sum / (float)n;
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - mean;
    rmsnorm(out, out, weight, n, eps);
}

float sigmoid(float z) { return 1 / (1 + expf(-z)); }

float gelu(float z) {
    const float root = 0.79788456f;  // of 2 / pi
    return z * (1 + tanhf(root * (z + 0.044715f * z * z * z))) / 2;
}

float relu2(float z) { return z > 0 ? z * z : 0; }

float softplus(float z) { return z > 20 ? z : log1pf(expf(z)); }

float xielu(float z, const float parameters[4]) {
    float rising = softplus(parameters[0]);
    float beta = parameters[2];
    float falling = beta + softplus(parameters[1]);
    float least = z < parameters[3] ? z : parameters[3];
    float curve = z > 0 ? rising * z * z : (expm1f(least) - z) * falling;
    return curve + beta * z;
}

float capped(float z, float cap) { return cap * tanhf(z / cap); }

float clamped_swiglu(float g, float u) {
    const float most = 7;
    if (g > most) g = most;
    if (u > most) u = most;
    if (u < -most) u = -most;
    return g / (1 + expf(-1.702f * g)) * (u + 1);
}
