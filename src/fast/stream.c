// The residual stream, as it goes through the layers: norms of what is read and added, and scales.
#include "kinds.h"

bool is_added_apart(const ModelConfig *m, const float *norm) {
    return norm || m->extra->stream.residual_scale > 0;
}

void add_normed_by_team(const Team *team, Transformer *t, float *x, int n, const float *norm) {
    const ModelConfig *m = &t->model->config;
    const StreamConfig *s = &m->extra->stream;
    float eps = (float)(s->after_norm_eps > 0 ? s->after_norm_eps : m->norm_eps);
    int end = team_end(team, n);
    for (int row = team_first(team, n); row < end; row++) {
        float *added = t->added + row * m->dim;
        if (norm && s->layer_norm) layernorm_fast(added, added, norm, m->dim, eps);
        else if (norm) rmsnorm_fast(added, added, norm, m->dim, eps);
        if (s->residual_scale > 0) scale_by(added, (float)s->residual_scale, m->dim);
        add_to(x + row * m->dim, added, m->dim);
    }
    team_wait(team);
}

void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                         const Input *input, const float *norm) {
    const ModelConfig *m = &t->model->config;
    Product p = *product;
    bool apart = is_added_apart(m, norm);
    int n = (int)input->n;
    p.out = apart ? t->added : x;
    p.stride = m->dim;
    p.add = !apart;
    matmul_by_team(team, &p, 1, input, t->workspace);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}

// ---- both ends ----

static void change_embeddings(Transformer *t) {
    const ModelConfig *m = &t->model->config;
    const StreamConfig *s = &m->extra->stream;
    for (int i = 0; i < t->n && s->embedding_norm; i++) {
        float *x = t->x + i * m->dim;
        rmsnorm_fast(x, x, NULL, m->dim, (float)m->norm_eps);
    }
    if (s->embedding_scale > 0) scale_by(t->x, (float)s->embedding_scale, t->n * m->dim);
}

// A thread's share is columns.
static void change_logits_by_team(const Team *team, const Transformer *t, float *logits,
                                  int n_rows) {
    const ModelConfig *m = &t->model->config;
    const StreamConfig *s = &m->extra->stream;
    int first = team_first(team, m->vocab_size);
    int n = team_end(team, m->vocab_size) - first;
    for (int row = 0; row < n_rows; row++) {
        float *some = logits + (int64_t)row * m->vocab_size + first;
        if (s->logit_scale > 0) scale_by(some, (float)s->logit_scale, n);
        if (s->logit_cap > 0) cap_all(some, (float)s->logit_cap, n);
    }
    team_wait(team);
}

static void lay_out_stream(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    (void)arena;
    t->centers = m->extra->stream.layer_norm;
    t->adds_apart = norms_after(m) || m->extra->stream.residual_scale > 0;
}

const FastKind fast_stream = {
    .lay_out = lay_out_stream,
    .embed = change_embeddings,
    .end_by_team = change_logits_by_team,
};
