// What a rope_scaling block means, as in export/config.py; tests/rope_cases.py holds both to the same. Its values are
// what Hugging Face 5 finds (reading.h); here stands what is refused of them.
#include "reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "settings.h"

enum { MOST_BYTES = 1 << 20 };
static const char SPACE[] = " \t\r\n";
static const char ORIGINAL[] = "original_max_position_embeddings";

typedef struct {
    Config c;           // what Hugging Face 5 finds in file->whole
    const char *name;   // of the block in errors, NULL: it stands alone
    bool is_block;      // the file is a block alone
    bool is_part;       // it has no family: what it leaves out is the model's
    bool says_context;  // it has max_position_embeddings
    RopeFile *file;
    bool good;   // nothing is wrong so far
    Error *err;  // the first thing that is wrong
} Reader;

__attribute__((format(printf, 4, 5))) static void reject(Reader *r, const char *object, const char *key,
                                                         const char *format, ...) {
    const char *v = json_member(object, key), *where = v ? v : object ? object : r->c.config;
    const char *name = object == r->c.block && r->name ? r->name : "";
    const char *found = !v ? "nothing" : *v == '[' ? "a list" : *v == '{' ? "an object" : v;
    size_t length = *found == '"' ? 2 + strcspn(v + 1, "\"") : found == v ? strcspn(v, ",]} \t\r\n") : strlen(found);
    char expected[160];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (!r->good) return;
    r->good = fail(r->err, "line %d: %s%s%s cannot be used (found %.*s, expected %s)", json_line(r->file->whole, where),
                   name, name[0] ? "." : "", key, length < 40 ? (int)length : 40, found, expected);
}

// A key's value, or NULL. One that is there twice is refused.
static const char *get(Reader *r, const char *object, const char *key) {
    int times = 0;
    for (const char *name, *v = json_first(object, &name); v; v = json_next(v, &name)) times += json_is(name, key);
    if (times > 1) reject(r, object, key, "it once, and it appears twice");
    return json_member(object, key);
}

// A value is within the limits of its option. What linear, dynamic and llama3 look at has to be there.
static void check_value(Reader *r, const char *object, const Option *f, bool may_be_null) {
    const char *v = get(r, object, f->key);
    double x = 0;
    bool is_whole;
    if (v ? *v == 'n' && may_be_null : !f->methods || r->c.method >= YARN) return;
    if (f->type == FLAG) {
        if (!strchr("tf", *v)) reject(r, object, f->key, "true or false");
        return;
    }
    bool good = json_number(v, &x, &is_whole) && (is_whole || f->type == NUMBER);
    if (good && ((x >= f->low && x <= f->high) || (x == 0 && may_be_null && f->missing != 0))) return;
    if (f->type == WHOLE) reject(r, object, f->key, "a whole number from %.0f to %.0f", f->low, f->high);
    else reject(r, object, f->key, "a number from %.10g to %.10g", f->low, f->high);
}

// 1: the block's type looks at this key; 0: another type does, or releases have it; -1: no type has it.
static int use_of(const Reader *r, const char *key) {
    static const struct {
        const char *key;
        RopeType from;  // the first of those that look at it
    } others[] = {{"rope_type", PLAIN},       {"type", PLAIN},
                  {"rope_theta", PLAIN},      {"partial_rotary_factor", PLAIN},
                  {ORIGINAL, LLAMA3},         {"attention_factor", YARN},
                  {"short_factor", LONGROPE}, {"long_factor", LONGROPE},
                  {"short_mscale", UNKNOWN},  {"long_mscale", UNKNOWN},
                  {"finetuned", UNKNOWN},     {"attn_factor", UNKNOWN}};
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++)
        if (f->methods && f->key && strcmp(f->key, key) == 0)
            return (f->methods & rope_methods[r->c.rope->method].flags) != 0;
    if (r->c.is_phi3 && strcmp(key, ORIGINAL) == 0) return 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].key, key) == 0) return r->c.method >= others[i].from;
    return -1;
}

