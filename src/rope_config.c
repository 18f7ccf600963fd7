// Reads a config or a block key by key, as export/config.py does. tests/rope_cases.py holds both to the same.
#include "reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "core/settings.h"
#include "json.h"

static const double NUMBER_LIMIT = 1e12;

// Whether a number may be missing, null as well, or even zero. A default replaces what is missing or null.
typedef enum { REQUIRED, OPTIONAL, NULL_TOO, UNSAID } MayBe;

typedef struct {
    const char *text, *config, *block;  // the objects in the text; NULL: none, so no keys
    const char *inside;                 // what errors have before a key of the block: "rope_scaling.", or nothing
    const char *name;                   // the block's: "rope_scaling"
    uint64_t asked;                     // a bit for each of the block's first 64 members that was looked for
    const RopeFamily *family;           // NULL: none
    bool is_llama;                      // a whole config without a family or a model: a Llama's
    RopeType type;
    RopeFile *file;
    bool good;   // nothing is wrong so far
    Error *err;  // the first thing that is wrong
} Reader;

__attribute__((format(printf, 4, 5))) static void reject(Reader *r, const char *object, const char *key,
                                                         const char *format, ...) {
    const char *v = json_member(object, key), *where = v ? v : object ? object : r->text;
    const char *found = !v ? "nothing" : *v == '[' ? "a list" : *v == '{' ? "an object" : v;
    size_t length = *found == '"' ? 2 + strcspn(v + 1, "\"") : found == v ? strcspn(v, ",]} \t\r\n") : strlen(found);
    char expected[160];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (!r->good) return;
    r->good = fail(r->err, "line %d: %s%s cannot be used (found %.*s, expected %s)", json_line(r->text, where),
                   object == r->block ? r->inside : "", key, length < 40 ? (int)length : 40, found, expected);
}

// Whether a config says of which family its model is.
static bool is_of_family(const char *config) {
    const char *list = json_member(config, "architectures");
    return json_member(config, "model_type") || (list && *list != 'n');
}

// A string of the text without its quotes.
typedef struct {
    char text[40];
} Word;

