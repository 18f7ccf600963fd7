// The header of a model file: its fields, and what reads, checks and writes them.
#include <stdlib.h>
#include <string.h>

#include "kind.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "model files are little-endian and used in place");
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error                                                                                             \
    "NaN and infinity have to be seen, and sums have an order: build without -ffast-math (-Ofast)"
#endif

enum { MAGIC = 0x616b3432, V0_BYTES = 28, V3_FIELDS = 204, V4_BYTES = 256, V5_BYTES = 512 };

#define CONFIG(member)                                                                             \
    .place = offsetof(Model, config.member), .bytes = sizeof((Model *)0)->config.member
#define ROPE(member) .place = offsetof(Model, rope.member), .bytes = sizeof((Model *)0)->rope.member

// Those of a Llama and of its RoPE. In version 3 all bytes from V3_FIELDS on are 0. A field that
// limits another stands before it. tests/test_format.py compares docs/format.md.
static const Field fields_of_llama[] = {
    {"magic", 0, U32, MAGIC, MAGIC, CONFIG(magic)},
    {"version", 4, U32, 1, 6, CONFIG(version)},
    {"weight_type", 8, U32, 0, N_WEIGHT_TYPES - 1, CONFIG(weight_type)},
    {"group_size", 12, U32, 0, MAX_WIDTH, CONFIG(group_size)},
    {"dim", 16, U32, 1, MAX_WIDTH, CONFIG(dim)},
    {"hidden_dim", 20, U32, 1, MAX_WIDTH, CONFIG(hidden_dim)},
    {"n_layers", 24, U32, 1, MAX_LAYERS, CONFIG(n_layers)},
    {"n_heads", 28, U32, 1, MAX_HEADS, CONFIG(n_heads)},
    {"n_kv_heads", 32, U32, 1, MAX_HEADS, CONFIG(n_kv_heads)},
    {"head_dim", 36, U32, 2, ROPE_MAX_HEAD_DIM, CONFIG(head_dim)},
    {"vocab_size", 40, U32, 1, MAX_VOCAB, CONFIG(vocab_size)},
    {"seq_len", 44, U32, 1, MOST, CONFIG(seq_len)},
    {"shared_classifier", 48, U32, 0, 1, CONFIG(shared_classifier)},
    {"norm_eps", 56, F64, 0, 1, CONFIG(norm_eps)},
    {"bos_id", 64, I32, -1, LAST_TOKEN, CONFIG(bos_id)},
    {"n_eos", 68, U32, 0, MAX_EOS, CONFIG(n_eos)},
    {"eos_ids", 72, I32X8, 0, LAST_TOKEN, CONFIG(eos_ids[0])},
    {"rope_method", 104, U32, 0, LAST_METHOD, ROPE(method), .version_5 = ROPE_PROPORTIONAL},
    {"rope_dynamic", 108, U32, 0, 1, ROPE(dynamic)},
    {"theta", 112, F64, 0, ANY, ROPE(theta)},
    {"factor", 120, F64, 0, ANY, ROPE(factor)},
    {"train_ctx", 128, U32, 1, MOST, ROPE(train_ctx)},
    {"ramp", 132, U32, 0, ROPE_RAMP_TURNS, ROPE(ramp)},
    {"truncate", 136, U32, 0, 1, ROPE(truncate)},
    {"original_unsaid", 140, U32, 0, 1, CONFIG(original_unsaid)},
    {"beta_fast", 144, F64, 0, ANY, ROPE(beta_fast)},
    {"beta_slow", 152, F64, 0, ANY, ROPE(beta_slow)},
    {"attention_factor", 160, F64, 0, ANY, ROPE(attention_factor)},
    {"mscale", 168, F64, 0, ANY, ROPE(mscale)},
    {"mscale_all_dim", 176, F64, 0, ANY, ROPE(mscale_all_dim)},
    {"low_freq_factor", 184, F64, 0, ANY, ROPE(low_freq_factor)},
    {"high_freq_factor", 192, F64, 0, ANY, ROPE(high_freq_factor)},
    {"n_longrope", 200, U32, 0, ROPE_MAX_PAIRS, CONFIG(n_longrope)},
    {"rotary_dim", 204, U32, 0, ROPE_MAX_HEAD_DIM, CONFIG(rotary_dim)},
    {"logn", 220, U32, 0, 1, ROPE(logn)},
    {"unscaled_positions", 228, U32, 0, MOST, ROPE(unscaled_positions)},
    {"type_table", 236, U32, 0, 1, CONFIG(has_types)},
    {"temperature_beta", 352, F64, 0, 1e6, ROPE(temperature_beta)},
    {"temperature_unturned", 600, U32, 0, 1, ROPE(temperature_unturned)},
    {"temperature_length", 604, U32, 0, MOST, ROPE(temperature_length)},
    {"mscale_in_scores", 624, U32, 0, 1, ROPE(mscale_in_scores)},
};
enum { N_FIELDS = sizeof fields_of_llama / sizeof fields_of_llama[0] };

