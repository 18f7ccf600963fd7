// Latent attention, arXiv 2405.04434 (mix_latent of src/kinds/latent.c). There a head's score is
//     q . [rotating | Wk latent] = [rotating part of q | Wk^T rest of q] . [rotating | latent]
// and its mix of values is Wv times the mix of latent vectors. So all heads share one key for each
// token, and neither keys nor values are ever computed. The products with Wk and Wv, which are one
// matrix for each head, are float32.
#include <string.h>

#include "../kinds/latent.h"
#include "attention_layer.h"
#include "parts.h"
#include "rope_layers.h"

// A chunk's memory. A latent key is the rotated elements, shared by all heads, and then the latent
// vector; its value is the vector.
typedef struct Latent {
    float *q_latent;  // (chunk, q_rank)
    float *vectors;   // (chunk, kv_rank + rotary_dim) the products of wkv_a
    float *queries;   // (chunk, n_heads * (rotary_dim + kv_rank)) as they meet latent keys
    float *mixed;     // (chunk, n_heads * kv_rank) the mix of latent vectors
    int64_t width;    // kv_rank in whole vectors
    int64_t chunk;
    float *weights;  // (n_threads, head_dim - rotary_dim, width) those of a head of wk as float32
    float *rows;     // (n_threads, chunk, width) a head of all queries
} Latent;

static Input normed_q_latent(const Transformer *t, int index) {
    return (Input){
        .x = t->kinds->latent->q_latent,
        .n = t->n,
        .norm = t->model->layers[index].kinds->latent->q_a_norm,
        .eps = (float)t->model->config.kinds->latent->norm_eps,
    };
}

// Queries and latent vectors of the chunk, without queries if no rows are wanted.
static void project_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Latent *l = t->kinds->latent;
    const Layer *layer = &t->model->layers[index];
    const LatentTensors *own = layer->kinds->latent;
    int q_rank = t->model->config.kinds->latent->q_rank;
    Input input = rmsnorm_of(t, t->x, t->n, layer->attention_norm);
    Input q_latent = normed_q_latent(t, index);
    Product queries = {.out = t->q, .stride = layer->wq.rows, .matrix = &layer->wq};
    Product of_input[] = {
        {.out = l->vectors, .stride = own->wkv_a.rows, .matrix = &own->wkv_a, .bias = own->b_kv_a},
        {.out = l->q_latent, .stride = q_rank, .matrix = &own->wq_a, .bias = own->b_q_a},
    };
    if (q_rank == 0) of_input[1] = queries;
    matmul_by_team(team, of_input, n_wanted > 0 ? 2 : 1, &input, t->workspace);
    if (n_wanted > 0 && q_rank) matmul_by_team(team, &queries, 1, &q_latent, t->workspace);
}

// Norms the chunk's vectors, rotates their rotary elements, and stores them in the cache.
static void store_latent_by_team(const Team *team, const Transformer *t, int index) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    int64_t rank = m->kinds->latent->kv_rank;
    int64_t rope_dim = t->model->rope.rotary_dim;
    float eps = (float)m->kinds->latent->norm_eps;
    float key[2 * ROPE_MAX_HEAD_DIM];
    int row, end;
    for (rows_to_store(team, t, &row, &end); row < end; row++) {
        const float *vector = t->kinds->latent->vectors + row * (rank + rope_dim);
        memcpy(key, vector + rank, rope_dim * sizeof *key);
        rmsnorm_fast(key + rope_dim, vector, layer->kinds->latent->kv_a_norm, rank, eps);
        angles_turn_key(angles, row, key);
        kv_cache_write(&t->caches[index], 0, t->first + row, key, NULL);
    }
    team_wait(team);
}

