// By which angles a layer's queries and keys turn: those of most layers, and those of layers that
// slide, where these have settings of their own.
#pragma once

#include "angles.h"
#include "transformer.h"

typedef struct {
    bool stands_still;     // heads do not turn: the model knows positions otherwise
    Angles full, sliding;  // `sliding` is for layers with LAYER_SLIDING, `full` for all others
} FastTurns;

// The angles by which a layer turns, NULL: it does not.
const Angles *angles_of(const Transformer *transformer, const Layer *layer);

// The angles that are known are of other positions from now on, and will be made anew.
void turns_forget(Transformer *transformer);
