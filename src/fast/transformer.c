// Llama's forward pass, straight down: embedding; for each layer attention and feed-forward, each behind an RMS norm
// and added to the residual stream; a last norm and the classifier. A chunk of n positions goes through a layer
// together, so every activation is a matrix of n rows. Other families are the same with a step more: biases (Qwen2), a
// norm of each head (Qwen3), heads that turn in part (Phi-4) and layers that do not turn (SmolLM3) or do not slide.
//
// plain.c has every step as its definition, for one position:
//     here                        there
//     rmsnorm_of                  rmsnorm; the products take it on their way in
//     matmul_by_team              project and matmul; those of one input are computed together
//     rotate_and_store_by_team    norm_heads and fill_turns: keys are rotated once, when they are stored
//     attention_by_team           attend, for all heads: scores, softmax, mix
//     matmul_by_team, .gate       feed_forward: its first two products, and silu
//     transformer_logits          plain_logits
//
// Threads. transformer_forward opens a parallel region for each step: a token, or one layer of a prompt's chunk. In it
// every thread of the team runs the same lines side by side. A function whose name ends in _by_team is called by the
// whole team together, with the same arguments. Each thread takes its share of the rows, heads or pairs (team_first, or
// team_next_task where pieces differ in size), and writes nothing that another one writes. At the end it waits for the
// others (team_wait), so the next line can read what all have made. What one thread does for all stands behind
// `team->number == 0`. All other functions belong to the thread that calls them. pace.h says how many threads a step
// gets; a small read runs on the caller alone.
#include "transformer.h"

#include <string.h>

#include "widen.h"

enum { WORTH_A_TEAM = 1 << 20 };  // reads with fewer multiplications are done before other threads have woken

// ---- attention ----

// n_heads heads of a row: each normed, if there are weights for it, then turned by the row's angles, if there are any.
static void rotate_heads(const Transformer *t, float *x, int row, int n_heads, const float *norm, const float *turns) {
    const ModelConfig *m = &t->model->config;
    int pairs = t->angles.n_pairs, at = row * 2 * pairs;
    for (int h = 0; h < n_heads; h++, x += m->head_dim) {
        if (norm) rmsnorm_fast(x, x, norm, m->head_dim, (float)m->norm_eps);
        if (turns) rope_rotate(x, pairs, turns + at, turns + at + pairs);
    }
}

// Norms and rotates the heads of k, and of q but for the first `skipped` rows; stores k and v. A thread's share is
// blocks of the cache, each of one kv head, with the query heads that share the kv head.
static void rotate_and_store_by_team(const Team *team, Transformer *t, int index, int skipped) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const float *turns = layer->flags & LAYER_NOPE ? NULL : t->angles.queries;
    const float *turns_of_keys = layer->flags & LAYER_NOPE ? NULL : t->angles.keys;
    int64_t d = m->head_dim, kv = m->n_kv_heads * d, heads = m->n_heads * d;
    int group = m->n_heads / m->n_kv_heads, first_block = t->first / KV_BLOCK;
    int n_blocks = (t->first + t->n - 1) / KV_BLOCK - first_block + 1, n = m->n_kv_heads * n_blocks;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++) {
        int h = i / n_blocks, block_start = (first_block + i % n_blocks) * KV_BLOCK - t->first;
        int stop = block_start + KV_BLOCK < t->n ? block_start + KV_BLOCK : t->n;
        for (int row = block_start > 0 ? block_start : 0; row < stop; row++) {
            float *k = t->k + row * kv + h * d, *v = t->v + row * kv + h * d, *q = t->q + row * heads + h * group * d;
            rotate_heads(t, k, row, 1, layer->k_norm, turns_of_keys);
            kv_cache_write(&t->cache, index, h, t->first + row, k, v);
            if (row >= skipped) rotate_heads(t, q, row, group, layer->q_norm, turns);
        }
    }
    team_wait(team);
}

