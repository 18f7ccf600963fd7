// Embeddings of a token by layer, and scales of layers (Gemma 4). Besides its embedding a token
// has a narrow vector for each layer. Half of it comes from a table, and half from the embedding.
#pragma once

#include "../decoder/decoder.h"

// Of a model: fields of the header, and tensors.
typedef struct PerLayerConfig {
    int dim;            // width of each layer's own embedding; 0: there are none
    bool scale;         // the residual stream is multiplied by a number after each layer
    Matrix embedding;   // (vocab_size, n_layers * dim)
    Matrix projection;  // (n_layers * dim, dim of the model)
    const float *norm;  // (dim)
} PerLayerConfig;

// x += rmsnorm(out @ (gelu(gate @ x) * the layer's own embedding))
typedef struct PerLayerTensors {
    Matrix gate;         // (dim, dim of the model)
    Matrix out;          // (dim of the model, dim)
    const float *after;  // (dim of the model)
    const float *scale;  // (1) x *= scale, last of all; NULL: none
} PerLayerTensors;

typedef struct PlainPerLayer {
    float *own;  // (n_layers, dim) the present token's embeddings of each layer
} PlainPerLayer;

// Adds to x (dim) what the present layer computes from x and from its own embedding of the token.
// Leaves what was added in plain->added (dim).
void add_layer_embedding(Plain *plain, float *x);

// Embeddings of each layer as a kind: a row of the table in all.c.
extern const Kind per_layer_kind;
