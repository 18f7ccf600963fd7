// Layers that keep a state in place of keys and values. states.c has their definition.
#pragma once

#include "../kinds/kinds.h"
#include "matmul.h"

// What they keep, and what a chunk needs.
//
// 1. `kept` is of all tokens that were read, each once and in order. It is cleared for the first one,
//    and knows no way back: whoever goes back has a copy of it.
// 2. It lies in one piece, layer by layer, as states.c has it too (see state_numbers).
typedef struct {
    const Model *model;
    float *kept;      // (layers with LAYER_STATE, state_numbers)
    int64_t numbers;  // of kept
    float *inputs;    // (chunk, state_inputs), and after the convolution its channels in place
    float *made;      // (chunk, state_width) the gates, and then what the layer makes
    float *betas;     // (chunk, state_value_heads) how much a head takes,
    float *decays;    // (chunk, state_value_heads) and by what its state is multiplied
} States;

// Takes all arrays from an arena (see util.h); without such layers none. Returns the bytes of what is
// kept.
uint64_t states_lay_out(States *states, Arena *arena, const Model *model, int64_t chunk);
// For a text that begins.
void states_forget(States *states);

// made (n_wanted, state_width) = what a layer makes of the last n_wanted rows of the input. Its state
// takes all rows.
void states_by_team(const Team *team, States *states, int index, const Input *input, int n_wanted,
                    Workspace *workspace);

// What a layer keeps, the last inputs of its convolution first.
float *states_of_layer(const States *states, int index);
// The channels from `place` on in the n rows of inputs become silu(their convolution).
void convolve_by_team(const Team *team, States *states, int index, int n, int64_t place);
