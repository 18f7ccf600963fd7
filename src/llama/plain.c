// The forward pass as its definition: a token goes straight down through the model, in the order of
// llama2.c. Read this before transformer.c, which computes the same numbers fast;
// tests/test_plain.py compares them. --plain runs any job by this file: one thread and float32.
//
// A key is kept unturned. The query is turned instead, for each key anew, by the distance
// between the two. So every RoPE method and distance map stands here as its formula. What few
// models or options need stands beside it: turns.c, scores.c, latent.c,
// states.c, experts.c, per_layer.c, encodings.c. In comments d is head_dim.
#include "plain.h"

#include <math.h>
#include <string.h>

#include "../kinds/encodings.h"
#include "../kinds/experts.h"
#include "../kinds/latent.h"
#include "../kinds/per_layer.h"
#include "../kinds/scores.h"
#include "../kinds/states.h"
#include "../kinds/turns.h"
#include "arithmetic.h"

// ---- RoPE ----

// The angles of the present token. Where its query at m meets a key at n, each pair turns by the
// angle D(m, n) f: the distance between the two times the pair's frequency. Query and key both have
// the attention factor.
static void fill_turns(Plain *p, Turns *t, int length) {
    RopeFreqs now;
    rope_frequencies(t->rope, length, &now);
    double factor = now.attention_factor * now.attention_factor;
    float *cosine = t->cosines;
    float *sine = t->sines;
    int query = place_of(p, p->i);
    for (int j = 0; j <= p->i; j++) {
        int key = place_of(p, j);
        double distance = rope_distance(t->rope, query, key);
        for (int pair = 0; pair < now.n_pairs; pair++) {
            rope_cos_sin(now.inv_freq[pair], distance, factor, cosine, sine);
            cosine++;
            sine++;
        }
    }
}

// ---- attention ----

// out (rows) = w @ x, and a bias (rows) if there is one.
static void project(const Plain *p, float *out, const Matrix *w, const float *x,
                    const float *bias) {
    matmul(out, w, x, p->row);
    if (bias) add(out, 1, bias, w->rows);
}

// The norm of the residual stream x (dim), or of what is added to it.
static void norm(const Plain *p, float *out, const float *x, const float *weight, double eps) {
    const ModelConfig *m = &p->model->config;
    if (m->layer_norm) layernorm(out, x, weight, m->dim, eps);
    else rmsnorm(out, x, weight, m->dim, eps);
}

// What a layer reads of x (dim): its norm, unless the layer norms only what it adds.
static void read_normed(Plain *p, const float *x, const float *weight) {
    const ModelConfig *m = &p->model->config;
    if (weight) norm(p, p->normed, x, weight, m->norm_eps);
    else memcpy(p->normed, x, m->dim * sizeof(float));
}

// x (dim) += what a layer adds to it, normed before that if there are weights for it.
static void add_normed(Plain *p, float *x, const float *weight) {
    const ModelConfig *m = &p->model->config;
    double eps = m->after_norm_eps > 0 ? m->after_norm_eps : m->norm_eps;
    float scale = m->residual_scale > 0 ? (float)m->residual_scale : 1;
    if (weight) norm(p, p->added, p->added, weight, eps);
    add(x, scale, p->added, m->dim);
}

// A norm of each of the n heads of x (n, d), or one of them all; most families have none.
static void norm_heads(const Plain *p, float *x, int n, const float *weight) {
    const ModelConfig *m = &p->model->config;
    int64_t d = p->w->shape.head_dim;
    int64_t all = n * d;
    bool is_whole = m->qk_norm == QK_NORM_WHOLE;
    int64_t width = is_whole ? all : d;
    if (!is_whole && !layer_norms_heads(p->w, m)) return;
    if (m->qk_norm_late) turn_heads(p, x, n);
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
    int n = w->shape.n_kv_heads;
    int64_t value_dim = layer_value_dim(m, w);
    if (w->shape.kv_layer != p->layer) return;
    project(p, k, &w->wk, p->normed, w->bk);
    if (w->flags & LAYER_KEYS_ARE_VALUES) memcpy(v, k, n * value_dim * sizeof(float));
    else project(p, v, &w->wv, p->normed, w->bv);
    for (int h = 0; m->value_norm && h < n; h++) {
        rmsnorm(v + h * value_dim, v + h * value_dim, NULL, value_dim, m->norm_eps);
    }
    norm_heads(p, k, n, w->k_norm);
}

