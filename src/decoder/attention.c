// The parts of attention (forward.c), in which models differ from a Llama: norms of heads (Qwen
// 3), of all heads together (OLMo 2), or after RoPE (Hunyuan); layers that have a window
// (Mistral) or chunks (Llama 4); scales (Gemma 3) and caps (Gemma 2) of scores, queries that grow
// with their position (Ministral 3), a gate of the mix (Qwen3-Next).
#include "attention.h"

#include <math.h>
#include <string.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "layers.h"
#include "rope_layers.h"
#include "rules.h"

// ---- the header and the tensors ----

static const Field fields_of_attention[] = {
    {"sliding_window", 52, U32, 0, MOST, IN_DECODER(attention.window)},
    {"qkv_bias", 208, U32, 0, 1, IN_DECODER(attention.qkv_bias)},
    {"o_bias", 212, U32, 0, 1, IN_DECODER(attention.o_bias)},
    {"qk_norm", 216, U32, 0, N_QK_NORMS - 1, IN_DECODER(attention.qk_norm),
     .version_5 = QK_NORM_WHOLE, .version_6 = QK_NORM_BARE},
    {"score_scale", 368, F64, 0, MAX_SCALE, IN_DECODER(attention.score_scale)},
    {"attention_sinks", 408, U32, 0, 1, IN_DECODER(attention.sinks)},
    {"value_dim", 516, U32, 0, ROPE_MAX_HEAD_DIM, IN_DECODER(attention.value_dim)},
    {"value_scale", 520, F64, 0, MAX_SCALE, IN_DECODER(attention.value_scale)},
    {"value_norm", 528, U32, 0, 1, IN_DECODER(attention.value_norm)},
    {"attention_gate", 532, U32, 0, N_GATES - 1, IN_DECODER(attention.gate)},
    {"qk_norm_late", 540, U32, 0, 1, IN_DECODER(attention.qk_norm_late)},
    {"qk_norm_turning", 544, U32, 0, 1, IN_DECODER(attention.qk_norm_turning)},
    {"score_cap", 576, F64, 0, MAX_SCALE, IN_DECODER(attention.score_cap)},
    {"attention_chunk", 596, U32, 0, MOST, IN_DECODER(attention.chunk)},
    {"gate_bias", 716, U32, 0, 1, IN_DECODER(attention.gate_bias)},
};

static const Rule rules_of_attention[] = {
    {"gate_bias", NEEDS, "attention_gate"},
    {"qk_norm_late qk_norm_turning", NEEDS, "qk_norm"},
};

static bool check_attention(Model *m, Error *err) {
    const AttentionConfig *a = &m->config.extra->attention;
    if (!CHECK_RULES(m, rules_of_attention, err)) return false;
    return a->qk_norm != QK_NORM_WHOLE || !(a->qk_norm_late || a->qk_norm_turning) ||
           fail(err, "%s with qk_norm %d (expected 1 or 3, a norm of each head)",
                a->qk_norm_late ? "qk_norm_late" : "qk_norm_turning", a->qk_norm);
}

