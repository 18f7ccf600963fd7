// The residual stream otherwise than a Llama has it: where norms stand and of which kind they are,
// and scales of the embedding, of what a layer adds, and of the logits.
#pragma once

#include "../llama/forward.h"

// Where a layer norms: what it reads, or what it adds. PARALLEL: attention and feed-forward read one
// norm of the same x.
enum { NORM_BEFORE, NORM_AFTER, NORM_BOTH, NORM_PARALLEL, N_NORM_PLACES };

// Fields of the header. Zeros are what a Llama does.
typedef struct {
    int norm_place;          // NORM_...
    bool layer_norm;         // norms of the stream take the mean away, too
    double after_norm_eps;   // of norms of what a layer adds; 0: norm_eps
    bool embedding_norm;     // an RMS norm of the embedding, without weights
    double embedding_scale;  // of the token's embedding; 0: 1
    double residual_scale;   // of what a layer adds; 0: 1
    double logit_scale;      // of the logits; 0: 1
    double logit_cap;        // c: logits become c tanh(logits / c); 0: they do not
} StreamConfig;

// Norms of what a layer adds. Without NORM_BEFORE, BOTH or PARALLEL, Layer.attention_norm is NULL.
typedef struct {
    const float *attention_after;  // (dim) NULL: none
    const float *ffn_after;        // (dim) likewise
} StreamTensors;

// Whether layers norm what they add.
bool norms_after(const ModelConfig *config);

// Whether anything of it concerns layers.
bool stream_differs(const ModelConfig *config);

// normed (dim) = what a layer reads of x (dim): its norm, or x itself where there are no weights.
void read_normed(Plain *plain, const float *x, const float *weight);

// x (dim) += what a layer adds to it, normed before that if there are weights for it, and scaled.
void add_normed(Plain *plain, float *x, const float *weight);
