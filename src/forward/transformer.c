// Llama's forward pass, straight down: embedding; for each layer attention and feed-forward, each behind an RMS norm
// and added to the residual stream; a last norm and the classifier. A chunk of n positions goes through a layer
// together, so every activation is a matrix of n rows. Other families are the same with a step more: biases (Qwen2), a
// norm of each head (Qwen3), heads that turn in part (Phi-4) and layers that do not turn (SmolLM3) or do not slide.
//
// Threads. read_chunk opens the parallel region of a step, which is a token, or one layer of a prompt's chunk: in
// there every thread of the team runs the same lines, run_layer_by_team and what it calls, side by side. A function
// whose name ends in _by_team is called by the whole team together, with the same arguments: inside, each thread takes
// its share of the rows, heads or pairs (team_share, or team_next_task where pieces differ in size), and writes
// nothing that another one writes. Before it returns it waits for the others (team_wait), so that what a function has
// made can be read by all in the next line. What one thread does for all stands behind `team->number == 0`. All other
// functions belong to the thread that calls them. session_logits opens a region of its own, for one product. How many
// threads a step gets, pace.h says; reads too small to be worth a team run on the caller alone.
#include "transformer.h"

#include <stdlib.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "matmul.h"
#include "pace.h"
#include "positions.h"

enum { WORTH_A_TEAM = 1 << 20 };  // reads with fewer multiplications are done before other threads have woken

struct Session {
    const Model *model;
    SessionConfig config;
    int position;  // positions read so far
    int n_kept;    // rows of x that session_logits can use
    int bad_row;   // first row of a chunk that is not finite
    int layer;     // the last layer that a chunk went through, -1: none
    TeamShared team;
    Pace decoding, reading;  // a token at a time, and prompts

    // Activations of a chunk.
    float *x;       // (chunk, dim) the residual stream
    float *q;       // (chunk, n_heads * head_dim)
    float *k, *v;   // (chunk, n_kv_heads * head_dim)
    float *mixed;   // (chunk, n_heads * head_dim) attention's output
    float *hidden;  // (chunk, hidden_dim) the feed-forward layer
    float *logits;  // (LOGIT_ROWS, vocab_size)

    Positions positions;  // what turns queries and keys

    int watched_layer, watched_head;  // whose scores somebody wants
    float *watched;                   // NULL: nobody

    KvCache cache;
    uint64_t cache_bytes;
    AttentionScratch *attention;
    Workspace *workspace;
    Arena arena;  // where all these arrays lie
};

static void rotate_and_store_by_team(const Team *team, Session *s, int index, int n, int first);
static AttentionView view_of(const Session *s, const Layer *layer);
static void check_finite_by_team(const Team *team, Session *s, int first, int n);
static void watch_by_team(const Team *team, Session *s, int n);

// ---- forward --------------------------------------------------------------------------------------------------------

// One layer for the n rows of the chunk. Keys and values are made for all rows; the rest only for rows [first, n),
// which are all but in the last layer, where only those whose logits are wanted matter.
static void run_layer_by_team(const Team *team, Session *s, int index, int n, int first) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    int64_t dim = m->dim, heads = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    float *x = s->x + first * dim;

    // qkv: k, v (n, n_kv_heads * head_dim) and q (n, n_heads * head_dim) = wk, wv, wq . norm(x), plus biases
    const Product qkv[] = {{.matrix = &layer->wk, .bias = layer->bk, .out = s->k, .stride = kv},
                           {.matrix = &layer->wv, .bias = layer->bv, .out = s->v, .stride = kv},
                           {.matrix = &layer->wq, .bias = layer->bq, .out = s->q, .stride = heads}};
    matmul_by_team(team, qkv, first < n ? 3 : 2, &(Input){s->x, n, layer->attention_norm, (float)m->norm_eps},
                   s->workspace);

    // rotate and store: q and k, each head normed first, by their positions' angles; k and v into the cache
    rotate_and_store_by_team(team, s, index, n, first);
    if (first >= n) return;
    if (s->watched && index == s->watched_layer) watch_by_team(team, s, n);

    // attend: mixed (n - first, n_heads * head_dim) = softmax(q k / sqrt(head_dim)) v over all positions so far
    const Queries queries = {s->q + first * heads, s->position + first, n - first, s->mixed};
    const AttentionView view = view_of(s, layer);
    attention_by_team(team, &s->cache, index, &view, &queries, s->attention);

    // output: x (n - first, dim) += wo . mixed
    const Product output = {.matrix = &layer->wo, .bias = layer->bo, .out = x, .stride = dim, .add = true};
    matmul_by_team(team, &output, 1, &(Input){.x = s->mixed, .n = n - first}, s->workspace);

    // feed-forward: hidden (n - first, hidden_dim) = silu(w1 . norm(x)) * (w3 . norm(x)); x += w2 . hidden
    const Product gated = {.matrix = &layer->w3, .gate = &layer->w1, .out = s->hidden, .stride = m->hidden_dim};
    const Product down = {.matrix = &layer->w2, .out = x, .stride = dim, .add = true};
    matmul_by_team(team, &gated, 1, &(Input){x, n - first, layer->ffn_norm, (float)m->norm_eps}, s->workspace);
    matmul_by_team(team, &down, 1, &(Input){.x = s->hidden, .n = n - first}, s->workspace);
}

