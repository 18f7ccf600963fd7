// The header of a model file: the table of its fields, and what reads, checks and writes them by it.
#include "header.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian and used in place: this machine's byte order is not supported"
#endif
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "NaN and infinity in a file have to be seen, and sums have an order: build without -ffast-math (-Ofast)"
#endif

enum { MAGIC = 0x616b3432, V0_BYTES = 28, V4_BYTES = 204 };

// Larger than any released model, and small enough that the size of a tensor fits in 64 bits.
enum { MAX_WIDTH = 1 << 20, MAX_LAYERS = 1 << 16, MAX_HEADS = 1 << 14, MAX_VOCAB = 1 << 24, MAX_SEQ = 1 << 30 };

const char *const encoding_names[N_ENCODINGS] = {"rope",  "none", "learned",        "sinusoidal",
                                                 "alibi", "shaw", "transformer-xl", "disentangled"};

// What a field is in the file. I32X8 is a list, of which the first n_eos are in use.
typedef enum { U32, I32, I32X8, F64 } FieldType;

static const size_t type_bytes[] = {[U32] = 4, [I32] = 4, [I32X8] = 32, [F64] = 8};

// In the place of `high`: any number, and limits that are known only at run time.
#define ANY DBL_MAX
enum { LAST_TOKEN = -1, LAST_METHOD = -2 };

typedef struct {
    const char *name;
    size_t offset;  // in the file
    FieldType type;
    double low, high;     // what it may be, both included
    size_t place, bytes;  // where it goes in a Header; of a list, its first element
} Field;

// Macros, because no function can be given a member.
#define PLACE(member) offsetof(Header, member), sizeof((Header *)0)->member
#define N_FIELDS (sizeof fields / sizeof fields[0])

enum { DIM = 4, VOCAB_SIZE = 10, SEQ_LEN = 11 };  // rows that version 0 has, too

// Versions 3 and 4, to which zeros from byte V4_BYTES on are version 3. tests/test_format.py compares docs/format.md.
static const Field fields[] = {
    {"magic", 0, U32, MAGIC, MAGIC, PLACE(magic)},
    {"version", 4, U32, 1, 4, PLACE(config.version)},
    {"weight_type", 8, U32, 0, N_WEIGHT_TYPES - 1, PLACE(config.weight_type)},
    {"group_size", 12, U32, 0, 1 << 16, PLACE(group_size)},
    [DIM] = {"dim", 16, U32, 1, MAX_WIDTH, PLACE(config.dim)},
    {"hidden_dim", 20, U32, 1, MAX_WIDTH, PLACE(config.hidden_dim)},
    {"n_layers", 24, U32, 1, MAX_LAYERS, PLACE(config.n_layers)},
    {"n_heads", 28, U32, 1, MAX_HEADS, PLACE(config.n_heads)},
    {"n_kv_heads", 32, U32, 1, MAX_HEADS, PLACE(config.n_kv_heads)},
    {"head_dim", 36, U32, 2, ROPE_MAX_HEAD_DIM, PLACE(config.head_dim)},
    [VOCAB_SIZE] = {"vocab_size", 40, U32, 1, MAX_VOCAB, PLACE(config.vocab_size)},
    [SEQ_LEN] = {"seq_len", 44, U32, 1, MAX_SEQ, PLACE(config.seq_len)},
    {"shared_classifier", 48, U32, 0, 1, PLACE(config.shared_classifier)},
    {"sliding_window", 52, U32, 0, MAX_SEQ, PLACE(config.sliding_window)},
    {"norm_eps", 56, F64, 0, 1, PLACE(config.norm_eps)},
    {"bos_id", 64, I32, -1, LAST_TOKEN, PLACE(config.bos_id)},
    {"n_eos", 68, U32, 0, MAX_EOS, PLACE(config.n_eos)},
    {"eos_ids", 72, I32X8, 0, LAST_TOKEN, PLACE(config.eos_ids[0])},
    {"rope_method", 104, U32, 0, LAST_METHOD, PLACE(rope.method)},
    {"rope_dynamic", 108, U32, 0, 1, PLACE(rope.dynamic)},
    {"theta", 112, F64, 0, ANY, PLACE(rope.theta)},
    {"factor", 120, F64, 0, ANY, PLACE(rope.factor)},
    {"train_ctx", 128, U32, 1, MAX_SEQ, PLACE(rope.train_ctx)},
    {"ramp", 132, U32, 0, ROPE_RAMP_TURNS, PLACE(rope.ramp)},
    {"truncate", 136, U32, 0, 1, PLACE(rope.truncate)},
    {"beta_fast", 144, F64, 0, ANY, PLACE(rope.beta_fast)},
    {"beta_slow", 152, F64, 0, ANY, PLACE(rope.beta_slow)},
    {"attention_factor", 160, F64, 0, ANY, PLACE(rope.attention_factor)},
    {"mscale", 168, F64, 0, ANY, PLACE(rope.mscale)},
    {"mscale_all_dim", 176, F64, 0, ANY, PLACE(rope.mscale_all_dim)},
    {"low_freq_factor", 184, F64, 0, ANY, PLACE(rope.low_freq_factor)},
    {"high_freq_factor", 192, F64, 0, ANY, PLACE(rope.high_freq_factor)},
    {"n_longrope", 200, U32, 0, ROPE_MAX_PAIRS, PLACE(n_longrope)},
    {"rotary_dim", 204, U32, 0, ROPE_MAX_HEAD_DIM, PLACE(rope.rotary_dim)},
    {"qkv_bias", 208, U32, 0, 1, PLACE(config.qkv_bias)},
    {"o_bias", 212, U32, 0, 1, PLACE(config.o_bias)},
    {"qk_norm", 216, U32, 0, 1, PLACE(config.qk_norm)},
    {"logn", 220, U32, 0, 1, PLACE(rope.logn)},
    {"encoding", 224, U32, 0, N_ENCODINGS - 1, PLACE(config.encoding)},
    {"unscaled_positions", 228, U32, 0, MAX_SEQ, PLACE(rope.unscaled_positions)},
    {"layer_table", 232, U32, 0, 1, PLACE(has_layers)},
    {"type_table", 236, U32, 0, 1, PLACE(has_types)},
    {"encoding_rows", 240, U32, 0, MAX_VOCAB, PLACE(config.encoding_rows)},
};

