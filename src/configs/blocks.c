// Where a config's settings are: the text model inside another, the block of each kind of its layers.
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
