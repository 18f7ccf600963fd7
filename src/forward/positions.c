// Positions made into angles. A query and a key must differ by D(i, j) times the frequency, for every j; rope.h has D
// as a part of the query minus a part of the key, one pair of parts for near keys and one for far ones.
//
// The cache holds each key rotated by its part for far queries, as most of a long past is far: those blocks are
// multiplied as they lie. To meet near queries a key lacks an angle, j minus that part, for which there are tables by
// block and step, as there are not many near blocks. Without a map all is near, the two parts are the same, and keys
// lack nothing. But when the frequencies change with the length, keys are cached un-rotated, never to be stale, and
// lack their whole angle in both zones.
//
// Encodings other than RoPE stand behind: vectors added to embeddings, and tables of terms by distance.
#include "positions.h"

#include <math.h>
#include <string.h>

// The distance that the angle lacks with which key j is cached.
static double lacking(const Positions *p, Zone zone, int64_t j) {
    double far = rope_meet(p->rope, (int)j, (int)j).key, wanted = zone == NEAR ? (double)j : far;
    return p->follows_length ? wanted : wanted - far;
}

static void lay_out_angles(KeyAngles *a, Arena *arena, int n_pairs, int period, int64_t n_blocks) {
    int64_t steps = (int64_t)step_variants(period) * n_pairs * KV_BLOCK;
    a->period = period;
    a->block_cosines = arena_take(arena, n_blocks * n_pairs, sizeof(float));
    a->block_sines = arena_take(arena, n_blocks * n_pairs, sizeof(float));
    a->step_cosines = arena_take(arena, steps, sizeof(float));
    a->step_sines = arena_take(arena, steps, sizeof(float));
}

static void lay_out_terms(Positions *p, Arena *arena, int64_t n_blocks);
static void fill_terms_by_team(const Team *team, Positions *p, int n_blocks);

void positions_lay_out(Positions *p, Arena *arena, const Model *model, const RopeConfig *rope, bool follows_length,
                       int max_n, int64_t n_blocks) {
    int pairs = rope->rotary_dim / 2, period = rope_key_period(rope);
    int64_t table = (int64_t)max_n * pairs;
    *p = (Positions){.model = model, .rope = rope, .follows_length = follows_length, .view.n_pairs = pairs};
    if (model->config.encoding != ENCODING_ROPE) {
        lay_out_terms(p, arena, n_blocks);
        return;
    }
    p->cosines = p->key_cosines = arena_take(arena, table, sizeof(float));
    p->sines = p->key_sines = arena_take(arena, table, sizeof(float));
    if (rope->map) {
        p->view.near_from = arena_take(arena, max_n, sizeof(int));
        p->view.far_cosines = arena_take(arena, table, sizeof(float));
        p->view.far_sines = arena_take(arena, table, sizeof(float));
        p->key_cosines = arena_take(arena, table, sizeof(float));
        p->key_sines = arena_take(arena, table, sizeof(float));
    }
    if (rope->logn) p->view.factors = arena_take(arena, max_n, sizeof(float));
    if (p->follows_length) p->key_cosines = p->key_sines = NULL;
    if (p->follows_length || rope->map)
        lay_out_angles(&p->view.angles[NEAR], arena, pairs, p->follows_length ? 1 : period, n_blocks);
    if (p->follows_length && rope->map) lay_out_angles(&p->view.angles[FAR], arena, pairs, period, n_blocks);
}

// The frequencies of a text of `length` positions. Tables for the past that were made with others are void.
static void set_frequencies(Positions *p, int length) {
    RopeFreqs freqs;
    rope_frequencies(p->rope, length, &freqs);
    bool same = freqs.attention_factor == p->freqs.attention_factor;
    for (int i = 0; i < freqs.n_pairs; i++) same = same && freqs.inv_freq[i] == p->freqs.inv_freq[i];
    if (same) return;
    p->freqs = freqs;
    p->n_blocks = 0;
}

