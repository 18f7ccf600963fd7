// The header of a model file: what reads, checks and writes the fields of header_fields.h.
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "header_fields.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "model files are little-endian and used in place");
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error                                                                                             \
    "NaN and infinity in a file have to be seen, and sums have an order: build without -ffast-math (-Ofast)"
#endif

enum { V0_BYTES = 28, V3_FIELDS = 204, V4_BYTES = 256, V5_BYTES = 512 };

const char *const encoding_names[N_ENCODINGS] = {"rope",  "none", "learned",        "sinusoidal",
                                                 "alibi", "shaw", "transformer-xl", "disentangled"};

static int count_of(const Field *f, const Model *m) {
    return f->type == I32X8 ? m->config.n_eos : 1;
}

// A field that limits another comes before it. Little-endian, a wide number begins with the narrow
// one of its value.
static bool read_fields(const uint8_t *header, Model *m, Error *err) {
    for (const Field *f = fields; f < fields + N_FIELDS; f++)
        for (int i = 0; i < count_of(f, m); i++) {
            const uint8_t *p = header + f->offset + 4 * i;
            int32_t whole;
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
            if (!(x >= f->low && x <= high))
                return high == ANY
                           ? fail(err, "%s is %g (expected a number, or 0 for none)", f->name, x)
                           : fail(err, "%s is %.10g (expected %.10g to %.10g)", f->name, x, f->low,
                                  high);
            memcpy((uint8_t *)m + f->place + 4 * i, &bits, f->bytes);
        }
    return true;
}

// How many elements of a head turn. With `proportional` the settings count all pairs, and have how
// many of them turn.
static int turning_elements(const RopeConfig *r) {
    return r->method == ROPE_PROPORTIONAL ? 2 * r->turning : r->rotary_dim;
}

static void set_turning_elements(RopeConfig *r, int turning, int head_dim) {
    bool counts_all = r->method == ROPE_PROPORTIONAL;
    r->rotary_dim = counts_all ? head_dim : turning;
    r->turning = counts_all ? turning / 2 : 0;
}

// Whether a field that version 4 has holds what only version 5 can say.
static bool needs_version_5(const Model *m) {
    return m->config.qk_norm == QK_NORM_WHOLE || m->rope.method == ROPE_PROPORTIONAL;
}

// The field that version 5 has and that holds what only version 6 can say, NULL: none does.
static const char *field_of_version_6(const ModelConfig *c) {
    bool without_gate = c->activation == ACTIVATION_RELU2 || c->activation == ACTIVATION_XIELU;
    if (c->qk_norm == QK_NORM_BARE) return "qk_norm";
    if (c->norm_place == NORM_PARALLEL) return "norm_place";
    if (c->router == ROUTER_SIGMOID) return "router";
    return without_gate ? "activation" : NULL;
}

int header_write(Model m, uint8_t out[HEADER_BYTES]) {
    static const uint8_t zeros[HEADER_BYTES];
    int turning = turning_elements(&m.rope);
    int in_sliding = turning_elements(&m.sliding);
    m.rope.rotary_dim = turning == m.config.head_dim ? 0 : turning;
    m.sliding.rotary_dim = in_sliding == turning ? 0 : in_sliding;
    m.config.magic = MAGIC;
    m.config.version = 3;
    memset(out, 0, HEADER_BYTES);
    for (const Field *f = fields; f < fields + N_FIELDS; f++) {
        size_t bytes = f->bytes < f->type ? f->bytes : f->type;
        memcpy(out + f->offset, (const uint8_t *)&m + f->place, bytes * count_of(f, &m));
    }
    bool is_6 = field_of_version_6(&m.config) ||
                memcmp(out + V5_BYTES, zeros, HEADER_BYTES - V5_BYTES) != 0;
    bool is_5 = needs_version_5(&m) || memcmp(out + V4_BYTES, zeros, HEADER_BYTES - V4_BYTES) != 0;
    bool is_4 = memcmp(out + V3_FIELDS, zeros, HEADER_BYTES - V3_FIELDS) != 0;
    out[4] = is_6 ? 6 : is_5 ? 5 : is_4 ? 4 : 3;
    return is_6 ? HEADER_BYTES : is_5 ? V5_BYTES : V4_BYTES;
}

