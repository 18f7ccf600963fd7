// Queries, keys and values of latent attention, as the definition.
#pragma once

#include "../llama/plain_state.h"

// Makes of what the layer has normed p->q (n_heads * head_dim), k (n_heads * head_dim) and v
// (n_heads * value_dim).
void project_latent(const Plain *p, float *k, float *v);
