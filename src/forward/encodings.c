// Encodings other than RoPE, each as its formula: first those that add a vector to the embedding, then those that add
// terms to attention, which have tables by distance. Every query has its own place in a table, one column before that
// of the query before it.
#include "encodings.h"

#include <math.h>
#include <string.h>

// ---- vectors that are added to embeddings ---------------------------------------------------------------------------

// x_t += P[t], a table (encoding_rows, dim) that is learned; behind its last row there is nothing. arXiv 1705.03122.
static void learned(const Model *m, int64_t position, float *x) {
    const float *row = m->learned + position * m->config.dim;
    for (int64_t i = 0; i < m->config.dim; i++) x[i] += row[i];
}

// Element i of PE(position), or of R_d for a distance, turns by so many radians per position.
static double speed(const Model *m, int64_t i) {
    return pow(m->rope.theta, -(double)(i - i % 2) / (double)m->config.dim);
}

static float sinusoid(int64_t i, double angle) { return (float)(i % 2 ? cos(angle) : sin(angle)); }

void encoding_sinusoids(const Model *m, int64_t position, float *x) {
    for (int64_t i = 0; i < m->config.dim; i++) x[i] = sinusoid(i, (double)position * speed(m, i));
}

// x_t += PE(t), which is not learned: clocks of every speed, as RoPE has them. arXiv 1706.03762, section 3.5.
static void sinusoidal(const Model *m, int64_t position, float *x) {
    for (int64_t i = 0; i < m->config.dim; i++) x[i] += sinusoid(i, (double)position * speed(m, i));
}

EncodingAdd *encoding_added(int encoding) {
    return encoding == ENCODING_LEARNED ? learned : encoding == ENCODING_SINUSOIDAL ? sinusoidal : NULL;
}

void encoding_add_by_team(const Team *team, const Model *m, float *x, int first, int n) {
    EncodingAdd *add = encoding_added(m->config.encoding);
    int begin, end;
    if (!add) return;
    team_share(team, n, &begin, &end);
    for (int t = begin; t < end; t++) add(m, first + t, x + t * m->config.dim);
    team_wait(team);
}

// ---- tables of terms that are added to scores -----------------------------------------------------------------------

// out (columns) = row number `row` of a matrix, times `scale`, . R_d
static void project(const EncodingTerms *e, const Matrix *m, int64_t row, float scale, float *weights, float *out) {
    const int64_t columns = e->layers->columns;
    Gemm product = {.m = 1, .n = columns, .k = m->cols, .a = weights, .a_stride = m->cols, .b = e->sinusoids};
    product.b_type = NUMBER_F32;
    product.c = out;
    product.b_stride = product.c_stride = columns;
    matrix_row(m, row, 0, m->cols, weights);
    scale_by(weights, scale, m->cols);
    memset(out, 0, (size_t)columns * sizeof *out);
    gemm_accumulate(&product);
}

// score -= 2^(-8h/H) d for head h = 1 ... H: no table, nothing learned, the far is dim. ALiBi, arXiv 2108.12409.
float encoding_slope(int head, int n_heads) { return (float)exp2(-8.0 * (head + 1) / n_heads); }

// score += q . aK[c] / sqrt(head_dim), out += weight aV[c], c = min(d, rows - 1): two tables (encoding_rows, head_dim)
// a layer, for all heads; beyond their last row all distances are one. Shaw et al., arXiv 1803.02155. `row` is one
// element of a head.
static void shaw(const EncodingTerms *e, int layer, int64_t row, float *weights) {
    const DistanceTerms *t = &e->layers[layer];
    const Layer *l = &e->model->layers[layer];
    const int64_t d = e->model->config.head_dim, width = whole_vectors(d), last = e->model->config.encoding_rows - 1;
    (void)weights;
    for (int64_t j = 0; j < t->columns; j++) {
        const int64_t distance = t->reach - 1 - j, at = (distance < last ? distance : last) * d + row;
        t->keys[row * t->columns + j] = distance < 0 ? 0 : l->a_keys[at];
        t->values[j * width + row] = distance < 0 ? 0 : l->a_values[at];
        for (int64_t i = d; row == d - 1 && i < width; i++) t->values[j * width + i] = 0;
    }
}

