// The residual stream of other families: norms after a half (OLMo 2) or before and after it (Gemma
// 3), norms that subtract the mean and one norm for both halves (Cohere 2), scales of a half's
// output (Granite). forward.c has the scales and caps of the embedding and the logits.
#include "residual.h"

#include <string.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "rules.h"

static const Field fields_of_residual[] = {
    {"embedding_scale", 360, F64, 0, MAX_SCALE, IN_DECODER(residual.embedding_scale)},
    {"norm_place", 376, U32, 0, N_NORM_PLACES - 1, IN_DECODER(residual.norm_place),
     .version_6 = NORM_PARALLEL},
    {"layer_norm", 536, U32, 0, 1, IN_DECODER(residual.layer_norm)},
    {"embedding_norm", 548, U32, 0, 1, IN_DECODER(residual.embedding_norm)},
    {"residual_scale", 552, F64, 0, MAX_SCALE, IN_DECODER(residual.residual_scale)},
    {"logit_scale", 560, F64, 0, MAX_SCALE, IN_DECODER(residual.logit_scale)},
    {"logit_cap", 568, F64, 0, MAX_SCALE, IN_DECODER(residual.logit_cap)},
    {"after_norm_eps", 584, F64, 0, 1, IN_DECODER(residual.after_norm_eps)},
};

bool norms_after(const ModelConfig *c) {
    int place = c->extra->residual.norm_place;
    return place == NORM_AFTER || place == NORM_BOTH;
}

static bool check_residual(Model *m, Error *err) {
    const ResidualConfig *s = &m->config.extra->residual;
    return s->after_norm_eps == 0 || norms_after(&m->config) ||
           fail(err, "after_norm_eps with norm_place %d, which has no such norm (expected 0)",
                s->norm_place);
}

// Adds the norms after the halves; drops the norms before them where there are none.
static void add_residual_tensors(Model *m, Layer *w, Tensors *t) {
    int place = m->config.extra->residual.norm_place;
    bool after = norms_after(&m->config);
    const Tensor rows[] = {
        {290, &w->extra->residual.attention_after, FLOATS, .rows = after, .cols = m->config.dim},
        {500, &w->extra->residual.ffn_after, FLOATS, .rows = after, .cols = m->config.dim},
    };
    insert_tensors(t, rows, 2);
    if (place == NORM_AFTER) tensor_at(t, &w->attention_norm)->rows = 0;
    if (place == NORM_AFTER || place == NORM_PARALLEL) tensor_at(t, &w->ffn_norm)->rows = 0;
}

// ---- norms ----

// out (dim) = the norm of x (dim).
static void norm(const ModelConfig *m, float *out, const float *x, const float *weight,
                 double eps) {
    if (m->extra->residual.layer_norm) layernorm(out, x, weight, m->dim, eps);
    else rmsnorm(out, x, weight, m->dim, eps);
}

void norm_input(Plain *p, const float *x, const float *weight) {
    const ModelConfig *m = &p->model->config;
    if (weight) norm(m, p->normed, x, weight, m->norm_eps);
    else memcpy(p->normed, x, m->dim * sizeof(float));
}

void add_to_residual(Plain *p, float *x, const float *weight) {
    const ModelConfig *m = &p->model->config;
    const ResidualConfig *s = &m->extra->residual;
    double eps = s->after_norm_eps > 0 ? s->after_norm_eps : m->norm_eps;
    float scale = s->residual_scale > 0 ? (float)s->residual_scale : 1;
    if (weight) norm(m, p->added, p->added, weight, eps);
    add(x, scale, p->added, m->dim);
}

const Kind residual_kind = {
    .fields = fields_of_residual,
    .n_fields = sizeof fields_of_residual / sizeof fields_of_residual[0],
    .check = check_residual,
    .add_tensors = add_residual_tensors,
};
