// Llama's forward pass, straight down: embedding; for each layer attention and feed-forward, each behind an RMS norm and
// added to the residual stream; a last norm and the classifier. A chunk of n positions goes through a layer together, so
// every activation is a matrix of n rows.
#include "transformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"
#include "team.h"

struct Session {
    const Model *model;
    SessionConfig config;
    int position;  // positions read so far
    int n_kept;    // rows of x that session_logits can use
    int bad_row;   // first row of a chunk that is not finite
    bool follows;  // the scale can change, so keys are cached un-rotated
    RopeFreqs freqs;
    double table_scale, table_attention;  // what the keys' table was made for
    bool table_is_long;
    int table_blocks;  // blocks that it holds
    KvCache cache;
    Workspace *workspace;
    AttentionScratch *attention;
    float *x;                                                        // (chunk, dim) residual stream
    float *q;                                                        // (chunk, n_heads * head_dim)
    float *k, *v;                                                    // (chunk, n_kv_heads * head_dim)
    float *mixed;                                                    // (chunk, n_heads * head_dim) attention's output
    float *hidden;                                                   // (chunk, hidden_dim) the feed-forward layer
    float *logits;                                                   // (LOGIT_ROWS, vocab_size)
    float *cosines, *sines;                                          // (chunk, head_dim / 2) of the chunk's positions
    float *step_cosines, *step_sines, *block_cosines, *block_sines;  // of the keys, when `follows`: see AttentionView
};

// ---- memory ---------------------------------------------------------------------------------------------------------

// The arrays of a session and their sizes, in one place for counting and for getting them.
typedef struct {
    float **array;
    size_t count;
    const char *what;
} Room;

enum {
    N_ROOMS = 13,
    WORTH_A_TEAM = 1 << 20,  // reads with fewer multiplications are done before other threads have woken
};

static int chunk_of(const SessionConfig *c) {
    int chunk = c->chunk > 0 ? c->chunk : PREFILL_CHUNK;
    return chunk < c->context ? chunk : c->context;
}

// The context in cache blocks.
static size_t context_blocks(const SessionConfig *c) { return ((size_t)c->context + KV_BLOCK - 1) / KV_BLOCK; }

static void list_rooms(Session *s, const ModelConfig *m, const SessionConfig *c, Room rooms[N_ROOMS]) {
    size_t chunk = (size_t)chunk_of(c), heads = (size_t)m->n_heads * (size_t)m->head_dim,
           kv = (size_t)m->n_kv_heads * (size_t)m->head_dim;
    size_t pairs = (size_t)m->head_dim / 2, logit_rows = chunk < LOGIT_ROWS ? chunk : LOGIT_ROWS;
    size_t turned = rope_follows_length(&c->rope, c->context) ? pairs : 0;  // pairs of keys that are cached un-rotated
    Room all[N_ROOMS] = {
        {&s->x, chunk * (size_t)m->dim, "the residual stream"},
        {&s->q, chunk * heads, "queries"},
        {&s->k, chunk * kv, "keys"},
        {&s->v, chunk * kv, "values"},
        {&s->mixed, chunk * heads, "attention's output"},
        {&s->hidden, chunk * (size_t)m->hidden_dim, "the feed-forward layer"},
        {&s->logits, logit_rows * (size_t)m->vocab_size, "logits"},
        {&s->cosines, chunk * pairs, "the rope table"},
        {&s->sines, chunk * pairs, "the rope table"},
        {&s->step_cosines, turned * KV_BLOCK, "the keys' rope table"},
        {&s->step_sines, turned * KV_BLOCK, "the keys' rope table"},
        {&s->block_cosines, turned * context_blocks(c), "the keys' rope table"},
        {&s->block_sines, turned * context_blocks(c), "the keys' rope table"},
    };
    memcpy(rooms, all, sizeof all);
}

static int widest_input(const ModelConfig *m) {
    int heads = m->n_heads * m->head_dim, most = m->dim > m->hidden_dim ? m->dim : m->hidden_dim;
    return most > heads ? most : heads;
}

