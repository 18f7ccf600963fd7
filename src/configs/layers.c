// Which layers are of which kind, which do not turn, and what of a config differs by layer.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

// ---- which layers are of which kind ----

// What reading a config's layers needs.
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

// A whole number from 1 on under a key: *found, which stays where there is none.
static bool layer_number(const LayerReader *r, const char *key, int *found) {
    const Json *v = json_member(r->text, key);
    double x;
    if (!v) return true;
    if (!json_number(v, &x) || x != floor(x) || x < 1 || x > MOST) return false;
    *found = (int)x;
    return true;
}

// Whether layers of the family may slide: they have a window, and are not of another kind.
static bool may_slide(const LayerReader *r) {
    return !r->family->other_words && (r->out->window > 0 || !r->family->window);
}

// The kind of layer that a word of layer_types names; -1: none.
static int kind_named(const LayerReader *r, const Json *quoted) {
    const RopeFamily *f = r->family;
    if (json_is(quoted, kind_keys[KIND_FULL]) || json_is_one_of(quoted, f->full_words))
        return KIND_FULL;
    if (json_is(quoted, kind_keys[KIND_SLIDING]) && may_slide(r)) return KIND_SLIDING;
    return json_is_one_of(quoted, f->other_words) ? KIND_OTHER : -1;
}

static bool fault_in_types(const LayerReader *r) {
    const RopeFamily *f = r->family;
    char *out = r->out->expected, *end = out + sizeof r->out->expected;
    out += snprintf(out, (size_t)(end - out), "%s", kind_keys[KIND_FULL]);
    for (const char *at = f->other_words; at && *at; at += strcspn(at, " "), at += *at == ' ')
        out += snprintf(out, (size_t)(end - out), " or %.*s", (int)strcspn(at, " "), at);
    if (!f->other_words)
        out += snprintf(out, (size_t)(end - out), "%s",
                        may_slide(r) ? " or sliding_attention" : ", since there is no window,");
    snprintf(out, (size_t)(end - out), " for each layer");
    return fault(r, "layer_types", r->out->expected);
}

// layer_types of another length than the model. transformers refuses it in every family
// (validate_layer_type), so it names both lengths as they do.
static bool fault_in_length(const LayerReader *r, int n) {
    char *out = r->out->expected;
    snprintf(out, sizeof r->out->expected, "one for each of num_hidden_layers, %d, and there are %d",
             r->out->n, n);
    return fault(r, "layer_types", out);
}

// Of a family whose layers are alike: whether the list (NULL: none) has a word for each of them.
static bool types_are_alike(const LayerReader *r, const Json *list) {
    const bool is_free = r->family->flags & (FAMILY_ANY | FAMILY_CUTS_LISTS);
    int n = 0;
    for (const Json *v = json_items(list); v; v = v->next) n++;
    return !list || is_free || !r->out->n || r->out->n == n || fault_in_length(r, n);
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
    bool is_cut = r->family->flags & FAMILY_CUTS_LISTS && out->n && n > out->n;
    if (out->n && out->n != n && !is_cut) return fault_in_length(r, n);
    if (!is_cut) out->n = n;
    return true;
}

// A list of numbers: one for each layer, 0 for those that slide (more may follow, of layers past
// the last), or the numbers of the full layers.
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

// A list under a key that may be NULL.
static const Json *list_of(const LayerReader *r, const char *key) {
    const Json *list = key ? json_member(r->text, key) : NULL;
    return list && list->kind == '[' ? list : NULL;
}

// Reads which layer is of which kind, from `list` or (NULL) from the family's own lists or period.
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
    if (!family->period) return types_are_alike(&r, has_types ? list : NULL);
    bool is_missing = !list || is_null(list);
    const bool has_no_window = family->window && is_null(window);
    static const char windows[] = "a whole number from 1 to 1073741824, or layer_types";
    if (has_no_window) layers->window = 0;
    else if (family->window && !layer_number(&r, "sliding_window", &layers->window))
        return fault(&r, "sliding_window", "a whole number from 1 to 1073741824");
    if (types && !is_list && !is_missing) return fault_in_types(&r);
    if (has_no_window && !has_types) return fault(&r, "sliding_window", windows);
    if (!count_kinds(&r, has_types ? list : NULL)) return false;
    // Without a window such a class divides by a period of 0, or has no layer that turns.
    const bool needs_window = family->flags & FAMILY_NEEDS_WINDOW;
    return !(has_no_window && needs_window) || fault(&r, "sliding_window", windows);
}

bool layers_have(const ConfigLayers *layers, int kind) {
    bool slides = layers->window > 0;
    if (slides && layers->n > 0) return layers->n_of[kind] > 0;
    return slides || kind == KIND_FULL;
}

// ---- what is by layer ----

#define NO_LAYERS "none, since what differs by layer or position is not read"

bool config_is_by_layer(const Json *v) {
    const Json *first = json_items(v);
    double x;
    bool alike = true;
    for (const Json *in = first; in; in = in->next) {
        bool is_first = in->string && json_is(first, in->string);
        alike = alike && (is_first || (json_number(in, &x) && x == 1));
    }
    return v->kind == '[' ? !alike : config_is_something(v);
}

