// Which family a config's model is of, and what a part of a config leaves out. docs/checkpoints.md has
// the sources of the families' defaults.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "family_table.h"

enum {
    N_FAMILIES = sizeof families / sizeof *families,
    N_WRAPPERS = sizeof wrappers / sizeof *wrappers
};

const char *const kind_names[N_KINDS] = {"full", "sliding"};
const char *const kind_keys[N_KINDS] = {"full_attention", "sliding_attention"};

// What a config says its model is: the values of model_type and of the first of architectures. NULL:
// it does not say.
typedef struct {
    const Json *type, *architecture;
} ModelName;

const Json *family_model_type(const Json *config) {
    const Json *type = json_member(config, "model_type");
    return type && type->kind != 'n' && !json_is(type, "") ? type : NULL;
}

static ModelName name_in(const Json *config) {
    return (ModelName){family_model_type(config), json_items(json_member(config, "architectures"))};
}

static const RopeFamily *family_by_name(const Json *config);
static bool has_number(const Json *config, const char *keys);

static int wrapper_of(const Json *config) {
    const ModelName name = name_in(config);
    for (int i = 0; i < N_WRAPPERS; i++)
        if (name.type ? json_is(name.type, wrappers[i].model_type)
                      : json_is(name.architecture, wrappers[i].architecture))
            return i;
    return N_WRAPPERS;
}

const char *const family_containers[N_CONTAINERS] = {"text_config", "llm_config", "language_config",
                                                     "thinker_config"};

// Whether an object says how large a model is.
static bool has_sizes(const Json *config) {
    return has_number(config, "hidden_size n_embd d_model head_dim");
}

// The one member that is the config of a text model, by its model_type. NULL: none is, or several.
static const Json *only_text_in(const Json *config) {
    const Json *found = NULL;
    int n = 0;
    for (const Json *v = json_members(config); v; v = v->next) {
        const RopeFamily *family =
            v->kind == '{' && family_model_type(v) ? family_by_name(v) : NULL;
        if (!family || family->flags & FAMILY_STILL) continue;
        found = v;
        n++;
    }
    return n == 1 ? found : NULL;
}

const Json *family_inside(const Json *config) {
    bool is_text_model = wrapper_of(config) == N_WRAPPERS && family_by_name(config);
    if (is_text_model && has_sizes(config)) return NULL;
    for (int i = 0; i < N_CONTAINERS; i++)
        for (const Json *v = json_members(config); v; v = v->next)
            if (v->kind == '{' && strcmp(v->key, family_containers[i]) == 0) return v;
    return has_sizes(config) ? NULL : only_text_in(config);
}

const Json *family_text(const Json *config) {
    const Json *inside = family_inside(config);
    return inside ? family_text(inside) : config;
}

const RopeFamily *family_named(const char *model_type) {
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++)
        if (strcmp(model_type, f->model_type) == 0) return f;
    return NULL;
}

bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    // No list has an empty word, which strstr would find everywhere, and behind the list's end.
    const char *at = words && length ? strstr(words, word) : NULL;
    while (at && ((at > words && at[-1] != ' ') || (at[length] && at[length] != ' ')))
        at = strstr(at + 1, word);
    return at;
}

bool json_is_one_of(const Json *value, const char *words) {
    return value && value->string && has_word(words, value->string);
}

static bool family_has_architecture(const RopeFamily *family, const Json *quoted) {
    return json_is(quoted, family->architecture) ||
           json_is_one_of(quoted, family->also_architectures);
}

// The family that a config names itself.
static const RopeFamily *family_by_name(const Json *config) {
    const ModelName name = name_in(config);
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++)
        if (name.type ? json_is(name.type, f->model_type) || json_is_one_of(name.type, f->aliases)
                      : family_has_architecture(f, name.architecture))
            return f;
    return NULL;
}

const RopeFamily *config_family(const Json *config) {
    const Json *text = family_text(config);
    bool is_said = family_model_type(text) || json_member(text, "architectures");
    int row = wrapper_of(config);
    bool is_flat =
        row < N_WRAPPERS && text == config && wrappers[row].may_be_flat && wrappers[row].inside;
    if (is_flat || (text != config && !is_said && row < N_WRAPPERS && wrappers[row].inside))
        return family_named(wrappers[row].inside);
    return family_by_name(text);
}

