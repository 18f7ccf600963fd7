// Position encodings from before RoPE: their additions to embeddings, scores and values.
#pragma once

#include "../decoder/decoder.h"

// Fields of the header, and a tensor of the model.
typedef struct EncodingConfig {
    int rows;              // rows of its tables: learned positions, or shaw's distances
    const float *learned;  // (rows, dim) positions, NULL: none
} EncodingConfig;

typedef struct EncodingTensors {
    Matrix wr;                       // (n_kv_heads * head_dim, dim) of transformer-xl
    const float *u, *v;              // (n_heads * head_dim)
    const float *a_keys, *a_values;  // (rows, head_dim) of shaw
} EncodingTensors;

// The definition's arrays. Their second index says how many tokens a key comes before the query.
typedef struct PlainEncoding {
    int *distances;           // (n_layers, context) the distance of that key in positions
    float *distance_keys;     // (n_layers, context, n_kv_heads * head_dim), NULL: not in use
    float *distance_queries;  // (n_layers, context, n_heads * head_dim), NULL: not in use
} PlainEncoding;

// out (dim) = the vector of a position that is added to embeddings, either learned or PE: sin and
// cos of position * theta^(-2i / dim) at 2i and 2i + 1. For a distance, R, the same formula. arXiv
// 1705.03122 and 1706.03762.
void encoding_vector(const Model *model, int64_t position, float *out);

// ALiBi's slope of head number `head`, from 0: 2^(-8h / H) with h from 1 on. arXiv 2108.12409.
double encoding_slope(int head, int n_heads);

// The row of Shaw's tables (encoding_rows, head_dim) for a distance. The last row is for its own
// distance and all larger ones.
int64_t encoding_row(const Model *model, int64_t distance);

// The matrix that computes a layer's keys from R.
const Matrix *encoding_maker(const Model *model, const Layer *layer);
