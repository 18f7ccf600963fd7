// A Llama's tensors, and where they lie in a model file. docs/format.md is the layout.
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "header.h"

// ---- what a Llama consists of ---------------------------------------------------------------------------------------

enum { N_TENSORS = 25 };

typedef struct {
    Tensor row[N_TENSORS + 1];  // the last one has no name
} TensorTable;

// Macros, because no function can be given a member.
#define MODEL(member) #member, false, offsetof(Model, member)
#define LAYER(member) #member, true, offsetof(Layer, member)

// All tensors, in the order of versions 3 and 4.
static TensorTable all_tensors(const ModelConfig *c) {
    int64_t dim = c->dim, hidden = c->hidden_dim, head = c->head_dim, q = c->n_heads * head, kv = c->n_kv_heads * head;
    bool shaw = c->encoding == ENCODING_SHAW, xl = c->encoding == ENCODING_TRANSFORMER_XL;
    return (TensorTable){{
        // where, what, rows, columns, whether this model has it
        {MODEL(embedding), EMBEDDING, c->vocab_size, dim, true},
        {MODEL(learned), FLOATS, c->encoding_rows, dim, c->encoding == ENCODING_LEARNED},
        {LAYER(attention_norm), FLOATS, 1, dim, true},
        {LAYER(wq), ATTENTION, q, dim, true},
        {LAYER(wk), ATTENTION, kv, dim, true},
        {LAYER(wv), ATTENTION, kv, dim, true},
        {LAYER(bq), FLOATS, 1, q, c->qkv_bias},
        {LAYER(bk), FLOATS, 1, kv, c->qkv_bias},
        {LAYER(bv), FLOATS, 1, kv, c->qkv_bias},
        {LAYER(q_norm), FLOATS, 1, head, c->qk_norm},
        {LAYER(k_norm), FLOATS, 1, head, c->qk_norm},
        {LAYER(a_keys), FLOATS, c->encoding_rows, head, shaw},
        {LAYER(a_values), FLOATS, c->encoding_rows, head, shaw},
        {LAYER(wr), ATTENTION, kv, dim, xl},
        {LAYER(u), FLOATS, 1, q, xl},
        {LAYER(v), FLOATS, 1, q, xl},
        {LAYER(wo), ATTENTION, dim, q, true},
        {LAYER(bo), FLOATS, 1, dim, c->o_bias},
        {LAYER(ffn_norm), FLOATS, 1, dim, true},
        {LAYER(w1), FEED_FORWARD, hidden, dim, true},
        {LAYER(w3), FEED_FORWARD, hidden, dim, true},
        {LAYER(w2), FEED_FORWARD, dim, hidden, true},
        {MODEL(final_norm), FLOATS, 1, dim, true},
        {MODEL(angles), FLOATS, c->seq_len, head, c->version == 0},
        {MODEL(classifier), CLASSIFIER, c->vocab_size, dim, !c->shared_classifier},
    }};
}

// The orders of llama2.c: version 0, and versions 1 and 2.
static const char *const llama2c_orders[][N_TENSORS] = {
    {"embedding", "attention_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "final_norm", "angles",
     "classifier"},
    {"attention_norm", "ffn_norm", "final_norm", "embedding", "wq", "wk", "wv", "wo", "w1", "w2", "w3", "classifier"},
};

static TensorTable tensors_in_order(const ModelConfig *c) {
    const TensorTable all = all_tensors(c);
    if (c->version >= 3) return all;
    TensorTable table = {0};
    const char *const *order = llama2c_orders[c->version > 0];
    for (int n = 0; order[n]; n++)
        for (const Tensor *t = all.row; t->name; t++)
            if (strcmp(t->name, order[n]) == 0) table.row[n] = *t;
    return table;
}

// Versions 3 and 4 have all tensors of a layer together; llama2.c's have one tensor of all layers, then the next.
void model_visit(Model *m, TensorVisitor *visit, void *whose) {
    const TensorTable table = tensors_in_order(&m->config);
    Layer unknown;  // stands for every layer while there is no memory for them
    for (const Tensor *first = table.row, *end; first->name; first = end) {
        end = first + 1;
        while (m->config.version >= 3 && first->of_layer && end->of_layer) end++;
        for (int l = 0; l < (first->of_layer ? m->config.n_layers : 1); l++)
            for (const Tensor *t = first; t < end; t++) {
                void *owner = !t->of_layer ? (void *)m : m->layers ? &m->layers[l] : &unknown;
                if (t->is_there) visit(whose, t, (uint8_t *)owner + t->place);
            }
    }
}

