// Finds the family of a config's model, and the kind of each of its layers. docs/checkpoints.md has
// the sources of the families' defaults.
#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/names.h"
#include "made/family_table.h"

enum {
    N_FAMILIES = sizeof families / sizeof *families,
    N_WRAPPERS = sizeof wrappers / sizeof *wrappers
};

const char *const kind_names[N_KINDS] = {"full", "sliding"};
const char *const kind_keys[N_KINDS] = {"full_attention", "sliding_attention"};

// The names that a config gives its model: the values of model_type and of the first of
// architectures. NULL: absent.
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

// Whether an object has the sizes of a model.
static bool has_sizes(const Json *config) {
    return has_number(config, "hidden_size n_embd d_model head_dim");
}

// The only member whose model_type is that of a text model. NULL: none, or several.
static const Json *only_text_in(const Json *config) {
    const Json *found = NULL;
    int n = 0;
    for (const Json *v = json_members(config); v; v = v->next) {
        const RopeFamily *family =
            v->kind == '{' && family_model_type(v) ? family_by_name(v) : NULL;
        if (!family || family->flags & FAMILY_NO_ROPE) continue;
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

const RopeFamily *family_of_gguf(const char *architecture) {
    const RopeFamily *found = NULL;
    int n = 0;
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++) {
        if (!f->gguf || strcmp(architecture, f->gguf) != 0) continue;
        found = f;
        n++;
    }
    return n == 1 ? found : NULL;
}

const char *family_near(const char *model_type) {
    const char *nearest = "";
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++)
        if (f->flags & FAMILY_RUNS) nearest = nearer_name(model_type, f->model_type, nearest);
    return nearest;
}

bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    // No list contains an empty word, but strstr would find it everywhere, and past the end of the
    // list.
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
    bool is_given = family_model_type(text) || json_member(text, "architectures");
    int row = wrapper_of(config);
    bool is_flat =
        row < N_WRAPPERS && text == config && wrappers[row].may_be_flat && wrappers[row].inside;
    if (is_flat || (text != config && !is_given && row < N_WRAPPERS && wrappers[row].inside))
        return family_named(wrappers[row].inside);
    return family_by_name(text);
}

bool family_wrapper_is_known(const Json *config) {
    return family_text(config) == config || wrapper_of(config) < N_WRAPPERS;
}

// The reading of configs whose family has no row: as a Llama's, or as DeepSeek's, with any share
// that rotates.
#define ANY_LAYER_KEYS "layer_types sliding_window_pattern no_rope_layers no_rope_layer_interval"
static const RopeFamily any_family = {.model_type = "",
                                      .architecture = "",
                                      .theta = 1e4,
                                      .local_theta = 1e4,
                                      .rotary_key = KEY_ROTARY_DIM,
                                      .layer_keys = ANY_LAYER_KEYS,
                                      .flags = FAMILY_ANY | FAMILY_PARTIAL | FAMILY_AXES};