size_t session_bytes(const Model *model, const SessionConfig *c, size_t *cache_bytes) {
    const ModelConfig *m = &model->config;
    Session none;
    Room rooms[N_ROOMS];
    list_rooms(&none, m, c, rooms);
    *cache_bytes = kv_cache_bytes(c->kv, m->n_layers, m->n_kv_heads, m->head_dim, c->context);
    size_t total = *cache_bytes;
    if (!add_size(total, workspace_bytes(chunk_of(c), widest_input(m)), &total) ||
        !add_size(total, attention_scratch_bytes(m->n_heads, m->n_kv_heads, m->head_dim, c->context, chunk_of(c)),
                  &total))
        return SIZE_MAX;
    for (int i = 0; i < N_ROOMS; i++)
        if (!add_size(total, rooms[i].count * sizeof(float), &total)) return SIZE_MAX;
    return total;
}

// What the machine can give now without swapping, in bytes; SIZE_MAX when it does not say.
static size_t available_memory(void) {
    size_t kilobytes = 0;
    char line[128];
    FILE *info = fopen("/proc/meminfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) break;
    if (info) fclose(info);
    return kilobytes ? kilobytes * 1024 : SIZE_MAX;
}

Session *session_new(const Model *model, const SessionConfig *config, Error *err) {
    const ModelConfig *m = &model->config;
    size_t cache_bytes, bytes = session_bytes(model, config, &cache_bytes), available = available_memory();
    // The system promises more memory than it has and kills who uses it, so the question is asked here.
    if (bytes > available) {
        fail(err,
             "a context of %d positions needs %.1f MB of memory (%.1f MB of it key-value cache), and %.1f MB are "
             "available",
             config->context, (double)bytes / 1e6, (double)cache_bytes / 1e6, (double)available / 1e6);
        return NULL;
    }
    Session *s = calloc(1, sizeof *s);
    if (!s) {
        fail(err, "no memory for a session");
        return NULL;
    }
    s->model = model;
    s->config = *config;
    s->config.chunk = chunk_of(config);
    s->follows = rope_follows_length(&config->rope, config->context);
    Room rooms[N_ROOMS];
    list_rooms(s, m, config, rooms);
    bool ok = kv_cache_init(&s->cache, config->kv, m->n_layers, m->n_kv_heads, m->head_dim, config->context, err);
    for (int i = 0; ok && i < N_ROOMS; i++)
        ok = (*rooms[i].array = alloc_array(rooms[i].count, sizeof(float), rooms[i].what, err)) != NULL;
    ok = ok && (s->workspace = workspace_new(s->config.chunk, widest_input(m), err));
    ok = ok && (s->attention = attention_scratch_new(&s->cache, m->n_heads, s->config.chunk, err));
    if (ok) return s;
    Error reason = *err;
    fail(err, "a context of %d positions needs %.1f MB of memory: %.300s", config->context, (double)bytes / 1e6,
         reason.text);
    session_free(s);
    return NULL;
}

void session_free(Session *s) {
    if (!s) return;
    Room rooms[N_ROOMS];
    list_rooms(s, &s->model->config, &s->config, rooms);
    for (int i = 0; i < N_ROOMS; i++) free(*rooms[i].array);
    kv_cache_free(&s->cache);
    workspace_free(s->workspace);
    attention_scratch_free(s->attention);
    free(s);
}

void session_rewind(Session *s, int position) {
    if (position < s->position) s->position = position;
    s->n_kept = 0;
}

void session_reset(Session *s) { session_rewind(s, 0); }

int session_position(const Session *s) { return s->position; }

// ---- rope -----------------------------------------------------------------------------------------------------------

// Makes the tables of this read, by a team: for the chunk's own positions, and when the scale can change for all keys so far.
static void prepare_rope(Session *s, int n, int length) {
    size_t pairs = (size_t)s->model->config.head_dim / 2;
    int blocks = (s->position + n - 1) / KV_BLOCK + 1;
#pragma omp single
    {
        rope_frequencies(&s->config.rope, length, &s->freqs);
        bool is_long = length > s->config.rope.train_ctx;
        if (s->freqs.scale != s->table_scale || s->freqs.attention_factor != s->table_attention ||
            is_long != s->table_is_long)
            s->table_blocks = 0;
        s->table_scale = s->freqs.scale;
        s->table_attention = s->freqs.attention_factor;
        s->table_is_long = is_long;
    }
    rope_table(&s->freqs, s->position, n, s->cosines, s->sines, pairs, 1);
    if (!s->follows || blocks <= s->table_blocks) return;
    RopeFreqs of_blocks = s->freqs;
    of_blocks.attention_factor = 1;
    for (int i = 0; i < of_blocks.n_pairs; i++) of_blocks.inv_freq[i] *= KV_BLOCK;
    rope_table(&s->freqs, 0, KV_BLOCK, s->step_cosines, s->step_sines, 1, KV_BLOCK);
    rope_table(&of_blocks, 0, blocks, s->block_cosines, s->block_sines, pairs, 1);
#pragma omp single
    s->table_blocks = blocks;
}

// n_heads heads of a row's position.
static void rotate_heads(const Session *s, float *x, int row, int n_heads) {
    int d = s->model->config.head_dim;
    size_t at = (size_t)row * (size_t)(d / 2);
    for (int h = 0; h < n_heads; h++) rope_rotate(x + (size_t)(h * d), d / 2, s->cosines + at, s->sines + at);
}

// ---- forward --------------------------------------------------------------------------------------------------------

// One layer for the n rows of the chunk, by a team of threads. Keys and values are made for all rows; the rest only for
// rows [first, n), which are all but in the last layer, where only those whose logits are wanted matter.
static void run_layer(Session *s, int index, int n, int first) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    size_t dim = (size_t)m->dim, heads = (size_t)m->n_heads * (size_t)m->head_dim,
           kv = (size_t)m->n_kv_heads * (size_t)m->head_dim;
    float *x = s->x + (size_t)first * dim;

    const Product qkv[] = {{.matrix = &layer->wk, .out = s->k, .stride = kv},
                           {.matrix = &layer->wv, .out = s->v, .stride = kv},
                           {.matrix = &layer->wq, .out = s->q, .stride = heads}};
    matmul(qkv, first < n ? 3 : 2, &(Input){s->x, n, layer->attention_norm, m->norm_eps}, s->workspace);
    int first_block = s->position / KV_BLOCK, n_blocks = (s->position + n - 1) / KV_BLOCK - first_block + 1;
#pragma omp for schedule(static)
    for (int i = 0; i < m->n_kv_heads * n_blocks; i++) {
        int block = first_block + i % n_blocks, h = i / n_blocks, group = m->n_heads / m->n_kv_heads;
        int begin = block * KV_BLOCK - s->position, end = begin + KV_BLOCK < n ? begin + KV_BLOCK : n;
        for (int t = begin > 0 ? begin : 0; t < end; t++) {
            size_t at = (size_t)t * kv + (size_t)(h * m->head_dim);
            if (!s->follows) rotate_heads(s, s->k + at, t, 1);
            kv_cache_write(&s->cache, index, h, s->position + t, s->k + at, s->v + at);
            if (t >= first) rotate_heads(s, s->q + (size_t)t * heads + (size_t)(h * group * m->head_dim), t, group);
        }
    }
    if (first >= n) return;

    AttentionView view = {.n_heads = m->n_heads, .window = s->config.window, .sinks = s->config.sinks};
    if (s->follows) {
        view.block_cosines = s->block_cosines, view.block_sines = s->block_sines;
        view.step_cosines = s->step_cosines, view.step_sines = s->step_sines;
    }
    attention(&s->cache, index, &view, s->q + (size_t)first * heads, s->position + first, n - first, s->mixed,
              s->attention);
    matmul(&(Product){.matrix = &layer->wo, .out = x, .stride = dim, .add = true}, 1,
           &(Input){.x = s->mixed, .n = n - first}, s->workspace);

    const Product gated = {.matrix = &layer->w3, .gate = &layer->w1, .out = s->hidden, .stride = (size_t)m->hidden_dim};
    matmul(&gated, 1, &(Input){x, n - first, layer->ffn_norm, m->norm_eps}, s->workspace);
    matmul(&(Product){.matrix = &layer->w2, .out = x, .stride = dim, .add = true}, 1,
           &(Input){.x = s->hidden, .n = n - first}, s->workspace);
}

