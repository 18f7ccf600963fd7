// The second half of a layer, as transformer.c has it: what a product adds to the residual stream,
// the dense feed-forward layer, the expert that every token takes, and the others.
#include "layer_steps.h"

#include <math.h>
#include <string.h>

Input rmsnorm_of(const float *x, int n, const float *weight, const ModelConfig *m) {
    float eps = (float)m->norm_eps;
    return (Input){
        .x = x, .n = n, .norm = weight, .eps = eps, .centers = m->extra->stream.layer_norm};
}

// Whether what a layer adds is made by itself first: it has a norm with these weights, or a scale.
static bool adds_apart(const ModelConfig *m, const float *norm) {
    return norm || m->extra->stream.residual_scale > 0;
}

// x (n, dim) += t->added, with that normed before if there are weights for it, and scaled.
static void add_normed_by_team(const Team *team, Transformer *t, float *x, int n,
                               const float *norm) {
    const ModelConfig *m = &t->model->config;
    float eps = (float)(m->extra->stream.after_norm_eps > 0 ? m->extra->stream.after_norm_eps
                                                            : m->norm_eps);
    int end = team_end(team, n);
    for (int row = team_first(team, n); row < end; row++) {
        float *added = t->added + row * m->dim;
        if (norm && m->extra->stream.layer_norm) layernorm_fast(added, added, norm, m->dim, eps);
        else if (norm) rmsnorm_fast(added, added, norm, m->dim, eps);
        if (m->extra->stream.residual_scale > 0)
            scale_by(added, (float)m->extra->stream.residual_scale, m->dim);
        add_to(x + row * m->dim, added, m->dim);
    }
    team_wait(team);
}

void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                         const Input *input, const float *norm) {
    const ModelConfig *m = &t->model->config;
    Product p = *product;
    bool apart = adds_apart(m, norm);
    int n = (int)input->n;
    p.out = apart ? t->added : x;
    p.stride = m->dim;
    p.add = !apart;
    matmul_by_team(team, &p, 1, input, t->workspace);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}

void start_feed_forward_by_team(const Team *team, Transformer *t, const float *x, int n,
                                const Layer *layer, const float *norm) {
    const ModelConfig *m = &t->model->config;
    Product w1_w3 = {
        .out = t->hidden,
        .stride = layer->extra->shape.hidden_dim,
        .gate = layer->w1.rows > 0 ? &layer->w1 : NULL,
        .matrix = &layer->w3,
        .gate_bias = layer->extra->feed_forward.b1,
        .bias = layer->extra->feed_forward.b3,
        .activation = m->extra->feed_forward.activation,
        .xielu = layer->extra->feed_forward.xielu,
    };
    Input input = rmsnorm_of(x, n, norm, m);
    matmul_by_team(team, &w1_w3, 1, &input, t->workspace);
}

void end_feed_forward_by_team(const Team *team, Transformer *t, float *x, int n,
                              const Layer *layer) {
    Product w2 = {.matrix = &layer->w2, .bias = layer->extra->feed_forward.b2};
    Input input = {.x = t->hidden, .n = n};
    add_product_by_team(team, t, x, &w2, &input, layer->extra->stream.ffn_after);
}

// Of the expert that every token takes: hidden (n, shared_hidden_dim), and the gate of each row.
static void start_shared_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 const Input *input) {
    const ModelConfig *m = &t->model->config;
    const FeedForward *w = &layer->extra->experts.shared;
    Product w1_w3 = {
        .out = t->hidden,
        .stride = m->extra->experts.shared_hidden_dim,
        .gate = w->w1.rows > 0 ? &w->w1 : NULL,
        .matrix = &w->w3,
        .activation = m->extra->feed_forward.activation,
    };
    matmul_by_team(team, &w1_w3, 1, input, t->workspace);
    if (!layer->extra->experts.shared_gate) return;
    Matrix row = {
        .type = WEIGHT_F32, .rows = 1, .cols = m->dim, .data = layer->extra->experts.shared_gate};
    Product gate = {.out = t->shared_gates, .stride = 1, .matrix = &row};
    matmul_by_team(team, &gate, 1, input, t->workspace);
    int n = (int)input->n;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++)
        t->shared_gates[i] = 1 / (1 + expf(-t->shared_gates[i]));
    team_wait(team);
}

// out (n, dim) += w2 . hidden, by the gates if there are any
static void add_shared_by_team(const Team *team, Transformer *t, const Layer *layer, int n,
                               float *out) {
    Product w2 = {.matrix = &layer->extra->experts.shared.w2, .out = out, .add = true};
    w2.stride = t->model->config.dim;
    if (layer->extra->experts.shared_gate) w2.factors = t->shared_gates;
    Input input = {.x = t->hidden, .n = n};
    matmul_by_team(team, &w2, 1, &input, t->workspace);
}

// t->added (n, dim) = rmsnorm(the dense layer) + rmsnorm(the experts beside it), which read x
// behind norms of their own.
static void mix_beside_by_team(const Team *team, Transformer *t, const float *x, int n,
                               const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    float eps = (float)m->norm_eps;
    Input input = rmsnorm_of(x, n, layer->ffn_norm, m);
    Input of_experts = rmsnorm_of(x, n, layer->extra->experts.norm, m);
    int first = team_first(team, n);
    int end = team_end(team, n);
    memset(t->added + first * m->dim, 0, (end - first) * m->dim * sizeof(float));
    memset(t->beside + first * m->dim, 0, (end - first) * m->dim * sizeof(float));
    start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t->experts, layer, &of_experts, t->added, t->workspace);
    add_shared_by_team(team, t, layer, n, t->beside);
    for (int row = first; row < end; row++) {
        float *added = t->added + row * m->dim;
        float *beside = t->beside + row * m->dim;
        rmsnorm_fast(added, added, layer->extra->experts.after, m->dim, eps);
        rmsnorm_fast(beside, beside, layer->extra->experts.shared_after, m->dim, eps);
        add_to(added, beside, m->dim);
    }
    team_wait(team);
}

void add_experts_by_team(const Team *team, Transformer *t, float *x, int n, const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    const float *norm = layer->extra->stream.ffn_after;
    if (m->extra->experts.beside) {
        mix_beside_by_team(team, t, x, n, layer);
        add_normed_by_team(team, t, x, n, norm);
        return;
    }
    Input input = rmsnorm_of(x, n, layer->ffn_norm, m);
    bool apart = adds_apart(m, norm);
    float *out = apart ? t->added : x;
    int end = apart ? team_end(team, n) : 0;
    for (int row = team_first(team, n); row < end; row++)
        memset(out + row * m->dim, 0, m->dim * sizeof *out);
    if (m->extra->experts.shared_hidden_dim) start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t->experts, layer, &input, out, t->workspace);
    if (m->extra->experts.shared_hidden_dim) add_shared_by_team(team, t, layer, n, out);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}
