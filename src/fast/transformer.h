// The fast forward pass: a team of threads takes chunks of positions through the layers. forward.h
// has its definition.
#pragma once

#include "layer_steps.h"

// Takes all arrays but `x` from an arena (see util.h). Returns the bytes of the key-value cache.
uint64_t transformer_lay_out(Transformer *transformer, float *x, Arena *arena);

// The angles that are known are of other positions from now on, and will be made anew.
void transformer_forget_angles(Transformer *transformer);

// Reads n tokens, at most a chunk, behind those from 0 to first - 1, in a text of `length`
// positions by now. The last n_logits rows of x (n, dim) become the last layer's result. Without a
// fault the result's row is n.
Fault transformer_forward(Transformer *transformer, const int32_t *tokens, int n, int first,
                          int length, int n_logits);

// logits (n_rows, vocab_size) of rows that transformer_forward gave.
void transformer_logits(Transformer *transformer, const float *x, int n_rows, float *logits);
