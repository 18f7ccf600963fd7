// The residual stream: what a layer adds to it, after a norm and times a scale where a family has
// these.
#pragma once

#include "transformer.h"

// Whether what a layer adds is computed by itself first: it has a norm with these weights, or a
// scale.
bool is_added_apart(const ModelConfig *m, const float *norm);

// x (n, dim) += added, with that normed before if there are weights for it, and scaled.
void add_normed_by_team(const Team *team, Transformer *t, float *x, int n, const float *norm);

// x (n, dim) += matrix . input + bias (dim or NULL), with the product normed before that if there
// are weights for it.
void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                         const Input *input, const float *norm);
