// Attention as other families have it: a Llama's (src/llama/forward.c) with a line or two more for
// each. Biases (Qwen2), norms of heads (Qwen3) or of all heads together (OLMo 2), or behind RoPE
// (Hunyuan); heads that turn in part (Phi-4), layers that do not turn (SmolLM3), that have a window
// (Mistral) or chunks (Llama 4); scales (Gemma 3) and caps (Gemma 2) of scores, queries that grow
// with their position (Ministral 3), learned sinks (gpt-oss), a gate (Muse-Glimmer).
#include "attention.h"

#include <math.h>
#include <string.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "kinds.h"
#include "rules.h"

// ---- the header and the tensors ----

static const Field fields_of_attention[] = {
    {"sliding_window", 52, U32, 0, MOST, EXTRA(attention.window)},
    {"qkv_bias", 208, U32, 0, 1, EXTRA(attention.qkv_bias)},
    {"o_bias", 212, U32, 0, 1, EXTRA(attention.o_bias)},
    {"qk_norm", 216, U32, 0, N_QK_NORMS - 1, EXTRA(attention.qk_norm), .version_5 = QK_NORM_WHOLE,
     .version_6 = QK_NORM_BARE},
    {"score_scale", 368, F64, 0, MAX_SCALE, EXTRA(attention.score_scale)},
    {"attention_sinks", 408, U32, 0, 1, EXTRA(attention.sinks)},
    {"value_dim", 516, U32, 0, ROPE_MAX_HEAD_DIM, EXTRA(attention.value_dim)},
    {"value_scale", 520, F64, 0, MAX_SCALE, EXTRA(attention.value_scale)},
    {"value_norm", 528, U32, 0, 1, EXTRA(attention.value_norm)},
    {"attention_gate", 532, U32, 0, N_GATES - 1, EXTRA(attention.gate)},
    {"qk_norm_late", 540, U32, 0, 1, EXTRA(attention.qk_norm_late)},
    {"qk_norm_turning", 544, U32, 0, 1, EXTRA(attention.qk_norm_turning)},
    {"score_cap", 576, F64, 0, MAX_SCALE, EXTRA(attention.score_cap)},
    {"attention_chunk", 596, U32, 0, MOST, EXTRA(attention.chunk)},
    {"gate_bias", 716, U32, 0, 1, EXTRA(attention.gate_bias)},
};

static const Rule rules_of_attention[] = {
    {"gate_bias", NEEDS, "attention_gate"},
    {"qk_norm_late qk_norm_turning", NEEDS, "qk_norm"},
    {"qk_norm_late qk_norm_turning", EXCLUDES, "encoding"},
};

static bool check_attention(Model *m, Error *err) {
    const AttentionConfig *a = &m->config.extra->attention;
    if (!CHECK_RULES(m, rules_of_attention, err)) return false;
    return a->qk_norm != QK_NORM_WHOLE || !(a->qk_norm_late || a->qk_norm_turning) ||
           fail(err, "%s with qk_norm %d (expected 1 or 3, a norm of each head)",
                a->qk_norm_late ? "qk_norm_late" : "qk_norm_turning", a->qk_norm);
}

