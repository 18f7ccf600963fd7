// The residual stream of other families: places and forms of norms, and scales of the embedding, of
// the halves' outputs, and of the logits.
#pragma once

#include "decoder.h"

// Whether layers norm the outputs of their halves.
bool norms_after(const ModelConfig *config);

// normed (dim) = the norm of x (dim), or x itself where there are no weights.
void norm_input(Plain *plain, const float *x, const float *weight);

// x (dim) += residual_scale * added (dim), normed before that if there are weights for it.
void add_to_residual(Plain *plain, float *x, const float *weight);