// The first row of [first, n) that holds what is no number goes to s->bad_row. By a team.
static void check_finite(Session *s, int first, int n) {
    size_t dim = (size_t)s->model->config.dim;
#pragma omp for schedule(static)
    for (int t = first; t < n; t++)
        if (!all_finite(s->x + (size_t)t * dim, dim)) {
#pragma omp critical
            if (t < s->bad_row) s->bad_row = t;
        }
}

// One chunk; the last n_kept rows end up at the front of s->x. Weights that are not numbers, or sums that left float32's
// range, end the run where they first show.
static bool read_chunk(Session *s, const int32_t *tokens, int n, int length, int n_kept, Error *err) {
    const ModelConfig *m = &s->model->config;
    size_t dim = (size_t)m->dim,
           work = (size_t)n * (m->n_layers * (size_t)m->hidden_dim * dim + (size_t)(s->position + n) * dim);
    int layer = -1, threads = work < WORTH_A_TEAM ? 1 : thread_count();
    for (int t = 0; t < n; t++) matrix_row(&s->model->embedding, tokens[t], 0, m->dim, s->x + (size_t)t * dim);
    s->bad_row = n;
    (void)threads;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(threads)
    {
        check_finite(s, 0, n);
        prepare_rope(s, n, length);
        for (int l = 0; l < m->n_layers && s->bad_row == n; l++) {
            int first = l == m->n_layers - 1 ? n - n_kept : 0;
            run_layer(s, l, n, first);
            check_finite(s, first, n);
#pragma omp master
            layer = l;
        }
    }
    if (s->bad_row < n && layer < 0)
        return fail(err, "the embedding of the token at position %d holds NaN or infinity", s->position + s->bad_row);
    if (s->bad_row < n)
        return fail(err, "NaN or infinity came out of layer %d at position %d: the weights hold it, or lead to it",
                    layer, s->position + s->bad_row);
    memmove(s->x, s->x + (size_t)(n - n_kept) * dim, (size_t)n_kept * dim * sizeof *s->x);
    s->n_kept = n_kept;
    s->position += n;
    return true;
}

