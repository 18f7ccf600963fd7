// The arithmetic of the forward pass and the sampler, a loop for each sum.
#include "arithmetic.h"

#include <math.h>

// Several sums side by side, which compilers turn into vectors. At the end the upper half of them
// is added to the lower, and so on.
float dot(const float *a, const float *b, int64_t n) {
    enum { SUMS = 32 };
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

// One thread computes a whole sum, so the result does not depend on the number of threads. A small
// matrix is not worth starting them.
void matmul(float *out, const Matrix *w, const float *x, float *row) {
    enum { LEAST_FOR_THREADS = 1 << 16 };
#pragma omp parallel for if (w->rows * w->cols >= LEAST_FOR_THREADS)
    for (int64_t part = 0; part < MATMUL_PARTS; part++) {
        float *room = row + part * (w->cols + Q4_PACK);
        int64_t end = w->rows * (part + 1) / MATMUL_PARTS;
        for (int64_t r = w->rows * part / MATMUL_PARTS; r < end; r++)
            out[r] = dot(weights_row(w, r, room), x, w->cols);
    }
}

void add(float *out, float scale, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] += scale * x[i];
}

// The fast engine has rmsnorm_fast (src/fast/kernels.c). To change the norm, change both.
void rmsnorm(float *out, const float *x, const float *weight, int64_t n, double eps) {
    float mean = dot(x, x, n) / (float)n;
    float scale = 1 / sqrtf(mean + (float)eps);
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale * (weight ? weight[i] : 1);
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

float silu(float z) { return z / (1 + expf(-z)); }