// Checks what the block's type looks at, and notes the keys that it does not. A key that no type has is refused.
static void check_block(Reader *r) {
    const Config *c = &r->c;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        const bool is_theta = f->place == offsetof(RopeConfig, theta);
        const bool is_original = f->place == offsetof(RopeConfig, train_ctx) && c->method >= LLAMA3;
        if (is_theta || is_original) check_value(r, c->config, f, false);
        if (f->key && use_of(r, f->key) > 0)
            check_value(r, c->block, f, c->method >= YARN && f->type != WHOLE && !is_theta);
    }
    for (const char *quoted, *v = json_first(c->block, &quoted); v && r->good; v = json_next(v, &quoted)) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
        const int use = use_of(r, key);
        if (use < 0) reject(r, c->block, key, "a key that some rope_type has");
        if (use == 0) add_name(r->file->unused, sizeof r->file->unused, ", ", key);
    }
}

static void check_family(Reader *r) {
    const char *type = get(r, r->c.config, "model_type"), *list = get(r, r->c.config, "architectures");
    const char *first = json_first(list, NULL);
    const RopeFamily *f = r->c.family;
    if (!f) reject(r, r->c.config, "model_type", "one of llama, mistral, qwen2, qwen3, phi3, smollm3");
    else if (type && list && *list != 'n' && (!json_is(first, f->architecture) || json_next(first, NULL)))
        reject(r, r->c.config, "architectures", "[\"%s\"]", f->architecture);
}

// The block is rope_scaling if that says something, else rope_parameters.
static void name_block(Reader *r) {
    static const char *const names[] = {"rope_scaling", "rope_parameters"};
    const char *v = NULL, *key;
    for (int i = 0; i < 2 && !(v && v == r->c.block); i++) {
        r->name = names[i];
        v = get(r, r->c.config, r->name);
        bool is_one = !v || strchr("nf{", *v);
        for (const char *in = json_first(v, &key); in; in = json_next(in, &key)) is_one = is_one && *in != '{';
        if (!is_one) reject(r, r->c.config, r->name, "one object of settings for all layers");
    }
}

static void check_type(Reader *r) {
    const Config *c = &r->c;
    const bool phi = c->is_phi3;
    const char *key = get(r, c->block, "type") && !get(r, c->block, "rope_type") ? "type" : "rope_type";
    r->file->has_type = c->type || c->rope_type;
    if (phi ? c->method == PLAIN || c->method == LONGROPE : c->method < UNKNOWN && (!c->is_su || r->is_part)) return;
    reject(r, c->block, key, "one of default, %syarn, longrope%s", phi ? "" : "linear, dynamic, llama3, ",
           phi ? ", su" : "");
}

