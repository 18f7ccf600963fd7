// The forward pass as its definition: a token goes straight down through the model, in the order of
// llama2.c. Read this before transformer.c, which computes the same numbers fast;
// tests/test_plain.py compares them. --plain runs any job by this file: one thread and float32.
//
// A key is kept as wk makes it. The query is turned instead, for each key anew, by the distance
// between the two. So every RoPE method and distance map stands here as its formula. Encodings
// before RoPE stand in plain_encodings.c. In comments d is head_dim.
#include "plain.h"

#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "plain_private.h"

static void fill_uneven_turns(Plain *p, int length);

// ---- RoPE ----

// The angles of the present token. Where its query at m meets a key at n, each pair turns by the
// angle D(m, n) f: the distance between the two times the pair's frequency. Query and key both have
// the attention factor.
static void fill_turns(Plain *p, int length) {
    const RopeConfig *c = &p->config->rope;
    RopeFreqs now;
    rope_frequencies(c, length, &now);
    double factor = now.attention_factor * now.attention_factor;
    float *cosine = p->cosines;
    float *sine = p->sines;
    for (int j = 0; j <= p->i; j++) {
        double distance = rope_distance(c, place_of(p, p->i), place_of(p, j));
        for (int pair = 0; pair < now.n_pairs; pair++) {
            rope_turn(now.inv_freq[pair], distance, factor, cosine, sine);
            cosine++;
            sine++;
        }
    }
}

// q (d), turned to meet the key k (d) of token j, times k. The elements behind the pairs do not
// turn. arXiv 2104.09864.
static float turned_dot(const Plain *p, const float *q, const float *k, int j) {
    int64_t d = p->model->config.head_dim;
    int n_pairs = p->config->rope.rotary_dim / 2;
    int64_t first = (int64_t)j * n_pairs;
    memcpy(p->turned, q, d * sizeof(float));
    rope_rotate(p->turned, n_pairs, p->cosines + first, p->sines + first);
    return dot(p->turned, k, d);
}

// ---- attention ----

// The score of the query's head h with the key of token j: q turned . k / sqrt(d), times logn.
static float rope_score(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *q = p->q + h * d;
    const float *k = kv_head(p, p->keys, j, h);
    bool turns = !(p->w->flags & LAYER_NOPE);
    float product;
    if (turns) product = turned_dot(p, q, k, j);
    else product = dot(q, k, d);
    double logn = rope_logn(&p->config->rope, place_of(p, p->i));
    return (float)logn * product / sqrtf((float)d);
}

// Whether the query sees the key of token j. A window may hide it.
static bool sees(const Plain *p, int j) {
    const RopeConfig *c = &p->config->rope;
    bool slides = c->all_slide || !(p->w->flags & LAYER_SEES_ALL);
    return !slides || rope_sees(c, place_of(p, p->i), place_of(p, j));
}

// scores (i + 1) of the query's head h with all keys, -infinity where it sees none
static void fill_scores(Plain *p, int h) {
    const Spread *spread = &p->config->spread;
    const Watch *watch = &p->config->watch;
    bool is_rope = p->model->config.encoding == ENCODING_ROPE;
    for (int j = 0; j <= p->i; j++) {
        float *score = &p->scores[j];
        if (!sees(p, j)) *score = -INFINITY;
        else if (is_rope) *score = rope_score(p, h, j);
        else *score = encoded_score(p, h, j);
        double crowd = spread->crowd ? spread_crowd(spread, p->i, j) : 1;
        if (crowd != 1) *score += (float)log(crowd);
    }
    bool is_watched = watch->scores && p->layer == watch->layer && h == watch->head;
    if (is_watched) memcpy(watch->scores, p->scores, (p->i + 1) * sizeof(float));
}

// One head of the query: mixed (d) = sum over j of softmax(scores)[j] * value[j]
static void attend(Plain *p, int h) {
    const ModelConfig *m = &p->model->config;
    int64_t d = m->head_dim;
    float *mixed = p->mixed + h * d;
    fill_scores(p, h);
    softmax(p->scores, p->i + 1);
    memset(mixed, 0, d * sizeof(float));
    for (int j = 0; j <= p->i; j++) {
        const float *value = kv_head(p, p->values, j, h);
        add(mixed, p->scores[j], value, d);
    }
    if (m->encoding == ENCODING_SHAW) mix_shaw(p, h);
}

// ---- forward ----

void matmul(const Plain *p, float *out, const Matrix *w, const float *x) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *row = weights_row(w, r, p->row);
        out[r] = dot(row, x, w->cols);
    }
}

// The same of what a layer has normed, and a bias (rows) if there is one.
static void project(const Plain *p, float *out, const Matrix *w, const float *bias) {
    matmul(p, out, w, p->normed);
    if (bias) add(out, 1, bias, w->rows);
}

// Qwen3 has a norm for each of the n heads of x (n, d); others have none.
static void norm_heads(const Plain *p, float *x, int n, const float *weight) {
    int64_t d = p->model->config.head_dim;
    double eps = p->model->config.norm_eps;
    for (int h = 0; weight && h < n; h++) {
        float *head = x + h * d;
        rmsnorm(head, head, weight, d, eps);
    }
}

// Attention: x += wo @ mixed
static void attention(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;

    // q (n_heads * d); k and v (n_kv_heads * d), which stay for the tokens to come
    float *k = kv_row(p, p->keys, p->i);
    float *v = kv_row(p, p->values, p->i);
    rmsnorm(p->normed, x, w->attention_norm, m->dim, m->norm_eps);
    project(p, p->q, &w->wq, w->bq);
    project(p, k, &w->wk, w->bk);
    project(p, v, &w->wv, w->bv);
    norm_heads(p, p->q, m->n_heads, w->q_norm);
    norm_heads(p, k, m->n_kv_heads, w->k_norm);

    // mixed (n_heads * d), head by head
    fill_distances(p);
    for (int h = 0; h < m->n_heads; h++) {
        attend(p, h);
    }
    matmul(p, p->added, &w->wo, p->mixed);
    add(x, 1, p->added, m->dim);
    if (w->bo) add(x, 1, w->bo, m->dim);
}

