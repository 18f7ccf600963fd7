// RoPE where the position changes the frequency, and where norms come behind it, for plain.c.
#pragma once

#include "../llama/plain_state.h"

// The angles of the present token, as fill_turns of plain.c makes them, where keys are stale, the
// first positions are unscaled, or norms cancel the attention factor.
void fill_uneven_turns(Plain *p, Turns *t, int length);
// Where norms of heads come behind RoPE, queries and keys turn by their own positions first. The
// first function makes the angles of the present token, the second turns n heads of x (n, d).
void fill_own_turns(Plain *p, Turns *t, int length);
void turn_heads(const Plain *p, float *x, int n);
// Where norms cancel the attention factor (norms_cancel_factor), multiplies by it what turns of n
// heads of x (n, d).
void take_factor_first(const Plain *p, float *x, int n);