// The layers [from, to) for a chunk of n rows, of which the last one needs n_kept.
static void run_layers_by_team(const Team *team, Session *s, int from, int to, int n, int n_kept) {
    for (int l = from; l < to && s->bad_row == n; l++) {
        int first = l == s->model->config.n_layers - 1 ? n - n_kept : 0;
        run_layer_by_team(team, s, l, n, first);
        check_finite_by_team(team, s, first, n);
        if (team->number == 0) s->layer = l;
    }
}

// One chunk; the last n_kept rows end up at the front of s->x. Weights that are not numbers, or sums that left
// float32's range, end the run where they first show.
static bool read_chunk(Session *s, const int32_t *tokens, int n, int length, int n_kept, Error *err) {
    const ModelConfig *m = &s->model->config;
    const int64_t dim = m->dim, work = n * (m->hidden_dim * dim + (s->position + n) * dim / 2);  // of a layer, about
    const bool is_worth_it = work * m->n_layers >= WORTH_A_TEAM;
    const int stretch = n == 1 ? m->n_layers : 1;
    Pace *pace = n == 1 ? &s->decoding : &s->reading;
    for (int t = 0; t < n; t++) matrix_row(&s->model->embedding, tokens[t], 0, dim, s->x + t * dim);
    s->bad_row = n;
    s->layer = -1;
    for (int l = 0; l < m->n_layers && s->bad_row == n; l += stretch) {
        int threads = is_worth_it ? pace_threads(pace) : 1;
        double start = now_seconds();
        (void)threads;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(threads)
        {
            Team team = team_join(&s->team);
            if (l == 0) check_finite_by_team(&team, s, 0, n);
            if (l == 0) positions_add_by_team(&team, &s->positions, s->x, s->position, n);
            if (l == 0) positions_prepare_by_team(&team, &s->positions, s->position, n, length);
            run_layers_by_team(&team, s, l, l + stretch, n, n_kept);
        }
        const bool is_whole = stretch > 1 || l < m->n_layers - 1;  // the last layer of a prompt makes few rows only
        if (is_worth_it && is_whole)
            pace_step(pace, (double)(work * stretch), now_seconds() - start, processor_seconds);
    }
    if (s->bad_row < n && s->layer < 0)
        return fail(err, "the embedding of the token at position %d holds NaN or infinity", s->position + s->bad_row);
    if (s->bad_row < n)
        return fail(err, "NaN or infinity came out of layer %d at position %d: the weights hold it, or lead to it",
                    s->layer, s->position + s->bad_row);
    memmove(s->x, s->x + (n - n_kept) * dim, (size_t)(n_kept * dim) * sizeof *s->x);
    s->n_kept = n_kept;
    s->position += n;
    return true;
}

bool session_read(Session *s, const int32_t *tokens, int n, int length, int n_logits, Error *err) {
    int vocab_size = s->model->config.vocab_size, context = s->config.context, chunk = s->config.chunk;
    if (n > context - s->position)
        return fail(err, "%d positions do not fit behind %d in a context of %d", n, s->position, context);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab_size)
            return fail(err, "token %d is not in the vocabulary of %d", (int)tokens[i], vocab_size);
    for (int done = 0, count; done < n; done += count) {
        count = n - done < chunk ? n - done : chunk;
        int wanted = n_logits - (n - done - count);  // rows of this chunk that are among the last n_logits
        wanted = wanted < 0 ? 0 : wanted > count ? count : wanted;
        if (!read_chunk(s, tokens + done, count, length, wanted, err)) return false;
    }
    return true;
}