static void refuse_blocks(Config *c, const RopeFamily *f) {
    static const char *const blocks[] = {"rope_scaling", "rope_parameters"};
    bool grows = f ? f->flags & (FAMILY_GROWS | FAMILY_MAY_GROW) : c->alone != NULL,
         by_type = f && f->flags & FAMILY_BY_TYPE;
    for (int i = 0; i < 2; i++) {
        const Json *block = c->config ? json_member(c->config, blocks[i]) : c->alone;
        if (by_type && i == 1) continue;
        for (const Json *v = json_members(block); v; v = v->next) {
            bool is_beta = strcmp(v->key, "llama_4_scaling_beta") == 0;
            if (is_beta && !grows && config_is_by_layer(v))
                config_reject(c, block, v->key, NO_LAYERS);
            if (v->kind == '{' && c->config)
                config_reject(c, c->config, blocks[i], "one object of settings for all layers");
        }
    }
}

void config_refuse_by_layer(Config *c) {
    const RopeFamily *f = c->family;
    for (const ConfigKey *key = config_key_rows; key < config_key_rows + n_config_keys; key++) {
        const Json *v = key->by_layer ? json_member(c->config, key->name) : NULL;
        bool is_read = f && family_reads(f, key->name);
        if (v && !is_read && config_is_by_layer(v))
            config_reject(c, c->config, key->name, NO_LAYERS);
        bool is_list = v && (v->kind == '[' || v->kind == 'n');
        if (v && is_read && key->type == KEY_LIST && !is_list)
            config_reject(c, c->config, key->name, "a list");
    }
    bool has_interval = f && family_reads(f, "no_rope_layer_interval") &&
                        !config_is_something(json_member(c->config, "no_rope_layers"));
    if (has_interval) config_number(c, c->config, "no_rope_layer_interval", 4);
    bool is_model_s = (!f || c->is_any) && c->layout == BY_TYPE &&
                      !config_is_something(json_member(c->config, "rope_scaling"));
    if (!is_model_s) refuse_blocks(c, f);
}

// ---- layers without RoPE ----

static int whole(Config *c, const char *key, int missing) {
    return (int)config_number(c, c->config, key, missing);
}

// By no_rope_layers, which has a 0 for each layer without RoPE; more may follow.
static void read_still_list(Config *c, LayersAtRest *out, const Json *list, int n_layers) {
    int i = 0;
    for (const Json *v = json_items(list); v; v = v->next, i++) {
        double x = 2;
        if (!json_number(v, &x) || (x != 0 && x != 1)) break;
        if (x == 0 && i < n_layers) out->layers[out->n++] = (short)i;
    }
    if (i < n_layers)
        config_reject(c, c->config, "no_rope_layers", "a 1 (RoPE) or a 0 for each of %d layers",
                      n_layers);
}

// Layers without RoPE have a temperature, if the flag that the row names says so.
static void read_temperature(Config *c, LayersAtRest *out) {
    const RopeFamily *f = c->family;
    const Json *flag = json_member(c->config, f->unturned[0]);
    double beta = config_number(c, c->config, f->unturned[1], f->unturned_beta);
    int length = whole(c, f->unturned[2], f->unturned_length);
    if (out->n == 0 || (flag && !config_is_something(flag))) return;
    out->beta = beta;
    out->length = length;
}

// Which layers do not turn, with their temperature and the chunks that the others see, in families
// that have a list of them.
static void read_still(Config *c) {
    const RopeFamily *f = c->family;
    LayersAtRest *out = &c->file->at_rest;
    *out = (LayersAtRest){.n = 0};
    if (!f || !f->still_each) return;
    int n_layers = whole(c, "num_hidden_layers", 0);
    const Json *list = json_member(c->config, "no_rope_layers");
    // An empty list is none to a class with chunks, and too short to others.
    if (json_items(list) || (list && list->kind == '[' && n_layers && !f->chunk)) {
        read_still_list(c, out, list, n_layers);
    } else {
        const int each = whole(c, "no_rope_layer_interval", f->still_each);
        for (int i = each - 1; i >= 0 && i < n_layers; i += each) out->layers[out->n++] = (short)i;
    }
    if (f->unturned[0]) read_temperature(c, out);
    if (f->chunk && n_layers) {
        const Json *said = json_member(c->config, "attention_chunk_size");
        out->chunk = said && said->kind == 'n' ? 0 : whole(c, "attention_chunk_size", f->chunk);
    }
}

// ---- layers ----

// Says which keys about layers the family's class does not look at.
static void remark_unused(Config *c) {
    const char *type = c->family->model_type;
    static const char pattern[] = "sliding_window_pattern";
    bool is_used = c->family->period_key && strcmp(c->family->period_key, pattern) == 0;
    if (!is_used && json_member(c->config, pattern))
        config_remark(c, "%s means nothing to model_type %s and is not used", pattern, type);
}

void config_read_layers(Config *c) {
    const char *key = "", *expected = "";
    if (c->family) c->file->by_layer = false;
    if (c->family) read_still(c);
    double x;
    const bool is_alike = c->family && !c->family->period;
    const bool is_counted = json_number(json_member(c->config, "num_hidden_layers"), &x);
    if (!c->family || (is_alike && !is_counted)) return;
    ConfigLayers *layers = &c->file->layers;
    if (!is_alike) c->layers = layers;
    if (!config_layers(c->config, c->family, true, layers, &key, &expected))
        config_reject(c, c->config, key, "%s", expected);
    if (is_alike) *layers = (ConfigLayers){.n = 0};
    if (is_alike) return;
    remark_unused(c);
    c->file->by_layer = layers_have(layers, KIND_SLIDING);
    c->file->bare_full = c->file->by_layer && c->family->flags & FAMILY_BARE_FULL;
}
