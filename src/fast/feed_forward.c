// The second half of a layer: its dense feed-forward layer.
#include "kinds.h"

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

// hidden (n_wanted, hidden_dim) = what it makes of norm(x).
static void start_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                                       const float *norm) {
    const Layer *layer = &t->model->layers[index];
    const FeedForward w = dense_of(layer);
    Product w1_w3 = first_product(&t->model->config, &w, t->hidden);
    Input input = rmsnorm_of(t, wanted_rows(t, n_wanted), n_wanted, norm);
    w1_w3.xielu = layer->extra->feed_forward.xielu;
    matmul_by_team(team, &w1_w3, 1, &input, t->workspace);
}

// x (n_wanted, dim) += w2 . hidden
static void end_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    Product w2 = {.matrix = &layer->w2, .bias = layer->extra->feed_forward.b2};
    Input input = {.x = t->hidden, .n = n_wanted};
    add_product_by_team(team, t, wanted_rows(t, n_wanted), &w2, &input,
                        layer->extra->stream.ffn_after);
}

void feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    start_feed_forward_by_team(team, t, index, n_wanted, t->model->layers[index].ffn_norm);
    end_feed_forward_by_team(team, t, index, n_wanted);
}

// ---- one norm for both halves ----

static bool has_one_norm(const Model *model, const Layer *layer) {
    (void)layer;
    return model->config.extra->stream.norm_place == NORM_PARALLEL;
}

// Where both halves read one norm of the same x, feed-forward begins before attention adds to x.
static void feed_first_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    if (!has_one_norm(t->model, layer)) return;
    start_feed_forward_by_team(team, t, index, n_wanted, layer->attention_norm);
}

const FastKind fast_feed_forward = {
    .begin_layer_by_team = feed_first_by_team,
    .has = has_one_norm,
    .feed_by_team = end_feed_forward_by_team,
};
