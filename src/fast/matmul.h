// Matrices of weights, of every weight type: their products, by a team of threads, and their rows
// as float32.
#pragma once

#include "../weights/matrix.h"
#include "team.h"

// Memory for up to max_n vectors of up to max_cols elements and n_threads threads. With `floats` no
// activation is rounded to int8. NULL from an arena that only counts.
typedef struct Workspace Workspace;
Workspace *workspace_lay_out(Arena *arena, int64_t max_n, int64_t max_cols, int n_threads,
                             bool floats);

// n vectors, rows of x (all, cols). With `norm` they first go through an RMS norm with these
// weights and `eps`, of x less its mean if it `centers`.
typedef struct {
    const float *x;
    int64_t n;
    const float *norm;  // (cols), NULL: none
    float eps;
    bool centers;
    const int *rows;  // (n) which rows of x, NULL: the first n. Not in matmul_by_team
} Input;

// One product of a set that shares its input: out[t * stride + r] = W[r] . x[t] + bias[r]. With
// `gate` the product with the gate, plus its bias, goes through the activation and multiplies the
// other (see swiglu, geglu, clamped_glu). An activation without a gate applies to the product
// itself. With `factors` the result is multiplied with the vector's factor. With `add` it is added
// to `out`.
typedef struct {
    const Matrix *matrix, *gate;
    int activation;                 // ACTIVATION_...
    const float *xielu;             // (4) of ACTIVATION_XIELU
    const float *bias, *gate_bias;  // (rows), NULL: none
    float *out;
    int64_t stride;
    bool add;
    const int *to;               // (n) the row of `out` of each vector, NULL: its own number
    const float *factors;        // (n), NULL: 1
    const float *input_factors;  // (n) of the vectors themselves, before biases; NULL: 1
} Product;

// Computes all the products. Their matrices have equal cols. The number of threads does not change
// the result. Quantized weights multiply activations that are rounded to int8, with a scale for
// each group of 64 columns, or of 32 where all matrices are ggml's blocks. All other weights
// multiply float32, and so does q8 whose groups are not of 64 or cross rows, sets of matrices in
// which one is not quantized, and everything in a workspace of `floats`.
void matmul_by_team(const Team *team, const Product *products, int n_products, const Input *input,
                    Workspace *workspace);

// Columns [col, col + n) of a row as float32 (widen.c). weights_row of the core is the definition.
void matrix_row(const Matrix *matrix, int64_t row, int64_t col, int64_t n, float *out);
