// Products with matrices of weights, of every weight type, by a team of threads.
#pragma once

#include "../model/matrix.h"
#include "activations.h"
#include "team.h"

// Memory that products need besides their operands, for max_n vectors of at most max_cols elements and teams of at most
// n_threads. NULL from an arena that only counts.
typedef struct Workspace Workspace;
Workspace *workspace_lay_out(Arena *arena, int64_t max_n, int64_t max_cols, int n_threads, Activations activations);

// n vectors x (n, cols), and what is done to them first: with `norm`, an RMS norm with these weights and `eps`.
typedef struct {
    const float *x;
    int64_t n;
    const float *norm;  // (cols), NULL: none
    float eps;
} Input;

// One product of a set that shares its input: out[t * stride + r] = W[r] . x[t] + bias[r]; with `gate`, silu(gate[r] .
// x[t]) times that (SwiGLU, arXiv 2002.05202); with `add`, added to what is there.
typedef struct {
    const Matrix *matrix, *gate;
    const float *bias;  // (rows), NULL: none
    float *out;
    int64_t stride;
    bool add;
} Product;

// All the products with the input's vectors; all matrices have equal cols. The threads of a team call it together and
// share the work, everything is done and can be read by all when it returns. The result does not depend on the number
// of threads.
//
// Quantized weights multiply activations that are rounded to int8, with a scale for each group of 64 columns, or of 32
// where all matrices are ggml's blocks. All other weights multiply float32: also q8 whose groups are not of 64, sets of
// matrices in which one is not quantized, and everything in a workspace for float32.
void matmul_by_team(const Team *team, const Product *products, int n_products, const Input *input,
                    Workspace *workspace);
