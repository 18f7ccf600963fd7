// The text of a config, by key and place.
#include "slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

const char key_of_chunks[] = "dual_chunk_attention_config";

static SlotState state_of(const Json *member) {
    switch (member->kind) {
    case 'n': return SLOT_NULL;
    case '"': return SLOT_WORD;
    case 't':
    case 'f': return SLOT_FLAG;
    case '[': return SLOT_LIST;
    case '{': return SLOT_OBJECT;
    default: return SLOT_NUMBER;
    }
}

Slot slot_of(const Json *member) {
    Slot slot = {.state = member ? state_of(member) : SLOT_ABSENT, .member = member};
    json_number(member, &slot.number);
    return slot;
}

// The member of an object under the first of these names (separated by a space) that it has.
static const Json *member_of_any(const Json *object, const char *names) {
    char name[40];
    const Json *found = NULL;
    for (const char *at = names; !found && *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
        found = json_member(object, name);
    }
    return found;
}

void slots_read(const Json *object, Slot slots[N_KEYS]) {
    memset(slots, 0, N_KEYS * sizeof *slots);
    for (const Json *v = json_members(object); v; v = v->next) {
        const KeyId key = config_key(v->key);
        if (key == KEY_NONE) continue;
        const bool is_there = slots[key].member;
        slots[key] = slot_of(v);
        slots[key].twice = is_there;
    }
    for (KeyId key = KEY_NONE + 1; key < N_KEYS; key++) {
        const char *also = config_key_rows[key].also;
        const Json *other = also && !slots[key].member ? member_of_any(object, also) : NULL;
        if (!other) continue;
        slots[key].other = other;
        slots[key].twice = json_is_twice(object, other->key);
    }
}

static void read_place(ConfigText *text, KeyPlace place, const Json *value) {
    text->at[place].value = value;
    if (value) slots_read(value, text->at[place].slots);
}

// Reads a block for all layers, and the block of the full ones inside it.
static void read_block(ConfigText *text, KeyPlace place, const Json *block) {
    read_place(text, place, block);
    read_place(text, place + 1, json_member(block, family_block_name(text->family, KIND_FULL)));
}

// ---- settings by layer ----

// The member under the number of a layer, which the library pads to the width of the last number
// ("05").
static const Json *member_of_layer(const Json *object, int layer) {
    const Json *found = NULL;
    for (const Json *v = json_members(object); v; v = v->next) {
        size_t digits = strspn(v->key, "0123456789");
        bool is_number = digits > 0 && !v->key[digits];
        if (is_number && strtol(v->key, NULL, 10) == layer) found = v;
    }
    return found;
}

// Reads per_layer_config, in which newer releases write the heads of some layers under their
// numbers. If no layer of a kind has its own settings, the whole object is searched, which has no
// keys itself.
static void read_layers(ConfigText *text, const Json *by_layer) {
    ConfigLayers layers;
    const char *key, *expected;
    const bool are_known =
        config_layers(text->config, text->family, true, &layers, &key, &expected);
    for (int kind = 0; kind < N_KINDS; kind++) {
        const Json *own = NULL;
        int i = 0;
        while (are_known && i < layers.n && layers.kinds[i] != kind) i++;
        if (are_known && i < layers.n) own = member_of_layer(by_layer, i);
        read_place(text, AT_LAYER_FULL + (KeyPlace)kind, own ? own : by_layer);
    }
}

// ---- the text ----

ConfigText *config_text_read(const Json *config, const Json *alone, const RopeFamily *family,
                             Error *err) {
    ConfigText *text = alloc_array(1, sizeof *text, "a config", err);
    if (!text) return NULL;
    text->config = config;
    text->family = family;
    const char *const blocks[N_KINDS] = {family ? family->block : NULL,
                                         family ? family->sliding_block : NULL};
    for (int kind = 0; kind < N_KINDS; kind++) {
        if (!blocks[kind]) continue;
        text->of_class[kind] = json_parse(blocks[kind], strlen(blocks[kind]), err);
        if (!text->of_class[kind]) {
            config_text_free(text);
            return NULL;
        }
        read_place(text, AT_CLASS_FULL + (KeyPlace)kind, text->of_class[kind]);
    }
    const Json *inside = json_member(config, "text_config");
    const Json *by_layer = json_member(config, "per_layer_config");
    const Json *parameters = config ? json_member(config, "rope_parameters") : alone;
    read_place(text, AT_BESIDE, config);
    read_block(text, AT_SCALING, json_member(config, "rope_scaling"));
    read_block(text, AT_PARAMETERS, parameters);
    read_place(text, AT_PARAMETERS_SLIDING,
               json_member(parameters, family_block_name(family, KIND_SLIDING)));
    read_block(text, AT_TEXT_SCALING, json_member(inside, "rope_scaling"));
    read_block(text, AT_TEXT_PARAMETERS, json_member(inside, "rope_parameters"));
    read_place(text, AT_CHUNKS, json_member(config, key_of_chunks));
    if (family && family->global_head_dim && json_is_object(by_layer)) read_layers(text, by_layer);
    return text;
}

void config_text_free(ConfigText *text) {
    for (int kind = 0; text && kind < N_KINDS; kind++) free(text->of_class[kind]);
    free(text);
}