// One pair's angles of blocks [p->n_blocks, n_blocks), and the variants of steps that show up in them first.
static void fill_angles(const Positions *p, Zone zone, int pair, int n_blocks) {
    const KeyAngles *a = &p->view.angles[zone];
    const int n_pairs = p->view.n_pairs;
    const double factor = p->follows_length ? p->freqs.attention_factor : 1;
    bool filled[KV_BLOCK + 1] = {false};
    for (int64_t b = 0; b < p->n_blocks && b < a->period; b++) filled[steps_of(a->period, b)] = true;
    for (int64_t b = p->n_blocks; a->block_cosines && b < n_blocks; b++) {
        const double start = lacking(p, zone, b * KV_BLOCK);
        int64_t at = b * n_pairs + pair, variant = steps_of(a->period, b);
        rope_turn(&p->freqs, pair, start, 1, a->block_cosines + at, a->block_sines + at);
        at = (variant * n_pairs + pair) * KV_BLOCK;
        for (int j = 0; j < KV_BLOCK && !filled[variant]; j++) {
            double step = lacking(p, zone, b * KV_BLOCK + j) - start;
            rope_turn(&p->freqs, pair, step, factor, a->step_cosines + at + j, a->step_sines + at + j);
        }
        filled[variant] = true;
    }
}

// One pair's angles of the positions of the read.
static void fill_rows(const Positions *p, int pair, int first, int n) {
    const RopeFreqs *f = &p->freqs;
    const int pairs = f->n_pairs;
    rope_table(f, pair, first, n, p->cosines + pair, p->sines + pair, (size_t)pairs);
    for (int t = 0; p->rope->map && t < n; t++) {
        const int i = first + t, at = t * pairs + pair;
        const RopeDistance d = rope_meet(p->rope, i, i);
        rope_turn(f, pair, d.query - i, 1, p->view.far_cosines + at, p->view.far_sines + at);
        if (p->key_cosines) rope_turn(f, pair, d.key, f->attention_factor, p->key_cosines + at, p->key_sines + at);
    }
}

void positions_prepare_by_team(const Team *team, Positions *p, int first, int n, int length) {
    const int n_blocks = (first + n - 1) / KV_BLOCK + 1;
    int begin, end;
    if (p->model->config.encoding != ENCODING_ROPE) {
        fill_terms_by_team(team, p, n_blocks);
        return;
    }
    if (team->number == 0) set_frequencies(p, length);
    team_wait(team);
    team_share(team, p->freqs.n_pairs, &begin, &end);
    for (int i = begin; i < end; i++) {
        fill_rows(p, i, first, n);
        fill_angles(p, NEAR, i, n_blocks);
        fill_angles(p, FAR, i, n_blocks);
    }
    for (int t = 0; team->number == 0 && t < n; t++) {
        const int i = first + t;
        if (p->view.near_from) p->view.near_from[t] = i + 1 - rope_meet(p->rope, i, i).near;
        if (p->view.factors) p->view.factors[t] = (float)rope_logn(p->rope, i);
    }
    if (team->number == 0) p->view.first = first;
    team_wait(team);
    if (team->number == 0 && p->n_blocks < n_blocks) p->n_blocks = n_blocks;
}

// ---- vectors that are added to embeddings ---------------------------------------------------------------------------

// x_t += P[t], a table (encoding_rows, dim) that is learned; behind its last row there is nothing. arXiv 1705.03122.
static void learned(const Model *m, int64_t position, float *x) {
    const float *row = m->learned + position * m->config.dim;
    for (int64_t i = 0; i < m->config.dim; i++) x[i] += row[i];
}

// Radians per position of element i.
static double speed(const Model *m, int64_t i) {
    return pow(m->rope.theta, -(double)(i - i % 2) / (double)m->config.dim);
}

static float sinusoid(int64_t i, double angle) { return (float)(i % 2 ? cos(angle) : sin(angle)); }

void positions_sinusoids(const Model *m, int64_t position, float *x) {
    for (int64_t i = 0; i < m->config.dim; i++) x[i] = sinusoid(i, (double)position * speed(m, i));
}

// x_t += PE(t), which is not learned: clocks of every speed, as RoPE has them. arXiv 1706.03762, section 3.5.
static void sinusoidal(const Model *m, int64_t position, float *x) {
    for (int64_t i = 0; i < m->config.dim; i++) x[i] += sinusoid(i, (double)position * speed(m, i));
}

PositionsAdd *positions_added(int encoding) {
    return encoding == ENCODING_LEARNED ? learned : encoding == ENCODING_SINUSOIDAL ? sinusoidal : NULL;
}

