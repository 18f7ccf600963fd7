// Encodings other than RoPE, each as its formula: first those that add a vector to the embedding, then those that add
// terms to attention, which have tables by distance. Every query has its own place in a table, one column before that
// of the query before it.
#include "encodings.h"

#include <math.h>
#include <string.h>

// ---- vectors of positions -------------------------------------------------------------------------------------------

// Element i of PE(position), or of R_d for a distance, turns by so many radians per position.
static double speed(const Model *m, int64_t i) {
    return pow(m->rope.theta, -(double)(i - i % 2) / (double)m->config.dim);
}

static float sinusoid(int64_t i, double angle) { return (float)(i % 2 ? cos(angle) : sin(angle)); }

// x_t += P[t], a table (encoding_rows, dim) that is learned; behind its last row there is nothing. arXiv 1705.03122.
// Or x_t += PE(t), which is not learned: clocks of every speed, as RoPE has them. arXiv 1706.03762, section 3.5.
static float element(const Model *m, int64_t position, int64_t i) {
    return m->learned ? m->learned[position * m->config.dim + i] : sinusoid(i, (double)position * speed(m, i));
}

void encoding_vector(const Model *m, int64_t position, float *out) {
    for (int64_t i = 0; i < m->config.dim; i++) out[i] = element(m, position, i);
}

// ---- tables of terms that are added to scores -----------------------------------------------------------------------

bool encoding_has_terms(int encoding) {
    return encoding == ENCODING_ALIBI || encoding == ENCODING_SHAW || encoding == ENCODING_TRANSFORMER_XL ||
           encoding == ENCODING_DISENTANGLED;
}

// score -= 2^(-8h/H) d for head h = 1 ... H: no table, nothing learned, the far is dim. ALiBi, arXiv 2108.12409.
float encoding_slope(int head, int n_heads) { return (float)exp2(-8.0 * (head + 1) / n_heads); }

// C (m, n) += A (m, k) B (k, n), of which the rows of B lie a stride apart.
static void add_product(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t stride, float *c) {
    Gemm product = {.m = m, .n = n, .k = k, .a = a, .a_stride = k, .b = b, .b_type = NUMBER_F32, .b_stride = stride};
    product.c = c;
    product.c_stride = n;
    gemm_accumulate(&product);
}

// score += q . aK[c] / sqrt(head_dim), out += weight aV[c], c = min(d, rows - 1): two tables (encoding_rows, head_dim)
// a layer, for all heads; beyond their last row all distances are one. Shaw et al., arXiv 1803.02155. `row` is one
// element of a head.
static void shaw(const EncodingTerms *e, int layer, int64_t row) {
    const DistanceTerms *t = &e->layers[layer];
    const Layer *l = &e->model->layers[layer];
    const int64_t d = e->model->config.head_dim, width = whole_vectors(d), last = e->model->config.encoding_rows - 1;
    for (int64_t j = 0; j < t->columns; j++) {
        const int64_t distance = t->reach - 1 - j, at = (distance < last ? distance : last) * d + row;
        t->keys[row * t->columns + j] = distance < 0 ? 0 : l->a_keys[at];
        t->values[j * width + row] = distance < 0 ? 0 : l->a_values[at];
        for (int64_t i = d; row == d - 1 && i < width; i++) t->values[j * width + i] = 0;
    }
}

// transformer-xl: score = ((q + u) . k + (q + v) . W_R R_d) / sqrt(head_dim): a distance has a key of its own, made of
// sinusoids, and u and v are what a query thinks of keys and of distances whatever it is. W_R (n_kv_heads * head_dim,
// dim), u and v (n_heads * head_dim). Dai et al., arXiv 1901.02860, section 3.3.
//
// disentangled: score = (q . k + q . W_k R_d + W_q R_d . k) / sqrt(head_dim): content to content, to position, and
// position to content, by the same matrices, without biases and head norms. What surveys give for TUPE, arXiv
// 2006.15595, and DeBERTa, 2006.03654. Rows are those of wk, then of wq.
//
// A row of both is one of a matrix times all R_d. weights (dim) is memory for the matrix's.
static void project(const EncodingTerms *e, int layer, int64_t row, float *weights) {
    const DistanceTerms *t = &e->layers[layer];
    const Layer *l = &e->model->layers[layer];
    const int64_t columns = t->columns, dim = e->model->config.dim, of_queries = row - e->key_rows;
    const Matrix *of_keys = e->model->config.encoding == ENCODING_TRANSFORMER_XL ? &l->wr : &l->wk;
    float *out = of_queries < 0 ? t->keys + row * columns : t->queries + of_queries * columns;
    matrix_row(of_queries < 0 ? of_keys : &l->wq, of_queries < 0 ? row : of_queries, 0, dim, weights);
    if (of_queries >= 0) scale_by(weights, 1 / sqrtf((float)e->model->config.head_dim), dim);
    memset(out, 0, (size_t)columns * sizeof *out);
    add_product(1, columns, dim, weights, e->sinusoids, columns, out);
}

// Memory for `count` floats; NULL for none of them.
static float *floats(Arena *arena, int64_t count) { return count ? arena_take(arena, count, sizeof(float)) : NULL; }

