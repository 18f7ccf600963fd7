// The forward pass as its definition: a token goes straight down through the model, in the order of llama2.c. Read this
// before transformer.c, which computes the same numbers fast; tests/test_plain.py holds it to that. --plain runs any
// job by this file: one thread, float32, and a loop where a formula has a sum.
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
    const float scale = 1 / sqrtf(sum / (float)n + (float)eps);
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

// x (n) = exp(x) / sum(exp(x)); the largest is taken off first, so that exp stays in range
static void softmax(float *x, int n) {
    float max = x[0], sum = 0;
    for (int i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int i = 0; i < n; i++) sum += x[i] = expf(x[i] - max);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

static bool is_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

// ---- positions ------------------------------------------------------------------------------------------------------

// Radians per position of a pair at one position. LongRoPE may leave the first positions as in plain RoPE.
static double speed(const RopeConfig *c, const RopeFreqs *freqs, int position, int pair) {
    const int unscaled = rope_methods[c->method].flags & ROPE_USES_LISTS ? c->unscaled_positions : 0;
    return position < unscaled ? rope_plain(c, pair) : freqs->inv_freq[pair];
}

// RoPE: a query at i that meets a key at j turns by D(i, j) times the frequency f of each pair. Unscaled positions have
// another f, and stale keys keep that of the step that read them: their part of D turns by the difference besides.
static void fill_turns(Plain *p, int i, int length) {
    const RopeConfig *c = p->rope;
    const int n_pairs = c->rotary_dim / 2;
    RopeFreqs now, then;
    rope_frequencies(c, length, &now);
    then = now;
    p->lengths[i] = length;
    for (int j = 0; j <= i; j++) {
        if (p->stale_keys) rope_frequencies(c, p->lengths[j], &then);
        const double distance = rope_distance(c, i, j), key_part = rope_parts(c, j).key;
        const double factor = now.attention_factor * then.attention_factor;
        for (int pair = 0; pair < n_pairs; pair++) {
            const double f = now.inv_freq[pair];
            const double query = i * (speed(c, &now, i, pair) - f), key = key_part * (speed(c, &then, j, pair) - f);
            const double angle = distance * f + query - key;
            p->cosines[j * n_pairs + pair] = (float)(factor * cos(angle));
            p->sines[j * n_pairs + pair] = (float)(factor * sin(angle));
        }
    }
}

// q (d), turned to meet the key k (d) at j, times k. The elements behind the pairs do not turn.
static float turned_dot(const Plain *p, const float *q, const float *k, int j) {
    const int r = p->rope->rotary_dim;
    const float *cosines = p->cosines + j * (r / 2), *sines = p->sines + j * (r / 2);
    float sum = 0;
    for (int e = 0; e < r; e += 2) {
        const float c = cosines[e / 2], s = sines[e / 2];
        sum += (q[e] * c - q[e + 1] * s) * k[e] + (q[e] * s + q[e + 1] * c) * k[e + 1];
    }
    return sum + dot(q + r, k + r, p->model->config.head_dim - r);
}

// R (dim), or PE: sin and cos of position * theta^(-2i / dim) at 2i and 2i + 1. arXiv 1706.03762, section 3.5.
static const float *sinusoids(Plain *p, int position) {
    const int64_t dim = p->model->config.dim;
    for (int64_t i = 0; i < dim; i++) {
        const double angle = position * pow(p->model->rope.theta, -(double)(i - i % 2) / (double)dim);
        p->added[i] = (float)(i % 2 ? cos(angle) : sin(angle));
    }
    return p->added;
}

// ---- attention ------------------------------------------------------------------------------------------------------

// A head (d) of one of the arrays (n_layers, context, n, d), of which a row has n. The row begins with head 0.
static float *head_of(const Plain *p, float *array, int layer, int position, int n, int head) {
    return array + (((int64_t)layer * p->context + position) * n + head) * p->model->config.head_dim;
}

// Two encodings make vectors of distances: a key for each query to meet, of R_distance (dim) by the layer's matrix, and
// disentangled a query for each key to meet. A text has one distance more with every position.
static void fill_distance(Plain *p, int layer, int distance) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = &p->model->layers[layer];
    if (!p->distance_keys) return;
    const float *r = sinusoids(p, distance);
    float *k = head_of(p, p->distance_keys, layer, distance, m->n_kv_heads, 0);
    matmul(p, k, m->encoding == ENCODING_TRANSFORMER_XL ? &w->wr : &w->wk, r, NULL);
    if (!p->distance_queries) return;
    matmul(p, head_of(p, p->distance_queries, layer, distance, m->n_heads, 0), &w->wq, r, NULL);
}