static Word word(const char *quoted) {
    Word w;
    snprintf(w.text, sizeof w.text, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
    return w;
}

// Adds a line to what is worth a warning. export/config.py has the same words.
__attribute__((format(printf, 2, 3))) static void remark(Reader *r, const char *format, ...) {
    char line[300];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    add_name(r->file->remarks, sizeof r->file->remarks, "", line);
}

// A key's value, or NULL. A key that is there twice is refused.
static const char *get(Reader *r, const char *object, const char *key) {
    const char *v = json_member(object, key);
    int times = 0, i = 0;
    for (const char *name, *in = json_first(object, &name); in; in = json_next(in, &name), i++) {
        if (!json_is(name, key)) continue;
        times++;
        if (object == r->block && i < 64) r->asked |= 1ull << i;
    }
    if (times > 1) reject(r, object, key, "it once, and it appears twice");
    return v;
}

// A key's number above `low`, or, with a `high`, whole and from `low` to `high`. `missing` if it is absent and may be.
static double number(Reader *r, const char *object, const char *key, double missing, int low, int high, MayBe may_be) {
    const char *v = get(r, object, key);
    double x;
    bool is_whole;
    if (v ? *v == 'n' && may_be >= NULL_TOO : may_be >= OPTIONAL) return missing;
    bool good = json_number(v, &x, &is_whole);
    if (good && high) good = is_whole && x >= low && x <= high;
    else if (good) good = (x > low && x <= NUMBER_LIMIT) || (x == 0 && may_be == UNSAID);
    if (good) return x;
    if (high) reject(r, object, key, "a whole number from %d to %d", low, high);
    else reject(r, object, key, "a number above %d, at most %g", low, NUMBER_LIMIT);
    return missing;
}

static void read_family(Reader *r) {
    const char *type = get(r, r->config, "model_type"), *list = get(r, r->config, "architectures");
    const char *first = json_first(list, NULL);
    bool has_list = list && *list != 'n';
    const RopeFamily *f = rope_family(r->is_llama ? "{\"model_type\": \"llama\"}" : r->config);
    r->family = f;
    if (!f && (type || has_list))
        reject(r, r->config, "model_type", "one of llama, mistral, qwen2, qwen3, phi3, smollm3");
    else if (f && has_list && (!json_is(first, f->architecture) || json_next(first, NULL)))
        reject(r, r->config, "architectures", "[\"%s\"]", f->architecture);
}

static bool is_phi3(const Reader *r) { return r->family && strcmp(r->family->model_type, "phi3") == 0; }

static int read_head_dim(Reader *r, int of_model) {
    const char *said = get(r, r->config, "head_dim");
    int own = r->family->head_dim, dim = own, heads = 1;
    if (of_model && !get(r, r->config, "hidden_size") && !said) return of_model;
    if (!own) dim = (int)number(r, r->config, "hidden_size", 2, 1, 1 << 20, REQUIRED);
    if (!own) heads = (int)number(r, r->config, "num_attention_heads", 1, 1, 1 << 14, REQUIRED);
    if ((!said || *said == 'n') && dim % (2 * heads))
        reject(r, r->config, "hidden_size", "an even multiple of num_attention_heads, %d", heads);
    int head_dim = (int)number(r, r->config, "head_dim", dim / heads, 1, ROPE_MAX_HEAD_DIM, own ? OPTIONAL : NULL_TOO);
    if (head_dim % 2 || head_dim > ROPE_MAX_HEAD_DIM)
        reject(r, r->config, "head_dim", "an even number up to %d", ROPE_MAX_HEAD_DIM);
    if (of_model && head_dim != of_model && r->good)
        r->good = fail(r->err,
                       "line %d: another model's config: head_dim is %d, and the model's is %d (give it with its own "
                       "model, or with none: --explain or --rope-json, and --rope-config)",
                       json_line(r->text, said ? said : r->config), head_dim, of_model);
    return head_dim;
}

// head_dim and rotary_dim. Only some families can turn a part of a head. With a model both must be the model's.
static void read_dims(Reader *r) {
    static const char key[] = "partial_rotary_factor";
    RopeFile *file = r->file;
    const char *where = get(r, r->block, key) ? r->block : r->config;
    int of_model = file->head_dim ? file->rope.rotary_dim : 0;
    double part = number(r, r->config, key, 1, 0, 0, NULL_TOO);
    part = number(r, r->block, key, part, 0, 0, NULL_TOO);
    if (part > 1 || (r->family && !is_phi3(r) && part != 1)) reject(r, where, key, "1");
    if (r->family) file->head_dim = read_head_dim(r, file->head_dim);
    if (file->head_dim == 0) reject(r, r->config, "head_dim", "--head-dim, or a whole config.json");
    int turning = of_model && !r->family && !get(r, where, key) ? of_model : (int)(file->head_dim * fmin(part, 1));
    if (turning < 2 || turning % 2) reject(r, where, key, "what makes an even part of head_dim, %d", file->head_dim);
    if (of_model && turning != of_model)
        reject(r, where, key, "what makes %d of head_dim %d, as in the model", of_model, file->head_dim);
    file->rope.rotary_dim = turning;
}

// What a rope_type means in the family. Phi3's class takes every older name of longrope for it.
static RopeType type_named(const Reader *r, const char *v) {
    bool phi = is_phi3(r);
    RopeType type = PLAIN;
    while (v && type < UNKNOWN && !json_is(v, rope_types[type])) type++;
    if (json_is(v, "su") && (phi || !r->family)) return LONGROPE;
    if (!phi || type == PLAIN) return type;
    return type == YARN || type == LONGROPE ? LONGROPE : UNKNOWN;
}

// rope_type, or `type` where there is none.
static RopeType read_type(Reader *r) {
    const char *older = get(r, r->block, "type"), *newer = get(r, r->block, "rope_type");
    RopeType type = type_named(r, newer ? newer : older);
    r->file->has_type = newer || older;
    if (type == UNKNOWN)
        reject(r, r->block, newer ? "rope_type" : "type", "one of default, %syarn, longrope%s",
               is_phi3(r) ? "" : "linear, dynamic, llama3, ", is_phi3(r) ? ", su" : "");
    bool both = older && newer && *older == '"' && *newer == '"';
    bool is_old_name = json_is(older, "su") && type == LONGROPE;
    if (both && !is_old_name && type_named(r, older) != type) {
        Word kind = word(newer);
        remark(r, "type is %s and rope_type is %s in %s: %s counts", word(older).text, kind.text, r->name, kind.text);
    }
    return type;
}

static const double *read_list(Reader *r, const char *key, double *out) {
    int n = r->file->rope.rotary_dim / 2;
    get(r, r->block, key);
    if (!rope_list(r->block, key, n, out))
        reject(r, r->block, key, "a list of %d numbers above 0, half of what turns of a head", n);
    return out;
}

static void read_fields(Reader *r, RopeConfig *c) {
    unsigned methods = rope_methods[c->method].flags & ~ROPE_USES_FACTOR;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        if (!f->key || !(f->methods & methods)) continue;
        const char *v = get(r, r->block, f->key);
        MayBe may_be = f->type == WHOLE ? OPTIONAL : f->methods & ROPE_USES_FREQ_FACTORS ? REQUIRED : UNSAID;
        bool is_flag = f->type == FLAG, is_on = !v || *v == 't';  // as in the library, null is false
        if (is_flag && v && !strchr("tfn", *v)) reject(r, r->block, f->key, "true or false");
        field_set(c, f, is_flag ? is_on : number(r, r->block, f->key, 0, 0, f->type == WHOLE ? MOST : 0, may_be));
    }
    RopeConfig filled = *c;
    settings_fill_defaults(&filled, c->train_ctx);
    if (filled.beta_fast < filled.beta_slow) reject(r, r->block, "beta_fast", "no less than beta_slow");
    if (filled.high_freq_factor <= filled.low_freq_factor)
        reject(r, r->block, "high_freq_factor", "a number above low_freq_factor");
}

