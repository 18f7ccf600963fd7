// Layers that keep a state in place of keys and values. states.c has their definition.
#pragma once

#include "transformer.h"

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
