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

// The type of a field, by its bytes in the file. Of I32X8, a list, the first n_eos are in use.
typedef enum { U32 = 4, I32 = 4, F64 = 8, I32X8 = 32 } FieldType;

// Values of `high`: no limit, and limits that are known only at run time.
#define ANY DBL_MAX
enum { LAST_TOKEN = -1, LAST_METHOD = -2 };

typedef struct {
    const char *name;
    size_t offset;  // in the file
    FieldType type;
    double low, high;     // what it may be, both included
    size_t place, bytes;  // where it goes in a Model; of a list, its first element
} Field;

#define CONFIG(member) offsetof(Model, config.member), sizeof((Model *)0)->config.member
#define ROPE(member) offsetof(Model, rope.member), sizeof((Model *)0)->rope.member
#define N_FIELDS (sizeof fields / sizeof fields[0])

// Versions 3 and 4. In version 3 all bytes from V4_BYTES on are 0. tests/test_format.py compares docs/format.md.
static const Field fields[] = {
    {"magic", 0, U32, MAGIC, MAGIC, CONFIG(magic)},
    {"version", 4, U32, 1, 4, CONFIG(version)},
    {"weight_type", 8, U32, 0, N_WEIGHT_TYPES - 1, CONFIG(weight_type)},
    {"group_size", 12, U32, 0, MAX_WIDTH, CONFIG(group_size)},
    {"dim", 16, U32, 1, MAX_WIDTH, CONFIG(dim)},
    {"hidden_dim", 20, U32, 1, MAX_WIDTH, CONFIG(hidden_dim)},
    {"n_layers", 24, U32, 1, MAX_LAYERS, CONFIG(n_layers)},
    {"n_heads", 28, U32, 1, MAX_HEADS, CONFIG(n_heads)},
    {"n_kv_heads", 32, U32, 1, MAX_HEADS, CONFIG(n_kv_heads)},
    {"head_dim", 36, U32, 2, ROPE_MAX_HEAD_DIM, CONFIG(head_dim)},
    {"vocab_size", 40, U32, 1, MAX_VOCAB, CONFIG(vocab_size)},
    {"seq_len", 44, U32, 1, MAX_SEQ, CONFIG(seq_len)},
    {"shared_classifier", 48, U32, 0, 1, CONFIG(shared_classifier)},
    {"sliding_window", 52, U32, 0, MAX_SEQ, CONFIG(sliding_window)},
    {"norm_eps", 56, F64, 0, 1, CONFIG(norm_eps)},
    {"bos_id", 64, I32, -1, LAST_TOKEN, CONFIG(bos_id)},
    {"n_eos", 68, U32, 0, MAX_EOS, CONFIG(n_eos)},
    {"eos_ids", 72, I32X8, 0, LAST_TOKEN, CONFIG(eos_ids[0])},
    {"rope_method", 104, U32, 0, LAST_METHOD, ROPE(method)},
    {"rope_dynamic", 108, U32, 0, 1, ROPE(dynamic)},
    {"theta", 112, F64, 0, ANY, ROPE(theta)},
    {"factor", 120, F64, 0, ANY, ROPE(factor)},
    {"train_ctx", 128, U32, 1, MAX_SEQ, ROPE(train_ctx)},
    {"ramp", 132, U32, 0, ROPE_RAMP_TURNS, ROPE(ramp)},
    {"truncate", 136, U32, 0, 1, ROPE(truncate)},
    {"beta_fast", 144, F64, 0, ANY, ROPE(beta_fast)},
    {"beta_slow", 152, F64, 0, ANY, ROPE(beta_slow)},
    {"attention_factor", 160, F64, 0, ANY, ROPE(attention_factor)},
    {"mscale", 168, F64, 0, ANY, ROPE(mscale)},
    {"mscale_all_dim", 176, F64, 0, ANY, ROPE(mscale_all_dim)},
    {"low_freq_factor", 184, F64, 0, ANY, ROPE(low_freq_factor)},
    {"high_freq_factor", 192, F64, 0, ANY, ROPE(high_freq_factor)},
    {"n_longrope", 200, U32, 0, ROPE_MAX_PAIRS, CONFIG(n_longrope)},
    {"rotary_dim", 204, U32, 0, ROPE_MAX_HEAD_DIM, ROPE(rotary_dim)},
    {"qkv_bias", 208, U32, 0, 1, CONFIG(qkv_bias)},
    {"o_bias", 212, U32, 0, 1, CONFIG(o_bias)},
    {"qk_norm", 216, U32, 0, 1, CONFIG(qk_norm)},
    {"logn", 220, U32, 0, 1, ROPE(logn)},
    {"encoding", 224, U32, 0, N_ENCODINGS - 1, CONFIG(encoding)},
    {"unscaled_positions", 228, U32, 0, MAX_SEQ, ROPE(unscaled_positions)},
    {"layer_table", 232, U32, 0, 1, CONFIG(has_layers)},
    {"type_table", 236, U32, 0, 1, CONFIG(has_types)},
    {"encoding_rows", 240, U32, 0, MAX_VOCAB, CONFIG(encoding_rows)},
};

