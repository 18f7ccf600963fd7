// What a rope_scaling block means, key by key, as in export/config.py; tests/rope_cases.py holds both to the same.
#include "rope_config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "settings.h"

enum { MOST_BYTES = 1 << 20, MOST = 1 << 30, NO_FAMILY = -1, PHI3 = 4, N_FAMILIES = 6 };
static const double NUMBER_LIMIT = 1e12;
static const char SPACE[] = " \t\r\n";

// What a family's class fills in where its config says nothing; a head_dim of 0 is hidden_size / num_attention_heads.
static const struct {
    const char *model_type, *architecture;
    int max_positions, head_dim;
    double theta;
} families[N_FAMILIES] = {
    {"llama", "LlamaForCausalLM", 2048, 0, 1e4},        {"mistral", "MistralForCausalLM", 131072, 0, 1e4},
    {"qwen2", "Qwen2ForCausalLM", 32768, 0, 1e4},       {"qwen3", "Qwen3ForCausalLM", 32768, 128, 1e4},
    [PHI3] = {"phi3", "Phi3ForCausalLM", 4096, 0, 1e4}, {"smollm3", "SmolLM3ForCausalLM", 32768, 0, 2e6}};

// The rope_types, all but the first by the names of our methods, and the keys that a block can have besides those of
// rope_fields, with a space behind each. The last four are in releases, and the library looks at none of them.
enum { DEFAULT, LINEAR, DYNAMIC, LLAMA3, YARN, LONGROPE, N_TYPES };
static const char *const types[N_TYPES] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
static const char known_keys[] =
    "rope_type type partial_rotary_factor short_factor long_factor short_mscale long_mscale "
    "finetuned attn_factor ";
enum { ALL_KEYS = 512 };  // bytes that all keys of a block take, those of rope_fields with them

// What a number may also be: a zero, or a null or missing, for which another number stands.
enum { ZERO = 1, NULL_TOO = 2, OPTIONAL = 4, UNSAID = ZERO | NULL_TOO | OPTIONAL };

// An object of the text, where it stands, and the keys that were asked for, with a space behind each. The first thing that is
// wrong stays in *err, and *good is false then.
typedef struct {
    const char *text, *object, *inside;  // object NULL: empty
    char *asked;                         // (ALL_KEYS), or NULL
    bool *good;
    Error *err;
} Keys;

static int line_of(const char *text, const char *place) {
    int line = 1;
    for (const char *p = text; p < place; p++) line += *p == '\n';
    return line;
}

__attribute__((format(printf, 3, 4))) static void refuse(const Keys *k, const char *key, const char *format, ...) {
    int times;
    const char *v = json_member(k->object, key, &times), *where = v ? v : k->object ? k->object : k->text;
    const char *found = !v ? "nothing" : *v == '[' ? "a list" : *v == '{' ? "an object" : v;
    size_t length = *found == '"' ? 2 + strcspn(v + 1, "\"") : found == v ? strcspn(v, ",]} \t\r\n") : strlen(found);
    char expected[160];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (*k->good)
        *k->good = fail(k->err, "line %d: %s%s cannot be used (found %.*s, expected %s)", line_of(k->text, where),
                        k->inside, key, length < 40 ? (int)length : 40, found, expected);
}

// True when a list of keys, each with a space behind it, has this one.
static bool has_key(const char *list, const char *key) {
    size_t n = strlen(key);
    while ((strncmp(list, key, n) != 0 || list[n] != ' ') && *list) list += strcspn(list, " ") + 1;
    return *list;
}

// A key's value, or NULL. One that is there twice is refused.
static const char *get(const Keys *k, const char *key) {
    int times;
    const char *v = json_member(k->object, key, &times);
    if (times > 1) refuse(k, key, "it once, and it appears twice");
    if (k->asked && !has_key(k->asked, key)) strcat(strcat(k->asked, key), " ");
    return v;
}

// A key's number; `missing` where there is none, and that is allowed.
static double number(const Keys *k, const char *key, double missing, double above, unsigned may_be) {
    const char *v = get(k, key);
    double x;
    if (v ? *v == 'n' && may_be & NULL_TOO : may_be & OPTIONAL) return missing;
    if (json_number(v, &x, NULL) && ((x > above && x <= NUMBER_LIMIT) || (x == 0 && may_be & ZERO))) return x;
    refuse(k, key, "a number above %g, at most %g", above, NUMBER_LIMIT);
    return missing;
}

static int integer(const Keys *k, const char *key, int missing, int low, int high, unsigned may_be) {
    const char *v = get(k, key);
    double x;
    bool is_whole;
    if (v ? *v == 'n' && may_be & NULL_TOO : may_be & OPTIONAL) return missing;
    if (json_number(v, &x, &is_whole) && is_whole && x >= low && x <= high) return (int)x;
    refuse(k, key, "a whole number from %d to %d", low, high);
    return missing;
}