// What stands beside the block. A head, and how much of it turns: all, but in families that can turn a part. With a
// model both are the model's.
static void check_dims(Reader *r) {
    static const Option keys[] = {{.key = "partial_rotary_factor", .type = NUMBER, .low = 1e-6, .high = 1},
                                  {.key = "head_dim", .type = WHOLE, .low = 1, .high = ROPE_MAX_HEAD_DIM},
                                  {.key = "max_position_embeddings", .type = WHOLE, .low = 1, .high = 1 << 30},
                                  {.key = "hidden_size", .type = WHOLE, .low = 1, .high = 1 << 20},
                                  {.key = "num_attention_heads", .type = WHOLE, .low = 1, .high = 1 << 14}};
    const Config *c = &r->c;
    RopeFile *file = r->file;
    const int of_model = file->head_dim, turns_in_model = file->rope.rotary_dim;
    const char *said = json_member(c->config, "head_dim");
    for (int i = 0; i < (r->is_part ? 3 : 5); i++) check_value(r, c->config, &keys[i], i < 2);
    check_value(r, c->block, &keys[0], true);
    if (!(fmod(c->head_dim, 2) == 0 && c->head_dim >= 2 && c->head_dim <= ROPE_MAX_HEAD_DIM))
        reject(r, c->config, "head_dim",
               "an even number up to %d, hidden_size and num_attention_heads that make one, or --head-dim",
               ROPE_MAX_HEAD_DIM);
    if (!r->good) return;
    file->head_dim = (int)c->head_dim;
    if (of_model && file->head_dim != of_model)
        r->good = fail(r->err,
                       "line %d: another model's config: head_dim is %d, and the model's is %d (give it with its own "
                       "model, or with none: --explain or --rope-json, and --rope-config)",
                       json_line(file->whole, said ? said : c->config), file->head_dim, of_model);
    const char *part = keys[0].key, *where = json_member(c->block, part) ? c->block : c->config;
    const bool is_as_in_model = r->is_part && of_model && !json_member(where, part);
    const int turning = is_as_in_model ? turns_in_model : (int)(file->head_dim * c->partial);
    if (c->partial != 1 && !c->is_phi3 && !r->is_part) reject(r, where, part, "1");
    if (turning < 2 || turning % 2) reject(r, where, part, "what makes an even part of head_dim, %d", file->head_dim);
    if (of_model && turning != turns_in_model)
        reject(r, where, part, "what makes %d of head_dim %d, as in the model", turns_in_model, file->head_dim);
    c->rope->rotary_dim = turning;
}

// theta and L, which have to be known.
static void check_lengths(Reader *r) {
    const Config *c = &r->c;
    const bool is_original = c->method >= LLAMA3 && (c->top || c->inside);
    const int low = c->method == LONGROPE ? 2 : 1;  // longrope divides by its logarithm
    if (c->rope->theta == 0) reject(r, c->config, "rope_theta", "a number above 1, or --theta");
    if (c->rope->train_ctx < low)
        reject(r, is_original && !c->top ? c->block : c->config, is_original ? ORIGINAL : "max_position_embeddings",
               "%d or more, or --train-ctx", low);
}

// What settings mean together; longrope's lists.
static void check_settings_and_lists(Reader *r) {
    static const char *const keys[] = {"short_factor", "long_factor"};
    double *const lists[] = {r->file->short_factors, r->file->long_factors};
    RopeConfig *rope = r->c.rope, filled = *rope;
    const int n = rope->rotary_dim / 2;
    settings_fill_defaults(&filled, rope->train_ctx);
    if (filled.beta_fast < filled.beta_slow) reject(r, r->c.block, "beta_fast", "no less than beta_slow");
    if (filled.high_freq_factor <= filled.low_freq_factor)
        reject(r, r->c.block, "high_freq_factor", "a number above low_freq_factor");
    if (r->c.method != LONGROPE) return;
    for (int i = 0; i < 2; i++) {
        get(r, r->c.block, keys[i]);
        if (!rope_list(r->c.block, keys[i], n, lists[i]))
            reject(r, r->c.block, keys[i], "a list of %d numbers above 0, half of what turns of a head", n);
    }
    rope->short_factors = lists[0];
    rope->long_factors = lists[1];
    rope->unscaled_positions = (int)number_of(&r->c, r->c.block, "unscaled_positions", 0);
    if (r->good && rope->unscaled_positions && !settings_has_one_list(rope))
        reject(r, r->c.block, "unscaled_positions", "0, since short_factor and long_factor are not the same");
}

// Whether an object has one of the keys that only configs have, or (with the first two) of those that tell a family.
enum { OF_FAMILY = 2, OF_CONFIG = 6 };
static bool has_key(const char *object, int n) {
    static const char *const keys[] = {"model_type",      "architectures",           "rope_scaling",
                                       "rope_parameters", "max_position_embeddings", "hidden_size"};
    while (n > 0 && !json_member(object, keys[n - 1])) n--;
    return n > 0;
}

