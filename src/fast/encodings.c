// Encodings other than RoPE, each as its formula: vectors for embeddings, and tables of terms for
// attention.c.
#include "encodings.h"

#include <math.h>
#include <string.h>

#include "kinds.h"

// Element i of PE(position), or of R_d for a distance, turns by so many radians per position.
static double speed(const Model *m, int64_t i) {
    double even = (double)(i - i % 2);
    return pow(m->rope.theta, -even / m->config.dim);
}

static float sinusoid(int64_t i, double angle) { return (float)(i % 2 ? cos(angle) : sin(angle)); }

// x_t += P[t], a learned table (encoding_rows, dim): arXiv 1705.03122. Or x_t += PE(t): arXiv
// 1706.03762, section 3.5.
static float element(const Model *m, int64_t position, int64_t i) {
    const float *learned = m->config.extra->encoding.learned;
    if (learned) return learned[position * m->config.dim + i];
    return sinusoid(i, position * speed(m, i));
}

void encoding_vector(const Model *m, int64_t position, float *out) {
    for (int64_t i = 0; i < m->config.dim; i++) out[i] = element(m, position, i);
}

// Whether an encoding adds terms to attention.
static bool encoding_has_terms(int encoding) { return encoding >= ENCODING_ALIBI; }

// score -= 2^(-8h/H) d for head h = 1 ... H. ALiBi, arXiv 2108.12409.
float encoding_slope(int head, int n_heads) { return (float)exp2(-8.0 * (head + 1) / n_heads); }

int64_t encoding_row(const Model *m, int64_t distance) {
    int64_t last = m->config.extra->encoding.rows - 1;
    return distance < last ? distance : last;
}

const Matrix *encoding_maker(const Model *m, const Layer *l) {
    return model_encoding(m) == ENCODING_TRANSFORMER_XL ? &l->extra->encoding.wr : &l->wk;
}

void encoding_biases(const DistanceTerms *t, int layer, const float **u, const float **v) {
    const EncodingTensors *own = &t->model->layers[layer].extra->encoding;
    *u = own->u;
    *v = own->v;
}

// Shaw et al., arXiv 1803.02155: score += q . aK[c] / sqrt(head_dim), out += weight aV[c], with
// c = min(d, encoding_rows - 1) and two tables (encoding_rows, head_dim) a layer, for all heads.
// `row` is one element of a head.
static void shaw(const DistanceTerms *t, int layer, int64_t row) {
    const Layer *l = &t->model->layers[layer];
    int64_t d = t->model->config.head_dim;
    int64_t width = whole_vectors(d);
    float *keys = t->rows + (layer * d + row) * t->columns;
    float *values = t->values + layer * t->columns * width;
    for (int64_t j = 0; j < t->columns; j++) {
        int64_t distance = t->reach - 1 - j;
        int64_t at = encoding_row(t->model, distance) * d + row;
        bool is_ahead = distance < 0;  // a key that the query does not see
        keys[j] = is_ahead ? 0 : l->extra->encoding.a_keys[at];
        values[j * width + row] = is_ahead ? 0 : l->extra->encoding.a_values[at];
        // Whoever has the last row also clears what is behind it, up to a whole vector.
        for (int64_t i = d; row == d - 1 && i < width; i++) values[j * width + i] = 0;
    }
}

// Transformer-XL, Dai et al., arXiv 1901.02860, section 3.3, with W_R (n_kv_heads * head_dim, dim),
// u and v (n_heads * head_dim):
//     score = ((q + u) . k + (q + v) . W_R R_d) / sqrt(head_dim)
//
// Disentangled, what surveys give for TUPE, arXiv 2006.15595, and DeBERTa, 2006.03654, by the
// matrices of q and k, without biases and head norms:
//     score = (q . k + q . W_k R_d + W_q R_d . k) / sqrt(head_dim)
//
// Both: a row is one of W_R, or one of W_k and then of W_q, times all R_d. weights (dim) is memory
// for that row.
static void project_distances(const DistanceTerms *t, int layer, int64_t row, float *weights) {
    const ModelConfig *m = &t->model->config;
    const Layer *l = &t->model->layers[layer];
    bool is_query = row >= t->key_rows;
    float *out = t->rows + (layer * t->n_rows + row) * t->columns;
    if (is_query) {
        matrix_row(&l->wq, row - t->key_rows, 0, m->dim, weights);
        scale_by(weights, model_score_scale(m), m->dim);
    } else {
        matrix_row(encoding_maker(t->model, l), row, 0, m->dim, weights);
    }
    memset(out, 0, t->columns * sizeof *out);
    gemm_accumulate(&(Gemm){
        .m = 1,
        .n = t->columns,
        .k = m->dim,
        .a = weights,
        .a_stride = m->dim,
        .b = t->sinusoids,
        .b_type = NUMBER_F32,
        .b_stride = t->columns,
        .c = out,
    });
}

