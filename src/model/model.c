#define _POSIX_C_SOURCE 200809L
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian and used in place: this machine's byte order is not supported"
#endif
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "NaN and infinity in a file have to be seen, and sums have an order: build without -ffast-math (-Ofast)"
#endif

enum { HEADER_BYTES = 256, ALIGNMENT = 64 };

// Larger than any released model, and small enough that products of two of them fit in an int.
enum { MAX_WIDTH = 1 << 20, MAX_LAYERS = 1 << 16, MAX_HEADS = 1 << 14, MAX_VOCAB = 1 << 24, MAX_SEQ = 1 << 30 };

// ---- fields ---------------------------------------------------------------------------------------------------------

static uint32_t read_u32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static double read_f64(const uint8_t *p) {
    double x;
    memcpy(&x, p, 8);
    return x;
}

// Reads an unsigned field into an int and checks its range.
static bool read_int(const uint8_t *p, const char *name, long low, long high, int *out, Error *err) {
    uint32_t x = read_u32(p);
    if ((long)x < low || (long)x > high)
        return fail(err, "impossible header: %s is %ld (expected %ld to %ld)", name, (long)(int32_t)x, low, high);
    *out = (int)x;
    return true;
}

static bool read_optional(const uint8_t *p, const char *name, double *out, Error *err) {
    *out = read_f64(p);
    if (!isfinite(*out) || *out < 0)
        return fail(err, "impossible header: %s is %g (expected a number, or 0 for none)", name, *out);
    return true;
}

// What every version has.
static bool check_shape(const ModelConfig *c, Error *err) {
    if (c->n_heads % c->n_kv_heads)
        return fail(err, "impossible header: %d heads cannot share %d kv heads", c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2 || c->head_dim < 2 || c->head_dim > ROPE_MAX_HEAD_DIM)
        return fail(err, "impossible header: head_dim is %d (expected an even number from 2 to %d)", c->head_dim,
                    ROPE_MAX_HEAD_DIM);
    return true;
}

// The seven int32 of llama2.c's versions.
static bool read_legacy_config(const uint8_t *p, ModelConfig *c, Error *err) {
    if (!read_int(p, "dim", 1, MAX_WIDTH, &c->dim, err) ||
        !read_int(p + 4, "hidden_dim", 1, MAX_WIDTH, &c->hidden_dim, err) ||
        !read_int(p + 8, "n_layers", 1, MAX_LAYERS, &c->n_layers, err) ||
        !read_int(p + 12, "n_heads", 1, MAX_HEADS, &c->n_heads, err) ||
        !read_int(p + 16, "n_kv_heads", 1, MAX_HEADS, &c->n_kv_heads, err) ||
        !read_int(p + 24, "seq_len", 1, MAX_SEQ, &c->seq_len, err))
        return false;
    int32_t vocab = (int32_t)read_u32(p + 20);
    if (vocab == 0 || vocab > MAX_VOCAB || vocab < -MAX_VOCAB)
        return fail(err, "impossible header: vocab_size is %d (expected 1 to %d)", vocab, MAX_VOCAB);
    c->vocab_size = abs(vocab);
    c->shared_classifier = vocab > 0;
    if (c->dim % c->n_heads)
        return fail(err, "impossible header: dim %d is not a multiple of %d heads", c->dim, c->n_heads);
    c->head_dim = c->dim / c->n_heads;
    c->norm_eps = 1e-5f;
    c->bos_id = 1;
    c->n_eos = 1;
    c->eos_ids[0] = 2;
    return check_shape(c, err);
}

