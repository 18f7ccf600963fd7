// Which experts a token takes, as the definition.
#pragma once

#include "../llama/model.h"

// What a router makes of one token.
typedef struct {
    float *weights;       // (n_experts) what the answers of experts are multiplied with
    bool *is_chosen;      // (n_experts) whether the token takes them
    float *scores;        // (n_experts) by which they are chosen
    float *group_scores;  // (router_groups) by which groups are
    bool *is_open;        // (router_groups) whether experts are chosen of a group
} Routing;

// Fills in what the router of a layer makes of its input x (dim). Where a logit of the router is no
// number, no weight is one.
void choose_experts(const ModelConfig *config, const Layer *layer, const float *x, Routing *r);
