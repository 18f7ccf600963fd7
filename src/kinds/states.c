// The definition of layers that keep a state. The gated delta rule (arXiv 2412.06464) has a matrix
// S (key_dim, value_dim) for each head, which maps keys to values. At each token, with the head's
// query q and key k, both of length 1, and its value v:
//     S = exp(g) S                 it forgets: g = -exp(decay) softplus(step + dt) is below 0
//     d = beta (v - S^T k)         the error of the key's value, times a rate
//     S = S + k d^T                so the value of k comes nearer to v
//     o = S^T q / sqrt(key_dim)    the value of the query
// q, k and v are outputs of a short convolution. A layer of the second kind has only the
// convolution. mamba.c has the third.
#include "states.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"

// ---- the header and the tensors ----

enum { MAX_CONV_WIDTH = 64 };

static const Field fields_of_states[] = {
    {"state_kind", 688, U32, 0, N_STATES - 1, IN_PART(StatesConfig, kind)},
    {"conv_width", 692, U32, 0, MAX_CONV_WIDTH, IN_PART(StatesConfig, conv_width)},
    {"state_key_heads", 696, U32, 0, MAX_HEADS, IN_PART(StatesConfig, key_heads)},
    {"state_value_heads", 700, U32, 0, MAX_HEADS, IN_PART(StatesConfig, value_heads)},
    {"state_key_dim", 704, U32, 0, ROPE_MAX_HEAD_DIM, IN_PART(StatesConfig, key_dim)},
    {"state_value_dim", 708, U32, 0, ROPE_MAX_HEAD_DIM, IN_PART(StatesConfig, value_dim)},
    {"state_bias", 712, U32, 0, 1, IN_PART(StatesConfig, bias)},
    {"state_tiled", 720, U32, 0, 1, IN_PART(StatesConfig, tiled)},
};

static const Rule rules_of_states[] = {
    {"conv_width state_key_heads state_value_heads state_key_dim state_value_dim state_bias "
     "state_tiled",
     NEEDS, "state_kind"},
    {"state_kind", NEEDS, "layer_table conv_width"},
    {"state_kind", EXCLUDES, "kv_rank"},
};
static const Rule rules_of_delta[] = {
    {"state_kind", NEEDS, "state_key_heads state_value_heads state_key_dim state_value_dim"},
    {"state_bias", EXCLUDES, "state_kind"},
};
static const Rule rules_of_conv[] = {
    {"state_key_heads state_value_heads state_key_dim state_value_dim state_tiled", EXCLUDES,
     "state_kind"},
};

static bool check_states(Model *m, Error *err) {
    const StatesConfig *s = m->config.kinds->states;
    int encoding = model_encoding(m);
    if (!CHECK_RULES(m, rules_of_states, err)) return false;
    if (s->kind && encoding > ENCODING_SINUSOIDAL)
        return fail(err, "state_kind is %d with encoding %d (expected an encoding up to %d)",
                    s->kind, encoding, ENCODING_SINUSOIDAL);
    if (s->kind == STATE_CONV) return CHECK_RULES(m, rules_of_conv, err);
    if (s->kind == STATE_DELTA && !CHECK_RULES(m, rules_of_delta, err)) return false;
    return s->key_heads == 0 || s->value_heads % s->key_heads == 0 ||
           fail(err, "%d value heads of a state cannot share %d key heads", s->value_heads,
                s->key_heads);
}

static bool check_state_layers(const Model *m, Error *err) {
    return m->config.kinds->states->kind || check_no_layer_has(m, LAYER_STATE, "state_kind", err);
}

// Adds the tensors of a state, and drops those of attention.
static void add_states_tensors(Model *m, Layer *w, Tensors *t) {
    const ModelConfig *c = &m->config;
    const StatesConfig *s = c->kinds->states;
    StatesTensors *to = w->kinds->states;
    bool is_delta = s->kind == STATE_DELTA;
    int64_t dim = c->dim, in = state_inputs(c), width = state_width(c), all = state_channels(c);
    int64_t heads = s->value_heads, small = is_delta ? heads : 0;
    const Tensor rows[] = {
        {110, &to->in, ATTENTION, .rows = in, .cols = dim},
        {111, &to->b_in, FLOATS, .rows = s->bias, .cols = in},
        {112, &to->gate, ATTENTION, .rows = is_delta * width, .cols = dim},
        {113, &to->beta, ATTENTION, .rows = small, .cols = dim},
        {114, &to->step, ATTENTION, .rows = small, .cols = dim},
        {115, &to->conv, FLOATS, .rows = all, .cols = s->conv_width},
        {116, &to->b_conv, FLOATS, .rows = s->bias, .cols = all},
        {118, &to->decay, FLOATS, .rows = is_delta, .cols = heads},
        {120, &to->dt, FLOATS, .rows = is_delta, .cols = heads},
        {121, &to->norm, FLOATS, .rows = is_delta, .cols = s->value_dim},
        {122, &to->out, ATTENTION, .rows = dim, .cols = width},
        {123, &to->b_out, FLOATS, .rows = s->bias, .cols = dim},
    };
    if (!(w->extra->flags & LAYER_STATE)) return;
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
    tensor_at(t, &w->wq)->rows = tensor_at(t, &w->wk)->rows = 0;
    tensor_at(t, &w->wv)->rows = tensor_at(t, &w->wo)->rows = 0;
}

