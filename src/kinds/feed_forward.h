// Feed-forward layers that differ from a Llama's: other activations, no gate, biases.
#pragma once

#include "../llama/forward.h"

// Of the gate; GELU in its tanh form, and SwiGLU as gpt-oss clamps it. The last two have no gate,
// and act on w3 @ x.
enum {
    ACTIVATION_SILU,
    ACTIVATION_GELU,
    ACTIVATION_CLAMPED,
    ACTIVATION_RELU2,
    ACTIVATION_XIELU,
    N_ACTIVATIONS
};

// Fields of the header. Zeros are what a Llama does.
typedef struct {
    int activation;  // ACTIVATION_...
    bool bias;       // w1, w3 and w2 of dense layers have biases
} FeedForwardConfig;

typedef struct {
    const float *b1, *b3, *b2;  // biases (rows of w1, w3, w2), NULL: none
    const float *xielu;         // (4) alpha_p, alpha_n, beta, eps of ACTIVATION_XIELU
} FeedForwardTensors;

// A feed-forward layer with its biases, or several, one below the other.
typedef struct {
    Matrix w1, w3;              // gate and up (hidden_dim, dim)
    Matrix w2;                  // down (dim, hidden_dim)
    const float *b1, *b3, *b2;  // biases (rows of w1, w3, w2), NULL: none
} FeedForward;

// The one that a layer has in its w1, w3 and w2.
FeedForward dense_of(const Layer *layer);

// Whether it has a gate, w1.
bool is_gated(const ModelConfig *config);

// What a layer's second half reads: x behind its norm, or with NORM_PARALLEL what attention read.
void read_for_feed_forward(Plain *plain, const float *x);

// out (dim) = w2 @ (act(w1 @ x) * (w3 @ x)), without w1 w2 @ act(w3 @ x).
void feed_forward_of(const Plain *plain, const FeedForward *w, const float *x, float *out);