// R_d of all distances, an element a row, and zeros behind them.
static void fill_sinusoids_by_team(const Team *team, DistanceTerms *t) {
    int dim = t->model->config.dim;
    int end = team_end(team, dim);
    for (int i = team_first(team, dim); i < end; i++) {
        double step = speed(t->model, i);
        float *out = t->sinusoids + i * t->columns;
        for (int64_t d = t->reach - 1; d >= 0; d--) *out++ = sinusoid(i, d * step);
        memset(out, 0, KV_BLOCK * sizeof *out);
    }
}

static void fill_tables_by_team(const Team *team, DistanceTerms *t) {
    const ModelConfig *m = &t->model->config;
    int n_rows = t->n_rows;
    int n = m->n_layers * n_rows;
    if (t->sinusoids) fill_sinusoids_by_team(team, t);
    team_wait(team);
    int end = team_end(team, n);
    for (int i = team_first(team, n); i < end; i++) {
        int layer = i / n_rows;
        int row = i % n_rows;
        float *weights = t->weights + team->number * m->dim;
        if (model_encoding(t->model) == ENCODING_SHAW) shaw(t, layer, row);
        else project_distances(t, layer, row, weights);
    }
    team_wait(team);
    if (team->number == 0) t->filled = true;
}

// x_t += the vector of its position.
static void add_vectors_by_team(const Team *team, const Model *model, const Spread *spread,
                                float *x, int first, int n) {
    int64_t dim = model->config.dim;
    int end = team_end(team, n);
    for (int row = team_first(team, n); row < end; row++) {
        int position = spread_position(spread, first + row);
        float *at = x + row * dim;
        for (int64_t i = 0; i < dim; i++) at[i] += element(model, position, i);
    }
}

// ---- in attention ----

// The column of the tables where query i meets a block's first key. If that is ahead, no key is
// seen and any will do.
static int64_t column_of(const AttentionTask *k, int64_t i, int block) {
    int64_t distance = k->first + i - block * KV_BLOCK;
    return k->call->terms->reach - 1 - (distance > 0 ? distance : 0);
}

// scores (rows, KV_BLOCK) += s_d . k with a block's keys (head_dim, KV_BLOCK), where the terms have
// rows of s_d.
void add_terms_of_keys(const AttentionTask *k, int block, const float *keys, float *scores) {
    const DistanceTerms *t = k->call->terms;
    int64_t d = k->call->cache->head_dim;
    int64_t first = k->call->layer * t->n_rows + t->key_rows;
    for (int64_t r = 0; r < k->rows; r++) {
        const float *queries = t->rows + (first + head_of(k, r) * d) * t->columns;
        int64_t column = column_of(k, r / k->heads, block);
        add_products(scores + r * KV_BLOCK, queries + column, t->columns, keys, d);
    }
}

// scores += q . r_d, or -slope d. Keys ahead of the query get wrong scores, which are masked later.
void add_terms_of_distances(const AttentionTask *k, int block, float *scores) {
    const DistanceTerms *t = k->call->terms;
    int64_t d = k->call->cache->head_dim;
    if (!t) return;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t column = column_of(k, i, block);
        if (t->rows) {
            int64_t row = k->call->layer * t->n_rows + k->kv_head * d % t->key_rows;
            const float *q = k->scratch->q[FAR] + i * k->heads * d;
            const float *keys = t->rows + row * t->columns + column;
            gemm_accumulate(&(Gemm){
                .m = k->heads,
                .n = KV_BLOCK,
                .k = d,
                .a = q,
                .a_stride = d,
                .b = keys,
                .b_type = NUMBER_F32,
                .b_stride = t->columns,
                .c = scores,
            });
        }
        for (int h = 0; t->slopes && h < k->heads; h++) {
            float slope = t->slopes[k->kv_head * k->heads + h];
            for (int j = 0; j < KV_BLOCK; j++)
                scores[h * KV_BLOCK + j] -= slope * (float)(t->reach - 1 - column - j);
        }
        scores += k->heads * KV_BLOCK;
    }
}

