// A Llama's tensors, and where they lie in a model file.
#include "model.h"

#include <math.h>
#include <stdlib.h>

#include "settings.h"

// ---- what a Llama consists of ----

enum { N_TENSORS = 27 };

// Macros, because no function can be given a member.
#define MODEL(member) false, offsetof(Model, member)
#define LAYER(member) true, offsetof(Layer, member)

// Where a tensor stands in the order of its file's version, from 0 on, when n stand before it in
// versions 3 and later.
static int place_in_file(const ModelConfig *c, const Tensor *t, int n) {
    if (c->version == 0) return t->llama2c[0] - 1;
    return c->version < 3 ? t->llama2c[1] - 1 : n;
}

// Puts the tensors that the model has in the order of its file's version. Returns their number.
static int put_in_order(const ModelConfig *c, const Tensor all[N_TENSORS], Tensor out[N_TENSORS]) {
    int n = 0;
    for (const Tensor *t = all; t < all + N_TENSORS; t++) {
        if (t->rows == 0) continue;
        out[place_in_file(c, t, n)] = *t;
        n++;
    }
    return n;
}

// The same, of the table of all tensors.
static int tensors_in_order(const ModelConfig *c, Tensor out[N_TENSORS]) {
    bool is_whole = c->qk_norm == QK_NORM_WHOLE;
    int64_t dim = c->dim, hidden = c->hidden_dim, head = c->head_dim, vocab = c->vocab_size;
    int64_t q = c->n_heads * head, kv = c->n_kv_heads * head;
    int64_t xl = c->encoding == ENCODING_TRANSFORMER_XL;
    int64_t learned = c->encoding == ENCODING_LEARNED ? c->encoding_rows : 0;
    int64_t shaw = c->encoding == ENCODING_SHAW ? c->encoding_rows : 0;
    int64_t own = c->shared_classifier ? 0 : vocab;
    int64_t angles = c->version == 0 ? c->seq_len : 0;
    int64_t before = c->norm_place != NORM_AFTER, after = c->norm_place != NORM_BEFORE;
    int64_t has_norms = c->qk_norm != QK_NORM_NONE;
    const Tensor all[N_TENSORS] = {
        // In the order of versions 3 to 5: where, places in llama2.c's, what, rows (0: the model
        // lacks it), columns.
        {MODEL(embedding), {1, 4}, EMBEDDING, vocab, dim},
        {MODEL(learned), {0}, FLOATS, learned, dim},
        {LAYER(attention_norm), {2, 1}, FLOATS, before, dim},
        {LAYER(wq), {3, 5}, ATTENTION, q, dim},
        {LAYER(wk), {4, 6}, ATTENTION, kv, dim},
        {LAYER(wv), {5, 7}, ATTENTION, kv, dim},
        {LAYER(bq), {0}, FLOATS, c->qkv_bias, q},
        {LAYER(bk), {0}, FLOATS, c->qkv_bias, kv},
        {LAYER(bv), {0}, FLOATS, c->qkv_bias, kv},
        {LAYER(q_norm), {0}, FLOATS, has_norms, is_whole ? q : head},
        {LAYER(k_norm), {0}, FLOATS, has_norms, is_whole ? kv : head},
        {LAYER(a_keys), {0}, FLOATS, shaw, head},
        {LAYER(a_values), {0}, FLOATS, shaw, head},
        {LAYER(wr), {0}, ATTENTION, xl * kv, dim},
        {LAYER(u), {0}, FLOATS, xl, q},
        {LAYER(v), {0}, FLOATS, xl, q},
        {LAYER(wo), {6, 8}, ATTENTION, dim, q},
        {LAYER(bo), {0}, FLOATS, c->o_bias, dim},
        {LAYER(attention_after), {0}, FLOATS, after, dim},
        {LAYER(ffn_norm), {7, 2}, FLOATS, before, dim},
        {LAYER(w1), {8, 9}, FEED_FORWARD, hidden, dim},
        {LAYER(w3), {10, 11}, FEED_FORWARD, hidden, dim},
        {LAYER(w2), {9, 10}, FEED_FORWARD, dim, hidden},
        {LAYER(ffn_after), {0}, FLOATS, after, dim},
        {MODEL(final_norm), {11, 3}, FLOATS, 1, dim},
        {MODEL(angles), {12}, FLOATS, angles, head},
        {MODEL(classifier), {13, 12}, CLASSIFIER, own, dim},
    };
    return put_in_order(c, all, out);
}

