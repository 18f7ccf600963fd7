// Latent attention, arXiv 2405.04434 (project_latent of latent.c). There a head's score is
//     q . [turning part | Wk latent] = [turning part of q | Wk^T rest of q] . [turning part | latent]
// and its mix of values is Wv times the mix of latent vectors. So all heads meet one key for each
// token, and neither keys nor values are ever made. The products with Wk and Wv, which are one
// matrix for each head, are float32.

#include <string.h>

#include "kinds.h"
#include "stream.h"
#include "widen.h"

// q (n, n_heads * head_dim) and the latent vectors of the input's n rows; without q with `alone`.
static void latent_project_by_team(const Team *team, Latent *l, const Layer *layer,
                                   const Input *input, float *q, bool alone, Workspace *ws) {
    const ModelConfig *m = &l->model->config;
    const LatentTensors *own = &layer->extra->latent;
    Product vectors = {
        .out = l->vectors, .stride = own->wkv_a.rows, .matrix = &own->wkv_a, .bias = own->b_kv_a};
    Product q_latent = {.out = l->q_latent,
                        .stride = m->extra->latent.q_rank,
                        .matrix = &own->wq_a,
                        .bias = own->b_q_a};
    Product queries = {.out = q, .stride = layer->wq.rows, .matrix = &layer->wq};
    const Product of_input[] = {vectors, m->extra->latent.q_rank ? q_latent : queries};
    matmul_by_team(team, of_input, alone ? 1 : 2, input, ws);
    if (alone || m->extra->latent.q_rank == 0) return;
    Input normed = {.x = l->q_latent, .n = input->n, .norm = own->q_a_norm};
    normed.eps = (float)m->extra->latent.norm_eps;
    matmul_by_team(team, &queries, 1, &normed, ws);
}

// Norms the vectors of the n rows from token number `first` on, turns what turns, and stores them
// in the cache.
static void latent_store_by_team(const Team *team, const Latent *l, int index, const Angles *angles,
                                 KvCache *cache, int first, int n) {
    const ModelConfig *m = &l->model->config;
    const Layer *layer = &l->model->layers[index];
    int64_t rank = m->extra->latent.kv_rank;
    int64_t turning = l->model->rope.rotary_dim;
    int first_block = first / KV_BLOCK;
    int n_blocks = (first + n - 1) / KV_BLOCK - first_block + 1;
    float key[2 * ROPE_MAX_HEAD_DIM];
    for (int b = team_first(team, n_blocks), end = team_end(team, n_blocks); b < end; b++) {
        int start = (first_block + b) * KV_BLOCK - first;
        int stop = start + KV_BLOCK < n ? start + KV_BLOCK : n;
        for (int row = start > 0 ? start : 0; row < stop; row++) {
            const float *vector = l->vectors + row * (rank + turning);
            memcpy(key, vector + rank, turning * sizeof *key);
            rmsnorm_fast(key + turning, vector, layer->extra->latent.kv_a_norm, rank,
                         (float)m->extra->latent.norm_eps);
            if (angles && angles->keys) {
                const float *turns = angles->keys + (int64_t)row * 2 * angles->n_pairs;
                rope_rotate(key, angles->n_pairs, turns, turns + angles->n_pairs);
            }
            kv_cache_write(cache, 0, first + row, key, NULL);
        }
    }
    team_wait(team);
}

// The weights (head_dim - rotary_dim, width) of head h of wk, zeros behind each row.
static void widen_head(const Latent *l, const Layer *layer, int h, int64_t still, float *out) {
    int64_t rank = l->model->config.extra->latent.kv_rank;
    for (int64_t i = 0; i < still; i++) {
        float *row = out + i * l->width;
        matrix_row(&layer->wk, h * still + i, 0, rank, row);
        memset(row + rank, 0, (l->width - rank) * sizeof *row);
    }
}

// Rows [skipped, n) of queries, of those of q.
static void latent_absorb_by_team(const Team *team, const Latent *l, const Layer *layer,
                                  const Angles *angles, const float *q, int skipped, int n) {
    const ModelConfig *m = &l->model->config;
    int64_t d = m->head_dim;
    int64_t rank = m->extra->latent.kv_rank;
    int64_t turning = l->model->rope.rotary_dim;
    int64_t still = d - turning;
    int64_t heads = m->n_heads * d;
    float *weights = l->weights + team->number * still * l->width;
    float *rows = l->rows + team->number * l->chunk * l->width;
    for (int h; (h = team_next_task(team)) < m->n_heads;) {
        widen_head(l, layer, h, still, weights);
        memset(rows, 0, (n - skipped) * l->width * sizeof *rows);
        gemm_accumulate(&(Gemm){
            .m = n - skipped,
            .n = l->width,
            .k = still,
            .a = q + skipped * heads + h * d + turning,
            .a_stride = heads,
            .b = weights,
            .b_type = NUMBER_F32,
            .b_stride = l->width,
            .c = rows,
        });
        for (int row = skipped; row < n; row++) {
            float *out = l->queries + ((int64_t)row * m->n_heads + h) * (turning + rank);
            memcpy(out, q + row * heads + h * d, turning * sizeof *out);
            memcpy(out + turning, rows + (row - skipped) * l->width, rank * sizeof *out);
            if (!angles) continue;
            const float *turns = angles->queries + (int64_t)row * 2 * angles->n_pairs;
            rope_rotate(out, angles->n_pairs, turns, turns + angles->n_pairs);
        }
    }
    team_wait(team);
}

