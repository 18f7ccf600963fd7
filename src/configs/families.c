// Finds families in their table, and their layers. docs/checkpoints.md tells where the defaults were
// found.
#include "families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "family_table.h"
#include "json.h"

enum {
    N_FAMILIES = sizeof families / sizeof *families,
    N_WRAPPERS = sizeof wrappers / sizeof *wrappers
};

const char *const kind_names[N_KINDS] = {"full", "sliding"};
const char *const kind_keys[N_KINDS] = {"full_attention", "sliding_attention"};

// What a config says its model is: the values of model_type and of the first of architectures. NULL:
// it does not say.
typedef struct {
    const char *type, *architecture;
} ModelName;

const char *family_model_type(const char *config) {
    const char *type = json_member(config, "model_type");
    return type && *type != 'n' && !json_is(type, "") ? type : NULL;
}

static ModelName name_in(const char *config) {
    return (ModelName){family_model_type(config),
                       json_first(json_member(config, "architectures"), NULL)};
}

static const RopeFamily *family_by_name(const char *config);

static int wrapper_of(const char *config) {
    const ModelName name = name_in(config);
    for (int i = 0; i < N_WRAPPERS; i++)
        if (name.type ? json_is(name.type, wrappers[i].model_type)
                      : json_is(name.architecture, wrappers[i].architecture))
            return i;
    return N_WRAPPERS;
}

const char *const family_containers[N_CONTAINERS] = {"text_config", "llm_config", "language_config",
                                                     "thinker_config"};

const char *family_container(const char *config) {
    int i = 0;
    const char *text = NULL;
    for (; i < N_CONTAINERS && !(text && *text == '{'); i++)
        text = json_member(config, family_containers[i]);
    return family_containers[i ? i - 1 : 0];
}

const char *family_text(const char *config) {
    bool is_text_model = wrapper_of(config) == N_WRAPPERS && family_by_name(config);
    for (int i = 0; i < N_CONTAINERS && !is_text_model; i++) {
        const char *text = json_member(config, family_containers[i]);
        if (text && *text == '{') return family_text(text);
    }
    return config;
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

// Whether a JSON string is one of some words.
static bool is_one_of(const char *words, const char *quoted) {
    char name[60];
    size_t length = quoted && *quoted == '"' ? strcspn(quoted + 1, "\"") : 0;
    if (!length || length >= sizeof name) return false;
    memcpy(name, quoted + 1, length);
    name[length] = '\0';
    return has_word(words, name);
}

bool family_has_architecture(const RopeFamily *family, const char *quoted) {
    return json_is(quoted, family->architecture) || is_one_of(family->also_architectures, quoted);
}

// The family that a config names itself.
static const RopeFamily *family_by_name(const char *config) {
    const ModelName name = name_in(config);
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++)
        if (name.type ? json_is(name.type, f->model_type) || is_one_of(f->aliases, name.type)
                      : family_has_architecture(f, name.architecture))
            return f;
    return NULL;
}

const RopeFamily *config_family(const char *config) {
    const char *text = family_text(config);
    bool is_said = family_model_type(text) || json_member(text, "architectures");
    int row = wrapper_of(config);
    bool is_flat =
        row < N_WRAPPERS && text == config && wrappers[row].may_be_flat && wrappers[row].inside;
    if (is_flat || (text != config && !is_said && row < N_WRAPPERS && wrappers[row].inside))
        return family_named(wrappers[row].inside);
    return family_by_name(text);
}

bool family_wrapper_is_known(const char *config) {
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

static bool has_number(const char *config, const char *keys) {
    double x;
    char key[40];
    for (const char *at = keys; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(at, " "), at);
        if (json_number(json_member(config, key), &x, NULL)) return true;
    }
    return false;
}

const RopeFamily *family_any(const char *text) {
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
        bool can_be = f->flags & FAMILY_RUNS && (f->period > 0) == has_kinds;
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

const char *family_architecture(const char *config) {
    int row = wrapper_of(config);
    const RopeFamily *family = row < N_WRAPPERS ? NULL : config_family(config);
    return family ? family->architecture : row < N_WRAPPERS ? wrappers[row].architecture : NULL;
}

// ---- layers ----

// What reading a config's layers needs.
typedef struct {
    const char *text;
    const RopeFamily *family;
    ConfigLayers *out;
    const char **key, **expected;
} LayerReader;

static bool fault(const LayerReader *r, const char *key, const char *expected) {
    *r->key = key;
    *r->expected = expected;
    return false;
}

// A whole number from 1 on under a key: *found, which stays where there is none.
static bool layer_number(const LayerReader *r, const char *key, int *found) {
    const char *v = json_member(r->text, key);
    double x;
    if (!v) return true;
    if (!json_number(v, &x, NULL) || x != floor(x) || x < 1 || x > MOST) return false;
    *found = (int)x;
    return true;
}

// The kind of layer that a word of layer_types names; -1: none.
static int kind_named(const RopeFamily *f, const char *quoted) {
    static const char *const others[] = {"linear_attention", "conv", "mamba"};
    char word[40] = "";
    int kind = 0;
    while (kind < N_KINDS && !json_is(quoted, kind_keys[kind])) kind++;
    if (kind < N_KINDS) return kind;
    if (*quoted == '"')
        snprintf(word, sizeof word, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
    if (word[0] && has_word(f->full_words, word)) return KIND_FULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i]) == 0) return KIND_OTHER;
    return -1;
}