static int count_of(const Field *f, const Header *h) { return f->type == I32X8 ? h->config.n_eos : 1; }

// Numbers are little-endian in the file and here: the first bytes of a wide one are the narrow one of the same value.
static bool read_number(const Field *f, const uint8_t *p, const Header *h, uint8_t *place, Error *err) {
    int64_t bits = 0;
    memcpy(&bits, p, f->type == F64 ? 8 : 4);
    if (f->type == I32) bits = (int32_t)bits;
    double x = (double)bits, high = f->high;
    if (f->high == LAST_TOKEN) high = h->config.vocab_size - 1;
    if (f->high == LAST_METHOD) high = rope_n_methods - 1;
    if (f->type == F64) memcpy(&x, p, sizeof x);
    if (x >= f->low && x <= high) memcpy(place, &bits, f->bytes);
    else if (f->type != F64) fail(err, "%s is %d (expected %.0f to %.0f)", f->name, (int32_t)bits, f->low, high);
    else if (high == ANY) fail(err, "%s is %g (expected a number, or 0 for none)", f->name, x);
    else fail(err, "%s is %g (expected %g to %g)", f->name, x, f->low, high);
    return x >= f->low && x <= high;
}

// Reads n fields, of which the first lies at p. What limits another field comes before it.
static bool read_fields(const Field *first, size_t n, const uint8_t *p, Header *h, Error *err) {
    for (const Field *f = first; f < first + n; f++)
        for (int i = 0; i < count_of(f, h); i++) {
            uint8_t *place = (uint8_t *)h + f->place + 4 * i;
            if (!read_number(f, p + (f->offset - first->offset) + 4 * i, h, place, err)) return false;
        }
    return true;
}

void header_write(Header h, uint8_t out[HEADER_BYTES]) {
    static const uint8_t zeros[HEADER_BYTES];
    h.magic = MAGIC;
    h.config.version = 3;
    if (h.rope.rotary_dim == h.config.head_dim) h.rope.rotary_dim = 0;
    memset(out, 0, HEADER_BYTES);
    for (const Field *f = fields; f < fields + N_FIELDS; f++) {
        size_t most = type_bytes[f->type], bytes = f->bytes < most ? f->bytes : most;
        memcpy(out + f->offset, (const uint8_t *)&h + f->place, bytes * count_of(f, &h));
    }
    if (memcmp(out + V4_BYTES, zeros, HEADER_BYTES - V4_BYTES) != 0) out[4] = 4;  // the version
}