// The feed-forward layer: x += w2 @ (silu(w1 @ rmsnorm(x)) * (w3 @ rmsnorm(x))).
// SwiGLU, arXiv 2002.05202.
static void feed_forward(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    float *gate = p->gate;
    float *up = p->up;
    rmsnorm(p->normed, x, w->ffn_norm, m->dim, m->norm_eps);
    project(p, gate, &w->w1, NULL);
    project(p, up, &w->w3, NULL);
    for (int64_t e = 0; e < m->hidden_dim; e++) {
        gate[e] = silu(gate[e]) * up[e];
    }
    matmul(p, p->added, &w->w2, gate);
    add(x, 1, p->added, m->dim);
}

int plain_forward(Plain *p, int32_t token, int i, int length, float *x) {
    const ModelConfig *m = &p->model->config;
    const SessionConfig *c = p->config;
    p->i = i;

    // x (dim) = the token's row of the embedding (vocab_size, dim)
    const float *row = weights_row(&p->model->embedding, token, p->row);
    memcpy(x, row, m->dim * sizeof *x);
    int bad = all_finite(x, m->dim) ? m->n_layers : -1;

    // Positions enter here, in the angles or in the embedding.
    bool is_uneven = c->stale_keys || c->rope.unscaled_positions > 0;
    if (m->encoding != ENCODING_ROPE) add_position(p, x);
    else if (is_uneven) fill_uneven_turns(p, length);
    else fill_turns(p, length);

    for (int l = 0; l < m->n_layers; l++) {
        p->layer = l;
        p->w = &p->model->layers[l];
        attention(p, x);
        feed_forward(p, x);
        if (bad == m->n_layers && !all_finite(x, m->dim)) bad = l;
    }
    return bad;
}

void plain_logits(Plain *p, const float *x, float *logits) {
    const ModelConfig *m = &p->model->config;
    rmsnorm(p->normed, x, p->model->final_norm, m->dim, m->norm_eps);
    matmul(p, logits, &p->model->classifier, p->normed);
}

// ---- RoPE where the position changes the frequency ----

// The angles where f depends on the position. Longrope may leave the first positions unscaled. A
// stale key turned at the scale of the step that read it, at `then`. A distance is a part of the
// query less a part of the key (see rope.h). So the angle D(m, n) f of fill_turns grows by the
// query's part times what f is more at m, and shrinks by the key's part times what f is more at n.
static void fill_uneven_turns(Plain *p, int length) {
    const RopeConfig *c = &p->config->rope;
    int m = place_of(p, p->i);
    RopeFreqs now;
    RopeFreqs then;
    rope_frequencies(c, length, &now);
    p->lengths[p->i] = length;
    for (int j = 0; j <= p->i; j++) {
        int n = place_of(p, j);
        int length_then = p->config->stale_keys ? p->lengths[j] : length;
        rope_frequencies(c, length_then, &then);
        double factor = now.attention_factor * then.attention_factor;
        double distance = rope_distance(c, m, n);
        double key = rope_parts(c, n).key;
        for (int pair = 0; pair < now.n_pairs; pair++) {
            double f = now.inv_freq[pair];
            double query_more = rope_speed(c, &now, pair, m) - f;
            double key_more = rope_speed(c, &then, pair, n) - f;
            double angle = distance * f + m * query_more - key * key_more;
            int64_t place = (int64_t)j * now.n_pairs + pair;
            rope_turn(1, angle, factor, &p->cosines[place], &p->sines[place]);
        }
    }
}

// ---- memory ----

static float *floats(Arena *arena, int64_t rows, int64_t width) {
    return arena_take(arena, rows, width * sizeof(float));
}

uint64_t plain_lay_out(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    int64_t context = p->config->context;
    int64_t rows = m->n_layers * context;
    int64_t heads = m->n_heads * m->head_dim;
    int64_t kv = m->n_kv_heads * m->head_dim;
    int64_t n_pairs = p->config->rope.rotary_dim / 2;
    bool has_queries = m->encoding == ENCODING_DISENTANGLED;
    bool has_keys = has_queries || m->encoding == ENCODING_TRANSFORMER_XL;
    p->keys = floats(arena, rows, kv);
    p->values = floats(arena, rows, kv);
    uint64_t kept = arena->used;
    if (has_keys) p->distance_keys = floats(arena, rows, kv);
    if (has_queries) p->distance_queries = floats(arena, rows, heads);
    p->lengths = arena_take(arena, context, sizeof(int));
    p->distances = arena_take(arena, rows, sizeof(int));
    p->cosines = floats(arena, context, n_pairs);
    p->sines = floats(arena, context, n_pairs);
    p->scores = floats(arena, context, 1);
    p->normed = floats(arena, m->dim, 1);
    p->added = floats(arena, m->dim, 1);
    p->q = floats(arena, heads, 1);
    p->mixed = floats(arena, heads, 1);
    p->turned = floats(arena, m->head_dim, 1);
    p->gate = floats(arena, m->hidden_dim, 1);
    p->up = floats(arena, m->hidden_dim, 1);
    // A row of any matrix, filled up to whole packs of q4.
    int64_t widest = m->dim;
    if (heads > widest) widest = heads;
    if (m->hidden_dim > widest) widest = m->hidden_dim;
    p->row = floats(arena, widest + Q4_PACK, 1);
    return kept;
}
