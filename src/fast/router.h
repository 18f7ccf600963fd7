// The router of a layer with experts: a row's experts, and the factors of their outputs.
#pragma once

#include "../kinds/experts.h"
#include "transformer.h"

// A thread's memory for it.
typedef struct {
    float *scores;  // (n_experts)
    float *groups;  // (router_groups) scores of groups
    int *open;      // (router_groups_used) the best groups
} Choice;
Choice choice_lay_out(Arena *arena, const ExpertsConfig *config);

// logits (n, n_experts) = router . the input + bias, limited to a cap if there is one. Experts
// beside a dense layer have a norm for their router, which replaces the input's.
void route_by_team(const Team *team, const Transformer *transformer, const Layer *layer,
                   const Input *input, float *logits);

// The n_used experts that a row of logits chooses, and their weights. If a logit is no number, no
// weight is.
void choose_fast(const ExpertsConfig *config, const ExpertsTensors *w, const float *logits,
                 const Choice *choice, int *chosen, float *weights);
