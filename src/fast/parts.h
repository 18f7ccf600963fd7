// The memory of kinds of models for a chunk of rows: a pointer for each to its own struct.
#pragma once

#include "../kinds/parts.h"
#include "hooks.h"

struct FastParts {
    struct Experts *experts;
    struct Latent *latent;
    struct States *states;
    struct FastAltup *altup;
    struct PerLayer *per_layer;
    struct FastGaussianTopk *gaussian_topk;
};
