// Encodings of positions before RoPE, as their definitions: what each adds to embeddings, to scores
// and to values. In comments d is head_dim.
#include "encodings.h"

#include <math.h>

#include "../llama/arithmetic.h"

// R (dim), or PE: sin and cos of position * theta^(-2i / dim) at 2i and 2i + 1. arXiv 1706.03762.
static const float *sinusoids(Plain *p, int position) {
    double theta = p->model->rope.theta;
    int64_t dim = p->model->config.dim;
    for (int64_t e = 0; e < dim; e++) {
        int64_t even = e / 2 * 2;
        double speed = pow(theta, -(double)even / dim);
        double angle = position * speed;
        double r = e == even ? sin(angle) : cos(angle);
        p->added[e] = (float)r;
    }
    return p->added;
}

// A learned row, or sinusoids.
void add_position(Plain *p, float *x) {
    const ModelConfig *m = &p->model->config;
    int position = spread_position(&p->config->spread, p->i);
    const float *vector = NULL;
    const float *learned = p->model->learned;
    if (m->encoding == ENCODING_LEARNED) vector = learned + position * m->dim;
    if (m->encoding == ENCODING_SINUSOIDAL) vector = sinusoids(p, position);
    if (vector) add(x, 1, vector, m->dim);
}

// ---- vectors of distances ----

// How far the key of token j is behind the query.
static int distance_to(const Plain *p, int j) {
    int query = place_of(p, p->i);
    int key = place_of(p, j);
    return query - key;
}

static float *distance_query(const Plain *p, int back) {
    const ModelConfig *m = &p->model->config;
    return layer_row(p, p->distance_queries, back, m->n_heads * m->head_dim);
}

// Two encodings make vectors of a distance, from R (dim) by the layer's matrices: a key that each
// query meets, and disentangled also a query that each key meets. A vector's place is how many
// tokens the key is behind the query.
static void fill_distance(Plain *p, int back, int distance) {
    bool is_xl = p->model->config.encoding == ENCODING_TRANSFORMER_XL;
    const Matrix *maker = is_xl ? &p->w->wr : &p->w->wk;
    const float *r = sinusoids(p, distance);
    float *key = kv_row(p, p->distance_keys, back);
    matmul(key, maker, r, p->row);
    if (!p->distance_queries) return;
    float *query = distance_query(p, back);
    matmul(query, &p->w->wq, r, p->row);
}

// The present token is the first that is so far behind the first one. Where the text jumps, its
// other distances may be new, too.
void fill_distances(Plain *p) {
    int *known = p->distances + (int64_t)p->layer * p->config->context;
    if (!p->distance_keys) return;
    for (int back = 0; back <= p->i; back++) {
        int j = p->i - back;
        int distance = distance_to(p, j);
        bool is_new = back == p->i || known[back] != distance;
        if (is_new) fill_distance(p, back, distance);
        known[back] = distance;
    }
}

// ---- scores and values ----

// Shaw's tables (encoding_rows, d) end somewhere. All distances behind the last row take that row.
static const float *shaw_row(const Plain *p, const float *table, int j) {
    const ModelConfig *m = &p->model->config;
    int distance = distance_to(p, j);
    int last = m->encoding_rows - 1;
    int row = distance < last ? distance : last;
    return table + row * m->head_dim;
}

// Shaw: q . (k + aK of the distance), arXiv 1803.02155
static float shaw_term(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *a = shaw_row(p, p->w->a_keys, j);
    return dot(p->q + h * d, a, d);
}

// And values: mixed (d) += sum over j of softmax(scores)[j] * aV of the distance
void mix_shaw(Plain *p, int h) {
    int64_t d = p->model->config.head_dim;
    float *mixed = p->mixed + h * d;
    for (int j = 0; j <= p->i; j++) {
        const float *a = shaw_row(p, p->w->a_values, j);
        add(mixed, p->scores[j], a, d);
    }
}

// Transformer-XL: q . k + q . W_R R + u . k + v . W_R R, arXiv 1901.02860
static float xl_terms(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *q = p->q + h * d;
    const float *k = kv_head(p, p->keys, j, h);
    const float *kr = kv_head(p, p->distance_keys, p->i - j, h);
    const float *u = p->w->u + h * d;
    const float *v = p->w->v + h * d;
    return dot(q, kr, d) + dot(u, k, d) + dot(v, kr, d);
}

// Disentangled: q . k + q . W_k R + W_q R . k: TUPE, arXiv 2006.15595, and DeBERTa, 2006.03654
static float disentangled_terms(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *q = p->q + h * d;
    const float *k = kv_head(p, p->keys, j, h);
    const float *kr = kv_head(p, p->distance_keys, p->i - j, h);
    const float *qr = distance_query(p, p->i - j) + h * d;
    return dot(q, kr, d) + dot(qr, k, d);
}

// ALiBi: q . k / sqrt(d) - 2^(-8h / H) distance, for head h from 1 to H, arXiv 2108.12409
static float alibi_term(const Plain *p, int h, int j) {
    int distance = distance_to(p, j);
    int n_heads = p->model->config.n_heads;
    double slope = exp2(-8.0 * (h + 1) / n_heads);
    return (float)(slope * distance);
}

// Where the embeddings know the position, or nothing does, it is q . k / sqrt(d).
float encoded_score(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    int encoding = p->model->config.encoding;
    const float *k = kv_head(p, p->keys, j, h);
    float product = dot(p->q + h * d, k, d);
    if (encoding == ENCODING_SHAW) product += shaw_term(p, h, j);
    if (encoding == ENCODING_TRANSFORMER_XL) product += xl_terms(p, h, j);
    if (encoding == ENCODING_DISENTANGLED) product += disentangled_terms(p, h, j);
    float score = product * model_score_scale(&p->model->config);
    if (encoding == ENCODING_ALIBI) score -= alibi_term(p, h, j);
    return score;
}
