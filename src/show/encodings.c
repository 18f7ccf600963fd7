// --explain for a model with a position encoding other than RoPE: its contribution to scores, by
// distance.
#include "show.h"

#include <math.h>
#include <stdlib.h>

#include "../fast/matmul.h"
#include "../kinds/encodings.h"
#include "../kinds/parts.h"

// The contribution of an encoding other than RoPE, and whether it differs between layers and heads.
typedef struct {
    const char *adds, *value, *source;
    bool by_layer, by_head;
} Explanation;

static const Explanation explanations[N_ENCODINGS] = {
    [ENCODING_NONE] = {"no encoding: positions follow only from seeing the past", "0",
                       "arXiv 2305.19466", false, false},
    [ENCODING_LEARNED] = {"x_t += P[t]", "mean of P[t] . P[t + d]", "arXiv 1705.03122", false,
                          false},
    [ENCODING_SINUSOIDAL] = {"x_t += PE(t)", "PE(t) . PE(t + d)", "arXiv 1706.03762", false, false},
    [ENCODING_ALIBI] = {"score -= 2^(-8h/H) d", "the amount added to the score", "arXiv 2108.12409",
                        false, true},
    [ENCODING_SHAW] = {"score += q . aK[d] / sqrt(head_dim), value += aV[d]", "aK[0] . aK[d]",
                       "arXiv 1803.02155", true, false},
    [ENCODING_TRANSFORMER_XL] = {"score += (q . W_R R_d + u . k + v . W_R R_d) / sqrt(head_dim)",
                                 "v . W_R R_d / sqrt(head_dim)", "arXiv 1901.02860", true, true},
    [ENCODING_DISENTANGLED] = {"score += (q . W_k R_d + W_q R_d . k) / sqrt(head_dim)",
                               "|W_k R_d| / sqrt(head_dim)", "arXiv 2006.15595, 2006.03654", true,
                               true},
};

static double dot_in_double(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

// The product of the vectors added at two positions, averaged over all positions that are
// `distance` apart.
static double product_of_added(const Model *m, int distance, float *x, float *y) {
    int64_t dim = m->config.dim;
    int64_t n = m->config.kinds->encoding->learned ? m->config.kinds->encoding->rows - distance : 1;
    double sum = 0;
    for (int64_t t = 0; t < n; t++) {
        encoding_vector(m, t, x);
        encoding_vector(m, t + distance, y);
        sum += dot_in_double(x, y, dim) / (double)n;
    }
    return sum;
}

// v . W_R R_d, or |W_k R_d| in a layer without v, divided by sqrt(head_dim). x (dim) and y (dim)
// are scratch memory.
static double value_of_projection(const Model *m, const Layer *l, int head, int distance, float *x,
                                  float *y) {
    const ModelConfig *c = &m->config;
    int64_t d = c->head_dim;
    int64_t kv_head = head / (c->n_heads / c->n_kv_heads);
    double sum = 0;
    encoding_vector(m, distance, x);
    for (int64_t i = 0; i < d; i++) {
        matrix_row(encoding_maker(m, l), kv_head * d + i, 0, c->dim, y);
        double r = dot_in_double(x, y, c->dim);
        sum += l->kinds->encoding->v ? (double)l->kinds->encoding->v[head * d + i] * r : r * r;
    }
    return (l->kinds->encoding->v ? sum : sqrt(sum)) / sqrt((double)d);
}

static double value_of(const Model *m, int layer, int head, int distance, float *x) {
    const ModelConfig *c = &m->config;
    const Layer *l = &m->layers[layer];
    const float *a = l->kinds->encoding->a_keys;  // of Shaw's
    switch (c->extra->rope_layers.encoding) {
    case ENCODING_NONE: return 0;
    case ENCODING_ALIBI: return -encoding_slope(head, c->n_heads) * distance;
    case ENCODING_SHAW:
        return dot_in_double(a, a + encoding_row(m, distance) * c->head_dim, c->head_dim);
    case ENCODING_LEARNED:
    case ENCODING_SINUSOIDAL: return product_of_added(m, distance, x, x + c->dim);
    default: return value_of_projection(m, l, head, distance, x, x + c->dim);
    }
}

bool explain_encoding(const Job *job, Error *err) {
    const Model *m = job->model;
    const ModelConfig *c = &m->config;
    const Explanation *e = &explanations[c->extra->rope_layers.encoding];
    int reach = m->config.most_positions;
    int length = reach && job->length > reach ? reach : job->length;
    float *x = alloc_array(2 * (uint64_t)c->dim, sizeof *x, "positions", err);
    if (!x) return false;
    Table t = table_open(job->form);
    table_note(&t, "encoding", "%s", encoding_names[c->extra->rope_layers.encoding]);
    table_note(&t, "adds", "%s", e->adds);
    table_note(&t, "source", "%s", e->source);
    table_note_number(&t, "train_ctx", "%d", m->rope.train_ctx);
    table_note_number(&t, "length", "%d", length);
    if (c->kinds->encoding->rows)
        table_note_number(&t, "encoding_rows", "%d", c->kinds->encoding->rows);
    note_model(&t, job);
    table_note(&t, "value", "%s", e->value);
    table_columns(&t, as_list, "layer\thead\tdistance\tvalue");
    for (int layer = 0; layer < (e->by_layer ? c->n_layers : 1); layer++)
        for (int head = 0; head < (e->by_head ? c->n_heads : 1); head++)
            for (int64_t d = 0; d < 2 * (int64_t)length - 2 || d == 0; d = d ? 2 * d : 1) {
                int distance = d < length ? (int)d : length - 1;  // 0, 1, 2, 4 ... length - 1
                table_number_if(&t, e->by_layer, "%.0f", layer);
                table_number_if(&t, e->by_head, "%.0f", head);
                table_number(&t, "%.0f", distance);
                table_number(&t, "%.6g", value_of(m, layer, head, distance, x));
                table_end_row(&t);
            }
    table_end(&t);
    free(x);
    return true;
}
