// All kinds together, in the fast engine: what each keeps for a chunk of rows, and what a forward pass
// has of them besides a Llama's. kinds.c has the table of their rows. Each slice is a file of its own,
// named as in src/kinds.
#pragma once

#include "angles.h"
#include "kind.h"

// ---- stream.c ----
// The residual stream: what a layer reads of it, behind a norm, and what it adds, behind a norm and
// times a scale where a family has these.

// Whether what a layer adds is made by itself first: it has a norm with these weights, or a scale.
bool is_added_apart(const ModelConfig *m, const float *norm);

// x (n, dim) += added, with that normed before if there are weights for it, and scaled.
void add_normed_by_team(const Team *team, Transformer *t, float *x, int n, const float *norm);

// x (n, dim) += matrix . input + bias (dim or NULL), with the product normed before that if there
// are weights for it.
void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                         const Input *input, const float *norm);

// ---- attention_layer.c ----
// The first half of a layer that attends: queries, keys and values, attention, and what is added.

typedef struct {
    float *gates;  // (chunk, n_heads * value_dim) what multiplies the mix, NULL: none
} FastAttention;

// Of any layer that attends: x += wo . attention of its input.
void mix_attention_by_team(const Team *team, Transformer *t, int index, int n_wanted);

// Its parts, for layers that make queries and keys otherwise. How the last n_wanted rows of a chunk
// attend, but for their queries and what becomes of them.
Attention attention_of(const Transformer *t, int index, int n_wanted);
// out (n_wanted, n_heads * value_dim) = softmax(scale q k) v over all tokens so far, of the last
// n_wanted of the chunk's queries q (n, n_heads * head_dim of the cache). Whoever watches a head of
// the layer gets its scores.
void attend_by_team(const Team *team, Transformer *t, int index, const float *q, int n_wanted,
                    float *out);
// x (n_wanted, dim) += wo . mixed, times a scale and the gates before that, if there are any.
void add_mixed_by_team(const Team *team, Transformer *t, int index, int n_wanted);

// ---- feed_forward.c ----
// The dense feed-forward layer.

// The second half of a layer: x (n_wanted, dim) += w2 . (silu(w1 . norm(x)) * (w3 . norm(x))), or
// what other activations make of both, or of w3 . norm(x) alone.
void feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted);

// hidden = act(w1 . x + b1) * (w3 . x + b3), or act(w3 . x + b3), of a dense layer or of an expert.
Product first_product(const ModelConfig *config, const FeedForward *w, float *hidden);

// ---- experts.c ----
// Layers with experts: each row of a chunk chooses a few, and only these are read.

// What a chunk needs, see experts.c.
typedef struct Experts Experts;

// ---- router.c ----
// Which experts a row chooses, and what their answers are multiplied with.

// A thread's memory for it.
typedef struct {
    float *scores;  // (n_experts)
    float *groups;  // (router_groups) scores of groups
    int *open;      // (router_groups_used) the best groups
} Choice;
Choice choice_lay_out(Arena *arena, const ExpertsConfig *config);

// logits (n, n_experts) = router . the input + bias, no more than a cap if there is one. Experts beside
// a dense layer have a norm for their router, which stands in the place of the input's.
void route_by_team(const Team *team, const Transformer *transformer, const Layer *layer,
                   const Input *input, float *logits);

// The n_used experts that a row of logits chooses, and their weights. Where a logit is no number, no
// weight is.
void choose_fast(const ExpertsConfig *config, const ExpertsTensors *w, const float *logits,
                 const Choice *choice, int *chosen, float *weights);

// ---- latent.c ----
// Latent attention by absorption: the cache keeps the narrow vector that keys and values of all
// heads come from, and queries are brought to it.

// What a chunk needs. A latent key is what turns, for all heads, and then the latent vector; its
// value is the vector.
typedef struct {
    float *q_latent;  // (chunk, q_rank)
    float *vectors;   // (chunk, kv_rank + rotary_dim) as wkv_a makes them
    float *queries;   // (chunk, n_heads * (rotary_dim + kv_rank)) as they meet latent keys
    float *mixed;     // (chunk, n_heads * kv_rank) the mix of latent vectors
    int64_t width;    // kv_rank in whole vectors
    int64_t chunk;
    float *weights;  // (n_threads, head_dim - rotary_dim, width) those of a head of wk as float32
    float *rows;     // (n_threads, chunk, width) a head of all queries
} Latent;

// ---- per_layer.c ----
// What ends a layer of Gemma 4, for many rows and threads: per_layer.c has the definition.

// For a chunk of rows.
typedef struct {
    float *own;   // (chunk, n_layers, per_layer_dim) the tokens' embeddings of each layer
    float *rows;  // (threads, per_layer_dim) of the table, one at a time
    float *gate;  // (chunk, per_layer_dim) what a layer takes of them
} PerLayer;

// ---- gaussian_topk.c ----
// Feed-forward layers whose gates are mostly zero: gaussian_topk.c has the definition.

typedef struct {
    float *gates;      // (chunk, hidden_dim)
    float deviations;  // above the mean, where they are cut
} FastGaussianTopk;

// ---- altup.c ----
// Streams beside the residual stream, and a learned residual: altup.c has the definition.

// For a chunk of rows.
typedef struct {
    float *streams, *predicted;  // (streams, chunk, dim)
    float *learned;              // (chunk, dim)
    float *narrow;               // (chunk, laurel_rank)
} FastAltup;

// ---- states.c ----
// Layers that keep a state in place of keys and values. states.c has their definition.

// What a chunk needs. What such layers keep lies in one piece, layer by layer, as states.c of the
// core has it too (see state_numbers).
typedef struct {
    const Model *model;
    float *kept;    // (layers with LAYER_STATE, state_numbers) the transformer's
    float *inputs;  // (chunk, state_inputs), and after the convolution its channels in place
    float *made;    // (chunk, state_width) the gates, and then what the layer makes
    float *betas;   // (chunk, state_value_heads) how much a head takes,
    float *decays;  // (chunk, state_value_heads) and by what its state is multiplied
} States;

// What a layer keeps, the last inputs of its convolution first.
float *states_of_layer(const States *states, int index);
// The channels from `place` on in the n rows of inputs become silu(their convolution).
void convolve_by_team(const Team *team, States *states, int index, int n, int64_t place);
// inputs (n, state_inputs) = in . the input + a bias.
void take_inputs_by_team(const Team *team, States *states, int index, const Input *input,
                         Workspace *workspace);
// x (n_wanted, dim) += out . made
void add_made_by_team(const Team *team, Transformer *transformer, int index, int n_wanted);

// ---- turns.c ----
// By which angles a layer's queries and keys turn: those of most layers, and those of layers that
// slide, where these have settings of their own.

typedef struct {
    Angles full, sliding;  // `sliding` is for layers with LAYER_SLIDING, `full` for all others
} FastTurns;

// The angles by which a layer turns, NULL: it does not.
const Angles *angles_of(const Transformer *transformer, const Layer *layer);

// The angles that are known are of other positions from now on, and will be made anew.
void turns_forget(Transformer *transformer);

// ---- all of them ----

struct FastExtra {
    FastTurns turns;
    FastAttention attention;
    Experts *experts;  // NULL: all layers are dense
    Latent latent;
    States states;
    PerLayer per_layer;
    FastAltup altup;
    FastGaussianTopk gaussian_topk;
};
