// Where a config's settings are: the text model inside another, the block of each kind of its layers,
// and what a block must not be, by the line and the key.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

// A block beside the text model's config is read by nobody, though it looks like one, and neither is
// a theta there, where the text model's has none. It may be inside several others.
static void remark_outside(Config *c, const Json *whole) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters", "rope_theta"};
    bool has_theta = json_member(c->config, keys[2]) ||
                     json_is_object(json_member(c->config, "rope_parameters"));
    if (!config_is_strict(c)) return;
    for (const Json *inside; (inside = family_inside(whole)); whole = inside)
        for (int i = 0; i < 3; i++)
            if ((i < 2 || !has_theta) && config_is_something(json_member(whole, keys[i])))
                config_unread(c, "%s beside %.39s is not used: its place is in it", keys[i],
                              inside->key);
}

bool config_find_family(Config *c, const Json *named, bool is_first, Error *err) {
    const Json *whole = c->config;
    c->config = family_text(whole);
    remark_outside(c, whole);
    c->family = is_first ? family_with(0) : config_family(named);
    c->longrope_alone = config_is_of(c, FAMILY_LONGROPE_ALONE);
    const Json *own = c->alone ? c->alone : json_member(c->config, "rope_parameters");
    bool by_type = c->family ? config_is_of(c, FAMILY_BY_TYPE) : config_has_kinds(own);
    c->layout = by_type ? BY_TYPE : ONE_BLOCK;
    if (!c->family) return true;
    const char *const blocks[N_KINDS] = {c->family->block, c->family->sliding_block};
    for (int kind = 0; kind < N_KINDS; kind++) {
        if (!blocks[kind]) continue;
        c->of_class[kind] = json_parse(blocks[kind], strlen(blocks[kind]), err);
        if (!c->of_class[kind]) return false;
    }
    return true;
}

void config_close(Config *c) {
    for (int kind = 0; kind < N_KINDS; kind++) free(c->of_class[kind]);
}

// ---- blocks ----

bool config_sees_scaling_only(const Config *c) {
    bool is_lifted = c->flags & NEW_PARAMETERS && c->family->flags & FAMILY_NEW;
    return c->flags & SCALING_ONLY && !is_lifted;
}

static const Json *one_block(const Config *c, const Json *config, unsigned where) {
    const Json *scaling = json_member(config, "rope_scaling");
    const Json *parameters = json_member(config, "rope_parameters");
    const Json *text = json_member(config, "text_config");
    if (config_sees_scaling_only(c)) parameters = NULL;
    else if (where & SCALING_ONLY) scaling = NULL;
    if (where & PARAMETERS_FIRST && json_members(parameters)) return parameters;
    if (json_members(scaling)) return scaling;
    if (json_members(parameters)) return parameters;
    return where & TEXT_CONFIG && text ? one_block(c, text, where & ~(unsigned)TEXT_CONFIG) : NULL;
}

// The block of the full layers, where one block is theirs or all layers'.
static void find_one(Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    const Json *found = c->config ? one_block(c, c->config, c->flags) : c->alone;
    bool is_empty = !found && parameters && parameters->kind != 'n';
    if (is_empty && !config_sees_scaling_only(c)) found = parameters;  // which has no defaults
    bool is_typed = config_is_of(c, FAMILY_BY_TYPE) && config_has_type_blocks(c->family, found);
    const Json *full = c->flags & PARAMETERS_FIRST
                           ? json_member(found, family_block_name(c->family, KIND_FULL))
                           : NULL;
    c->block = is_typed ? full : found;
    if (is_typed && !c->block) c->why_plain = "rope_parameters by layer type is not read";
    if (!found && !(c->flags & OWN_DEFAULTS)) c->block = c->of_class[KIND_FULL];
}

// The block of all layers that is laid over that of the full ones: rope_scaling, or `flat`, which
// counts where there is none. NULL: none.
static const Json *laid_over_full(const Config *c, const Json *flat) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    if (!c->family || config_is_of(c, FAMILY_NO_SCALING)) return NULL;
    return json_members(scaling) ? scaling : flat;
}

// The block of the kind's name, and rope_scaling laid over that of the full layers.
static void find_typed(Config *c) {
    const Json *parameters = c->config ? json_member(c->config, "rope_parameters") : c->alone;
    bool is_typed = config_has_type_blocks(c->family, parameters);
    bool is_flat = !is_typed && json_members(parameters);
    bool is_taken = is_flat && config_is_of(c, FAMILY_FLAT_IS_FULL);
    const Json *scaling = laid_over_full(c, is_taken ? parameters : NULL);
    const Json *own =
        is_typed ? json_member(parameters, family_block_name(c->family, c->kind)) : NULL;
    bool is_there = own && own->kind != 'n';
    c->block = is_there ? own : NULL;
    bool is_silent = !is_typed && (!is_flat || config_is_strict(c));
    if (is_silent) c->block = c->of_class[c->kind];
    if (c->kind != KIND_FULL) return;
    if (is_flat && !is_taken) c->why_plain = "rope_parameters has no block for a kind of layers";
    if (!scaling) return;
    c->under = c->block;
    c->block = scaling;
    c->why_plain = NULL;
}

