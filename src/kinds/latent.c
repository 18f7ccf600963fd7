// Multi-head latent attention, arXiv 2405.04434, section 2.1: keys and values of all heads come from
// one narrow vector. Here they are made of it as in any other model; transformer.c keeps the vector
// itself.
#include "latent.h"

#include <string.h>

#include "../llama/arithmetic.h"

// q = wq @ rmsnorm(wq_a @ normed), or of what is normed itself
static void project_queries(const Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    const float *x = p->normed;
    if (m->q_rank) {
        matmul(p->q_latent, &w->wq_a, p->normed, p->row);
        rmsnorm(p->q_latent, p->q_latent, w->q_a_norm, m->q_rank, m->latent_norm_eps);
        x = p->q_latent;
    }
    matmul(p->q, &w->wq, x, p->row);
}

void project_latent(const Plain *p, float *k, float *v) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    int64_t d = m->head_dim;
    int64_t turning = p->model->rope.rotary_dim;
    int64_t still = d - turning;
    project_queries(p);

    // latent (kv_rank) is normed. Behind it is what turns, one part of a key for all heads, which
    // is not.
    const float *shared = p->latent + m->kv_rank;
    matmul(p->latent, &w->wkv_a, p->normed, p->row);
    rmsnorm(p->latent, p->latent, w->kv_a_norm, m->kv_rank, m->latent_norm_eps);
    matmul(v, &w->wv, p->latent, p->row);
    matmul(p->still, &w->wk, p->latent, p->row);

    // k (n_heads, d): what turns, and then each head's own part
    for (int h = 0; h < m->n_heads; h++) {
        memcpy(k + h * d, shared, turning * sizeof(float));
        memcpy(k + h * d + turning, p->still + h * still, still * sizeof(float));
    }
}
