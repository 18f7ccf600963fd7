// Embeddings of a token by layer.
#pragma once

#include "transformer.h"

// x (n_wanted, dim) += rmsnorm(out . gate), with gate (n_wanted, per_layer_dim) =
// gelu(per_layer_gate . x) * the layer's own embedding. The summand remains in Transformer.added.
void add_layer_embedding_by_team(const Team *team, Transformer *transformer, int index,
                                 int n_wanted);