// x += wo @ mixed. A head mixes the values of all tokens, each by how well its key meets the query,
// which is turned by the distance between the two: arXiv 1706.03762, with RoPE of arXiv 2104.09864.
static void attention(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    int n_heads = w->shape.n_heads;
    int64_t d = w->shape.head_dim;
    int64_t value_dim = layer_value_dim(m, w);  // d in most models

    // q (n_heads * d), k (n_kv_heads * d) and v (n_kv_heads * value_dim); the last two stay for the
    // tokens to come
    float *k = kv_row(p, p->keys, p->i);
    float *v = value_row(p, p->i);
    read_normed(p, x, w->attention_norm);
    if (m->kv_rank) {
        project_latent(p, k, v);
    } else {
        project(p, p->q, &w->wq, p->normed, w->bq);
        project_keys(p, k, v);
    }
    norm_heads(p, p->q, n_heads, w->q_norm);
    fill_distances(p);  // of encodings before RoPE

    // The elements behind these do not turn. Where norms come behind RoPE, all have turned by now.
    int n_pairs = m->qk_norm_late ? 0 : turning_pairs(p);
    float scale = query_scale(p);  // 1 / sqrt(d) in most models
    for (int h = 0; h < n_heads; h++) {
        // scores (i + 1) = scale * q . k, where q (d) turns to meet each k (d)
        const float *q = p->q + h * d;
        for (int j = 0; j <= p->i; j++) {
            const float *key = kv_head(p, p->keys, j, h);
            int64_t angle = (int64_t)j * n_pairs;
            memcpy(p->turned, q, d * sizeof(float));
            rope_rotate(p->turned, n_pairs, p->turns->cosines + angle, p->turns->sines + angle);
            p->scores[j] = scale * dot(p->turned, key, d);
        }
        change_scores(p, h);  // where there are windows, jumps or other encodings

        // mixed (value_dim) = the sum over j of softmax(scores)[j] * value[j]. A learned sink is one score
        // more, without a value: weight goes to it when no key is worth it.
        float *mixed = p->mixed + h * value_dim;
        int n = p->i + 1;
        if (w->sinks) p->scores[n++] = w->sinks[h];
        softmax(p->scores, n);
        memset(mixed, 0, value_dim * sizeof(float));
        for (int j = 0; j <= p->i; j++) {
            const float *value = value_head(p, j, h);
            add(mixed, p->scores[j], value, value_dim);
        }
        if (m->encoding == ENCODING_SHAW) mix_shaw(p, h);
    }
    change_mixed(p);
    matmul(p->added, &w->wo, p->mixed, p->row);
    if (w->bo) add(p->added, 1, w->bo, m->dim);
    add_normed(p, x, w->attention_after);
}

// The same of layers that keep a state, and do not attend: most of Qwen 3.5's, or LFM2's.
static void add_state(Plain *p, float *x) {
    read_normed(p, x, p->w->attention_norm);
    if (p->model->config.state_kind == STATE_DELTA) gated_delta_rule(p);
    else short_convolution(p);
    add_normed(p, x, p->w->attention_after);
}

// ---- feed-forward ----

// What a gate makes of the number beside it.
static float times_gate(const Plain *p, float gate, float up) {
    int activation = p->model->config.activation;
    if (activation == ACTIVATION_CLAMPED) return clamped_swiglu(gate, up);
    float factor = activation == ACTIVATION_GELU ? gelu(gate) : silu(gate);
    return factor * up;
}

