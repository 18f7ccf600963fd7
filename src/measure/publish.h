// What the two files about other programs share: a plan as a config, and how many engines read it alike.
#pragma once

#include "measure.h"

// The first plan as a whole config in the form that most engines read alike: theta and L are at the
// top level, too, and max_position_embeddings is as far as the settings go. The caller frees it. NULL
// with the reason where there is none. `may_be_bare`: longrope's lists may be all of the block.
char *config_of(const Measurement *m, bool may_be_bare, Error *err);

// Whether an engine reads a kind of layers as the reference does.
bool is_same(const Reading *r);
// The readings of one engine, one for each kind of layers, stand together: how many there are from `r` on.
int kinds_of(const Reading *r);
// How many engines read all kinds of layers as the reference does. *known becomes how many are known to read them.
int count_same(const Reading *readings, int n, int *known);
