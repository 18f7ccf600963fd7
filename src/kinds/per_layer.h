// What ends a layer of Gemma 4: the layer's own embedding of the token, and a scale of all.
#pragma once

#include "../llama/plain_state.h"

// own (n_layers, per_layer_dim) of the present token, whose embedding x (dim) is, scaled already.
void embed_by_layer(Plain *plain, int32_t token, const float *x);

// The present layer's last steps on x (dim), where the model has them.
void end_layer(Plain *plain, float *x);
