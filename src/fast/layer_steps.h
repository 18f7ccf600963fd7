// The steps of a layer that transformer.c is made of: project.c has those before attention,
// feed_forward.c those behind it.
#pragma once

#include "transformer.h"

// The angles by which a layer turns, NULL: it does not.
const Angles *angles_of(const Transformer *t, const Layer *layer);

// q (n, n_heads * head_dim), k (n, n_kv_heads * head_dim) and v (n, n_kv_heads * value_dim): wq, wk
// and wv @ the input + bias; and if there is a gate, gates (n, rows of wg). Queries and keys are
// normed, by head or all together, and turned by their positions' angles; keys and values go into
// the cache.
void store_by_team(const Team *team, Transformer *t, int index, int n_wanted, const Input *input);

// The same of latent attention: queries as they meet latent keys, and these in the cache.
void store_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                          const Input *input);

// The n rows x, normed if there are weights for it.
Input rmsnorm_of(const float *x, int n, const float *weight, const ModelConfig *m);

// x (n, dim) += matrix . input + bias (dim or NULL), with the product normed before that if there
// are weights for it.
void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                         const Input *input, const float *norm);

// A dense feed-forward layer: hidden (n, hidden_dim) = silu(w1 . rmsnorm(x)) * (w3 . rmsnorm(x)), or
// what other activations make of both, or of w3 . rmsnorm(x) alone
void start_feed_forward_by_team(const Team *team, Transformer *t, const float *x, int n,
                                const Layer *layer, const float *norm);

// x (n, dim) += w2 . hidden
void end_feed_forward_by_team(const Team *team, Transformer *t, float *x, int n,
                              const Layer *layer);

// The same of a layer with experts, which add up where there is 0, or to x itself.
void add_experts_by_team(const Team *team, Transformer *t, float *x, int n, const Layer *layer);
