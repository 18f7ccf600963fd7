// The arithmetic: matrix products over every weight type and the few vector loops that take time.
// All SIMD is in kernels.c, behind plain functions. Vectors and matrices are row-major float32 unless said.
#ifndef KERNELS_H
#define KERNELS_H

#include "util.h"

typedef enum { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8, WEIGHT_Q4, N_WEIGHT_TYPES } WeightType;

extern const char *const weight_type_names[N_WEIGHT_TYPES];

enum {
    Q8_GROUP = 64,  // values that share a scale in q8, in the files that we write and in quantized activations
    Q4_GROUP = 32,  // values that share a scale in q4
    Q4_PACK = 64,   // values that are packed together in q4, a row's last ones filled up with zeros: two groups in 32 bytes
};

// A matrix of weights where it lies in the file: y = W x, x has `cols` elements, y has `rows`. Any alignment.
typedef struct {
    WeightType type;
    int rows, cols;
    const void *data;
    const void *scales;      // q8: one float32 per group of values; q4: one float16, two per pack
    int group_size;          // q8, q4: values per group
    bool groups_cross_rows;  // q8 of llama2.c's version 2: groups run on from row to row
} Matrix;

// Columns [col, col + n) of a row as float32.
void matrix_row(const Matrix *matrix, int row, int col, int n, float *out);

// Memory that products need besides their operands: for `max_n` vectors of at most `max_cols` elements.
typedef struct Workspace Workspace;
Workspace *workspace_new(int max_n, int max_cols, Error *err);
void workspace_free(Workspace *workspace);
// How many bytes workspace_new would ask for.
size_t workspace_bytes(int max_n, int max_cols);

// One product of a set that shares its input: out[t * stride + r] = W[r] . x[t]
typedef struct {
    const Matrix *matrix;
    float *out;
    size_t stride;
} Product;

enum { MAX_PRODUCTS = 3 };

// All the products (at most MAX_PRODUCTS, equal cols) with the n vectors x (n, cols), on all threads.
// The result does not depend on the number of threads. q4 weights, and q8 weights with groups of 64, multiply activations
// that are rounded to int8 in groups of 64; all other types multiply float32.
void matmul(const Product *products, int n_products, const float *x, int n, Workspace *workspace);

// C (m, n) += A (m, k) B (k, n), with row strides lda, ldb, ldc; n a multiple of 16.
void gemm_accumulate(int m, int n, int k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc);

// out = x / sqrt(mean(x^2) + eps) * weight, all of n elements.
void rmsnorm(float *out, const float *x, const float *weight, int n, float eps);

// gate = silu(gate) * up, silu(x) = x / (1 + exp(-x)). SwiGLU, arXiv 2002.05202.
void swiglu(float *gate, const float *up, size_t n);

void add_to(float *x, const float *y, size_t n);    // x += y
void scale_by(float *x, float factor, size_t n);    // x *= factor
bool all_finite(const float *x, size_t n);          // neither NaN nor infinity among them
float max_of(const float *x, int n);                // -inf when n is 0
// x = exp(x - max), exactly 0 where x is -inf; returns the sum.
float exp_and_sum(float *x, int n, float max);

// Conversions of n elements. f16 is rounded to nearest even and overflows to infinity.
void f32_to_f16(uint16_t *out, const float *x, size_t n);
void f16_to_f32(float *out, const uint16_t *x, size_t n);
// out = x * scale
void i8_to_f32(float *out, const int8_t *x, float scale, size_t n);
// out = round(x / scale) with scale = max|x| / 127, which is returned (0 when all are 0).
float f32_to_i8(int8_t *out, const float *x, size_t n);
// Rotates pair rows by a table, elementwise over n lanes: (a, b) = (a c - b s, a s + b c).
void rotate_lanes(float *a, float *b, const float *cosines, const float *sines, int n);

#endif
