// The router of a layer with experts (experts.h): which of them a token takes, and how much each
// counts.
#include <math.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "kinds.h"

// The greatest of n scores among those not chosen yet; of equals the one of the smaller number.
static int best_of(const float *scores, const bool *is_chosen, int n) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (is_chosen[e]) continue;
        if (best < 0 || scores[e] > scores[best]) best = e;
    }
    return best;
}

static void choose(const float *scores, int n, int n_used, bool *is_chosen) {
    for (int e = 0; e < n; e++) is_chosen[e] = false;
    for (int k = 0; k < n_used; k++) {
        int best = best_of(scores, is_chosen, n);
        is_chosen[best] = true;
    }
}

// logits (n_experts) = router @ x + bias, and no more than a cap if there is one
static void route(const ModelConfig *m, const ExpertsTensors *w, const float *x, float *logits) {
    float cap = (float)m->extra->experts.cap;
    for (int e = 0; e < m->extra->experts.n; e++) {
        const float *row = w->router + e * m->dim;
        logits[e] = dot(row, x, m->dim);
        if (w->router_bias) logits[e] += w->router_bias[e];
        if (cap > 0) logits[e] = capped(logits[e], cap);
    }
}

// The sum of the best one or two of n scores.
static float sum_of_best(const float *scores, int n, int n_best) {
    float first = -INFINITY;
    float second = -INFINITY;
    for (int e = 0; e < n; e++) {
        float score = scores[e];
        if (score > first) {
            second = first;
            first = score;
        } else if (score > second) {
            second = score;
        }
    }
    return n_best == 2 ? first + second : first;
}

// Experts outside of the best groups are out of the question.
static void open_best_groups(const ExpertsConfig *c, PlainExperts *r) {
    int n = c->groups;
    int of_group = c->n / n;
    for (int g = 0; g < n; g++) {
        r->group_scores[g] = sum_of_best(r->scores + g * of_group, of_group, c->group_best);
    }
    choose(r->group_scores, n, c->groups_used, r->is_open);
    for (int e = 0; e < c->n; e++) {
        if (!r->is_open[e / of_group]) r->scores[e] = -INFINITY;
    }
}

void choose_experts(const ModelConfig *m, const ExpertsTensors *w, const float *x,
                    PlainExperts *r) {
    const ExpertsConfig *c = &m->extra->experts;
    int n = c->n;
    float *weights = r->weights;
    route(m, w, x, weights);
    bool is_good = all_finite(weights, n);
    for (int e = 0; e < n; e++) r->scores[e] = weights[e];
    if (c->router == ROUTER_ALL) softmax(weights, n);
    for (int e = 0; e < n && c->router == ROUTER_SIGMOID; e++) weights[e] = sigmoid(weights[e]);
    bool by_weight = w->choice_bias || c->groups;
    for (int e = 0; e < n && by_weight; e++) {
        r->scores[e] = weights[e];
        if (w->choice_bias) r->scores[e] += w->choice_bias[e];
    }
    if (c->groups) open_best_groups(c, r);
    choose(r->scores, n, c->n_used, r->is_chosen);

    float sum = 0;
    for (int e = 0; e < n; e++) {
        if (r->is_chosen[e]) sum += weights[e];
        else if (c->router == ROUTER_CHOSEN) weights[e] = -INFINITY;
    }
    if (c->router == ROUTER_CHOSEN) softmax(weights, n);
    if (c->renormalizes) scale_all(weights, 1 / (sum + expert_sum_eps(c)), n);
    if (c->scale > 0) scale_all(weights, (float)c->scale, n);
    if (!is_good) scale_all(weights, NAN, n);
}