void positions_add_by_team(const Team *team, const Positions *p, float *x, int first, int n) {
    PositionsAdd *add = positions_added(p->model->config.encoding);
    int begin, end;
    if (!add) return;
    team_share(team, n, &begin, &end);
    for (int t = begin; t < end; t++) add(p->model, first + t, x + t * p->model->config.dim);
    team_wait(team);
}

// ---- terms that are added to scores ---------------------------------------------------------------------------------

// One row of a layer's tables that is to be filled in for a block of distances.
typedef struct {
    const Positions *p;
    const Layer *layer;
    DistanceTerms *terms;
    int64_t column, farthest;  // the first of KV_BLOCK columns, and its distance; the others come down from that
    float *weights;            // (dim)
} Fill;

static int64_t columns_of(const DistanceTerms *t) { return t->reach + KV_BLOCK; }

// out (KV_BLOCK) = a row of a matrix . R_d, times `scale`.
static void project(const Fill *f, const Matrix *m, int64_t row, float scale, float *out) {
    Gemm product = {.m = 1, .n = KV_BLOCK, .k = m->cols, .a = f->weights, .a_stride = m->cols, .b_type = NUMBER_F32};
    product.b = f->p->sinusoids;
    product.c = out;
    product.b_stride = product.c_stride = KV_BLOCK;
    matrix_row(m, row, 0, m->cols, f->weights);
    scale_by(f->weights, scale, m->cols);
    memset(out, 0, KV_BLOCK * sizeof *out);
    gemm_accumulate(&product);
}

// score -= 2^(-8h/H) d for head h = 1 ... H: no table, nothing learned, the far is dim. ALiBi, arXiv 2108.12409.
float positions_slope(int head, int n_heads) { return (float)exp2(-8.0 * (head + 1) / n_heads); }

// score += q . aK[c] / sqrt(head_dim), out += weight aV[c], c = min(d, rows - 1): two tables (encoding_rows, head_dim)
// a layer, for all heads; beyond their last row all distances are one. Shaw et al., arXiv 1803.02155. `row` is one
// element of a head.
static void shaw(const Fill *f, int64_t row) {
    const ModelConfig *m = &f->p->model->config;
    const int64_t d = m->head_dim, width = (d + 15) / 16 * 16;
    for (int64_t j = 0; j < KV_BLOCK; j++) {
        int64_t distance = f->farthest - j, at = distance < m->encoding_rows ? distance : m->encoding_rows - 1;
        f->terms->keys[row * columns_of(f->terms) + f->column + j] = f->layer->a_keys[at * d + row];
        f->terms->values[(f->column + j) * width + row] = f->layer->a_values[at * d + row];
    }
}

// score = ((q + u) . k + (q + v) . W_R R_d) / sqrt(head_dim): a distance has a key of its own, made of sinusoids, and u
// and v are what a query thinks of keys and of distances whatever it is. W_R (n_kv_heads * head_dim, dim), u and v
// (n_heads * head_dim). Dai et al., arXiv 1901.02860, section 3.3.
static void transformer_xl(const Fill *f, int64_t row) {
    project(f, &f->layer->wr, row, 1, f->terms->keys + row * columns_of(f->terms) + f->column);
}

// score = (q . k + q . W_k R_d + W_q R_d . k) / sqrt(head_dim): content to content, to position, and position to
// content, by the same matrices, without biases and head norms. What surveys give for TUPE, arXiv 2006.15595, and
// DeBERTa, 2006.03654. Rows are those of wk, then of wq.
static void disentangled(const Fill *f, int64_t row) {
    const Layer *l = f->layer;
    const int64_t other = row - l->wk.rows, stride = columns_of(f->terms);
    const float scale = 1 / sqrtf((float)f->p->model->config.head_dim);
    if (other < 0) project(f, &l->wk, row, 1, f->terms->keys + row * stride + f->column);
    else project(f, &l->wq, other, scale, f->terms->queries + other * stride + f->column);
}

// Rows of a layer's tables: keys, queries, and what fills one.
typedef struct {
    int64_t keys, queries;
    void (*fill)(const Fill *fill, int64_t row);
} TableRows;

