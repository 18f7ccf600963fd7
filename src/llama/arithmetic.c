// The arithmetic of the forward pass and the sampler, a loop for each sum.
#include "arithmetic.h"

#include <math.h>

// Sums side by side, of which compilers make vectors. In the end the upper half of them is added to
// the lower, and so on.
float dot(const float *a, const float *b, int64_t n) {
    enum { SUMS = 8 };
    float sums[SUMS] = {0};
    float sum = 0;
    int64_t whole = n / SUMS * SUMS;
    for (int64_t i = 0; i < whole; i += SUMS) {
        for (int s = 0; s < SUMS; s++) {
            sums[s] += a[i + s] * b[i + s];
        }
    }
    for (int64_t i = whole; i < n; i++) sum += a[i] * b[i];
    for (int half = SUMS / 2; half > 0; half /= 2) {
        for (int s = 0; s < half; s++) sums[s] += sums[s + half];
    }
    return sum + sums[0];
}

void matmul(float *out, const Matrix *w, const float *x, float *row) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *weights = weights_row(w, r, row);
        out[r] = dot(weights, x, w->cols);
    }
}

void scale_all(float *x, float scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

void add(float *out, float scale, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] += scale * x[i];
}

// The fast engine's is rmsnorm_fast (src/fast/kernels.c). Whoever changes the norm changes both.
void rmsnorm(float *out, const float *x, const float *weight, int64_t n, double eps) {
    float mean = dot(x, x, n) / (float)n;
    float scale = 1 / sqrtf(mean + (float)eps);
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale * (weight ? weight[i] : 1);
}

// Likewise layernorm_fast.
void layernorm(float *out, const float *x, const float *weight, int64_t n, double eps) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    float mean = sum / (float)n;
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - mean;
    rmsnorm(out, out, weight, n, eps);
}

// The largest is subtracted first, so that exp stays in range.
void softmax(float *x, int n) {
    float max = x[0];
    float sum = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > max) max = x[i];
    for (int i = 0; i < n; i++) {
        x[i] = expf(x[i] - max);
        sum += x[i];
    }
    for (int i = 0; i < n; i++) x[i] /= sum;
}

float sigmoid(float z) { return 1 / (1 + expf(-z)); }

float silu(float z) { return z / (1 + expf(-z)); }

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
