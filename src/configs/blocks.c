// Finds a config's settings: the text model inside another model, and the block of each kind of its
// layers.
#include <string.h>

#include "config.h"

// Warns of settings outside the text model's config, in the configs that it is inside: no reader
// uses a block there, nor a theta, if the text model has none of its own. There may be several such
// configs.
void config_remark_outside(Config *c, const Json *whole) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters", "rope_theta"};
    bool has_theta = json_member(c->config, keys[2]) ||
                     json_is_object(json_member(c->config, "rope_parameters"));
    for (const Json *inside; (inside = family_inside(whole)); whole = inside)
        for (int i = 0; i < 3; i++)
            if ((i < 2 || !has_theta) && config_is_something(json_member(whole, keys[i])))
                config_unread(c, "%s beside %.39s is not used: its place is in it", keys[i],
                              inside->key);
}

void config_open(Config *c, const ConfigText *text) {
    bool by_type = c->family ? config_is_of(c, FAMILY_BY_TYPE)
                             : config_has_kinds(text->at[AT_PARAMETERS].value);
    c->text = text;
    c->config = text->config;
    c->longrope_alone = config_is_of(c, FAMILY_LONGROPE_ALONE);
    c->layout = by_type ? BY_TYPE : ONE_BLOCK;
}

// ---- blocks ----

bool config_has_type_blocks(const RopeFamily *family, const Json *parameters) {
    bool found = false;
    for (int kind = 0; kind < N_KINDS; kind++)
        found = found || json_is_object(json_member(parameters, family_block_name(family, kind)));
    return found;
}

bool config_has_kinds(const Json *object) {
    for (const Json *v = json_members(object); v; v = v->next) {
        bool is_kind = strcmp(v->key, kind_keys[KIND_FULL]) == 0 ||
                       strcmp(v->key, kind_keys[KIND_SLIDING]) == 0;
        if (!is_kind || v->kind != '{') return false;
    }
    return json_members(object);
}

bool config_sees_scaling_only(const Config *c) {
    bool is_lifted = c->flags & NEW_PARAMETERS && c->family->flags & FAMILY_NEW;
    return c->flags & SCALING_ONLY && !is_lifted;
}

// The place itself if it has a value; otherwise AT_NOWHERE.
static KeyPlace there(const Config *c, KeyPlace at) { return config_at(c, at) ? at : AT_NOWHERE; }

static bool has_members(const Config *c, KeyPlace at) { return json_members(config_at(c, at)); }

// Whichever of rope_scaling and rope_parameters counts. AT_NOWHERE: neither.
static KeyPlace one_of(const Config *c, KeyPlace scaling, KeyPlace parameters) {
    const bool sees_scaling_only = config_sees_scaling_only(c);
    const bool sees_parameters = !sees_scaling_only && has_members(c, parameters);
    const bool sees_scaling =
        (sees_scaling_only || !(c->flags & SCALING_ONLY)) && has_members(c, scaling);
    if (sees_parameters && (c->flags & PARAMETERS_FIRST || !sees_scaling)) return parameters;
    return sees_scaling ? scaling : AT_NOWHERE;
}

// The block of all layers, which may contain blocks for the kinds of layers.
static KeyPlace block_of_all(const Config *c) {
    const Json *parameters = config_at(c, AT_PARAMETERS);
    const bool sees_empty = parameters && parameters->kind != 'n' && !config_sees_scaling_only(c);
    KeyPlace found = one_of(c, AT_SCALING, AT_PARAMETERS);
    if (found == AT_NOWHERE && c->flags & TEXT_CONFIG)
        found = one_of(c, AT_TEXT_SCALING, AT_TEXT_PARAMETERS);
    return found == AT_NOWHERE && sees_empty ? AT_PARAMETERS : found;  // an empty block
}

static bool has_kinds_in(const Config *c, KeyPlace at) {
    return config_is_of(c, FAMILY_BY_TYPE) && config_has_type_blocks(c->family, config_at(c, at));
}

KeyPlace config_full_block(const Config *c) {
    const KeyPlace found = block_of_all(c);
    if (found == AT_NOWHERE) return c->flags & OWN_DEFAULTS ? found : there(c, AT_CLASS_FULL);
    if (!has_kinds_in(c, found)) return found;
    return c->flags & PARAMETERS_FIRST ? there(c, found + 1) : AT_NOWHERE;
}

void config_find_block(Config *c) {
    c->block = c->under = AT_NOWHERE;
    if (c->layout != BY_TYPE) {  // one block, for the full layers or for all
        if (c->kind != KIND_FULL && c->layout != ONE_BLOCK) return;
        c->block = config_full_block(c);
        if (c->block == AT_NOWHERE && has_kinds_in(c, block_of_all(c)))
            c->why_plain = "rope_parameters by layer type is not read";
        return;
    }
    // The block of the kind's name.
    const KeyPlace place = c->kind == KIND_FULL ? AT_PARAMETERS_FULL : AT_PARAMETERS_SLIDING;
    const Json *own = config_at(c, place);
    const bool is_typed = config_has_type_blocks(c->family, config_at(c, AT_PARAMETERS));
    const bool is_flat = !is_typed && has_members(c, AT_PARAMETERS);
    const bool is_for_full = is_flat && config_is_of(c, FAMILY_FLAT_IS_FULL);
    const bool has_none = !is_typed && (!is_flat || config_is_strict(c));
    if (is_typed && own && own->kind != 'n') c->block = place;
    if (has_none) c->block = there(c, c->kind == KIND_FULL ? AT_CLASS_FULL : AT_CLASS_SLIDING);
    if (c->kind != KIND_FULL) return;
    if (is_flat && !is_for_full) c->why_plain = "rope_parameters has no block for a kind of layers";
    // A block of all layers overrides the block of the full ones: rope_scaling, or flat
    // rope_parameters.
    if (!c->family || config_is_of(c, FAMILY_NO_SCALING)) return;
    const bool has_scaling = has_members(c, AT_SCALING);
    if (!has_scaling && !is_for_full) return;
    c->under = c->block;
    c->block = has_scaling ? AT_SCALING : AT_PARAMETERS;
    c->why_plain = NULL;
}
