// The feed-forward network of a layer.
#pragma once

#include "transformer.h"

// hidden = act(w1 . x + b1) * (w3 . x + b3), or act(w3 . x + b3), of a dense layer or of an expert.
Product first_product(const ModelConfig *config, const FeedForward *w, float *hidden);

// hidden (n_wanted, hidden_dim) of the layer, of the norm of its wanted rows by these weights.
void start_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                                const float *norm);

// x (n_wanted, dim) += w2 . hidden, normed and scaled where a family does so.
void end_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted);
