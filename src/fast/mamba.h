// Mamba 2 (mamba.c of the core), a chunk of rows at a time.
#pragma once

#include "states.h"

// made (n_wanted, state_width) = what a layer makes of the last n_wanted rows of the n, whose inputs
// are there. Its state takes all rows.
void mamba_by_team(const Team *team, States *states, int index, int n, int n_wanted);