bool family_wrapper_is_known(const Json *config) {
    return family_text(config) == config || wrapper_of(config) < N_WRAPPERS;
}

// What configs of families without a row are read as: a Llama's, or DeepSeek's, of which any share
// may turn.
#define ANY_LAYER_KEYS "layer_types sliding_window_pattern no_rope_layers no_rope_layer_interval"
static const RopeFamily any_family = {.model_type = "",
                                      .architecture = "",
                                      .theta = 1e4,
                                      .local_theta = 1e4,
                                      .rotary_key = "rotary_dim",
                                      .layer_keys = ANY_LAYER_KEYS,
                                      .flags = FAMILY_ANY | FAMILY_PARTIAL | FAMILY_AXES};
static const RopeFamily any_latent_family = {.model_type = "",
                                             .architecture = "",
                                             .theta = 1e4,
                                             .still = 128,
                                             .turning = 64,
                                             .layer_keys = ANY_LAYER_KEYS,
                                             .flags = FAMILY_ANY | FAMILY_LATENT | FAMILY_AXES};

static bool has_number(const Json *config, const char *keys) {
    double x;
    char key[40];
    for (const char *at = keys; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(at, " "), at);
        if (json_number(json_member(config, key), &x)) return true;
    }
    return false;
}

const RopeFamily *family_any(const Json *text) {
    if (has_number(text, "qk_rope_head_dim")) return &any_latent_family;
    bool has_head =
        has_number(text, "head_dim") || (has_number(text, "hidden_size n_embd d_model") &&
                                         has_number(text, "num_attention_heads n_head n_heads"));
    return has_head ? &any_family : NULL;
}

const RopeFamily *family_with(unsigned flags) {
    const RopeFamily *f = families;
    while (f < families + N_FAMILIES && (f->flags & flags) != flags) f++;
    return f < families + N_FAMILIES ? f : NULL;
}

const RopeFamily *family_nearest(unsigned features, bool has_kinds) {
    const RopeFamily *nearest = NULL;
    unsigned least = 0;
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++) {
        const bool can_slide = f->period > 0 && !f->other_words;
        bool can_be = f->flags & FAMILY_RUNS && (has_kinds ? can_slide : f->period == 0);
        bool has_sign = !f->sign || f->sign & features;
        if (!can_be || !has_sign || f->always & ~features) continue;
        unsigned strange = features & ~(f->always | f->sign | f->may);
        if (nearest && strange >= least) continue;
        nearest = f;
        least = strange;
    }
    return nearest;
}

const char *family_block_name(const RopeFamily *family, int kind) {
    const char *own = family ? family->block_names[kind] : NULL;
    return own ? own : kind_keys[kind];
}

bool family_reads(const RopeFamily *family, const char *key) {
    return has_word(family->layer_keys, key);
}

const FamilyEngine *family_engine(const RopeFamily *family, const char *engine) {
    const FamilyEngine *e = family->engines;
    while (e && e->name && strcmp(e->name, engine) != 0) e++;
    return e && e->name ? e : NULL;
}

const char *family_wrapper_architecture(const Json *config) {
    int row = wrapper_of(config);
    return row < N_WRAPPERS ? wrappers[row].architecture : NULL;
}

// ---- a config and its family ----

static bool says_model(const Json *config) {
    return family_model_type(config) || json_items(json_member(config, "architectures"));
}

bool config_names_family(const Json *config) {
    return says_model(config) || says_model(family_text(config));
}

void config_reject_family(Config *c) {
    if (family_wrapper_architecture(c->config)) {
        config_reject(c, c->config, "text_config", "the config of a text model");
        return;
    }
    config_reject(c, c->config, "model_type",
                  "a family that is known, or head_dim, or hidden_size and num_attention_heads");
}