static int count_of(const Field *f, const Model *m) { return f->type == I32X8 ? m->config.n_eos : 1; }

// A field that limits another comes before it. Little-endian, a wide number begins with the narrow one of its value.
static bool read_fields(const uint8_t *header, Model *m, Error *err) {
    for (const Field *f = fields; f < fields + N_FIELDS; f++)
        for (int i = 0; i < count_of(f, m); i++) {
            const uint8_t *p = header + f->offset + 4 * i;
            int32_t whole;
            memcpy(&whole, p, sizeof whole);
            int64_t bits = whole;
            double x = whole, high = f->high;
            if (f->type == F64) {
                memcpy(&bits, p, sizeof bits);
                memcpy(&x, p, sizeof x);
            }
            if (f->high == LAST_TOKEN) high = m->config.vocab_size - 1;
            if (f->high == LAST_METHOD) high = rope_n_methods - 1;
            if (!(x >= f->low && x <= high))
                return high == ANY ? fail(err, "%s is %g (expected a number, or 0 for none)", f->name, x)
                                   : fail(err, "%s is %.10g (expected %.10g to %.10g)", f->name, x, f->low, high);
            memcpy((uint8_t *)m + f->place + 4 * i, &bits, f->bytes);
        }
    return true;
}

void header_write(Model m, uint8_t out[HEADER_BYTES]) {
    static const uint8_t zeros[HEADER_BYTES];
    m.config.magic = MAGIC;
    m.config.version = 3;
    if (m.rope.rotary_dim == m.config.head_dim) m.rope.rotary_dim = 0;
    memset(out, 0, HEADER_BYTES);
    for (const Field *f = fields; f < fields + N_FIELDS; f++) {
        size_t bytes = f->bytes < f->type ? f->bytes : f->type;
        memcpy(out + f->offset, (const uint8_t *)&m + f->place, bytes * count_of(f, &m));
    }
    if (memcmp(out + V4_BYTES, zeros, HEADER_BYTES - V4_BYTES) != 0) out[4] = 4;  // the version
}

