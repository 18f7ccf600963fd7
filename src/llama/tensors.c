// A Llama's tensors in the order of a model file. The file is mapped, and they are used where they
// lie in it.
#include "model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../rope_settings.h"
#include "hooks.h"

// ---- which tensors ----

// A row of the table is a Tensor: its place in the file, where it goes, what it is for, and its
// shape.
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
    const uint8_t *types;  // of the matrices still to take; NULL: config.weight_type
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
    int code = r->types ? *r->types++ : (int)c->weight_type;
    Matrix *m = t->member;
    *m = matrix_of_code(code, t->rows, t->cols, c->group_size);
    m->groups_cross_rows = c->version == 2 && t->cols % c->group_size != 0;
    r->is_good = r->is_good && matrix_check(m, t->parts, r->err);
    if (r->model->widest < t->cols) r->model->widest = t->cols;
    m->data = cursor_take(&r->at, t->rows, matrix_row_bytes(m));
    m->scales = cursor_take(&r->at, matrix_scale_bytes(m), 1);
}

static void count_matrix(void *count, const Tensor *t) {
    if (t->kind != FLOATS) ++*(int *)count;
}

// Takes what may lie between header and tensors: longrope's lists, other kinds' tables, and a byte
// for the type of each matrix.
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
    return cursor_take_now(&r->at, n_matrices, &r->types, err) &&
           weights_check_codes(r->types, n_matrices, m->config.group_size, err);
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

static size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t added_bytes(const Kinds *known, AddedTo whole) {
    size_t bytes = aligned(known->extra[whole]) + aligned(known->pointers[whole]);
    for (int k = 0; k < known->n; k++) bytes += aligned(known->rows[k]->parts[whole].bytes);
    return bytes;
}

void *added_divide(const Kinds *known, AddedTo whole, void *block) {
    uint8_t *pointers = (uint8_t *)block + aligned(known->extra[whole]);
    uint8_t *at = pointers + aligned(known->pointers[whole]);
    for (int k = 0; k < known->n; k++) {
        const KindPart *part = &known->rows[k]->parts[whole];
        if (part->bytes) memcpy(pointers + part->place, &at, sizeof at);
        at += aligned(part->bytes);
    }
    return pointers;
}

// Memory for what other kinds add to the model.
static bool make_extra(Model *m, Error *err) {
    m->config.extra = alloc_array(1, added_bytes(m->known, OF_MODEL), "a model", err);
    if (m->config.extra) m->config.kinds = added_divide(m->known, OF_MODEL, m->config.extra);
    return m->config.extra;
}

// Memory for the layers, and for what other kinds add to them.
static bool make_layers(Model *m, Error *err) {
    int n = m->config.n_layers;
    size_t bytes = added_bytes(m->known, OF_LAYER);
    m->layers = alloc_array(n, sizeof *m->layers, "layers", err);
    uint8_t *extra = m->layers ? alloc_array(n, bytes, "layers", err) : NULL;
    for (int l = 0; extra && l < n; l++, extra += bytes) {
        m->layers[l].extra = (struct LayerExtra *)(void *)extra;
        m->layers[l].kinds = added_divide(m->known, OF_LAYER, extra);
    }
    return extra;
}

static bool read_model(Model *m, Error *err) {
    Mapping r = {m, .at = {.file = &m->file, .alignment = 1}, .err = err, .is_good = true};
    bool good = make_extra(m, err) && header_read(m, &r.at.offset, err) && make_layers(m, err) &&
                take_tables(&r, err) && take_tensors(&r, err);
    return good && (settings_check(&m->rope, m->config.seq_len, err) ||
                    fail(err, "impossible header: %s", err->text));
}

bool model_open(const char *path, const Kinds *known, Model *m, Error *err) {
    static const Kind *const no_rows[1];
    static const Kinds none = {.rows = no_rows};
    *m = (Model){.known = known ? known : &none};
    if (!map_file(path, &m->file, err)) return false;
    if (read_model(m, err)) return true;
    model_close(m);
    return fail(err, "%s: %s", path, err->text);
}

void model_close(Model *m) {
    if (m->layers) free(m->layers->extra);
    free(m->layers);
    free(m->config.extra);
    unmap_file(&m->file);
    *m = (Model){.config = {0}};
}
