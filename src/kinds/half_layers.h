// Layers of one step (Nemotron-H): n_heads of their shape is 0, and they do not attend, or hidden_dim
// is 0, and they do not feed forward.
#pragma once

#include "../llama/model.h"

// Whether a layer has a first half: it attends, or keeps a state.
bool layer_mixes(const Layer *layer);
// Whether it has a second half.
bool layer_feeds(const Layer *layer);