float *session_logits(Session *s, int row, int n_rows, Error *err) {
    const ModelConfig *m = &s->model->config;
    const Product product = {.matrix = &s->model->classifier, .out = s->logits, .stride = m->vocab_size};
    const Input input = {s->x + row * m->dim, n_rows, s->model->final_norm, (float)m->norm_eps};
    const bool is_worth_it = n_rows * m->dim * m->vocab_size >= WORTH_A_TEAM;
    const int threads = !is_worth_it ? 1 : n_rows == 1 ? s->decoding.size : s->reading.size;
    (void)threads;
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&s->team);
        matmul_by_team(&team, &product, 1, &input, s->workspace);
    }
    for (int i = 0; i < n_rows; i++) {
        if (all_finite(s->logits + (int64_t)i * m->vocab_size, m->vocab_size)) continue;
        fail(err,
             "NaN or infinity among the logits at position %d: the final norm or the classifier holds it, or leads to "
             "it",
             s->position - s->n_kept + row + i);
        return NULL;
    }
    return s->logits;
}

// The first row of [first, n) that holds what is no number goes to s->bad_row.
static void check_finite_by_team(const Team *team, Session *s, int first, int n) {
    int begin, end;
    team_share(team, n - first, &begin, &end);
    for (int t = first + begin; t < first + end; t++)
        if (!all_finite(s->x + t * s->model->config.dim, s->model->config.dim)) {
#pragma omp critical
            if (t < s->bad_row) s->bad_row = t;
        }
    team_wait(team);
}

// ---- rope -----------------------------------------------------------------------------------------------------------

// n_heads heads of a row: each normed, if there are weights for it, then turned by the row's angles in a table (chunk,
// n_pairs), if there is one.
static void rotate_heads(const Session *s, float *x, int row, int n_heads, const float *norm, const float *cosines,
                         const float *sines) {
    const ModelConfig *m = &s->model->config;
    int pairs = s->positions.view.n_pairs, at = row * pairs;
    for (int h = 0; h < n_heads; h++, x += m->head_dim) {
        if (norm) rmsnorm(x, x, norm, m->head_dim, (float)m->norm_eps);
        if (cosines) rope_rotate(x, pairs, cosines + at, sines + at);
    }
}

// Rotates k, unless it is cached un-rotated, and the queries of rows [first, n); stores k and v. A piece of work is one
// kv head in one block of the cache, with the query heads that share it.
static void rotate_and_store_by_team(const Team *team, Session *s, int index, int n, int first) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    const Positions *p = &s->positions;
    const float *turn = layer->without_rope ? NULL : p->cosines, *turn_keys = turn ? p->key_cosines : NULL;
    int64_t d = m->head_dim, kv = m->n_kv_heads * d, heads = m->n_heads * d;
    int group = m->n_heads / m->n_kv_heads, first_block = s->position / KV_BLOCK, begin, end;
    int n_blocks = (s->position + n - 1) / KV_BLOCK - first_block + 1;
    team_share(team, m->n_kv_heads * n_blocks, &begin, &end);
    for (int i = begin; i < end; i++) {
        int h = i / n_blocks, block_start = (first_block + i % n_blocks) * KV_BLOCK - s->position;
        int stop = block_start + KV_BLOCK < n ? block_start + KV_BLOCK : n;
        for (int t = block_start > 0 ? block_start : 0; t < stop; t++) {
            float *k = s->k + t * kv + h * d, *v = s->v + t * kv + h * d;
            rotate_heads(s, k, t, 1, layer->k_norm, turn_keys, p->key_sines);
            kv_cache_write(&s->cache, index, h, s->position + t, k, v);
            if (t >= first) rotate_heads(s, s->q + t * heads + h * group * d, t, group, layer->q_norm, turn, p->sines);
        }
    }
    team_wait(team);
}

// What one layer's attention sees: of a window unless the layer sees all, and turned keys unless it does not turn.
static AttentionView view_of(const Session *s, const Layer *layer) {
    AttentionView view = s->positions.view;
    if (s->positions.terms) view.terms = &s->positions.terms[layer - s->model->layers];
    if (layer->sees_all && !s->config.all_slide) view.window = 0;
    if (layer->without_rope) {
        view.near_from = NULL;
        view.angles[NEAR].block_cosines = NULL;
    }
    return view;
}