static void list_attention(Model *m, Layer *w, Tensors *t) {
    const AttentionConfig *a = &m->config.extra->attention;
    AttentionTensors *to = &w->extra->attention;
    const LayerShape *of = &w->extra->shape;
    int64_t q = tensor_at(t, &w->wq)->rows, k = tensor_at(t, &w->wk)->rows;
    int64_t v = tensor_at(t, &w->wv)->rows, mixed = tensor_at(t, &w->wo)->cols;
    int64_t dim = m->config.dim, head = of->head_dim;
    bool is_whole = a->qk_norm == QK_NORM_WHOLE;
    bool has_norms = is_whole || a->qk_norm == QK_NORM_HEAD;
    bool has_sinks = a->sinks && !(w->extra->flags & LAYER_WITHOUT_SINKS);
    int64_t gates = a->gate == GATE_SOFTPLUS_HEAD ? of->n_heads : a->gate ? mixed : 0;
    const Tensor rows[] = {
        {171, &to->bq, FLOATS, .rows = a->qkv_bias, .cols = q},
        {172, &to->bk, FLOATS, .rows = a->qkv_bias && k, .cols = k},
        {173, &to->bv, FLOATS, .rows = a->qkv_bias && v, .cols = v},
        {174, &to->q_norm, FLOATS, .rows = has_norms, .cols = is_whole ? q : head},
        {175, &to->k_norm, FLOATS, .rows = has_norms && k, .cols = is_whole ? k : head},
        {190, &to->wg, ATTENTION, .rows = gates, .cols = dim},
        {191, &to->bg, FLOATS, .rows = a->gate_bias && gates, .cols = gates},
        {201, &to->bo, FLOATS, .rows = a->o_bias, .cols = dim},
        {202, &to->sinks, FLOATS, .rows = has_sinks, .cols = of->n_heads},
    };
    if (w->extra->flags & LAYER_STATE) return;
    add_tensors(t, rows, sizeof rows / sizeof rows[0]);
}

bool layer_norms_heads(const Layer *layer, const ModelConfig *c) {
    const AttentionConfig *a = &c->extra->attention;
    bool by_head = a->qk_norm == QK_NORM_HEAD || a->qk_norm == QK_NORM_BARE;
    return by_head && !(a->qk_norm_turning && layer->extra->flags & LAYER_NOPE);
}

int layer_chunk(const Layer *layer, const ModelConfig *c) {
    return layer->extra->flags & LAYER_SEES_ALL ? 0 : c->extra->attention.chunk;
}

int64_t model_value_dim(const ModelConfig *c) {
    int value_dim = c->extra->attention.value_dim;
    return value_dim ? value_dim : c->head_dim;
}

static float score_scale(const ModelConfig *c, int64_t head_dim) {
    double scale = c->extra->attention.score_scale;
    return scale > 0 ? (float)scale : 1 / sqrtf((float)head_dim);
}

float model_score_scale(const ModelConfig *c) { return score_scale(c, c->head_dim); }

float layer_score_scale(const ModelConfig *c, const Layer *layer) {
    return score_scale(c, layer->extra->shape.head_dim);
}

// ---- queries, keys and values ----

float *key_row(const Plain *p, float *keys, int i) {
    const ModelConfig *m = &p->model->config;
    int64_t row = (int64_t)p->w->extra->shape.kv_layer * p->context + i;
    return keys + row * m->n_kv_heads * m->head_dim;
}

float *value_row(const Plain *p, int i) {
    int64_t row = (int64_t)p->w->extra->shape.kv_layer * p->context + i;
    return p->values + row * p->value_width;
}

const float *key_head(const Plain *p, float *keys, int i, int h) {
    const LayerShape *of = &p->w->extra->shape;
    int sharing = of->n_heads / of->n_kv_heads;
    return key_row(p, keys, i) + h / sharing * of->head_dim;
}

static const float *value_head(const Plain *p, int i, int h) {
    const LayerShape *of = &p->w->extra->shape;
    int sharing = of->n_heads / of->n_kv_heads;
    return value_row(p, i) + h / sharing * layer_value_dim(&p->model->config, p->w);
}

// A norm of each of the n heads of x (n, d), or one of them all; most families have none.
static void norm_heads(const Plain *p, float *x, int n, const float *weight) {
    const ModelConfig *m = &p->model->config;
    const AttentionConfig *a = &m->extra->attention;
    int64_t d = p->w->extra->shape.head_dim;
    int64_t all = n * d;
    bool is_whole = a->qk_norm == QK_NORM_WHOLE;
    int64_t width = is_whole ? all : d;
    if (!is_whole && !layer_norms_heads(p->w, m)) return;
    if (a->qk_norm_late) turn_heads(p, x, n);
    if (norms_cancel_factor(m)) take_factor_first(p, x, n);
    for (int64_t at = 0; at < all; at += width) {
        rmsnorm(x + at, x + at, weight, width, m->norm_eps);
    }
}

