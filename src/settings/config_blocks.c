// Where a config has its blocks of settings, and which layers they are of.
#include <stdio.h>
#include <string.h>

#include "config_blocks.h"
#include "json.h"

#define NO_LAYERS "none, since what differs by layer or position is not read"

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
    return *v == '[' ? !alike : config_is_something(v);
}

// Keys that give layers or positions a RoPE of their own. In some families a key is read, or it is
// about layers without RoPE or about windows, which the exporter reads, or it means nothing.
static const struct {
    const char *key, *but_in;
} layer_keys[] = {
    {"rope_local_base_freq", "gemma3_text"},
    {"local_rope_theta", ""},
    {"global_rope_theta", ""},
    {"swa_rope_theta", ""},
    {"sliding_window_pattern", "gemma3_text olmo3 exaone4 cohere2"},
    {"attn_temperature_tuning", ""},
    {"llama_4_scaling_beta", ""},
    {"no_rope_layers", "smollm3"},
    {"no_rope_layer_interval", "smollm3"},
    {"layer_types", "mistral qwen2 qwen3 phi3 smollm3 gemma3_text olmo3 ministral3 exaone4 gpt_oss "
                    "gemma4_text laguna "
                    "cohere2 qwen3_5_text qwen3_moe"},
};

static void refuse_blocks(Reader *r, const RopeFamily *f) {
    static const char *const blocks[] = {"rope_scaling", "rope_parameters"};
    bool grows = f && f->flags & FAMILY_GROWS, by_type = f && f->flags & FAMILY_BY_TYPE;
    for (int i = 0; i < 2; i++) {
        const char *key, *block = r->config ? json_member(r->config, blocks[i]) : r->alone;
        if (by_type && i == 1) continue;
        for (const char *v = json_first(block, &key); v; v = json_next(v, &key)) {
            Word name = config_word(key);
            bool is_beta = strcmp(name.text, "llama_4_scaling_beta") == 0;
            if (is_beta && !grows && is_by_layer(v)) config_reject(r, block, name.text, NO_LAYERS);
            if (*v == '{' && r->config)
                config_reject(r, r->config, blocks[i], "one object of settings for all layers");
        }
    }
}

void config_refuse_by_layer(Reader *r) {
    const RopeFamily *f = r->family;
    for (size_t i = 0; i < sizeof layer_keys / sizeof *layer_keys; i++) {
        const char *v = json_member(r->config, layer_keys[i].key);
        bool is_read = f && family_is(f, layer_keys[i].but_in);
        if (v && !is_read && is_by_layer(v))
            config_reject(r, r->config, layer_keys[i].key, NO_LAYERS);
    }
    bool is_model_s =
        !f && r->by_kind && !config_is_something(json_member(r->config, "rope_scaling"));
    if (!is_model_s) refuse_blocks(r, f);
}

// ---- layers ----

// Says which keys about layers the family's class does not look at.
static void remark_unused(Reader *r) {
    const char *type = r->family->model_type;
    if (json_member(r->config, "_sliding_window_pattern"))
        config_remark(r, "_sliding_window_pattern means nothing to model_type %s and is not used",
                      type);
    bool is_used = r->family->flags & FAMILY_PATTERN;
    if (!is_used && json_member(r->config, "sliding_window_pattern"))
        config_remark(r, "sliding_window_pattern means nothing to model_type %s and is not used",
                      type);
}

void config_read_layers(Reader *r) {
    const char *key = "", *expected = "";
    if (r->family) r->file->by_layer = false;
    if (!r->family || !r->family->period) return;
    ConfigLayers *layers = &r->file->layers;
    if (!config_layers(r->config, r->family, true, layers, &key, &expected))
        config_reject(r, r->config, key, "%s", expected);
    remark_unused(r);
    bool has_sliding = !layers->n || layers->n_of[KIND_SLIDING];
    r->file->by_layer = layers->window && has_sliding;
    r->file->bare_full = r->file->by_layer && r->family->flags & FAMILY_BARE_FULL;
}

// ---- blocks ----

static void name_block(Reader *r, const char *object, const char *under, const char *name) {
    r->block = (Block){.object = object, .under = under};
    snprintf(r->block.name, sizeof r->block.name, "%s", name);
    snprintf(r->block.inside, sizeof r->block.inside, "%s.", name);
}

void config_find_block(Reader *r) {
    bool is_scaling = config_is_something(config_get(r, r->config, "rope_scaling"));
    const char *name = is_scaling ? "rope_scaling" : "rope_parameters",
               *v = config_get(r, r->config, name), *key;
    bool is_object = v && *v == '{', is_one = is_object || !config_is_something(v);
    for (const char *in = json_first(v, &key); in; in = json_next(in, &key))
        is_one = is_one && *in != '{';
    if (!is_one) config_reject(r, r->config, name, "one object of settings for all layers");
    if (is_scaling && config_is_something(json_member(r->config, "rope_parameters")))
        config_remark(r, "rope_parameters is not used, since there is a rope_scaling");
    bool is_default =
        (!v || *v == 'n') && r->family && r->family->block;  // an empty block has no defaults
    if (is_default && json_member(r->config, "rope_scaling"))
        config_remark(r, "rope_scaling is null, and model_type %s has YaRN all the same",
                      r->family->model_type);
    name_block(r, is_default ? r->family->block : is_one ? v : NULL, NULL, name);
}

