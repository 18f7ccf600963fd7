// Alternating updates and a learned residual, a chunk at a time: src/kinds/altup.c has the
// definition. A thread's share is rows.
#include <math.h>
#include <string.h>

#include "../kinds/altup.h"
#include "forward.h"
#include "parts.h"
#include "per_layer.h"

// Memory for a chunk of rows.
typedef struct FastAltup {
    float *streams, *predicted;  // (streams, chunk, dim)
    float *learned;              // (chunk, dim)
    float *narrow;               // (chunk, laurel_rank)
} FastAltup;

// Row `row` of a stream of the chunk.
static float *stream_row(const Transformer *t, float *streams, int stream, int row) {
    int64_t chunk = t->config->chunk;
    return streams + (stream * chunk + row) * t->model->config.dim;
}

// made *= the root mean square of x / that of made
static void bring_to_size(float *made, const float *x, int64_t dim) {
    float own = dot_fast(made, made, dim) / (float)dim;
    if (own < LEAST_SQUARE) own = LEAST_SQUARE;
    scale_by(made, sqrtf(dot_fast(x, x, dim) / (float)dim) / sqrtf(own), dim);
}

// x += factor * y
static void add_times(float *x, const float *y, float factor, int64_t n) {
    for (int64_t e = 0; e < n; e++) x[e] += factor * y[e];
}

// coefficients (n) = matrix (n, streams) @ route(x). `room` (dim) is scratch memory.
static void find_coefficients(const Transformer *t, const AltupTensors *w, const float *matrix,
                              int n, const float *x, float *room, float *coefficients) {
    const ModelConfig *m = &t->model->config;
    int streams = m->kinds->altup->streams;
    int64_t dim = m->dim;
    float route[MAX_STREAMS];
    rmsnorm_fast(room, x, w->norm, dim, (float)m->norm_eps);
    for (int i = 0; i < streams; i++)
        route[i] = tanhf(dot_fast(w->router + i * dim, room, dim) / (float)dim);
    for (int i = 0; i < n; i++)
        coefficients[i] = dot_fast(matrix + (int64_t)i * streams, route, streams);
}

// ---- the embedding ----

static void embed_streams_by_team(const Team *team, Transformer *t, const int32_t *tokens) {
    const ModelConfig *m = &t->model->config;
    const AltupConfig *of_model = m->kinds->altup;
    float *streams = t->kinds->altup->streams;
    Product others[MAX_STREAMS - 1];
    Input x = {.x = t->x, .n = t->n};
    (void)tokens;
    if (of_model->streams == 0) return;
    for (int i = 1; i < of_model->streams; i++) {
        others[i - 1] = (Product){.matrix = &of_model->in[i - 1], .stride = m->dim};
        others[i - 1].out = stream_row(t, streams, i, 0);
    }
    matmul_by_team(team, others, of_model->streams - 1, &x, t->workspace);
    for (int row = team_first(team, t->n), end = team_end(team, t->n); row < end; row++) {
        const float *first = t->x + row * m->dim;
        memcpy(stream_row(t, streams, 0, row), first, m->dim * sizeof(float));
        for (int i = 1; i < of_model->streams; i++)
            bring_to_size(stream_row(t, streams, i, row), first, m->dim);
    }
    team_wait(team);
}

// ---- the first half ----

// The last n rows of the chunk: predicted, and x = its first stream.
static void predict_by_team(const Team *team, Transformer *t, const AltupTensors *w, int n_rows) {
    const ModelConfig *m = &t->model->config;
    const FastAltup *own = t->kinds->altup;
    int n = m->kinds->altup->streams;
    int skipped = t->n - n_rows;
    for (int i = team_first(team, n_rows), end = team_end(team, n_rows); i < end; i++) {
        int row = skipped + i;
        float coefficients[MAX_STREAMS * MAX_STREAMS];
        float *x = t->x + row * m->dim;
        find_coefficients(t, w, w->predict, n * n, stream_row(t, own->streams, 0, row), x,
                          coefficients);
        for (int to = 0; to < n; to++) {
            float *predicted = stream_row(t, own->predicted, to, row);
            memcpy(predicted, stream_row(t, own->streams, to, row), m->dim * sizeof *predicted);
            for (int j = 0; j < n; j++)
                add_times(predicted, stream_row(t, own->streams, j, row), coefficients[to * n + j],
                          m->dim);
        }
        memcpy(x, stream_row(t, own->predicted, 0, row), m->dim * sizeof *x);
    }
    team_wait(team);
}

// learned (n_wanted, dim) = r + rmsnorm(laurel_out . laurel_in . r), with r = norm(x).
static void learn_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const AltupTensors *w = layer->kinds->altup;
    const FastAltup *own = t->kinds->altup;
    const float *x = wanted_rows(t, n_wanted);
    float eps = (float)m->norm_eps;
    Input normed = rmsnorm_of(t, x, n_wanted, layer->attention_norm);
    Input narrow = {.x = own->narrow, .n = n_wanted};
    Product in = {.matrix = &w->laurel_in, .out = own->narrow, .stride = w->laurel_in.rows};
    Product out = {.matrix = &w->laurel_out, .out = own->learned, .stride = m->dim};
    matmul_by_team(team, &in, 1, &normed, t->workspace);
    matmul_by_team(team, &out, 1, &narrow, t->workspace);
    for (int row = team_first(team, n_wanted), end = team_end(team, n_wanted); row < end; row++) {
        float *learned = own->learned + row * m->dim;
        float *read = t->added + row * m->dim;
        rmsnorm_fast(read, x + row * m->dim, layer->attention_norm, m->dim, eps);
        rmsnorm_fast(learned, learned, w->laurel_after, m->dim, eps);
        add_to(learned, read, m->dim);
    }
    team_wait(team);
}

