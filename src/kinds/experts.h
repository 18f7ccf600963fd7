// Layers with experts in place of one feed-forward layer: a router chooses a few of them for each
// token (sparsely gated mixtures, arXiv 1701.06538; Mixtral, arXiv 2401.04088). Groups of experts,
// and a bias that only affects the choice, are DeepSeek's (arXiv 2405.04434 and 2412.19437).
#pragma once

#include "../decoder/decoder.h"

// How weights follow from the router's logits: a softmax over the chosen logits, a softmax over
// all, or a sigmoid of each.
enum { ROUTER_CHOSEN, ROUTER_ALL, ROUTER_SIGMOID, N_ROUTERS };

// Fields of the header.
typedef struct ExpertsConfig {
    int n;       // in each layer but those with LAYER_DENSE; 0: all layers are dense
    int n_used;  // experts that a token uses
    int64_t hidden_dim;
    int router;                 // ROUTER_...
    bool router_bias;           // the router has a bias
    bool bias;                  // w1, w3 and w2 of each expert have biases
    bool beside;                // added to a dense network; each of the two has its own norms
    int64_t shared_hidden_dim;  // of the expert, or dense layer, that every token uses; 0: none
    bool shared_gate;           // a sigmoid multiplies its output
    bool choice_bias;           // experts are chosen by weight plus a bias
    int groups, groups_used;    // 0: experts are not in groups
    int group_best;             // the score of a group is the sum of this many of its best scores
    double scale;               // factor of the weights; 0: 1
    double sum_eps;             // added to the sum that divides the weights; 0: 1e-20
    int64_t latent_dim;         // width of their input and output; 0: dim
    double cap;                 // c: the router's logits become c tanh(logits / c); 0: no cap
    bool renormalizes;          // the weights of the chosen experts are divided by their sum
    bool scales_input;          // a weight multiplies its expert's input, not the output
} ExpertsConfig;

typedef struct ExpertsTensors {
    const float *router;       // (n, dim), NULL: the layer is dense
    const float *router_bias;  // (n), NULL: none
    const float *choice_bias;  // (n) a bias that only affects the choice
    // (dim) with `beside`: the router reads rms(x) times this, divided by sqrt(dim)
    const float *router_norm;
    const float *scales;       // (n) with `beside`: factors of the weights
    FeedForward all;           // of the layer's experts, one below the other
    Matrix in, out;            // (latent_dim, dim) to their input, (dim, latent_dim) from their sum
    FeedForward shared;        // of shared_hidden_dim
    const float *shared_gate;  // (dim)
    // (dim) with `beside`: norms of the output of `shared`, and of the experts' input and output
    const float *shared_after, *norm, *after;
} ExpertsTensors;

// The definition's arrays, of the present token.
typedef struct PlainExperts {
    float *weights;       // (n) factors of the experts' outputs
    bool *is_chosen;      // (n) whether the token uses the expert
    float *scores;        // (n) the scores for the choice of experts
    float *group_scores;  // (groups) the scores for the choice of groups
    bool *is_open;        // (groups) whether experts of the group can be chosen
    float *narrow;        // (latent_dim) the input of the experts
    float *sum;           // (latent_dim) the sum of their outputs
    float *input;         // (dim or latent_dim) the input of an expert times its weight
    float *made;          // (dim or latent_dim) the output of one expert
    float *beside;        // (dim) the output of the dense network that the experts are added to
} PlainExperts;

// Fills in weights, scores and is_chosen for a layer's input x (dim). The weights are a sigmoid of
// each logit, or the softmax over the chosen logits, or over all of them. In each case the weight
// grows with the logit, so the highest logits are chosen unless there are groups or a bias for the
// choice. If a logit is not a finite number, all weights are NaN.
void choose_experts(const ModelConfig *config, const ExpertsTensors *tensors, const float *x,
                    PlainExperts *made);

// The number that is added to the sum that divides the weights.
float expert_sum_eps(const ExpertsConfig *config);

// Whether a model has experts, whether the experts have biases, and whether their router has one.
bool model_has_experts(const Model *model);
bool experts_have_bias(const Model *model);
bool router_has_bias(const Model *model);

// The width of an expert's input and output.
int64_t expert_width(const ModelConfig *config);

// Expert number i of n, whose weights are one below the other in `all`.
FeedForward expert_of(const FeedForward *all, int n, int i);

// The gate of a feed-forward layer and the matrix that it multiplies, with their biases.
typedef struct GatePair {
    Matrix *w1, *w3;
    const float **b1, **b3;
} GatePair;
enum { MOST_GATE_PAIRS = 3 };

// All gates of a layer: those of its dense feed-forward layer, of its experts together, and of the
// shared expert, which every token uses. Returns how many there are; matrices that a layer lacks
// have no data.
int gate_pairs(Layer *layer, GatePair pairs[MOST_GATE_PAIRS]);

// The width of the feed-forward part that one token uses: the sum of the experts' widths if the
// model has experts, otherwise the width of the dense layer.
int64_t model_used_width(const ModelConfig *config);

// Experts as a kind: a row of the table in all.c.
extern const Kind experts_kind;
