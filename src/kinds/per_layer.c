// Gemma 4's embeddings of a token by layer, and the scales of its layers. Besides its embedding a
// token has a narrow vector for each layer. Half of it comes from a table, and half from the
// embedding.
#include "per_layer.h"

#include <math.h>

#include "../llama/arithmetic.h"

void embed_by_layer(Plain *p, int32_t token, const float *x) {
    const Model *model = p->model;
    const ModelConfig *m = &model->config;
    int64_t n = m->per_layer_dim;
    int64_t all = m->n_layers * n;

    // own (n_layers, n) = rmsnorm(projection @ x / sqrt(dim)), layer by layer
    matmul(p->own, &model->per_layer_projection, x, p->row);
    scale_all(p->own, 1 / sqrtf((float)m->dim), all);
    for (int64_t at = 0; at < all; at += n) {
        rmsnorm(p->own + at, p->own + at, model->per_layer_norm, n, m->norm_eps);
    }

    // own = (own + sqrt(n) * the token's row of the table) / sqrt(2)
    const float *row = weights_row(&model->per_layer_embedding, token, p->row);
    add(p->own, sqrtf((float)n), row, all);
    scale_all(p->own, sqrtf(0.5f), all);
}

// x += rmsnorm(per_layer_out @ (gelu(per_layer_gate @ x) * own))
static void add_own(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    const float *own = p->own + (int64_t)p->layer * m->per_layer_dim;
    matmul(p->gate, &w->per_layer_gate, x, p->row);
    for (int e = 0; e < m->per_layer_dim; e++) {
        p->gate[e] = gelu(p->gate[e]) * own[e];
    }
    matmul(p->added, &w->per_layer_out, p->gate, p->row);
    rmsnorm(p->added, p->added, w->per_layer_after, m->dim, m->norm_eps);
    add(x, 1, p->added, m->dim);
}

void end_layer(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    if (m->per_layer_dim) add_own(p, x);
    if (p->w->scale) scale_all(x, *p->w->scale, m->dim);
}
