// The header of a model file: its fields, read and checked.
#include <string.h>

#include "../rope_settings.h"
#include "hooks.h"

#define IN_MODEL(member) .place = offsetof(Model, member), .bytes = sizeof((Model *)0)->member

// The fields of a Llama and its RoPE: name, offset in the file, type, limits, and place in a Model.
// docs/header.tsv has the meaning of each.
static const Field fields_of_llama[] = {
    {"magic", 0, U32, MAGIC, MAGIC, IN_MODEL(config.magic)},
    {"version", 4, U32, 3, 6, IN_MODEL(config.version)},
    {"weight_type", 8, U32, 0, N_WEIGHT_TYPES - 1, IN_MODEL(config.weight_type)},
    {"group_size", 12, U32, 0, MAX_WIDTH, IN_MODEL(config.group_size)},
    {"dim", 16, U32, 1, MAX_WIDTH, IN_MODEL(config.dim)},
    {"hidden_dim", 20, U32, 1, MAX_WIDTH, IN_MODEL(config.hidden_dim)},
    {"n_layers", 24, U32, 1, MAX_LAYERS, IN_MODEL(config.n_layers)},
    {"n_heads", 28, U32, 1, MAX_HEADS, IN_MODEL(config.n_heads)},
    {"n_kv_heads", 32, U32, 1, MAX_HEADS, IN_MODEL(config.n_kv_heads)},
    {"head_dim", 36, U32, 2, ROPE_MAX_HEAD_DIM, IN_MODEL(config.head_dim)},
    {"vocab_size", 40, U32, 1, MAX_VOCAB, IN_MODEL(config.vocab_size)},
    {"seq_len", 44, U32, 1, MOST, IN_MODEL(config.seq_len)},
    {"shared_classifier", 48, U32, 0, 1, IN_MODEL(config.shared_classifier)},
    {"norm_eps", 56, F64, 0, 1, IN_MODEL(config.norm_eps)},
    {"bos_id", 64, I32, -1, MAX_VOCAB, IN_MODEL(config.bos_id)},
    {"n_eos", 68, U32, 0, MAX_EOS, IN_MODEL(config.n_eos)},
    {"eos_ids", 72, I32X8, 0, MAX_VOCAB, IN_MODEL(config.eos_ids)},
    {"rope_method", 104, U32, 0, MOST, IN_MODEL(rope.method), .version_5 = ROPE_PROPORTIONAL},
    {"rope_dynamic", 108, U32, 0, 1, IN_MODEL(rope.dynamic)},
    {"theta", 112, F64, 0, ANY, IN_MODEL(rope.theta)},
    {"factor", 120, F64, 0, ANY, IN_MODEL(rope.factor)},
    {"train_ctx", 128, U32, 1, MOST, IN_MODEL(rope.train_ctx)},
    {"ramp", 132, U32, 0, ROPE_RAMP_TURNS, IN_MODEL(rope.ramp)},
    {"truncate", 136, U32, 0, 1, IN_MODEL(rope.truncate)},
    {"beta_fast", 144, F64, 0, ANY, IN_MODEL(rope.beta_fast)},
    {"beta_slow", 152, F64, 0, ANY, IN_MODEL(rope.beta_slow)},
    {"attention_factor", 160, F64, 0, ANY, IN_MODEL(rope.attention_factor)},
    {"mscale", 168, F64, 0, ANY, IN_MODEL(rope.mscale)},
    {"mscale_all_dim", 176, F64, 0, ANY, IN_MODEL(rope.mscale_all_dim)},
    {"low_freq_factor", 184, F64, 0, ANY, IN_MODEL(rope.low_freq_factor)},
    {"high_freq_factor", 192, F64, 0, ANY, IN_MODEL(rope.high_freq_factor)},
    {"n_longrope", 200, U32, 0, ROPE_MAX_PAIRS, IN_MODEL(config.n_longrope)},
    {"rotary_dim", 204, U32, 0, ROPE_MAX_HEAD_DIM, IN_MODEL(config.rotary_dim)},
    {"logn", 220, U32, 0, 1, IN_MODEL(rope.logn)},
    {"unscaled_positions", 228, U32, 0, MOST, IN_MODEL(rope.unscaled_positions)},
    {"type_table", 236, U32, 0, 1, IN_MODEL(config.has_types)},
    {"temperature_beta", 352, F64, 0, 1e6, IN_MODEL(rope.temperature_beta)},
    {"temperature_unturned", 600, U32, 0, 1, IN_MODEL(rope.temperature_unturned)},
    {"temperature_length", 604, U32, 0, MOST, IN_MODEL(rope.temperature_length)},
    {"mscale_in_scores", 624, U32, 0, 1, IN_MODEL(rope.mscale_in_scores)},
};
enum { N_FIELDS = sizeof fields_of_llama / sizeof fields_of_llama[0] };

