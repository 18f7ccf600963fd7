// Llama's forward pass, straight down: embedding; for each layer attention and feed-forward, each behind an RMS norm
// and added to the residual stream; a last norm and the classifier. A chunk of n positions goes through a layer
// together, so every activation is a matrix of n rows. Other families are the same with a step more: biases (Qwen2), a
// norm of each head (Qwen3), heads that turn in part (Phi-4) and layers that do not turn (SmolLM3) or do not slide.
//
// Each step stands for one of plain.c, where it is a plain loop over one position:
//     here                        in plain_forward
//     rmsnorm_of                  rmsnorm; taken by the product itself on its way in
//     matmul                      matmul; those of one input are computed together
//     rotate_and_store_by_team    norm_heads, and the turns of fill_turns, which rotate queries and keys beforehand
//     attention_by_team           attend: scores, softmax, mix
//     add_matmul                  matmul, and x += it
//     matmul_swiglu               the two matmuls of the feed-forward layer and silu
//     session_logits              plain_logits
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

enum { WORTH_A_TEAM = 1 << 20 };  // reads with fewer multiplications are done before other threads have woken

struct Session {
    const Model *model;
    SessionConfig config;
    int position;  // positions read so far
    int n_logits;  // rows of x that session_logits can use
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

    Angles angles;        // what turns queries and keys,
    EncodingTerms terms;  // or, without RoPE, what is added to scores

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

// ---- products -------------------------------------------------------------------------------------------------------

// Products of one input are noted line by line and computed together by compute_by_team: the input is normed, and
// rounded where weights are q8 or q4, once for all, and the team waits once.
typedef struct {
    Input input;
    Product products[3];
    int n;
} Products;

// Of n rows x (n, cols) as they are, and of their RMS norm.
static Products rows_of(const float *x, int n) { return (Products){.input = {.x = x, .n = n}}; }
static Products rmsnorm_of(const float *x, int n, const float *weight, const ModelConfig *m) {
    return (Products){.input = {x, n, weight, (float)m->norm_eps}};
}

// out (n, rows of w) = w . input + bias
static void matmul(Products *p, float *out, const Matrix *w, const float *bias) {
    p->products[p->n++] = (Product){.matrix = w, .bias = bias, .out = out, .stride = w->rows};
}

// out += w . input + bias
static void add_matmul(Products *p, float *out, const Matrix *w, const float *bias) {
    p->products[p->n++] = (Product){.matrix = w, .bias = bias, .out = out, .stride = w->rows, .add = true};
}

// out = silu(gate . input) * (up . input)
static void matmul_swiglu(Products *p, float *out, const Matrix *gate, const Matrix *up) {
    p->products[p->n++] = (Product){.matrix = up, .gate = gate, .out = out, .stride = up->rows};
}

static void compute_by_team(const Team *team, const Products *p, Session *s) {
    matmul_by_team(team, p->products, p->n, &p->input, s->workspace);
}

// ---- forward --------------------------------------------------------------------------------------------------------

// One layer for the n rows of the chunk. All rows have keys and values. The rest is for the last n_wanted rows: all of
// them but in the last layer, where only those matter whose logits are wanted.
static void run_layer_by_team(const Team *team, Session *s, int index, int n, int n_wanted) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    const int skipped = n - n_wanted;
    float *x = s->x + skipped * m->dim;  // (n_wanted, dim)

    // q (n, n_heads * head_dim), k and v (n, n_kv_heads * head_dim) = wq, wk, wv . rmsnorm(x) + bias
    Products normed = rmsnorm_of(s->x, n, layer->attention_norm, m);
    matmul(&normed, s->k, &layer->wk, layer->bk);
    matmul(&normed, s->v, &layer->wv, layer->bv);
    if (n_wanted > 0) matmul(&normed, s->q, &layer->wq, layer->bq);
    compute_by_team(team, &normed, s);

    // rotate q and k by their positions' angles, each head normed first; k and v go into the cache
    rotate_and_store_by_team(team, s, index, n, skipped);
    if (n_wanted == 0) return;
    if (s->watched && index == s->watched_layer) watch_by_team(team, s, n);

