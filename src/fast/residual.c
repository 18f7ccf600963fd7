// The residual stream: the addition of a layer's output, after a norm and times a scale in families
// with these.
#include "residual.h"

bool is_added_apart(const ModelConfig *m, const float *norm) {
    return norm || m->extra->residual.residual_scale > 0;
}

void add_normed_by_team(const Team *team, Transformer *t, float *x, int n, const float *norm) {
    const ModelConfig *m = &t->model->config;
    const ResidualConfig *s = &m->extra->residual;
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