int model_fields(const Model *m, FieldTable tables[MAX_TABLES]) {
    int n = 0;
    tables[n++] = (FieldTable){fields_of_llama, N_FIELDS, (Model *)m};
    EACH_KIND (k, m) {
        const KindPart *part = &(*k)->parts[OF_MODEL];
        void *to = m->config.extra;
        if (part->bytes) memcpy(&to, (uint8_t *)m->config.kinds + part->place, sizeof to);
        tables[n++] = (FieldTable){(*k)->fields, (*k)->n_fields, to};
    }
    return n;
}

static bool is_within(const char *field, int value, int low, int high, Error *err) {
    return (value >= low && value <= high) ||
           fail(err, "%s is %d (expected %d to %d)", field, value, low, high);
}

// Checks fields against one another.
static bool check_fields(Model *m, Error *err) {
    ModelConfig *c = &m->config;
    int last = c->vocab_size - 1;  // the last token's id
    if (!is_within("rope_method", m->rope.method, 0, ROPE_PROPORTIONAL, err)) return false;
    if (!is_within("bos_id", c->bos_id, -1, last, err)) return false;
    for (int i = 0; i < MAX_EOS; i++) {
        if (i >= c->n_eos) c->eos_ids[i] = 0;  // whatever follows the last one
        if (!is_within("eos_ids", c->eos_ids[i], 0, last, err)) return false;
    }

    if (!weights_check_header((int)c->weight_type, c->group_size, c->has_types, c->version, err))
        return false;
    if (c->n_heads % c->n_kv_heads)
        return fail(err, "%d heads cannot share %d kv heads", c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2)
        return fail(err, "head_dim is %d (expected an even number)", (int)c->head_dim);
    EACH_KIND_THAT (check, k, m)
        if (!(*k)->check(m, err)) return false;

    if (m->rope.temperature_length && m->rope.temperature_beta == 0)
        return fail(err, "temperature_length is %d where temperature_beta is 0 (expected 0)",
                    m->rope.temperature_length);

    int all = (int)c->head_dim, rotary_dim = c->rotary_dim ? c->rotary_dim : all;
    if (!settings_set_rotary_dim(&m->rope, "rotary_dim", rotary_dim, all, err)) return false;
    int n_pairs = m->rope.rotary_dim / 2;
    return c->n_longrope == 0 || c->n_longrope == n_pairs ||
           fail(err, "longrope lists of %d factors (expected %d)", c->n_longrope, n_pairs);
}

bool header_take(Model *m, const uint8_t header[HEADER_BYTES], int version, Error *err) {
    FieldTable tables[MAX_TABLES];
    const int n = model_fields(m, tables);
    const int end = version == 3 ? V3_FIELDS : HEADER_BYTES;
    bool good = fields_read(tables, n, header, version, err) &&
                fields_cover(tables, n, header, HEADER_BYTES, end, err);
    m->config.version = version;
    good = good && check_fields(m, err);
    return good || fail(err, "impossible header: %s", err->text);
}

bool header_read(Model *m, uint64_t *bytes, Error *err) {
    const uint8_t *file = m->file.data;
    const size_t size = m->file.size;
    uint8_t header[HEADER_BYTES] = {0};
    int32_t start[2];
    if (size < LEAST_BYTES)
        return fail(err, "not a model file (%zu bytes, a header has at least %d)", size,
                    LEAST_BYTES);
    EACH_KIND_THAT (is_other_form, k, m)
        if ((*k)->is_other_form(m)) return (*k)->read_header(m, bytes, err);
    memcpy(start, file, sizeof start);
    if (start[0] != MAGIC)
        return fail(err, "not a model file: no ak42 magic (model_export.py makes one)");
    const int version = start[1];
    *bytes = version == 6 ? HEADER_BYTES : version == 5 ? V5_BYTES : V4_BYTES;
    if (size < *bytes)
        return fail(err, "truncated (%zu bytes, its header has %llu)", size,
                    (unsigned long long)*bytes);
    memcpy(header, file, *bytes);
    return header_take(m, header, version, err);
}