// k (n_kv_heads * d) and v (n_kv_heads * value_dim), unless the layer reads those of another one. In
// some layers of Gemma 4 keys are values, before they are normed.
static void project_keys(Plain *p, float *k, float *v) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    const AttentionTensors *own = &w->extra->attention;
    int n = w->extra->shape.n_kv_heads;
    int64_t value_dim = layer_value_dim(m, w);
    if (w->extra->shape.kv_layer != p->layer) return;
    matmul_biased(k, &w->wk, p->normed, own->bk, p->row);
    if (w->extra->flags & LAYER_KEYS_ARE_VALUES) memcpy(v, k, n * value_dim * sizeof(float));
    else matmul_biased(v, &w->wv, p->normed, own->bv, p->row);
    for (int h = 0; m->extra->attention.value_norm && h < n; h++) {
        rmsnorm(v + h * value_dim, v + h * value_dim, NULL, value_dim, m->norm_eps);
    }
    norm_heads(p, k, n, own->k_norm);
}

// ---- scores ----

bool query_sees(const Plain *p, int j) {
    const RopeConfig *c = turns_of(p)->rope;
    bool has_window = c->all_slide || !(p->w->extra->flags & LAYER_SEES_ALL);
    int query = place_of(p, p->i);
    int key = place_of(p, j);
    int chunk = layer_chunk(p->w, &p->model->config);
    if (chunk && key < query / chunk * chunk) return false;
    return !has_window || rope_sees(c, query, key);
}

// scores (i + 1) = scale * q . k for the query's head h, or what other encodings have there; bent by
// a cap, and hidden by windows and chunks. Behind a jump a key counts as many.
static void score(Plain *p, int h) {
    const ModelConfig *m = &p->model->config;
    const Turns *turns = turns_of(p);
    const Watch *watch = &p->extra->config->watch;
    int64_t d = p->w->extra->shape.head_dim;
    const PlainAttention *own = &p->extra->attention;
    float cap = (float)m->extra->attention.score_cap;
    // The elements behind these do not turn. Where norms come behind RoPE, all have turned by now.
    int n_pairs = m->extra->attention.qk_norm_late ? 0 : turning_pairs(p);
    int position = place_of(p, p->i);
    double grown = rope_logn(turns->rope, position) *
                   layer_temperature(p->w, turns->rope, position) * score_growth(turns->rope);
    float scale = (float)grown * layer_score_scale(m, p->w);
    for (int j = 0; j <= p->i; j++) {
        int64_t angle = (int64_t)j * n_pairs;
        float *score = &p->scores[j];
        memcpy(p->turned, p->q + h * d, d * sizeof(float));
        rope_rotate(p->turned, n_pairs, turns->cosines + angle, turns->sines + angle);
        if (own->score) *score = own->score(p, h, j);
        else *score = scale * dot(p->turned, key_head(p, p->keys, j, h), d);
        if (cap > 0) *score = capped(*score, cap);
        if (!query_sees(p, j)) *score = -INFINITY;
        double crowd = turns->spread->crowd ? spread_crowd(turns->spread, p->i, j) : 1;
        if (crowd != 1) *score += (float)log(crowd);  // a crowd of n keys adds ln n
    }
    bool is_watched = watch->scores && p->layer == watch->layer && h == watch->head;
    if (is_watched) memcpy(watch->scores, p->scores, (p->i + 1) * sizeof(float));
}

// ---- what is mixed ----

