// Embeddings of a token by layer, and scales of layers (Gemma 4). Besides its embedding a token has a
// narrow vector for each layer. Half of it comes from a table, and half from the embedding.
#pragma once

#include "../decoder/decoder.h"

// Of a model: fields of the header, and tensors.
typedef struct PerLayerConfig {
    int dim;            // width of each layer's own embedding; 0: there are none
    bool scale;         // what a layer leaves in the stream is multiplied by a number
    Matrix embedding;   // (vocab_size, n_layers * dim)
    Matrix projection;  // (n_layers * dim, dim of the stream)
    const float *norm;  // (dim)
} PerLayerConfig;

// x += rmsnorm(out @ (gelu(gate @ x) * the layer's own embedding))
typedef struct PerLayerTensors {
    Matrix gate;         // (dim, dim of the stream)
    Matrix out;          // (dim of the stream, dim)
    const float *after;  // (dim of the stream)
    const float *scale;  // (1) x *= scale, last of all; NULL: none
} PerLayerTensors;

typedef struct PlainPerLayer {
    float *own;  // (n_layers, dim) the present token's embeddings of each layer
} PlainPerLayer;

// x (dim) += what the present layer makes of x and of its own embedding of the token, which is left in
// plain->added (dim).
void add_layer_embedding(Plain *plain, float *x);

// Its row.
extern const Kind per_layer_kind;
