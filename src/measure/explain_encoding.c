// What an encoding other than RoPE adds, in numbers: by distance, and where it has a say, by layer and head.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../forward/encodings.h"
#include "measure.h"

typedef struct {
    const char *adds, *value, *source;
    bool by_layer, by_head;
} Explanation;

static const Explanation explanations[N_ENCODINGS] = {
    [ENCODING_NONE] = {"nothing: only the past is seen, and that is all that tells positions", "0", "arXiv 2305.19466",
                       false, false},
    [ENCODING_LEARNED] = {"x_t += P[t]", "mean of P[t] . P[t + d]", "arXiv 1705.03122", false, false},
    [ENCODING_SINUSOIDAL] = {"x_t += PE(t)", "PE(t) . PE(t + d)", "arXiv 1706.03762", false, false},
    [ENCODING_ALIBI] = {"score -= 2^(-8h/H) d", "what is added to the score", "arXiv 2108.12409", false, true},
    [ENCODING_SHAW] = {"score += q . aK[d] / sqrt(head_dim), value += aV[d]", "aK[0] . aK[d]", "arXiv 1803.02155", true,
                       false},
    [ENCODING_TRANSFORMER_XL] = {"score += (q . W_R R_d + u . k + v . W_R R_d) / sqrt(head_dim)",
                                 "v . W_R R_d / sqrt(head_dim)", "arXiv 1901.02860", true, true},
    [ENCODING_DISENTANGLED] = {"score += (q . W_k R_d + W_q R_d . k) / sqrt(head_dim)", "|W_k R_d| / sqrt(head_dim)",
                               "arXiv 2006.15595, 2006.03654", true, true},
};

static double dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

// The product of the vectors added at two positions, the mean over all that are `distance` apart.
static double product_of_added(const Model *m, int distance, float *x, float *y) {
    const int64_t dim = m->config.dim, n = m->learned ? m->config.encoding_rows - distance : 1;
    double sum = 0;
    for (int64_t t = 0; t < n; t++) {
        encoding_vector(m, t, x);
        encoding_vector(m, t + distance, y);
        sum += dot(x, y, dim) / (double)n;
    }
    return sum;
}

// Of W_R R_d with v, or of W_k R_d its length. x (dim), y (dim).
static double value_of_projection(const Model *m, const Layer *l, int head, int distance, float *x, float *y) {
    const ModelConfig *c = &m->config;
    const int64_t d = c->head_dim, kv_head = head / (c->n_heads / c->n_kv_heads);
    double sum = 0;
    encoding_vector(m, distance, x);
    for (int64_t i = 0; i < d; i++) {
        matrix_row(l->v ? &l->wr : &l->wk, kv_head * d + i, 0, c->dim, y);
        const double r = dot(x, y, c->dim);
        sum += l->v ? (double)l->v[head * d + i] * r : r * r;
    }
    return (l->v ? sum : sqrt(sum)) / sqrt((double)d);
}

static double value_of(const Model *m, int layer, int head, int distance, float *x) {
    const ModelConfig *c = &m->config;
    const Layer *l = &m->layers[layer];
    const int64_t row = distance < c->encoding_rows ? distance : c->encoding_rows - 1;
    switch (c->encoding) {
    case ENCODING_NONE: return 0;
    case ENCODING_ALIBI: return -(double)encoding_slope(head, c->n_heads) * distance;
    case ENCODING_SHAW: return dot(l->a_keys, l->a_keys + row * c->head_dim, c->head_dim);
    case ENCODING_LEARNED:
    case ENCODING_SINUSOIDAL: return product_of_added(m, distance, x, x + c->dim);
    default: return value_of_projection(m, l, head, distance, x, x + c->dim);
    }
}

bool explain_encoding(const Measurement *measured, Error *err) {
    const Model *m = measured->model;
    const ModelConfig *c = &m->config;
    const Explanation *e = &explanations[c->encoding];
    const int length = m->learned && measured->length > c->encoding_rows ? c->encoding_rows : measured->length;
    float *x = alloc_array(2 * (uint64_t)c->dim, sizeof *x, "positions", err);
    if (!x) return false;
    Table t = table_open(SHAPE_LIST, m->rope.train_ctx, measured->options->tsv);
    table_note(&t, "encoding", "%s", encoding_names[c->encoding]);
    table_note(&t, "adds", "%s", e->adds);
    table_note(&t, "source", "%s", e->source);
    table_note(&t, "train_ctx", "%d", m->rope.train_ctx);
    table_note(&t, "length", "%d", length);
    if (c->encoding_rows) table_note(&t, "encoding_rows", "%d", c->encoding_rows);
    table_note(&t, "value", "%s", e->value);
    table_columns(&t, "layer\thead\tdistance\tvalue");
    for (int layer = 0; layer < (e->by_layer ? c->n_layers : 1); layer++)
        for (int head = 0; head < (e->by_head ? c->n_heads : 1); head++)
            for (int64_t d = 0; d < 2 * (int64_t)length - 2 || d == 0; d = d ? 2 * d : 1) {
                const int distance = d < length ? (int)d : length - 1;  // 0, 1, 2, 4 ... length - 1
                char where[2][16] = {"-", "-"};
                if (e->by_layer) snprintf(where[0], sizeof where[0], "%d", layer);
                if (e->by_head) snprintf(where[1], sizeof where[1], "%d", head);
                table_row(&t, NULL, "%s\t%s\t%d\t%.6g", where[0], where[1], distance,
                          value_of(m, layer, head, distance, x));
            }
    table_end(&t);
    free(x);
    return true;
}
