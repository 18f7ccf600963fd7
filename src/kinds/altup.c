// Alternating updates and a learned residual, as defined in their papers (altup.h). There are n
// streams X (n, dim). The first, x in comments, is the residual stream that all other files know. A
// layer computes
//     route(x) = tanh(router @ rmsnorm(x) / dim)                      (n)
//     P = X + C X, with C (n, n) = predict @ route(x)                 predicted
//     x = (P[0] + attention(P[0]) + learned(P[0])) / sqrt(2)
//     learned(x) = r + rmsnorm(laurel_out @ laurel_in @ r), where r is the input of attention
//     x = x + feed_forward(x)
//     X = P + c (x - P[0]), with c (n) = 1 + correct @ route(x)       corrected
// The per-layer embedding then reads X[0] * scale, and its output is added to the other streams.
#include "altup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"
#include "per_layer.h"

// ---- the header and the tensors ----

static const Field fields_of_altup[] = {
    {"altup_streams", 760, U32, 0, MAX_STREAMS, IN_PART(AltupConfig, streams)},
    {"laurel_rank", 764, U32, 0, MAX_WIDTH, IN_PART(AltupConfig, laurel_rank)},
};

static const Rule rules_of_altup[] = {
    {"laurel_rank", NEEDS, "altup_streams"},
    {"altup_streams", NEEDS, "laurel_rank per_layer_dim"},
    {"altup_streams", EXCLUDES, "layer_scale encoding kv_rank state_kind"},
};

static bool check_altup(Model *m, Error *err) {
    int streams = m->config.kinds->altup->streams;
    int place = m->config.extra->residual.norm_place;
    if (!CHECK_RULES(m, rules_of_altup, err)) return false;
    if (streams == 1) return fail(err, "altup_streams is 1 (expected 0, or 2 to %d)", MAX_STREAMS);
    return streams == 0 || place == NORM_BOTH ||
           fail(err, "altup_streams with norm_place %d (expected %d)", place, NORM_BOTH);
}

// The streams are corrected by the change that both halves of a layer make, so neither half may be
// missing.
static bool check_both_halves(const Model *m, Error *err) {
    for (int l = 0; m->config.kinds->altup->streams && l < m->config.n_layers; l++)
        if (!layer_mixes(&m->layers[l]) || !layer_feeds(&m->layers[l]))
            return fail(err,
                        "impossible header: layer_shapes has %s 0 for layer %d with altup_streams "
                        "(expected 1 or more)",
                        layer_mixes(&m->layers[l]) ? "hidden_dim" : "n_heads", l);
    return true;
}

// Adds the tensors between streams.
static void add_altup_tensors(Model *m, Layer *w, Tensors *t) {
    AltupConfig *of_model = m->config.kinds->altup;
    AltupTensors *to = w->kinds->altup;
    int64_t n = of_model->streams, dim = m->config.dim, rank = of_model->laurel_rank;
    const Tensor rows[] = {
        {550, &to->norm, FLOATS, .rows = 1, .cols = dim},
        {560, &to->router, FLOATS, .rows = n, .cols = dim},
        {570, &to->predict, FLOATS, .rows = n * n, .cols = n},
        {580, &to->correct, FLOATS, .rows = n, .cols = n},
        {590, &to->scale, FLOATS, .rows = 1, .cols = dim},
        {600, &to->laurel_in, FEED_FORWARD, .rows = rank, .cols = dim},
        {610, &to->laurel_out, FEED_FORWARD, .rows = dim, .cols = rank},
        {620, &to->laurel_after, FLOATS, .rows = 1, .cols = dim},
    };
    if (n == 0) return;
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
    for (int i = 0; i < n - 1; i++) {
        const Tensor both[] = {
            {60 + i, &of_model->in[i], FEED_FORWARD, .rows = dim, .cols = dim},
            {70 + i, &of_model->out[i], FEED_FORWARD, .rows = dim, .cols = dim},
        };
        insert_tensors(t, both, 2);
    }
}

static void describe_altup(const Model *m, Teller *tell, void *whose) {
    char streams[64];
    snprintf(streams, sizeof streams, "%d (AltUp)", m->config.kinds->altup->streams);
    if (m->config.kinds->altup->streams) tell(whose, "streams", streams, false);
}

// ---- between the streams ----

static float mean_square(const float *x, int64_t n) { return dot(x, x, n) / (float)n; }

// made (dim) *= sqrt(mean square of x / mean square of made).
static void match_size(float *made, const float *x, int64_t dim) {
    float own = mean_square(made, dim);
    if (own < LEAST_SQUARE) own = LEAST_SQUARE;
    scale_all(made, sqrtf(mean_square(x, dim)) / sqrtf(own), dim);
}

// route (n) of the stream x (dim).
static void find_route(Plain *p, const float *x, float route[MAX_STREAMS]) {
    const ModelConfig *m = &p->model->config;
    const AltupTensors *w = p->w->kinds->altup;
    int64_t dim = m->dim;
    rmsnorm(p->normed, x, w->norm, dim, m->norm_eps);
    for (int i = 0; i < m->kinds->altup->streams; i++) {
        route[i] = tanhf(dot(w->router + i * dim, p->normed, dim) / (float)dim);
    }
}