// ---- where a file has it --------------------------------------------------------------------------------------------

// Stands at a byte of the file, and takes what begins there. `offset` goes on past the end of the file, so that the
// size that was expected can be told; pointers past the end are never formed.
typedef struct {
    const MappedFile *file;
    const Header *header;
    uint64_t offset;  // once above INT64_MAX it stays there
    int n_matrices;   // taken so far
    WeightType cut;   // a type of blocks that would not fill a row
} Cursor;

// What comes next: from version 3 on it begins at a multiple of 64 bytes. No header's count * item_bytes is above 2^47.
static const void *take(Cursor *c, uint64_t count, uint64_t item_bytes) {
    uint64_t alignment = c->header->config.version >= 3 ? 64 : 1, size = c->file->size;
    uint64_t here = (c->offset + alignment - 1) / alignment * alignment;
    if (here <= INT64_MAX) c->offset = here + count * item_bytes;
    return c->file->data + (here <= size ? here : size);
}

// The values, then the scales of types that have them.
static Matrix take_matrix(Cursor *c, int64_t rows, int64_t cols) {
    const Header *h = c->header;
    Matrix m = {.type = h->config.weight_type, .rows = rows, .cols = cols, .group_size = h->group_size};
    if (h->types) m.type = h->types[c->n_matrices++];
    m.groups_cross_rows = h->config.version == 2 && cols % h->group_size != 0;
    const BlockSize block = block_size(m.type);
    if (block.values && cols % block.values) c->cut = m.type;
    m.data = take(c, rows, matrix_row_bytes(&m));
    const int64_t scales = matrix_scale_bytes(&m);
    if (scales) m.scales = take(c, scales, 1);
    return m;
}

static void take_tensor(void *cursor, const Tensor *t, void *member) {
    if (t->kind == FLOATS) *(const float **)member = take(cursor, t->rows * t->cols, sizeof(float));
    else *(Matrix *)member = take_matrix(cursor, t->rows, t->cols);
}

// Takes all tensors. False with the reason when they are not exactly what is left of the file.
static bool take_tensors(Model *m, const Header *header, Error *err) {
    Cursor c = {.file = &m->file, .header = header, .offset = header->bytes};
    model_visit(m, take_tensor, &c);
    take(&c, 0, 0);  // what fills up the last one
    if (m->config.shared_classifier) m->classifier = m->embedding;
    if (c.offset > INT64_MAX) return fail(err, "impossible header: the tensors' sizes overflow");
    if (c.cut)
        return fail(err, "impossible header: rows of %s are not whole blocks of %d weights", weight_type_names[c.cut],
                    block_size(c.cut).values);
    if (c.offset == m->file.size) return true;
    return fail(err, "%s (%zu bytes found, %llu expected from the header)",
                c.offset > m->file.size ? "truncated" : "too long", m->file.size, (unsigned long long)c.offset);
}

static bool read_model(Model *m, Error *err) {
    Header header;
    if (!header_read(m->file.data, m->file.size, &header, err)) return false;
    m->config = header.config;
    m->rope = header.rope;
    // Before the layers get memory the size of the file has to justify it.
    if (!take_tensors(m, &header, err)) return false;
    m->layers = alloc_array(m->config.n_layers, sizeof *m->layers, "layers", err);
    for (int l = 0; m->layers && header.layers && l < m->config.n_layers; l++) {
        m->layers[l].sees_all = header.layers[l] & LAYER_SEES_ALL;
        m->layers[l].without_rope = header.layers[l] & LAYER_WITHOUT_ROPE;
    }
    return m->layers && take_tensors(m, &header, err);
}

bool model_open(const char *path, Model *m, Error *err) {
    *m = (Model){0};
    if (!map_file(path, &m->file, err)) return false;
    if (read_model(m, err)) return true;
    model_close(m);
    return fail(err, "%s: %s", path, err->text);
}

void model_close(Model *m) {
    free(m->layers);
    unmap_file(&m->file);
    *m = (Model){0};
}