// Shaw's tables (encoding_rows, d) end somewhere: beyond, all distances are one.
static int64_t clipped(const ModelConfig *m, int distance) {
    return distance < m->encoding_rows ? distance : m->encoding_rows - 1;
}

// What the query q (d) of head h at i makes of the key k (d) at j.
static float score(const Plain *p, int layer, int h, int i, int j) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = &p->model->layers[layer];
    const int n = m->n_kv_heads, kv = h / (m->n_heads / n);  // several query heads share a key head
    const int64_t d = m->head_dim;
    const float root = sqrtf((float)d), *q = p->q + h * d, *k = head_of(p, p->keys, layer, j, n, kv);
    const float *kr, *qr;  // of R_(i - j)
    switch (m->encoding) {
    case ENCODING_ROPE:  // q turned by D(i, j) . k, arXiv 2104.09864, and logn
        return (float)rope_logn(p->rope, i) * (w->without_rope ? dot(q, k, d) : turned_dot(p, q, k, j)) / root;
    case ENCODING_ALIBI:  // q . k / sqrt(d) - 2^(-8h / H) (i - j) for head h from 1 to H, arXiv 2108.12409
        return dot(q, k, d) / root - (float)(exp2(-8.0 * (h + 1) / m->n_heads) * (i - j));
    case ENCODING_SHAW:  // q . (k + aK of the distance), arXiv 1803.02155
        return (dot(q, k, d) + dot(q, w->a_keys + clipped(m, i - j) * d, d)) / root;
    case ENCODING_TRANSFORMER_XL:  // q . k + q . W_R R + u . k + v . W_R R, arXiv 1901.02860
        kr = head_of(p, p->distance_keys, layer, i - j, n, kv);
        return (dot(q, k, d) + dot(q, kr, d) + dot(w->u + h * d, k, d) + dot(w->v + h * d, kr, d)) / root;
    case ENCODING_DISENTANGLED:  // q . k + q . W_k R + W_q R . k: TUPE, arXiv 2006.15595, and DeBERTa, 2006.03654
        kr = head_of(p, p->distance_keys, layer, i - j, n, kv);
        qr = head_of(p, p->distance_queries, layer, i - j, m->n_heads, h);
        return (dot(q, k, d) + dot(q, kr, d) + dot(qr, k, d)) / root;
    default: return dot(q, k, d) / root;  // nothing tells positions, or the embeddings do
    }
}

// One head of the query at i: mixed (d) = sum over j of softmax(scores)[j] * value[j]
static void attend(Plain *p, int layer, int h, int i) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = &p->model->layers[layer];
    const int n = m->n_kv_heads, kv = h / (m->n_heads / n);
    const bool slides = !w->sees_all || p->rope->all_slide;
    float *mixed = p->mixed + h * m->head_dim;
    for (int j = 0; j <= i; j++)
        p->scores[j] = !slides || rope_sees(p->rope, i, j) ? score(p, layer, h, i, j) : -INFINITY;
    if (p->watched && layer == p->watched_layer && h == p->watched_head)
        memcpy(p->watched, p->scores, (size_t)(i + 1) * sizeof *p->scores);
    softmax(p->scores, i + 1);
    memset(mixed, 0, (size_t)m->head_dim * sizeof *mixed);
    for (int j = 0; j <= i; j++) {
        const float *v = head_of(p, p->values, layer, j, n, kv);
        // Shaw adds to values, too
        const float *a = w->a_values ? w->a_values + clipped(m, i - j) * m->head_dim : NULL;
        for (int64_t e = 0; e < m->head_dim; e++) mixed[e] += p->scores[j] * (a ? v[e] + a[e] : v[e]);
    }
}

// ---- forward --------------------------------------------------------------------------------------------------------