// mixed = attention of one layer for the chunk's queries from row `skipped` on. `watch` takes a single query's scores.
static void attend_by_team(const Team *team, Transformer *t, int index, int skipped, const Watch *watch) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const RopeConfig *rope = &t->config->rope;
    Attention a = {.cache = &t->cache, .scratch = t->attention, .config = t->config, .layer = index};
    a.n_heads = m->n_heads;
    a.window = (layer->flags & LAYER_SEES_ALL) && !rope->all_slide ? 0 : rope->window;
    a.sinks = spread_token(&t->config->spread, rope->sinks);
    a.angles = m->encoding == ENCODING_ROPE && !(layer->flags & LAYER_NOPE) ? &t->angles : NULL;
    a.terms = encoding_has_terms(m->encoding) ? &t->terms : NULL;
    a.q = t->q + skipped * layer->wq.rows;
    a.first = t->first + skipped;
    a.n = t->n - skipped;
    a.out = t->mixed;
    a.watch = watch;
    attention_by_team(team, &a);
}

// ---- forward ----

static Input rmsnorm_of(const float *x, int n, const float *weight, const ModelConfig *m) {
    return (Input){x, n, weight, (float)m->norm_eps};
}

// One layer for the n rows of the chunk. All rows get keys and values. The rest is done for the last n_wanted rows: in
// the last layer those whose logits are wanted, in all other layers every row.
static void run_layer_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Watch *watch = &t->config->watch;
    int skipped = t->n - n_wanted;
    int64_t heads = layer->wq.rows, kv = layer->wk.rows;
    float *x = t->x + skipped * m->dim;  // (n_wanted, dim)

    // q (n, n_heads * head_dim), k and v (n, n_kv_heads * head_dim) = wq, wk, wv . rmsnorm(x) + bias
    const Product qkv[] = {{.out = t->k, .stride = kv, .matrix = &layer->wk, .bias = layer->bk},
                           {.out = t->v, .stride = kv, .matrix = &layer->wv, .bias = layer->bv},
                           {.out = t->q, .stride = heads, .matrix = &layer->wq, .bias = layer->bq}};
    Input input = rmsnorm_of(t->x, t->n, layer->attention_norm, m);
    matmul_by_team(team, qkv, n_wanted > 0 ? 3 : 2, &input, t->workspace);

    // rotate q and k by their positions' angles, each head normed first; k and v go into the cache
    rotate_and_store_by_team(team, t, index, skipped);
    if (n_wanted == 0) return;

    // mixed (n_wanted, n_heads * head_dim) = softmax(q k / sqrt(head_dim)) v over all tokens so far
    if (watch->scores && index == watch->layer) attend_by_team(team, t, index, t->n - 1, watch);
    attend_by_team(team, t, index, skipped, NULL);

    // x += wo . mixed
    Product wo = {.out = x, .stride = m->dim, .add = true, .matrix = &layer->wo, .bias = layer->bo};
    input = (Input){.x = t->mixed, .n = n_wanted};
    matmul_by_team(team, &wo, 1, &input, t->workspace);

    // hidden (n_wanted, hidden_dim) = silu(w1 . rmsnorm(x)) * (w3 . rmsnorm(x))
    Product w1_w3 = {.out = t->hidden, .stride = m->hidden_dim, .gate = &layer->w1, .matrix = &layer->w3};
    input = rmsnorm_of(x, n_wanted, layer->ffn_norm, m);
    matmul_by_team(team, &w1_w3, 1, &input, t->workspace);

    // x += w2 . hidden
    Product w2 = {.out = x, .stride = m->dim, .add = true, .matrix = &layer->w2};
    input = (Input){.x = t->hidden, .n = n_wanted};
    matmul_by_team(team, &w2, 1, &input, t->workspace);
}

// t->fault.row becomes the first row of x, from `first` on, that has a NaN or an infinity.
static void check_finite_by_team(const Team *team, Transformer *t, int first) {
    int64_t dim = t->model->config.dim;
    int n = t->n - first;
    for (int row = first + team_first(team, n), end = first + team_end(team, n); row < end; row++)
        if (!all_finite(t->x + row * dim, dim)) {
#pragma omp critical
            if (row < t->fault.row) t->fault.row = row;
        }
    team_wait(team);
}