// What every version promises.
static bool check_heads(const ModelConfig *c, Error *err) {
    if (c->n_heads % c->n_kv_heads) return fail(err, "%d heads cannot share %d kv heads", c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2 == 0 && c->head_dim <= ROPE_MAX_HEAD_DIM) return true;
    return fail(err, "head_dim is %d (expected an even number from 2 to %d)", (int)c->head_dim, ROPE_MAX_HEAD_DIM);
}

static int count_matrices(const ModelConfig *c) {
    int of_layer = c->encoding == ENCODING_TRANSFORMER_XL ? 8 : 7;
    return 1 + of_layer * c->n_layers + !c->shared_classifier;
}

// A model without RoPE says nothing of RoPE but a base, which sinusoids have, too, and L.
static bool check_encoding(const Header *h, Error *err) {
    const ModelConfig *c = &h->config;
    const char *name = encoding_names[c->encoding];
    bool has_rows = c->encoding == ENCODING_LEARNED || c->encoding == ENCODING_SHAW;
    if (has_rows != (c->encoding_rows > 0)) return fail(err, "encoding_rows is %d with %s", c->encoding_rows, name);
    if (c->encoding == ENCODING_ROPE) return true;
    if (h->rope.method != ROPE_NONE || h->rope.dynamic || h->rope.logn || h->rope.rotary_dim)
        return fail(
            err, "encoding %s with settings of RoPE (expected 0 in rope_method, rope_dynamic, rotary_dim, logn)", name);
    if (c->encoding == ENCODING_LEARNED && c->seq_len > c->encoding_rows)
        return fail(err, "seq_len is %d with %d learned positions", c->seq_len, c->encoding_rows);
    return true;
}

static bool read_v3(const uint8_t *p, Header *h, Error *err) {
    const ModelConfig *c = &h->config;
    // Bytes that no field of the version covers are 0, so that a later one may give them a meaning.
    bool covered[HEADER_BYTES] = {false};
    for (const Field *f = fields; f < fields + N_FIELDS; f++)
        if (f->offset < V4_BYTES || c->version > 3) memset(covered + f->offset, true, type_bytes[f->type]);
    for (int i = 0; i < HEADER_BYTES; i++)
        if (!covered[i] && p[i]) return fail(err, "reserved byte %d is not 0", i);
    if (!read_fields(fields, N_FIELDS, p, h, err)) return false;
    WeightType type = c->weight_type;
    bool quantized = type == WEIGHT_Q8 || type == WEIGHT_Q4;
    if (!h->has_types && (quantized != (h->group_size > 0) || (type == WEIGHT_Q4 && h->group_size != Q4_GROUP)))
        return fail(err, "group_size is %d with weight type %s", h->group_size, weight_type_names[type]);
    if (type > WEIGHT_Q4 && c->version == 3)
        return fail(err, "weight type %s in version 3 (expected version 4)", weight_type_names[type]);
    if (!check_encoding(h, err)) return false;
    if (h->rope.rotary_dim == 0) h->rope.rotary_dim = (int)c->head_dim;
    if (h->rope.rotary_dim % 2 || h->rope.rotary_dim > c->head_dim)
        return fail(err, "rotary_dim is %d (expected an even number up to head_dim, %d)", h->rope.rotary_dim,
                    (int)c->head_dim);
    int n = h->n_longrope, n_pairs = h->rope.rotary_dim / 2;
    if (n != 0 && n != n_pairs) return fail(err, "longrope lists of %d factors (expected %d)", n, n_pairs);
    h->bytes += 2 * n * sizeof(double) + (h->has_layers ? c->n_layers : 0) + (h->has_types ? count_matrices(c) : 0);
    return true;
}