// queries of the last n_wanted rows, from t->q. The weights of wk of each head (head_dim -
// rotary_dim, width) are widened first, with zeros after each row.
static void absorb_by_team(const Team *team, const Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Latent *l = t->kinds->latent;
    const Angles *angles = angles_of(t, layer);
    int64_t rank = m->kinds->latent->kv_rank;
    int64_t rope_dim = t->model->rope.rotary_dim;
    int64_t nope_dim = m->head_dim - rope_dim;
    int64_t heads = m->n_heads * m->head_dim;
    int skipped = t->n - n_wanted;
    float *weights = l->weights + team->number * nope_dim * l->width;
    float *rows = l->rows + team->number * l->chunk * l->width;
    for (int h; (h = team_next_task(team)) < m->n_heads;) {
        const float *q = t->q + skipped * heads + h * m->head_dim;
        for (int64_t i = 0; i < nope_dim; i++) {
            float *row = weights + i * l->width;
            matrix_row(&layer->wk, h * nope_dim + i, 0, rank, row);
            memset(row + rank, 0, (l->width - rank) * sizeof *row);
        }
        memset(rows, 0, n_wanted * l->width * sizeof *rows);
        gemm_accumulate(&(Gemm){
            .m = n_wanted,
            .n = l->width,
            .k = nope_dim,
            .a = q + rope_dim,
            .a_stride = heads,
            .b = weights,
            .b_type = NUMBER_F32,
            .b_stride = l->width,
            .c = rows,
        });
        for (int row = 0; row < n_wanted; row++) {
            int64_t place = (int64_t)(skipped + row) * m->n_heads + h;
            float *out = l->queries + place * (rope_dim + rank);
            memcpy(out, q + row * heads, rope_dim * sizeof *out);
            memcpy(out + rope_dim, rows + row * l->width, rank * sizeof *out);
            angles_turn_query(angles, skipped + row, out);
        }
    }
    team_wait(team);
}

// t->mixed (n, n_heads * value_dim) = wv . mixed, head by head.
static void mix_values_by_team(const Team *team, const Transformer *t, int index, int n) {
    const ModelConfig *m = &t->model->config;
    const Matrix *wv = &t->model->layers[index].wv;
    const Latent *l = t->kinds->latent;
    int64_t rank = m->kinds->latent->kv_rank;
    int64_t value_dim = model_value_dim(m);
    int64_t nope_dim = m->head_dim - t->model->rope.rotary_dim;
    int n_rows = (int)wv->rows;
    float *weights = l->weights + team->number * nope_dim * l->width;
    for (int r = team_first(team, n_rows), end = team_end(team, n_rows); r < end; r++) {
        int64_t h = r / value_dim;
        matrix_row(wv, r, 0, rank, weights);
        for (int64_t row = 0; row < n; row++) {
            const float *mixed = l->mixed + (row * m->n_heads + h) * rank;
            t->mixed[row * n_rows + r] = dot_fast(weights, mixed, rank);
        }
    }
    team_wait(team);
}

// Attention of the projected queries and vectors, and its summand.
static void mix_projected_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Latent *l = t->kinds->latent;
    store_latent_by_team(team, t, index);
    if (n_wanted == 0) return;
    absorb_by_team(team, t, index, n_wanted);
    attend_turned_by_team(team, t, index, l->queries, n_wanted, l->mixed);
    mix_values_by_team(team, t, index, n_wanted);
    add_mixed_by_team(team, t, index, n_wanted);
}

static void mix_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    project_latent_by_team(team, t, index, n_wanted);
    mix_projected_by_team(team, t, index, n_wanted);
}

// ---- memory ----

static void shape_latent(const Model *model, const Layer *layer, KvCache *cache) {
    int rank = model->config.kinds->latent->kv_rank;
    (void)layer;
    if (rank == 0) return;
    cache->n_kv_heads = 1;
    cache->head_dim = model->rope.rotary_dim + rank;
    cache->value_dim = rank;
    cache->values_in_keys = true;
}

static void lay_out_latent_layers(Transformer *t, Arena *arena) {
    const Model *model = t->model;
    const ModelConfig *m = &model->config;
    const LatentConfig *c = m->kinds->latent;
    Latent *l = t->kinds->latent;
    int64_t chunk = t->config->chunk;
    int64_t rope_dim = model->rope.rotary_dim;
    int64_t nope_dim = m->head_dim - rope_dim;
    int threads = thread_count();
    if (c->kv_rank == 0) return;
    *l = (Latent){.chunk = chunk, .width = whole_vectors(c->kv_rank)};
    l->q_latent = arena_take(arena, chunk * c->q_rank, sizeof(float));
    l->vectors = arena_take(arena, chunk * (c->kv_rank + rope_dim), sizeof(float));
    l->queries = arena_take(arena, chunk * m->n_heads * (rope_dim + c->kv_rank), sizeof(float));
    l->mixed = arena_take(arena, chunk * m->n_heads * c->kv_rank, sizeof(float));
    l->weights = arena_take(arena, threads * nope_dim * l->width, sizeof(float));
    l->rows = arena_take(arena, threads * chunk * l->width, sizeof(float));
    t->key_width = t->value_width = 0;
    if (t->widest < c->q_rank) t->widest = c->q_rank;
}

const FastKind fast_latent = {
    .of = &latent_kind,
    .part = {sizeof(Latent), offsetof(struct FastParts, latent)},
    .shape_cache = shape_latent,
    .lay_out = lay_out_latent_layers,
    .mix_by_team = mix_latent_by_team,
};