static const RopeFamily any_latent_family = {.model_type = "",
                                             .architecture = "",
                                             .theta = 1e4,
                                             .nope_dim = 128,
                                             .rope_dim = 64,
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

const RopeFamily *family_with(FamilyWords flags) {
    const RopeFamily *f = families;
    while (f < families + N_FAMILIES && (f->flags & flags) != flags) f++;
    return f < families + N_FAMILIES ? f : NULL;
}

const RopeFamily *family_nearest(FamilyWords features, bool has_kinds) {
    const RopeFamily *nearest = NULL;
    FamilyWords least = 0;
    for (const RopeFamily *f = families; f < families + N_FAMILIES; f++) {
        const bool can_slide = f->period > 0 && !f->other_words;
        bool can_be = f->flags & FAMILY_RUNS && (has_kinds ? can_slide : f->period == 0);
        bool has_sign = !f->sign || f->sign & features;
        if (!can_be || !has_sign || f->always & ~features) continue;
        FamilyWords strange = features & ~(f->always | f->sign | f->may);
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
    static const FamilyEngine as_ever = {.since = 0};
    for (const FamilyEngine *e = family->engines; e && e->name; e++)
        if (strcmp(e->name, engine) == 0) return e;
    return has_word(family->seen, engine) ? &as_ever : NULL;
}

const char *family_wrapper_architecture(const Json *config) {
    int row = wrapper_of(config);
    return row < N_WRAPPERS ? wrappers[row].architecture : NULL;
}

static bool says_model(const Json *config) {
    return family_model_type(config) || json_items(json_member(config, "architectures"));
}

bool config_names_family(const Json *config) {
    return says_model(config) || says_model(family_text(config));
}

// ---- the kind of each layer ----

// The inputs for reading the layers of a config.
typedef struct {
    const Json *text;
    const RopeFamily *family;
    ConfigLayers *out;
    const char **key, **expected;
} LayerReader;

static bool fault(const LayerReader *r, const char *key, const char *expected) {
    *r->key = key;
    *r->expected = expected;
    return false;
}

// Reads a whole number of at least 1 under a key into *found, which stays as it is if there is
// none.
static bool layer_number(const LayerReader *r, const char *key, int *found) {
    const Json *v = json_member(r->text, key);
    double x;
    if (!v) return true;
    if (!json_number(v, &x) || x != floor(x) || x < 1 || x > MOST) return false;
    *found = (int)x;
    return true;
}

// Whether the family's layers that are not full may slide: they are not of a third kind, and the
// model has a window if the family has one.
static bool may_slide(const LayerReader *r) {
    const RopeFamily *f = r->family;
    if (f->slides) return r->out->window > 0;
    return (!f->other_words || f->window) && (r->out->window > 0 || !f->window);
}

// The kind of layer that a word of layer_types names; -1: none.
static int kind_named(const LayerReader *r, const Json *quoted) {
    const RopeFamily *f = r->family;
    for (int kind = 0; kind < N_KINDS; kind++) {
        const bool is_named =
            json_is(quoted, kind_keys[kind]) || json_is(quoted, family_block_name(f, kind));
        if (is_named && (kind == KIND_FULL || may_slide(r))) return kind;
        // If all layers rotate the same way, a missing window only matters for running the model.
        if (is_named && f->slides) return KIND_FULL;
    }
    if (json_is_one_of(quoted, f->full_words)) return KIND_FULL;
    return json_is_one_of(quoted, f->other_words) ? KIND_OTHER : -1;
}

static bool fault_in_types(const LayerReader *r) {
    const RopeFamily *f = r->family;
    char *out = r->out->expected, *end = out + sizeof r->out->expected;
    out += snprintf(out, (size_t)(end - out), "%s", kind_keys[KIND_FULL]);
    for (const char *at = f->other_words; at && *at; at += strcspn(at, " "), at += *at == ' ')
        out += snprintf(out, (size_t)(end - out), " or %.*s", (int)strcspn(at, " "), at);
    if (!f->other_words || may_slide(r))
        out += snprintf(out, (size_t)(end - out), "%s",
                        may_slide(r) ? " or sliding_attention" : ", since there is no window,");
    snprintf(out, (size_t)(end - out), " for each layer");
    return fault(r, "layer_types", r->out->expected);
}

// Rejects layer_types whose length differs from the number of layers. transformers refuses it in
// every family (validate_layer_type), and names both lengths as well.
static bool fault_in_length(const LayerReader *r, int n) {
    char *out = r->out->expected;
    snprintf(out, sizeof r->out->expected,
             "one for each of num_hidden_layers, %d, and there are %d", r->out->n, n);
    return fault(r, "layer_types", out);
}

int family_layers_named(const Json *text, const RopeFamily *family) {
    const Json *list = json_member(text, "layer_types");
    double n_layers;
    const bool is_counted = json_number(json_member(text, "num_hidden_layers"), &n_layers);
    const bool is_free = family->flags & (FAMILY_ANY | FAMILY_CUTS_LISTS);
    int n = 0;
    if (is_free || !is_counted || !list || list->kind != '[') return -1;
    for (const Json *v = json_items(list); v; v = v->next) n++;
    return n == n_layers ? -1 : n;
}

// Whether a list of another length than the model is accepted: only families that this program runs
// must have the right length.
static bool takes_length(const LayerReader *r) {
    return r->family->flags & (FAMILY_ANY | FAMILY_CUTS_LISTS) || !(r->family->flags & FAMILY_RUNS);
}

// For a family whose layers all rotate the same way: whether the list (NULL: none) has a word for
// each layer.
static bool types_are_alike(const LayerReader *r, const Json *list) {
    int n = 0;
    for (const Json *v = json_items(list); v; v = v->next, n++)
        if (v->kind != '"') return fault(r, "layer_types", "a name for each layer");
    return !list || takes_length(r) || !r->out->n || r->out->n == n || fault_in_length(r, n);
}

static bool named_layers(const LayerReader *r, const Json *list) {
    ConfigLayers *out = r->out;
    int n = 0;
    for (const Json *v = json_items(list); v; v = v->next, n++) {
        if (n == MOST_LAYERS) return fault(r, "layer_types", "at most 1024 layers");
        int kind = kind_named(r, v);
        if (kind < 0) return fault_in_types(r);
        out->kinds[n] = (unsigned char)kind;
    }
    if (out->n && out->n != n && !takes_length(r)) return fault_in_length(r, n);
    if (!out->n || n < out->n) out->n = n;
    return true;
}

// Reads a list of numbers: one for each layer, 0 if it slides (more may follow, for layers past the
// last), or the numbers of the full layers.
static bool numbered_layers(const LayerReader *r, const char *key, const Json *list, bool is_each) {
    ConfigLayers *out = r->out;
    int other = r->family->flags & FAMILY_LINEAR ? KIND_OTHER : KIND_SLIDING, i = 0;
    memset(out->kinds, is_each ? KIND_FULL : other, (size_t)out->n);
    for (const Json *v = json_items(list); v; v = v->next, i++) {
        double x;
        bool good = json_number(v, &x) && json_is_whole(v) && x >= 0;
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

static bool is_null(const Json *value) { return value && value->kind == 'n'; }

// The list under a key that may be NULL.
static const Json *list_of(const LayerReader *r, const char *key) {
    const Json *list = key ? json_member(r->text, key) : NULL;
    return list && list->kind == '[' ? list : NULL;
}

// Reads the kind of each layer, from `list` or (NULL) from the family's own lists or its period.
static bool count_kinds(LayerReader *r, const Json *list) {
    ConfigLayers *layers = r->out;
    const char *each = r->family->zeros_key, *some = r->family->indexes_key;
    const Json *numbers = list_of(r, each), *indexes = list_of(r, some);
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

const char *family_sees_later(const Json *text, const RopeFamily *family) {
    static const char key[] = "use_bidirectional_attention", other[] = "is_causal";
    const Json *v = family->flags & FAMILY_BOTH_WAYS ? json_member(text, key) : NULL;
    const Json *causal = json_member(text, other);
    if (family->flags & FAMILY_ENCODER) return family->model_type;
    if (v && (v->kind == 't' || json_is(v, "all"))) return key;
    return causal && causal->kind == 'f' ? other : NULL;
}

// ---- layers that all rotate the same way ----

// Whether a layer does not rotate, according to no_rope_layers or an interval.
static bool is_without_rope(const LayerReader *r, int layer) {
    const Json *v = json_items(list_of(r, "no_rope_layers"));
    double x = r->family->no_rope_each;
    const bool is_listed = v;
    for (int i = 0; v && i < layer; i++) v = v->next;
    if (is_listed) return json_number(v, &x) && x == 0;
    json_number(json_member(r->text, "no_rope_layer_interval"), &x);
    return x >= 1 && (layer + 1) % (int)fmin(x, MOST_LAYERS + 1) == 0;
}

// Whether a layer slides if no list says so. `first` is max_window_layers.
static bool slides(const LayerReader *r, int layer, double first) {
    switch (r->family->slides) {
    case SLIDES_SOME_BY_FLAG: return r->family->no_rope_each ? is_without_rope(r, layer) : layer >= first;
    case SLIDES_ODD_BY_FLAG: return layer % 2 == 0 && layer < first;
    case SLIDES_LATER: return layer >= first;
    default: return true;
    }
}

// Finds the layers that slide in such a family, with the rule of its class in transformers. `list`
// is layer_types.
static bool alike_layers(LayerReader *r, const Json *list) {
    ConfigLayers *out = r->out;
    const RopeFamily *f = r->family;
    const bool by_flag = f->slides >= SLIDES_ALL_BY_FLAG && f->slides <= SLIDES_ODD_BY_FLAG;
    const Json *window = json_member(r->text, "sliding_window");
    const Json *first = json_member(r->text, "max_window_layers");
    const Json *flag = by_flag ? json_member(r->text, "use_sliding_window") : NULL;
    const bool may = f->slides && (!by_flag || (flag && flag->kind == 't'));
    double before = f->max_window_layers;
    out->is_alike = true;
    if (flag && !is_null(flag) && flag->kind != 't' && flag->kind != 'f')
        return fault(r, "use_sliding_window", "true or false");
    out->window = may && !is_null(window) ? f->alike_window : 0;
    if (may && !is_null(window) && !layer_number(r, "sliding_window", &out->window))
        return fault(r, "sliding_window", "a whole number from 1 to 1073741824, or null");
    if (f->slides <= SLIDES_ALL_BY_FLAG) list = NULL;
    const bool is_counted = !list && f->max_window_layers && out->window > 0 && first;
    if (is_counted && (!json_number(first, &before) || before != floor(before) || before < 0))
        return fault(r, "max_window_layers", "a whole number from 0");
    if (list && !named_layers(r, list)) return false;
    for (int i = 0; i < out->n; i++) {
        if (!list) out->kinds[i] = out->window && slides(r, i, before) ? KIND_SLIDING : KIND_FULL;
        out->n_of[out->kinds[i]]++;
    }
    // If the number of layers is not known, the answer can only be all or none.
    const bool are_told = out->n ? out->n_of[KIND_SLIDING] > 0
                                 : f->slides <= SLIDES_ALL_BY_FLAG || f->slides == SLIDES_LISTED;
    if (!are_told) out->window = 0;
    return true;
}

// ---- all families ----

bool config_layers(const Json *text, const RopeFamily *family, bool types, ConfigLayers *layers,
                   const char **key, const char **expected) {
    LayerReader r = {text, family, layers, key, expected};
    const Json *list = json_member(text, "layer_types");
    const Json *window = json_member(text, "sliding_window");
    bool is_list = list && list->kind == '[';
    bool has_types = types && is_list;
    int n_layers = text ? 0 : layers->n;
    *layers = (ConfigLayers){.window = family->window};
    bool has_layers = layer_number(&r, "num_hidden_layers", &n_layers) && n_layers <= MOST_LAYERS;
    if (!has_layers) return fault(&r, "num_hidden_layers", "a whole number from 1 to 1024");
    layers->n = n_layers;
    if (!family->period)
        return types_are_alike(&r, has_types ? list : NULL) &&
               alike_layers(&r, has_types ? list : NULL);
    bool is_missing = !list || is_null(list);
    const bool has_no_window = family->window && is_null(window);
    static const char windows[] = "a whole number from 1 to 1073741824, or layer_types";
    if (has_no_window) layers->window = 0;
    else if (family->window && !layer_number(&r, "sliding_window", &layers->window))
        return fault(&r, "sliding_window", "a whole number from 1 to 1073741824");
    const Json *earlier = family->earlier_key ? json_member(text, family->earlier_key) : NULL;
    if (earlier && !is_null(earlier) && !has_no_window) {
        if (!layer_number(&r, family->earlier_key, &layers->window) || layers->window == MOST)
            return fault(&r, family->earlier_key, "a whole number from 1 to 1073741823");
        layers->window++;
    }
    if (types && !is_list && !is_missing) return fault_in_types(&r);
    if (has_no_window && !has_types) return fault(&r, "sliding_window", windows);
    if (!count_kinds(&r, has_types ? list : NULL)) return false;
    const bool is_halved = family->flags & FAMILY_HALVES_WINDOW &&
                           family_sees_later(text, family) &&
                           json_member(text, "use_bidirectional_attention");
    if (is_halved) layers->window = layers->window / 2 + (layers->window > 0);
    // Without a window such a class divides by a period of 0, or has no layer that rotates.
    const bool needs_window = family->flags & FAMILY_NEEDS_WINDOW;
    return !(has_no_window && needs_window) || fault(&r, "sliding_window", windows);
}

bool layers_have(const ConfigLayers *layers, int kind) {
    const bool slides = layers->window > 0 && !layers->is_alike;
    if (slides && layers->n > 0) return layers->n_of[kind] > 0;
    return slides || kind == KIND_FULL;
}

bool layers_bare_full(const RopeFamily *family, const ConfigLayers *layers) {
    // If thetas are listed by layer, that follows from the list, not from layer_types.
    const bool is_listed = family_reads(family, "layer_rope_theta");
    return family->flags & FAMILY_BARE_FULL && layers->window > 0 &&
           (!is_listed || layers_have(layers, KIND_SLIDING));
}
