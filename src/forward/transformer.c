// Llama's forward pass, straight down: embedding; for each layer attention and feed-forward, each behind an RMS norm
// and added to the residual stream; a last norm and the classifier. A chunk of n positions goes through a layer
// together, so every activation is a matrix of n rows.
//
// Threads. read_chunk opens the one parallel region of a step: from there on every thread of the team runs the same
// lines, run_layer_by_team and what it calls, side by side. A function whose name ends in _by_team is called by the
// whole team together, with the same arguments: inside, each thread takes its share of the rows, heads or pairs
// (team_share, or team_next_task where pieces differ in size), and writes nothing that another one writes. Before it
// returns it waits for the others (team_wait), so that what a function has made can be read by all in the next line.
// What one thread does for all stands behind `team->number == 0`. All other functions belong to the thread that calls
// them. session_logits opens a region of its own, for one product. Reads too small to be worth a team run on the caller
// alone.
#include "transformer.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "matmul.h"

enum { WORTH_A_TEAM = 1 << 20 };  // reads with fewer multiplications are done before other threads have woken

struct Session {
    const Model *model;
    SessionConfig config;
    int position;  // positions read so far
    int n_kept;    // rows of x that session_logits can use
    int bad_row;   // first row of a chunk that is not finite
    TeamShared team;

    // Activations of a chunk.
    float *x;       // (chunk, dim) the residual stream
    float *q;       // (chunk, n_heads * head_dim)
    float *k, *v;   // (chunk, n_kv_heads * head_dim)
    float *mixed;   // (chunk, n_heads * head_dim) attention's output
    float *hidden;  // (chunk, hidden_dim) the feed-forward layer
    float *logits;  // (LOGIT_ROWS, vocab_size)

    // Rotation. Keys are cached rotated, unless the frequencies can change: then un-rotated, with tables for the past.
    bool follows_length;
    RopeFreqs freqs, block_freqs;  // per position, and per block of the cache
    float *cosines, *sines;        // (chunk, head_dim / 2)
    AttentionView view;            // its tables for all keys, if frequencies can change
    int table_blocks;              // blocks of them that are filled in

    KvCache cache;
    uint64_t cache_bytes;
    AttentionScratch *attention;
    Workspace *workspace;
    Arena arena;  // where all these arrays lie
};

static void prepare_rope_by_team(const Team *team, Session *s, int n, int length);
static void rotate_and_store_by_team(const Team *team, Session *s, int layer, int n, int first);
static void check_finite_by_team(const Team *team, Session *s, int first, int n);

// ---- forward --------------------------------------------------------------------------------------------------------

// One layer for the n rows of the chunk. Keys and values are made for all rows; the rest only for rows [first, n),
// which are all but in the last layer, where only those whose logits are wanted matter.
static void run_layer_by_team(const Team *team, Session *s, int index, int n, int first) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    int64_t dim = m->dim, heads = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    float *x = s->x + first * dim;

    // qkv: k, v (n, n_kv_heads * head_dim) and q (n, n_heads * head_dim) = wk, wv, wq . norm(x)
    const Product qkv[] = {{.matrix = &layer->wk, .out = s->k, .stride = kv},
                           {.matrix = &layer->wv, .out = s->v, .stride = kv},
                           {.matrix = &layer->wq, .out = s->q, .stride = heads}};
    matmul_by_team(team, qkv, first < n ? 3 : 2, &(Input){s->x, n, layer->attention_norm, (float)m->norm_eps},
                   s->workspace);

    // rotate and store: q and k by their positions' angles; k and v into the cache
    rotate_and_store_by_team(team, s, index, n, first);
    if (first >= n) return;

    // attend: mixed (n - first, n_heads * head_dim) = softmax(q k / sqrt(head_dim)) v over all positions so far
    const Queries queries = {s->q + first * heads, s->position + first, n - first, s->mixed};
    attention_by_team(team, &s->cache, index, &s->view, &queries, s->attention);

    // output: x (n - first, dim) += wo . mixed
    const Product output = {.matrix = &layer->wo, .out = x, .stride = dim, .add = true};
    matmul_by_team(team, &output, 1, &(Input){.x = s->mixed, .n = n - first}, s->workspace);

    // feed-forward: hidden (n - first, hidden_dim) = silu(w1 . norm(x)) * (w3 . norm(x)); x += w2 . hidden
    const Product gated = {.matrix = &layer->w3, .gate = &layer->w1, .out = s->hidden, .stride = m->hidden_dim};
    const Product down = {.matrix = &layer->w2, .out = x, .stride = dim, .add = true};
    matmul_by_team(team, &gated, 1, &(Input){x, n - first, layer->ffn_norm, (float)m->norm_eps}, s->workspace);
    matmul_by_team(team, &down, 1, &(Input){.x = s->hidden, .n = n - first}, s->workspace);
}

