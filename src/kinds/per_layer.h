// Per-layer embeddings, and scales of layers (Gemma 4). Besides its embedding a token has a narrow
// vector for each layer. Half of it comes from a table, and half from the embedding.
#pragma once

#include "../decoder/decoder.h"

// Of a model: fields of the header, and tensors.
typedef struct PerLayerConfig {
    int dim;            // width of a per-layer embedding; 0: there are none
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
    float *own;  // (n_layers, dim) the present token's per-layer embeddings
} PlainPerLayer;

// Adds to x (dim) the output of the present layer's gate, which x and the token's per-layer
// embedding go through. Leaves the added vector in plain->added (dim).
void add_layer_embedding(Plain *plain, float *x);

// Per-layer embeddings as a kind: a row of the table in all.c.
extern const Kind per_layer_kind;