static bool check_reserved(const uint8_t *p, const ModelConfig *c, Error *err) {
    bool covered[HEADER_BYTES] = {false};
    for (const Field *f = fields; f < fields + N_FIELDS; f++)
        if (f->offset < V3_FIELDS || c->version > 3) memset(covered + f->offset, true, f->type);
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

static bool check_encoding(const ModelConfig *c, const RopeConfig *r, Error *err) {
    const char *encoding = encoding_names[c->encoding];
    bool has_rows = c->encoding == ENCODING_LEARNED || c->encoding == ENCODING_SHAW;
    bool has_rope = r->method != ROPE_NONE || r->dynamic || r->logn || r->rotary_dim;
    has_rope = has_rope || c->sliding_rope || r->temperature_beta != 0;
    if (has_rows != (c->encoding_rows > 0))
        return fail(err, "encoding_rows is %d with %s", c->encoding_rows, encoding);
    if (c->encoding != ENCODING_ROPE && has_rope)
        return fail(err,
                    "encoding %s with settings of RoPE (expected 0 in rope_method, rope_dynamic, "
                    "rotary_dim, logn, "
                    "sliding_rope and temperature_beta)",
                    encoding);
    if (c->encoding != ENCODING_ROPE && c->value_dim)
        return fail(err, "value_dim is %d with %s (expected 0)", c->value_dim, encoding);
    if (c->encoding == ENCODING_LEARNED && c->seq_len > c->encoding_rows)
        return fail(err, "seq_len is %d with %d learned positions", c->seq_len, c->encoding_rows);
    return true;
}

// Settings of the sliding layers are all there, or none of them is.
static bool check_sliding(const Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    const uint8_t *base = (const uint8_t *)m;
    const uint8_t *settings = (const uint8_t *)&m->sliding;
    for (const Field *f = fields; f < fields + N_FIELDS && !c->sliding_rope; f++) {
        bool is_sliding =
            base + f->place >= settings && base + f->place < settings + sizeof m->sliding;
        for (size_t i = 0; is_sliding && i < f->bytes; i++)
            if (base[f->place + i])
                return fail(err, "%s without sliding_rope (expected 0)", f->name);
    }
    if (!c->sliding_rope) return true;
    if (!c->has_layers)
        return fail(err,
                    "sliding_rope without a layer_table, which says the layers that it is for");
    if (rope_methods[m->sliding.method].flags & ROPE_USES_LISTS)
        return fail(err, "sliding_method is longrope, whose lists are for rope_method alone");
    return m->sliding.train_ctx > 0 || fail(err, "sliding_train_ctx is 0 (expected 1 to %d)", MOST);
}

// What a router with weights of its own may have, and what goes with its groups.
static bool check_router(const ModelConfig *c, Error *err) {
    int n = c->router_groups;
    int of_group = n ? c->n_experts / n : 0;
    int most = c->router_groups_used * of_group;
    bool has_more = n || c->router_choice_bias || c->router_renormalizes;
    if (c->router == ROUTER_CHOSEN && has_more)
        return fail(err, "router is 0 with settings of others (expected 0 in router_choice_bias, "
                         "router_groups and router_renormalizes)");
    if (c->shared_gate && !c->shared_hidden_dim)
        return fail(err, "shared_gate without shared_hidden_dim (expected 0)");
    bool lone = c->shared_gate || c->router_bias || c->norm_place == NORM_PARALLEL;
    if (c->experts_beside && (!c->shared_hidden_dim || lone))
        return fail(err, "experts_beside needs shared_hidden_dim, and excludes shared_gate, "
                         "router_bias and a norm_place of 3");
    if (n == 0)
        return !(c->router_groups_used || c->router_group_best) ||
               fail(err,
                    "router_groups is 0 (expected 0 in router_groups_used and router_group_best)");
    if (c->n_experts % n)
        return fail(err, "router_groups is %d, which does not divide %d experts", n, c->n_experts);
    if (c->router_groups_used < 1 || c->router_groups_used > n)
        return fail(err, "router_groups_used is %d of %d groups (expected 1 to %d)",
                    c->router_groups_used, n, n);
    if (c->router_group_best < 1 || c->router_group_best > of_group)
        return fail(err, "router_group_best is %d with groups of %d experts (expected 1 or 2)",
                    c->router_group_best, of_group);
    return c->n_experts_used <= most ||
           fail(err, "n_experts_used is %d with %d experts in %d groups (expected 1 to %d)",
                c->n_experts_used, most, c->router_groups_used, most);
}

static bool check_experts(const ModelConfig *c, Error *err) {
    int n = c->n_experts;
    int used = c->n_experts_used;
    bool has_settings =
        used || c->expert_hidden_dim || c->router || c->router_bias || c->expert_bias;
    bool has_more = c->shared_hidden_dim || c->shared_gate || c->router_choice_bias ||
                    c->router_groups || c->router_groups_used || c->router_group_best ||
                    c->router_scale > 0 || c->router_cap > 0 || c->router_renormalizes ||
                    c->router_scales_input || c->experts_beside;
    has_settings = has_settings || has_more;
    if (n == 0)
        return !has_settings ||
               fail(err, "n_experts is 0, and other fields of experts are not (expected 0 in all)");
    if (used < 1 || used > n)
        return fail(err, "n_experts_used is %d of %d experts (expected 1 to %d)", used, n, n);
    if (c->expert_hidden_dim == 0)
        return fail(err, "expert_hidden_dim is 0 with %d experts (expected 1 or more)", n);
    return check_router(c, err);
}

// What Gemma 4 has at the end of a layer, and beside its experts, is normed as there.
static bool check_ends(const ModelConfig *c, Error *err) {
    bool is_otherwise = c->layer_norm || c->residual_scale > 0 || c->after_norm_eps > 0;
    return !(c->per_layer_dim || c->experts_beside) || !is_otherwise ||
           fail(err, "per_layer_dim and experts_beside exclude layer_norm, residual_scale and "
                     "after_norm_eps (expected 0)");
}

static bool check_turning(const char *field, int turning, int head_dim, Error *err) {
    if (turning % 2 == 0 && turning <= head_dim) return true;
    return fail(err, "%s is %d (expected an even number up to head_dim, %d)", field, turning,
                head_dim);
}

// Latent attention has heads of one kind, and part of each turns. What other attention has besides
// would have no place in it.
static bool check_latent(const ModelConfig *c, const RopeConfig *r, Error *err) {
    int turning = r->rotary_dim ? r->rotary_dim : (int)c->head_dim;
    if (c->kv_rank == 0)
        return !(c->q_rank || c->latent_norm_eps > 0 || r->mscale_in_scores) ||
               fail(err,
                    "kv_rank is 0, and other fields of latent attention are not (expected 0 in "
                    "q_rank, latent_norm_eps and mscale_in_scores)");
    if (c->n_kv_heads != c->n_heads)
        return fail(err, "n_kv_heads is %d with kv_rank (expected %d, as n_heads)", c->n_kv_heads,
                    c->n_heads);
    if (turning >= c->head_dim)
        return fail(err, "rotary_dim is %d of head_dim %d with kv_rank (expected less)", turning,
                    (int)c->head_dim);
    bool has_more = c->qkv_bias || c->qk_norm || c->has_shapes || c->sliding_rope;
    has_more = has_more || c->encoding != ENCODING_ROPE || c->value_norm;
    return !has_more || fail(err, "kv_rank with fields of other attention (expected 0 in qkv_bias, "
                                  "qk_norm, layer_shapes, sliding_rope, encoding and value_norm)");
}

// Checks fields against one another. A rotary_dim of 0 becomes what it stands for.
static bool check_fields(const uint8_t *p, Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    RopeConfig *r = &m->rope;
    RopeConfig *s = &m->sliding;
    int head_dim = (int)c->head_dim;
    if (!check_reserved(p, c, err) || !check_types(c, err) || !check_shapes(c, err)) return false;
    if (!check_encoding(c, r, err) || !check_sliding(m, err) || !check_experts(c, err))
        return false;
    if (!check_latent(c, r, err) || !check_states(c, err) || !check_steps(c, r, err)) return false;
    if (c->version < 5 && needs_version_5(m))
        return fail(err, "%s in version %d (expected version 5)",
                    c->qk_norm == QK_NORM_WHOLE ? "qk_norm is 2" : "rope_method is 7", c->version);
    if (!check_ends(c, err)) return false;
    const char *newest = field_of_version_6(c);
    if (c->version < 6 && newest)
        return fail(err, "%s has a value of version 6 (found version %d)", newest, c->version);
    int turning = r->rotary_dim ? r->rotary_dim : head_dim;
    int in_sliding = s->rotary_dim ? s->rotary_dim : turning;
    if (!check_turning("rotary_dim", turning, head_dim, err)) return false;
    if (!check_turning("sliding_rotary_dim", in_sliding, head_dim, err)) return false;
    set_turning_elements(r, turning, head_dim);
    if (c->sliding_rope) set_turning_elements(s, in_sliding, head_dim);
    int n_pairs = r->rotary_dim / 2;
    return c->n_longrope == 0 || c->n_longrope == n_pairs ||
           fail(err, "longrope lists of %d factors (expected %d)", c->n_longrope, n_pairs);
}

// Makes version 3's header of llama2.c's: seven int32, from version 1 on a byte, in 2 an int32. The
// rest is Llama 2's.
static void rewrite_legacy(const uint8_t *p, int version, uint8_t out[HEADER_BYTES]) {
    int32_t n[7];  // dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
    memcpy(n, p, sizeof n);
    int dim = n[0];
    int n_heads = n[3];
    // In version 0 the vocabulary is negative when the classifier is not shared.
    int vocab_size = version == 0 && n[5] >= -MAX_VOCAB ? abs(n[5]) : n[5];
    Model m = {.config = {.dim = dim,
                          .hidden_dim = n[1],
                          .n_layers = n[2],
                          .n_heads = n_heads,
                          .n_kv_heads = n[4]}};
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
    uint8_t header[HEADER_BYTES] = {0};  // with zeros for what an older version does not have
    if (size < V0_BYTES)
        return fail(err, "not a model file (%zu bytes, a header has at least %d)", size, V0_BYTES);
    memcpy(start, file, sizeof start);
    bool has_magic = start[0] == MAGIC;  // version 0 has none
    int version = has_magic ? start[1] : 0;
    *bytes = !has_magic     ? V0_BYTES
             : version == 6 ? HEADER_BYTES
             : version == 5 ? V5_BYTES
                            : V4_BYTES;
    if (size < *bytes)
        return fail(err, "truncated (%zu bytes, the header alone has %llu)", size,
                    (unsigned long long)*bytes);
    if (!has_magic || version == 1 || version == 2)
        rewrite_legacy(has_magic ? file + 8 : file, version, header);
    else memcpy(header, file, *bytes);
    bool good = read_fields(header, m, err);
    m->config.version = version;
    good = good && check_fields(header, m, err);
    const char *before =
        has_magic ? "" : "not a model file: no ak42 magic, and as llama2.c's version 0 an ";
    return good || fail(err, "%simpossible header: %s", before, err->text);
}