// sums (rows, width) += the weights (rows, KV_BLOCK) . a_d.
void add_terms_of_values(const AttentionTask *k, int block, const float *weights, float *sums) {
    const DistanceTerms *t = k->call->terms;
    int64_t width = k->call->cache->value_width;
    if (!t || !t->values) return;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t row = k->call->layer * t->columns + column_of(k, i, block);
        gemm_accumulate(&(Gemm){
            .m = k->heads,
            .n = width,
            .k = KV_BLOCK,
            .a = weights,
            .a_stride = KV_BLOCK,
            .b = t->values + row * width,
            .b_type = NUMBER_F32,
            .b_stride = width,
            .c = sums,
        });
        weights += k->heads * KV_BLOCK;
        sums += k->heads * width;
    }
}

// ---- a pass ----

// The first call also makes the tables.
static void place_encoding_by_team(const Team *team, Transformer *t, const int32_t *tokens,
                                   int length) {
    int encoding = model_encoding(t->model);
    DistanceTerms *terms = &t->extra->encoding;
    (void)tokens;
    (void)length;
    if (encoding == ENCODING_ROPE) return;
    if (encoding == ENCODING_LEARNED || encoding == ENCODING_SINUSOIDAL)
        add_vectors_by_team(team, t->model, &t->config->spread, t->x, t->first, t->n);
    if (terms->n_rows > 0 && !terms->filled) fill_tables_by_team(team, terms);
    team_wait(team);
}

// Memory for a table; NULL when it has no rows.
static float *take_terms(Arena *arena, int64_t rows, int64_t columns) {
    return rows ? arena_take(arena, rows, columns * sizeof(float)) : NULL;
}

// The tables of what depends on distances, of the context's.
static void lay_out_terms(DistanceTerms *t, Arena *arena, const Model *model, int context) {
    const ModelConfig *m = &model->config;
    int kind = m->extra->encoding.kind;
    int64_t d = m->head_dim;
    int64_t reach = blocks_of(context) * KV_BLOCK;
    int64_t columns = reach + KV_BLOCK;
    bool has_slopes = kind == ENCODING_ALIBI;
    bool is_shaw = kind == ENCODING_SHAW;
    int64_t elements = has_slopes || is_shaw ? 0 : m->dim;  // of R_d
    *t = (DistanceTerms){.model = model, .reach = reach, .columns = columns};
    if (!has_slopes) t->key_rows = is_shaw ? d : m->n_kv_heads * d;
    t->n_rows = t->key_rows;
    if (kind == ENCODING_DISENTANGLED) t->n_rows += m->n_heads * d;
    if (has_slopes) t->slopes = take_terms(arena, m->n_heads, 1);
    t->rows = take_terms(arena, m->n_layers * t->n_rows, columns);
    if (is_shaw) t->values = take_terms(arena, m->n_layers * columns, whole_vectors(d));
    t->sinusoids = take_terms(arena, elements, columns);
    t->weights = take_terms(arena, elements, thread_count());
    if (!t->slopes) return;  // none, or their memory is only counted
    for (int h = 0; h < m->n_heads; h++) t->slopes[h] = encoding_slope(h, m->n_heads);
}

static void lay_out_encoding(Transformer *t, Arena *arena) {
    int encoding = model_encoding(t->model);
    t->extra->turns.stands_still = encoding != ENCODING_ROPE;
    if (!encoding_has_terms(encoding)) return;
    lay_out_terms(&t->extra->encoding, arena, t->model, t->config->context);
    t->extra->attention.terms = &t->extra->encoding;
}

// Tables of what depends on distances are for neighbors that are one apart.
static bool is_plain_encoding(const Model *model, const SessionConfig *config) {
    return config->spread.length && encoding_has_terms(model_encoding(model));
}

const FastKind fast_encodings = {
    .is_plain = is_plain_encoding,
    .lay_out = lay_out_encoding,
    .place_by_team = place_encoding_by_team,
};
