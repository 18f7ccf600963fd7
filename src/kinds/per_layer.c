// The definition of per-layer embeddings, and of scales of layers.
#include "per_layer.h"

#include <math.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"

static const Field fields_of_per_layer[] = {
    {"layer_scale", 628, U32, 0, 1, IN_PART(PerLayerConfig, scale)},
    {"per_layer_dim", 632, U32, 0, 1 << 14, IN_PART(PerLayerConfig, dim)},
};

static const Rule rules_of_per_layer[] = {
    {"per_layer_dim", EXCLUDES, "layer_norm residual_scale after_norm_eps"},
};

static bool check_per_layer(Model *m, Error *err) {
    return CHECK_RULES(m, rules_of_per_layer, err);
}

// Adds the tensors of per-layer embeddings.
static void add_per_layer_tensors(Model *m, Layer *w, Tensors *t) {
    const ModelConfig *c = &m->config;
    PerLayerConfig *of_model = c->kinds->per_layer;
    PerLayerTensors *to = w->kinds->per_layer;
    int64_t n = of_model->dim, has = n > 0, all = n * c->n_layers;
    const Tensor rows[] = {
        {30, &of_model->embedding, EMBEDDING, .rows = has * c->vocab_size, .cols = all,
         .looked_up = true},
        {40, &of_model->projection, FEED_FORWARD, .rows = all, .cols = c->dim},
        {50, &of_model->norm, FLOATS, .rows = has, .cols = n},
        {510, &to->gate, FEED_FORWARD, .rows = n, .cols = c->dim},
        {520, &to->out, FEED_FORWARD, .rows = has * c->dim, .cols = n},
        {530, &to->after, FLOATS, .rows = has, .cols = c->dim},
        {540, &to->scale, FLOATS, .rows = of_model->scale, .cols = 1},
    };
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
}

static void embed_per_layer(Plain *p, int32_t token, float *x) {
    const ModelConfig *m = &p->model->config;
    const PerLayerConfig *of_model = m->kinds->per_layer;
    float *own = p->kinds->per_layer->own;
    int64_t n = of_model->dim;
    int64_t all = m->n_layers * n;
    if (n == 0) return;

    // own (n_layers, n) = rmsnorm(projection @ x / sqrt(dim)), layer by layer
    matmul(own, &of_model->projection, x, p->row);
    scale_all(own, 1 / sqrtf((float)m->dim), all);
    for (int64_t at = 0; at < all; at += n) {
        rmsnorm(own + at, own + at, of_model->norm, n, m->norm_eps);
    }

    // own = (own + sqrt(n) * the token's row of the table) / sqrt(2)
    const float *row = weights_row(&of_model->embedding, token, p->row);
    add(own, sqrtf((float)n), row, all);
    scale_all(own, sqrtf(0.5f), all);
}

// x += rmsnorm(out @ (gelu(gate @ x) * own))
void add_layer_embedding(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const PerLayerTensors *w = p->w->kinds->per_layer;
    int n = m->kinds->per_layer->dim;
    const float *own = p->kinds->per_layer->own + (int64_t)p->layer * n;
    matmul(p->gate, &w->gate, x, p->row);
    for (int e = 0; e < n; e++) p->gate[e] = gelu(p->gate[e]) * own[e];
    matmul(p->added, &w->out, p->gate, p->row);
    rmsnorm(p->added, p->added, w->after, m->dim, m->norm_eps);
    add(x, 1, p->added, m->dim);
}

static void end_per_layer(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const float *scale = p->w->kinds->per_layer->scale;
    if (m->kinds->per_layer->dim) add_layer_embedding(p, x);
    if (scale) scale_all(x, *scale, m->dim);
}

static void lay_out_per_layer(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    int64_t n = m->kinds->per_layer->dim;
    int64_t all = (int64_t)m->n_layers * n;
    p->kinds->per_layer->own = arena_take(arena, all, sizeof(float));
    if (p->hidden_width < n) p->hidden_width = n;
}

// A token reads one row of the table.
static double unread_table(const Model *m, bool one_token) {
    (void)one_token;
    return (double)matrix_bytes(&m->config.kinds->per_layer->embedding);
}

const Kind per_layer_kind = {
    .parts = {[OF_MODEL] = {sizeof(PerLayerConfig), offsetof(struct ModelParts, per_layer)},
              [OF_LAYER] = {sizeof(PerLayerTensors), offsetof(struct LayerParts, per_layer)},
              [OF_TEXT] = {sizeof(PlainPerLayer), offsetof(struct PlainParts, per_layer)}},
    .fields = fields_of_per_layer,
    .n_fields = sizeof fields_of_per_layer / sizeof fields_of_per_layer[0],
    .check = check_per_layer,
    .add_tensors = add_per_layer_tensors,
    .unread_bytes = unread_table,
    .lay_out = lay_out_per_layer,
    .embed = embed_per_layer,
    .end_layer = end_per_layer,
};
