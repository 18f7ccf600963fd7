// Settings that differ by layer in a config: layers that slide or have no RoPE, and refusals of
// lists and blocks by layer that the family does not read.
#include <stdio.h>
#include <string.h>

#include "config.h"

// ---- values that differ by layer ----

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
    static const KeyPlace places[] = {AT_SCALING, AT_PARAMETERS};
    static const KeyId blocks[] = {KEY_ROPE_SCALING, KEY_ROPE_PARAMETERS};
    bool grows = f ? f->flags & (FAMILY_GROWS | FAMILY_MAY_GROW) : !c->config,
         by_type = f && f->flags & FAMILY_BY_TYPE;
    for (int i = 0; i < 2; i++) {
        const Json *beta = config_slot(c, places[i], KEY_LLAMA_4_SCALING_BETA)->member;
        if (by_type && i == 1) continue;
        for (const Json *v = json_members(config_at(c, places[i])); v; v = v->next) {
            if (v == beta && !grows && config_is_by_layer(v))
                config_reject_key(c, places[i], KEY_LLAMA_4_SCALING_BETA, NO_LAYERS);
            if (v->kind == '{' && c->config)
                config_reject_key(c, AT_BESIDE, blocks[i], "one object of settings for all layers");
        }
    }
}

void config_refuse_by_layer(Config *c) {
    const RopeFamily *f = c->family;
    for (KeyId key = KEY_NONE + 1; key < N_KEYS; key++) {
        const ConfigKey *row = &config_key_rows[key];
        const Json *v = row->by_layer ? config_beside(c, key) : NULL;
        bool is_read = f && family_reads(f, row->name);
        if (v && !is_read && config_is_by_layer(v)) config_reject_key(c, AT_BESIDE, key, NO_LAYERS);
        bool is_list = v && (v->kind == '[' || v->kind == 'n');
        if (v && is_read && row->type == KEY_IS_LIST && !is_list)
            config_reject_key(c, AT_BESIDE, key, "a list");
    }
    bool has_interval = f && family_reads(f, "no_rope_layer_interval") &&
                        !config_is_something(config_beside(c, KEY_NO_ROPE_LAYERS));
    if (has_interval) config_number(c, AT_BESIDE, KEY_NO_ROPE_LAYER_INTERVAL, 4);
    bool is_model_s = (!f || c->strict->is_any) && c->layout == BY_TYPE &&
                      !config_is_something(config_at(c, AT_SCALING));
    if (!is_model_s) refuse_blocks(c, f);
}

// ---- layers without RoPE ----

static int whole(Config *c, KeyId key, int missing) {
    return (int)config_number(c, AT_BESIDE, key, missing);
}

// Reads no_rope_layers, which has a 0 for each layer without RoPE; more items may follow.
static void read_no_rope_list(Config *c, LayersWithoutRope *out, const Json *list, int n_layers) {
    int i = 0;
    for (const Json *v = json_items(list); v; v = v->next, i++) {
        double x = 2;
        if (!json_number(v, &x) || (x != 0 && x != 1)) break;
        if (x == 0 && i < n_layers) out->layers[out->n++] = (short)i;
    }
    if (i < n_layers)
        config_reject_key(c, AT_BESIDE, KEY_NO_ROPE_LAYERS,
                          "a 1 (RoPE) or a 0 for each of %d layers", n_layers);
}

// Reads a list of thetas, which has a 0 for each layer without RoPE.
static void read_thetas(Config *c, LayersWithoutRope *out) {
    const char *key = c->family->thetas_key;
    const Json *list = json_member(c->config, key);
    if (!config_is_something(list)) return;
    const int n_layers = whole(c, KEY_NUM_HIDDEN_LAYERS, 0);
    double theta = 0, x;
    int i = 0;
    for (const Json *v = json_items(list); v && i < n_layers; v = v->next, i++) {
        if (!json_number(v, &x) || (x != 0 && theta > 0 && x != theta)) break;
        if (x == 0) out->layers[out->n++] = (short)i;
        else theta = x;
    }
    if (i < n_layers)
        config_reject(c, c->config, key, "one theta, or 0 (no RoPE), for each of %d layers",
                      n_layers);
}

