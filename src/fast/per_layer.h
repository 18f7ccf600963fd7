// What ends a layer of Gemma 4, for many rows and threads: per_layer.c has the definition.
#pragma once

#include "../kinds/kinds.h"
#include "matmul.h"

// For a chunk of rows.
typedef struct {
    float *own;   // (chunk, n_layers, per_layer_dim) the tokens' embeddings of each layer
    float *rows;  // (threads, per_layer_dim) of the table, one at a time
    float *gate;  // (chunk, per_layer_dim) what a layer takes of them
} PerLayer;

// Takes the arrays from an arena. None without per_layer_dim.
void per_layer_lay_out(PerLayer *per_layer, Arena *arena, const ModelConfig *config, int64_t chunk,
                       int threads);

// Fills `own` for n tokens with the embeddings x (n, dim).
void per_layer_embed_by_team(const Team *team, const PerLayer *per_layer, const Model *model,
                             const int32_t *tokens, const Input *x, Workspace *workspace);

// gate (n, per_layer_dim) = gelu(per_layer_gate . x) * own, for the n rows x, of which the first is
// row `skipped` of the chunk.
void per_layer_gate_by_team(const Team *team, const PerLayer *per_layer, const Model *model,
                            int index, int skipped, const Input *x, Workspace *workspace);