static bool read_config(const uint8_t *p, ModelConfig *c, int *group_size, Error *err) {
    int type = 0, shared = 0;
    if (!read_int(p + 8, "weight_type", 0, N_WEIGHT_TYPES - 1, &type, err) ||
        !read_int(p + 12, "group_size", 0, 1 << 16, group_size, err) ||
        !read_int(p + 16, "dim", 1, MAX_WIDTH, &c->dim, err) ||
        !read_int(p + 20, "hidden_dim", 1, MAX_WIDTH, &c->hidden_dim, err) ||
        !read_int(p + 24, "n_layers", 1, MAX_LAYERS, &c->n_layers, err) ||
        !read_int(p + 28, "n_heads", 1, MAX_HEADS, &c->n_heads, err) ||
        !read_int(p + 32, "n_kv_heads", 1, MAX_HEADS, &c->n_kv_heads, err) ||
        !read_int(p + 36, "head_dim", 2, ROPE_MAX_HEAD_DIM, &c->head_dim, err) ||
        !read_int(p + 40, "vocab_size", 1, MAX_VOCAB, &c->vocab_size, err) ||
        !read_int(p + 44, "seq_len", 1, MAX_SEQ, &c->seq_len, err) ||
        !read_int(p + 48, "shared_classifier", 0, 1, &shared, err) ||
        !read_int(p + 52, "sliding_window", 0, MAX_SEQ, &c->sliding_window, err) ||
        !read_int(p + 68, "n_eos", 0, MAX_EOS, &c->n_eos, err))
        return false;
    c->weight_type = (WeightType)type;
    c->shared_classifier = shared;
    bool quantized = c->weight_type == WEIGHT_Q8 || c->weight_type == WEIGHT_Q4;
    if (quantized != (*group_size > 0) || (c->weight_type == WEIGHT_Q4 && *group_size != Q4_GROUP))
        return fail(err, "impossible header: group_size is %d with weight type %s", *group_size,
                    weight_type_names[type]);
    double eps = read_f64(p + 56);
    if (!(eps >= 0 && eps <= 1)) return fail(err, "impossible header: norm_eps is %g (expected 0 to 1)", eps);
    c->norm_eps = (float)eps;
    c->bos_id = (int)read_u32(p + 64);
    if (c->bos_id < -1 || c->bos_id >= c->vocab_size)
        return fail(err, "impossible header: bos_id is %d (expected -1 to %d)", c->bos_id, c->vocab_size - 1);
    for (int i = 0; i < c->n_eos; i++)
        if (!read_int(p + 72 + 4 * i, "eos_ids", 0, c->vocab_size - 1, &c->eos_ids[i], err)) return false;
    for (int i = 140; i < HEADER_BYTES; i = i == 143 ? 204 : i + 1)
        if (p[i]) return fail(err, "impossible header: reserved byte %d is not 0", i);
    return check_shape(c, err);
}

