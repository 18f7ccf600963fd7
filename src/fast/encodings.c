// Encodings other than RoPE, each as its formula: vectors for embeddings, and tables of terms for attention.c.
#include "encodings.h"

#include <math.h>
#include <string.h>

#include "widen.h"

// Element i of PE(position), or of R_d for a distance, turns by so many radians per position.
static double speed(const Model *m, int64_t i) { return pow(m->rope.theta, -(double)(i - i % 2) / m->config.dim); }

static float sinusoid(int64_t i, double angle) { return (float)(i % 2 ? cos(angle) : sin(angle)); }

// x_t += P[t], a learned table (encoding_rows, dim): arXiv 1705.03122. Or x_t += PE(t): arXiv 1706.03762, section 3.5.
static float element(const Model *m, int64_t position, int64_t i) {
    return m->learned ? m->learned[position * m->config.dim + i] : sinusoid(i, position * speed(m, i));
}

void encoding_vector(const Model *m, int64_t position, float *out) {
    for (int64_t i = 0; i < m->config.dim; i++) out[i] = element(m, position, i);
}

bool encoding_has_terms(int encoding) { return encoding >= ENCODING_ALIBI; }  // see model.h

// score -= 2^(-8h/H) d for head h = 1 ... H. ALiBi, arXiv 2108.12409.
float encoding_slope(int head, int n_heads) { return (float)exp2(-8.0 * (head + 1) / n_heads); }

// Shaw et al., arXiv 1803.02155: score += q . aK[c] / sqrt(head_dim), out += weight aV[c], with c = min(d,
// encoding_rows - 1) and two tables (encoding_rows, head_dim) a layer, for all heads. `row` is one element of a head.
static void shaw(const DistanceTerms *t, int layer, int64_t row) {
    const Layer *l = &t->model->layers[layer];
    int64_t d = t->model->config.head_dim, width = whole_vectors(d), last = t->model->config.encoding_rows - 1;
    float *keys = t->rows + (layer * d + row) * t->columns, *values = t->values + layer * t->columns * width;
    for (int64_t j = 0; j < t->columns; j++) {
        int64_t distance = t->reach - 1 - j, at = (distance < last ? distance : last) * d + row;
        keys[j] = distance < 0 ? 0 : l->a_keys[at];
        values[j * width + row] = distance < 0 ? 0 : l->a_values[at];
        for (int64_t i = d; row == d - 1 && i < width; i++) values[j * width + i] = 0;
    }
}

// Transformer-XL, Dai et al., arXiv 1901.02860, section 3.3: score = ((q + u) . k + (q + v) . W_R R_d) /
// sqrt(head_dim), with W_R (n_kv_heads * head_dim, dim), u and v (n_heads * head_dim).
//
// Disentangled, what surveys give for TUPE, arXiv 2006.15595, and DeBERTa, 2006.03654: score = (q . k + q . W_k R_d +
// W_q R_d . k) / sqrt(head_dim), by the matrices of q and k, without biases and head norms.
//
// Both: a row is one of W_R, or one of W_k and then of W_q, times all R_d. weights (dim) is memory for that row.
static void project(const DistanceTerms *t, int layer, int64_t row, float *weights) {
    const ModelConfig *m = &t->model->config;
    const Layer *l = &t->model->layers[layer];
    bool is_query = row >= t->key_rows;
    const Matrix *of_keys = m->encoding == ENCODING_TRANSFORMER_XL ? &l->wr : &l->wk;
    float *out = t->rows + (layer * t->n_rows + row) * t->columns;
    matrix_row(is_query ? &l->wq : of_keys, is_query ? row - t->key_rows : row, 0, m->dim, weights);
    if (is_query) scale_by(weights, model_score_scale(m), m->dim);
    memset(out, 0, t->columns * sizeof *out);
    gemm_accumulate(&(Gemm){1, t->columns, m->dim, weights, m->dim, t->sinusoids, NUMBER_F32, t->columns, out, NULL});
}

// Memory for a table; NULL when it has no rows.
static float *table(Arena *arena, int64_t rows, int64_t columns) {
    return rows ? arena_take(arena, rows, columns * sizeof(float)) : NULL;
}

void encoding_lay_out(DistanceTerms *t, Arena *arena, const Model *model, int64_t n_blocks) {
    const ModelConfig *m = &model->config;
    int64_t d = m->head_dim, reach = n_blocks * KV_BLOCK, columns = reach + KV_BLOCK;
    bool has_slopes = m->encoding == ENCODING_ALIBI, is_shaw = m->encoding == ENCODING_SHAW;
    int64_t elements = has_slopes || is_shaw ? 0 : m->dim;  // of R_d
    *t = (DistanceTerms){.model = model, .reach = reach, .columns = columns};
    if (!encoding_has_terms(m->encoding)) return;
    if (!has_slopes) t->key_rows = is_shaw ? d : m->n_kv_heads * d;
    t->n_rows = t->key_rows + (m->encoding == ENCODING_DISENTANGLED ? m->n_heads * d : 0);
    t->slopes = table(arena, has_slopes ? m->n_heads : 0, 1);
    t->rows = table(arena, m->n_layers * t->n_rows, columns);
    t->values = table(arena, is_shaw ? m->n_layers * columns : 0, whole_vectors(d));
    t->sinusoids = table(arena, elements, columns);
    t->weights = table(arena, elements, thread_count());
    for (int h = 0; t->slopes && h < m->n_heads; h++) t->slopes[h] = encoding_slope(h, m->n_heads);
}

static void fill_tables_by_team(const Team *team, DistanceTerms *t) {
    const ModelConfig *m = &t->model->config;
    int n_rows = t->n_rows, n = m->n_layers * n_rows, dim = m->dim;
    for (int i = team_first(team, dim), end = team_end(team, dim); t->sinusoids && i < end; i++) {
        double step = speed(t->model, i);
        float *out = t->sinusoids + i * t->columns;
        for (int64_t d = t->reach - 1; d >= -KV_BLOCK; d--) *out++ = d < 0 ? 0 : sinusoid(i, d * step);
    }
    team_wait(team);
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++) {
        if (m->encoding == ENCODING_SHAW) shaw(t, i / n_rows, i % n_rows);
        else project(t, i / n_rows, i % n_rows, t->weights + team->number * m->dim);
    }
    team_wait(team);
    if (team->number == 0) t->filled = true;
}

void encoding_prepare_by_team(const Team *team, DistanceTerms *t, const Spread *spread, float *x, int first, int n) {
    const ModelConfig *m = &t->model->config;
    bool adds = m->encoding == ENCODING_LEARNED || m->encoding == ENCODING_SINUSOIDAL;
    for (int row = team_first(team, n), end = team_end(team, n); adds && row < end; row++)
        for (int64_t i = 0; i < m->dim; i++)
            x[row * m->dim + i] += element(t->model, spread_position(spread, first + row), i);
    if (t->n_rows > 0 && !t->filled) fill_tables_by_team(team, t);
    team_wait(team);
}
