// Files of llama2.c, versions 0, 1 and 2, and the note that older versions of this program wrote
// after the tensors. Their models are plain Llamas; only the file is another one: a header of
// seven numbers, and one tensor of all layers, then the next.
#include <stdlib.h>
#include <string.h>

#include "hooks.h"

enum { V0_BYTES = 28, V2_BYTES = 256 };  // of a header: of version 0, and of 1 and 2

// ---- the header ----

// Seven int32, from version 1 on a byte, in 2 an int32. The rest is Llama 2's.
static void take_header(Model *m, const uint8_t *p, int version) {
    int32_t n[7];  // dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
    memcpy(n, p, sizeof n);
    // In version 0 the vocabulary is negative when the classifier is not shared.
    int vocab_size = version == 0 && n[5] >= -MAX_VOCAB ? abs(n[5]) : n[5];
    ModelConfig *c = &m->config;
    c->magic = MAGIC;
    c->version = 3;  // as which it is checked
    c->dim = n[0];
    c->hidden_dim = n[1];
    c->n_layers = n[2];
    c->n_heads = n[3];
    c->n_kv_heads = n[4];
    c->head_dim = n[3] > 0 ? n[0] / n[3] : 0;
    c->vocab_size = vocab_size;
    c->seq_len = n[6];
    c->shared_classifier = version > 0 ? p[28] : n[5] > 0;
    c->weight_type = version == 2 ? WEIGHT_Q8 : WEIGHT_F32;
    if (version == 2) memcpy(&c->group_size, p + 29, sizeof c->group_size);
    c->norm_eps = 1e-5;
    c->n_eos = vocab_size > 2;
    c->bos_id = vocab_size > 2 ? 1 : -1;
    c->eos_ids[0] = 2;
    m->rope = (RopeConfig){.theta = 10000, .train_ctx = n[6], .truncate = true};
}

static bool is_old(const Model *m) {
    int32_t start[2];
    memcpy(start, m->file.data, sizeof start);
    return start[0] != MAGIC || start[1] == 1 || start[1] == 2;  // version 0 has no magic
}

// Its values are checked as those of a header of ours are.
static bool read_old_header(Model *m, uint64_t *bytes, Error *err) {
    const uint8_t *file = m->file.data;
    FieldTable tables[MAX_TABLES];
    const int n = model_fields(m, tables);
    uint8_t header[HEADER_BYTES] = {0};
    int32_t start[2];
    memcpy(start, file, sizeof start);
    const bool has_magic = start[0] == MAGIC;
    const int version = has_magic ? start[1] : 0;
    *bytes = has_magic ? V2_BYTES : V0_BYTES;
    if (m->file.size < *bytes)
        return fail(err, "truncated (%zu bytes, its header has %llu)", m->file.size,
                    (unsigned long long)*bytes);
    take_header(m, has_magic ? file + 8 : file, version);
    fields_write(tables, n, header);
    if (header_take(m, header, version, err)) return true;
    return fail(err, "%s%s",
                has_magic ? "" : "not a model file: no ak42 magic, and as llama2.c's version 0 an ",
                err->text);
}

// llama2.c exports models whose heads fill dim, and, in version 2, whose groups fill each tensor.
static bool check_old(Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    int64_t d = c->dim;
    int64_t kv_rows = c->n_kv_heads * c->head_dim;
    int64_t group = c->version == 2 ? c->group_size : 1;
    if (c->version < 3 && c->dim % c->n_heads)
        return fail(err, "dim %d is not a multiple of %d heads", (int)c->dim, c->n_heads);
    if (d * d % group || d * kv_rows % group || d * c->hidden_dim % group ||
        d * c->vocab_size % group)
        return fail(err, "group_size %d does not divide the tensors", c->group_size);
    return true;
}

// ---- tensors ----

// Version 0 has a table of RoPE's angles, which is not used.
static void add_angles(Model *m, Layer *w, Tensors *t) {
    (void)w;
    if (m->config.version > 0) return;
    t->rows[t->n++] = (Tensor){910, &m->angles, FLOATS, .rows = m->config.seq_len,
                               .cols = m->config.head_dim};
}

// One tensor of all layers, then the next: version 0's by their places in later versions
// (tensors.c), and those of versions 1 and 2.
static bool visit_old(Model *m, TensorVisitor *visit, void *whose) {
    static const int orders[2][14] = {
        {10, 100, 130, 160, 170, 200, 300, 310, 350, 330, 900, 910, 920, 0},
        {100, 300, 900, 10, 130, 160, 170, 200, 310, 350, 330, 920, 0},
    };
    if (m->config.version >= 3) return false;
    for (const int *place = orders[m->config.version > 0]; *place; place++) {
        const bool is_of_layers = *place >= OF_LAYERS && *place < AFTER_LAYERS;
        for (int l = 0; l < (is_of_layers ? m->config.n_layers : 1); l++)
            visit_places(m, &m->layers[l], *place, *place + 1, visit, whose);
    }
    return true;
}

// Groups of version 2 run on from row to row.
static void set_old_groups(const Model *m, Matrix *matrix) {
    matrix->groups_cross_rows = m->config.version == 2 && matrix->cols % m->config.group_size != 0;
}

// A note of 32 bytes that older versions of this program wrote after the tensors.
static bool ends_with_note(const Model *m, uint64_t offset) {
    return m->config.version >= 3 && m->file.size == offset + 32 &&
           memcmp(m->file.data + offset, "ANCR", 4) == 0;
}

const Kind old_files_kind = {
    .is_other_form = is_old,
    .read_header = read_old_header,
    .check = check_old,
    .add_tensors = add_angles,
    .visit = visit_old,
    .set_groups = set_old_groups,
    .may_end = ends_with_note,
};