static bool read_rope(const uint8_t *p, RopeConfig *r, int *n_longrope, Error *err) {
    int dynamic = 0, ramp = 0, truncate = 0;
    if (!read_int(p + 104, "rope_method", 0, rope_n_methods - 1, &r->method, err) ||
        !read_int(p + 108, "rope_dynamic", 0, 1, &dynamic, err) ||
        !read_int(p + 128, "train_ctx", 1, MAX_SEQ, &r->train_ctx, err) ||
        !read_int(p + 132, "ramp", 0, 1, &ramp, err) || !read_int(p + 136, "truncate", 0, 1, &truncate, err) ||
        !read_int(p + 200, "n_longrope", 0, ROPE_MAX_PAIRS, n_longrope, err) ||
        !read_optional(p + 112, "theta", &r->theta, err) || !read_optional(p + 120, "factor", &r->factor, err) ||
        !read_optional(p + 144, "beta_fast", &r->beta_fast, err) ||
        !read_optional(p + 152, "beta_slow", &r->beta_slow, err) ||
        !read_optional(p + 160, "attention_factor", &r->attention_factor, err) ||
        !read_optional(p + 168, "mscale", &r->mscale, err) ||
        !read_optional(p + 176, "mscale_all_dim", &r->mscale_all_dim, err) ||
        !read_optional(p + 184, "low_freq_factor", &r->low_freq_factor, err) ||
        !read_optional(p + 192, "high_freq_factor", &r->high_freq_factor, err))
        return false;
    r->dynamic = dynamic;
    r->ramp = (RopeRamp)ramp;
    r->truncate = truncate;
    return true;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

// Walks through the file's bytes. `offset` goes on past the end, so that the size that was expected can be told; pointers
// past the end are never formed.
typedef struct {
    const uint8_t *data;
    size_t size, offset;
    bool overflow;  // the offset does not fit in size_t
} Cursor;

static const uint8_t *take(Cursor *c, size_t count, size_t item_bytes) {
    const uint8_t *here = c->data + (c->offset <= c->size ? c->offset : c->size);
    size_t bytes;
    if (!mul_size(count, item_bytes, &bytes) || !add_size(c->offset, bytes, &c->offset)) c->overflow = true;
    return here;
}

static void align(Cursor *c) {
    size_t padded;
    if (!add_size(c->offset, ALIGNMENT - 1, &padded)) c->overflow = true;
    c->offset = padded / ALIGNMENT * ALIGNMENT;
}

// Bytes of one value of the types that are not packed.
static size_t weight_bytes(WeightType type) { return type == WEIGHT_F32 ? 4 : type == WEIGHT_Q8 ? 1 : 2; }

static const float *take_vector(Cursor *c, int n) { return (const float *)(const void *)take(c, (size_t)n, 4); }

// rows and cols are at most MAX_WIDTH * ROPE_MAX_HEAD_DIM and MAX_VOCAB, so their product fits in 64 bits.
static Matrix take_matrix(Cursor *c, WeightType type, int rows, int cols) {
    Matrix m = {.type = type, .rows = rows, .cols = cols};
    m.data = take(c, (size_t)rows * (size_t)cols, weight_bytes(type));
    return m;
}

// A version 2 matrix: groups of the flattened values, which may run across row ends.
static Matrix take_flat_q8(Cursor *c, int rows, int cols, int group_size) {
    Matrix m = take_matrix(c, WEIGHT_Q8, rows, cols);
    m.group_size = group_size;
    m.groups_cross_rows = cols % group_size != 0;
    m.scales = take(c, (size_t)rows * (size_t)cols / (size_t)group_size, 4);
    return m;
}

static Matrix take_aligned(Cursor *c, WeightType type, int rows, int cols, int group_size) {
    align(c);
    if (type == WEIGHT_Q4) {
        size_t packs = (size_t)rows * (((size_t)cols + Q4_PACK - 1) / Q4_PACK);
        Matrix m = {
            .type = type, .rows = rows, .cols = cols, .group_size = group_size, .data = take(c, packs, Q4_PACK / 2)};
        align(c);
        m.scales = take(c, packs, 2 * sizeof(uint16_t));
        return m;
    }
    Matrix m = take_matrix(c, type, rows, cols);
    if (type == WEIGHT_Q8) {
        align(c);
        m.group_size = group_size;
        m.scales = take(c, (size_t)rows * (((size_t)cols + (size_t)group_size - 1) / (size_t)group_size), 4);
    }
    return m;
}

static const float *take_aligned_vector(Cursor *c, int n) {
    align(c);
    return take_vector(c, n);
}

// Versions 0 to 2 store each kind of tensor for all layers together. group_size is 0 for float32.
static void place_legacy(Model *m, Layer *layers, Cursor *c, int group_size) {
    const ModelConfig *k = &m->config;
    int heads = k->n_heads * k->head_dim, kv = k->n_kv_heads * k->head_dim;
    Layer none;
#define LAYER(l) (layers ? &layers[l] : &none)
#define MATRIX(rows, cols)                                                                                             \
    (group_size ? take_flat_q8(c, rows, cols, group_size) : take_matrix(c, WEIGHT_F32, rows, cols))
#define EACH_LAYER(field, value)                                                                                       \
    for (int l = 0; l < k->n_layers; l++) LAYER(l)->field = value
    if (k->version == 0) m->embedding = MATRIX(k->vocab_size, k->dim);
    EACH_LAYER(attention_norm, take_vector(c, k->dim));
    if (k->version > 0) {
        EACH_LAYER(ffn_norm, take_vector(c, k->dim));
        m->final_norm = take_vector(c, k->dim);
        m->embedding = MATRIX(k->vocab_size, k->dim);
    }
    EACH_LAYER(wq, MATRIX(heads, k->dim));
    EACH_LAYER(wk, MATRIX(kv, k->dim));
    EACH_LAYER(wv, MATRIX(kv, k->dim));
    EACH_LAYER(wo, MATRIX(k->dim, heads));
    if (k->version == 0) EACH_LAYER(ffn_norm, take_vector(c, k->dim));
    EACH_LAYER(w1, MATRIX(k->hidden_dim, k->dim));
    EACH_LAYER(w2, MATRIX(k->dim, k->hidden_dim));
    EACH_LAYER(w3, MATRIX(k->hidden_dim, k->dim));
    if (k->version == 0) {
        m->final_norm = take_vector(c, k->dim);
        take(c, (size_t)k->seq_len * (size_t)k->head_dim, 4);  // tables of cosines and sines, no longer used
    }
    m->classifier = k->shared_classifier ? m->embedding : MATRIX(k->vocab_size, k->dim);
#undef LAYER
#undef MATRIX
#undef EACH_LAYER
}

static void place_v3(Model *m, Layer *layers, Cursor *c, int group_size) {
    const ModelConfig *k = &m->config;
    int heads = k->n_heads * k->head_dim, kv = k->n_kv_heads * k->head_dim;
    WeightType type = k->weight_type;
    Layer none;
    m->embedding = take_aligned(c, type, k->vocab_size, k->dim, group_size);
    for (int l = 0; l < k->n_layers; l++) {
        Layer *layer = layers ? &layers[l] : &none;
        layer->attention_norm = take_aligned_vector(c, k->dim);
        layer->wq = take_aligned(c, type, heads, k->dim, group_size);
        layer->wk = take_aligned(c, type, kv, k->dim, group_size);
        layer->wv = take_aligned(c, type, kv, k->dim, group_size);
        layer->wo = take_aligned(c, type, k->dim, heads, group_size);
        layer->ffn_norm = take_aligned_vector(c, k->dim);
        layer->w1 = take_aligned(c, type, k->hidden_dim, k->dim, group_size);
        layer->w3 = take_aligned(c, type, k->hidden_dim, k->dim, group_size);
        layer->w2 = take_aligned(c, type, k->dim, k->hidden_dim, group_size);
    }
    m->final_norm = take_aligned_vector(c, k->dim);
    m->classifier = k->shared_classifier ? m->embedding : take_aligned(c, type, k->vocab_size, k->dim, group_size);
    align(c);
}

// Places the tensors twice: first to learn whether the file's size is right, then, when it justifies the memory, for good.
static bool place_tensors(Model *m, size_t header_bytes, int group_size, Error *err) {
    for (int pass = 0; pass < 2; pass++) {
        Cursor c = {.data = m->file.data, .size = m->file.size, .offset = header_bytes};
        if (m->config.version == 3) place_v3(m, m->layers, &c, group_size);
        else place_legacy(m, m->layers, &c, group_size);
        if (c.overflow) return fail(err, "impossible header: the tensors' sizes overflow");
        if (c.offset != m->file.size)
            return fail(err, "%s (%zu bytes found, %zu expected from the header)",
                        c.offset > m->file.size ? "truncated" : "too long", m->file.size, c.offset);
        if (pass == 0 && !(m->layers = alloc_array((size_t)m->config.n_layers, sizeof(Layer), "layers", err)))
            return false;
    }
    return true;
}

// Version 2's groups must fill every tensor exactly, as llama2.c's exporter sees to.
static bool check_flat_groups(const ModelConfig *c, int group_size, Error *err) {
    size_t kv = (size_t)c->n_kv_heads * (size_t)c->head_dim, dim = (size_t)c->dim, g = (size_t)group_size;
    if (dim * dim % g || kv * dim % g || dim * (size_t)c->hidden_dim % g || dim * (size_t)c->vocab_size % g)
        return fail(err, "impossible header: group_size %d does not divide the tensors", group_size);
    return true;
}

static bool parse(Model *m, Error *err) {
    const uint8_t *p = m->file.data;
    size_t size = m->file.size;
    ModelConfig *c = &m->config;
    RopeConfig *r = &m->rope;
    int group_size = 0;
    *r = (RopeConfig){.theta = 10000, .truncate = true};
    if (size < 28) return fail(err, "not a model file (%zu bytes, a header has at least 28)", size);
    bool has_magic = read_u32(p) == MODEL_MAGIC;
    if (has_magic && size < HEADER_BYTES)
        return fail(err, "truncated (%zu bytes, the header alone has %d)", size, HEADER_BYTES);
    if (has_magic && !read_int(p + 4, "version", 1, 3, &c->version, err)) return false;
    size_t header = c->version == 0 ? 28 : HEADER_BYTES;
    if (c->version < 3) {
        Error reason;
        if (!read_legacy_config(has_magic ? p + 8 : p, c, &reason))
            return fail(err, "%s%s",
                        has_magic ? "" : "not a model file: no ak42 magic, and as llama2.c's version 0 an ",
                        reason.text);
        if (has_magic) {
            if (p[36] > 1) return fail(err, "impossible header: shared_classifier is %d (expected 0 or 1)", p[36]);
            if (!c->shared_classifier)
                return fail(err, "impossible header: vocab_size is -%d (expected 1 to %d)", c->vocab_size, MAX_VOCAB);
            c->shared_classifier = p[36];
        }
        c->weight_type = c->version == 2 ? WEIGHT_Q8 : WEIGHT_F32;
        if (c->version == 2 &&
            (!read_int(p + 37, "group_size", 1, MAX_WIDTH, &group_size, err) || !check_flat_groups(c, group_size, err)))
            return false;
        if (c->bos_id >= c->vocab_size || c->eos_ids[0] >= c->vocab_size) c->bos_id = -1, c->n_eos = 0;
        r->train_ctx = c->seq_len;
    } else {
        int n_longrope = 0;
        if (!read_config(p, c, &group_size, err) || !read_rope(p, r, &n_longrope, err)) return false;
        if (n_longrope != 0 && n_longrope != c->head_dim / 2)
            return fail(err, "impossible header: longrope lists of %d factors (expected %d)", n_longrope,
                        c->head_dim / 2);
        header += (size_t)n_longrope * 16;
        if (size < header) return fail(err, "truncated (%zu bytes found, the header has %zu)", size, header);
        if (n_longrope) {
            r->short_factors = (const double *)(const void *)(p + HEADER_BYTES);
            r->long_factors = r->short_factors + n_longrope;
        }
    }
    r->head_dim = c->head_dim;
    RopeConfig filled = *r;
    rope_fill_defaults(&filled, c->seq_len);
    const char *reason = rope_check(&filled);
    if (reason) return fail(err, "impossible header: %s", reason);
    return place_tensors(m, header, group_size, err);
}

bool model_open(const char *path, Model *m, Error *err) {
    *m = (Model){0};
    if (!map_file(path, &m->file, err)) return false;
    Error reason;
    if (parse(m, &reason)) return true;
    fail(err, "%s: %s", path, reason.text);
    model_close(m);
    return false;
}

void model_close(Model *m) {
    free(m->layers);
    unmap_file(&m->file);
    *m = (Model){0};
}