static int read_family(const Keys *config) {
    const char *type = get(config, "model_type"), *list = get(config, "architectures");
    const char *only = list && *list == '[' ? json_first(list, NULL) : NULL;
    bool no_list = !list || *list == 'n';
    if (only && json_next(only, NULL)) only = NULL;
    for (int i = 0; i < N_FAMILIES; i++) {
        bool same = json_is(only, families[i].architecture);
        if (!(type ? json_is(type, families[i].model_type) : same)) continue;
        if (!no_list && !same) refuse(config, "architectures", "[\"%s\"]", families[i].architecture);
        return i;
    }
    if (type || !no_list) refuse(config, "model_type", "one of llama, mistral, qwen2, qwen3, phi3, smollm3");
    return NO_FAMILY;
}

static int read_head_dim(const Keys *config, int family, int of_model) {
    int own = families[family].head_dim, dim = own, heads = 1;
    const char *said = get(config, "head_dim");
    if (of_model && !get(config, "hidden_size") && !said) return of_model;
    if (!own) dim = integer(config, "hidden_size", 2, 1, 1 << 20, 0);
    if (!own) heads = integer(config, "num_attention_heads", 1, 1, 1 << 14, 0);
    if ((!said || *said == 'n') && dim % (2 * heads))
        refuse(config, "hidden_size", "an even multiple of num_attention_heads, %d", heads);
    int head_dim = integer(config, "head_dim", dim / heads, 1, ROPE_MAX_HEAD_DIM, own ? OPTIONAL : OPTIONAL | NULL_TOO);
    if (head_dim % 2 || head_dim > ROPE_MAX_HEAD_DIM)
        refuse(config, "head_dim", "an even number up to %d", ROPE_MAX_HEAD_DIM);
    if (of_model && head_dim != of_model && *config->good)
        *config->good =
            fail(config->err,
                 "line %d: another model's config: head_dim is %d, and the model's is %d (give it with its own "
                 "model, or with none: --explain or --rope-json, and --rope-config)",
                 line_of(config->text, said ? said : config->object), head_dim, of_model);
    return head_dim;
}

// head_dim, and how many of them turn: all, but in families that can turn a part. With a model both are the model's.
static void read_dims(const Keys *config, const Keys *block, int family, RopeFile *file) {
    static const char key[] = "partial_rotary_factor";
    const Keys *where = get(block, key) ? block : config;
    bool no_model = file->head_dim == 0;
    double part = number(config, key, 1, 0, OPTIONAL | NULL_TOO);
    part = number(block, key, part, 0, OPTIONAL | NULL_TOO);
    if (part > 1 || (family != NO_FAMILY && family != PHI3 && part != 1)) refuse(where, key, "1");
    if (family != NO_FAMILY) file->head_dim = read_head_dim(config, family, file->head_dim);
    if (file->head_dim == 0) refuse(config, "head_dim", "--head-dim, or a whole config.json");
    int turning = (int)(file->head_dim * fmin(part, 1));
    if (!no_model && family == NO_FAMILY && !get(where, key)) turning = file->rope.rotary_dim;
    if (turning < 2 || turning % 2) refuse(where, key, "what makes an even part of head_dim, %d", file->head_dim);
    if (!no_model && turning != file->rope.rotary_dim)
        refuse(where, key, "what makes %d of head_dim %d, as in the model", file->rope.rotary_dim, file->head_dim);
    file->rope.rotary_dim = turning;
}

// rope_type, or `type` where there is no rope_type. Phi3's class takes every older name of longrope for it.
static int read_type(const Keys *block, int family) {
    const char *key = get(block, "type") && !get(block, "rope_type") ? "type" : "rope_type";
    const char *v = get(block, key);
    bool phi = family == PHI3, is_su = json_is(v, "su") && (phi || family == NO_FAMILY);
    for (int i = DEFAULT; i < N_TYPES; i++) {
        if (v ? !json_is(v, types[i]) : i != DEFAULT) continue;
        if (!phi || i == DEFAULT) return i;
        is_su = is_su || i >= YARN;
    }
    const char *others = phi ? "" : "linear, dynamic, llama3, ";
    if (!is_su) refuse(block, key, "one of default, %syarn, longrope%s", others, phi ? ", su" : "");
    return LONGROPE;
}

static void read_list(const Keys *block, const char *key, double *out, int n) {
    const char *list = get(block, key), *v = list && *list == '[' ? json_first(list, NULL) : NULL;
    int i = 0;
    for (; v && i < n && json_number(v, &out[i], NULL) && out[i] > 0 && out[i] <= NUMBER_LIMIT; i++)
        v = json_next(v, NULL);
    if (v || i != n) refuse(block, key, "a list of %d numbers above 0, half of what turns of a head", n);
}