// The scores that somebody wants, of the chunk's last query.
static void watch_by_team(const Team *team, Session *s, int n) {
    const ModelConfig *m = &s->model->config;
    const Queries last = {s->q + (n - 1) * m->n_heads * m->head_dim, s->position + n - 1, 1, s->mixed};
    const AttentionView view = view_of(s, &s->model->layers[s->watched_layer]);
    if (team->number == 0)
        attention_scores(&s->cache, s->watched_layer, s->watched_head, &view, &last, s->attention, s->watched);
    team_wait(team);
}

void session_watch(Session *s, int layer, int head, float *scores) {
    s->watched_layer = layer;
    s->watched_head = head;
    s->watched = scores;
}

// ---- sessions -------------------------------------------------------------------------------------------------------

// All arrays of a session, counted or handed out (see Arena).
static void lay_out(Session *s, Arena *arena) {
    const SessionConfig *c = &s->config;
    const ModelConfig *m = &s->model->config;
    int64_t chunk = c->chunk, heads = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    int64_t widest = m->dim > m->hidden_dim ? m->dim : m->hidden_dim;
    int threads = thread_count();
    s->cache = (KvCache){c->kv, m->n_layers, m->n_kv_heads, m->head_dim, .positions = c->context};
    kv_cache_lay_out(&s->cache, arena);
    s->cache_bytes = arena->used;
    s->x = arena_take(arena, chunk * m->dim, sizeof(float));
    s->q = arena_take(arena, chunk * heads, sizeof(float));
    s->k = arena_take(arena, chunk * kv, sizeof(float));
    s->v = arena_take(arena, chunk * kv, sizeof(float));
    s->mixed = arena_take(arena, chunk * heads, sizeof(float));
    s->hidden = arena_take(arena, chunk * m->hidden_dim, sizeof(float));
    s->logits = arena_take(arena, (chunk < LOGIT_ROWS ? chunk : LOGIT_ROWS) * m->vocab_size, sizeof(float));
    bool follows_length = rope_follows_length(&c->rope, c->context) && !c->stale_keys;
    positions_lay_out(&s->positions, arena, s->model, &c->rope, follows_length, c->chunk, s->cache.n_blocks);
    s->positions.view.n_heads = m->n_heads;
    s->positions.view.window = c->window;
    s->positions.view.sinks = c->sinks;
    s->workspace = workspace_lay_out(arena, chunk, widest > heads ? widest : heads, threads, c->activations);
    s->attention = attention_lay_out(arena, &s->cache, m->n_heads, c->chunk, threads);
}

Session *session_new(const Model *model, const SessionConfig *config, Error *err) {
    Session *s = alloc_array(1, sizeof *s, "a session", err);
    if (!s) return NULL;
    if (model->learned && config->context > model->config.encoding_rows) {
        fail(err, "the model has learned %d positions, and knows nothing of more (found a context of %d)",
             model->config.encoding_rows, config->context);
        free(s);
        return NULL;
    }
    s->model = model;
    s->config = *config;
    if (s->config.chunk == 0) s->config.chunk = PREFILL_CHUNK;
    if (s->config.chunk > config->context) s->config.chunk = config->context;
    s->decoding.size = s->reading.size = config->threads ? config->threads : unhindered_threads("");
    if (!config->threads) s->decoding.most = s->reading.most = thread_count();
    lay_out(s, &s->arena);
    Error reason;
    size_t available = available_memory("");
    double needed = (double)s->arena.used / 1e6;
    // The system promises more memory than it has and kills who uses it, so the question is asked here.
    if (s->arena.used > available) {
        fail(err,
             "a context of %d positions needs %.1f MB of memory (%.1f MB of it key-value cache), and %.1f MB are "
             "available",
             config->context, needed, (double)s->cache_bytes / 1e6, (double)available / 1e6);
    } else if (arena_open(&s->arena, "a session", &reason)) {
        lay_out(s, &s->arena);
        return s;
    } else {
        fail(err, "a context of %d positions needs %.1f MB of memory: %.300s", config->context, needed, reason.text);
    }
    free(s);
    return NULL;
}

size_t session_bytes(const Session *s, size_t *cache_bytes) {
    *cache_bytes = (size_t)s->cache_bytes;
    return (size_t)s->arena.used;
}

void session_free(Session *s) {
    if (s) arena_close(&s->arena);
    free(s);
}

void session_rewind(Session *s, int position) {
    if (position < s->position) s->position = position;
    s->n_kept = 0;
}

int session_position(const Session *s) { return s->position; }

int session_vocab_size(const Session *s) { return s->model->config.vocab_size; }