static TableRows table_rows(const ModelConfig *m) {
    const int64_t kv = m->n_kv_heads * m->head_dim, heads = m->n_heads * m->head_dim;
    switch (m->encoding) {
    case ENCODING_SHAW: return (TableRows){m->head_dim, 0, shaw};
    case ENCODING_TRANSFORMER_XL: return (TableRows){kv, 0, transformer_xl};
    case ENCODING_DISENTANGLED: return (TableRows){kv, heads, disentangled};
    default: return (TableRows){0};
    }
}

static void lay_out_terms(Positions *p, Arena *arena, int64_t n_blocks) {
    const ModelConfig *m = &p->model->config;
    const TableRows rows = table_rows(m);
    const bool has_slopes = m->encoding == ENCODING_ALIBI, is_shaw = m->encoding == ENCODING_SHAW;
    float *slopes = has_slopes ? arena_take(arena, m->n_heads, sizeof *slopes) : NULL;
    if (!has_slopes && !rows.fill) return;
    for (int h = 0; slopes && h < m->n_heads; h++) slopes[h] = positions_slope(h, m->n_heads);
    p->terms = arena_take(arena, m->n_layers, sizeof *p->terms);
    for (int l = 0; l < m->n_layers; l++) {
        DistanceTerms t = {.reach = n_blocks * KV_BLOCK, .slopes = slopes, .one_for_all = is_shaw};
        const int64_t columns = columns_of(&t), width = (m->head_dim + 15) / 16 * 16;
        if (rows.keys) t.keys = arena_take(arena, rows.keys * columns, sizeof(float));
        if (rows.queries) t.queries = arena_take(arena, rows.queries * columns, sizeof(float));
        if (is_shaw) t.values = arena_take(arena, width * columns, sizeof(float));
        if (p->model->layers) t.u = p->model->layers[l].u;
        if (p->model->layers) t.v = p->model->layers[l].v;
        if (p->terms) p->terms[l] = t;
    }
    p->sinusoids = arena_take(arena, m->dim * KV_BLOCK, sizeof(float));
    p->weights = arena_take(arena, m->dim * thread_count(), sizeof(float));
}

// The columns behind the tables, and the elements that fill up a value to whole vectors.
static void clear_margins(const Positions *p) {
    const ModelConfig *m = &p->model->config;
    const TableRows rows = table_rows(m);
    const int64_t width = (m->head_dim + 15) / 16 * 16;
    for (DistanceTerms *t = p->terms; t < p->terms + m->n_layers; t++) {
        for (int64_t row = 0; row < rows.keys; row++)
            memset(t->keys + row * columns_of(t) + t->reach, 0, KV_BLOCK * sizeof(float));
        for (int64_t row = 0; row < rows.queries; row++)
            memset(t->queries + row * columns_of(t) + t->reach, 0, KV_BLOCK * sizeof(float));
        if (t->values) memset(t->values, 0, (size_t)(columns_of(t) * width) * sizeof(float));
    }
}

// All layers' tables for the distances of blocks [p->n_blocks, n_blocks).
static void fill_terms_by_team(const Team *team, Positions *p, int n_blocks) {
    const ModelConfig *m = &p->model->config;
    const TableRows rows = table_rows(m);
    const int n_rows = (int)(rows.keys + rows.queries);
    int begin, end;
    if (!rows.fill) return;
    if (team->number == 0 && p->n_blocks == 0) clear_margins(p);
    for (int64_t b = p->n_blocks; b < n_blocks; b++) {
        const int64_t farthest = (b + 1) * KV_BLOCK - 1;
        team_share(team, (int)m->dim, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            const double step = speed(p->model, i);
            for (int64_t j = 0; j < KV_BLOCK; j++)
                p->sinusoids[i * KV_BLOCK + j] = sinusoid(i, (double)(farthest - j) * step);
        }
        team_wait(team);
        team_share(team, m->n_layers * n_rows, &begin, &end);
        for (int i = begin; i < end; i++) {
            DistanceTerms *t = &p->terms[i / n_rows];
            const Layer *layer = &p->model->layers[i / n_rows];
            const Fill fill = {p, layer, t, t->reach - 1 - farthest, farthest, p->weights + team->number * m->dim};
            rows.fill(&fill, i % n_rows);
        }
        team_wait(team);
    }
    if (team->number == 0 && p->n_blocks < n_blocks) p->n_blocks = n_blocks;
    team_wait(team);
}
