// Embeddings of a token by layer, a chunk at a time.

#include <math.h>

#include "../kinds/per_layer.h"
#include "parts.h"
#include "per_layer.h"
#include "residual.h"

// Memory for a chunk of rows.
typedef struct PerLayer {
    float *own;   // (chunk, n_layers, per_layer_dim) the tokens' embeddings of each layer
    float *rows;  // (threads, per_layer_dim) of the table, one at a time
    float *gate;  // (chunk, per_layer_dim) a layer's gate of them
} PerLayer;

// own (per_layer_dim) = (rmsnorm(own / sqrt(dim)) + sqrt(per_layer_dim) * row) / sqrt(2), where own
// is the product of the projection.
static void mix_own(const ModelConfig *m, const float *row, float *own) {
    const PerLayerConfig *of_model = m->kinds->per_layer;
    int64_t n = of_model->dim;
    float root = sqrtf((float)n);
    float half = sqrtf(0.5f);
    scale_by(own, 1 / sqrtf((float)m->dim), n);
    rmsnorm_fast(own, own, of_model->norm, n, (float)m->norm_eps);
    for (int64_t e = 0; e < n; e++) own[e] = (own[e] + root * row[e]) * half;
}

// Fills `own` for the chunk's tokens, with their embeddings x.
static void embed_layers_by_team(const Team *team, Transformer *t, const int32_t *tokens) {
    const ModelConfig *m = &t->model->config;
    const PerLayerConfig *of_model = m->kinds->per_layer;
    const PerLayer *p = t->kinds->per_layer;
    int64_t n = of_model->dim;
    int n_pieces = t->n * m->n_layers;
    float *row = p->rows + team->number * n;
    Product projection = {.matrix = &of_model->projection, .out = p->own};
    Input x = {.x = t->x, .n = t->n};
    if (n == 0) return;
    projection.stride = m->n_layers * n;
    matmul_by_team(team, &projection, 1, &x, t->workspace);
    for (int i = team_first(team, n_pieces), end = team_end(team, n_pieces); i < end; i++) {
        int layer = i % m->n_layers;
        matrix_row(&of_model->embedding, tokens[i / m->n_layers], layer * n, n, row);
        mix_own(m, row, p->own + i * n);
    }
    team_wait(team);
}

void add_layer_embedding_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const PerLayerTensors *w = t->model->layers[index].kinds->per_layer;
    const PerLayer *p = t->kinds->per_layer;
    int64_t n = m->kinds->per_layer->dim;
    float *x = wanted_rows(t, n_wanted);
    Input input = {.x = x, .n = n_wanted};
    Product gate = {.matrix = &w->gate, .out = p->gate, .stride = n};
    matmul_by_team(team, &gate, 1, &input, t->workspace);
    for (int row = team_first(team, n_wanted), end = team_end(team, n_wanted); row < end; row++) {
        int64_t at = (int64_t)(row + t->n - n_wanted) * m->n_layers + index;
        geglu(p->gate + row * n, p->own + at * n, n);
    }
    team_wait(team);
    Product out = {.matrix = &w->out};
    input.x = p->gate;
    add_product_by_team(team, t, x, &out, &input, w->after);
}

static void end_per_layer_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const float *scale = t->model->layers[index].kinds->per_layer->scale;
    float *x = wanted_rows(t, n_wanted);
    if (m->kinds->per_layer->dim) add_layer_embedding_by_team(team, t, index, n_wanted);
    if (!scale) return;
    int end = team_end(team, n_wanted);
    for (int row = team_first(team, n_wanted); row < end; row++)
        scale_by(x + row * m->dim, *scale, m->dim);
    team_wait(team);
}

static void lay_out_own(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    PerLayer *p = t->kinds->per_layer;
    int64_t n = m->kinds->per_layer->dim;
    int64_t chunk = t->config->chunk;
    if (n == 0) return;
    p->own = arena_take(arena, chunk * m->n_layers * n, sizeof(float));
    p->rows = arena_take(arena, thread_count() * n, sizeof(float));
    p->gate = arena_take(arena, chunk * n, sizeof(float));
    t->adds_apart = true;
    if (t->widest < n) t->widest = n;
}

const FastKind fast_per_layer = {
    .of = &per_layer_kind,
    .part = {sizeof(PerLayer), offsetof(struct FastParts, per_layer)},
    .lay_out = lay_out_own,
    .embed_by_team = embed_layers_by_team,
    .end_layer_by_team = end_per_layer_by_team,
};