// score = ((q + u) . k + (q + v) . W_R R_d) / sqrt(head_dim): a distance has a key of its own, made of sinusoids, and u
// and v are what a query thinks of keys and of distances whatever it is. W_R (n_kv_heads * head_dim, dim), u and v
// (n_heads * head_dim). Dai et al., arXiv 1901.02860, section 3.3.
static void transformer_xl(const EncodingTerms *e, int layer, int64_t row, float *weights) {
    const DistanceTerms *t = &e->layers[layer];
    project(e, &e->model->layers[layer].wr, row, 1, weights, t->keys + row * t->columns);
}

// score = (q . k + q . W_k R_d + W_q R_d . k) / sqrt(head_dim): content to content, to position, and position to
// content, by the same matrices, without biases and head norms. What surveys give for TUPE, arXiv 2006.15595, and
// DeBERTa, 2006.03654. Rows are those of wk, then of wq.
static void disentangled(const EncodingTerms *e, int layer, int64_t row, float *weights) {
    const DistanceTerms *t = &e->layers[layer];
    const Layer *l = &e->model->layers[layer];
    const int64_t of_queries = row - l->wk.rows;
    const float scale = 1 / sqrtf((float)e->model->config.head_dim);
    if (of_queries < 0) project(e, &l->wk, row, 1, weights, t->keys + row * t->columns);
    else project(e, &l->wq, of_queries, scale, weights, t->queries + of_queries * t->columns);
}

void encoding_lay_out(EncodingTerms *e, Arena *arena, const Model *model, int64_t n_blocks) {
    const ModelConfig *m = &model->config;
    const int64_t kv = m->n_kv_heads * m->head_dim, reach = n_blocks * KV_BLOCK, columns = reach + KV_BLOCK;
    const bool has_slopes = m->encoding == ENCODING_ALIBI, is_shaw = m->encoding == ENCODING_SHAW;
    *e = (EncodingTerms){.model = model};
    if (is_shaw) e->fill_row = shaw;
    if (m->encoding == ENCODING_TRANSFORMER_XL) e->fill_row = transformer_xl;
    if (m->encoding == ENCODING_DISENTANGLED) e->fill_row = disentangled;
    if (!has_slopes && !e->fill_row) return;
    e->key_rows = has_slopes ? 0 : is_shaw ? m->head_dim : kv;
    e->query_rows = m->encoding == ENCODING_DISENTANGLED ? m->n_heads * m->head_dim : 0;
    float *slopes = has_slopes ? arena_take(arena, m->n_heads, sizeof *slopes) : NULL;
    for (int h = 0; slopes && h < m->n_heads; h++) slopes[h] = encoding_slope(h, m->n_heads);
    e->layers = arena_take(arena, m->n_layers, sizeof *e->layers);
    for (int l = 0; l < m->n_layers; l++) {
        DistanceTerms t = {.reach = reach, .columns = columns, .slopes = slopes, .one_for_all = is_shaw};
        if (e->key_rows) t.keys = arena_take(arena, e->key_rows * columns, sizeof(float));
        if (e->query_rows) t.queries = arena_take(arena, e->query_rows * columns, sizeof(float));
        if (is_shaw) t.values = arena_take(arena, whole_vectors(m->head_dim) * columns, sizeof(float));
        if (model->layers) t.u = model->layers[l].u;
        if (model->layers) t.v = model->layers[l].v;
        if (e->layers) e->layers[l] = t;
    }
    if (has_slopes || is_shaw) return;
    e->sinusoids = arena_take(arena, m->dim * columns, sizeof(float));
    e->weights = arena_take(arena, m->dim * thread_count(), sizeof(float));
}

