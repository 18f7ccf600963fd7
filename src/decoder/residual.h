// The residual stream as it may differ from a Llama's: where norms are and of which form, and
// scales of the embedding, of what a layer adds, and of the logits.
#pragma once

#include "decoder.h"

// Whether layers norm what they add.
bool norms_after(const ModelConfig *config);

// normed (dim) = the norm of x (dim), or x itself where there are no weights.
void norm_input(Plain *plain, const float *x, const float *weight);

// x (dim) += residual_scale * added (dim), normed before that if there are weights for it.
void add_to_residual(Plain *plain, float *x, const float *weight);