static void reject_inside(Reader *r, const char *parameters, const char *key) {
    name_block(r, parameters, NULL, "rope_parameters");
    config_reject(r, parameters, key, "none beside full_attention and sliding_attention");
}

// rope_parameters of a family with a block for each kind of layers; NULL where there is none of
// them in it.
static const char *typed_parameters(Reader *r) {
    const char *own = config_get(r, r->config, "rope_parameters"), *key;
    if (config_is_something(own) && *own != '{')
        config_reject(r, r->config, "rope_parameters", "an object of settings");
    if (config_has_type_blocks(own)) {
        for (const char *v = json_first(own, &key); v; v = json_next(v, &key))
            if (!json_is(key, kind_keys[KIND_FULL]) && !json_is(key, kind_keys[KIND_SLIDING]))
                reject_inside(r, own, config_word(key).text);
        return own;
    }
    bool has_scaling = config_is_something(json_member(r->config, "rope_scaling"));
    if (config_is_something(own) && has_scaling)
        config_reject(r, r->config, "rope_parameters",
                      "full_attention and sliding_attention in it, since there is a rope_scaling");
    else if (config_is_something(own) && r->kind == KIND_FULL)
        config_remark(r,
                      "rope_parameters means nothing to model_type %s without full_attention and "
                      "sliding_attention, and is "
                      "not used",
                      r->family->model_type);
    return NULL;
}

// The theta of sliding layers where their block has none, and what contradicts it.
static double local_theta(Reader *r) {
    double local = r->family->local_theta, inside, beside;
    const char *sliding = r->block.object;
    bool has_inside = json_number(json_member(sliding, "rope_theta"), &inside, NULL);
    if (family_is(r->family, "gemma3_text")) {
        local = config_number(r, r->config, "rope_local_base_freq", local, 1, 0, OPTIONAL);
        if (has_inside && json_member(r->config, "rope_local_base_freq") && inside != local)
            config_remark(r,
                          "rope_local_base_freq is %.12g beside rope_parameters.sliding_attention "
                          "and rope_theta %.12g in it: "
                          "%.12g counts",
                          local, inside, inside);
    } else if (!has_inside && json_number(json_member(r->config, "rope_theta"), &beside, NULL) &&
               beside != local) {
        config_remark(r,
                      "rope_theta is %.12g for full_attention alone: sliding_attention has %.12g",
                      beside, local);
    }
    return local;
}

// A block of kinds by itself, or in a config without a family: a model's, whose thetas stand where
// there are none.
static void find_block_alone(Reader *r, int kind, double *theta) {
    const char *parameters = json_member(r->config, "rope_parameters");
    const char *own = r->config ? parameters : r->alone;
    name_block(r, json_member(own, kind_keys[kind]), NULL, kind_keys[kind]);
    *theta = kind == KIND_SLIDING ? r->file->sliding.theta : r->file->rope.theta;
}

// Lays rope_scaling over the block of the full layers.
static void lay_over(Reader *r, const char *scaling, const char *typed) {
    if (r->family->flags & FAMILY_NO_SCALING)
        config_reject(
            r, r->config, "rope_scaling",
            "none: Hugging Face 5 fails with KeyError 'sliding_attention', since it replaces "
            "rope_parameters");
    else if (*scaling != '{') config_reject(r, r->config, "rope_scaling", "an object of settings");
    if (json_has_members(typed))
        config_remark(r, "rope_scaling is laid over rope_parameters.full_attention");
    name_block(r, scaling, typed, "rope_scaling");
}

void config_find_block_of(Reader *r, int kind, double *theta) {
    static const char *const names[] = {"rope_parameters.full_attention",
                                        "rope_parameters.sliding_attention"};
    const char *scaling = config_get(r, r->config, "rope_scaling");
    r->kind = kind;
    if (!r->family) {
        find_block_alone(r, kind, theta);
        return;
    }
    const char *own = typed_parameters(r), *typed = json_member(own, kind_keys[kind]);
    if (typed && *typed == 'n') typed = NULL;  // as good as none
    if (typed && *typed != '{') config_reject(r, own, kind_keys[kind], "an object of settings");
    name_block(r, typed, NULL, names[kind]);
    if (kind == KIND_SLIDING) {
        *theta = local_theta(r);
        return;
    }
    *theta = config_number(r, r->config, "rope_theta", r->family->theta, 1, 0, OPTIONAL);
    bool has_scaling = config_is_something(scaling);
    if (has_scaling) lay_over(r, scaling, typed);
    else if (!own && r->family->block) r->block.object = r->family->block;
}