// Reads the temperature of layers without RoPE, if the flag that the family's row names is set.
static void read_temperature(Config *c, LayersWithoutRope *out) {
    const RopeFamily *f = c->family;
    const Json *flag = config_beside(c, f->unturned[0]);
    double beta = config_number(c, AT_BESIDE, f->unturned[1], f->unturned_beta);
    int length = whole(c, f->unturned[2], f->unturned_length);
    if (out->n == 0 || (flag && !config_is_something(flag))) return;
    out->beta = beta;
    out->length = length;
}

// Reads the layers that do not rotate, their temperature and the chunks that the others see, in
// families that list them.
static void read_no_rope_layers(Config *c) {
    const RopeFamily *f = c->family;
    LayersWithoutRope *out = &c->strict->file->without_rope;
    *out = (LayersWithoutRope){.n = 0};
    if (f && f->thetas_key) read_thetas(c, out);
    if (!f || !f->no_rope_each) return;
    int n_layers = whole(c, KEY_NUM_HIDDEN_LAYERS, 0);
    const Json *list = config_beside(c, KEY_NO_ROPE_LAYERS);
    // An empty list counts as no list in a class with chunks, and is too short in others.
    if (json_items(list) || (list && list->kind == '[' && n_layers && !f->chunk)) {
        read_no_rope_list(c, out, list, n_layers);
    } else {
        const int each = whole(c, KEY_NO_ROPE_LAYER_INTERVAL, f->no_rope_each);
        for (int i = each - 1; i >= 0 && i < n_layers; i += each) out->layers[out->n++] = (short)i;
    }
    if (f->unturned[0]) read_temperature(c, out);
    if (f->chunk && n_layers) {
        const Slot *slot = config_slot(c, AT_BESIDE, KEY_ATTENTION_CHUNK_SIZE);
        out->chunk = slot->state == SLOT_NULL ? 0 : whole(c, KEY_ATTENTION_CHUNK_SIZE, f->chunk);
    }
}

// ---- layers ----

// Warns of keys about layers that the family's class does not read.
static void remark_unused(Config *c) {
    const char *type = c->family->model_type;
    static const char pattern[] = "sliding_window_pattern";
    bool is_used = c->family->period_key && strcmp(c->family->period_key, pattern) == 0;
    if (!is_used && config_beside(c, KEY_SLIDING_WINDOW_PATTERN))
        config_remark(c, "%s has no effect with model_type %s", pattern, type);
}

// Notes that queries also see later positions, and how many in sliding layers.
static void say_directions(Config *c, int window) {
    char *out = c->strict->file->directions;
    const size_t size = sizeof c->strict->file->directions;
    const char *key = c->family ? family_sees_later(c->config, c->family) : NULL;
    const bool is_half = key && config_is_of(c, FAMILY_HALVES_WINDOW);
    const int side = config_is_of(c, FAMILY_ENCODER) ? window : is_half ? window - 1 : 0;
    *out = '\0';
    if (!key) return;
    snprintf(out, size, "both: queries also see later positions (%s)", key);
    if (side > 0)
        snprintf(out + strlen(out), size - strlen(out), ", in sliding layers %d to each side",
                 side);
}

// Warns of layers that are named as sliding when there is no window.
static void remark_no_window(Config *c, const ConfigLayers *layers) {
    bool is_named = false;
    const Json *v = json_items(config_beside(c, KEY_LAYER_TYPES));
    for (; v; v = v->next) is_named = is_named || json_is(v, kind_keys[KIND_SLIDING]);
    if (is_named && layers->window == 0 && c->family->slides > SLIDES_ALL_BY_FLAG &&
        c->strict->good)
        config_remark(c, "layer_types has sliding layers, and there is no window (sliding_window, "
                         "use_sliding_window): transformers cannot run that");
}