    // mixed (n_wanted, n_heads * head_dim) = softmax(q k / sqrt(head_dim)) v over all positions so far
    const Queries queries = {s->q + skipped * layer->wq.rows, s->position + skipped, n_wanted, s->mixed};
    const AttentionView view = view_of(s, layer);
    attention_by_team(team, &s->cache, index, &view, &queries, s->attention);

    // x += wo . mixed
    Products mixed = rows_of(s->mixed, n_wanted);
    add_matmul(&mixed, x, &layer->wo, layer->bo);
    compute_by_team(team, &mixed, s);

    // hidden (n_wanted, hidden_dim) = silu(w1 . rmsnorm(x)) * (w3 . rmsnorm(x))
    normed = rmsnorm_of(x, n_wanted, layer->ffn_norm, m);
    matmul_swiglu(&normed, s->hidden, &layer->w1, &layer->w3);
    compute_by_team(team, &normed, s);

    // x += w2 . hidden
    Products hidden = rows_of(s->hidden, n_wanted);
    add_matmul(&hidden, x, &layer->w2, NULL);
    compute_by_team(team, &hidden, s);
}

// The layers [from, to) for a chunk of n rows, of which the logits of the last n_logits are wanted.
static void run_layers_by_team(const Team *team, Session *s, int from, int to, int n, int n_logits) {
    for (int l = from; l < to && s->bad_row == n; l++) {
        const int n_wanted = l == s->model->config.n_layers - 1 ? n_logits : n;
        run_layer_by_team(team, s, l, n, n_wanted);
        check_finite_by_team(team, s, n - n_wanted, n);
        if (team->number == 0) s->layer = l;
    }
}

// What a chunk of n rows needs before its first layer: embeddings with what the encoding adds, and tables.
static void begin_chunk_by_team(const Team *team, Session *s, int n, int length) {
    check_finite_by_team(team, s, 0, n);
    if (s->model->config.encoding == ENCODING_ROPE) {
        angles_prepare_by_team(team, &s->angles, s->position, n, length);
        return;
    }
    encoding_add_by_team(team, s->model, s->x, s->position, n);
    encoding_prepare_by_team(team, &s->terms);
}

