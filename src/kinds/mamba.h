// Mamba 2 (arXiv 2405.21060): the states (states.h) of Nemotron-H and Granite 4 H.
#pragma once

#include "../decoder/decoder.h"

// Fields of the header in addition to those of all states (states.h). The heads of values are
// Mamba's heads, and the heads of keys its groups of heads: all heads in a group write and read
// their states with the same two vectors of key_dim.
typedef struct MambaConfig {
    bool conv_bias;   // its convolution has a bias
    int norm_groups;  // number of equal parts of the output that are normed separately
} MambaConfig;

typedef struct MambaTensors {
    const float *skip;  // (value_heads) the factor of x in a head's output
} MambaTensors;

// Mamba's states as a kind: a row of the table in all.c.
extern const Kind mamba_kind;
