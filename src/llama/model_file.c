// Where a model file has its tensors: it is mapped, and they are used where they lie.
#include <stdlib.h>
#include <string.h>

#include "../base/settings.h"
#include "model.h"

// A place in the file. Only `offset` goes past its end, for an error to tell the expected size;
// pointers never do.
typedef struct {
    Model *model;
    const uint8_t *types;  // of the matrices that are not taken yet; NULL: config.weight_type
    uint64_t alignment;    // of what is taken
    uint64_t offset;       // once above INT64_MAX it stays there
    WeightType cut;        // a type of blocks that would not fill a row
    int64_t cut_group;  // rows of an expert whose packed groups would run on into the next; 0: none
} Cursor;

// Takes count * item_bytes bytes, which is 2^54 at most. NULL for a count of 0.
static const void *take(Cursor *at, uint64_t count, uint64_t item_bytes) {
    const MappedFile *file = &at->model->file;
    uint64_t filled = at->offset + at->alignment - 1;
    uint64_t here = filled / at->alignment * at->alignment;
    if (here <= INT64_MAX) at->offset = here + count * item_bytes;
    if (count == 0) return NULL;
    if (here > file->size) here = file->size;
    return file->data + here;
}

// Rows of a matrix, or of each of the experts' that lie one below the other in it.
static int64_t rows_of_one(const ModelConfig *c, const Tensor *t) {
    bool is_stack = t->owner == OF_EXPERTS && t->place < offsetof(Layer, xielu);
    return is_stack ? t->rows / c->n_experts : t->rows;
}

static void take_tensor(void *cursor, const Tensor *t, void *member) {
    Cursor *at = cursor;
    const ModelConfig *c = &at->model->config;
    if (t->kind == FLOATS) {
        *(const float **)member = take(at, t->rows * t->cols, sizeof(float));
        return;
    }
    int code = at->types ? *at->types++ : (int)c->weight_type;
    WeightType type = code % TYPE_PACKED;
    Matrix *m = member;
    *m = (Matrix){0};
    m->type = type;
    m->packed = code >= TYPE_PACKED;
    m->rows = t->rows;
    m->cols = t->cols;
    m->group_size = c->group_size;
    m->groups_cross_rows = c->version == 2 && t->cols % c->group_size != 0;
    if (t->cols % block_columns(type)) at->cut = type;
    int64_t of_one = rows_of_one(c, t);
    if (m->packed && of_one < t->rows && of_one % PACKED_ROWS) at->cut_group = of_one;
    m->data = take(at, t->rows, matrix_row_bytes(m));
    m->scales = take(at, matrix_scale_bytes(m), 1);
}

// Counts the matrices of all layers.
static void count_matrix(void *count, const Tensor *t, void *member) {
    (void)member;
    if (t->kind != FLOATS) ++*(int *)count;
}

// Takes `count` bytes that stand before the tensors. NULL for a count of 0, false when they are
// cut.
static bool take_table(Cursor *at, int count, const uint8_t **table, Error *err) {
    size_t size = at->model->file.size;
    *table = take(at, count, 1);
    if (at->offset <= size) return true;
    return fail(err, "truncated (%zu bytes found, the header has %zu)", size, (size_t)at->offset);
}

// Takes what may stand between header and tensors: longrope's lists, a byte for each layer, its
// shape, a byte for each matrix.
static bool take_tables(Cursor *at, Error *err) {
    Model *m = at->model;
    const ModelConfig *c = &m->config;
    const uint8_t *flags;
    const uint8_t *shapes;
    int n_shapes = c->has_shapes ? c->n_layers * SHAPE_NUMBERS * 4 : 0;
    int n_flags = c->has_layers ? c->n_layers : 0;
    int n_matrices = 0;
    m->rope.short_factors = take(at, c->n_longrope, sizeof(double));
    m->rope.long_factors = take(at, c->n_longrope, sizeof(double));
    if (!take_table(at, n_flags, &flags, err)) return false;
    if (!read_layer_table(m, flags, err)) return false;
    if (!take_table(at, n_shapes, &shapes, err)) return false;
    if (!read_shape_table(m, shapes, err)) return false;
    if (c->has_types) model_visit(m, count_matrix, &n_matrices);
    if (!take_table(at, n_matrices, &at->types, err)) return false;
    return check_type_table(c, at->types, n_matrices, err);
}

// The anchor: magic, window, checksum, nothing, the mean as float64, nothing.
static const uint32_t ANCHOR_MAGIC = 0x52434e41;  // "ANCR"

void anchor_to_bytes(const Anchor *anchor, uint8_t out[ANCHOR_BYTES]) {
    const uint32_t head[] = {ANCHOR_MAGIC, anchor->window, anchor->text, 0};
    memset(out, 0, ANCHOR_BYTES);
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, &anchor->nll, sizeof anchor->nll);
}

// Whether nothing but an anchor stands behind the tensors, which is then read.
static bool is_anchor(Model *m, const uint8_t *bytes, uint64_t n) {
    uint32_t head[4];
    uint8_t again[ANCHOR_BYTES];
    if (m->config.version < 3 || n != ANCHOR_BYTES) return false;
    memcpy(head, bytes, sizeof head);
    m->anchor = (Anchor){.is_noted = true, .window = head[1], .text = head[2]};
    memcpy(&m->anchor.nll, bytes + sizeof head, sizeof m->anchor.nll);
    anchor_to_bytes(&m->anchor, again);
    return memcmp(bytes, again, ANCHOR_BYTES) == 0 && m->anchor.nll > 0 && m->anchor.nll < 1e6;
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
        return fail(err, "impossible header: rows of %s are not whole blocks of %d weights",
                    weight_type_names[at->cut], block_columns(at->cut));
    if (at->cut_group)
        return fail(
            err, "impossible header: experts of %lld rows are packed (expected a multiple of %d)",
            (long long)at->cut_group, PACKED_ROWS);
    m->end = at->offset;
    if (at->offset == size) return true;
    if (size > at->offset &&
        is_anchor(m, (const uint8_t *)m->file.data + at->offset, size - at->offset))
        return true;
    return fail(err, "%s (%zu bytes found, %llu expected from the header)",
                at->offset > size ? "truncated" : "too long", size, (unsigned long long)at->offset);
}

static bool read_model(Model *m, Error *err) {
    Cursor at = {.model = m, .alignment = 1};
    if (!header_read(m, &at.offset, err)) return false;
    m->layers = alloc_array(m->config.n_layers, sizeof *m->layers, "layers", err);
    if (!m->layers) return false;
    if (!take_tables(&at, err)) return false;
    if (!take_tensors(&at, err)) return false;
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

void model_close(Model *m) {
    free(m->layers);
    unmap_file(&m->file);
    *m = (Model){0};
}
