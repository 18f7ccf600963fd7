// The forward pass as its definition: a token goes straight down through the model, in the order of llama2.c. Read this
// before transformer.c, which computes the same numbers fast; tests/test_plain.py compares them. --plain runs any job
// by this file: one thread, float32, and a loop where a formula has a sum.
//
// A key is kept as wk makes it. The query is turned instead, for each key anew, by the distance between the two. So
// every RoPE method, distance map and other encoding stands here as its formula. In comments d is head_dim.
#include "plain.h"

#include <math.h>
#include <string.h>

// out = x / sqrt(mean(x^2) + eps) * weight, all (n)
static void rmsnorm(float *out, const float *x, const float *weight, int64_t n, double eps) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + (float)eps);
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale * weight[i];
}

static float dot(const float *a, const float *b, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add(float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

// W (rows, cols) @ x (cols) + bias (rows) -> out (rows). Weights of any type are widened to float32 row by row.
static void matmul(const Plain *p, float *out, const Matrix *w, const float *x, const float *bias) {
    for (int64_t r = 0; r < w->rows; r++) {
        matrix_row(w, r, 0, w->cols, p->row);
        out[r] = dot(p->row, x, w->cols) + (bias ? bias[r] : 0);
    }
}

// x (n) = exp(x) / sum(exp(x)). The largest is subtracted first, so that exp stays in range.
static void softmax(float *x, int n) {
    float max = x[0], sum = 0;
    for (int i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int i = 0; i < n; i++) sum += x[i] = expf(x[i] - max);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

// ---- positions ----

// Where token i stands: at i, unless the text jumps.
static int at(const Plain *p, int i) { return spread_position(&p->config->spread, i); }

// RoPE: a query at m that meets a key at n turns by D(m, n) times each pair's frequency f. Unscaled positions have
// another f, and stale keys that of the step that read them: their part of D then turns by the difference, too.
static void fill_turns(Plain *p, int i, int length) {
    const RopeConfig *c = &p->config->rope;
    int n_pairs = c->rotary_dim / 2, m = at(p, i);
    RopeFreqs now, then;
    rope_frequencies(c, length, &now);
    then = now;
    p->lengths[i] = length;
    for (int j = 0; j <= i; j++) {
        if (p->config->stale_keys) rope_frequencies(c, p->lengths[j], &then);
        double distance = rope_distance(c, m, at(p, j)), key_part = rope_parts(c, at(p, j)).key;
        double factor = now.attention_factor * then.attention_factor;
        for (int pair = 0; pair < n_pairs; pair++) {
            double f = now.inv_freq[pair];
            double query = m * (rope_speed(c, &now, pair, m) - f);
            double key = key_part * (rope_speed(c, &then, pair, at(p, j)) - f);
            double angle = distance * f + query - key;
            p->cosines[j * n_pairs + pair] = (float)(factor * cos(angle));
            p->sines[j * n_pairs + pair] = (float)(factor * sin(angle));
        }
    }
}

// q (d), turned to meet the key k (d) at j, times k. The elements behind the pairs do not turn.
static float turned_dot(const Plain *p, const float *q, const float *k, int j) {
    int r = p->config->rope.rotary_dim;
    const float *cosines = p->cosines + j * (r / 2), *sines = p->sines + j * (r / 2);
    float sum = 0;
    for (int e = 0; e < r; e += 2) {
        float c = cosines[e / 2], s = sines[e / 2];
        sum += (q[e] * c - q[e + 1] * s) * k[e] + (q[e] * s + q[e + 1] * c) * k[e + 1];
    }
    return sum + dot(q + r, k + r, p->model->config.head_dim - r);
}

// R (dim), or PE: sin and cos of position * theta^(-2i / dim) at 2i and 2i + 1. arXiv 1706.03762, section 3.5.
static const float *sinusoids(Plain *p, int position) {
    int64_t dim = p->model->config.dim;
    for (int64_t i = 0; i < dim; i++) {
        double angle = position * pow(p->model->rope.theta, -(double)(i - i % 2) / dim);
        p->added[i] = (float)(i % 2 ? cos(angle) : sin(angle));
    }
    return p->added;
}

// ---- attention ----

// A head (d) of token i, in one of the arrays (n_layers, context, n, d); the token's row begins with head 0.
static float *head_of(const Plain *p, float *array, int layer, int i, int n, int head) {
    return array + (((int64_t)layer * p->config->context + i) * n + head) * p->model->config.head_dim;
}

// Two encodings make vectors of distances, from R_distance (dim) by the layer's matrices: a key that each query meets,
// and disentangled also a query that each key meets. Token i has one new distance, and more where the text jumps.
static void fill_distances(Plain *p, int layer, int i) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = &p->model->layers[layer];
    for (int back = 0; p->distance_keys && back <= i; back++) {
        int distance = at(p, i) - at(p, i - back), *known = p->distances + (int64_t)layer * p->config->context + back;
        if (back < i && *known == distance) continue;
        const float *r = sinusoids(p, *known = distance);
        float *k = head_of(p, p->distance_keys, layer, back, m->n_kv_heads, 0);
        matmul(p, k, m->encoding == ENCODING_TRANSFORMER_XL ? &w->wr : &w->wk, r, NULL);
        if (!p->distance_queries) continue;
        matmul(p, head_of(p, p->distance_queries, layer, back, m->n_heads, 0), &w->wq, r, NULL);
    }
}

// Shaw's tables (encoding_rows, d) end somewhere. All distances behind the last row take that row.
static int64_t clipped(const ModelConfig *m, int d) { return d < m->encoding_rows ? d : m->encoding_rows - 1; }

// The score of head h of the query of token i with the key of token j. kr and qr are the key and query of the distance.
static float score(const Plain *p, int layer, int h, int i, int j) {
    const ModelConfig *m = &p->model->config;
    const RopeConfig *c = &p->config->rope;
    const Layer *w = &p->model->layers[layer];
    int d = (int)m->head_dim, n = m->n_kv_heads, kv = h / (m->n_heads / n);  // query heads share a key head
    const float root = sqrtf((float)d), *q = p->q + h * d, *k = head_of(p, p->keys, layer, j, n, kv);
    const float *kr = p->distance_keys ? head_of(p, p->distance_keys, layer, i - j, n, kv) : NULL;
    const float *qr = p->distance_queries ? head_of(p, p->distance_queries, layer, i - j, m->n_heads, h) : NULL;
    switch (m->encoding) {
    case ENCODING_ROPE:  // q turned by D(i, j) . k, arXiv 2104.09864, and logn
        return (float)rope_logn(c, at(p, i)) * (w->flags & LAYER_NOPE ? dot(q, k, d) : turned_dot(p, q, k, j)) / root;
    case ENCODING_ALIBI:  // q . k / sqrt(d) - 2^(-8h / H) distance for head h from 1 to H, arXiv 2108.12409
        return dot(q, k, d) / root - (float)(exp2(-8.0 * (h + 1) / m->n_heads) * (at(p, i) - at(p, j)));
    case ENCODING_SHAW:  // q . (k + aK of the distance), arXiv 1803.02155
        return (dot(q, k, d) + dot(q, w->a_keys + clipped(m, at(p, i) - at(p, j)) * d, d)) / root;
    case ENCODING_TRANSFORMER_XL:  // q . k + q . W_R R + u . k + v . W_R R, arXiv 1901.02860
        return (dot(q, k, d) + dot(q, kr, d) + dot(w->u + h * d, k, d) + dot(w->v + h * d, kr, d)) / root;
    case ENCODING_DISENTANGLED:  // q . k + q . W_k R + W_q R . k: TUPE, arXiv 2006.15595, and DeBERTa, 2006.03654
        return (dot(q, k, d) + dot(q, kr, d) + dot(qr, k, d)) / root;
    default: return dot(q, k, d) / root;  // nothing tells positions, or the embeddings do
    }
}

// One head of the query of token i: mixed (d) = sum over j of softmax(scores)[j] * value[j]. Shaw adds to the values.
static void attend(Plain *p, int layer, int h, int i) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = &p->model->layers[layer];
    const RopeConfig *c = &p->config->rope;
    const Watch *watch = &p->config->watch;
    int n = m->n_kv_heads, kv = h / (m->n_heads / n);
    float *mixed = p->mixed + h * m->head_dim;
    for (int j = 0; j <= i; j++) {
        bool sees = (w->flags & LAYER_SEES_ALL && !c->all_slide) || rope_sees(c, at(p, i), at(p, j));
        p->scores[j] = sees ? score(p, layer, h, i, j) : -INFINITY;
        if (p->config->spread.crowd) p->scores[j] += (float)log(spread_crowd(&p->config->spread, i, j));
    }
    if (watch->scores && layer == watch->layer && h == watch->head)
        memcpy(watch->scores, p->scores, (i + 1) * sizeof *p->scores);
    softmax(p->scores, i + 1);
    memset(mixed, 0, m->head_dim * sizeof *mixed);
    for (int j = 0; j <= i; j++) {
        const float *v = head_of(p, p->values, layer, j, n, kv);
        const float *a = w->a_values ? w->a_values + clipped(m, at(p, i) - at(p, j)) * m->head_dim : NULL;
        for (int64_t e = 0; e < m->head_dim; e++) mixed[e] += p->scores[j] * (a ? v[e] + a[e] : v[e]);
    }
}

// ---- forward ----

int plain_forward(Plain *p, int32_t token, int i, int length, float *x) {
    const ModelConfig *m = &p->model->config;
    int64_t dim = m->dim, d = m->head_dim;
    int position = at(p, i);

    // x (dim) = the token's row of the embedding (vocab_size, dim)
    matrix_row(&p->model->embedding, token, 0, dim, x);
    int bad = all_finite(x, dim) ? m->n_layers : -1;
    if (m->encoding == ENCODING_LEARNED) add(x, p->model->learned + position * dim, dim);
    if (m->encoding == ENCODING_SINUSOIDAL) add(x, sinusoids(p, position), dim);
    if (m->encoding == ENCODING_ROPE) fill_turns(p, i, length);

    for (int l = 0; l < m->n_layers; l++) {
        const Layer *w = &p->model->layers[l];
        float *k = head_of(p, p->keys, l, i, m->n_kv_heads, 0);
        float *v = head_of(p, p->values, l, i, m->n_kv_heads, 0);

        // q (n_heads * d), k and v (n_kv_heads * d), which stay for the tokens to come; Qwen3 norms each head
        rmsnorm(p->normed, x, w->attention_norm, dim, m->norm_eps);
        matmul(p, p->q, &w->wq, p->normed, w->bq);
        matmul(p, k, &w->wk, p->normed, w->bk);
        matmul(p, v, &w->wv, p->normed, w->bv);
        for (int h = 0; w->q_norm && h < m->n_heads; h++)
            rmsnorm(p->q + h * d, p->q + h * d, w->q_norm, d, m->norm_eps);
        for (int h = 0; w->k_norm && h < m->n_kv_heads; h++) rmsnorm(k + h * d, k + h * d, w->k_norm, d, m->norm_eps);

        // attention: mixed (n_heads * d), head by head; x += wo @ mixed
        fill_distances(p, l, i);
        for (int h = 0; h < m->n_heads; h++) attend(p, l, h, i);
        matmul(p, p->added, &w->wo, p->mixed, w->bo);
        add(x, p->added, dim);

        // feed-forward: x += w2 @ (silu(w1 @ rmsnorm(x)) * (w3 @ rmsnorm(x))), silu(z) = z / (1 + exp(-z))
        rmsnorm(p->normed, x, w->ffn_norm, dim, m->norm_eps);
        matmul(p, p->gate, &w->w1, p->normed, NULL);
        matmul(p, p->up, &w->w3, p->normed, NULL);
        for (int64_t e = 0; e < m->hidden_dim; e++) p->gate[e] *= p->up[e] / (1 + expf(-p->gate[e]));
        matmul(p, p->added, &w->w2, p->gate, NULL);
        add(x, p->added, dim);
        if (bad == m->n_layers && !all_finite(x, dim)) bad = l;
    }
    return bad;
}

void plain_logits(Plain *p, const float *x, float *logits) {
    rmsnorm(p->normed, x, p->model->final_norm, p->model->config.dim, p->model->config.norm_eps);
    matmul(p, logits, &p->model->classifier, p->normed, NULL);
}

uint64_t plain_lay_out(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    int64_t context = p->config->context, d = m->head_dim, heads = m->n_heads * d, rows = m->n_layers * context;
    int64_t kv = m->n_kv_heads * d, widest = m->hidden_dim > m->dim ? m->hidden_dim : m->dim;
    bool has_queries = m->encoding == ENCODING_DISENTANGLED, is_xl = m->encoding == ENCODING_TRANSFORMER_XL;
    p->keys = arena_take(arena, rows, kv * sizeof(float));
    p->values = arena_take(arena, rows, kv * sizeof(float));
    uint64_t kept = arena->used;
    p->distance_keys = has_queries || is_xl ? arena_take(arena, rows, kv * sizeof(float)) : NULL;
    p->distance_queries = has_queries ? arena_take(arena, rows, heads * sizeof(float)) : NULL;
    p->lengths = arena_take(arena, context, sizeof(int));
    p->distances = arena_take(arena, m->n_layers * context, sizeof(int));
    p->cosines = arena_take(arena, context * (p->config->rope.rotary_dim / 2), sizeof(float));
    p->sines = arena_take(arena, context * (p->config->rope.rotary_dim / 2), sizeof(float));
    p->scores = arena_take(arena, context, sizeof(float));
    float **vectors[] = {&p->normed, &p->added, &p->q, &p->mixed, &p->gate, &p->up, &p->row};
    for (int i = 0; i < 7; i++) *vectors[i] = arena_take(arena, widest > heads ? widest : heads, sizeof(float));
    return kept;
}