// What becomes of a number without a gate beside it.
static float activated(const Plain *p, float up) {
    bool is_xielu = p->model->config.activation == ACTIVATION_XIELU;
    return is_xielu ? xielu(up, p->w->xielu) : relu2(up);
}

// out (dim) = w2 @ (silu(w1 @ x) * (w3 @ x)), of the layer or of one of its experts.
// SwiGLU, arXiv 2002.05202; with GELU in place of SiLU it is GeGLU. Without w1 it is w2 @ f(w3 @ x).
static void feed_forward(const Plain *p, const FeedForward *w, const float *x, float *out) {
    float *gate = p->gate;
    float *up = p->up;
    bool has_gate = w->w1.rows > 0;
    if (has_gate) project(p, gate, &w->w1, x, w->b1);
    project(p, up, &w->w3, x, w->b3);
    for (int64_t e = 0; e < w->w3.rows; e++) {
        up[e] = has_gate ? times_gate(p, gate[e], up[e]) : activated(p, up[e]);
    }
    matmul(out, &w->w2, up, p->row);
    if (w->b2) add(out, 1, w->b2, w->w2.rows);
}

// added (dim) += what expert e makes, by its weight, which may multiply what it reads instead
static void add_expert(Plain *p, int e) {
    const ModelConfig *m = &p->model->config;
    FeedForward expert = expert_of(&p->w->ffn, m->n_experts, e);
    float weight = p->routing.weights[e];
    if (p->w->expert_scales) weight *= p->w->expert_scales[e];
    memcpy(p->expert_input, p->normed, m->dim * sizeof(float));
    if (m->router_scales_input) scale_all(p->expert_input, weight, m->dim);
    feed_forward(p, &expert, p->expert_input, p->expert);
    add(p->added, m->router_scales_input ? 1 : weight, p->expert, m->dim);
}

// added (dim) += what the expert makes that every token takes, by its gate if it has one
static void add_shared_expert(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    float weight = w->shared_gate ? sigmoid(dot(w->shared_gate, p->normed, m->dim)) : 1;
    feed_forward(p, &w->shared, p->normed, p->expert);
    add(p->added, weight, p->expert, m->dim);
}

// added (dim) = the sum of what the chosen experts make of what is normed
static void add_chosen(Plain *p) {
    const ModelConfig *m = &p->model->config;
    memset(p->added, 0, m->dim * sizeof(float));
    for (int e = 0; e < m->n_experts; e++) {
        if (p->routing.is_chosen[e]) add_expert(p, e);
    }
}

// The same, and what the shared one makes.
static void mix_experts(Plain *p) {
    const ModelConfig *m = &p->model->config;
    choose_experts(m, p->w, p->normed, &p->routing);
    add_chosen(p);
    if (m->shared_hidden_dim) add_shared_expert(p);
}

// added (dim) = rmsnorm(the dense layer of what is normed) + rmsnorm(the experts). The router and
// the experts read x (dim) behind norms of their own.
static void mix_beside(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    feed_forward(p, &w->shared, p->normed, p->beside);
    rmsnorm(p->beside, p->beside, w->shared_after, m->dim, m->norm_eps);
    rmsnorm(p->normed, x, w->router_norm, m->dim, m->norm_eps);
    scale_all(p->normed, 1 / sqrtf((float)m->dim), m->dim);
    choose_experts(m, w, p->normed, &p->routing);
    rmsnorm(p->normed, x, w->experts_norm, m->dim, m->norm_eps);
    add_chosen(p);
    rmsnorm(p->added, p->added, w->experts_after, m->dim, m->norm_eps);
    add(p->added, 1, p->beside, m->dim);
}

// The feed-forward layer: x += feed_forward(rmsnorm(x)), or a mix of experts of that. With
// NORM_PARALLEL it reads what attention has read.
static void add_feed_forward(Plain *p, float *x) {
    bool is_parallel = p->model->config.norm_place == NORM_PARALLEL;
    if (!is_parallel) read_normed(p, x, p->w->ffn_norm);
    if (p->w->router_norm) mix_beside(p, x);
    else if (p->w->router) mix_experts(p);
    else feed_forward(p, &p->w->ffn, p->normed, p->added);
    add_normed(p, x, p->w->ffn_after);
}

