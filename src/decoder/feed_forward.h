// The feed-forward network as it may differ from a Llama's: other activations, no gate, biases.
#pragma once

#include "decoder.h"

// That of a layer's w1, w3 and w2.
FeedForward dense_of(const Layer *layer);

// Whether it has a gate, w1.
bool is_gated(const ModelConfig *config);

// out (dim) = w2 @ (act(w1 @ x) * (w3 @ x)), or w2 @ act(w3 @ x) without a gate; biases are added
// to each product.
void feed_forward_of(const Plain *plain, const FeedForward *w, const float *x, float *out);
