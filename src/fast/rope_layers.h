// The rotation angles of a layer's heads.
#pragma once

#include "transformer.h"

// The angles of a layer. NULL: its heads do not rotate.
const Angles *angles_of(const Transformer *transformer, const Layer *layer);

// Computes the angles of the chunk's tokens, for full and for sliding layers, in a text of `length`
// positions so far.
void prepare_angles_by_team(const Team *team, Transformer *transformer, int length);