int64_t state_width(const ModelConfig *c) {
    const StatesConfig *s = c->kinds->states;
    return s->kind == STATE_CONV ? c->dim : (int64_t)s->value_heads * s->value_dim;
}

int64_t state_channels(const ModelConfig *c) {
    const StatesConfig *s = c->kinds->states;
    int64_t keys = (int64_t)s->key_heads * s->key_dim;
    return 2 * keys + state_width(c);
}

int64_t state_inputs(const ModelConfig *c) {
    int kind = c->kinds->states->kind;
    if (kind == STATE_CONV) return 3 * c->dim;
    // Mamba 2 also has gates and steps in it
    int64_t more = kind == STATE_MAMBA ? state_width(c) + c->kinds->states->value_heads : 0;
    return state_channels(c) + more;
}

int64_t state_past(const ModelConfig *c) {
    return (c->kinds->states->conv_width - 1) * state_channels(c);
}

int64_t state_numbers(const ModelConfig *c) {
    const StatesConfig *s = c->kinds->states;
    int64_t matrices = s->kind == STATE_CONV ? 0 : state_width(c) * s->key_dim;
    return state_past(c) + matrices;
}

int state_key_head(const ModelConfig *c, int value_head) {
    const StatesConfig *s = c->kinds->states;
    return s->tiled ? value_head % s->key_heads : value_head / (s->value_heads / s->key_heads);
}

int layers_with_state(const Model *m, int layers) {
    int n = 0;
    for (int l = 0; l < layers; l++) n += (m->layers[l].extra->flags & LAYER_STATE) != 0;
    return n;
}

// ---- the steps that states share ----

float *present_state(const Plain *p) {
    int64_t number = layers_with_state(p->model, p->layer);
    return p->extra->kept + number * state_numbers(&p->model->config);
}

void convolve(const Plain *p, const float *u, float *past, float *y) {
    const ModelConfig *m = &p->model->config;
    int64_t n = state_channels(m);
    int width = m->kinds->states->conv_width;
    int before = width - 1;
    for (int64_t c = 0; c < n; c++) {
        const float *weights = p->w->kinds->states->conv + c * width;
        float present = u[c];
        float sum = weights[before] * present;
        for (int j = 0; j < before; j++) {
            sum += weights[j] * past[j * n + c];
        }
        for (int j = 0; j + 1 < before; j++) {
            past[j * n + c] = past[(j + 1) * n + c];
        }
        if (before > 0) past[(before - 1) * n + c] = present;
        y[c] = p->w->kinds->states->b_conv ? sum + p->w->kinds->states->b_conv[c] : sum;
    }
}

// Scales each of the n heads of x (n, width) to length 1.
static void unit_heads(float *x, int n, int64_t width) {
    for (int h = 0; h < n; h++) {
        float *head = x + h * width;
        scale_all(head, 1 / sqrtf(dot(head, head, width) + STATE_EPS), width);
    }
}

// out (n) = S^T x, where S is (rows, n) and x (rows).
static void times_state(float *out, const float *s, const float *x, int64_t rows, int64_t n) {
    memset(out, 0, n * sizeof *out);
    for (int64_t i = 0; i < rows; i++) add(out, x[i], s + i * n, n);
}

// o (value_dim) of one head, whose state S (key_dim, value_dim) is updated. v is overwritten with
// d.
static void step_head(const ModelConfig *m, float *s, const float *q, const float *k, float *v,
                      float decay, float beta, float *o) {
    int64_t rows = m->kinds->states->key_dim;
    int64_t n = m->kinds->states->value_dim;
    scale_all(s, decay, rows * n);
    times_state(o, s, k, rows, n);
    for (int64_t c = 0; c < n; c++) v[c] = beta * (v[c] - o[c]);
    for (int64_t i = 0; i < rows; i++) add(s + i * n, k[i], v, n);
    times_state(o, s, q, rows, n);
    scale_all(o, 1 / sqrtf((float)rows), n);
}

