// The parts of a layer's attention: queries, keys and values of a chunk's rows, their norms and
// rotations, the writes to the cache, attention, and the gate of the mix.
#include "attention_layer.h"

#include <string.h>

#include "residual.h"
#include "rope_layers.h"

// ---- queries, keys and values ----

// The norms of k, and of q except for its first `skipped` rows, if they go over all heads of a row
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

static Heads query_heads(const Transformer *t, const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    const Angles *angles = angles_of(t, layer);
    Heads queries = {
        .dim = layer->extra->shape.head_dim,
        .eps = (float)m->norm_eps,
        .norms = layer_norms_heads(layer, m),
        .norms_late = m->extra->attention.qk_norm_late,
        .cancelled = 1,
        .norm = layer->extra->attention.q_norm,
        .first = t->first,
    };
    if (!angles) return queries;
    if (angles->is_cancelled) queries.cancelled = (float)angles->freqs.attention_factor;
    queries.pairs = angles->n_pairs;
    queries.turns = angles->queries;
    return queries;
}

static NewKeys new_keys(const Transformer *t, int index) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    NewKeys keys = {
        .cache = &t->caches[index],
        .heads = query_heads(t, layer),
        .k = t->k,
        .v = t->v,
        .first = t->first,
        .keys_are_values = layer->extra->flags & LAYER_KEYS_ARE_VALUES,
        .norms_values = m->extra->attention.value_norm,
        .value_eps = (float)m->norm_eps,
    };
    keys.heads.norm = layer->extra->attention.k_norm;
    if (angles) keys.heads.turns = angles->keys;
    return keys;
}

static bool has_keys(const Transformer *t, int index) {
    return t->model->layers[index].extra->shape.kv_layer == index;
}

// Whether attention stores the keys, in the tasks that read them: those of a single token. So no
// thread waits for them, and the thread that has written a block of the cache reads it.
static bool stores_in_tasks(const Transformer *t, int n_wanted) {
    return t->n == 1 && n_wanted == 1;
}

// A thread's share is blocks of the cache, each of one kv head; or all blocks of a kv head, if the
// cache needs them in order.
static void store_keys_by_team(const Team *team, const Transformer *t, int index) {
    NewKeys keys = new_keys(t, index);
    int end_token = t->first + t->n;
    int first_block = t->first / KV_BLOCK;
    int n_blocks = (end_token - 1) / KV_BLOCK - first_block + 1;
    bool in_order = first_block == 0 && kv_cache_is_in_order(keys.cache);
    int together = in_order ? n_blocks : 1;  // blocks of a share
    int shares = n_blocks / together;
    int n = keys.cache->n_kv_heads * shares;
    for (int i = team_first(team, n), last = team_end(team, n); i < last; i++) {
        int start = (first_block + i % shares) * KV_BLOCK;
        int end = start + together * KV_BLOCK;
        store_keys(&keys, i / shares, start > t->first ? start : t->first,
                   end < end_token ? end : end_token);
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
    if (has_keys(t, index) && !stores_in_tasks(t, n_wanted)) store_keys_by_team(team, t, index);
}

// ---- attention ----

// The attention of the last n_wanted rows of a chunk, without its queries and its output.
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
    a.layer = index;
    a.n_heads = layer->extra->shape.n_heads;
    a.scale = layer_score_scale(m, layer);
    a.cap = (float)m->extra->attention.score_cap;
    a.in_int8 = attends_in_int8(t, layer);
    a.grows = !rope->temperature_unturned || layer->extra->flags & LAYER_NOPE;
    a.chunk = layer_chunk(layer, m);
    bool sees_all = layer->extra->flags & LAYER_SEES_ALL && !rope->all_slide;
    a.window = sees_all ? 0 : rope->window;
    a.spread = layer->extra->flags & LAYER_SLIDING ? &in_place : &c->spread;
    a.sinks = spread_token(a.spread, rope->sinks);
    bool has_short = c->short_heads.is_short && is_shortened(&c->short_heads, a.window);
    a.short_heads = has_short ? &c->short_heads : NULL;
    a.short_sinks = spread_token(a.spread, c->short_heads.sinks);
    a.learned_sinks = layer->extra->attention.sinks;
    a.angles = angles_of(t, layer);
    a.first = t->first + skipped;
    a.n = n_wanted;
    return a;
}

// Attention of the last a.n rows. A watcher of a head of the layer gets the scores of the last row,
// whose attention is computed once more for that.
static void run_attention_by_team(const Team *team, const Transformer *t, int index, Attention a) {
    const Watch *watch = &t->config->watch;
    if (watch->scores && (index == watch->layer || watch->layer == ALL_LAYERS)) {
        Attention last = a;
        last.q += (a.n - 1) * a.n_heads * a.cache->head_dim;
        last.first += a.n - 1;
        last.n = 1;
        last.watch = watch;
        attention_by_team(team, &last);
        a.keys = NULL;  // they are stored now
    }
    attention_by_team(team, &a);
}

void attend_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Watch *watch = &t->config->watch;
    Heads queries = query_heads(t, &t->model->layers[index]);
    NewKeys keys = new_keys(t, index);
    Attention a = attention_of_layer(t, index, n_wanted);
    int64_t width = a.n_heads * queries.dim;
    a.q = t->q + (t->n - n_wanted) * width;
    a.queries = &queries;
    if (has_keys(t, index) && stores_in_tasks(t, n_wanted)) a.keys = &keys;
    a.out = t->mixed;
    run_attention_by_team(team, t, index, a);
    if (!watch->query || index != watch->layer || team->number > 0) return;
    memcpy(watch->query, t->q + (t->n - 1) * width + watch->head * queries.dim,
           queries.dim * sizeof *t->q);
    turn_head(&queries, watch->query, t->first + t->n - 1);
}

void attend_turned_by_team(const Team *team, const Transformer *t, int index, const float *q,
                           int n_wanted, float *out) {
    Attention a = attention_of_layer(t, index, n_wanted);
    a.q = q + (t->n - n_wanted) * a.n_heads * a.cache->head_dim;
    a.out = out;
    run_attention_by_team(team, t, index, a);
}

// ---- the layer's summand ----

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