void encoding_lay_out(EncodingTerms *e, Arena *arena, const Model *model, int64_t n_blocks) {
    const ModelConfig *m = &model->config;
    const int64_t d = m->head_dim, reach = n_blocks * KV_BLOCK, columns = reach + KV_BLOCK;
    const bool has_slopes = m->encoding == ENCODING_ALIBI, is_shaw = m->encoding == ENCODING_SHAW;
    const int64_t elements = has_slopes || is_shaw ? 0 : m->dim;  // of R_d
    *e = (EncodingTerms){.model = model};
    if (!encoding_has_terms(m->encoding)) return;
    if (!has_slopes) e->key_rows = is_shaw ? d : m->n_kv_heads * d;
    e->query_rows = m->encoding == ENCODING_DISENTANGLED ? m->n_heads * d : 0;
    e->sinusoids = floats(arena, elements * columns);
    e->weights = floats(arena, elements * thread_count());
    float *slopes = floats(arena, has_slopes ? m->n_heads : 0);
    for (int h = 0; slopes && h < m->n_heads; h++) slopes[h] = encoding_slope(h, m->n_heads);
    e->layers = arena_take(arena, m->n_layers, sizeof *e->layers);
    for (int l = 0; l < m->n_layers; l++) {
        DistanceTerms t = {.reach = reach, .columns = columns, .slopes = slopes, .one_for_all = is_shaw};
        t.keys = floats(arena, e->key_rows * columns);
        t.queries = floats(arena, e->query_rows * columns);
        t.values = floats(arena, is_shaw ? whole_vectors(d) * columns : 0);
        t.u = model->layers[l].u;
        t.v = model->layers[l].v;
        if (e->layers) e->layers[l] = t;
    }
}

// Makes all tables.
static void fill_tables_by_team(const Team *team, EncodingTerms *e) {
    const ModelConfig *m = &e->model->config;
    const int n_rows = (int)(e->key_rows + e->query_rows);
    int begin, end;
    team_share(team, (int)m->dim, &begin, &end);
    for (int64_t i = begin; e->sinusoids && i < end; i++) {
        const double step = speed(e->model, i);
        float *out = e->sinusoids + i * e->layers->columns;
        for (int64_t d = e->layers->reach - 1; d >= -KV_BLOCK; d--) *out++ = d < 0 ? 0 : sinusoid(i, (double)d * step);
    }
    team_wait(team);
    team_share(team, m->n_layers * n_rows, &begin, &end);
    for (int i = begin; i < end; i++) {
        if (m->encoding == ENCODING_SHAW) shaw(e, i / n_rows, i % n_rows);
        else project(e, i / n_rows, i % n_rows, e->weights + team->number * m->dim);
    }
    team_wait(team);
    if (team->number == 0) e->filled = true;
}

void encoding_prepare_by_team(const Team *team, EncodingTerms *e, const Spread *spread, float *x, int first, int n) {
    const ModelConfig *m = &e->model->config;
    const bool adds = m->encoding == ENCODING_LEARNED || m->encoding == ENCODING_SINUSOIDAL;
    int begin, end;
    team_share(team, n, &begin, &end);
    for (int t = begin; adds && t < end; t++)
        for (int64_t i = 0; i < m->dim; i++)
            x[t * m->dim + i] += element(e->model, spread_position(spread, first + t), i);
    if (e->key_rows > 0 && !e->filled) fill_tables_by_team(team, e);
    team_wait(team);
}

// ---- terms in attention ---------------------------------------------------------------------------------------------

// The column where the query number i meets a block's first key. When that is ahead of the query, no key of the block
// is seen, and any column will do.
static int64_t column_of(const TermRows *r, int i, int block) {
    const int64_t distance = (int64_t)r->first + i - (int64_t)block * KV_BLOCK;
    return r->terms->reach - 1 - (distance > 0 ? distance : 0);
}

void terms_load(const TermRows *r, float *q, float *distance_q) {
    const DistanceTerms *terms = r->terms;
    const int64_t n = r->heads * r->head_dim, at = r->kv_head * n;
    const float scale = 1 / sqrtf((float)r->head_dim);
    if (!terms) return;
    memcpy(distance_q, q, (size_t)(r->n * n) * sizeof *q);
    for (int64_t i = 0; terms->u && i < r->n * n; i++) {
        q[i] += terms->u[at + i % n] * scale;
        distance_q[i] += terms->v[at + i % n] * scale;
    }
}

void terms_add_keys(const TermRows *r, int block, const float *keys, float *scores) {
    const int64_t d = r->head_dim, stride = r->terms->columns;
    for (int64_t row = 0; row < (int64_t)r->n * r->heads; row++) {
        const int64_t head = r->kv_head * r->heads + row % r->heads,
                      column = column_of(r, (int)(row / r->heads), block);
        add_products(scores + row * KV_BLOCK, r->terms->queries + head * d * stride + column, stride, keys, d);
    }
}

void terms_add_distances(const TermRows *r, int block, const float *distance_q, float *scores) {
    const DistanceTerms *t = r->terms;
    const int64_t d = r->head_dim, n = t ? r->n : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t column = column_of(r, (int)i, block), row = t->one_for_all ? 0 : r->kv_head * d;
        float *out = scores + i * r->heads * KV_BLOCK;
        if (t->keys)
            add_product(r->heads, KV_BLOCK, d, distance_q + i * r->heads * d, t->keys + row * t->columns + column,
                        t->columns, out);
        for (int h = 0; t->slopes && h < r->heads; h++) {
            const float slope = t->slopes[r->kv_head * r->heads + h];
            for (int j = 0; j < KV_BLOCK; j++) out[h * KV_BLOCK + j] -= slope * (float)(t->reach - 1 - column - j);
        }
    }
}

void terms_add_values(const TermRows *r, int block, const float *weights, float *sums, int64_t width) {
    for (int64_t i = 0; r->terms && r->terms->values && i < r->n; i++) {
        const float *values = r->terms->values + column_of(r, (int)i, block) * width;
        add_product(r->heads, width, KV_BLOCK, weights + i * r->heads * KV_BLOCK, values, width,
                    sums + i * r->heads * width);
    }
}