int model_window(const Model *m) {
    bool has_window = !m->config.sliding_rope;
    for (int l = 0; m->layers && l < m->config.n_layers; l++) {
        int flags = m->layers[l].flags;
        if (!(flags & (LAYER_SEES_ALL | LAYER_SLIDING))) has_window = true;
    }
    return has_window ? m->config.sliding_window : 0;
}

float model_score_scale(const ModelConfig *c) {
    float usual = 1 / sqrtf((float)c->head_dim);
    return c->score_scale > 0 ? (float)c->score_scale : usual;
}

// How many of n tensors from the first one on take turns, layer by layer. In versions 3 and later
// all of a layer do; llama2.c's files have one tensor of all layers, then the next.
static int tensors_together(const ModelConfig *c, const Tensor *first, int n) {
    int together = 1;
    if (c->version < 3 || !first->of_layer) return together;
    while (together < n && first[together].of_layer) together++;
    return together;
}

void model_visit(Model *m, TensorVisitor *visit, void *whose) {
    Tensor tensors[N_TENSORS] = {{0}};
    int n = tensors_in_order(&m->config, tensors);
    int together;
    for (int i = 0; i < n; i += together) {
        const Tensor *first = &tensors[i];
        together = tensors_together(&m->config, first, n - i);
        if (!first->of_layer) {
            visit(whose, first, (uint8_t *)m + first->place);
            continue;
        }
        for (int l = 0; l < m->config.n_layers; l++) {
            for (const Tensor *t = first; t < first + together; t++) {
                visit(whose, t, (uint8_t *)&m->layers[l] + t->place);
            }
        }
    }
}

// ---- where a file has it ----

// A place in the file. Only `offset` goes past its end, for an error to tell the expected size;
// pointers never do.
typedef struct {
    Model *model;
    const uint8_t *types;  // of the matrices that are not taken yet; NULL: config.weight_type
    uint64_t alignment;    // of what is taken
    uint64_t offset;       // once above INT64_MAX it stays there
    WeightType cut;        // a type of blocks that would not fill a row
} Cursor;

// Takes count * item_bytes bytes, which is 2^47 at most. NULL for a count of 0.
static const void *take(Cursor *at, uint64_t count, uint64_t item_bytes) {
    uint64_t size = at->model->file.size, filled = at->offset + at->alignment - 1;
    uint64_t here = filled / at->alignment * at->alignment;
    if (here <= INT64_MAX) at->offset = here + count * item_bytes;
    if (count == 0) return NULL;
    return at->model->file.data + (here <= size ? here : size);
}

static void take_tensor(void *cursor, const Tensor *t, void *member) {
    Cursor *at = cursor;
    const ModelConfig *c = &at->model->config;
    if (t->kind == FLOATS) {
        *(const float **)member = take(at, t->rows * t->cols, sizeof(float));
        return;
    }
    WeightType type = at->types ? *at->types++ : c->weight_type;
    Matrix *m = member;
    *m = (Matrix){.type = type, .rows = t->rows, .cols = t->cols};
    m->group_size = c->group_size;
    m->groups_cross_rows = c->version == 2 && t->cols % c->group_size != 0;
    if (t->cols % block_columns(type)) at->cut = type;
    m->data = take(at, t->rows, matrix_row_bytes(m));
    m->scales = take(at, matrix_scale_bytes(m), 1);
}

// How many matrices a model has, of all layers.
static int count_matrices(const ModelConfig *c) {
    Tensor tensors[N_TENSORS] = {{0}};
    int n = tensors_in_order(c, tensors), n_matrices = 0;
    for (const Tensor *t = tensors; t < tensors + n; t++) {
        if (t->kind == FLOATS) continue;
        n_matrices += t->of_layer ? c->n_layers : 1;
    }
    return n_matrices;
}

