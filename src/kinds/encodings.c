// The definitions of position encodings from before RoPE. In comments d is head_dim.
#include "encodings.h"

#include <math.h>

#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"

// ---- the header and the tensors ----

static const Field fields_of_encodings[] = {
    {"encoding_rows", 240, U32, 0, MAX_VOCAB, IN_PART(EncodingConfig, rows)},
};

static const Rule rules_of_encodings[] = {
    {"encoding", EXCLUDES, "value_dim"},
};

static bool check_encodings(Model *m, Error *err) {
    const int rows = m->config.kinds->encoding->rows;
    const int kind = model_encoding(m);
    bool has_rows = kind == ENCODING_LEARNED || kind == ENCODING_SHAW;
    if (has_rows != (rows > 0))
        return fail(err, "encoding_rows is %d with encoding %s", rows, encoding_names[kind]);
    if (!CHECK_RULES(m, rules_of_encodings, err)) return false;
    if (kind != ENCODING_LEARNED) return true;
    m->config.most_positions = rows;
    return m->config.seq_len <= rows ||
           fail(err, "seq_len is %d with %d learned positions", m->config.seq_len, rows);
}

// Adds the tables and matrices of an encoding.
static void add_encoding_tensors(Model *m, Layer *w, Tensors *t) {
    EncodingConfig *e = m->config.kinds->encoding;
    EncodingTensors *to = w->kinds->encoding;
    int64_t dim = m->config.dim, head = w->extra->shape.head_dim;
    int64_t q = tensor_at(t, &w->wq)->rows, k = tensor_at(t, &w->wk)->rows;
    int64_t xl = model_encoding(m) == ENCODING_TRANSFORMER_XL;
    int64_t shaw = model_encoding(m) == ENCODING_SHAW ? e->rows : 0;
    int64_t learned = model_encoding(m) == ENCODING_LEARNED ? e->rows : 0;
    const Tensor rows[] = {
        {20, &e->learned, FLOATS, .rows = learned, .cols = dim},
        {180, &to->a_keys, FLOATS, .rows = shaw, .cols = head},
        {181, &to->a_values, FLOATS, .rows = shaw, .cols = head},
        {182, &to->wr, ATTENTION, .rows = xl * k, .cols = dim},
        {183, &to->u, FLOATS, .rows = xl, .cols = q},
        {184, &to->v, FLOATS, .rows = xl, .cols = q},
    };
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
}

// ---- embeddings ----

void encoding_vector(const Model *m, int64_t position, float *out) {
    const float *learned = m->config.kinds->encoding->learned;
    double theta = m->rope.theta;
    int64_t dim = m->config.dim;
    for (int64_t e = 0; e < dim; e++) {
        int64_t even = e / 2 * 2;
        double speed = pow(theta, -(double)even / dim);
        double angle = position * speed;
        double r = e == even ? sin(angle) : cos(angle);
        out[e] = learned ? learned[position * dim + e] : (float)r;
    }
}

static void embed_position(Plain *p, int32_t token, float *x) {
    int kind = model_encoding(p->model);
    (void)token;
    if (kind != ENCODING_LEARNED && kind != ENCODING_SINUSOIDAL) return;
    encoding_vector(p->model, spread_position(&p->extra->config->spread, p->i), p->added);
    add(x, 1, p->added, p->model->config.dim);
}

// ---- vectors of distances ----

// The distance from the key of token j to the query.
static int distance_to(const Plain *p, int j) {
    int query = layer_position(p, p->i);
    int key = layer_position(p, j);
    return query - key;
}

static float *distance_query(const Plain *p, int back) {
    const ModelConfig *m = &p->model->config;
    int64_t row = (int64_t)p->layer * p->context + back;
    return p->kinds->encoding->distance_queries + row * m->n_heads * m->head_dim;
}

const Matrix *encoding_maker(const Model *m, const Layer *layer) {
    bool is_xl = m->config.extra->rope_layers.encoding == ENCODING_TRANSFORMER_XL;
    return is_xl ? &layer->kinds->encoding->wr : &layer->wk;
}

// Two encodings compute vectors of a distance from R (dim) with the layer's matrices:
// transformer-xl and disentangled a key that each query meets, and disentangled also a query that
// each key meets. The key is `back` tokens before the query.
static void fill_distance(Plain *p, int back, int distance) {
    float *r = p->added;
    float *key = key_row(p, p->kinds->encoding->distance_keys, back);
    encoding_vector(p->model, distance, r);
    matmul(key, encoding_maker(p->model, p->w), r, p->row);
    if (!p->kinds->encoding->distance_queries) return;
    float *query = distance_query(p, back);
    matmul(query, &p->w->wq, r, p->row);
}

// Updates the vectors of distances that have changed. The distance to the first token is always
// new, because no earlier token is as far from the first one as the present token is. If the text
// skips positions, other distances may be new as well.
static void fill_distances(Plain *p) {
    int *known = p->kinds->encoding->distances + (int64_t)p->layer * p->context;
    for (int back = 0; back <= p->i; back++) {
        int j = p->i - back;
        int distance = distance_to(p, j);
        bool is_new = back == p->i || known[back] != distance;
        if (is_new) fill_distance(p, back, distance);
        known[back] = distance;
    }
}

// ---- scores and values ----