// out (n, n_heads * value_dim) = wv . mixed, head by head.
static void latent_values_by_team(const Team *team, const Latent *l, const Layer *layer, int n,
                                  float *out) {
    const ModelConfig *m = &l->model->config;
    int64_t rank = m->extra->latent.kv_rank;
    int64_t value_dim = model_value_dim(m);
    int n_rows = (int)layer->wv.rows;
    float *weights =
        l->weights + team->number * (m->head_dim - l->model->rope.rotary_dim) * l->width;
    for (int r = team_first(team, n_rows), end = team_end(team, n_rows); r < end; r++) {
        int64_t h = r / value_dim;
        matrix_row(&layer->wv, r, 0, rank, weights);
        for (int64_t row = 0; row < n; row++) {
            const float *mixed = l->mixed + (row * m->n_heads + h) * rank;
            out[row * n_rows + r] = dot_fast(weights, mixed, rank);
        }
    }
    team_wait(team);
}

void project_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    Input input = rmsnorm_of(t, t->x, t->n, layer->attention_norm);
    latent_project_by_team(team, &t->extra->latent, layer, &input, t->q, n_wanted == 0,
                           t->workspace);
}

Input normed_q_latent(const Transformer *t, int index) {
    return (Input){.x = t->extra->latent.q_latent,
                   .n = t->n,
                   .norm = t->model->layers[index].extra->latent.q_a_norm,
                   .eps = (float)t->model->config.extra->latent.norm_eps};
}

void mix_projected_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    Latent *l = &t->extra->latent;
    latent_store_by_team(team, l, index, angles, &t->caches[index], t->first, t->n);
    if (n_wanted == 0) return;
    latent_absorb_by_team(team, l, layer, angles, t->q, t->n - n_wanted, t->n);
    attend_by_team(team, t, index, l->queries, n_wanted, l->mixed);
    latent_values_by_team(team, l, layer, n_wanted, t->mixed);
    add_mixed_by_team(team, t, index, n_wanted);
}

static void mix_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    project_latent_by_team(team, t, index, n_wanted);
    mix_projected_by_team(team, t, index, n_wanted);
}

// ---- memory ----

static bool keeps_vectors(const Model *model, const Layer *layer) {
    (void)layer;
    return model->config.extra->latent.kv_rank > 0;
}

static void shape_latent(const Model *model, const Layer *layer, KvCache *cache) {
    int rank = model->config.extra->latent.kv_rank;
    if (!keeps_vectors(model, layer)) return;
    cache->n_kv_heads = 1;
    cache->head_dim = model->rope.rotary_dim + rank;
    cache->value_dim = rank;
    cache->values_in_keys = true;
}

static void lay_out_latent_layers(Transformer *t, Arena *arena) {
    const Model *model = t->model;
    const ModelConfig *m = &model->config;
    const LatentConfig *c = &m->extra->latent;
    Latent *l = &t->extra->latent;
    int64_t chunk = t->config->chunk;
    int64_t turning = model->rope.rotary_dim;
    int64_t still = m->head_dim - turning;
    int threads = thread_count();
    if (c->kv_rank == 0) return;
    *l = (Latent){.model = model, .chunk = chunk, .width = whole_vectors(c->kv_rank)};
    l->q_latent = arena_take(arena, chunk * c->q_rank, sizeof(float));
    l->vectors = arena_take(arena, chunk * (c->kv_rank + turning), sizeof(float));
    l->queries = arena_take(arena, chunk * m->n_heads * (turning + c->kv_rank), sizeof(float));
    l->mixed = arena_take(arena, chunk * m->n_heads * c->kv_rank, sizeof(float));
    l->weights = arena_take(arena, threads * still * l->width, sizeof(float));
    l->rows = arena_take(arena, threads * chunk * l->width, sizeof(float));
    t->key_width = t->value_width = 0;
    if (t->widest < c->q_rank) t->widest = c->q_rank;
}

const FastKind fast_latent = {
    .name = "latent",
    .shape_cache = shape_latent,
    .lay_out = lay_out_latent_layers,
    .has = keeps_vectors,
    .mix_by_team = mix_latent_by_team,
};
