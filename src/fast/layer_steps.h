// What a chunk goes through the layers with, and the steps of a layer: project.c has those before
// attention, feed_forward.c those behind it. transformer.c puts them together.
#pragma once

#include "../base/session_config.h"
#include "attention.h"
#include "experts.h"
#include "index.h"
#include "latent.h"
#include "pace.h"
#include "per_layer.h"
#include "states.h"

// Where a NaN or an infinity showed first: the row, and the layer that it came out of, -1 for the
// embedding.
typedef struct {
    int row, layer;
} Fault;

// The fields up to `reading` are filled in before transformer_lay_out, which lays out the others.
typedef struct Transformer {
    const Model *model;
    const SessionConfig *config;
    Pace decoding, reading;  // how many threads read a token, and a prompt

    KvCache *caches;  // (n_layers); of one that reads another's keys, that one's
    // what turns queries and keys, in most layers and in those with LAYER_SLIDING,
    Angles angles, sliding;
    DistanceTerms terms;  // or, without RoPE, what is added to scores
    AttentionScratch *attention;
    Workspace *workspace;
    Experts *experts;  // NULL: all layers are dense
    TeamShared team;

    // For the present chunk.
    float *x;             // (n, dim) the residual stream, the caller's
    int n, first;         // rows, and the number of the first token
    float *q;             // (chunk, n_heads * head_dim)
    float *k, *v;         // (chunk, n_kv_heads * head_dim), and value_dim of values
    float *mixed;         // (chunk, n_heads * value_dim) attention's mix of values
    float *gates;         // (chunk, n_heads * value_dim) what multiplies it, NULL without a gate
    Latent latent;        // of latent attention, which has no k and v
    Index index;          // of a choice of keys
    States states;        // of layers with a state
    float *added;         // (chunk, dim) what a layer adds before its norm or scale, else NULL
    float *beside;        // (chunk, dim) what a dense layer beside experts makes
    PerLayer per_layer;   // embeddings of each layer
    float *hidden;        // (chunk, hidden_dim or shared_hidden_dim) the feed-forward layer
    float *shared_gates;  // (chunk) of the shared expert
    Fault fault;
} Transformer;

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