// The fields of a Llama, and then those of each kind. Table -1 is a Llama's; `base` is where the
// places of a table begin.
static const Field *table_of(const Model *m, int table, int *n, uint8_t **base) {
    *n = table < 0 ? N_FIELDS : kinds.rows[table]->n_fields;
    *base = table < 0 ? (uint8_t *)m : (uint8_t *)m->config.extra;
    return table < 0 ? fields_of_llama : kinds.rows[table]->fields;
}

static int count_of(const Field *f, const Model *m) {
    return f->type == I32X8 ? m->config.n_eos : 1;
}

// The version that a value of a field needs; 0: any.
static int needed_for(const Field *f, double x) {
    if (f->version_6 && x >= f->version_6) return 6;
    return f->version_5 && x >= f->version_5 ? 5 : 0;
}

static bool fail_field(const Field *f, double x, double high, Error *err) {
    if (high == ANY) return fail(err, "%s is %g (expected a number, or 0 for none)", f->name, x);
    return fail(err, "%s is %.10g (expected %.10g to %.10g)", f->name, x, f->low, high);
}

// Little-endian, a wide number begins with the narrow one of its value.
static bool read_field(const Field *f, const uint8_t *header, const Model *m, uint8_t *base,
                       Error *err) {
    for (int i = 0; i < count_of(f, m); i++) {
        const uint8_t *p = header + f->offset + 4 * i;
        int version;
        int32_t whole;
        memcpy(&version, header + 4, sizeof version);
        memcpy(&whole, p, sizeof whole);
        int64_t bits = whole;
        double x = whole;
        double high = f->high;
        if (f->type == F64) {
            memcpy(&bits, p, sizeof bits);
            memcpy(&x, p, sizeof x);
        }
        if (f->high == LAST_TOKEN) high = m->config.vocab_size - 1;
        if (f->high == LAST_METHOD) high = rope_n_methods - 1;
        if (!(x >= f->low && x <= high)) return fail_field(f, x, high, err);
        if (version < needed_for(f, x))
            return fail(err, "%s is %.0f in version %d (expected version %d)", f->name, x, version,
                        needed_for(f, x));
        memcpy(base + f->place + 4 * i, &bits, f->bytes);
    }
    return true;
}

static bool read_fields(const uint8_t *header, Model *m, Error *err) {
    for (int table = -1; table < kinds.n; table++) {
        int n;
        uint8_t *base;
        const Field *f = table_of(m, table, &n, &base);
        for (const Field *last = f + n; f < last; f++)
            if (!read_field(f, header, m, base, err)) return false;
    }
    return true;
}

double field_value(const Model *m, const char *name) {
    for (int table = -1; table < kinds.n; table++) {
        int n;
        uint8_t *base;
        const Field *f = table_of(m, table, &n, &base);
        for (const Field *last = f + n; f < last; f++) {
            int whole = 0;
            double x;
            if (strcmp(f->name, name) != 0) continue;
            memcpy(&whole, base + f->place, f->bytes < sizeof whole ? f->bytes : sizeof whole);
            memcpy(&x, base + f->place, f->type == F64 ? sizeof x : 0);
            return f->type == F64 ? x : whole;
        }
    }
    return 0;
}

int header_write(Model m, uint8_t out[HEADER_BYTES]) {
    static const uint8_t zeros[HEADER_BYTES];
    int needed = 3;
    int turning = turning_elements(&m.rope);
    m.config.rotary_dim = turning == m.config.head_dim ? 0 : turning;
    m.config.magic = MAGIC;
    m.config.version = 3;
    memset(out, 0, HEADER_BYTES);
    for (int table = -1; table < kinds.n; table++) {
        int n;
        uint8_t *base;
        const Field *f = table_of(&m, table, &n, &base);
        for (const Field *last = f + n; base && f < last; f++) {
            size_t bytes = f->bytes < f->type ? f->bytes : f->type;
            int value;
            memcpy(out + f->offset, base + f->place, bytes * count_of(f, &m));
            memcpy(&value, out + f->offset, sizeof value);
            if (needed_for(f, value) > needed) needed = needed_for(f, value);
        }
    }
    if (memcmp(out + V5_BYTES, zeros, HEADER_BYTES - V5_BYTES) != 0) needed = 6;
    if (needed < 5 && memcmp(out + V4_BYTES, zeros, HEADER_BYTES - V4_BYTES) != 0) needed = 5;
    if (needed < 4 && memcmp(out + V3_FIELDS, zeros, HEADER_BYTES - V3_FIELDS) != 0) needed = 4;
    out[4] = (uint8_t)needed;
    return needed == 6 ? HEADER_BYTES : needed == 5 ? V5_BYTES : V4_BYTES;
}

static bool check_reserved(const uint8_t *p, const Model *m, Error *err) {
    bool covered[HEADER_BYTES] = {false};
    for (int table = -1; table < kinds.n; table++) {
        int n;
        uint8_t *base;
        const Field *f = table_of(m, table, &n, &base);
        for (const Field *last = f + n; f < last; f++)
            if (f->offset < V3_FIELDS || m->config.version > 3)
                memset(covered + f->offset, true, f->type);
    }
    for (int i = 0; i < HEADER_BYTES; i++)
        if (!covered[i] && p[i]) return fail(err, "reserved byte %d is not 0", i);
    return true;
}