// One chunk; the last n_kept rows end up at the front of s->x. Weights that are not numbers, or sums that left
// float32's range, end the run where they first show.
static bool read_chunk(Session *s, const int32_t *tokens, int n, int length, int n_kept, Error *err) {
    const ModelConfig *m = &s->model->config;
    int64_t dim = m->dim, work = n * (m->n_layers * m->hidden_dim * dim + (s->position + n) * dim);
    int layer = -1, threads = work < WORTH_A_TEAM ? 1 : thread_count();
    for (int t = 0; t < n; t++) matrix_row(&s->model->embedding, tokens[t], 0, dim, s->x + t * dim);
    s->bad_row = n;
    (void)threads;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&s->team);
        check_finite_by_team(&team, s, 0, n);
        prepare_rope_by_team(&team, s, n, length);
        for (int l = 0; l < m->n_layers && s->bad_row == n; l++) {
            int first = l == m->n_layers - 1 ? n - n_kept : 0;
            run_layer_by_team(&team, s, l, n, first);
            check_finite_by_team(&team, s, first, n);
            if (team.number == 0) layer = l;
        }
    }
    if (s->bad_row < n && layer < 0)
        return fail(err, "the embedding of the token at position %d holds NaN or infinity", s->position + s->bad_row);
    if (s->bad_row < n)
        return fail(err, "NaN or infinity came out of layer %d at position %d: the weights hold it, or lead to it",
                    layer, s->position + s->bad_row);
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
#pragma omp parallel num_threads(thread_count()) if (n_rows * m->dim * m->vocab_size >= WORTH_A_TEAM)
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

// The frequencies of a text of `length` positions. Tables for the past that were made with others are void.
static void set_frequencies(Session *s, int length) {
    RopeFreqs freqs;
    rope_frequencies(&s->config.rope, length, &freqs);
    bool same = freqs.attention_factor == s->freqs.attention_factor;
    for (int i = 0; i < freqs.n_pairs; i++) same = same && freqs.inv_freq[i] == s->freqs.inv_freq[i];
    if (same) return;
    s->freqs = s->block_freqs = freqs;
    s->block_freqs.attention_factor = 1;
    for (int i = 0; i < freqs.n_pairs; i++) s->block_freqs.inv_freq[i] *= KV_BLOCK;
    s->table_blocks = 0;
}

// Makes the tables of this read: for the chunk's own positions, and when the frequencies can change for all keys so
// far.
static void prepare_rope_by_team(const Team *team, Session *s, int n, int length) {
    int pairs = (int)s->model->config.head_dim / 2, blocks = (s->position + n - 1) / KV_BLOCK + 1, first, end;
    if (team->number == 0) set_frequencies(s, length);
    team_wait(team);
    bool fill = s->follows_length && blocks > s->table_blocks;
    team_share(team, pairs, &first, &end);
    for (int i = first; i < end; i++) {
        size_t step = (size_t)i * KV_BLOCK, stride = (size_t)pairs;
        rope_table(&s->freqs, i, s->position, n, s->cosines + i, s->sines + i, stride);
        if (!fill) continue;
        rope_table(&s->freqs, i, 0, KV_BLOCK, s->view.step_cosines + step, s->view.step_sines + step, 1);
        rope_table(&s->block_freqs, i, 0, blocks, s->view.block_cosines + i, s->view.block_sines + i, stride);
    }
    team_wait(team);
    if (team->number == 0 && fill) s->table_blocks = blocks;
}