static void gated_delta_rule(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const StatesTensors *w = p->w->kinds->states;
    int n_keys = m->kinds->states->key_heads;
    int n_heads = m->kinds->states->value_heads;
    int64_t key_dim = m->kinds->states->key_dim;
    int64_t value_dim = m->kinds->states->value_dim;
    int64_t channels = state_channels(m);
    float *past = present_state(p);
    float *s = past + state_past(m);

    // q (n_keys, key_dim), k (n_keys, key_dim) and v (n_heads, value_dim), one after the other
    float *q = p->kinds->states->in;
    float *k = q + n_keys * key_dim;
    float *v = k + n_keys * key_dim;
    matmul(q, &w->in, p->normed, p->row);
    convolve(p, q, past, q);
    for (int64_t c = 0; c < channels; c++) q[c] = silu(q[c]);
    unit_heads(q, 2 * n_keys, key_dim);

    matmul(p->kinds->states->gate, &w->gate, p->normed, p->row);
    matmul(p->kinds->states->beta, &w->beta, p->normed, p->row);
    matmul(p->kinds->states->step, &w->step, p->normed, p->row);
    for (int h = 0; h < n_heads; h++) {
        int64_t key = state_key_head(m, h) * key_dim;  // several heads share one
        float *o = p->mixed + h * value_dim;
        const float *gate = p->kinds->states->gate + h * value_dim;
        float g = -expf(w->decay[h]) * softplus(p->kinds->states->step[h] + w->dt[h]);
        float beta = sigmoid(p->kinds->states->beta[h]);
        step_head(m, s + h * key_dim * value_dim, q + key, k + key, v + h * value_dim, expf(g),
                  beta, o);
        // The norm comes before the gate.
        rmsnorm(o, o, w->norm, value_dim, m->norm_eps);
        for (int64_t c = 0; c < value_dim; c++) o[c] *= silu(gate[c]);
    }
    matmul(p->added, &w->out, p->mixed, p->row);
}

// out = C * convolution of (B * X), each (dim), as in LFM2.
static void short_convolution(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const StatesTensors *w = p->w->kinds->states;
    float *b = p->kinds->states->in;
    const float *c = b + m->dim;
    const float *x = c + m->dim;
    matmul_biased(b, &w->in, p->normed, w->b_in, p->row);
    for (int64_t i = 0; i < m->dim; i++) b[i] *= x[i];
    convolve(p, b, present_state(p), p->mixed);
    for (int64_t i = 0; i < m->dim; i++) p->mixed[i] *= c[i];
    matmul_biased(p->added, &w->out, p->mixed, w->b_out, p->row);
}

static void mix_states(Plain *p, const float *x) {
    (void)x;
    if (p->model->config.kinds->states->kind == STATE_DELTA) gated_delta_rule(p);
    else short_convolution(p);
}

static bool has_states(const Model *model, const Layer *layer) {
    (void)model;
    return layer->extra->flags & LAYER_STATE;
}

static void lay_out_states(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    PlainStates *s = p->kinds->states;
    int64_t n = layers_with_state(p->model, m->n_layers);
    if (n == 0) return;
    p->extra->n_kept = n * state_numbers(m);
    p->extra->kept = arena_take(arena, p->extra->n_kept, sizeof(float));
    s->in = arena_take(arena, state_inputs(m), sizeof(float));
    s->gate = arena_take(arena, state_width(m), sizeof(float));
    s->beta = arena_take(arena, m->kinds->states->value_heads, sizeof(float));
    s->step = arena_take(arena, m->kinds->states->value_heads, sizeof(float));
    if (p->mixed_width < state_width(m)) p->mixed_width = state_width(m);
}

static void describe_states(const Model *m, Teller *tell, void *whose) {
    const StatesConfig *s = m->config.kinds->states;
    int n = layers_with_state(m, m->config.n_layers);
    static const char *const by[N_STATES] = {"", "the gated delta rule", "a short convolution",
                                             "Mamba 2"};
    char words[120];
    if (n == 0) return;
    snprintf(words, sizeof words, "%d of %d layers keep a state, by %s, and know no positions", n,
             m->config.n_layers, by[s->kind]);
    tell(whose, "states", words, false);
    snprintf(words, sizeof words, "%.0f", (double)(n * state_numbers(&m->config)) * sizeof(float));
    tell(whose, "state_bytes", words, true);
}

const Kind states_kind = {
    .parts = {[OF_MODEL] = {sizeof(StatesConfig), offsetof(struct ModelParts, states)},
              [OF_LAYER] = {sizeof(StatesTensors), offsetof(struct LayerParts, states)},
              [OF_TEXT] = {sizeof(PlainStates), offsetof(struct PlainParts, states)}},
    .fields = fields_of_states,
    .n_fields = sizeof fields_of_states / sizeof fields_of_states[0],
    .check = check_states,
    .check_layers = check_state_layers,
    .add_tensors = add_states_tensors,
    .describe = describe_states,
    .lay_out = lay_out_states,
    .has = has_states,
    .mix = mix_states,
};
