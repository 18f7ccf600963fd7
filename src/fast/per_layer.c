// Embeddings of a token by layer, a chunk at a time.
#include "per_layer.h"

#include <math.h>

#include "kernels.h"
#include "widen.h"

void per_layer_lay_out(PerLayer *p, Arena *arena, const ModelConfig *m, int64_t chunk,
                       int threads) {
    int64_t n = m->extra->per_layer.dim;
    p->own = arena_take(arena, chunk * m->n_layers * n, sizeof(float));
    p->rows = arena_take(arena, threads * n, sizeof(float));
    p->gate = arena_take(arena, chunk * n, sizeof(float));
}

// own (per_layer_dim) = (rmsnorm(own / sqrt(dim)) + sqrt(per_layer_dim) * row) / sqrt(2), where own
// is what the projection made.
static void mix_own(const Model *model, const float *row, float *own) {
    const ModelConfig *m = &model->config;
    int64_t n = m->extra->per_layer.dim;
    float root = sqrtf((float)n);
    scale_by(own, 1 / sqrtf((float)m->dim), n);
    rmsnorm_fast(own, own, model->config.extra->per_layer.norm, n, (float)m->norm_eps);
    for (int64_t e = 0; e < n; e++) own[e] = (own[e] + root * row[e]) * sqrtf(0.5f);
}

void per_layer_embed_by_team(const Team *team, const PerLayer *p, const Model *model,
                             const int32_t *tokens, const Input *x, Workspace *ws) {
    const ModelConfig *m = &model->config;
    int64_t n = m->extra->per_layer.dim;
    int n_pieces = (int)x->n * m->n_layers;
    float *row = p->rows + team->number * n;
    Product projection = {.matrix = &model->config.extra->per_layer.projection, .out = p->own};
    projection.stride = m->n_layers * n;
    matmul_by_team(team, &projection, 1, x, ws);
    for (int i = team_first(team, n_pieces), end = team_end(team, n_pieces); i < end; i++) {
        int layer = i % m->n_layers;
        matrix_row(&model->config.extra->per_layer.embedding, tokens[i / m->n_layers], layer * n, n,
                   row);
        mix_own(model, row, p->own + i * n);
    }
    team_wait(team);
}

void per_layer_gate_by_team(const Team *team, const PerLayer *p, const Model *model, int index,
                            int skipped, const Input *x, Workspace *ws) {
    const ModelConfig *m = &model->config;
    int64_t n = m->extra->per_layer.dim;
    int n_rows = (int)x->n;
    Product gate = {
        .matrix = &model->layers[index].extra->per_layer.gate, .out = p->gate, .stride = n};
    matmul_by_team(team, &gate, 1, x, ws);
    for (int row = team_first(team, n_rows), end = team_end(team, n_rows); row < end; row++) {
        int64_t at = (int64_t)(row + skipped) * m->n_layers + index;
        geglu(p->gate + row * n, p->own + at * n, n);
    }
    team_wait(team);
}
