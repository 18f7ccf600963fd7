// What kinds of models keep for a chunk of rows: a pointer for each to a struct of its own.
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
