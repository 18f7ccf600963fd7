// Products with matrices of weights, of every weight type, by a team of threads.
#pragma once

#include "../model/matrix.h"
#include "team.h"

// What weights that are quantized multiply: activations rounded to int8, or as they are.
typedef enum { ACTIVATIONS_INT8, ACTIVATIONS_F32, N_ACTIVATIONS } Activations;
extern const char *const activations_names[N_ACTIVATIONS];

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
// of threads. When all matrices are quantized, they multiply activations that are rounded to int8, each group of 64 (if
// one of them is q8 or q4) or of 32 columns (if all are ggml's blocks) with a scale of its own, unless the workspace is
// for float32. All other matrices, q8 with other groups than of 64 among them, multiply float32, and so do sets with one
// of these.
void matmul_by_team(const Team *team, const Product *products, int n_products, const Input *input,
                    Workspace *workspace);
