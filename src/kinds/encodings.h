// Encodings before RoPE, for plain.c.
#pragma once

#include "../llama/plain_state.h"

// Adds what tells its position to x (dim), the present token's embedding, if it is told there.
void add_position(Plain *p, float *x);
// Makes the keys and queries of distances that the present layer lacks, if its encoding has such.
void fill_distances(Plain *p);
// The score of the query's head h with the key of token j, in a model whose heads do not turn.
float encoded_score(const Plain *p, int h, int j);
// Adds Shaw's vectors of distances to head h of what attention has mixed.
void mix_shaw(Plain *p, int h);
