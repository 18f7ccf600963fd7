// A layer with experts: a router chooses a few of them for each token, and their answers are mixed.
// Sparsely gated mixtures, arXiv 1701.06538; as here in Mixtral, arXiv 2401.04088.
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "plain_private.h"

// The expert of the greatest logit among those not chosen yet; of equals the one of the smaller number.
static int best_expert(const float *logits, const bool *is_chosen, int n) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (is_chosen[e]) continue;
        if (best < 0 || logits[e] > logits[best]) best = e;
    }
    return best;
}

// p->router (n_experts), logits, becomes the weights of the k experts of the greatest logits. Where one
// is no number, so is every weight.
static void choose(Plain *p) {
    const ModelConfig *m = &p->model->config;
    int n = m->n_experts;
    float *x = p->router;
    bool *is_chosen = p->is_chosen;
    bool is_good = all_finite(x, n);
    for (int e = 0; e < n; e++) is_chosen[e] = false;
    for (int k = 0; k < m->n_experts_used; k++) {
        int best = best_expert(x, is_chosen, n);
        is_chosen[best] = true;
    }
    for (int e = 0; e < n; e++) {
        bool counts = is_chosen[e] || m->router == ROUTER_ALL;
        if (!counts) x[e] = -INFINITY;
    }
    softmax(x, n);
    if (!is_good) scale_all(x, NAN, n);
}

void mix_experts(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    for (int e = 0; e < m->n_experts; e++) {
        p->router[e] = dot(w->router + e * m->dim, p->normed, m->dim);
        if (w->router_bias) p->router[e] += w->router_bias[e];
    }
    choose(p);
    memset(p->added, 0, m->dim * sizeof(float));
    for (int e = 0; e < m->n_experts; e++) {
        if (!p->is_chosen[e]) continue;
        FeedForward expert = expert_of(&w->ffn, m->n_experts, e);
        feed_forward(p, &expert, p->expert);
        add(p->added, p->router[e], p->expert, m->dim);
    }
}