// The trained context: max_position_embeddings, or for some types the original one.
static int read_trained(Reader *r) {
    static const char key[] = "original_max_position_embeddings";
    int low = r->type == LONGROPE ? 2 : 1;  // longrope divides by its logarithm
    bool is_said = r->family || get(r, r->config, "max_position_embeddings"), is_phi = is_phi3(r);
    double trained = is_said ? r->file->max_positions : r->file->rope.train_ctx;
    if (r->type >= LLAMA3 && !is_phi) trained = number(r, r->block, key, trained, low, MOST, OPTIONAL);
    if (r->type >= LLAMA3) trained = number(r, r->config, key, is_phi ? 4096 : trained, low, MOST, OPTIONAL);
    if (trained < low) reject(r, r->config, "max_position_embeddings", "%d or more, or --train-ctx", low);
    return (int)trained;
}

static void read_rope(Reader *r) {
    RopeConfig *c = &r->file->rope;
    double theta = r->family ? r->family->theta : c->theta;
    MayBe may_be = theta > 0 || get(r, r->block, "rope_theta") ? OPTIONAL : REQUIRED;  // one place must have it
    int trained = read_trained(r);
    *c = (RopeConfig){rope_type_methods[r->type], r->type == DYNAMIC, c->rotary_dim, .train_ctx = trained,
                      .truncate = true};
    theta = number(r, r->config, "rope_theta", theta, 1, 0, may_be);
    c->theta = number(r, r->block, "rope_theta", theta, 1, 0, OPTIONAL);
    double ratio = (double)r->file->max_positions / fmax(trained, 1);
    may_be = r->type >= YARN ? NULL_TOO : REQUIRED;
    if (r->type != PLAIN) c->factor = number(r, r->block, "factor", ratio, 0, 0, may_be);
    if (c->factor > 0 && c->factor < 1 && c->factor != ratio)
        reject(r, r->block, "factor", "a number from 1 to %g", NUMBER_LIMIT);
    if (r->type >= YARN) c->attention_factor = number(r, r->block, "attention_factor", 0, 0, 0, may_be);
    read_fields(r, c);
    if (r->type != LONGROPE) return;
    c->short_factors = read_list(r, "short_factor", r->file->short_factors);
    c->long_factors = read_list(r, "long_factor", r->file->long_factors);
    if (r->good && c->unscaled_positions && !settings_has_one_list(c))
        reject(r, r->block, "unscaled_positions", "0, since short_factor and long_factor are not the same");
}

