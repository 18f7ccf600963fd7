// The feed-forward network of a layer.
#include "feed_forward.h"

#include "residual.h"

Product first_product(const ModelConfig *m, const FeedForward *w, float *hidden) {
    return (Product){
        .out = hidden,
        .stride = w->w3.rows,
        .gate = w->w1.rows > 0 ? &w->w1 : NULL,
        .gate_bias = w->b1,
        .matrix = &w->w3,
        .bias = w->b3,
        .activation = m->extra->feed_forward.activation,
    };
}

void start_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                                const float *norm) {
    const Layer *layer = &t->model->layers[index];
    const FeedForward w = dense_of(layer);
    Product w1_w3 = first_product(&t->model->config, &w, t->hidden);
    Input input = rmsnorm_of(t, wanted_rows(t, n_wanted), n_wanted, norm);
    w1_w3.xielu = layer->extra->feed_forward.xielu;
    matmul_by_team(team, &w1_w3, 1, &input, t->workspace);
}

void end_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    Product w2 = {.matrix = &layer->w2, .bias = layer->extra->feed_forward.b2};
    Input input = {.x = t->hidden, .n = n_wanted};
    add_product_by_team(team, t, wanted_rows(t, n_wanted), &w2, &input,
                        layer->extra->residual.ffn_after);
}
