// Products with matrices of weights, of every weight type, by a team of threads.
#ifndef MATMUL_H
#define MATMUL_H

#include "../util.h"

typedef enum { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8, WEIGHT_Q4, N_WEIGHT_TYPES } WeightType;

extern const char *const weight_type_names[N_WEIGHT_TYPES];

enum {
    Q8_GROUP = 64,  // values that share a scale in q8, in the files that we write and in quantized activations
    Q4_GROUP = 32,  // values that share a scale in q4
    Q4_PACK =
        64,  // values that are packed together in q4, a row's last ones filled up with zeros: two groups in 32 bytes
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

#endif