static bool check_types(const ModelConfig *c, Error *err) {
    const char *type = weight_type_names[c->weight_type];
    bool is_q4 = c->weight_type == WEIGHT_Q4;
    bool grouped = is_q4 || c->weight_type == WEIGHT_Q8;
    if (!c->has_types && (grouped != (c->group_size > 0) || (is_q4 && c->group_size != Q4_GROUP)))
        return fail(err, "group_size is %d with weight type %s", c->group_size, type);
    if (c->weight_type > WEIGHT_Q4 && c->version == 3)
        return fail(err, "weight type %s in version 3 (expected version 4)", type);
    return true;
}

static bool check_shapes(const ModelConfig *c, Error *err) {
    if (c->version < 3 && c->dim % c->n_heads)
        return fail(err, "dim %d is not a multiple of %d heads", (int)c->dim, c->n_heads);
    // Version 2's groups fill every tensor exactly, as in what llama2.c exports.
    int64_t d = c->dim;
    int64_t kv_rows = c->n_kv_heads * c->head_dim;
    int64_t group = c->version == 2 ? c->group_size : 1;
    if (d * d % group || d * kv_rows % group || d * c->hidden_dim % group ||
        d * c->vocab_size % group)
        return fail(err, "group_size %d does not divide the tensors", c->group_size);
    if (c->n_heads % c->n_kv_heads)
        return fail(err, "%d heads cannot share %d kv heads", c->n_heads, c->n_kv_heads);
    return c->head_dim % 2 == 0 ||
           fail(err, "head_dim is %d (expected an even number)", (int)c->head_dim);
}

int turning_elements(const RopeConfig *r) {
    return r->method == ROPE_PROPORTIONAL ? 2 * r->turning : r->rotary_dim;
}

bool check_turning(RopeConfig *r, const char *field, int turning, int64_t head_dim, Error *err) {
    bool counts_all = r->method == ROPE_PROPORTIONAL;
    if (turning % 2 || turning > head_dim)
        return fail(err, "%s is %d (expected an even number up to head_dim, %d)", field, turning,
                    (int)head_dim);
    r->rotary_dim = counts_all ? (int)head_dim : turning;
    r->turning = counts_all ? turning / 2 : 0;
    return true;
}

// Checks fields against one another, those of a Llama last.
static bool check_fields(const uint8_t *header, Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    int turning = c->rotary_dim ? c->rotary_dim : (int)c->head_dim;
    if (!check_reserved(header, m, err) || !check_types(c, err) || !check_shapes(c, err))
        return false;
    EACH_KIND(k)
    if ((*k)->check && !(*k)->check(m, err)) return false;
    if (!check_turning(&m->rope, "rotary_dim", turning, c->head_dim, err)) return false;
    int n_pairs = m->rope.rotary_dim / 2;
    return c->n_longrope == 0 || c->n_longrope == n_pairs ||
           fail(err, "longrope lists of %d factors (expected %d)", c->n_longrope, n_pairs);
}

// Makes version 3's header of llama2.c's: seven int32, from version 1 on a byte, in 2 an int32. The
// rest is Llama 2's.
static void rewrite_legacy(const uint8_t *p, int version, uint8_t out[HEADER_BYTES]) {
    int32_t n[7];  // dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
    memcpy(n, p, sizeof n);
    // In version 0 the vocabulary is negative when the classifier is not shared.
    int vocab_size = version == 0 && n[5] >= -MAX_VOCAB ? abs(n[5]) : n[5];
    Model m = {.rope = {.theta = 10000, .train_ctx = n[6], .truncate = true}};
    ModelConfig *c = &m.config;
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
    header_write(m, out);
}

bool header_read(Model *m, uint64_t *bytes, Error *err) {
    const uint8_t *file = m->file.data;
    size_t size = m->file.size;
    int32_t start[2];
    uint8_t header[HEADER_BYTES] = {0};  // with zeros for what an older version does not have
    if (size < V0_BYTES)
        return fail(err, "not a model file (%zu bytes, a header has at least %d)", size, V0_BYTES);
    memcpy(start, file, sizeof start);
    bool has_magic = start[0] == MAGIC;  // version 0 has none
    int version = has_magic ? start[1] : 0;
    *bytes = version == 6 ? HEADER_BYTES : version == 5 ? V5_BYTES : V4_BYTES;
    if (!has_magic) *bytes = V0_BYTES;
    if (size < *bytes)
        return fail(err, "truncated (%zu bytes, the header alone has %llu)", size,
                    (unsigned long long)*bytes);
    if (!has_magic || version == 1 || version == 2)
        rewrite_legacy(has_magic ? file + 8 : file, version, header);
    else memcpy(header, file, *bytes);
    bool good = read_fields(header, m, err);
    m->config.version = version;
    good = good && check_fields(header, m, err);
    const char *why =
        has_magic ? "" : "not a model file: no ak42 magic, and as llama2.c's version 0 an ";
    return good || fail(err, "%simpossible header: %s", why, err->text);
}
