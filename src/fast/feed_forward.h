// The dense feed-forward layer.
#pragma once

#include "transformer.h"

// The second half of a layer: x (n_wanted, dim) += w2 . (silu(w1 . norm(x)) * (w3 . norm(x))), or
// what other activations make of both, or of w3 . norm(x) alone.
void feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted);