// Adds the tensors of attention: biases, norms, a gate, sinks.
static void add_attention_tensors(Model *m, Layer *w, Tensors *t) {
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
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
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

float layer_score_scale(const ModelConfig *c, const Layer *layer) {
    double scale = c->extra->attention.score_scale;
    return scale > 0 ? (float)scale : 1 / sqrtf((float)layer->extra->shape.head_dim);
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

const float *value_head(const Plain *p, int i, int h) {
    const LayerShape *of = &p->w->extra->shape;
    int sharing = of->n_heads / of->n_kv_heads;
    return value_row(p, i) + h / sharing * layer_value_dim(&p->model->config, p->w);
}

void norm_heads(const Plain *p, float *x, int n, const float *weight) {
    const ModelConfig *m = &p->model->config;
    int64_t d = p->w->extra->shape.head_dim;
    int64_t all = n * d;
    bool is_whole = m->extra->attention.qk_norm == QK_NORM_WHOLE;
    int64_t width = is_whole ? all : d;
    if (!is_whole && !layer_norms_heads(p->w, m)) return;
    rotate_before_norm(p, x, n);
    for (int64_t at = 0; at < all; at += width) {
        rmsnorm(x + at, x + at, weight, width, m->norm_eps);
    }
}

// k (n_kv_heads * head_dim) and v (n_kv_heads * value_dim). In some layers of Gemma 4 the values
// are the keys, before these are normed.
void project_keys(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    const AttentionTensors *own = &w->extra->attention;
    int n = w->extra->shape.n_kv_heads;
    int64_t value_dim = layer_value_dim(m, w);
    float *k = key_row(p, p->keys, p->i);
    float *v = value_row(p, p->i);
    matmul_biased(k, &w->wk, p->normed, own->bk, p->row);
    if (w->extra->flags & LAYER_KEYS_ARE_VALUES) memcpy(v, k, n * value_dim * sizeof(float));
    else matmul_biased(v, &w->wv, p->normed, own->bv, p->row);
    for (int h = 0; m->extra->attention.value_norm && h < n; h++) {
        rmsnorm(v + h * value_dim, v + h * value_dim, NULL, value_dim, m->norm_eps);
    }
    norm_heads(p, k, n, own->k_norm);
}

// ---- scores ----

bool query_sees(const Plain *p, int h, int j) {
    const RopeConfig *c = layer_angles(p)->rope;
    const ShortHeads *s = &p->extra->config->short_heads;
    const LayerShape *of = &p->w->extra->shape;
    bool has_window = c->all_slide || !(p->w->extra->flags & LAYER_SEES_ALL);
    int query = layer_position(p, p->i);
    int key = layer_position(p, j);
    int chunk = layer_chunk(p->w, &p->model->config);
    bool is_short = is_short_head(s, p->layer, h / (of->n_heads / of->n_kv_heads)) &&
                    is_shortened(s, has_window ? c->window : 0);
    if (is_short && key < s->sinks) return true;
    if (chunk && key < query / chunk * chunk) return false;
    if (is_short) return query - key < s->window;
    return !has_window || rope_sees(c, query, key);
}

float present_score_scale(const Plain *p) {
    const RopeConfig *rope = layer_angles(p)->rope;
    int position = layer_position(p, p->i);
    double grown =
        rope_logn(rope, position) * layer_temperature(p->w, rope, position) * score_growth(rope);
    return (float)grown * layer_score_scale(&p->model->config, p->w);
}

// The k-th largest of n numbers, which are put into another order (Hoare's selection).
static float largest_number(float *x, int n, int k) {
    int low = 0, high = n - 1;
    while (low < high) {
        float middle = x[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] > middle) i++;
            while (x[j] < middle) j--;
            if (i > j) break;
            float one = x[i];
            x[i++] = x[j];
            x[j--] = one;
        }
        if (k - 1 <= j) high = j;
        else if (k - 1 >= i) low = i;
        else break;
    }
    return x[k - 1];
}

// Hides all keys except those with the best scores. It is an oracle: methods that choose keys
// (Quest, arXiv 2406.10774; DeepSeek V3.2's sparse attention) save the scores that it computes.
static void hide_worse(Plain *p) {
    int best = p->extra->config->best_keys, n = p->i + 1;
    float *sorted = p->extra->attention.sorted;
    if (best == 0 || n <= best) return;
    memcpy(sorted, p->scores, n * sizeof(float));
    float least = largest_number(sorted, n, best);
    for (int j = 0; j < n; j++)
        if (p->scores[j] < least) p->scores[j] = -INFINITY;
}

void finish_scores(Plain *p, int h) {
    const Watch *watch = &p->extra->config->watch;
    float cap = (float)p->model->config.extra->attention.score_cap;
    for (int j = 0; j <= p->i; j++) {
        float *score = &p->scores[j];
        if (cap > 0) *score = capped(*score, cap);
        if (!query_sees(p, h, j)) *score = -INFINITY;
    }
    hide_worse(p);
    float *watched = watched_scores(watch, p->layer, h);
    if (watched) memcpy(watched, p->scores, (p->i + 1) * sizeof(float));
}

void watch_parts(const Plain *p, const float *key, int j, float scale) {
    const Watch *watch = &p->extra->config->watch;
    int64_t d = p->w->extra->shape.head_dim, n = rotating_pairs(p), stride = watch->stride;
    const float *q = p->turned;
    float *parts = watch->parts + j;
    for (int64_t i = 0; i < n; i++) {
        float x = q[2 * i], y = q[2 * i + 1];
        parts[i * stride] = scale * (x * key[2 * i] + y * key[2 * i + 1]);
        parts[(n + i) * stride] = scale * (x * key[2 * i + 1] - y * key[2 * i]);
    }
    parts[2 * n * stride] = scale * dot(q + 2 * n, key + 2 * n, d - 2 * n);
}

// ---- the mixed values ----

// wg @ normed has a number for each element, or one for each head.
void gate_mixed(Plain *p) {
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

static void describe_attention(const Model *m, Teller *tell, void *whose) {
    if (m->config.extra->attention.sinks)
        tell(whose, "learned_sinks", "one in each head's softmax", false);
}

const Kind attention_kind = {
    .fields = fields_of_attention,
    .n_fields = sizeof fields_of_attention / sizeof fields_of_attention[0],
    .check = check_attention,
    .add_tensors = add_attention_tensors,
    .describe = describe_attention,
};