// mixed times a scale, and times what a gate makes of the layer's input: wg @ normed, a number for
// each element or one for each head. Most models have neither.
static void change_mixed(Plain *p) {
    const AttentionConfig *a = &p->model->config.extra->attention;
    const AttentionTensors *own = &p->w->extra->attention;
    float *gates = p->extra->attention.gates;
    int64_t n = p->w->wo.cols;
    if (a->value_scale > 0) scale_all(p->mixed, (float)a->value_scale, n);
    if (!a->gate) return;
    int64_t shared = n / own->wg.rows;  // elements of a head that one number multiplies
    matmul_biased(gates, &own->wg, p->normed, own->bg, p->row);
    for (int64_t i = 0; i < n; i++) {
        float gate = gates[i / shared];
        p->mixed[i] *= a->gate == GATE_SIGMOID ? sigmoid(gate) : softplus(gate);
    }
}

void attend(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const AttentionTensors *own = &p->w->extra->attention;
    const PlainAttention *more = &p->extra->attention;
    int64_t value_dim = layer_value_dim(m, p->w);
    if (more->begin) more->begin(p);
    for (int h = 0; h < p->w->extra->shape.n_heads; h++) {
        score(p, h);

        // mixed (value_dim) = the sum over j of softmax(scores)[j] * value[j]. A learned sink is one
        // score more, without a value: weight goes to it when no key is worth it.
        float *mixed = p->mixed + h * value_dim;
        int n = p->i + 1;
        if (own->sinks) p->scores[n++] = own->sinks[h];
        softmax(p->scores, n);
        memset(mixed, 0, value_dim * sizeof(float));
        for (int j = 0; j <= p->i; j++) add(mixed, p->scores[j], value_head(p, j, h), value_dim);
        if (more->add_values) more->add_values(p, h);
    }
    change_mixed(p);
    matmul_biased(p->added, &p->w->wo, p->mixed, own->bo, p->row);
    add_normed(p, x, p->w->extra->stream.attention_after);
}

void mix_attention(Plain *p, float *x) {
    const Layer *w = p->w;
    read_normed(p, x, w->attention_norm);
    matmul_biased(p->q, &w->wq, p->normed, w->extra->attention.bq, p->row);
    project_keys(p, key_row(p, p->keys, p->i), value_row(p, p->i));
    norm_heads(p, p->q, w->extra->shape.n_heads, w->extra->attention.q_norm);
    attend(p, x);
    const Watch *watch = &p->extra->config->watch;
    int64_t d = w->extra->shape.head_dim;
    if (watch->scores && watch->query && p->layer == watch->layer)
        memcpy(watch->query, p->q + watch->head * d, d * sizeof(float));
}

// ---- whose it is ----

// A layer that differs from a Llama's, or a text that jumps, is watched, or keeps stale keys.
static bool has_attention(const Plain *p, const Layer *layer) {
    static const AttentionConfig none;
    const ModelConfig *m = &p->model->config;
    const SessionConfig *c = p->extra->config;
    bool differs = memcmp(&m->extra->attention, &none, sizeof none) != 0 ||
                   p->extra->attention.score || stream_differs(m) ||
                   !layer_is_usual(p->model, layer);
    bool turns = p->rope->unscaled_positions > 0 || p->rope->mscale_in_scores ||
                 p->rope->temperature_beta != 0;
    return differs || turns || c->stale_keys || c->spread.length || c->watch.scores;
}

static void lay_out_attention(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    p->value_width = m->n_kv_heads * model_value_dim(m);
    p->mixed_width = m->n_heads * model_value_dim(m);
    p->extra->attention.gates =
        arena_take(arena, m->extra->attention.gate ? p->mixed_width : 0, sizeof(float));
}

static void describe_attention(const Model *m, Teller *tell, void *whose) {
    if (m->config.extra->attention.sinks)
        tell(whose, "learned_sinks", "one in each head's softmax", false);
}

const Kind attention_kind = {
    .fields = fields_of_attention,
    .n_fields = sizeof fields_of_attention / sizeof fields_of_attention[0],
    .check = check_attention,
    .add_tensors = list_attention,
    .describe = describe_attention,
    .lay_out = lay_out_attention,
    .has = has_attention,
    .mix = mix_attention,
};