// The text as one whole config; NULL with the reason. Lines in front that begin with # become blank, and members that
// stand alone get braces. What a block alone, or a config without a family, leaves out is what the model has of a
// Llama, and stands in front. No line moves.
static char *whole_of(Reader *r, const char *text, size_t length) {
    enum { ROOM = 200 };  // for what stands in front
    const RopeFile *model = r->file;
    char *whole = alloc_array(ROOM + length + 4, 1, "a config", r->err);
    if (!whole) return NULL;
    char *p = whole + ROOM, *end = p + length + 1;
    memset(whole, ' ', ROOM + length + 2);
    memcpy(p + 1, text, length);
    for (char *c = p + 1; *c == '#'; c += *c == '\n')
        for (; *c && *c != '\n'; c++) *c = ' ';
    const char first = p[strspn(p, SPACE)];
    if (first && strchr("\".\xE2", first)) *p = '{';
    if (*p == '{') *end = '}';
    bool good = json_check(p, length + 2, r->err);
    p += strspn(p, SPACE);
    if (!good || (*p != '{' && !fail(r->err, "line 1: not a JSON object"))) return keep_if(false, whole);
    r->is_part = !has_key(p, OF_FAMILY);
    r->is_block = !has_key(p, OF_CONFIG);
    r->says_context = json_member(p, "max_position_embeddings");
    const char *config = r->is_block ? NULL : p;
    const bool has_heads = json_member(config, "head_dim") || (json_member(config, "hidden_size") && !r->is_part);
    const int most = json_member(p, ORIGINAL) && model->max_positions ? model->max_positions : model->rope.train_ctx;
    char *at = whole + sprintf(whole, "{");
    if (r->is_part) at += sprintf(at, "\"model_type\": \"llama\", ");
    if (model->head_dim && !has_heads) at += sprintf(at, "\"head_dim\": %d, ", model->head_dim);
    if (r->is_part && model->rope.theta && !json_member(config, "rope_theta"))
        at += sprintf(at, "\"rope_theta\": %.17g, ", model->rope.theta);
    if (r->is_part && most && !r->says_context) at += sprintf(at, "\"max_position_embeddings\": %d, ", most);
    if (r->is_block) at += sprintf(at, "\"rope_scaling\":");
    *at = ' ';
    if (r->is_block) end[1] = '}';
    else *p = ' ';
    return whole;
}

bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err) {
    static const RopeFamily none = {"llama", "LlamaForCausalLM", 0, 0, 0};
    Reading found = {.row = 0};
    Reader r = {.c = {.flags = PHI3_YARN, .out = &found}, .file = file, .good = true, .err = err};
    Config *c = &r.c;
    c->config = file->whole = whole_of(&r, text, length);
    if (!file->whole) return false;
    c->family = r.is_part ? &none : rope_family(c->config);
    check_family(&r);
    if (!r.good) return false;
    reading_find(c);
    if (!r.is_part) file->model_type = c->family->model_type;
    if (!r.is_part || r.says_context) file->max_positions = c->trained;
    else if (c->method < LLAMA3) c->rope->train_ctx = file->rope.train_ctx;
    if (!r.is_block) name_block(&r);
    check_type(&r);
    check_block(&r);
    check_dims(&r);
    check_lengths(&r);
    if (r.good) check_settings_and_lists(&r);
    if (c->method == PLAIN) c->rope->factor = 0;
    else if (c->rope->factor == 0) c->rope->factor = (double)file->max_positions / fmax(c->rope->train_ctx, 1);
    if (r.good) file->rope = *c->rope;
    return r.good;
}

bool rope_config_open(RopeFile *file, const char *path, Error *err) {
    size_t length;
    char *text = read_file(path, MOST_BYTES, &length, err);
    bool good = text && (rope_config_parse(file, text, length, err) || fail(err, "%s: %s", path, err->text));
    free(text);
    return good;
}