// n_heads heads of a row's position.
static void rotate_heads(const Session *s, float *x, int row, int n_heads) {
    int pairs = (int)s->model->config.head_dim / 2, at = row * pairs;
    for (int h = 0; h < n_heads; h++) rope_rotate(x + 2 * h * pairs, pairs, s->cosines + at, s->sines + at);
}

// Rotates k, unless it is cached un-rotated, and the queries of rows [first, n); stores k and v. A piece of work is one
// kv head in one block of the cache, with the query heads that share it.
static void rotate_and_store_by_team(const Team *team, Session *s, int layer, int n, int first) {
    const ModelConfig *m = &s->model->config;
    int64_t d = m->head_dim, kv = m->n_kv_heads * d, heads = m->n_heads * d;
    int group = m->n_heads / m->n_kv_heads, first_block = s->position / KV_BLOCK, begin, end;
    int n_blocks = (s->position + n - 1) / KV_BLOCK - first_block + 1;
    team_share(team, m->n_kv_heads * n_blocks, &begin, &end);
    for (int i = begin; i < end; i++) {
        int h = i / n_blocks, block_start = (first_block + i % n_blocks) * KV_BLOCK - s->position;
        int stop = block_start + KV_BLOCK < n ? block_start + KV_BLOCK : n;
        for (int t = block_start > 0 ? block_start : 0; t < stop; t++) {
            float *k = s->k + t * kv + h * d, *v = s->v + t * kv + h * d;
            if (!s->follows_length) rotate_heads(s, k, t, 1);
            kv_cache_write(&s->cache, layer, h, s->position + t, k, v);
            if (t >= first) rotate_heads(s, s->q + t * heads + h * group * d, t, group);
        }
    }
    team_wait(team);
}

// ---- sessions -------------------------------------------------------------------------------------------------------

// All arrays of a session, counted or handed out (see Arena).
static void lay_out(Session *s, Arena *arena) {
    const SessionConfig *c = &s->config;
    const ModelConfig *m = &s->model->config;
    int64_t chunk = c->chunk, heads = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    int64_t pairs = m->head_dim / 2, widest = m->dim > m->hidden_dim ? m->dim : m->hidden_dim;
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
    s->cosines = arena_take(arena, chunk * pairs, sizeof(float));
    s->sines = arena_take(arena, chunk * pairs, sizeof(float));
    s->view = (AttentionView){.n_heads = m->n_heads, .window = c->window, .sinks = c->sinks};
    if (s->follows_length) {
        s->view.step_cosines = arena_take(arena, pairs * KV_BLOCK, sizeof(float));
        s->view.step_sines = arena_take(arena, pairs * KV_BLOCK, sizeof(float));
        s->view.block_cosines = arena_take(arena, s->cache.n_blocks * pairs, sizeof(float));
        s->view.block_sines = arena_take(arena, s->cache.n_blocks * pairs, sizeof(float));
    }
    s->workspace = workspace_lay_out(arena, chunk, widest > heads ? widest : heads, threads);
    s->attention = attention_lay_out(arena, &s->cache, m->n_heads, c->chunk, threads);
}

Session *session_new(const Model *model, const SessionConfig *config, Error *err) {
    Session *s = alloc_array(1, sizeof *s, "a session", err);
    if (!s) return NULL;
    s->model = model;
    s->config = *config;
    s->follows_length = rope_follows_length(&config->rope, config->context);
    if (s->config.chunk == 0) s->config.chunk = PREFILL_CHUNK;
    if (s->config.chunk > config->context) s->config.chunk = config->context;
    lay_out(s, &s->arena);
    Error reason;
    size_t available = available_memory();
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
