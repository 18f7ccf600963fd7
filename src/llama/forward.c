// The forward pass as its definition: a token goes straight down through a Llama, in the order of
// llama2.c and in float32. src/decoder/forward.c has the same steps with those of other families
// between them; --plain runs any job by that. src/fast/forward.c computes the same numbers fast,
// and tests/test_plain.py compares them. In comments d is head_dim.
#include "forward.h"

#include <math.h>
#include <string.h>

#include "arithmetic.h"

// RoPE rotates the query at m by m f and the key at n by n f, where f is a pair's frequency (arXiv
// 2104.09864). Their product then depends only on m - n. A key is rotated once, and cached so:
//     rope(q, m); rope(k, n)
// A distance map has other distances than m - n, and with dynamic scaling or two lists f changes as
// the text grows. Then keys are cached as they are, and the query is rotated for each key, by the
// angle D(m, n) f. That is right for any method; tests/test_definitions.py holds that both ways
// agree.
static bool rotates_once(const Plain *p) {
    bool has_lists = rope_methods[p->rope->method].flags & ROPE_USES_LISTS;
    return !p->rope->map && !p->rope->dynamic && !has_lists;
}

// The angles of the present token: its own, or those at which it meets each key. Query and key each
// bring the attention factor.
static void fill_angles(Plain *p, int length) {
    RopeFreqs now;
    rope_frequencies(p->rope, length, &now);
    double a = now.attention_factor;
    if (rotates_once(p)) {
        for (int pair = 0; pair < p->n_pairs; pair++)
            rope_cos_sin(now.inv_freq[pair], p->i, a, &p->cosines[pair], &p->sines[pair]);
        return;
    }
    int64_t at = 0;
    for (int j = 0; j <= p->i; j++) {
        double distance = rope_distance(p->rope, p->i, j);
        for (int pair = 0; pair < p->n_pairs; pair++, at++)
            rope_cos_sin(now.inv_freq[pair], distance, a * a, &p->cosines[at], &p->sines[at]);
    }
}

// q (d) . k (d) of head h and key j, where the query was rotated once, or is rotated to meet the
// key.
static float product(Plain *p, int h, const float *k, int j) {
    int64_t d = p->model->config.head_dim;
    const float *q = p->q + h * d;
    float *turned = p->turned + h * d;
    int64_t angle = (int64_t)j * p->n_pairs;
    if (rotates_once(p)) return dot(q, k, d);
    memcpy(turned, q, d * sizeof(float));
    rope_rotate(turned, p->n_pairs, p->cosines + angle, p->sines + angle);
    return dot(turned, k, d);
}

// x += wo @ mixed. A head mixes the values of all tokens, each by how well its key matches the
// query (arXiv 1706.03762).
static void attention(Plain *p, float *x) {
    enum { LEAST_FOR_THREADS = 1 << 16 };
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    int64_t d = m->head_dim;
    int64_t kv = m->n_kv_heads * d;
    int sharing = m->n_heads / m->n_kv_heads;                     // heads that share a key
    float *keys = p->keys + (int64_t)p->layer * p->context * kv;  // (context, kv) of this layer
    float *values = p->values + (int64_t)p->layer * p->context * kv;
    float *key = keys + p->i * kv;

    // q (n_heads * d), and k and v (kv), which are kept for the tokens to come
    rmsnorm(p->normed, x, w->attention_norm, m->dim, m->norm_eps);
    matmul(p->q, &w->wq, p->normed, p->row);
    matmul(key, &w->wk, p->normed, p->row);
    matmul(values + p->i * kv, &w->wv, p->normed, p->row);
    for (int h = 0; rotates_once(p) && h < m->n_heads; h++)
        rope_rotate(p->q + h * d, p->n_pairs, p->cosines, p->sines);
    for (int h = 0; rotates_once(p) && h < m->n_kv_heads; h++)
        rope_rotate(key + h * d, p->n_pairs, p->cosines, p->sines);

    double grown = rope_logn(p->rope, p->i) * query_temperature(p->rope, p->i);
    float scale = (float)grown * (1 / sqrtf((float)d));
#pragma omp parallel for if (m->n_heads * d * p->i >= LEAST_FOR_THREADS)
    for (int h = 0; h < m->n_heads; h++) {
        int64_t head = h / sharing * d;
        float *scores = p->scores + h * (p->context + 1L);

        // scores (i + 1) = q . k / sqrt(d)
        for (int j = 0; j <= p->i; j++) {
            bool sees = rope_sees(p->rope, p->i, j);
            scores[j] = sees ? scale * product(p, h, keys + j * kv + head, j) : -INFINITY;
        }
        softmax(scores, p->i + 1);

        // mixed (d) = the sum over j of scores[j] * v[j]
        float *mixed = p->mixed + h * d;
        memset(mixed, 0, d * sizeof(float));
        for (int j = 0; j <= p->i; j++) add(mixed, scores[j], values + j * kv + head, d);
    }
    matmul(p->added, &w->wo, p->mixed, p->row);
    add(x, 1, p->added, m->dim);
}

