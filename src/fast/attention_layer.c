// The parts of a layer's attention: queries, keys and values of a chunk's rows, their norms and
// rotations, what goes into the cache, attention, and the gate of the mix.
#include "attention_layer.h"

#include <string.h>

#include "residual.h"
#include "rope_layers.h"

// ---- queries, keys and values ----

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
    bool norms, norms_late;  // before they rotate, or after that
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
// kv head; or all blocks of a kv head, where the cache needs them in order.
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
    bool in_order = first_block == 0 && has_keys && kv_cache_is_in_order(&t->caches[index]);
    int together = in_order ? n_blocks : 1;  // blocks of a share
    int shares = n_blocks / together;
    int n = of->n_kv_heads * shares;
    int end = team_end(team, n);
    for (int i = team_first(team, n); i < end; i++) {
        int h = i / shares;
        int block_start = (first_block + i % shares) * KV_BLOCK - t->first;
        int block_end = block_start + together * KV_BLOCK;
        int stop = block_end < t->n ? block_end : t->n;
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

void project_heads_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const AttentionTensors *own = &layer->extra->attention;
    const Matrix *wq = &layer->wq, *wk = &layer->wk, *wv = &layer->wv, *wg = &own->wg;
    Input input = rmsnorm_of(t, t->x, t->n, layer->attention_norm);
    const Product all[] = {
        {.out = t->k, .stride = wk->rows, .matrix = wk, .bias = own->bk},
        {.out = t->v, .stride = wv->rows, .matrix = wv, .bias = own->bv},
        {.out = t->q, .stride = wq->rows, .matrix = wq, .bias = own->bq},
        {.out = t->gates, .stride = wg->rows, .matrix = wg, .bias = own->bg},
    };
    Product asked[4];
    int n = 0;
    for (int i = 0; i < (n_wanted > 0 ? 4 : 2); i++)
        if (all[i].matrix->rows > 0) asked[n++] = all[i];
    if (n > 0) matmul_by_team(team, asked, n, &input, t->workspace);
    if (m->extra->attention.qk_norm == QK_NORM_WHOLE)
        norm_whole_by_team(team, t, layer, t->n - n_wanted);
    rotate_and_store_by_team(team, t, index, t->n - n_wanted);
}

// ---- attention ----

// How the last n_wanted rows of a chunk attend, but for their queries and where the mix goes.
static Attention attention_of_layer(const Transformer *t, int index, int n_wanted) {
    int skipped = t->n - n_wanted;
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const SessionConfig *c = t->config;
    const RopeConfig *rope = layer_rope(layer, c->rope, c->sliding);
    Attention a = {0};
    a.cache = &t->caches[index];
    a.scratch = t->attention;
    a.rope = rope;
    a.n_heads = layer->extra->shape.n_heads;
    a.scale = layer_score_scale(m, layer);
    a.cap = (float)m->extra->attention.score_cap;
    a.grows = !rope->temperature_unturned || layer->extra->flags & LAYER_NOPE;
    a.chunk = layer_chunk(layer, m);
    bool sees_all = layer->extra->flags & LAYER_SEES_ALL && !rope->all_slide;
    a.window = sees_all ? 0 : rope->window;
    a.spread = layer->extra->flags & LAYER_SLIDING ? &in_place : &c->spread;
    a.sinks = spread_token(a.spread, rope->sinks);
    a.learned_sinks = layer->extra->attention.sinks;
    a.angles = angles_of(t, layer);
    a.first = t->first + skipped;
    a.n = n_wanted;
    return a;
}

void attend_by_team(const Team *team, Transformer *t, int index, const float *q, int n_wanted,
                    float *out) {
    const Watch *watch = &t->config->watch;
    Attention a = attention_of_layer(t, index, n_wanted);
    int64_t width = a.n_heads * a.cache->head_dim;
    if (watch->scores && index == watch->layer) {  // the last query alone, whose scores are wanted
        Attention last = attention_of_layer(t, index, 1);
        last.q = q + (t->n - 1) * width;
        last.out = out;
        last.watch = watch;
        attention_by_team(team, &last);
    }
    a.q = q + (t->n - n_wanted) * width;
    a.out = out;
    attention_by_team(team, &a);
}

// ---- what is added ----

// mixed (n_wanted, rows of wo) times a scale, and times the gates, which have a
// number for each element or for each head.
static void change_mixed_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 int n_wanted) {
    const AttentionConfig *m = &t->model->config.extra->attention;
    int64_t width = layer->wo.cols;
    int64_t n_gates = layer->extra->attention.wg.rows;
    int skipped = t->n - n_wanted;
    if (n_gates == 0 && m->value_scale <= 0) return;
    for (int row = team_first(team, n_wanted), end = team_end(team, n_wanted); row < end; row++) {
        float *mixed = t->mixed + row * width;
        const float *gates = t->gates + (row + skipped) * n_gates;
        if (m->value_scale > 0) scale_by(mixed, (float)m->value_scale, width);
        if (n_gates == 0) continue;
        if (m->gate == GATE_SIGMOID) gate_by_sigmoid(mixed, gates, width);
        else gate_by_softplus(mixed, gates, width / n_gates, width);
    }
    team_wait(team);
}

void add_mixed_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    Product wo = {.matrix = &layer->wo, .bias = layer->extra->attention.bo};
    Input mixed = {.x = t->mixed, .n = n_wanted};
    change_mixed_by_team(team, t, layer, n_wanted);
    add_product_by_team(team, t, wanted_rows(t, n_wanted), &wo, &mixed,
                        layer->extra->residual.attention_after);
}
