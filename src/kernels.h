// The arithmetic: matrix products over every weight type and the few vector loops that take time.
// Processors' own instructions are in simd.h. Vectors and matrices are row-major float32 unless said.
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

// n vectors x (n, cols), and what is done to them first: with `norm`, an RMS norm with these weights and `eps`.
typedef struct {
    const float *x;
    int n;
    const float *norm;  // (cols), NULL: none
    float eps;
} Input;

// One product of a set that shares its input: out[t * stride + r] = W[r] . x[t]; with `gate`, silu(gate[r] . x[t]) times
// that (SwiGLU, arXiv 2002.05202); with `add`, added to what is there.
typedef struct {
    const Matrix *matrix, *gate;
    float *out;
    size_t stride;
    bool add;
} Product;

// All the products with the input's vectors; all matrices have equal cols. A team of threads calls it together and shares
// the work, everything is done when it returns. The result does not depend on the number of threads. q4 weights, and q8
// weights with groups of 64, multiply activations that are rounded to int8 in groups of 64; all other types multiply float32.
void matmul(const Product *products, int n_products, const Input *input, Workspace *workspace);

// Element types that gemm_accumulate can multiply with.
typedef enum { NUMBER_F16, NUMBER_F32, NUMBER_I8 } Number;
// C (m, n) += A (m, k) B (k, n), with row strides lda, ldb, ldc in elements; n a multiple of 16. A and C are float32.
void gemm_accumulate(int m, int n, int k, const float *a, size_t lda, const void *b, Number b_type, size_t ldb, float *c, size_t ldc);

// out = x / sqrt(mean(x^2) + eps) * weight, all of n elements.
void rmsnorm(float *out, const float *x, const float *weight, int n, float eps);

// gate = silu(gate) * up, silu(x) = x / (1 + exp(-x)). SwiGLU, arXiv 2002.05202.
void swiglu(float *gate, const float *up, size_t n);

void scale_by(float *x, float factor, size_t n);    // x *= factor
bool all_finite(const float *x, size_t n);          // neither NaN nor infinity among them
float max_of(const float *x, int n);                // -inf when n is 0
// x = exp(x - max), exactly 0 where x is -inf; returns the sum.
float exp_and_sum(float *x, int n, float max);

// Conversions of n elements. f16 is rounded to nearest even and overflows to infinity.
void f32_to_f16(uint16_t *out, const float *x, size_t n);
void f16_to_f32(float *out, const uint16_t *x, size_t n);
void i8_to_f32(float *out, const int8_t *x, size_t n);
// out = round(x / scale) with scale = max|x| / 127, which is returned (0 when all are 0).
float f32_to_i8(int8_t *out, const float *x, size_t n);
// Rotates pair rows by a table, elementwise over n lanes: (a, b) = (a c - b s, a s + b c).
void rotate_lanes(float *a, float *b, const float *cosines, const float *sines, int n);

#endif
