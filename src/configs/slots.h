// The RoPE settings in the text of a config, by key and place: parsed once, and then only looked
// up.
#pragma once

#include "family.h"
#include "json.h"
#include "made/key_ids.h"

// The kind of value under a key.
typedef enum {
    SLOT_ABSENT,
    SLOT_NULL,
    SLOT_NUMBER,
    SLOT_WORD,
    SLOT_FLAG,
    SLOT_LIST,
    SLOT_OBJECT
} SlotState;

typedef struct {
    SlotState state;
    double number;       // of SLOT_NUMBER
    const Json *member;  // NULL: absent
    const Json *other;   // the member under another library's name (ConfigKey.also), if absent;
                         // NULL: none
    bool twice;          // the object has this key more than once; the last one counts
} Slot;

// The places of keys. A block for all layers may contain blocks for kinds of layers: the block of
// the full ones has the next number.
typedef enum {
    AT_NOWHERE,
    AT_BESIDE,   // the text model's config, outside the blocks
    AT_SCALING,  // rope_scaling
    AT_SCALING_FULL,
    AT_PARAMETERS,  // rope_parameters, or a text that is a block by itself
    AT_PARAMETERS_FULL,
    AT_PARAMETERS_SLIDING,
    AT_TEXT_SCALING,  // the same places in a text_config of the text model's config, which some
                      // engines read
    AT_TEXT_SCALING_FULL,
    AT_TEXT_PARAMETERS,
    AT_TEXT_PARAMETERS_FULL,
    AT_CHUNKS,      // dual_chunk_attention_config
    AT_CLASS_FULL,  // the default blocks of the family's class, by kind of layers
    AT_CLASS_SLIDING,
    AT_LAYER_FULL,  // the settings of the first layer of a kind in per_layer_config
    AT_LAYER_SLIDING,
    N_KEY_PLACES
} KeyPlace;

typedef struct {
    const Json *value;  // of any kind; NULL: there is none, and all slots are absent
    Slot slots[N_KEYS];
} PlaceSlots;

// The parsed text. It does not change once it is read, and all its readers share it.
typedef struct {
    const Json *config;        // the text model's config; NULL: none, only a block
    const RopeFamily *family;  // the family it names; NULL: none that has a row
    Json *of_class[N_KINDS];   // the default blocks of its class; NULL: none
    PlaceSlots at[N_KEY_PLACES];
} ConfigText;

// Reads a config with its family (NULL: none), or (config NULL) a block by itself. NULL with the
// reason if there is no memory.
ConfigText *config_text_read(const Json *config, const Json *alone, const RopeFamily *family,
                             Error *err);
void config_text_free(ConfigText *text);

extern const char key_of_chunks[];  // "dual_chunk_attention_config"

// The slots of an object, which may be any value; and the slot for a member (NULL: absent).
void slots_read(const Json *object, Slot slots[N_KEYS]);
Slot slot_of(const Json *member);
