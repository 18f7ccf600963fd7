// Layers that keep a state of fixed size in place of keys and values: a gated delta rule (Qwen
// 3.5), the last inputs of a short convolution (LFM2), or Mamba 2 (mamba.h). They do not attend,
// and do not depend on positions.
#pragma once

#include "../decoder/decoder.h"

enum { STATE_NONE, STATE_DELTA, STATE_CONV, STATE_MAMBA, N_STATES };

// Fields of the header, of layers with LAYER_STATE.
typedef struct StatesConfig {
    int kind;                    // STATE_...
    int conv_width;              // positions that the convolution covers, the present one included
    int key_heads, value_heads;  // not of STATE_CONV; the first divides the second
    int key_dim, value_dim;      // width of one such head
    bool bias;                   // in, conv and out have biases; with STATE_MAMBA only in and out
    bool tiled;                  // order of the value heads, see state_key_head
} StatesConfig;

// Tensors of layers with LAYER_STATE, in place of attention's. STATE_CONV has no tensors from gate
// to step and from decay to norm; STATE_MAMBA has no gate, beta and step, because they are part of
// `in`.
typedef struct StatesTensors {
    Matrix in;                // (state_inputs, dim)
    const float *b_in;        // (state_inputs), NULL: none
    Matrix gate;              // (state_width, dim)
    Matrix beta, step;        // (value_heads, dim)
    const float *conv;        // (state_channels, conv_width), the present one last
    const float *b_conv;      // (state_channels), NULL: none
    const float *decay, *dt;  // (value_heads)
    const float *norm;        // (value_dim), of STATE_MAMBA (state_width)
    Matrix out;               // (dim, state_width)
    const float *b_out;       // (dim), NULL: none
} StatesTensors;

// The definition's arrays, of the present token. PlainExtra.kept (layers with LAYER_STATE,
// state_numbers) has the states after token i - 1.
typedef struct PlainStates {
    float *in;           // (state_inputs) the tensor `in` @ the input of the layer
    float *gate;         // (state_width) the factors of its output
    float *beta, *step;  // (value_heads) the rate of the correction, and how long the token lasts
} PlainStates;

// Sizes of a layer with LAYER_STATE: the width of its output, the channels of its convolution, and
// the rows of `in`.
int64_t state_width(const ModelConfig *config);
int64_t state_channels(const ModelConfig *config);
int64_t state_inputs(const ModelConfig *config);

// How many numbers such a layer keeps: first the last inputs of its convolution (conv_width - 1,
// channels; state_past is their number), then, unless it is STATE_CONV, a matrix (key_dim,
// value_dim) for each value head.
int64_t state_numbers(const ModelConfig *config);
int64_t state_past(const ModelConfig *config);

// The epsilon in the norms of queries and keys, which are divided by sqrt(sum of squares +
// epsilon).
#define STATE_EPS 1e-6F

// The key head of a value head. The value heads of one key head follow one another; with `tiled`,
// consecutive value heads have different key heads, in rotation.
int state_key_head(const ModelConfig *config, int value_head);

// How many of the first `layers` layers keep a state.
int layers_with_state(const Model *model, int layers);

// The state of the present layer: the convolution's inputs, then the matrices.
float *present_state(const Plain *plain);
// y[c] = the sum over j of weights[c][j] * u[c] at the token conv_width - 1 - j back, and a bias;
// inputs before the first token are 0. `past` (conv_width - 1, channels) has the inputs of the
// tokens before, the latest one last; u is then appended to it. u and y (channels) may be the same
// array.
void convolve(const Plain *plain, const float *u, float *past, float *y);

// Layers with states in place of attention as a kind: a row of the table in all.c.
extern const Kind states_kind;
