// The forward pass as its definition: a token goes straight down through a Llama, in the order of
// llama2.c. src/fast/transformer.c computes the same numbers fast, and tests/test_plain.py compares
// them. --plain runs any job by this file, on one thread and in float32.
//
// Keys are kept unturned. The query is turned instead, anew for each key, by the distance between
// the two, so every RoPE method and distance map is computed by its formula. In comments d is
// head_dim. The steps of other kinds of models come from their table (kind.h).
#include "forward.h"

#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "kind.h"

// The angles of the present token. Where its query at i meets a key at j, each pair turns by the
// angle D(i, j) f, the distance times the pair's frequency. Query and key each bring the attention
// factor.
static void fill_angles(Plain *p, int length) {
    RopeFreqs now;
    rope_frequencies(p->rope, length, &now);
    double factor = now.attention_factor * now.attention_factor;
    int64_t at = 0;
    for (int j = 0; j <= p->i; j++) {
        double distance = rope_distance(p->rope, p->i, j);
        for (int pair = 0; pair < p->n_pairs; pair++, at++)
            rope_cos_sin(now.inv_freq[pair], distance, factor, &p->cosines[at], &p->sines[at]);
    }
}

// x += wo @ mixed. A head mixes the values of all tokens, each by how well its key matches the query
// (arXiv 1706.03762), which turns by the distance between the two (RoPE, arXiv 2104.09864).
static void attention(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    int64_t d = m->head_dim;
    int64_t kv = m->n_kv_heads * d;
    int sharing = m->n_heads / m->n_kv_heads;                     // heads that share a key
    float *keys = p->keys + (int64_t)p->layer * p->context * kv;  // (context, kv) of this layer
    float *values = p->values + (int64_t)p->layer * p->context * kv;

    // q (n_heads * d), and k and v (kv), which are kept for the tokens to come
    rmsnorm(p->normed, x, w->attention_norm, m->dim, m->norm_eps);
    matmul(p->q, &w->wq, p->normed, p->row);
    matmul(keys + p->i * kv, &w->wk, p->normed, p->row);
    matmul(values + p->i * kv, &w->wv, p->normed, p->row);

    float scale = (float)rope_logn(p->rope, p->i) * (1 / sqrtf((float)d));
    for (int h = 0; h < m->n_heads; h++) {
        const float *q = p->q + h * d;
        int64_t head = h / sharing * d;

        // scores (i + 1) = q . k / sqrt(d), where q (d) turns to meet each k (d)
        for (int j = 0; j <= p->i; j++) {
            const float *k = keys + j * kv + head;
            int64_t angle = (int64_t)j * p->n_pairs;
            memcpy(p->turned, q, d * sizeof(float));
            rope_rotate(p->turned, p->n_pairs, p->cosines + angle, p->sines + angle);
            p->scores[j] = scale * dot(p->turned, k, d);
            if (!rope_sees(p->rope, p->i, j)) p->scores[j] = -INFINITY;
        }
        softmax(p->scores, p->i + 1);

        // mixed (d) = the sum over j of scores[j] * v[j]
        float *mixed = p->mixed + h * d;
        memset(mixed, 0, d * sizeof(float));
        for (int j = 0; j <= p->i; j++) add(mixed, p->scores[j], values + j * kv + head, d);
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
    EACH_KIND_THAT (embed, k) (*k)->embed(p, token, x);
    int bad = all_finite(x, m->dim) ? m->n_layers : -1;  // the first bad layer; n_layers: none

    if (p->n_pairs > 0) fill_angles(p, length);
    EACH_KIND_THAT (place, k) (*k)->place(p, length, x);

    for (int l = 0; l < m->n_layers; l++) {
        p->layer = l;
        p->w = &p->model->layers[l];
        p->steps[l].mix(p, x);   // attention
        p->steps[l].feed(p, x);  // feed_forward
        EACH_KIND_THAT (end_layer, k) (*k)->end_layer(p, x);
        if (bad == m->n_layers && !all_finite(x, m->dim)) bad = l;
    }
    return bad;
}

void plain_logits(Plain *p, const float *x, float *logits) {
    const ModelConfig *m = &p->model->config;
    rmsnorm(p->normed, x, p->model->final_norm, m->dim, m->norm_eps);
    EACH_KIND_THAT (norm, k) (*k)->norm(p, x);
    matmul(logits, &p->model->classifier, p->normed, p->row);
    EACH_KIND_THAT (end, k) (*k)->end(p, logits);
}

// ---- memory ----

static float *floats(Arena *arena, int64_t rows, int64_t width) {
    return arena_take(arena, rows, width * sizeof(float));
}

// A Llama's steps, unless a kind has others.
void plain_choose_steps(Plain *p) {
    for (int l = 0; l < p->model->config.n_layers; l++) {
        p->steps[l] = (struct Steps){attention, feed_forward};
        EACH_KIND_THAT (has, k) {
            if (!(*k)->has(p, &p->model->layers[l])) continue;
            if ((*k)->mix) p->steps[l].mix = (*k)->mix;
            if ((*k)->feed) p->steps[l].feed = (*k)->feed;
        }
    }
}

uint64_t plain_lay_out(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    int64_t heads = m->n_heads * m->head_dim;
    int64_t kv = m->n_kv_heads * m->head_dim;
    int64_t rows = (int64_t)m->n_layers * p->context;
    p->n_pairs = p->rope->rotary_dim / 2;
    p->value_width = kv;
    p->mixed_width = heads;
    p->hidden_width = m->hidden_dim;
    EACH_KIND_THAT (lay_out, k) (*k)->lay_out(p, arena);

    uint64_t before = arena->used;
    p->keys = floats(arena, rows, kv);
    p->values = floats(arena, rows, p->value_width);
    uint64_t kept = arena->used - before;
    p->cosines = floats(arena, p->context, p->n_pairs);
    p->sines = floats(arena, p->context, p->n_pairs);
    p->normed = floats(arena, 1, m->dim);
    p->added = floats(arena, 1, m->dim);
    p->q = floats(arena, 1, heads);
    p->turned = floats(arena, 1, m->head_dim);
    p->scores = floats(arena, 1, p->context + 1);
    p->mixed = floats(arena, 1, p->mixed_width);
    p->gate = floats(arena, 1, p->hidden_width);
    p->up = floats(arena, 1, p->hidden_width);
    p->row = floats(arena, 1, p->model->widest + Q4_PACK);  // with room for a whole last pack
    p->steps = arena_take(arena, m->n_layers, sizeof *p->steps);
    if (p->steps) plain_choose_steps(p);
    return kept;
}