// Whether some type has this key (at its quote). Released blocks have the last four, which the library does not read.
static bool is_known(const char *quoted) {
    static const char *const others[] = {"short_factor", "long_factor", "short_mscale",
                                         "long_mscale",  "finetuned",   "attn_factor"};
    bool known = false;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++)
        known = known || (f->key && json_is(quoted, f->key));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) known = known || json_is(quoted, others[i]);
    return known;
}

// Notes the keys that the block's type does not use, and refuses those that no type has.
static void check_keys(Reader *r) {
    const char *quoted;
    int i = 0;
    for (const char *v = json_first(r->block, &quoted); v; v = json_next(v, &quoted), i++) {
        char key[64];
        if (i < 64 && r->asked >> i & 1) continue;
        snprintf(key, sizeof key, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
        if (!is_known(quoted)) reject(r, r->block, key, "a key that some rope_type has");
        add_name(r->file->unused, sizeof r->file->unused, ", ", key);
    }
}

// Whether Python takes a value for true.
static bool is_something(const char *v) {
    double x;
    if (json_number(v, &x, NULL)) return x != 0;
    return v && (*v == 't' || (*v == '"' && v[1] != '"') || json_first(v, NULL) || json_first(v, &v));
}

// A number that stands both beside the block and in it, and not the same one.
static void remark_two(Reader *r, const char *key, bool inner_counts) {
    double beside, inside;
    bool both = json_number(json_member(r->config, key), &beside, NULL) &&
                json_number(json_member(r->block, key), &inside, NULL);
    if (both && beside != inside)
        remark(r, "%s is %.12g beside %s and %.12g in it: %.12g counts", key, beside, r->name, inside,
               inner_counts ? inside : beside);
}

// Yarn's attention factor, as it stands and as the mscale pair makes it.
static void remark_attention(Reader *r, const RopeConfig *c) {
    double a = c->attention_factor, grown = c->factor > 1 ? 0.1 * log(c->factor) : 0;
    double by_pair = (grown * c->mscale + 1) / (grown * c->mscale_all_dim + 1);
    bool has_pair = c->mscale != 0 && c->mscale_all_dim != 0;
    if (a != 0 && has_pair && !(fabs(by_pair / a - 1) < 1e-6))
        remark(r, "attention_factor is %.12g in %s, and mscale and mscale_all_dim make it %.12g: %.12g counts", a,
               r->name, by_pair, a);
}

static void remark_contradictions(Reader *r) {
    remark_two(r, "rope_theta", true);
    remark_two(r, "partial_rotary_factor", true);
    if (r->type >= LLAMA3) remark_two(r, "original_max_position_embeddings", false);
    if (r->type == YARN) remark_attention(r, &r->file->rope);
}

// Whether a value gives layers or positions a RoPE of their own. Nothing does not, and neither do a
// list of ones and a list of one word.
static bool is_by_layer(const char *v) {
    const char *first = json_first(v, NULL);
    double x;
    bool alike = true;
    for (const char *in = first; in; in = json_next(in, NULL)) {
        size_t length = *in == '"' ? 2 + strcspn(in + 1, "\"") : 0;
        bool is_first = length && strncmp(in, first, length) == 0;
        alike = alike && (is_first || (json_number(in, &x, NULL) && x == 1));
    }
    return *v == '[' ? !alike : is_something(v);
}

#define NO_LAYERS "none, since what differs by layer or position is not read"

// Refuses, by its key, what differs by layer or by position: nothing here reads it yet. In some
// families a key is about layers without RoPE or about windows, which the exporter reads, or it
// means nothing.
static void refuse_by_layer(Reader *r) {
    static const struct {
        const char *key, *but_in;
    } keys[] = {{"rope_local_base_freq", ""},
                {"local_rope_theta", ""},
                {"global_rope_theta", ""},
                {"swa_rope_theta", ""},
                {"sliding_window_pattern", ""},
                {"attn_temperature_tuning", ""},
                {"llama_4_scaling_beta", ""},
                {"no_rope_layers", "smollm3"},
                {"no_rope_layer_interval", "smollm3"},
                {"layer_types", "mistral qwen2 qwen3 phi3 smollm3"}};
    static const char *const blocks[] = {"rope_scaling", "rope_parameters"};
    const RopeFamily *f = rope_family(r->config);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *v = json_member(r->config, keys[i].key);
        if (v && is_by_layer(v) && !(f && strstr(keys[i].but_in, f->model_type)))
            reject(r, r->config, keys[i].key, NO_LAYERS);
    }
    for (int i = 0; i < 2; i++) {
        const char *key, *block = r->config ? json_member(r->config, blocks[i]) : r->block;
        for (const char *v = json_first(block, &key); v; v = json_next(v, &key)) {
            if (json_is(key, "llama_4_scaling_beta") && is_by_layer(v)) reject(r, block, word(key).text, NO_LAYERS);
            if (*v == '{' && r->config) reject(r, r->config, blocks[i], "one object of settings for all layers");
            if (*v == '{' && !r->config && !is_known(key)) reject(r, block, word(key).text, NO_LAYERS);
        }
    }
}

