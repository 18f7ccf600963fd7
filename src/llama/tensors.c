// A Llama's tensors in the order of a model file. The file is mapped, and they are used where they
// lie in it.
#include "model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../rope_settings.h"
#include "hooks.h"

// ---- which tensors ----

// A row of the table is a Tensor: its place in the file, its member, its purpose, and its shape.
static void add_llama_tensors(Model *m, Layer *w, Tensors *t) {
    const ModelConfig *c = &m->config;
    int64_t dim = c->dim, hidden = c->hidden_dim, vocab = c->vocab_size;
    int64_t heads = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t own = c->shared_classifier ? 0 : vocab;
    const Tensor rows[] = {
        {10, &m->embedding, EMBEDDING, .rows = vocab, .cols = dim, .looked_up = own > 0},
        {100, &w->attention_norm, FLOATS, .rows = 1, .cols = dim},
        {130, &w->wq, ATTENTION, .rows = heads, .cols = dim},
        {160, &w->wk, ATTENTION, .rows = kv, .cols = dim},
        {170, &w->wv, ATTENTION, .rows = kv, .cols = dim},
        {200, &w->wo, ATTENTION, .rows = dim, .cols = heads},
        {300, &w->ffn_norm, FLOATS, .rows = 1, .cols = dim},
        {310, &w->w1, FEED_FORWARD, .rows = hidden, .cols = dim},
        {330, &w->w3, FEED_FORWARD, .rows = hidden, .cols = dim},
        {350, &w->w2, FEED_FORWARD, .rows = dim, .cols = hidden},
        {900, &m->final_norm, FLOATS, .rows = 1, .cols = dim},
        {920, &m->classifier, CLASSIFIER, .rows = own, .cols = dim},
    };
    memcpy(t->rows, rows, sizeof rows);
    t->n = sizeof rows / sizeof rows[0];
}

void visit_places(Model *m, Layer *w, int first, int end, TensorVisitor *visit, void *whose) {
    Tensors t;
    add_llama_tensors(m, w, &t);
    EACH_KIND_THAT (add_tensors, k, m) (*k)->add_tensors(m, w, &t);
    for (const Tensor *row = t.rows; row < t.rows + t.n; row++)
        if (row->place >= first && row->place < end && row->rows > 0) visit(whose, row);
}

void model_visit(Model *m, TensorVisitor *visit, void *whose) {
    EACH_KIND_THAT (visit, k, m)
        if ((*k)->visit(m, visit, whose)) return;
    visit_places(m, m->layers, 0, OF_LAYERS, visit, whose);
    for (int l = 0; l < m->config.n_layers; l++)
        visit_places(m, &m->layers[l], OF_LAYERS, AFTER_LAYERS, visit, whose);
    visit_places(m, m->layers, AFTER_LAYERS, INT_MAX, visit, whose);
}

// ---- where they lie ----

typedef struct {
    Model *model;
    Cursor at;
    const uint8_t *types;  // of all matrices; NULL: they are of config.weight_type
    int n_matrices;        // taken so far
    Error *err;            // why a matrix cannot be of its type
    bool is_good;
} Mapping;

static void take_tensor(void *mapping, const Tensor *t) {
    Mapping *r = mapping;
    const ModelConfig *c = &r->model->config;
    if (t->kind == FLOATS) {
        *(const float **)t->member = cursor_take(&r->at, t->rows * t->cols, sizeof(float));
        return;
    }
    const int number = r->n_matrices++;
    const int code = r->types ? r->types[number] : (int)c->weight_type;
    Matrix *m = t->member;
    *m = (Matrix){.rows = t->rows, .cols = t->cols, .group_size = c->group_size};
    if (r->is_good && !matrix_set_type(m, code, t->parts, r->err))
        r->is_good = fail(r->err, "impossible header: matrix %d: %s", number, r->err->text);
    EACH_KIND_THAT (set_groups, k, r->model) (*k)->set_groups(r->model, m);
    if (r->model->widest < t->cols) r->model->widest = t->cols;
    m->data = cursor_take(&r->at, t->rows, matrix_row_bytes(m));
    m->scales = cursor_take(&r->at, matrix_scale_bytes(m), 1);
}

static void count_matrix(void *count, const Tensor *t) {
    if (t->kind != FLOATS) ++*(int *)count;
}

// Takes the tables between header and tensors: longrope's lists, the tables of other kinds, and a
// byte for the type of each matrix.
static bool take_tables(Mapping *r, Error *err) {
    Model *m = r->model;
    int n_matrices = 0;
    m->rope.short_factors = cursor_take(&r->at, m->config.n_longrope, sizeof(double));
    m->rope.long_factors = cursor_take(&r->at, m->config.n_longrope, sizeof(double));
    EACH_KIND_THAT (read_tables, k, m)
        if (!(*k)->read_tables(m, &r->at, err)) return false;
    EACH_KIND_THAT (check_layers, k, m)
        if (!(*k)->check_layers(m, err)) return false;
    if (m->config.has_types) model_visit(m, count_matrix, &n_matrices);
    return cursor_take_now(&r->at, n_matrices, &r->types, err);
}

// Takes all tensors. They must fill the file.
static bool take_tensors(Mapping *r, Error *err) {
    Model *m = r->model;
    size_t size = m->file.size;
    if (m->config.version >= 3) r->at.alignment = 64;
    model_visit(m, take_tensor, r);
    cursor_take(&r->at, 0, 0);  // the padding after the last one
    if (m->config.shared_classifier) m->classifier = m->embedding;
    if (r->at.offset > INT64_MAX)
        return fail(err, "impossible header: the tensors' sizes overflow");
    if (!r->is_good) return false;
    EACH_KIND_THAT (may_end, k, m)
        if ((*k)->may_end(m, r->at.offset)) return true;
    return r->at.offset == size || fail(err, "%s (%zu bytes found, %llu expected from the header)",
                                        r->at.offset > size ? "truncated" : "too long", size,
                                        (unsigned long long)r->at.offset);
}

bool model_map(Model *m, uint64_t header_bytes, Error *err) {
    Mapping r = {.model = m, .err = err, .is_good = true};
    r.at = (Cursor){.file = &m->file, .alignment = 1, .offset = header_bytes};
    return take_tables(&r, err) && take_tensors(&r, err) &&
           (settings_check(&m->rope, m->config.seq_len, err) ||
            fail(err, "impossible header: %s", err->text));
}
