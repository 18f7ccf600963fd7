// Feed-forward layers whose gates are mostly zero, for many rows: src/kinds/gaussian_topk.c has the
// definition. The cutoff follows from all gates of a row, so these are computed first.
#include "../kinds/gaussian_topk.h"
#include "parts.h"
#include "residual.h"

// For a chunk of rows.
typedef struct FastGaussianTopk {
    float *gates;      // (chunk, hidden_dim)
    float deviations;  // above the mean, of the cutoff
} FastGaussianTopk;

static void feed_gaussian_topk_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    const FastGaussianTopk *own = t->kinds->gaussian_topk;
    int64_t n = layer->w1.rows;
    float *x = wanted_rows(t, n_wanted);
    Input input = rmsnorm_of(t, x, n_wanted, layer->ffn_norm);
    const Product both[] = {
        {.matrix = &layer->w1, .out = own->gates, .stride = n},
        {.matrix = &layer->w3, .out = t->hidden, .stride = n},
    };
    matmul_by_team(team, both, 2, &input, t->workspace);
    for (int row = team_first(team, n_wanted), end = team_end(team, n_wanted); row < end; row++) {
        float *gates = own->gates + row * n;
        cut_gates(gates, n, own->deviations);
        geglu(gates, t->hidden + row * n, n);
    }
    team_wait(team);
    Product w2 = {.matrix = &layer->w2};
    input = (Input){.x = own->gates, .n = n_wanted};
    add_product_by_team(team, t, x, &w2, &input, layer->extra->residual.ffn_after);
}

static void lay_out_gates(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const GaussianTopkConfig *of_model = m->kinds->gaussian_topk;
    FastGaussianTopk *own = t->kinds->gaussian_topk;
    if (of_model->layers == 0) return;
    own->gates = arena_take(arena, t->config->chunk * m->hidden_dim, sizeof(float));
    own->deviations = cutoff_deviations(of_model->sparsity);
}

const FastKind fast_gaussian_topk = {
    .of = &gaussian_topk_kind,
    .part = {sizeof(FastGaussianTopk), offsetof(struct FastParts, gaussian_topk)},
    .lay_out = lay_out_gates,
    .feed_by_team = feed_gaussian_topk_by_team,
};