static bool named_layers(const LayerReader *r, const char *list) {
    ConfigLayers *out = r->out;
    int n = 0;
    for (const char *v = json_first(list, NULL); v; v = json_next(v, NULL), n++) {
        if (n == MOST_LAYERS) return fault(r, "layer_types", "at most 1024 layers");
        int kind = kind_named(r->family, v);
        if (kind < 0)
            return fault(r, "layer_types", "full_attention or sliding_attention for each layer");
        out->kinds[n] = (unsigned char)kind;
    }
    bool is_cut = r->family->flags & FAMILY_CUTS_LISTS && out->n && n > out->n;
    if (out->n && out->n != n && !is_cut)
        return fault(r, "layer_types", "full_attention or sliding_attention for each layer");
    if (!is_cut) out->n = n;
    return true;
}

// A list of numbers: one for each layer, 0 for those that slide (more may follow, of layers past
// the last), or the numbers of the full layers.
static bool numbered_layers(const LayerReader *r, const char *key, const char *list, bool is_each) {
    ConfigLayers *out = r->out;
    int other = r->family->flags & FAMILY_LINEAR ? KIND_OTHER : KIND_SLIDING, i = 0;
    memset(out->kinds, is_each ? KIND_FULL : other, (size_t)out->n);
    for (const char *v = json_first(list, NULL); v; v = json_next(v, NULL), i++) {
        double x;
        bool is_whole, good = json_number(v, &x, &is_whole) && is_whole && x >= 0;
        if (!good || (!is_each && x >= out->n)) return fault(r, key, "a whole number a layer");
        if (is_each && i < out->n && x == 0) out->kinds[i] = (unsigned char)other;
        if (!is_each) out->kinds[(int)x] = KIND_FULL;
    }
    return !is_each || i >= out->n || fault(r, key, "as many as num_hidden_layers");
}

static bool periodic_layers(const LayerReader *r) {
    const RopeFamily *f = r->family;
    int period = f->period, n = r->out->n;
    int other = f->flags & FAMILY_LINEAR ? KIND_OTHER : KIND_SLIDING;
    const char *key = f->period_key;
    if (key && !layer_number(r, key, &period))
        return fault(r, key, "a whole number from 1 to 1073741824");
    int full = f->flags & FAMILY_FULL_FIRST ? 0 : period - 1;
    for (int i = 0; i < n && period; i++) {
        int place = f->flags & FAMILY_FROM_END ? period - 1 - (n - 1 - i) % period : i % period;
        r->out->kinds[i] = (unsigned char)(place == full ? KIND_FULL : other);
    }
    if (f->flags & FAMILY_FULL_TOO && n > 0) r->out->kinds[0] = KIND_FULL;
    return true;
}

static bool is_null(const char *value) { return value && *value == 'n'; }

// A list under a key that may be NULL.
static const char *list_of(const LayerReader *r, const char *key) {
    const char *list = key ? json_member(r->text, key) : NULL;
    return list && *list == '[' ? list : NULL;
}

// Reads which layer is of which kind, from `list` or (NULL) from the family's own lists or period.
static bool count_kinds(LayerReader *r, const char *list) {
    ConfigLayers *layers = r->out;
    const char *each = r->family->zeros_key, *some = r->family->indexes_key;
    const char *numbers = list_of(r, each), *indexes = list_of(r, some);
    bool is_read = list      ? named_layers(r, list)
                   : numbers ? numbered_layers(r, each, numbers, true)
                   : indexes ? numbered_layers(r, some, indexes, false)
                             : periodic_layers(r);
    if (!is_read) return false;
    if (r->family->flags & FAMILY_FULL_LAST && layers->n > 0)
        layers->kinds[layers->n - 1] = KIND_FULL;
    for (int i = 0; i < layers->n; i++) layers->n_of[layers->kinds[i]]++;
    return true;
}

bool config_layers(const char *text, const RopeFamily *family, bool types, ConfigLayers *layers,
                   const char **key, const char **expected) {
    LayerReader r = {text, family, layers, key, expected};
    const char *list = json_member(text, "layer_types");
    const char *window = json_member(text, "sliding_window");
    bool is_list = list && *list == '[';
    bool has_types = types && is_list;
    *layers = (ConfigLayers){.window = family->window};
    int n_layers = 0;
    bool has_layers = layer_number(&r, "num_hidden_layers", &n_layers) && n_layers <= MOST_LAYERS;
    if (!has_layers) return fault(&r, "num_hidden_layers", "a whole number from 1 to 1024");
    layers->n = n_layers;
    if (!family->period) return true;
    bool is_missing = !list || is_null(list);
    if (types && !is_list && !is_missing) return fault(&r, "layer_types", "a list");
    if (is_null(window) && family->flags & FAMILY_WINDOWLESS) {
        // The class then divides by a period of 0.
        if (!has_types) return fault(&r, "sliding_window", "a whole number from 1, or layer_types");
        layers->window = 0;
        layers->n_of[KIND_FULL] = layers->n;
        return true;
    }
    if (family->window && !layer_number(&r, "sliding_window", &layers->window))
        return fault(&r, "sliding_window", "a whole number from 1");
    return count_kinds(&r, has_types ? list : NULL);
}

bool layers_have(const ConfigLayers *layers, int kind) {
    bool slides = layers->window > 0;
    if (slides && layers->n > 0) return layers->n_of[kind] > 0;
    return slides || kind == KIND_FULL;
}