void config_read_layers(Config *c) {
    const char *key = "", *expected = "";
    if (c->family) c->strict->file->by_layer = false;
    if (c->family) read_no_rope_layers(c);
    double x;
    const bool is_alike = c->family && !c->family->period;
    const bool is_counted = json_number(config_beside(c, KEY_NUM_HIDDEN_LAYERS), &x);
    say_directions(c, 0);
    if (!c->family || (is_alike && !is_counted && !c->family->slides)) return;
    ConfigLayers *layers = &c->strict->file->layers;
    if (!is_alike) c->layers = layers;
    if (!config_layers(c->config, c->family, true, layers, &key, &expected))
        config_reject(c, c->config, key, "%s", expected);
    const int n_named = family_layers_named(c->config, c->family);
    if (n_named >= 0 && c->strict->good)
        config_remark(c,
                      "layer_types has %d layers, and num_hidden_layers is %.0f: transformers "
                      "refuses such a config",
                      n_named, x);
    say_directions(c, layers->window);
    if (is_alike) remark_no_window(c, layers);
    if (is_alike && !layers->window) *layers = (ConfigLayers){.is_alike = true};
    if (is_alike) return;
    remark_unused(c);
    c->strict->file->by_layer = layers_have(layers, KIND_SLIDING);
    c->strict->file->bare_full = layers_bare_full(c->family, layers);
}

// ---- checks of a block ----

static void name_block(Config *c, const char *name) {
    c->strict->called = (BlockName){.name = ""};
    snprintf(c->strict->called.name, sizeof c->strict->called.name, "%s", name);
    snprintf(c->strict->called.inside, sizeof c->strict->called.inside, "%s.", name);
}

// Checks the block of all layers.
static void check_one(Config *c) {
    const Json *scaling = config_ask(c, AT_BESIDE, KEY_ROPE_SCALING)->member;
    bool is_scaling = config_is_something(scaling);
    const KeyId key = is_scaling ? KEY_ROPE_SCALING : KEY_ROPE_PARAMETERS;
    const Json *v = config_ask(c, AT_BESIDE, key)->member;
    bool is_object = json_is_object(v), is_one = is_object || !config_is_something(v);
    bool is_silent = !v || v->kind == 'n';
    for (const Json *in = json_members(v); in; in = in->next) is_one = is_one && in->kind != '{';
    if (!is_one && !is_object) c->strict->file->is_malformed = c->strict->good;
    if (!is_one) config_reject_key(c, AT_BESIDE, key, "one object of settings for all layers");
    if (is_scaling && config_is_something(config_beside(c, KEY_ROPE_PARAMETERS)))
        config_remark(c, "rope_parameters is not used, since there is a rope_scaling");
    if (!is_one) c->block = AT_NOWHERE;
    if (is_silent && c->block && scaling)
        config_remark(c, "rope_scaling is null, and model_type %s has %s all the same",
                      c->family->model_type,
                      strstr(c->family->block, "\"llama3\"") ? "llama3" : "YaRN");
    name_block(c, config_key_rows[key].name);
}

// Checks rope_parameters of a family with a block for each kind of layers.
static void check_parameters(Config *c) {
    const Json *own = config_ask(c, AT_BESIDE, KEY_ROPE_PARAMETERS)->member;
    bool is_something = config_is_something(own);
    const char *full = family_block_name(c->family, KIND_FULL);
    const char *sliding = family_block_name(c->family, KIND_SLIDING);
    if (is_something && own->kind != '{')
        config_reject_key(c, AT_BESIDE, KEY_ROPE_PARAMETERS, "an object of settings");
    if (config_has_type_blocks(c->family, own)) {
        for (const Json *v = json_members(own); v; v = v->next) {
            if (strcmp(v->key, full) == 0 || strcmp(v->key, sliding) == 0) continue;
            // The library also saves this.
            bool is_plain = v->kind == 'n' || json_is(v, "default");
            if (is_plain && strcmp(v->key, "rope_type") == 0) continue;
            // Hugging Face's classes look up only the blocks named after the types of their layers.
            if (v->kind != '{' || has_word("chunked_attention linear_attention", v->key)) {
                config_remark(c, "rope_parameters.%.39s is not used, beside %s and %s", v->key,
                              full, sliding);
                continue;
            }
            c->block = AT_PARAMETERS;
            name_block(c, "rope_parameters");
            config_reject(c, own, v->key, "no block beside %s and %s", full, sliding);
        }
        return;
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        const char *name = family_block_name(c->family, kind);
        const Json *v = json_member(own, name);
        if (v && v->kind != 'n') config_reject(c, own, name, "an object of settings");
    }
    bool has_scaling = config_is_something(config_beside(c, KEY_ROPE_SCALING));
    if (c->family->flags & FAMILY_FLAT_IS_FULL) return;
    if (is_something && has_scaling)
        config_reject_key(c, AT_BESIDE, KEY_ROPE_PARAMETERS,
                          "%s and %s in it, since there is a rope_scaling", full, sliding);
    else if (is_something && c->kind == KIND_FULL)
        config_remark(c,
                      "rope_parameters has no effect with model_type %s without %s and %s",
                      c->family->model_type, full, sliding);
}