int64_t encoding_row(const Model *m, int64_t distance) {
    int64_t last = m->config.kinds->encoding->rows - 1;
    return distance < last ? distance : last;
}

static const float *shaw_row(const Plain *p, const float *table, int j) {
    return table + encoding_row(p->model, distance_to(p, j)) * p->model->config.head_dim;
}

// Shaw: q . (k + aK[distance]), arXiv 1803.02155
static float shaw_term(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *a = shaw_row(p, p->w->kinds->encoding->a_keys, j);
    return dot(p->q + h * d, a, d);
}

// Shaw's values: mixed (d) += sum over j of softmax(scores)[j] * aV[distance]
static void mix_shaw(Plain *p, int h) {
    int64_t d = p->model->config.head_dim;
    float *mixed = p->mixed + h * d;
    for (int j = 0; j <= p->i; j++) {
        const float *a = shaw_row(p, p->w->kinds->encoding->a_values, j);
        add(mixed, p->scores[j], a, d);
    }
}

// Transformer-XL: q . k + q . W_R R + u . k + v . W_R R, arXiv 1901.02860
static float xl_terms(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *q = p->q + h * d;
    const float *k = key_head(p, p->keys, j, h);
    const float *kr = key_head(p, p->kinds->encoding->distance_keys, p->i - j, h);
    const float *u = p->w->kinds->encoding->u + h * d;
    const float *v = p->w->kinds->encoding->v + h * d;
    return dot(q, kr, d) + dot(u, k, d) + dot(v, kr, d);
}

// Disentangled: q . k + q . W_k R + W_q R . k: TUPE, arXiv 2006.15595, and DeBERTa, 2006.03654
static float disentangled_terms(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    const float *q = p->q + h * d;
    const float *k = key_head(p, p->keys, j, h);
    const float *kr = key_head(p, p->kinds->encoding->distance_keys, p->i - j, h);
    const float *qr = distance_query(p, p->i - j) + h * d;
    return dot(q, kr, d) + dot(qr, k, d);
}

double encoding_slope(int head, int n_heads) { return exp2(-8.0 * (head + 1) / n_heads); }

// ALiBi: q . k / sqrt(d) - slope distance, arXiv 2108.12409
static float alibi_term(const Plain *p, int h, int j) {
    return (float)(encoding_slope(h, p->model->config.n_heads) * distance_to(p, j));
}

// The score of head h with the key of token j.
static float encoded_score(const Plain *p, int h, int j) {
    int64_t d = p->model->config.head_dim;
    int encoding = model_encoding(p->model);
    const float *k = key_head(p, p->keys, j, h);
    float product = dot(p->q + h * d, k, d);
    if (encoding == ENCODING_SHAW) product += shaw_term(p, h, j);
    if (encoding == ENCODING_TRANSFORMER_XL) product += xl_terms(p, h, j);
    if (encoding == ENCODING_DISENTANGLED) product += disentangled_terms(p, h, j);
    float score = product * layer_score_scale(&p->model->config, p->w);
    if (encoding == ENCODING_ALIBI) score -= alibi_term(p, h, j);
    return score;
}

// attention_of (src/decoder/forward.c) with these scores, and with Shaw's values.
static void mix_encoded(Plain *p, const float *x) {
    (void)x;
    project_heads(p);
    if (p->kinds->encoding->distance_keys) fill_distances(p);
    for (int h = 0; h < p->w->extra->shape.n_heads; h++) {
        for (int j = 0; j <= p->i; j++) p->scores[j] = encoded_score(p, h, j);
        mix_head(p, h);
        if (model_encoding(p->model) == ENCODING_SHAW) mix_shaw(p, h);
    }
    project_mixed(p);
}

static bool has_encoding(const Model *model, const Layer *layer) {
    return model_encoding(model) >= ENCODING_ALIBI && layer_attends(layer);
}

// ---- memory ----

static void lay_out_encodings(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    PlainEncoding *e = p->kinds->encoding;
    int64_t rows = (int64_t)m->n_layers * p->context;
    int kind = model_encoding(p->model);
    bool has_queries = kind == ENCODING_DISENTANGLED;
    bool has_keys = has_queries || kind == ENCODING_TRANSFORMER_XL;
    if (has_keys)
        e->distance_keys = arena_take(arena, rows, m->n_kv_heads * m->head_dim * sizeof(float));
    if (has_queries)
        e->distance_queries = arena_take(arena, rows, m->n_heads * m->head_dim * sizeof(float));
    e->distances = arena_take(arena, rows, sizeof(int));
}

const Kind encodings_kind = {
    .parts = {[OF_MODEL] = {sizeof(EncodingConfig), offsetof(struct ModelParts, encoding)},
              [OF_LAYER] = {sizeof(EncodingTensors), offsetof(struct LayerParts, encoding)},
              [OF_TEXT] = {sizeof(PlainEncoding), offsetof(struct PlainParts, encoding)}},
    .fields = fields_of_encodings,
    .n_fields = sizeof fields_of_encodings / sizeof fields_of_encodings[0],
    .check = check_encodings,
    .add_tensors = add_encoding_tensors,
    .has = has_encoding,
    .lay_out = lay_out_encodings,
    .embed = embed_position,
    .mix = mix_encoded,
};
