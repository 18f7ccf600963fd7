// Scores where models or options have them otherwise than the formula in plain.c.
#pragma once

#include "../llama/plain_state.h"

// How many pairs of a head turn in the present layer; 0: it knows no positions, or not by RoPE.
int turning_pairs(const Plain *p);
// What the product of query and key is multiplied by. It grows with the position in some models.
float query_scale(const Plain *p);
// Changes the scores (i + 1) of the query's head h: other encodings have formulas of their own, a
// window or a chunk hides keys, a cap bends them, and behind a jump a key counts as many.
void change_scores(Plain *p, int h);
// Multiplies what attention has mixed by a scale, and by what a gate makes of the layer's input. It
// is wg @ normed: a number for each element, or one for each head. Most models have neither.
void change_mixed(Plain *p);