int plain_forward(Plain *p, int32_t token, int position, int length, float *x) {
    const ModelConfig *m = &p->model->config;
    const int64_t dim = m->dim, d = m->head_dim;

    // x (dim) = the token's row of the embedding (vocab_size, dim)
    matrix_row(&p->model->embedding, token, 0, dim, x);
    int bad = is_finite(x, dim) ? m->n_layers : -1;
    if (m->encoding == ENCODING_LEARNED) add(x, p->model->learned + position * dim, dim);
    if (m->encoding == ENCODING_SINUSOIDAL) add(x, sinusoids(p, position), dim);
    if (m->encoding == ENCODING_ROPE) fill_turns(p, position, length);

    for (int l = 0; l < m->n_layers; l++) {
        const Layer *w = &p->model->layers[l];
        float *k = head_of(p, p->keys, l, position, m->n_kv_heads, 0);
        float *v = head_of(p, p->values, l, position, m->n_kv_heads, 0);

        // q (n_heads * d), k and v (n_kv_heads * d), which stay for the tokens to come; Qwen3 norms each head
        rmsnorm(p->normed, x, w->attention_norm, dim, m->norm_eps);
        matmul(p, p->q, &w->wq, p->normed, w->bq);
        matmul(p, k, &w->wk, p->normed, w->bk);
        matmul(p, v, &w->wv, p->normed, w->bv);
        for (int h = 0; w->q_norm && h < m->n_heads; h++)
            rmsnorm(p->q + h * d, p->q + h * d, w->q_norm, d, m->norm_eps);
        for (int h = 0; w->k_norm && h < m->n_kv_heads; h++) rmsnorm(k + h * d, k + h * d, w->k_norm, d, m->norm_eps);

        // attention: mixed (n_heads * d), head by head; x += wo @ mixed
        fill_distance(p, l, position);
        for (int h = 0; h < m->n_heads; h++) attend(p, l, h, position);
        matmul(p, p->added, &w->wo, p->mixed, w->bo);
        add(x, p->added, dim);

        // feed-forward: x += w2 @ (silu(w1 @ norm(x)) * (w3 @ norm(x))), silu(z) = z / (1 + exp(-z))
        rmsnorm(p->normed, x, w->ffn_norm, dim, m->norm_eps);
        matmul(p, p->gate, &w->w1, p->normed, NULL);
        matmul(p, p->up, &w->w3, p->normed, NULL);
        for (int64_t i = 0; i < m->hidden_dim; i++) p->gate[i] *= p->up[i] / (1 + expf(-p->gate[i]));
        matmul(p, p->added, &w->w2, p->gate, NULL);
        add(x, p->added, dim);
        if (bad == m->n_layers && !is_finite(x, dim)) bad = l;
    }
    return bad;
}

void plain_logits(Plain *p, const float *x, float *logits) {
    rmsnorm(p->normed, x, p->model->final_norm, p->model->config.dim, p->model->config.norm_eps);
    matmul(p, logits, &p->model->classifier, p->normed, NULL);
}

uint64_t plain_lay_out(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    const int64_t context = p->context, d = m->head_dim, heads = m->n_heads * d, rows = m->n_layers * context;
    const int64_t kv = m->n_kv_heads * d, widest = m->hidden_dim > m->dim ? m->hidden_dim : m->dim;
    const bool has_queries = m->encoding == ENCODING_DISENTANGLED;
    const bool has_keys = has_queries || m->encoding == ENCODING_TRANSFORMER_XL;
    p->keys = arena_take(arena, rows, kv * sizeof(float));
    p->values = arena_take(arena, rows, kv * sizeof(float));
    const uint64_t kept = arena->used;
    p->distance_keys = has_keys ? arena_take(arena, rows, kv * sizeof(float)) : NULL;
    p->distance_queries = has_queries ? arena_take(arena, rows, heads * sizeof(float)) : NULL;
    p->lengths = arena_take(arena, context, sizeof(int));
    p->cosines = arena_take(arena, context * (p->rope->rotary_dim / 2), sizeof(float));
    p->sines = arena_take(arena, context * (p->rope->rotary_dim / 2), sizeof(float));
    p->scores = arena_take(arena, context, sizeof(float));
    p->normed = arena_take(arena, m->dim, sizeof(float));
    p->added = arena_take(arena, m->dim, sizeof(float));
    p->q = arena_take(arena, heads, sizeof(float));
    p->mixed = arena_take(arena, heads, sizeof(float));
    p->gate = arena_take(arena, m->hidden_dim, sizeof(float));
    p->up = arena_take(arena, m->hidden_dim, sizeof(float));
    p->row = arena_take(arena, widest > heads ? widest : heads, sizeof(float));
    return kept;
}
