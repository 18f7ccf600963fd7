// The router of a layer with experts: a few of them are chosen for each token.
// Sparsely gated mixtures, arXiv 1701.06538; as here in Mixtral, arXiv 2401.04088. Groups, and a
// bias of the choice alone, are of DeepSeek's, arXiv 2405.04434 and 2412.19437.
#include "experts.h"

#include <math.h>

#include "../llama/arithmetic.h"

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
static void route(const ModelConfig *m, const Layer *w, const float *x, float *logits) {
    float cap = (float)m->router_cap;
    for (int e = 0; e < m->n_experts; e++) {
        const float *row = w->router + e * m->dim;
        logits[e] = dot(row, x, m->dim);
        if (w->router_bias) logits[e] += w->router_bias[e];
        if (cap > 0) logits[e] = cap * tanhf(logits[e] / cap);
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
static void open_best_groups(const ModelConfig *m, Routing *r) {
    int n = m->router_groups;
    int of_group = m->n_experts / n;
    for (int g = 0; g < n; g++) {
        r->group_scores[g] = sum_of_best(r->scores + g * of_group, of_group, m->router_group_best);
    }
    choose(r->group_scores, n, m->router_groups_used, r->is_open);
    for (int e = 0; e < m->n_experts; e++) {
        if (!r->is_open[e / of_group]) r->scores[e] = -INFINITY;
    }
}

// The weights are a sigmoid of each logit, or the softmax over the logits of the chosen, or over
// all. All of these grow with the logits, by which experts are chosen as long as nothing else
// counts.
void choose_experts(const ModelConfig *m, const Layer *w, const float *x, Routing *r) {
    int n = m->n_experts;
    float *weights = r->weights;
    route(m, w, x, weights);
    bool is_good = all_finite(weights, n);
    for (int e = 0; e < n; e++) r->scores[e] = weights[e];
    if (m->router == ROUTER_ALL) softmax(weights, n);
    for (int e = 0; e < n && m->router == ROUTER_SIGMOID; e++) weights[e] = sigmoid(weights[e]);
    bool by_weight = w->router_choice_bias || m->router_groups;
    for (int e = 0; e < n && by_weight; e++) {
        r->scores[e] = weights[e];
        if (w->router_choice_bias) r->scores[e] += w->router_choice_bias[e];
    }
    if (m->router_groups) open_best_groups(m, r);
    choose(r->scores, n, m->n_experts_used, r->is_chosen);

    float sum = 0;
    for (int e = 0; e < n; e++) {
        if (r->is_chosen[e]) sum += weights[e];
        else if (m->router == ROUTER_CHOSEN) weights[e] = -INFINITY;
    }
    if (m->router == ROUTER_CHOSEN) softmax(weights, n);
    if (m->router_renormalizes) scale_all(weights, 1 / (sum + 1e-20f), n);
    if (m->router_scale > 0) scale_all(weights, (float)m->router_scale, n);
    if (!is_good) scale_all(weights, NAN, n);
}
