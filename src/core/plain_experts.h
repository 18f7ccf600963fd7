// Which experts a token takes, as the definition.
#pragma once

#include "model.h"

// For the input x (dim) of a layer with experts: is_chosen (n_experts) says which experts it takes,
// and weights (n_experts) what their answers are multiplied with. Where a logit of the router is no
// number, no weight is one.
void choose_experts(const ModelConfig *config, const Layer *layer, const float *x, float *weights,
                    bool *is_chosen);
