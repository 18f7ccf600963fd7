// Mamba 2 (arXiv 2405.21060): the states (states.h) of Nemotron-H and Granite 4 H.
#pragma once

#include "../decoder/decoder.h"

// Fields of the header besides those of all states. Heads of values read; groups of heads, key
// heads of the header, write to their states, and read from them, by the same vectors of key_dim.
typedef struct MambaConfig {
    bool conv_bias;   // its convolution has a bias
    int norm_groups;  // parts of its output, normed each by itself
} MambaConfig;

typedef struct MambaTensors {
    const float *skip;  // (value_heads) the factor of x in a head's output
} MambaTensors;

// Mamba's states as a kind: a row of the table in all.c.
extern const Kind mamba_kind;