// Checks fields against one another. A rotary_dim of 0 becomes the whole head.
static bool check_fields(const uint8_t *p, const ModelConfig *c, RopeConfig *r, Error *err) {
    bool covered[HEADER_BYTES] = {false};
    for (const Field *f = fields; f < fields + N_FIELDS; f++)
        if (f->offset < V4_BYTES || c->version > 3) memset(covered + f->offset, true, f->type);
    for (int i = 0; i < HEADER_BYTES; i++)
        if (!covered[i] && p[i]) return fail(err, "reserved byte %d is not 0", i);
    const char *type = weight_type_names[c->weight_type];
    bool is_q4 = c->weight_type == WEIGHT_Q4, grouped = is_q4 || c->weight_type == WEIGHT_Q8;
    if (!c->has_types && (grouped != (c->group_size > 0) || (is_q4 && c->group_size != Q4_GROUP)))
        return fail(err, "group_size is %d with weight type %s", c->group_size, type);
    if (c->weight_type > WEIGHT_Q4 && c->version == 3)
        return fail(err, "weight type %s in version 3 (expected version 4)", type);
    if (c->version < 3 && c->dim % c->n_heads)
        return fail(err, "dim %d is not a multiple of %d heads", (int)c->dim, c->n_heads);
    // Version 2's groups fill every tensor exactly, as in what llama2.c exports.
    int64_t d = c->dim, kv_rows = c->n_kv_heads * c->head_dim, group = c->version == 2 ? c->group_size : 1;
    if (d * d % group || d * kv_rows % group || d * c->hidden_dim % group || d * c->vocab_size % group)
        return fail(err, "group_size %d does not divide the tensors", c->group_size);
    if (c->n_heads % c->n_kv_heads) return fail(err, "%d heads cannot share %d kv heads", c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2) return fail(err, "head_dim is %d (expected an even number)", (int)c->head_dim);
    const char *encoding = encoding_names[c->encoding];
    bool has_rows = c->encoding == ENCODING_LEARNED || c->encoding == ENCODING_SHAW;
    if (has_rows != (c->encoding_rows > 0)) return fail(err, "encoding_rows is %d with %s", c->encoding_rows, encoding);
    if (c->encoding != ENCODING_ROPE && (r->method != ROPE_NONE || r->dynamic || r->logn || r->rotary_dim))
        return fail(err,
                    "encoding %s with settings of RoPE (expected 0 in rope_method, rope_dynamic, rotary_dim, logn)",
                    encoding);
    if (c->encoding == ENCODING_LEARNED && c->seq_len > c->encoding_rows)
        return fail(err, "seq_len is %d with %d learned positions", c->seq_len, c->encoding_rows);
    if (r->rotary_dim == 0) r->rotary_dim = (int)c->head_dim;
    if (r->rotary_dim % 2 || r->rotary_dim > c->head_dim)
        return fail(err, "rotary_dim is %d (expected an even number up to head_dim, %d)", r->rotary_dim,
                    (int)c->head_dim);
    int n_pairs = r->rotary_dim / 2;
    return c->n_longrope == 0 || c->n_longrope == n_pairs ||
           fail(err, "longrope lists of %d factors (expected %d)", c->n_longrope, n_pairs);
}

// Makes version 3's header of llama2.c's: seven int32, from version 1 on a byte, in 2 an int32. The rest is Llama 2's.
static void rewrite_legacy(const uint8_t *p, int version, uint8_t out[HEADER_BYTES]) {
    int32_t n[7];  // dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
    memcpy(n, p, sizeof n);
    int dim = n[0], n_heads = n[3];
    // In version 0 the vocabulary is negative when the classifier is not shared.
    int vocab_size = version == 0 && n[5] >= -MAX_VOCAB ? abs(n[5]) : n[5];
    Model m = {.config = {.dim = dim, .hidden_dim = n[1], .n_layers = n[2], .n_heads = n_heads, .n_kv_heads = n[4]}};
    m.config.head_dim = n_heads > 0 ? dim / n_heads : 0;
    m.config.vocab_size = vocab_size;
    m.config.seq_len = n[6];
    m.config.shared_classifier = version > 0 ? p[28] : n[5] > 0;
    m.config.weight_type = version == 2 ? WEIGHT_Q8 : WEIGHT_F32;
    if (version == 2) memcpy(&m.config.group_size, p + 29, sizeof m.config.group_size);
    m.config.norm_eps = 1e-5;
    m.config.n_eos = vocab_size > 2;
    m.config.bos_id = vocab_size > 2 ? 1 : -1;
    m.config.eos_ids[0] = 2;
    m.rope = (RopeConfig){.theta = 10000, .train_ctx = n[6], .truncate = true};
    header_write(m, out);
}

bool header_read(Model *m, uint64_t *bytes, Error *err) {
    const uint8_t *file = m->file.data;
    size_t size = m->file.size;
    int32_t start[2];
    uint8_t rewritten[HEADER_BYTES];
    if (size < V0_BYTES) return fail(err, "not a model file (%zu bytes, a header has at least %d)", size, V0_BYTES);
    memcpy(start, file, sizeof start);
    bool has_magic = start[0] == MAGIC;  // version 0 has none
    int version = has_magic ? start[1] : 0;
    *bytes = has_magic ? HEADER_BYTES : V0_BYTES;
    if (size < *bytes) return fail(err, "truncated (%zu bytes, the header alone has %d)", size, HEADER_BYTES);
    bool legacy = !has_magic || version == 1 || version == 2;
    if (legacy) rewrite_legacy(has_magic ? file + 8 : file, version, rewritten);
    const uint8_t *p = legacy ? rewritten : file;
    bool good = read_fields(p, m, err);
    m->config.version = version;
    good = good && check_fields(p, &m->config, &m->rope, err);
    const char *before = has_magic ? "" : "not a model file: no ak42 magic, and as llama2.c's version 0 an ";
    return good || fail(err, "%simpossible header: %s", before, err->text);
}