void config_find_block(Config *c) {
    c->block = c->under = NULL;
    if (c->layout == BY_TYPE) find_typed(c);
    else if (c->kind == KIND_FULL || c->layout == ONE_BLOCK) find_one(c);
}

// ---- what a block must not be ----

static void name_block(Config *c, const char *name) {
    c->called = (BlockName){.name = ""};
    snprintf(c->called.name, sizeof c->called.name, "%s", name);
    snprintf(c->called.inside, sizeof c->called.inside, "%s.", name);
}

// One block of all layers.
static void check_one(Config *c) {
    const Json *scaling = config_get(c, c->config, "rope_scaling");
    bool is_scaling = config_is_something(scaling);
    const char *name = is_scaling ? "rope_scaling" : "rope_parameters";
    const Json *v = config_get(c, c->config, name);
    bool is_object = json_is_object(v), is_one = is_object || !config_is_something(v);
    bool is_silent = !v || v->kind == 'n';
    for (const Json *in = json_members(v); in; in = in->next) is_one = is_one && in->kind != '{';
    if (!is_one && !is_object) c->file->is_malformed = c->good;
    if (!is_one) config_reject(c, c->config, name, "one object of settings for all layers");
    if (is_scaling && config_is_something(json_member(c->config, "rope_parameters")))
        config_remark(c, "rope_parameters is not used, since there is a rope_scaling");
    if (!is_one) c->block = NULL;
    if (is_silent && c->block && scaling)
        config_remark(c, "rope_scaling is null, and model_type %s has %s all the same",
                      c->family->model_type,
                      strstr(c->family->block, "\"llama3\"") ? "llama3" : "YaRN");
    name_block(c, name);
}

// rope_parameters of a family with a block for each kind of layers.
static void check_parameters(Config *c) {
    const Json *own = config_get(c, c->config, "rope_parameters");
    bool is_something = config_is_something(own);
    const char *full = family_block_name(c->family, KIND_FULL);
    const char *sliding = family_block_name(c->family, KIND_SLIDING);
    if (is_something && own->kind != '{')
        config_reject(c, c->config, "rope_parameters", "an object of settings");
    if (config_has_type_blocks(c->family, own)) {
        for (const Json *v = json_members(own); v; v = v->next) {
            if (strcmp(v->key, full) == 0 || strcmp(v->key, sliding) == 0) continue;
            // The library saves that, too.
            bool is_plain = v->kind == 'n' || json_is(v, "default");
            if (is_plain && strcmp(v->key, "rope_type") == 0) continue;
            c->block = own;
            name_block(c, "rope_parameters");
            config_reject(c, own, v->key, "none beside %s and %s", full, sliding);
        }
        return;
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        const char *name = family_block_name(c->family, kind);
        const Json *v = json_member(own, name);
        if (v && v->kind != 'n') config_reject(c, own, name, "an object of settings");
    }
    bool has_scaling = config_is_something(json_member(c->config, "rope_scaling"));
    if (c->family->flags & FAMILY_FLAT_IS_FULL) return;
    if (is_something && has_scaling)
        config_reject(c, c->config, "rope_parameters",
                      "%s and %s in it, since there is a rope_scaling", full, sliding);
    else if (is_something && c->kind == KIND_FULL)
        config_remark(c,
                      "rope_parameters means nothing to model_type %s without %s and %s, and is "
                      "not used",
                      c->family->model_type, full, sliding);
}

// What contradicts the theta of sliding layers where their block has none.
static void remark_base(Config *c) {
    double inside, beside;
    bool has_inside = json_number(json_member(c->block, "rope_theta"), &inside);
    const char *own = c->family->theta_keys[KIND_SLIDING];
    if (own) {
        bool both = has_inside && json_member(c->config, own);
        if (both && inside != c->theta)
            config_remark(c, "%s is %.12g beside %s and rope_theta %.12g in it: %.12g counts", own,
                          c->theta, c->called.name, inside, inside);
        return;
    }
    bool is_beside = json_number(json_member(c->config, "rope_theta"), &beside);
    if (!has_inside && is_beside && beside != c->theta)
        config_remark(c,
                      "rope_theta is %.12g for full_attention alone: sliding_attention has %.12g",
                      beside, c->theta);
}

// rope_scaling, which is laid over the block of the full layers.
static void check_laid_over(Config *c, const Json *scaling, const Json *typed) {
    if (c->family->flags & FAMILY_NO_SCALING)
        config_reject(
            c, c->config, "rope_scaling",
            "none: Hugging Face 5 fails with KeyError 'sliding_attention', since it replaces "
            "rope_parameters");
    else if (scaling->kind != '{')
        config_reject(c, c->config, "rope_scaling", "an object of settings");
    if (json_members(typed))
        config_remark(c, "rope_scaling is laid over rope_parameters.full_attention");
    name_block(c, "rope_scaling");
}

// The block of a kind of layers.
static void check_typed(Config *c) {
    char name[40];
    const Json *scaling = config_get(c, c->config, "rope_scaling");
    const Json *own = json_member(c->config, "rope_parameters");
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
    if (!c->config) c->called.inside[0] = '\0';
    if (c->family && c->layout == BY_TYPE) check_typed(c);
    else if (c->layout == BY_TYPE) name_block(c, kind_keys[c->kind]);
    else if (c->config) check_one(c);
}
