// The second half of a layer: its dense feed-forward layer.

#include "kinds.h"
#include "stream.h"

// hidden (n_wanted, hidden_dim) = silu(w1 . norm(x)) * (w3 . norm(x)), or what other activations
// make of both, or of w3 . norm(x) alone.
static void start_feed_forward_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                                       const float *norm) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
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
    Input input = rmsnorm_of(t, wanted_rows(t, n_wanted), n_wanted, norm);
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
    .name = "feed_forward",
    .begin_layer_by_team = feed_first_by_team,
    .has = has_one_norm,
    .feed_by_team = end_feed_forward_by_team,
};
