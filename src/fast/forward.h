// The fast forward pass: a team of threads takes chunks of positions through the layers.
// src/decoder/forward.h has its definition.
#pragma once

#include "transformer.h"

// Reads n tokens, at most a chunk, after those from 0 to first - 1, in a text of `length` positions
// so far. The last n_logits rows of x (n, dim) become the last layer's result. Returns the first
// fault; without one its row is n.
Fault transformer_forward(Transformer *transformer, const int32_t *tokens, int n, int first,
                          int length, int n_logits);

// logits (n_rows, vocab_size) of rows of x after transformer_forward.
void transformer_logits(Transformer *transformer, const float *x, int n_rows, float *logits);

// The halves of layer number `index`, for the rows of the chunk: x (n, dim) += the half of its
// norm. Without wanted rows the first half computes only keys and values, and the second is not
// called.
void mix_half_by_team(const Team *team, Transformer *transformer, int index, int n_wanted);
void feed_half_by_team(const Team *team, Transformer *transformer, int index, int n_wanted);
