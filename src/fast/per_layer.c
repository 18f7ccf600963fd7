// Embeddings of a token by layer, a chunk at a time.

#include <math.h>

#include "kinds.h"

// own (per_layer_dim) = (rmsnorm(own / sqrt(dim)) + sqrt(per_layer_dim) * row) / sqrt(2), where own
// is what the projection made.
static void mix_own(const ModelConfig *m, const float *row, float *own) {
    const PerLayerConfig *of_model = &m->extra->per_layer;
    int64_t n = of_model->dim;
    float root = sqrtf((float)n);
    float half = sqrtf(0.5f);
    scale_by(own, 1 / sqrtf((float)m->dim), n);
    rmsnorm_fast(own, own, of_model->norm, n, (float)m->norm_eps);
    for (int64_t e = 0; e < n; e++) own[e] = (own[e] + root * row[e]) * half;
}

// Fills `own` for the chunk's tokens, with their embeddings x.
static void place_per_layer_by_team(const Team *team, Transformer *t, const int32_t *tokens,
                                    int length) {
    const ModelConfig *m = &t->model->config;
    const PerLayerConfig *of_model = &m->extra->per_layer;
    const PerLayer *p = &t->extra->per_layer;
    int64_t n = of_model->dim;
    int n_pieces = t->n * m->n_layers;
    float *row = p->rows + team->number * n;
    Product projection = {.matrix = &of_model->projection, .out = p->own};
    Input x = {.x = t->x, .n = t->n};
    (void)length;
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

// x += rmsnorm(out . gate), with gate (n_wanted, per_layer_dim) = gelu(per_layer_gate . x) * own
static void add_own_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const PerLayerTensors *w = &t->model->layers[index].extra->per_layer;
    const PerLayer *p = &t->extra->per_layer;
    int64_t n = m->extra->per_layer.dim;
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
    const float *scale = t->model->layers[index].extra->per_layer.scale;
    float *x = wanted_rows(t, n_wanted);
    if (m->extra->per_layer.dim) add_own_by_team(team, t, index, n_wanted);
    if (!scale) return;
    int end = team_end(team, n_wanted);
    for (int row = team_first(team, n_wanted); row < end; row++)
        scale_by(x + row * m->dim, *scale, m->dim);
    team_wait(team);
}

static void lay_out_own(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    PerLayer *p = &t->extra->per_layer;
    int64_t n = m->extra->per_layer.dim;
    int64_t chunk = t->config->chunk;
    if (n == 0) return;
    p->own = arena_take(arena, chunk * m->n_layers * n, sizeof(float));
    p->rows = arena_take(arena, thread_count() * n, sizeof(float));
    p->gate = arena_take(arena, chunk * n, sizeof(float));
    t->adds_apart = true;
    if (t->widest < n) t->widest = n;
}

const FastKind fast_per_layer = {
    .lay_out = lay_out_own,
    .place_by_team = place_per_layer_by_team,
    .end_layer_by_team = end_per_layer_by_team,
};
