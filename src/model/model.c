// Opening a model file: what its header says (header.c), then where in the mapped file each tensor lies.
#include "model.h"

#include <stdlib.h>

#include "../settings.h"
#include "blocks.h"
#include "header.h"

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian and used in place: this machine's byte order is not supported"
#endif
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "NaN and infinity in a file have to be seen, and sums have an order: build without -ffast-math (-Ofast)"
#endif

// Stands at a byte of the file, and takes what begins there. `offset` goes on past the end of the file, so that the
// size that was expected can be told; pointers past the end are never formed.
typedef struct {
    const MappedFile *file;
    const Header *header;
    uint64_t offset;
    bool overflow;   // the offset does not fit in 64 bits
    int n_matrices;  // taken so far
    WeightType cut;  // a type of blocks that would not fill a row
} Cursor;

// What comes next: from version 3 on it begins at a multiple of 64 bytes.
static const void *take(Cursor *c, uint64_t count, uint64_t item_bytes) {
    uint64_t alignment = c->header->config.version >= 3 ? 64 : 1, size = c->file->size, here, bytes;
    c->overflow |= !add_size(c->offset, alignment - 1, &here);
    here = here / alignment * alignment;
    c->overflow |= !mul_size(count, item_bytes, &bytes) || !add_size(here, bytes, &c->offset);
    return c->file->data + (here <= size ? here : size);
}

// The values, then the scales of types that have them. No header's rows * cols is above 2^44.
static Matrix take_matrix(Cursor *c, int64_t rows, int64_t cols) {
    const ModelConfig *k = &c->header->config;
    int64_t size = c->header->group_size, scales = 0;
    WeightType type = c->header->types ? (WeightType)c->header->types[c->n_matrices++] : k->weight_type;
    Matrix m = {.type = type, .rows = rows, .cols = cols, .group_size = size};
    const BlockSize block = block_size(type);
    if (block.values && cols % block.values) c->cut = type;
    if (m.type == WEIGHT_Q4) scales = rows * groups_of(cols);  // pairs of float16, one for each pack
    if (m.type == WEIGHT_Q8) {
        m.groups_cross_rows = k->version == 2 && cols % size != 0;
        scales = m.groups_cross_rows ? rows * cols / size : rows * ((cols + size - 1) / size);
    }
    m.data = take(c, rows, matrix_row_bytes(&m));
    if (scales) m.scales = take(c, scales, sizeof(float));
    return m;
}

// Those from ATT_NORM to W3 are a layer's. TABLES are cosines and sines, which are no longer used.
typedef enum {
    END,
    EMBEDDING,
    LEARNED,
    ATT_NORM,
    WQ,
    WK,
    WV,
    BIASES,
    QK_NORMS,
    RELATIVE,
    WO,
    OUT_BIAS,
    FFN_NORM,
    W1,
    W2,
    W3,
    FINAL_NORM,
    CLASSIFIER,
    TABLES
} Tensor;

// The orders of version 0, of 1 and 2, and of 3 and 4. These have all tensors of a layer together; the others have one
// tensor of all layers, then the next tensor of all layers.
static const Tensor orders[][19] = {
    {EMBEDDING, ATT_NORM, WQ, WK, WV, WO, FFN_NORM, W1, W2, W3, FINAL_NORM, TABLES, CLASSIFIER},
    {ATT_NORM, FFN_NORM, FINAL_NORM, EMBEDDING, WQ, WK, WV, WO, W1, W2, W3, CLASSIFIER},
    {EMBEDDING, LEARNED, ATT_NORM, WQ, WK, WV, BIASES, QK_NORMS, RELATIVE, WO, OUT_BIAS, FFN_NORM, W1, W3, W2,
     FINAL_NORM, CLASSIFIER},
};