bool session_read(Session *s, const int32_t *tokens, int n, int length, int n_logits, Error *err) {
    const ModelConfig *m = &s->model->config;
    if (n > s->config.context - s->position)
        return fail(err, "%d positions do not fit behind %d in a context of %d", n, s->position, s->config.context);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->vocab_size)
            return fail(err, "token %d is not in the vocabulary of %d", (int)tokens[i], m->vocab_size);
    for (int done = 0; done < n;) {
        int count = n - done < s->config.chunk ? n - done : s->config.chunk;
        int wanted = n_logits - (n - done - count);  // rows of this chunk that are among the last n_logits
        if (!read_chunk(s, tokens + done, count, length, wanted < 0 ? 0 : wanted > count ? count : wanted, err))
            return false;
        done += count;
    }
    return true;
}

float *session_logits(Session *s, int row, int n_rows, Error *err) {
    const ModelConfig *m = &s->model->config;
    size_t dim = (size_t)m->dim;
    const Product product = {.matrix = &s->model->classifier, .out = s->logits, .stride = (size_t)m->vocab_size};
    const Input input = {s->x + (size_t)row * dim, n_rows, s->model->final_norm, m->norm_eps};
#pragma omp parallel num_threads(thread_count()) if ((size_t)n_rows * dim * (size_t)m->vocab_size >= WORTH_A_TEAM)
    matmul(&product, 1, &input, s->workspace);
    for (int i = 0; i < n_rows; i++)
        if (!all_finite(s->logits + (size_t)i * (size_t)m->vocab_size, (size_t)m->vocab_size)) {
            fail(err,
                 "NaN or infinity among the logits at position %d: the final norm or the classifier holds it, or leads "
                 "to it",
                 s->position - s->n_kept + row + i);
            return NULL;
        }
    return s->logits;
}
