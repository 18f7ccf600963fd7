// What ends a layer of Gemma 4, for many rows and threads: per_layer.c has the definition.
#pragma once

#include "transformer.h"

// For a chunk of rows.
typedef struct {
    float *own;   // (chunk, n_layers, per_layer_dim) the tokens' embeddings of each layer
    float *rows;  // (threads, per_layer_dim) of the table, one at a time
    float *gate;  // (chunk, per_layer_dim) what a layer takes of them
} PerLayer;