// Takes one tensor where the cursor stands: all shapes are here, a matrix's as rows, columns.
static void take_tensor(Cursor *c, Tensor tensor, Model *m, Layer *layer) {
    const ModelConfig *k = &c->header->config;
    int64_t q_rows = k->n_heads * k->head_dim, kv_rows = k->n_kv_heads * k->head_dim;
    switch (tensor) {
    case EMBEDDING: m->embedding = take_matrix(c, k->vocab_size, k->dim); break;
    case LEARNED:
        if (k->encoding == ENCODING_LEARNED) m->learned = take(c, k->encoding_rows * k->dim, sizeof(float));
        break;
    case ATT_NORM: layer->attention_norm = take(c, k->dim, sizeof(float)); break;
    case WQ: layer->wq = take_matrix(c, q_rows, k->dim); break;
    case WK: layer->wk = take_matrix(c, kv_rows, k->dim); break;
    case WV: layer->wv = take_matrix(c, kv_rows, k->dim); break;
    case WO: layer->wo = take_matrix(c, k->dim, q_rows); break;
    case BIASES:
        if (!k->qkv_bias) break;
        layer->bq = take(c, q_rows, sizeof(float));
        layer->bk = take(c, kv_rows, sizeof(float));
        layer->bv = take(c, kv_rows, sizeof(float));
        break;
    case QK_NORMS:
        if (!k->qk_norm) break;
        layer->q_norm = take(c, k->head_dim, sizeof(float));
        layer->k_norm = take(c, k->head_dim, sizeof(float));
        break;
    case RELATIVE:
        if (k->encoding == ENCODING_SHAW) {
            layer->a_keys = take(c, k->encoding_rows * k->head_dim, sizeof(float));
            layer->a_values = take(c, k->encoding_rows * k->head_dim, sizeof(float));
        }
        if (k->encoding != ENCODING_TRANSFORMER_XL) break;
        layer->wr = take_matrix(c, kv_rows, k->dim);
        layer->u = take(c, q_rows, sizeof(float));
        layer->v = take(c, q_rows, sizeof(float));
        break;
    case OUT_BIAS: layer->bo = k->o_bias ? take(c, k->dim, sizeof(float)) : NULL; break;
    case FFN_NORM: layer->ffn_norm = take(c, k->dim, sizeof(float)); break;
    case W1: layer->w1 = take_matrix(c, k->hidden_dim, k->dim); break;
    case W3: layer->w3 = take_matrix(c, k->hidden_dim, k->dim); break;
    case W2: layer->w2 = take_matrix(c, k->dim, k->hidden_dim); break;
    case FINAL_NORM: m->final_norm = take(c, k->dim, sizeof(float)); break;
    case CLASSIFIER: m->classifier = k->shared_classifier ? m->embedding : take_matrix(c, k->vocab_size, k->dim); break;
    default: take(c, k->seq_len * k->head_dim, sizeof(float));  // TABLES
    }
}

static void take_tensors(Cursor *c, Model *m) {
    const ModelConfig *k = &c->header->config;
    const Tensor *next = orders[(k->version + 1) / 2];
    Layer counted;  // stands for each layer until there is memory for them
    while (*next != END) {
        bool of_layer = *next >= ATT_NORM && *next <= W3;
        int times = of_layer ? k->n_layers : 1, together = of_layer && k->version >= 3 ? W3 - ATT_NORM + 1 : 1;
        for (int l = 0; l < times; l++)
            for (int i = 0; i < together; i++) take_tensor(c, next[i], m, m->layers ? &m->layers[l] : &counted);
        next += together;
    }
    take(c, 0, 0);  // what fills up the last one
}

static bool read_model(Model *m, Error *err) {
    Header header;
    if (!header_read(m->file.data, m->file.size, &header, err)) return false;
    m->config = header.config;
    m->rope = header.rope;
    RopeConfig filled = m->rope;
    settings_fill_defaults(&filled, m->config.seq_len);
    const char *reason = settings_check(&filled);
    if (reason) return fail(err, "impossible header: %s", reason);
    for (int pass = 0; pass < 2;
         pass++) {  // to learn whether the size is right, and when it justifies the memory again
        Cursor c = {.file = &m->file, .header = &header, .offset = header.bytes};
        take_tensors(&c, m);
        if (c.overflow) return fail(err, "impossible header: the tensors' sizes overflow");
        if (c.cut)
            return fail(err, "impossible header: rows of %s are not whole blocks of %d weights",
                        weight_type_names[c.cut], block_size(c.cut).values);
        if (c.offset != m->file.size)
            return fail(err, "%s (%zu bytes found, %llu expected from the header)",
                        c.offset > m->file.size ? "truncated" : "too long", m->file.size, (unsigned long long)c.offset);
        if (pass == 0) m->layers = alloc_array(m->config.n_layers, sizeof *m->layers, "layers", err);
        if (!m->layers) return false;
    }
    for (int l = 0; header.layers && l < m->config.n_layers; l++) {
        m->layers[l].sees_all = header.layers[l] & LAYER_SEES_ALL;
        m->layers[l].without_rope = header.layers[l] & LAYER_WITHOUT_ROPE;
    }
    return true;
}

bool model_open(const char *path, Model *m, Error *err) {
    *m = (Model){0};
    if (!map_file(path, &m->file, err)) return false;
    Error reason;
    if (read_model(m, &reason)) return true;
    model_close(m);
    return fail(err, "%s: %s", path, reason.text);
}

void model_close(Model *m) {
    free(m->layers);
    unmap_file(&m->file);
    *m = (Model){0};
}
