// The residual stream otherwise than a Llama has it: norms of what a layer adds (OLMo 2), or of what
// it reads and adds (Gemma 3), norms that take the mean away and one norm for attention and
// feed-forward together (Cohere 2), scales of the embedding (Gemma 3), of what is added and of
// logits (Granite), and caps of logits (Gemma 2).
#include "stream.h"

#include <string.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "kinds.h"
#include "rules.h"

static const Field fields_of_stream[] = {
    {"embedding_scale", 360, F64, 0, MAX_SCALE, EXTRA(stream.embedding_scale)},
    {"norm_place", 376, U32, 0, N_NORM_PLACES - 1, EXTRA(stream.norm_place),
     .version_6 = NORM_PARALLEL},
    {"layer_norm", 536, U32, 0, 1, EXTRA(stream.layer_norm)},
    {"embedding_norm", 548, U32, 0, 1, EXTRA(stream.embedding_norm)},
    {"residual_scale", 552, F64, 0, MAX_SCALE, EXTRA(stream.residual_scale)},
    {"logit_scale", 560, F64, 0, MAX_SCALE, EXTRA(stream.logit_scale)},
    {"logit_cap", 568, F64, 0, MAX_SCALE, EXTRA(stream.logit_cap)},
    {"after_norm_eps", 584, F64, 0, 1, EXTRA(stream.after_norm_eps)},
};

bool norms_after(const ModelConfig *c) {
    int place = c->extra->stream.norm_place;
    return place == NORM_AFTER || place == NORM_BOTH;
}

static bool check_stream(Model *m, Error *err) {
    const StreamConfig *s = &m->config.extra->stream;
    return s->after_norm_eps == 0 || norms_after(&m->config) ||
           fail(err, "after_norm_eps with norm_place %d, which has no such norm (expected 0)",
                s->norm_place);
}

static void list_stream(Model *m, Layer *w, Tensors *t) {
    int place = m->config.extra->stream.norm_place;
    bool after = norms_after(&m->config);
    const Tensor rows[] = {
        {290, &w->extra->stream.attention_after, FLOATS, .rows = after, .cols = m->config.dim},
        {500, &w->extra->stream.ffn_after, FLOATS, .rows = after, .cols = m->config.dim},
    };
    add_tensors(t, rows, 2);
    if (place == NORM_AFTER) tensor_at(t, &w->attention_norm)->rows = 0;
    if (place == NORM_AFTER || place == NORM_PARALLEL) tensor_at(t, &w->ffn_norm)->rows = 0;
}

bool stream_differs(const ModelConfig *c) {
    const StreamConfig *s = &c->extra->stream;
    return s->norm_place != NORM_BEFORE || s->layer_norm || s->residual_scale > 0;
}

// ---- norms ----

// The norm of the residual stream x (dim), or of what is added to it.
static void norm(const ModelConfig *m, float *out, const float *x, const float *weight,
                 double eps) {
    if (m->extra->stream.layer_norm) layernorm(out, x, weight, m->dim, eps);
    else rmsnorm(out, x, weight, m->dim, eps);
}

void read_normed(Plain *p, const float *x, const float *weight) {
    const ModelConfig *m = &p->model->config;
    if (weight) norm(m, p->normed, x, weight, m->norm_eps);
    else memcpy(p->normed, x, m->dim * sizeof(float));
}

void add_normed(Plain *p, float *x, const float *weight) {
    const ModelConfig *m = &p->model->config;
    const StreamConfig *s = &m->extra->stream;
    double eps = s->after_norm_eps > 0 ? s->after_norm_eps : m->norm_eps;
    float scale = s->residual_scale > 0 ? (float)s->residual_scale : 1;
    if (weight) norm(m, p->added, p->added, weight, eps);
    add(x, scale, p->added, m->dim);
}

// ---- both ends ----

static void embed_stream(Plain *p, int32_t token, float *x) {
    const ModelConfig *m = &p->model->config;
    const StreamConfig *s = &m->extra->stream;
    (void)token;
    if (s->embedding_norm) rmsnorm(x, x, NULL, m->dim, m->norm_eps);
    if (s->embedding_scale > 0) scale_all(x, (float)s->embedding_scale, m->dim);
}

static void norm_last(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    if (m->extra->stream.layer_norm) norm(m, p->normed, x, p->model->final_norm, m->norm_eps);
}

static void end_stream(Plain *p, float *logits) {
    const ModelConfig *m = &p->model->config;
    const StreamConfig *s = &m->extra->stream;
    if (s->logit_scale > 0) scale_all(logits, (float)s->logit_scale, m->vocab_size);
    for (int i = 0; i < m->vocab_size && s->logit_cap > 0; i++) {
        logits[i] = capped(logits[i], (float)s->logit_cap);
    }
}

const Kind stream_kind = {
    .fields = fields_of_stream,
    .n_fields = sizeof fields_of_stream / sizeof fields_of_stream[0],
    .check = check_stream,
    .add_tensors = list_stream,
    .embed = embed_stream,
    .norm = norm_last,
    .end = end_stream,
};