static void predict(Plain *p) {
    const ModelConfig *m = &p->model->config;
    PlainAltup *own = p->kinds->altup;
    int n = m->kinds->altup->streams;
    int64_t dim = m->dim;
    float route[MAX_STREAMS];
    find_route(p, own->streams, route);
    memcpy(own->predicted, own->streams, n * dim * sizeof(float));
    for (int i = 0; i < n * n; i++) {
        float coefficient = dot(p->w->kinds->altup->predict + (int64_t)i * n, route, n);
        add(own->predicted + i / n * dim, coefficient, own->streams + i % n * dim, dim);
    }
}

static void correct(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    PlainAltup *own = p->kinds->altup;
    int n = m->kinds->altup->streams;
    int64_t dim = m->dim;
    float route[MAX_STREAMS];
    find_route(p, x, route);
    memcpy(p->added, x, dim * sizeof(float));
    add(p->added, -1, own->predicted, dim);  // the change that the layer has made
    memcpy(own->streams, own->predicted, n * dim * sizeof(float));
    for (int i = 0; i < n; i++) {
        float coefficient = 1 + dot(p->w->kinds->altup->correct + (int64_t)i * n, route, n);
        add(own->streams + i * dim, coefficient, p->added, dim);
    }
}

// ---- the embedding, and a layer ----

static void embed_altup(Plain *p, int32_t token, float *x) {
    const ModelConfig *m = &p->model->config;
    const AltupConfig *of_model = m->kinds->altup;
    float *streams = p->kinds->altup->streams;
    (void)token;
    if (of_model->streams == 0) return;
    memcpy(streams, x, m->dim * sizeof(float));
    for (int i = 1; i < of_model->streams; i++) {
        float *other = streams + i * m->dim;
        matmul(other, &of_model->in[i - 1], x, p->row);
        match_size(other, x, m->dim);
    }
}

static bool has_altup(const Model *model, const Layer *layer) {
    (void)layer;
    return model->config.kinds->altup->streams > 0;
}

// learned (dim) = r + rmsnorm(laurel_out @ laurel_in @ r), where r is rmsnorm(x) (dim).
static void learn(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    const AltupTensors *w = p->w->kinds->altup;
    PlainAltup *own = p->kinds->altup;
    norm_input(p, x, p->w->attention_norm);
    matmul(own->narrow, &w->laurel_in, p->normed, p->row);
    matmul(own->learned, &w->laurel_out, own->narrow, p->row);
    rmsnorm(own->learned, own->learned, w->laurel_after, m->dim, m->norm_eps);
    add(own->learned, 1, p->normed, m->dim);
}

// x (dim) = the mean of all streams, after the further ones have been projected back and scaled to
// the size of the first.
static void merge_streams(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const AltupConfig *of_model = m->kinds->altup;
    const float *streams = p->kinds->altup->streams;
    for (int i = 1; i < of_model->streams; i++) {
        matmul(p->added, &of_model->out[i - 1], streams + i * m->dim, p->row);
        match_size(p->added, streams, m->dim);
        add(x, 1, p->added, m->dim);
    }
    scale_all(x, 1 / (float)of_model->streams, m->dim);
}

static void run_altup_layer(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    PlainAltup *own = p->kinds->altup;
    float *streams = own->streams;
    int64_t dim = m->dim;
    predict(p);
    memcpy(x, own->predicted, dim * sizeof(float));
    learn(p, x);
    mix_half(p, x);
    add(x, 1, own->learned, dim);
    scale_all(x, sqrtf(0.5f), dim);
    feed_half(p, x);
    correct(p, x);

    // The per-layer embedding reads a scaled stream, and is only added to the other streams.
    for (int64_t e = 0; e < dim; e++) x[e] = streams[e] * p->w->kinds->altup->scale[e];
    add_layer_embedding(p, x);
    for (int i = 1; i < m->kinds->altup->streams; i++) {
        add(streams + i * dim, 1, p->added, dim);
    }
    memcpy(x, streams, dim * sizeof(float));
    if (p->layer == m->n_layers - 1) merge_streams(p, x);
}

// ---- memory, and the row of the table ----

static void lay_out_altup(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    const AltupConfig *of_model = m->kinds->altup;
    PlainAltup *own = p->kinds->altup;
    if (of_model->streams == 0) return;
    own->streams = arena_take(arena, of_model->streams * m->dim, sizeof(float));
    own->predicted = arena_take(arena, of_model->streams * m->dim, sizeof(float));
    own->learned = arena_take(arena, m->dim, sizeof(float));
    own->narrow = arena_take(arena, of_model->laurel_rank, sizeof(float));
}

const Kind altup_kind = {
    .parts = {[OF_MODEL] = {sizeof(AltupConfig), offsetof(struct ModelParts, altup)},
              [OF_LAYER] = {sizeof(AltupTensors), offsetof(struct LayerParts, altup)},
              [OF_TEXT] = {sizeof(PlainAltup), offsetof(struct PlainParts, altup)}},
    .fields = fields_of_altup,
    .n_fields = sizeof fields_of_altup / sizeof fields_of_altup[0],
    .check = check_altup,
    .check_layers = check_both_halves,
    .add_tensors = add_altup_tensors,
    .describe = describe_altup,
    .lay_out = lay_out_altup,
    .has = has_altup,
    .embed = embed_altup,
    .layer = run_altup_layer,
};