// ---- forward ----

// What families do otherwise than Llama, a line or two each below: biases (Qwen2), norms of heads
// (Qwen3) or of all heads together (OLMo 2), heads that turn in part (Phi-4), layers that do not
// turn (SmolLM3), that have a window (Mistral), and that then turn by settings of their own (Gemma
// 3); norms of what a layer adds (OLMo 2), or of what it reads and adds (Gemma 3); GELU, scales of
// embedding and scores (Gemma 3); queries that grow with their position (Ministral 3); experts
// (Mixtral, Qwen3-MoE), and learned sinks (gpt-oss); norms of heads behind RoPE (Hunyuan); a norm
// that takes the mean away, and one for attention and feed-forward together (Cohere 2); scales of
// what is added and of logits (Granite), caps (Gemma 2), no gate in the feed-forward layer (Arcee,
// Apertus), a gate of attention (Muse-Glimmer), and chunks (Llama 4).

static void forget_states(Plain *p) {
    int64_t n = layers_with_state(p->model, p->model->config.n_layers);
    if (n) memset(p->states, 0, n * state_numbers(&p->model->config) * sizeof(float));
}

// The angles of the present token by one RoPE, which p->turns then is: place_of asks it.
static void fill_angles(Plain *p, Turns *t, int length) {
    bool is_uneven = p->config->stale_keys || t->rope->unscaled_positions > 0 ||
                     norms_cancel_factor(&p->model->config);
    p->turns = t;
    if (p->model->config.qk_norm_late) fill_own_turns(p, t, length);
    else if (is_uneven) fill_uneven_turns(p, t, length);
    else fill_turns(p, t, length);
}

int plain_forward(Plain *p, int32_t token, int i, int length, float *x) {
    const ModelConfig *m = &p->model->config;
    p->i = i;
    if (i == 0) forget_states(p);

    // x (dim) = the token's row of the embedding (vocab_size, dim)
    const float *row = weights_row(&p->model->embedding, token, p->row);
    memcpy(x, row, m->dim * sizeof *x);
    if (m->embedding_norm) rmsnorm(x, x, NULL, m->dim, m->norm_eps);
    if (m->embedding_scale > 0) scale_all(x, (float)m->embedding_scale, m->dim);
    if (m->per_layer_dim) embed_by_layer(p, token, x);
    int bad = all_finite(x, m->dim) ? m->n_layers : -1;  // the first bad layer; n_layers: none

    // Positions enter here, in the angles or in the embedding.
    if (m->encoding != ENCODING_ROPE) add_position(p, x);
    else fill_angles(p, &p->full, length);
    if (m->sliding_rope) fill_angles(p, &p->sliding, length);

    for (int l = 0; l < m->n_layers; l++) {
        p->layer = l;
        p->w = &p->model->layers[l];
        bool turns_apart = p->w->flags & LAYER_SLIDING;
        p->turns = turns_apart ? &p->sliding : &p->full;
        if (p->w->flags & LAYER_STATE) add_state(p, x);
        else attention(p, x);
        add_feed_forward(p, x);
        end_layer(p, x);
        if (bad == m->n_layers && !all_finite(x, m->dim)) bad = l;
    }
    return bad;
}

void plain_logits(Plain *p, const float *x, float *logits) {
    const ModelConfig *m = &p->model->config;
    norm(p, p->normed, x, p->model->final_norm, m->norm_eps);
    matmul(logits, &p->model->classifier, p->normed, p->row);
    if (m->logit_scale > 0) scale_all(logits, (float)m->logit_scale, m->vocab_size);
    for (int i = 0; i < m->vocab_size && m->logit_cap > 0; i++) {
        logits[i] = capped(logits[i], (float)m->logit_cap);
    }
}