static bool check_layer_table(const ModelConfig *c, const uint8_t *flags, Error *err) {
    int most = LAYER_SEES_ALL | (c->sliding_rope ? LAYER_SLIDING : LAYER_NOPE);
    for (int l = 0; flags && l < c->n_layers; l++) {
        if (flags[l] <= most) continue;
        return fail(err, "impossible header: layer_table has %d for layer %d (expected 0 to %d)", flags[l], l, most);
    }
    return true;
}

static bool check_type_table(const ModelConfig *c, const uint8_t *types, int n, Error *err) {
    for (int i = 0; i < n; i++) {
        bool is_known = types[i] < N_WEIGHT_TYPES;
        bool has_groups = types[i] != WEIGHT_Q8 || c->group_size > 0;
        if (is_known && has_groups) continue;
        return fail(err,
                    "impossible header: type_table has %d for matrix %d "
                    "(expected 0 to %d, q8 with groups)",
                    types[i], i, N_WEIGHT_TYPES - 1);
    }
    return true;
}

// Takes what may stand between header and tensors: longrope's lists, a byte for each layer, a byte
// for each matrix.
static bool take_tables(Cursor *at, Error *err) {
    Model *m = at->model;
    const ModelConfig *c = &m->config;
    int n_layers = c->has_layers ? c->n_layers : 0;
    int n_matrices = c->has_types ? count_matrices(c) : 0;
    m->rope.short_factors = take(at, c->n_longrope, sizeof(double));
    m->rope.long_factors = take(at, c->n_longrope, sizeof(double));
    const uint8_t *flags = take(at, n_layers, 1);
    at->types = take(at, n_matrices, 1);
    if (at->offset > m->file.size)
        return fail(err, "truncated (%zu bytes found, the header has %zu)", m->file.size, (size_t)at->offset);
    if (!check_layer_table(c, flags, err)) return false;
    for (int l = 0; flags && l < n_layers; l++) m->layers[l].flags = flags[l];
    return check_type_table(c, at->types, n_matrices, err);
}

// Takes all tensors, and compares what they need with what the file has.
static bool take_tensors(Cursor *at, Error *err) {
    Model *m = at->model;
    size_t size = m->file.size;
    if (m->config.version >= 3) at->alignment = 64;
    model_visit(m, take_tensor, at);
    take(at, 0, 0);  // what fills up the last one
    if (m->config.shared_classifier) m->classifier = m->embedding;
    if (at->offset > INT64_MAX) return fail(err, "impossible header: the tensors' sizes overflow");
    if (at->cut)
        return fail(err, "impossible header: rows of %s are not whole blocks of %d weights", weight_type_names[at->cut],
                    block_columns(at->cut));
    if (at->offset == size) return true;
    return fail(err, "%s (%zu bytes found, %llu expected from the header)",
                at->offset > size ? "truncated" : "too long", size, (unsigned long long)at->offset);
}

static bool read_model(Model *m, Error *err) {
    Cursor at = {.model = m, .alignment = 1};
    if (!header_read(m, &at.offset, err)) return false;
    m->layers = alloc_array(m->config.n_layers, sizeof *m->layers, "layers", err);
    if (!m->layers || !take_tables(&at, err) || !take_tensors(&at, err)) return false;
    bool good = settings_check(&m->rope, m->config.seq_len, err);
    if (good && m->config.sliding_rope) {
        good = settings_check(&m->sliding, m->config.seq_len, err);
        if (!good) fail(err, "sliding layers: %s", err->text);
    }
    return good || fail(err, "impossible header: %s", err->text);
}

bool model_open(const char *path, Model *m, Error *err) {
    *m = (Model){0};
    if (!map_file(path, &m->file, err)) return false;
    if (read_model(m, err)) return true;
    model_close(m);
    return fail(err, "%s: %s", path, err->text);
}

bool model_reaches(const Model *m, int positions, Error *err) {
    int learned = m->config.encoding_rows;
    return !m->learned || positions <= learned ||
           fail(err, "the model has learned %d positions, and knows nothing of more (found a context of %d)", learned,
                positions);
}

void model_close(Model *m) {
    free(m->layers);
    unmap_file(&m->file);
    *m = (Model){0};
}