// The fields that are the method's own: llama3's have to be there.
static void read_fields(const Keys *block, RopeConfig *r) {
    const unsigned methods = rope_methods[r->method].flags & ~ROPE_USES_FACTOR;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        if (!f->key || !(f->methods & methods)) continue;
        const char *v = get(block, f->key);
        if (f->type == NUMBER)
            field_set(r, f, number(block, f->key, 0, 0, f->methods & ROPE_USES_FREQ_FACTORS ? 0 : UNSAID));
        else if (f->type == WHOLE) field_set(r, f, integer(block, f->key, 0, 0, MOST, OPTIONAL));
        else field_set(r, f, !v || *v == 't');  // null is false, to the library
        if (f->type == FLAG && v && !strchr("tfn", *v)) refuse(block, f->key, "true or false");
    }
    if (r->mscale == 0 || r->mscale_all_dim == 0) r->mscale = r->mscale_all_dim = 0;  // one alone has no effect
    RopeConfig filled = *r;
    settings_fill_defaults(&filled, r->train_ctx);
    if (filled.beta_fast < filled.beta_slow) refuse(block, "beta_fast", "no less than beta_slow");
    if (filled.high_freq_factor <= filled.low_freq_factor)
        refuse(block, "high_freq_factor", "a number above low_freq_factor");
}

static void read_lists(const Keys *block, RopeFile *file) {
    RopeConfig *r = &file->rope;
    read_list(block, "short_factor", file->short_factors, r->rotary_dim / 2);
    read_list(block, "long_factor", file->long_factors, r->rotary_dim / 2);
    r->short_factors = file->short_factors;
    r->long_factors = file->long_factors;
    if (*block->good && r->unscaled_positions && !settings_has_one_list(r))
        refuse(block, "unscaled_positions", "0, since short_factor and long_factor are not the same");
}

// L is what max_position_embeddings says, or what it was before; to some types the original one, where there is one.
static int read_trained(const Keys *config, const Keys *block, int family, int type, const RopeFile *file) {
    static const char key[] = "original_max_position_embeddings";
    int low = type == LONGROPE ? 2 : 1, trained = file->rope.train_ctx;  // longrope divides by its logarithm
    if (family != NO_FAMILY || get(config, "max_position_embeddings")) trained = file->max_positions;
    if (type >= LLAMA3 && family != PHI3) trained = integer(block, key, trained, low, MOST, OPTIONAL);
    if (type >= LLAMA3) trained = integer(config, key, family == PHI3 ? 4096 : trained, low, MOST, OPTIONAL);
    if (trained < low) refuse(config, "max_position_embeddings", "%d or more, or --train-ctx", low);
    return trained;
}

static void read_rope(const Keys *config, const Keys *block, int family, int type, RopeFile *file) {
    RopeConfig *r = &file->rope;
    RopeSettings method;
    double theta = family != NO_FAMILY ? families[family].theta : r->theta;
    unsigned may_be = theta > 0 || get(block, "rope_theta") ? OPTIONAL : 0;  // one of them there must be
    int trained = read_trained(config, block, family, type, file);
    settings_read_method(&method, type == DEFAULT ? "none" : types[type]);
    *r = (RopeConfig){method.rope.method, method.rope.dynamic, r->rotary_dim, .train_ctx = trained, .truncate = true};
    r->theta = number(block, "rope_theta", number(config, "rope_theta", theta, 1, may_be), 1, OPTIONAL);
    double ratio = (double)file->max_positions / fmax(trained, 1);
    if (type != DEFAULT) r->factor = number(block, "factor", ratio, 0, type >= YARN ? OPTIONAL | NULL_TOO : 0);
    if (r->factor > 0 && r->factor < 1 && r->factor != ratio)
        refuse(block, "factor", "a number from 1 to %g", NUMBER_LIMIT);
    if (type >= YARN) r->attention_factor = number(block, "attention_factor", 0, 0, OPTIONAL | NULL_TOO);
    read_fields(block, r);
    if (type == LONGROPE) read_lists(block, file);
}

static bool is_known(const char *key) {
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++)
        if (f->key && strcmp(f->key, key) == 0) return true;
    return has_key(known_keys, key);
}

// Keys of the block that nobody asked for mean nothing to its type, if to any.
static void check_keys(const Keys *block, char *unused, size_t capacity) {
    const char *quoted, *v = block->object && *block->object == '{' ? json_first(block->object, &quoted) : NULL;
    for (; v; v = json_next(v, &quoted)) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
        if (has_key(block->asked, key)) continue;
        if (!is_known(key)) refuse(block, key, "a key that some rope_type has");
        add_name(unused, capacity, ", ", key);
    }
}

