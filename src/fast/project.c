// The first half of attention, as transformer.c has it: queries, keys and values of a chunk's rows,
// their norms and turns, and what goes into the cache.
#include "layer_steps.h"

#include <string.h>

const Angles *angles_of(const Transformer *t, const Layer *layer) {
    bool is_rope = t->model->config.extra->encoding.kind == ENCODING_ROPE;
    if (!is_rope || layer->extra->flags & LAYER_NOPE) return NULL;
    return layer->extra->flags & LAYER_SLIDING ? &t->sliding : &t->angles;
}

// The norms of k, and of q but for the first `skipped` rows, that go over all heads of a row
// together.
static void norm_whole_by_team(const Team *team, Transformer *t, const Layer *layer, int skipped) {
    int64_t heads = layer->wq.rows;
    int64_t kv = layer->wk.rows;
    float eps = (float)t->model->config.norm_eps;
    int end = team_end(team, t->n);
    for (int row = team_first(team, t->n); row < end; row++) {
        float *q = t->q + row * heads;
        float *k = t->k + row * kv;
        if (kv > 0) rmsnorm_fast(k, k, layer->extra->attention.k_norm, kv, eps);
        if (row >= skipped) rmsnorm_fast(q, q, layer->extra->attention.q_norm, heads, eps);
    }
    team_wait(team);
}

// How the heads of a layer's queries or keys are normed and turned: their width, and how many pairs
// of each turn.
typedef struct {
    int64_t dim, pairs;
    float eps;
    bool norms, norms_late;  // before they turn, or behind that
    float cancelled;         // by this what turns is multiplied before its norm
    const float *norm;       // (dim) NULL: ones
    const float *turns;      // (n, 2, pairs) of the chunk's rows; NULL: they do not turn
} Heads;

// n_heads heads of x, which are of this row.
static void rotate_heads(const Heads *of, float *x, int n_heads, int row) {
    const float *turns = of->turns ? of->turns + row * 2 * of->pairs : NULL;
    for (int h = 0; h < n_heads; h++) {
        if (of->cancelled != 1) scale_by(x, of->cancelled, 2 * of->pairs);
        if (of->norms && !of->norms_late) rmsnorm_fast(x, x, of->norm, of->dim, of->eps);
        if (turns) rope_rotate(x, (int)of->pairs, turns, turns + of->pairs);
        if (of->norms && of->norms_late) rmsnorm_fast(x, x, of->norm, of->dim, of->eps);
        x += of->dim;
    }
}

// The values of a head: of wv, or as the key is before its norm, and normed if the model does.
static void make_value(const Transformer *t, const Layer *layer, const float *key, float *value) {
    const ModelConfig *m = &t->model->config;
    int64_t n = layer_value_dim(m, layer);
    if (layer->extra->flags & LAYER_KEYS_ARE_VALUES) memcpy(value, key, n * sizeof *value);
    if (m->extra->attention.value_norm) rmsnorm_fast(value, value, NULL, n, (float)m->norm_eps);
}

// Norms and rotates the heads of k, and of q but for the first `skipped` rows; stores k and v. A
// thread's share is blocks of the cache, each of one kv head, with the query heads that share the
// kv head.
static void rotate_and_store_by_team(const Team *team, Transformer *t, int index, int skipped) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    const LayerShape *of = &layer->extra->shape;
    int64_t d = of->head_dim;
    Heads queries = {.dim = d,
                     .eps = (float)m->norm_eps,
                     .norm = layer->extra->attention.q_norm,
                     .cancelled = 1};
    queries.norms = layer_norms_heads(layer, m);
    queries.norms_late = m->extra->attention.qk_norm_late;
    if (angles) queries.pairs = angles->n_pairs;
    if (angles && angles->is_cancelled) queries.cancelled = (float)angles->freqs.attention_factor;
    Heads keys = queries;
    keys.norm = layer->extra->attention.k_norm;
    if (angles) queries.turns = angles->queries;
    if (angles) keys.turns = angles->keys;
    int64_t kv = of->n_kv_heads * d;
    int64_t value_dim = layer_value_dim(m, layer);
    int64_t heads = of->n_heads * d;
    int group = of->n_heads / of->n_kv_heads;
    bool has_keys = of->kv_layer == index;
    int first_block = t->first / KV_BLOCK;
    int n_blocks = (t->first + t->n - 1) / KV_BLOCK - first_block + 1;
    int n = of->n_kv_heads * n_blocks;
    int end = team_end(team, n);
    for (int i = team_first(team, n); i < end; i++) {
        int h = i / n_blocks;
        int block_start = (first_block + i % n_blocks) * KV_BLOCK - t->first;
        int stop = block_start + KV_BLOCK < t->n ? block_start + KV_BLOCK : t->n;
        int start = block_start > 0 ? block_start : 0;
        for (int row = start; row < stop; row++) {
            float *k = t->k + row * kv + h * d;
            float *v = t->v + (row * of->n_kv_heads + h) * value_dim;
            float *q = t->q + row * heads + h * group * d;
            if (has_keys) {
                make_value(t, layer, k, v);
                rotate_heads(&keys, k, 1, row);
                kv_cache_write(&t->caches[index], h, t->first + row, k, v);
            }
            if (row >= skipped) rotate_heads(&queries, q, group, row);
        }
    }
    team_wait(team);
}

void store_by_team(const Team *team, Transformer *t, int index, int n_wanted, const Input *input) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    int skipped = t->n - n_wanted;
    const Product all[] = {
        {.out = t->k,
         .stride = layer->wk.rows,
         .matrix = &layer->wk,
         .bias = layer->extra->attention.bk},
        {.out = t->v,
         .stride = layer->wv.rows,
         .matrix = &layer->wv,
         .bias = layer->extra->attention.bv},
        {.out = t->q,
         .stride = layer->wq.rows,
         .matrix = &layer->wq,
         .bias = layer->extra->attention.bq},
        {.out = t->gates,
         .stride = layer->extra->attention.wg.rows,
         .matrix = &layer->extra->attention.wg,
         .bias = layer->extra->attention.bg},
    };
    Product asked[4];
    int n = 0;
    for (int i = 0; i < (n_wanted > 0 ? 4 : 2); i++)
        if (all[i].matrix->rows > 0) asked[n++] = all[i];
    if (n > 0) matmul_by_team(team, asked, n, input, t->workspace);
    if (m->extra->attention.qk_norm == QK_NORM_WHOLE) norm_whole_by_team(team, t, layer, skipped);
    rotate_and_store_by_team(team, t, index, skipped);
}

void store_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                          const Input *input) {
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    Latent *l = &t->latent;
    latent_project_by_team(team, l, layer, input, t->q, n_wanted == 0, t->workspace);
    latent_store_by_team(team, l, index, angles, &t->caches[index], t->first, t->n);
    if (n_wanted > 0) latent_absorb_by_team(team, l, layer, angles, t->q, t->n - n_wanted, t->n);
}