// What follows the fields: longrope's lists, a byte for each layer, a byte for each matrix.
static bool read_tables(const uint8_t *p, Header *h, Error *err) {
    const ModelConfig *c = &h->config;
    const void *lists = p;
    h->rope.short_factors = h->n_longrope ? lists : NULL;
    h->rope.long_factors = h->n_longrope ? h->rope.short_factors + h->n_longrope : NULL;
    p += 2 * h->n_longrope * sizeof(double);
    h->layers = h->has_layers ? p : NULL;
    for (int l = 0; h->layers && l < c->n_layers; l++)
        if (p[l] > (LAYER_SEES_ALL | LAYER_WITHOUT_ROPE))
            return fail(err, "layer_table has %d for layer %d (expected 0 to 3)", p[l], l);
    p += h->has_layers ? c->n_layers : 0;
    h->types = h->has_types ? p : NULL;
    for (int i = 0; h->types && i < count_matrices(c); i++)
        if (p[i] >= N_WEIGHT_TYPES || (p[i] == WEIGHT_Q8 && h->group_size == 0))
            return fail(err, "type_table has %d for matrix %d (expected 0 to %d, and a group_size with q8)", p[i], i,
                        N_WEIGHT_TYPES - 1);
    return true;
}

// llama2.c's versions: seven int32, then what is new in version 1 and in version 2. All else is as in Llama 2.
static bool read_legacy(const uint8_t *p, Header *h, Error *err) {
    static const Field group_size = {"group_size", 29, U32, 1, MAX_WIDTH, PLACE(group_size)};
    ModelConfig *c = &h->config;
    if (!read_fields(&fields[DIM], 5, p, h, err) || !read_fields(&fields[SEQ_LEN], 1, p + 24, h, err)) return false;
    if (c->version > 0 && p[28] > 1) return fail(err, "shared_classifier is %d (expected 0 or 1)", p[28]);
    if (c->version == 2 && !read_fields(&group_size, 1, p + group_size.offset, h, err)) return false;
    int32_t vocab_size;  // in version 0 negative when the classifier is not shared
    memcpy(&vocab_size, p + 20, sizeof vocab_size);
    c->shared_classifier = c->version > 0 ? p[28] : vocab_size > 0;
    if (c->version == 0 && vocab_size >= -MAX_VOCAB) vocab_size = abs(vocab_size);
    if (!read_fields(&fields[VOCAB_SIZE], 1, (const uint8_t *)&vocab_size, h, err)) return false;
    if (c->dim % c->n_heads) return fail(err, "dim %d is not a multiple of %d heads", (int)c->dim, c->n_heads);
    c->head_dim = c->dim / c->n_heads;
    c->weight_type = c->version == 2 ? WEIGHT_Q8 : WEIGHT_F32;
    c->norm_eps = 1e-5;
    c->n_eos = c->vocab_size > 2;
    c->bos_id = c->vocab_size > 2 ? 1 : -1;
    c->eos_ids[0] = 2;
    h->rope = (RopeConfig){.rotary_dim = (int)c->head_dim, .theta = 10000, .train_ctx = c->seq_len, .truncate = true};
    // Version 2's groups fill every tensor exactly, as llama2.c's exporter sees to.
    int64_t d = c->dim, kv_rows = c->n_kv_heads * c->head_dim, group = c->version == 2 ? h->group_size : 1;
    if (d * d % group || d * kv_rows % group || d * c->hidden_dim % group || d * c->vocab_size % group)
        return fail(err, "group_size %d does not divide the tensors", h->group_size);
    return true;
}

bool header_read(const uint8_t *file, size_t size, Header *h, Error *err) {
    *h = (Header){.bytes = V0_BYTES};
    if (size < V0_BYTES) return fail(err, "not a model file (%zu bytes, a header has at least %d)", size, V0_BYTES);
    bool magic = read_fields(fields, 1, file, h, err);  // version 0 has none
    if (magic) h->bytes = HEADER_BYTES;
    if (size < h->bytes) return fail(err, "truncated (%zu bytes, the header alone has %d)", size, HEADER_BYTES);
    bool good = !magic || read_fields(fields, 2, file, h, err);  // the version
    if (good && h->config.version >= 3) good = read_v3(file, h, err);
    else if (good) good = read_legacy(magic ? file + 8 : file, h, err);
    good = good && check_heads(&h->config, err);
    const char *before = magic ? "" : "not a model file: no ak42 magic, and as llama2.c's version 0 an ";
    if (!good) return fail(err, "%simpossible header: %s", before, err->text);
    if (size < h->bytes) return fail(err, "truncated (%zu bytes found, the header has %zu)", size, h->bytes);
    return read_tables(file + HEADER_BYTES, h, err) || fail(err, "impossible header: %s", err->text);
}
