// RoPE where the position changes the frequency, for plain.c.
#pragma once

#include "plain_state.h"

// The angles of the present token, as fill_turns of plain.c makes them, where keys are stale or the
// first positions are unscaled.
void fill_uneven_turns(Plain *p, Turns *t, int length);
