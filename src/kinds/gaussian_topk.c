// The definition of Gaussian top-k: gates become max(0, gate - cutoff) before the activation, where
// the cutoff is z standard deviations above their mean.
#include "gaussian_topk.h"

#include <math.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"

static const Field fields_of_gaussian_topk[] = {
    {"sparsity", 768, F64, 0, 1, IN_PART(GaussianTopkConfig, sparsity)},
    {"sparse_layers", 776, U32, 0, MAX_LAYERS, IN_PART(GaussianTopkConfig, layers)},
};

static const Rule rules_of_gaussian_topk[] = {
    {"sparse_layers", NEEDS, "sparsity"},
    {"sparsity", NEEDS, "sparse_layers"},
    {"sparse_layers", EXCLUDES, "n_experts ffn_bias"},
};

static bool check_gaussian_topk(Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    const GaussianTopkConfig *own = c->kinds->gaussian_topk;
    int activation = c->extra->feed_forward.activation, place = c->extra->residual.norm_place;
    if (!CHECK_RULES(m, rules_of_gaussian_topk, err)) return false;
    if (own->layers == 0) return true;
    if (own->layers > c->n_layers)
        return fail(err, "sparse_layers is %d (expected 0 to n_layers, %d)", own->layers,
                    c->n_layers);
    if (own->sparsity >= 1) return fail(err, "sparsity is 1 (expected less)");
    if (activation != ACTIVATION_GELU)
        return fail(err, "sparse_layers with activation %d (expected %d)", activation,
                    ACTIVATION_GELU);
    return place != NORM_PARALLEL ||
           fail(err, "sparse_layers with norm_place %d (expected 0 to 2)", place);
}

bool layer_is_sparse(const Model *m, const Layer *layer) {
    return layer - m->layers < m->config.kinds->gaussian_topk->layers;
}

// Bisection: Phi(z) = erfc(-z / sqrt(2)) / 2 increases with z, and is 0 or 1 in float64 outside
// these bounds.
float cutoff_deviations(double sparsity) {
    double low = -40, high = 40;
    for (int i = 0; i < 64; i++) {
        double z = (low + high) / 2;
        if (erfc(-z * sqrt(0.5)) / 2 < sparsity) low = z;
        else high = z;
    }
    return (float)high;
}

void cut_gates(float *x, int64_t n, float deviations) {
    double sum = 0, squares = 0;
    for (int64_t e = 0; e < n; e++) sum += x[e];
    double mean = sum / (double)n;
    for (int64_t e = 0; e < n; e++) squares += (x[e] - mean) * (x[e] - mean);
    float cutoff = (float)(mean + sqrt(squares / (double)n) * deviations);
    for (int64_t e = 0; e < n; e++) x[e] = x[e] > cutoff ? x[e] - cutoff : 0;
}

static void feed_gaussian_topk(Plain *p, const float *x) {
    const Layer *w = p->w;
    int64_t n = w->w1.rows;
    double sparsity = p->model->config.kinds->gaussian_topk->sparsity;
    (void)x;
    matmul(p->gate, &w->w1, p->normed, p->row);
    matmul(p->up, &w->w3, p->normed, p->row);
    cut_gates(p->gate, n, cutoff_deviations(sparsity));
    for (int64_t e = 0; e < n; e++) p->up[e] *= gelu(p->gate[e]);
    matmul(p->added, &w->w2, p->up, p->row);
}

const Kind gaussian_topk_kind = {
    .parts = {[OF_MODEL] = {sizeof(GaussianTopkConfig),
                            offsetof(struct ModelParts, gaussian_topk)}},
    .fields = fields_of_gaussian_topk,
    .n_fields = sizeof fields_of_gaussian_topk / sizeof fields_of_gaussian_topk[0],
    .check = check_gaussian_topk,
    .has = layer_is_sparse,
    .feed = feed_gaussian_topk,
};
