// The forward pass as its definition, a token at a time and slow. The fast one (transformer.h) is
// tested against it.
#pragma once

#include "plain_state.h"

// Takes all arrays from an arena (see util.h). Returns the bytes of what is kept of all tokens.
uint64_t plain_lay_out(Plain *plain, Arena *arena);

// Reads token number i, behind those from 0 to i - 1, in a text of `length` positions by now. x
// (dim) becomes the last layer's result. Returns the first layer whose result has NaN or infinity,
// -1 for the embedding, n_layers for none.
int plain_forward(Plain *plain, int32_t token, int i, int length, float *x);

// logits (vocab_size) of what plain_forward gave.
void plain_logits(Plain *plain, const float *x, float *logits);
