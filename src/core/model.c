// A Llama's tensors, and where they lie in a model file.
#include "model.h"

#include <stdlib.h>

#include "header.h"

// ---- what a Llama consists of ----

enum { N_TENSORS = 25 };

// Macros, because no function can be given a member.
#define MODEL(member) false, offsetof(Model, member)
#define LAYER(member) true, offsetof(Layer, member)

// Fills in the tensors that the model has, in the order of its file's version. Returns their number.
static int tensors_in_order(const ModelConfig *c, Tensor out[N_TENSORS]) {
    int64_t dim = c->dim, hidden = c->hidden_dim, head = c->head_dim, vocab = c->vocab_size;
    int64_t q = c->n_heads * head, kv = c->n_kv_heads * head, xl = c->encoding == ENCODING_TRANSFORMER_XL;
    int64_t learned = c->encoding == ENCODING_LEARNED ? c->encoding_rows : 0;
    int64_t shaw = c->encoding == ENCODING_SHAW ? c->encoding_rows : 0;
    const Tensor all[N_TENSORS] = {
        // In the order of versions 3 and 4: where, places in llama2.c's, what, rows (0: the model lacks it), columns.
        {MODEL(embedding), {1, 4}, EMBEDDING, vocab, dim},
        {MODEL(learned), {0}, FLOATS, learned, dim},
        {LAYER(attention_norm), {2, 1}, FLOATS, 1, dim},
        {LAYER(wq), {3, 5}, ATTENTION, q, dim},
        {LAYER(wk), {4, 6}, ATTENTION, kv, dim},
        {LAYER(wv), {5, 7}, ATTENTION, kv, dim},
        {LAYER(bq), {0}, FLOATS, c->qkv_bias, q},
        {LAYER(bk), {0}, FLOATS, c->qkv_bias, kv},
        {LAYER(bv), {0}, FLOATS, c->qkv_bias, kv},
        {LAYER(q_norm), {0}, FLOATS, c->qk_norm, head},
        {LAYER(k_norm), {0}, FLOATS, c->qk_norm, head},
        {LAYER(a_keys), {0}, FLOATS, shaw, head},
        {LAYER(a_values), {0}, FLOATS, shaw, head},
        {LAYER(wr), {0}, ATTENTION, xl * kv, dim},
        {LAYER(u), {0}, FLOATS, xl, q},
        {LAYER(v), {0}, FLOATS, xl, q},
        {LAYER(wo), {6, 8}, ATTENTION, dim, q},
        {LAYER(bo), {0}, FLOATS, c->o_bias, dim},
        {LAYER(ffn_norm), {7, 2}, FLOATS, 1, dim},
        {LAYER(w1), {8, 9}, FEED_FORWARD, hidden, dim},
        {LAYER(w3), {10, 11}, FEED_FORWARD, hidden, dim},
        {LAYER(w2), {9, 10}, FEED_FORWARD, dim, hidden},
        {MODEL(final_norm), {11, 3}, FLOATS, 1, dim},
        {MODEL(angles), {12}, FLOATS, c->version == 0 ? c->seq_len : 0, head},
        {MODEL(classifier), {13, 12}, CLASSIFIER, c->shared_classifier ? 0 : vocab, dim},
    };
    int n = 0;
    for (const Tensor *t = all; t < all + N_TENSORS; t++) {
        if (t->rows == 0) continue;
        out[c->version < 3 ? t->llama2c[c->version > 0] - 1 : n] = *t;
        n++;
    }
    return n;
}

// Versions 3 and 4 have all tensors of a layer together; llama2.c's have one tensor of all layers, then the next.
void model_visit(Model *m, TensorVisitor *visit, void *whose) {
    Tensor tensors[N_TENSORS] = {{0}};
    const Tensor *end = tensors + tensors_in_order(&m->config, tensors);
    for (const Tensor *first = tensors, *next; first < end; first = next) {
        next = first + 1;
        while (m->config.version >= 3 && first->of_layer && next->of_layer) next++;
        for (int l = 0; l < (first->of_layer ? m->config.n_layers : 1); l++)
            for (const Tensor *t = first; t < next; t++)
                visit(whose, t, (uint8_t *)(t->of_layer ? (void *)&m->layers[l] : (void *)m) + t->place);
    }
}

// ---- where a file has it ----

