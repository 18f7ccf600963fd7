// The router of a layer with experts, as in src/kinds/experts.c, for many rows: one product
// computes the logits of all of them, and then each row chooses for itself.
#include <math.h>
#include <string.h>

#include "../decoder/curves.h"
#include "parts.h"
#include "router.h"

Choice choice_lay_out(Arena *arena, const ExpertsConfig *c) {
    return (Choice){
        .scores = arena_take(arena, c->n, sizeof(float)),
        .groups = arena_take(arena, c->groups, sizeof(float)),
        .open = arena_take(arena, c->groups_used, sizeof(int)),
    };
}

void route_by_team(const Team *team, const Transformer *t, const Layer *layer, const Input *input,
                   float *logits) {
    const ExpertsConfig *c = t->model->config.kinds->experts;
    const ExpertsTensors *w = layer->kinds->experts;
    int64_t dim = t->model->config.dim;
    Matrix router = {.type = WEIGHT_F32, .rows = c->n, .cols = dim, .data = w->router};
    Product product = {.matrix = &router, .bias = w->router_bias, .out = logits, .stride = c->n};
    Input read = *input;
    if (w->router_norm) read.norm = w->router_norm;
    matmul_by_team(team, &product, 1, &read, t->workspace);
    float cap = (float)c->cap;
    if (cap <= 0 && !w->router_norm) return;
    int n = (int)input->n * c->n;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++) {
        if (w->router_norm) logits[i] /= sqrtf((float)dim);
        if (cap > 0) logits[i] = capped(logits[i], cap);
    }
    team_wait(team);
}

// ---- the choice of a row ----

static bool is_among(const int *numbers, int n, int number) {
    for (int i = 0; i < n; i++)
        if (numbers[i] == number) return true;
    return false;
}

// The k greatest of n scores, the first of equals first.
static void choose_best(const float *scores, int n, int k, int *chosen) {
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int e = 0; e < n; e++) {
            bool is_better = best < 0 || scores[e] > scores[best];
            if (is_better && !is_among(chosen, i, e)) best = e;
        }
        chosen[i] = best;
    }
}

// Puts -inf into the scores of experts outside the best groups, by the sum of a group's best one or
// two.
static void close_groups(const ExpertsConfig *c, const Choice *choice) {
    int of_group = c->n / c->groups;
    int best[2] = {0};
    for (int g = 0; g < c->groups; g++) {
        const float *scores = choice->scores + g * of_group;
        choose_best(scores, of_group, c->group_best, best);
        choice->groups[g] = scores[best[0]];
        if (c->group_best == 2) choice->groups[g] += scores[best[1]];
    }
    choose_best(choice->groups, c->groups, c->groups_used, choice->open);
    for (int e = 0; e < c->n; e++) {
        if (is_among(choice->open, c->groups_used, e / of_group)) continue;
        choice->scores[e] = -INFINITY;
    }
}

// The weight of a logit before the division by a sum.
static float weight_of(const ExpertsConfig *c, float logit, float max) {
    return c->router == ROUTER_SIGMOID ? sigmoid(logit) : expf(logit - max);
}

void choose_fast(const ExpertsConfig *c, const ExpertsTensors *w, const float *logits,
                 const Choice *choice, int *chosen, float *weights) {
    const float *bias = w->choice_bias;
    float *scores = choice->scores;
    float max = logits[0];
    float all = 0;
    float total = 0;
    float unit = 1;
    for (int e = 1; e < c->n; e++) max = fmaxf(max, logits[e]);
    if (c->router == ROUTER_ALL) {
        for (int e = 0; e < c->n; e++) all += weight_of(c, logits[e], max);
        unit = 1 / all;
    }
    // Weights grow with the logits, which alone decide the choice without a bias and without
    // groups.
    memcpy(scores, logits, c->n * sizeof *logits);
    for (int e = 0; e < c->n && (bias || c->groups); e++)
        scores[e] = unit * weight_of(c, logits[e], max) + (bias ? bias[e] : 0);
    if (c->groups) close_groups(c, choice);
    choose_best(scores, c->n, c->n_used, chosen);
    for (int i = 0; i < c->n_used; i++) {
        weights[i] = unit * weight_of(c, logits[chosen[i]], max);
        total += weights[i];
    }
    unit = c->renormalizes ? 1 / (total + expert_sum_eps(c)) : 1;
    if (c->router == ROUTER_CHOSEN) unit = 1 / total;
    if (c->scale > 0) unit *= (float)c->scale;
    scale_by(weights, all_finite(logits, c->n) ? unit : NAN, c->n_used);
    for (int i = 0; i < c->n_used && w->scales; i++) weights[i] *= w->scales[chosen[i]];
}