static void find_block(Reader *r) {
    r->block = NULL;
    bool is_scaling = is_something(get(r, r->config, "rope_scaling"));
    const char *name = is_scaling ? "rope_scaling" : "rope_parameters", *v = get(r, r->config, name), *key;
    bool is_object = v && *v == '{', is_one = is_object || !is_something(v);
    for (const char *in = json_first(v, &key); in; in = json_next(in, &key)) is_one = is_one && *in != '{';
    if (!is_one) reject(r, r->config, name, "one object of settings for all layers");
    r->block = is_one ? v : NULL;
    r->inside = is_scaling ? "rope_scaling." : "rope_parameters.";
    r->name = name;
    if (is_scaling && is_something(json_member(r->config, "rope_parameters")))
        remark(r, "rope_parameters is not used, since there is a rope_scaling");
}

// An object as a whole config. A block alone, or a config without a family, gets the values of `model` as a Llama's.
// They stand in front, so that those of the object win.
static char *whole_of(const Card *card, const RopeFile *model, Error *err) {
    enum { MOST_MEMBERS = 240 };
    const char *object = card->object;
    bool has_original = json_member(object, "original_max_position_embeddings");
    bool is_config = card->is_config;
    int most = has_original && model->max_positions ? model->max_positions : model->rope.train_ctx;
    char *whole = alloc_array(strlen(object) + MOST_MEMBERS, 1, "a config", err);
    if (!whole) return NULL;
    if (is_of_family(object)) return strcpy(whole, object);
    int n = sprintf(whole, "{\"model_type\": \"llama\", \"head_dim\": %d, ", model->head_dim);
    if (model->rope.theta > 0) n += sprintf(whole + n, "\"rope_theta\": %.17g, ", model->rope.theta);
    sprintf(whole + n, "\"max_position_embeddings\": %d, %s%s%s", most,
            is_config ? object + 1 : "\"rope_scaling\": ", is_config ? "" : object, is_config ? "" : "}");
    return whole;
}

// Reads what refuse_by_layer has let through.
static bool parse(Reader *r) {
    RopeFile *file = r->file;
    if (r->config) find_block(r);
    read_family(r);
    int missing = r->family ? r->family->max_positions : file->max_positions;
    file->model_type = r->family ? r->family->model_type : NULL;
    file->max_positions = (int)number(r, r->config, "max_position_embeddings", missing, 1, MOST, OPTIONAL);
    read_dims(r);
    r->type = read_type(r);
    if (r->good) read_rope(r);
    if (r->good) check_keys(r);
    if (r->good) remark_contradictions(r);
    return r->good;
}

bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err) {
    Card card;
    if (!card_read(&card, text, length, err)) return false;
    bool has_family = is_of_family(card.object);
    Reader r = {.text = card.text,
                .block = card.object,
                .inside = "",
                .name = "the block",
                .file = file,
                .good = true,
                .err = err};
    if (card.is_config) r.config = card.object;
    r.is_llama = card.is_whole && !has_family && !file->head_dim;
    if (card.mended[0])
        remark(&r, "%s is no JSON: it is left out here, and all eight engines refuse the file", card.mended);
    if (card.is_whole && !has_family) remark(&r, "there is no model_type, so it is read as a Llama's");
    memcpy(file->not_json, card.mended, sizeof file->not_json);
    if (rope_family(card.object) || !has_family) refuse_by_layer(&r);
    file->whole = r.good ? whole_of(&card, file, err) : NULL;
    bool good = file->whole && parse(&r);
    free(card.text);
    return good;
}
