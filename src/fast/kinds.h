// All kinds together, in the fast engine: what a forward pass keeps besides a Llama's. kinds.c has
// the table of their rows. Each slice is a file of its own, named as in src/kinds.
#pragma once

#include "attention_layer.h"
#include "encodings.h"
#include "experts.h"
#include "index.h"
#include "kind.h"
#include "latent.h"
#include "per_layer.h"
#include "states.h"
#include "turns.h"

struct FastExtra {
    FastTurns turns;
    FastAttention attention;
    Experts *experts;  // NULL: all layers are dense
    Latent latent;
    Index index;
    States states;
    PerLayer per_layer;
    DistanceTerms encoding;
};
