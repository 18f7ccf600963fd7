// Scores where models or options have them otherwise than the formula in plain.c: layers and models
// without RoPE, scales that grow, windows, and texts with jumps.
#include "scores.h"

#include <math.h>
#include <string.h>

#include "../llama/arithmetic.h"
#include "encodings.h"

int turning_pairs(const Plain *p) {
    bool is_rope = p->model->config.encoding == ENCODING_ROPE;
    bool stands_still = !is_rope || p->w->flags & LAYER_NOPE;
    return stands_still ? 0 : p->turns->rope->rotary_dim / 2;
}

float query_scale(const Plain *p) {
    int position = place_of(p, p->i);
    const RopeConfig *c = p->turns->rope;
    double grown =
        rope_logn(c, position) * layer_temperature(p->w, c, position) * rope_score_growth(c);
    return (float)grown * layer_score_scale(&p->model->config, p->w);
}

// Whether the query sees the key of token j. A window may hide it.
static bool sees(const Plain *p, int j) {
    const RopeConfig *c = p->turns->rope;
    bool has_window = c->all_slide || !(p->w->flags & LAYER_SEES_ALL);
    int query = place_of(p, p->i);
    int key = place_of(p, j);
    int chunk = layer_chunk(p->w, &p->model->config);
    if (chunk && key < query / chunk * chunk) return false;
    return !has_window || rope_sees(c, query, key);
}

void change_scores(Plain *p, int h) {
    const Spread *spread = p->turns->spread;
    const Watch *watch = &p->config->watch;
    bool is_rope = p->model->config.encoding == ENCODING_ROPE;
    float cap = (float)p->model->config.score_cap;
    for (int j = 0; j <= p->i; j++) {
        float *score = &p->scores[j];
        if (!is_rope) *score = encoded_score(p, h, j);
        if (cap > 0) *score = capped(*score, cap);
        if (!sees(p, j)) *score = -INFINITY;
        double crowd = spread->crowd ? spread_crowd(spread, p->i, j) : 1;
        if (crowd != 1) *score += (float)log(crowd);  // a crowd of n keys adds ln n
    }
    bool is_watched = watch->scores && p->layer == watch->layer && h == watch->head;
    size_t bytes = (p->i + 1) * sizeof(float);
    if (is_watched) memcpy(watch->scores, p->scores, bytes);
    if (is_watched && watch->query && !p->model->config.kv_rank) {
        const int head_dim = p->w->shape.head_dim;
        memcpy(watch->query, p->q + h * head_dim, head_dim * sizeof(float));
    }
}

void change_mixed(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Matrix *wg = &p->w->wg;
    int64_t n = p->w->wo.cols;
    if (m->value_scale > 0) scale_all(p->mixed, (float)m->value_scale, n);
    if (!m->attention_gate) return;
    int64_t shared = n / wg->rows;  // elements of a head that one number multiplies
    matmul(p->gates, wg, p->normed, p->row);
    if (p->w->bg) add(p->gates, 1, p->w->bg, wg->rows);
    for (int64_t i = 0; i < n; i++) {
        float gate = p->gates[i / shared];
        p->mixed[i] *= m->attention_gate == GATE_SIGMOID ? sigmoid(gate) : softplus(gate);
    }
}