// ---- the end of a layer ----

// Corrects all streams for the change by both halves; x (n_wanted, dim) becomes the input of the
// per-layer embedding.
static void correct_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const AltupTensors *w = t->model->layers[index].kinds->altup;
    const FastAltup *own = t->kinds->altup;
    int n = m->kinds->altup->streams;
    int64_t dim = m->dim;
    for (int row = t->n - n_wanted + team_first(team, n_wanted),
             end = t->n - n_wanted + team_end(team, n_wanted);
         row < end; row++) {
        float coefficients[MAX_STREAMS];
        float *x = t->x + row * dim;
        float *changed = stream_row(t, own->streams, 0, row);  // the streams are computed anew
        find_coefficients(t, w, w->correct, n, x, changed, coefficients);
        memcpy(changed, x, dim * sizeof *x);
        add_times(changed, stream_row(t, own->predicted, 0, row), -1, dim);
        for (int i = n - 1; i >= 0; i--) {
            float *stream = stream_row(t, own->streams, i, row);
            float factor = 1 + coefficients[i];
            if (i > 0) memcpy(stream, changed, dim * sizeof *stream);
            scale_by(stream, factor, dim);
            add_to(stream, stream_row(t, own->predicted, i, row), dim);
        }
        for (int64_t e = 0; e < dim; e++) x[e] = changed[e] * w->scale[e];
    }
    team_wait(team);
}

// x (n_wanted, dim) = the mean of all streams, the others projected back and scaled to the size of
// the first.
static void merge_by_team(const Team *team, Transformer *t, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const AltupConfig *of_model = m->kinds->altup;
    const FastAltup *own = t->kinds->altup;
    int skipped = t->n - n_wanted;
    for (int i = 1; i < of_model->streams; i++) {
        Input stream = {.x = stream_row(t, own->streams, i, skipped), .n = n_wanted};
        Product back = {.matrix = &of_model->out[i - 1], .stride = m->dim};
        back.out = stream_row(t, own->predicted, i, skipped);
        matmul_by_team(team, &back, 1, &stream, t->workspace);
    }
    for (int row = skipped + team_first(team, n_wanted), end = skipped + team_end(team, n_wanted);
         row < end; row++) {
        float *x = t->x + row * m->dim;
        for (int i = 1; i < of_model->streams; i++) {
            float *back = stream_row(t, own->predicted, i, row);
            bring_to_size(back, stream_row(t, own->streams, 0, row), m->dim);
            add_to(x, back, m->dim);
        }
        scale_by(x, 1 / (float)of_model->streams, m->dim);
    }
    team_wait(team);
}

// Moves the per-layer embedding's summand from x to the other streams.
static void add_to_others_by_team(const Team *team, Transformer *t, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    float *streams = t->kinds->altup->streams;
    int n = m->kinds->altup->streams, skipped = t->n - n_wanted;
    for (int i = team_first(team, n_wanted), end = team_end(team, n_wanted); i < end; i++) {
        int row = skipped + i;
        for (int stream = 1; stream < n; stream++)
            add_to(stream_row(t, streams, stream, row), t->added + i * m->dim, m->dim);
        memcpy(t->x + row * m->dim, stream_row(t, streams, 0, row), m->dim * sizeof(float));
    }
    team_wait(team);
}

static void run_altup_layer_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    int64_t dim = t->model->config.dim;
    const Layer *layer = &t->model->layers[index];
    bool has_keys = layer->extra->shape.kv_layer == index;
    team_wait(team);  // predict writes x, where others may still check the last layer's output
    predict_by_team(team, t, layer->kinds->altup, has_keys ? t->n : n_wanted);
    if (n_wanted > 0) learn_by_team(team, t, index, n_wanted);
    mix_half_by_team(team, t, index, n_wanted);
    if (n_wanted == 0) return;
    float *x = wanted_rows(t, n_wanted);
    for (int row = team_first(team, n_wanted), end = team_end(team, n_wanted); row < end; row++) {
        add_to(x + row * dim, t->kinds->altup->learned + row * dim, dim);
        scale_by(x + row * dim, sqrtf(0.5f), dim);
    }
    team_wait(team);
    feed_half_by_team(team, t, index, n_wanted);
    correct_by_team(team, t, index, n_wanted);
    add_layer_embedding_by_team(team, t, index, n_wanted);
    add_to_others_by_team(team, t, n_wanted);
    if (index == t->model->config.n_layers - 1) merge_by_team(team, t, n_wanted);
}

// ---- memory ----

static void lay_out_streams(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const AltupConfig *of_model = m->kinds->altup;
    FastAltup *own = t->kinds->altup;
    int64_t chunk = t->config->chunk;
    if (of_model->streams == 0) return;
    own->streams = arena_take(arena, of_model->streams * chunk * m->dim, sizeof(float));
    own->predicted = arena_take(arena, of_model->streams * chunk * m->dim, sizeof(float));
    own->learned = arena_take(arena, chunk * m->dim, sizeof(float));
    own->narrow = arena_take(arena, chunk * of_model->laurel_rank, sizeof(float));
    if (t->widest < of_model->laurel_rank) t->widest = of_model->laurel_rank;
}

const FastKind fast_altup = {
    .of = &altup_kind,
    .part = {sizeof(FastAltup), offsetof(struct FastParts, altup)},
    .lay_out = lay_out_streams,
    .embed_by_team = embed_streams_by_team,
    .layer_by_team = run_altup_layer_by_team,
};