// Whether Python takes a value for true.
static bool is_something(const char *v) {
    double x;
    if (json_number(v, &x, NULL)) return x != 0;
    return v && (*v == 't' || (*v == '"' && v[1] != '"') || ((*v == '[' || *v == '{') && json_first(v, NULL)));
}

// Behind dots at p that stand for members of an object, and behind their comma where there is one before them already;
// NULL: there are none. `before` is what stands in front.
static char *behind_dots(const char *before, char *p) {
    if (strncmp(p, "...", 3) != 0 && strncmp(p, "\xE2\x80\xA6", 3) != 0) return NULL;
    char *behind = p + 3, *next = behind + strspn(behind, SPACE);
    if (*next == ',' && strchr(" {,", *before)) behind = next + 1;
    next += *next == ',';
    next += strspn(next, SPACE);
    return !strchr(":[", *before) && (*next == '"' || !*next || (*next == '}' && *before != '{')) ? behind : NULL;
}

// Makes JSON of what model cards show and --rope-json prints. Blank become lines in front that begin with #, dots for
// what is left out, and a comma behind the last member. Members that stand alone get braces: for the first one there is
// a space at `text`, for the last one at `end`. All else stays, and no line moves.
static void complete(char *text, const char *end) {
    char *p = text + 1, *first = NULL, *before = text, *comma = NULL;
    for (; *p == '#'; p += *p == '\n')
        for (; *p && *p != '\n'; p++) *p = ' ';
    for (char *behind; p < end; p++) {
        if (strchr(SPACE, *p)) continue;
        if ((behind = behind_dots(before, p))) {
            for (; p < behind; p++) *p = *p == '\n' ? '\n' : ' ';
            p--;
            continue;
        }
        if (*p == '}' && comma) *comma = ' ';
        comma = *p == ',' && !strchr(" {[,:", *before) ? p : NULL;
        if (!first) first = p;
        if (*p == '"')
            for (p++; p < end && *p != '"'; p++) p += *p == '\\' && p + 1 < end;
        before = p;  // `end` where a string has none
    }
    if (comma) *comma = ' ';
    if (!first || *first != '"') return;
    *text = '{';
    if (before < end) *(comma ? comma : before + 1) = '}';
}

static bool parse(RopeFile *file, const char *text, size_t length, Error *err) {
    static const char *const of_configs[] = {"rope_scaling",  "rope_parameters",         "model_type",
                                             "architectures", "max_position_embeddings", "hidden_size"};
    if (!json_check(text, length, err)) return false;
    const char *root = text + strspn(text, SPACE), *name = "rope_parameters", *key;
    if (*root != '{') return fail(err, "line 1: not a JSON object");
    bool good = true, is_config = false;
    int times;
    for (size_t i = 0; i < sizeof of_configs / sizeof *of_configs; i++)
        is_config = is_config || json_member(root, of_configs[i], &times);
    char asked[ALL_KEYS] = "";
    Keys config = {text, is_config ? root : NULL, "", NULL, &good, err}, block = {text, root, "", asked, &good, err};
    if (is_config) {
        bool scaling = is_something(get(&config, "rope_scaling"));
        if (scaling) name = "rope_scaling";
        const char *v = get(&config, name);
        bool is_one = !is_something(v) || *v == '{';
        block.object = is_one ? v : NULL;
        block.inside = scaling ? "rope_scaling." : "rope_parameters.";
        for (v = v && *v == '{' ? json_first(v, &key) : NULL; v; v = json_next(v, &key)) is_one = is_one && *v != '{';
        if (!is_one) refuse(&config, name, "one object of settings for all layers");
    }
    int family = read_family(&config);
    int missing = family == NO_FAMILY ? file->max_positions : families[family].max_positions;
    file->max_positions = integer(&config, "max_position_embeddings", missing, 1, MOST, OPTIONAL);
    read_dims(&config, &block, family, file);
    int type = read_type(&block, family);
    if (good) read_rope(&config, &block, family, type, file);
    file->has_type = get(&block, "rope_type") || get(&block, "type");
    if (good) check_keys(&block, file->unused, sizeof file->unused);
    return good;
}

bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err) {
    char *copy = alloc_array(length + 3, 1, "a config", err);
    if (!copy) return false;
    memcpy(copy + 1, text, length);
    copy[0] = copy[length + 1] = ' ';
    complete(copy, copy + 1 + length);
    bool good = parse(file, copy, length + 2, err);
    free(copy);
    return good;
}

bool rope_config_open(RopeFile *file, const char *path, Error *err) {
    Error reason;
    size_t length;
    char *text = read_file(path, MOST_BYTES, &length, err);
    bool good = text && (rope_config_parse(file, text, length, &reason) || fail(err, "%s: %s", path, reason.text));
    free(text);
    return good;
}
