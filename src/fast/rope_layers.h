// The angles by which a layer's heads rotate.
#pragma once

#include "transformer.h"

// Those of a layer. NULL: its heads do not rotate.
const Angles *angles_of(const Transformer *transformer, const Layer *layer);

// Computes the angles of the chunk's tokens, for full and for sliding layers, in a text of `length`
// positions by now.
void prepare_angles_by_team(const Team *team, Transformer *transformer, int length);