// x += w2 @ (silu(w1 @ n) * (w3 @ n)), where n is x normed. SwiGLU, arXiv 2002.05202.
static void feed_forward(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    rmsnorm(p->normed, x, w->ffn_norm, m->dim, m->norm_eps);
    matmul(p->gate, &w->w1, p->normed, p->row);
    matmul(p->up, &w->w3, p->normed, p->row);
    for (int64_t e = 0; e < m->hidden_dim; e++) p->up[e] *= silu(p->gate[e]);
    matmul(p->added, &w->w2, p->up, p->row);
    add(x, 1, p->added, m->dim);
}

int plain_forward(Plain *p, int32_t token, int i, int length, float *x) {
    const ModelConfig *m = &p->model->config;
    p->i = i;

    // x (dim) = the token's row of the embedding (vocab_size, dim)
    memcpy(x, weights_row(&p->model->embedding, token, p->row), m->dim * sizeof *x);
    int bad = all_finite(x, m->dim) ? m->n_layers : -1;  // the first bad layer; n_layers: none

    fill_angles(p, length);
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
    matmul(logits, &p->model->classifier, p->normed, p->row);
}

// ---- memory ----

static float *floats(Arena *arena, int64_t rows, int64_t width) {
    return arena_take(arena, rows, width * sizeof(float));
}

void plain_set_widths(Plain *p) {
    const ModelConfig *m = &p->model->config;
    p->n_pairs = p->rope->rotary_dim / 2;
    p->value_width = m->n_kv_heads * m->head_dim;
    p->mixed_width = m->n_heads * m->head_dim;
    p->hidden_width = m->hidden_dim;
}

uint64_t plain_take_arrays(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    int64_t rows = (int64_t)m->n_layers * p->context;
    uint64_t before = arena->used;
    p->keys = floats(arena, rows, m->n_kv_heads * m->head_dim);
    p->values = floats(arena, rows, p->value_width);
    uint64_t kept = arena->used - before;
    p->cosines = floats(arena, p->context, p->n_pairs);
    p->sines = floats(arena, p->context, p->n_pairs);
    p->normed = floats(arena, 1, m->dim);
    p->added = floats(arena, 1, m->dim);
    p->q = floats(arena, 1, m->n_heads * m->head_dim);
    p->turned = floats(arena, m->n_heads, m->head_dim);
    p->scores = floats(arena, m->n_heads, p->context + 1L);
    p->mixed = floats(arena, 1, p->mixed_width);
    p->gate = floats(arena, 1, p->hidden_width);
    p->up = floats(arena, 1, p->hidden_width);
    p->row = floats(arena, MATMUL_PARTS, p->model->widest + Q4_PACK);
    return kept;
}

uint64_t plain_lay_out(Plain *p, Arena *arena) {
    plain_set_widths(p);
    return plain_take_arrays(p, arena);
}
