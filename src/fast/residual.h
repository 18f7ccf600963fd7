// The residual stream: the addition of a layer's output, after a norm and times a scale in families
// with these.
#pragma once

#include "transformer.h"

// Whether a layer's summand is computed by itself first: it has a norm with these weights, or a
// scale.
bool is_added_apart(const ModelConfig *m, const float *norm);

// x (n, dim) += added, normed before if there are weights for the norm, and scaled.
void add_normed_by_team(const Team *team, Transformer *t, float *x, int n, const float *norm);

// x (n, dim) += matrix . input + bias (dim or NULL), with the product normed before that if there
// are weights for the norm.
void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                         const Input *input, const float *norm);