Fault transformer_forward(Transformer *t, const int32_t *tokens, int n, int first, int length, int n_logits) {
    const ModelConfig *m = &t->model->config;
    int64_t dim = m->dim, work = n * (m->hidden_dim * dim + (first + n) * dim / 2);  // of a layer, about
    bool is_worth_it = work * m->n_layers >= WORTH_A_TEAM;
    int layers = n == 1 ? m->n_layers : 1;  // of one parallel region
    Pace *pace = n == 1 ? &t->decoding : &t->reading;
    for (int i = 0; i < n; i++) matrix_row(&t->model->embedding, tokens[i], 0, dim, t->x + i * dim);
    t->n = n;
    t->first = first;
    t->fault = (Fault){n, -1};
    for (int l = 0; l < m->n_layers && t->fault.row == n; l += layers) {
        double start = now_seconds();
#pragma omp parallel num_threads(is_worth_it ? pace_threads(pace) : 1)
        {
            Team team = team_join(&t->team);
            if (l == 0) {
                check_finite_by_team(&team, t, 0);
                if (m->encoding == ENCODING_ROPE) angles_prepare_by_team(&team, &t->angles, first, n, length);
                else encoding_prepare_by_team(&team, &t->terms, &t->config->spread, t->x, first, n);
            }
            for (int i = l; i < l + layers && t->fault.row == n; i++) {
                int n_wanted = i == m->n_layers - 1 ? n_logits : n;
                run_layer_by_team(&team, t, i, n_wanted);
                check_finite_by_team(&team, t, n - n_wanted);
                if (team.number == 0) t->fault.layer = i;
            }
        }
        bool is_whole = layers > 1 || l < m->n_layers - 1;  // the last layer of a prompt makes few rows only
        if (is_worth_it && is_whole) pace_step(pace, work * layers, now_seconds() - start, processor_seconds);
    }
    return t->fault;
}

void transformer_logits(Transformer *t, const float *x, int n_rows, float *logits) {
    const ModelConfig *m = &t->model->config;
    Input input = rmsnorm_of(x, n_rows, t->model->final_norm, m);
    Product classifier = {.out = logits, .stride = m->vocab_size, .matrix = &t->model->classifier};
    bool is_worth_it = n_rows * m->dim * m->vocab_size >= WORTH_A_TEAM;
    int threads = !is_worth_it ? 1 : n_rows == 1 ? t->decoding.size : t->reading.size;
    (void)threads;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&t->team);
        matmul_by_team(&team, &classifier, 1, &input, t->workspace);
    }
}

// ---- memory ----

uint64_t transformer_lay_out(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const SessionConfig *c = t->config;
    int64_t chunk = c->chunk, heads = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    int64_t widest = m->dim > m->hidden_dim ? m->dim : m->hidden_dim;
    int threads = thread_count();
    t->cache = (KvCache){(Number)c->kv, m->n_layers, m->n_kv_heads, m->head_dim, .positions = c->context};
    kv_cache_lay_out(&t->cache, arena);
    uint64_t cache_bytes = arena->used;
    t->q = arena_take(arena, chunk * heads, sizeof(float));
    t->k = arena_take(arena, chunk * kv, sizeof(float));
    t->v = arena_take(arena, chunk * kv, sizeof(float));
    t->mixed = arena_take(arena, chunk * heads, sizeof(float));
    t->hidden = arena_take(arena, chunk * m->hidden_dim, sizeof(float));
    if (m->encoding == ENCODING_ROPE) angles_lay_out(&t->angles, arena, c);
    else encoding_lay_out(&t->terms, arena, t->model, t->cache.n_blocks);
    t->workspace = workspace_lay_out(arena, chunk, widest > heads ? widest : heads, threads, c->floats);
    t->attention = attention_lay_out(arena, &t->cache, m->n_heads, c->chunk, threads);
    return cache_bytes;
}