// One chunk; the last n_logits rows end up at the front of s->x. Weights that are not numbers, or sums that left
// float32's range, end the run where they first show.
static bool read_chunk(Session *s, const int32_t *tokens, int n, int length, int n_logits, Error *err) {
    const ModelConfig *m = &s->model->config;
    const int64_t dim = m->dim, work = n * (m->hidden_dim * dim + (s->position + n) * dim / 2);  // of a layer, about
    const bool is_worth_it = work * m->n_layers >= WORTH_A_TEAM;
    const int layers = n == 1 ? m->n_layers : 1;  // of one parallel region
    Pace *pace = n == 1 ? &s->decoding : &s->reading;
    for (int t = 0; t < n; t++) matrix_row(&s->model->embedding, tokens[t], 0, dim, s->x + t * dim);
    s->bad_row = n;
    s->layer = -1;
    for (int l = 0; l < m->n_layers && s->bad_row == n; l += layers) {
        int threads = is_worth_it ? pace_threads(pace) : 1;
        double start = now_seconds();
        (void)threads;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(threads)
        {
            Team team = team_join(&s->team);
            if (l == 0) begin_chunk_by_team(&team, s, n, length);
            run_layers_by_team(&team, s, l, l + layers, n, n_logits);
        }
        const bool is_whole = layers > 1 || l < m->n_layers - 1;  // the last layer of a prompt makes few rows only
        if (is_worth_it && is_whole) pace_step(pace, (double)(work * layers), now_seconds() - start, processor_seconds);
    }
    if (s->bad_row < n && s->layer < 0)
        return fail(err, "the embedding of the token at position %d holds NaN or infinity", s->position + s->bad_row);
    if (s->bad_row < n)
        return fail(err, "NaN or infinity came out of layer %d at position %d: the weights hold it, or lead to it",
                    s->layer, s->position + s->bad_row);
    memmove(s->x, s->x + (n - n_logits) * dim, (size_t)(n_logits * dim) * sizeof *s->x);
    s->n_logits = n_logits;
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
    Products normed = rmsnorm_of(s->x + row * m->dim, n_rows, s->model->final_norm, m);
    const bool is_worth_it = n_rows * m->dim * m->vocab_size >= WORTH_A_TEAM;
    const int threads = !is_worth_it ? 1 : n_rows == 1 ? s->decoding.size : s->reading.size;
    (void)threads;
    matmul(&normed, s->logits, &s->model->classifier, NULL);
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&s->team);
        compute_by_team(&team, &normed, s);
    }
    for (int i = 0; i < n_rows; i++) {
        if (all_finite(s->logits + (int64_t)i * m->vocab_size, m->vocab_size)) continue;
        fail(err, "NaN or infinity among the logits at position %d: the final norm or the classifier holds or makes it",
             s->position - s->n_logits + row + i);
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

// n_heads heads of a row: each normed, if there are weights for it, then turned by the row's angles, if there are any.
static void rotate_heads(const Session *s, float *x, int row, int n_heads, const float *norm, const Turns *turns) {
    const ModelConfig *m = &s->model->config;
    const int pairs = s->angles.n_pairs, at = row * pairs;
    for (int h = 0; h < n_heads; h++, x += m->head_dim) {
        if (norm) rmsnorm(x, x, norm, m->head_dim, (float)m->norm_eps);
        if (turns->cosines) rope_rotate(x, pairs, turns->cosines + at, turns->sines + at);
    }
}

// Norms and rotates the heads of k, and of q but for the first `skipped` rows; stores k and v. The team shares out the
// blocks of the cache, those of each kv head apart: who has one also does the query heads that share the kv head.
static void rotate_and_store_by_team(const Team *team, Session *s, int index, int n, int skipped) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    const Turns none = {NULL, NULL};
    const Turns *turns = layer->without_rope ? &none : &s->angles.queries;
    const Turns *turns_of_keys = layer->without_rope ? &none : &s->angles.keys;
    int64_t d = m->head_dim, kv = m->n_kv_heads * d, heads = m->n_heads * d;
    int group = m->n_heads / m->n_kv_heads, first_block = s->position / KV_BLOCK, begin, end;
    int n_blocks = (s->position + n - 1) / KV_BLOCK - first_block + 1;
    team_share(team, m->n_kv_heads * n_blocks, &begin, &end);
    for (int i = begin; i < end; i++) {
        int h = i / n_blocks, block_start = (first_block + i % n_blocks) * KV_BLOCK - s->position;
        int stop = block_start + KV_BLOCK < n ? block_start + KV_BLOCK : n;
        for (int t = block_start > 0 ? block_start : 0; t < stop; t++) {
            float *k = s->k + t * kv + h * d, *v = s->v + t * kv + h * d, *q = s->q + t * heads + h * group * d;
            rotate_heads(s, k, t, 1, layer->k_norm, turns_of_keys);
            kv_cache_write(&s->cache, index, h, s->position + t, k, v);
            if (t >= skipped) rotate_heads(s, q, t, group, layer->q_norm, turns);
        }
    }
    team_wait(team);
}

// What one layer's attention sees: of a window unless the layer sees all, and turned unless it does not turn.
static AttentionView view_of(const Session *s, const Layer *layer) {
    const RopeConfig *rope = &s->config.rope;
    const bool has_rope = s->model->config.encoding == ENCODING_ROPE;
    AttentionView view = {.n_heads = s->model->config.n_heads, .window = rope->window, .sinks = rope->sinks};
    if (layer->sees_all && !rope->all_slide) view.window = 0;
    if (has_rope) view.angles = &s->angles;
    view.turns = has_rope && !layer->without_rope;
    if (s->terms.layers) view.terms = &s->terms.layers[layer - s->model->layers];
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
    if (m->encoding == ENCODING_ROPE) angles_lay_out(&s->angles, arena, &c->rope, !c->stale_keys, c->context, c->chunk);
    else encoding_lay_out(&s->terms, arena, s->model, s->cache.n_blocks);
    s->workspace = workspace_lay_out(arena, chunk, widest > heads ? widest : heads, threads);
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
        fail(err, "a context of %d positions needs %.1f MB of memory (cache %.1f MB), and %.1f MB are available",
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
    s->n_logits = 0;
}

int session_position(const Session *s) { return s->position; }

int session_vocab_size(const Session *s) { return s->model->config.vocab_size; }
