// The definition of Mamba 2 (arXiv 2405.21060). Each head has a state S (key_dim, value_dim). At
// each token the input of a head is x (value_dim), and its group of heads has a vector B (key_dim),
// with which S is written, and C (key_dim), with which it is read:
//     t = softplus(step + dt)      how long the token lasts
//     S = exp(-exp(decay) t) S     it forgets
//     S = S + t B x^T
//     y = S^T C + skip x
// x, B and C are outputs of a short convolution. The outputs y of all heads are multiplied by a
// gate and then normed; the delta rule norms them first.
#include "mamba.h"

#include <math.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"
#include "states.h"

static const Field fields_of_mamba[] = {
    {"conv_bias", 724, U32, 0, 1, IN_PART(MambaConfig, conv_bias)},
    {"state_norm_groups", 736, U32, 0, MAX_HEADS, IN_PART(MambaConfig, norm_groups)},
};

static const Rule rules_of_all[] = {{"conv_bias state_norm_groups", NEEDS, "state_kind"}};
static const Rule rules_of_mamba[] = {
    {"state_kind", NEEDS,
     "state_key_heads state_value_heads state_key_dim state_value_dim state_norm_groups"},
    {"state_tiled", EXCLUDES, "state_kind"},
};
static const Rule rules_of_others[] = {{"conv_bias state_norm_groups", EXCLUDES, "state_kind"}};

static bool check_mamba(Model *m, Error *err) {
    int kind = m->config.kinds->states->kind, groups = m->config.kinds->mamba->norm_groups;
    if (!CHECK_RULES(m, rules_of_all, err)) return false;
    if (kind != STATE_MAMBA) return CHECK_RULES(m, rules_of_others, err);
    return CHECK_RULES(m, rules_of_mamba, err) &&
           (state_width(&m->config) % groups == 0 ||
            fail(err,
                 "state_norm_groups is %d, which does not divide the %lld numbers of all heads",
                 groups, (long long)state_width(&m->config)));
}

// Adds the tensors of Mamba 2 to those of all states.
static void add_mamba_tensors(Model *m, Layer *w, Tensors *t) {
    const ModelConfig *c = &m->config;
    const StatesConfig *s = c->kinds->states;
    StatesTensors *to = w->kinds->states;
    const Tensor skip = {119, &w->kinds->mamba->skip, FLOATS, .rows = 1, .cols = s->value_heads};
    if (s->kind != STATE_MAMBA || !(w->extra->flags & LAYER_STATE)) return;
    insert_tensors(t, &skip, 1);
    tensor_at(t, &to->b_conv)->rows = c->kinds->mamba->conv_bias;
    tensor_at(t, &to->decay)->rows = tensor_at(t, &to->dt)->rows = 1;
    tensor_at(t, &to->norm)->rows = 1;
    tensor_at(t, &to->norm)->cols = state_width(c);
}

// y (value_dim) of head h, whose state S (key_dim, value_dim) is updated. `convolved` has x of all
// heads, then B and C of all groups; `time` is t above.
static void step_mamba_head(const Plain *p, int h, float *s, const float *convolved, float time,
                            float *y) {
    const StatesConfig *c = p->model->config.kinds->states;
    const StatesTensors *w = p->w->kinds->states;
    int64_t n = c->value_dim;
    int sharing = c->value_heads / c->key_heads;  // heads of a group
    const float *x = convolved + h * n;
    const float *b = convolved + c->value_heads * n + (int64_t)(h / sharing) * c->key_dim;
    const float *k = b + (int64_t)c->key_heads * c->key_dim;
    scale_all(s, expf(-expf(w->decay[h]) * time), c->key_dim * n);
    for (int64_t i = 0; i < n; i++) y[i] = p->w->kinds->mamba->skip[h] * x[i];
    for (int64_t i = 0; i < c->key_dim; i++) {
        add(s + i * n, time * b[i], x, n);
        add(y, k[i], s + i * n, n);
    }
}

static void mix_mamba(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    const StatesConfig *c = m->kinds->states;
    const StatesTensors *w = p->w->kinds->states;
    int64_t width = state_width(m);
    int64_t channels = state_channels(m);
    float *past = present_state(p);
    float *s = past + state_past(m);

    // gate (width), then read (n_heads, value_dim), B and C (n_groups, key_dim each), and step
    // (n_heads), one after the other
    float *gate = p->kinds->states->in;
    float *read = gate + width;
    const float *step = read + channels;
    (void)x;
    matmul_biased(gate, &w->in, p->normed, w->b_in, p->row);
    convolve(p, read, past, read);
    for (int64_t i = 0; i < channels; i++) read[i] = silu(read[i]);

    for (int h = 0; h < c->value_heads; h++) {
        int64_t at = (int64_t)h * c->value_dim;
        float time = softplus(step[h] + w->dt[h]);
        step_mamba_head(p, h, s + at * c->key_dim, read, time, p->mixed + at);
    }
    int64_t part = width / m->kinds->mamba->norm_groups;
    for (int64_t i = 0; i < width; i++) p->mixed[i] *= silu(gate[i]);
    for (int64_t i = 0; i < width; i += part)
        rmsnorm(p->mixed + i, p->mixed + i, w->norm + i, part, m->norm_eps);
    matmul_biased(p->added, &w->out, p->mixed, w->b_out, p->row);
}

static bool has_mamba(const Model *model, const Layer *layer) {
    bool keeps_state = layer->extra->flags & LAYER_STATE;
    return keeps_state && model->config.kinds->states->kind == STATE_MAMBA;
}

const Kind mamba_kind = {
    .parts = {[OF_MODEL] = {sizeof(MambaConfig), offsetof(struct ModelParts, mamba)},
              [OF_LAYER] = {sizeof(MambaTensors), offsetof(struct LayerParts, mamba)}},
    .fields = fields_of_mamba,
    .n_fields = sizeof fields_of_mamba / sizeof fields_of_mamba[0],
    .check = check_mamba,
    .add_tensors = add_mamba_tensors,
    .has = has_mamba,
    .mix = mix_mamba,
};
