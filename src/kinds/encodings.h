// Encodings of positions before RoPE: what each adds to embeddings, to scores and to values.
#pragma once

#include "../decoder/decoder.h"

// Of a model: fields of the header, and a tensor.
typedef struct EncodingConfig {
    int rows;              // of its tables: learned positions, or shaw's distances
    const float *learned;  // (rows, dim) positions, NULL: none
} EncodingConfig;

typedef struct EncodingTensors {
    Matrix wr;                       // (n_kv_heads * head_dim, dim) of transformer-xl
    const float *u, *v;              // (n_heads * head_dim)
    const float *a_keys, *a_values;  // (rows, head_dim) of shaw
} EncodingTensors;

// What the definition keeps, for each number of tokens that a key can come before the query.
typedef struct PlainEncoding {
    int *distances;           // (n_layers, context) the distance to which that comes
    float *distance_keys;     // (n_layers, context, n_kv_heads * head_dim), NULL: not in use
    float *distance_queries;  // (n_layers, context, n_heads * head_dim), NULL: not in use
} PlainEncoding;

// out (dim) = the vector that embeddings get at a position, learned or PE: sin and cos of
// position * theta^(-2i / dim) at 2i and 2i + 1; of a distance, R. arXiv 1705.03122 and
// 1706.03762.
void encoding_vector(const Model *model, int64_t position, float *out);

// ALiBi's slope of head number `head`, from 0: 2^(-8h / H) with h from 1 on. arXiv 2108.12409.
double encoding_slope(int head, int n_heads);

// The row of Shaw's tables (encoding_rows, head_dim) for a distance: the last one for all from
// there on.
int64_t encoding_row(const Model *model, int64_t distance);

// The matrix by which a layer computes keys from R.
const Matrix *encoding_maker(const Model *model, const Layer *layer);
