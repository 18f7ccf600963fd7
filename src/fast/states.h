// Layers that keep a state in place of keys and values: shared by the files of their kinds.
#pragma once

#include "../kinds/states.h"
#include "transformer.h"

// A chunk's memory. The states of such layers are in one piece, layer by layer, as in
// src/kinds/states.c (see state_numbers).
typedef struct States {
    const Model *model;
    float *kept;    // (layers with LAYER_STATE, state_numbers) the transformer's
    float *inputs;  // (chunk, state_inputs), and after the convolution its channels in place
    float *made;    // (chunk, state_width) the gates, and then the layer's output
    float *betas;   // (chunk, state_value_heads) a head's share of the token; for Mamba 2 its time
    float *decays;  // (chunk, state_value_heads) the factor of its state
} States;

// The state of a layer, the last inputs of its convolution first.
float *states_of_layer(const States *states, int index);
// The channels from `place` on in the n rows of inputs become silu(their convolution).
void convolve_by_team(const Team *team, States *states, int index, int n, int64_t place);
// inputs (n, state_inputs) = in . the input + a bias.
void take_inputs_by_team(const Team *team, States *states, int index, const Input *input,
                         Workspace *workspace);
// x (n_wanted, dim) += out . made
void add_made_by_team(const Team *team, Transformer *transformer, int index, int n_wanted);