void encoding_prepare_by_team(const Team *team, EncodingTerms *e) {
    const ModelConfig *m = &e->model->config;
    const int n_rows = (int)(e->key_rows + e->query_rows);
    int begin, end;
    if (!e->fill_row || e->filled) return;
    team_share(team, (int)m->dim, &begin, &end);
    for (int64_t i = begin; e->sinusoids && i < end; i++) {
        const double step = speed(e->model, i);
        float *out = e->sinusoids + i * e->layers->columns;
        for (int64_t d = e->layers->reach - 1; d >= -KV_BLOCK; d--) *out++ = d < 0 ? 0 : sinusoid(i, (double)d * step);
    }
    team_wait(team);
    team_share(team, m->n_layers * n_rows, &begin, &end);
    for (int i = begin; i < end; i++)
        e->fill_row(e, i / n_rows, i % n_rows, e->weights ? e->weights + team->number * m->dim : NULL);
    team_wait(team);
    if (team->number == 0) e->filled = true;
}

// ---- terms in attention ---------------------------------------------------------------------------------------------

// The column where the query number i meets the block's first key; -1 when that is ahead of it.
static int64_t column_of(const TermRows *r, int i) {
    return r->distance + i < 0 ? -1 : r->terms->reach - 1 - r->distance - i;
}

void terms_load(const TermRows *r, float *q, float *distance_q) {
    const DistanceTerms *terms = r->terms;
    const int64_t n = r->heads * r->head_dim, at = r->kv_head * n;
    const float scale = 1 / sqrtf((float)r->head_dim);
    memcpy(distance_q, q, (size_t)(r->n * n) * sizeof *q);
    for (int64_t i = 0; terms->u && i < r->n * n; i++) {
        q[i] += terms->u[at + i % n] * scale;
        distance_q[i] += terms->v[at + i % n] * scale;
    }
}

void terms_add_keys(const TermRows *r, const float *keys, float *scores) {
    const int64_t d = r->head_dim, stride = r->terms->columns;
    for (int64_t row = 0; r->terms->queries && row < (int64_t)r->n * r->heads; row++) {
        const int64_t column = column_of(r, (int)(row / r->heads)), head = r->kv_head * r->heads + row % r->heads;
        if (column < 0) continue;
        add_products(scores + row * KV_BLOCK, r->terms->queries + head * d * stride + column, stride, keys, d);
    }
}

void terms_add_distances(const TermRows *r, const float *distance_q, float *scores) {
    const DistanceTerms *terms = r->terms;
    const int64_t d = r->head_dim, stride = terms->columns;
    Gemm product = {.m = r->heads, .n = KV_BLOCK, .k = d, .a_stride = d, .b_type = NUMBER_F32, .b_stride = stride};
    product.c_stride = KV_BLOCK;
    for (int i = 0; i < r->n; i++) {
        const int64_t column = column_of(r, i);
        if (column < 0) continue;
        product.a = distance_q + i * r->heads * d;
        product.c = scores + (int64_t)i * r->heads * KV_BLOCK;
        product.b = terms->keys ? terms->keys + (terms->one_for_all ? 0 : r->kv_head * d * stride) + column : NULL;
        if (terms->keys) gemm_accumulate(&product);
        for (int h = 0; terms->slopes && h < r->heads; h++)
            for (int j = 0; j < KV_BLOCK; j++)
                product.c[h * KV_BLOCK + j] -= terms->slopes[r->kv_head * r->heads + h] * (float)(r->distance + i - j);
    }
}

void terms_add_values(const TermRows *r, const float *weights, float *sums, int64_t width) {
    Gemm product = {.m = r->heads, .n = width, .k = KV_BLOCK, .a_stride = KV_BLOCK, .b_type = NUMBER_F32};
    product.b_stride = product.c_stride = width;
    for (int i = 0; r->terms->values && i < r->n; i++) {
        const int64_t column = column_of(r, i);
        if (column < 0) continue;
        product.a = weights + (int64_t)i * r->heads * KV_BLOCK;
        product.b = r->terms->values + column * width;
        product.c = sums + i * r->heads * width;
        gemm_accumulate(&product);
    }
}