// A place in the file. Only `offset` goes past its end, for an error to tell the expected size; pointers never do.
typedef struct {
    Model *model;
    const uint8_t *types;  // of the matrices that are not taken yet; NULL: config.weight_type
    uint64_t alignment;    // of what is taken
    uint64_t offset;       // once above INT64_MAX it stays there
    WeightType cut;        // a type of blocks that would not fill a row
} Cursor;

// Takes count * item_bytes bytes, which is 2^47 at most. NULL for a count of 0.
static const void *take(Cursor *at, uint64_t count, uint64_t item_bytes) {
    uint64_t here = (at->offset + at->alignment - 1) / at->alignment * at->alignment, size = at->model->file.size;
    if (here <= INT64_MAX) at->offset = here + count * item_bytes;
    return count ? at->model->file.data + (here <= size ? here : size) : NULL;
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
    *m = (Matrix){.type = type, .rows = t->rows, .cols = t->cols, .group_size = c->group_size};
    m->groups_cross_rows = c->version == 2 && t->cols % c->group_size != 0;
    if (t->cols % block_columns(type)) at->cut = type;
    m->data = take(at, t->rows, matrix_row_bytes(m));
    m->scales = take(at, matrix_scale_bytes(m), 1);
}

// Takes what may stand between header and tensors: longrope's lists, a byte for each layer, a byte for each matrix.
static bool take_tables(Cursor *at, Error *err) {
    Model *m = at->model;
    const ModelConfig *c = &m->config;
    int n_layers = c->has_layers ? c->n_layers : 0, n_matrices = 0;
    Tensor tensors[N_TENSORS] = {{0}};
    for (int i = c->has_types ? tensors_in_order(c, tensors) : 0; i-- > 0;)
        if (tensors[i].kind != FLOATS) n_matrices += tensors[i].of_layer ? c->n_layers : 1;
    m->rope.short_factors = take(at, c->n_longrope, sizeof(double));
    m->rope.long_factors = take(at, c->n_longrope, sizeof(double));
    const uint8_t *flags = take(at, n_layers, 1), *types = at->types = take(at, n_matrices, 1);
    if (at->offset > m->file.size)
        return fail(err, "truncated (%zu bytes found, the header has %zu)", m->file.size, (size_t)at->offset);
    for (int l = 0; flags && l < n_layers; l++) {
        if (flags[l] > (LAYER_SEES_ALL | LAYER_NOPE))
            return fail(err, "impossible header: layer_table has %d for layer %d (expected 0 to 3)", flags[l], l);
        m->layers[l].flags = flags[l];
    }
    for (int i = 0; i < n_matrices; i++)
        if (types[i] >= N_WEIGHT_TYPES || (types[i] == WEIGHT_Q8 && c->group_size == 0))
            return fail(err, "impossible header: type_table has %d for matrix %d (expected 0 to %d, q8 with groups)",
                        types[i], i, N_WEIGHT_TYPES - 1);
    return true;
}

static bool read_model(Model *m, Error *err) {
    Cursor c = {.model = m, .alignment = 1};
    if (!header_read(m, &c.offset, err)) return false;
    m->layers = alloc_array(m->config.n_layers, sizeof *m->layers, "layers", err);
    if (!m->layers || !take_tables(&c, err)) return false;
    if (m->config.version >= 3) c.alignment = 64;
    model_visit(m, take_tensor, &c);
    take(&c, 0, 0);  // what fills up the last one
    if (m->config.shared_classifier) m->classifier = m->embedding;
    if (c.offset > INT64_MAX) return fail(err, "impossible header: the tensors' sizes overflow");
    if (c.cut)
        return fail(err, "impossible header: rows of %s are not whole blocks of %d weights", weight_type_names[c.cut],
                    block_columns(c.cut));
    return c.offset == m->file.size ||
           fail(err, "%s (%zu bytes found, %llu expected from the header)",
                c.offset > m->file.size ? "truncated" : "too long", m->file.size, (unsigned long long)c.offset);
}

bool model_open(const char *path, Model *m, Error *err) {
    *m = (Model){0};
    bool mapped = map_file(path, &m->file, err);
    if (check_native(path, &m->file, err) && mapped) {
        if (read_model(m, err)) return true;
        fail(err, "%s: %s", path, err->text);
    }
    model_close(m);
    return false;
}

void model_close(Model *m) {
    free(m->layers);
    unmap_file(&m->file);
    *m = (Model){0};
}