void config_check_sizes(Config *c) {
    const ModelSizes *own = &c->file->sizes;
    const struct {
        const char *key;
        int expected;
    } sizes[] = {
        {"hidden_size", own->dim},
        {"num_hidden_layers", own->n_layers},
        {"num_attention_heads", own->n_heads},
        {"num_key_value_heads", own->n_kv_heads},
    };
    char others[200] = "", one[64];
    int line = 0;
    for (size_t i = 0; own->dim && i < sizeof sizes / sizeof *sizes; i++) {
        double found;
        bool is_there = json_number(json_member(c->config, sizes[i].key), &found);
        if (!is_there || !sizes[i].expected || found == sizes[i].expected) continue;
        if (!line) line = json_member(c->config, sizes[i].key)->line;
        snprintf(one, sizeof one, "%s is %.12g (expected %d)", sizes[i].key, found,
                 sizes[i].expected);
        add_name(others, sizeof others, ", ", one);
    }
    if (!others[0] || !c->good) return;
    c->good = fail(c->err,
                   "line %d: another model's config: %s: to try its settings on this model, give "
                   "its block of them alone",
                   line, others);
    free(c->file->whole);
    c->file->whole = NULL;
}

// A member behind others, unless the object has it or there is no value.
static void add_missing(char *whole, const Json *object, const char *key, double value) {
    if (value > 0 && !json_member(object, key))
        sprintf(whole + strlen(whole), ", \"%s\": %.17g", key, value);
}

// Gives the members of a name another one in a copy of an object's text, so that it has none.
static void rename_members(char *copy, const Json *object, const char *name) {
    for (const Json *v = json_members(object); v; v = v->next)
        if (strcmp(v->key, name) == 0)
            memset(copy + (v->name - object->text) + 1, '_', strcspn(v->name + 1, "\""));
}

char *config_complete(const Card *card, const Known *model, Error *err) {
    enum { MOST_MEMBERS = 480 };
    const Json *object = card->object;
    bool has_original = json_member(object, "original_max_position_embeddings");
    bool is_config = card->is_config;
    int most = has_original && model->max_positions ? model->max_positions : model->rope.train_ctx;
    char *whole = alloc_array(object->length + MOST_MEMBERS, 1, "a config", err);
    if (!whole) return NULL;
    if (config_names_family(object)) return memcpy(whole, object->text, object->length);
    const Json *beside = is_config ? object : NULL;
    // Sections and a share that turns are a block of Qwen 3.5's, for one. Others are a Llama's.
    const Json *part = json_member(object, "rope_parameters"), *block = is_config ? part : object;
    bool has_sections = !card->is_whole && json_member(block, "mrope_section") &&
                        json_member(block, "partial_rotary_factor");
    bool grows = !is_config && json_member(object, "llama_4_scaling_beta");
    unsigned family = model->latent ? FAMILY_LATENT : 0;
    if (grows) family |= FAMILY_GROWS | FAMILY_RUNS;
    else if (has_sections) family = FAMILY_AXES | FAMILY_PARTIAL;
    sprintf(whole, "{\"model_type\": \"%s\"", family_with(family)->model_type);
    add_missing(whole, beside, "head_dim", model->head_dim);
    if (model->latent) {
        int turning = model->rope.rotary_dim;
        add_missing(whole, beside, "qk_nope_head_dim", model->head_dim - turning);
        add_missing(whole, beside, "qk_rope_head_dim", turning);
    }
    add_missing(whole, beside, "hidden_size", model->head_dim);
    add_missing(whole, beside, "num_attention_heads", 1);
    add_missing(whole, beside, "rope_theta", model->rope.theta);
    add_missing(whole, beside, "max_position_embeddings", most);
    bool is_empty = is_config && !json_members(object);
    strcat(whole, is_empty ? "" : ", ");
    if (!is_config) strcat(whole, has_sections ? "\"rope_parameters\": " : "\"rope_scaling\": ");
    char *own = whole + strlen(whole);
    memcpy(own, object->text, object->length);
    own[object->length] = '\0';
    if (!is_config) return strcat(whole, "}");
    rename_members(own, object, "model_type");  // which says nothing
    *own = ' ';
    return whole;
}