// Warns of contradictions to the theta of sliding layers whose block has none.
static void remark_base(Config *c) {
    double inside, beside;
    bool has_inside = json_number(config_slot(c, c->block, KEY_ROPE_THETA)->member, &inside);
    const KeyId own = c->family->theta_keys[KIND_SLIDING];
    if (own) {
        bool both = has_inside && config_beside(c, own);
        if (both && inside != c->theta)
            config_remark(c, "%s is %.12g beside %s and rope_theta %.12g in it: %.12g counts",
                          config_key_rows[own].name, c->theta, c->strict->called.name, inside,
                          inside);
        return;
    }
    bool is_beside = json_number(config_beside(c, KEY_ROPE_THETA), &beside);
    if (!has_inside && is_beside && beside != c->theta)
        config_remark(c,
                      "rope_theta is %.12g only for full_attention: sliding_attention has %.12g",
                      beside, c->theta);
}

// Checks a rope_scaling that overrides the block of the full layers.
static void check_laid_over(Config *c, const Json *scaling, const Json *typed) {
    if (c->family->flags & FAMILY_NO_SCALING)
        config_reject_key(
            c, AT_BESIDE, KEY_ROPE_SCALING,
            "none: Hugging Face 5 fails with KeyError 'sliding_attention', since it replaces "
            "rope_parameters");
    else if (scaling->kind != '{')
        config_reject_key(c, AT_BESIDE, KEY_ROPE_SCALING, "an object of settings");
    if (json_members(typed))
        config_remark(c, "rope_scaling is laid over rope_parameters.full_attention");
    name_block(c, "rope_scaling");
}

// Checks the block of a kind of layers.
static void check_typed(Config *c) {
    char name[40];
    const Json *scaling = config_ask(c, AT_BESIDE, KEY_ROPE_SCALING)->member;
    const Json *own = config_at(c, AT_PARAMETERS);
    const char *of_kind = family_block_name(c->family, c->kind);
    const Json *typed = config_has_type_blocks(c->family, own) ? json_member(own, of_kind) : NULL;
    check_parameters(c);
    bool is_there = typed && typed->kind != 'n';
    if (is_there && typed->kind != '{') config_reject(c, own, of_kind, "an object of settings");
    snprintf(name, sizeof name, "rope_parameters.%s", of_kind);
    name_block(c, name);
    config_find_base(c);
    bool is_flat =
        c->family->flags & FAMILY_FLAT_IS_FULL && !config_has_type_blocks(c->family, own);
    if (c->kind == KIND_SLIDING) remark_base(c);
    else if (config_is_something(scaling)) check_laid_over(c, scaling, typed);
    else if (is_flat && config_is_something(own)) name_block(c, "rope_parameters");
}

void config_check_block(Config *c) {
    if (!c->config) name_block(c, "the block");
    if (!c->config) c->strict->called.inside[0] = '\0';
    if (c->family && c->layout == BY_TYPE) check_typed(c);
    else if (c->layout == BY_TYPE) name_block(c, kind_keys[c->kind]);
    else if (c->config) check_one(c);
}
