// The router of a layer with experts: a few of them are chosen for each token.
// Sparsely gated mixtures, arXiv 1701.06538; as here in Mixtral, arXiv 2401.04088.
#include "plain_experts.h"

#include <math.h>

#include "arithmetic.h"

// The expert of the greatest logit among those not chosen yet; of equals the one of the smaller
// number.
static int best_expert(const float *logits, const bool *is_chosen, int n) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (is_chosen[e]) continue;
        if (best < 0 || logits[e] > logits[best]) best = e;
    }
    return best;
}

// logits (n_experts) = router @ x + bias
static void route(const ModelConfig *m, const Layer *w, const float *x, float *logits) {
    for (int e = 0; e < m->n_experts; e++) {
        const float *row = w->router + e * m->dim;
        logits[e] = dot(row, x, m->dim);
        if (w->router_bias) logits[e] += w->router_bias[e];
    }
}

// The weights are the softmax over the logits of the chosen, or over all logits.
void choose_experts(const ModelConfig *m, const Layer *w, const float *x, float *weights,
                    bool *is_chosen) {
    int n = m->n_experts;
    route(m, w, x, weights);
    bool is_good = all_finite(weights, n);
    for (int e = 0; e < n; e++) is_chosen[e] = false;
    for (int k = 0; k < m->n_experts_used; k++) {
        int best = best_expert(weights, is_chosen, n);
        is_chosen[best] = true;
    }
    for (int e = 0; e < n; e++) {
        bool counts = is_chosen[e] || m->router == ROUTER_ALL;
        if (!counts) weights[e] = -INFINITY;
    }
    softmax(weights, n);
    if (!is_good) scale_all(weights, NAN, n);
}
