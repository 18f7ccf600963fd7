// What the text of a config says of RoPE, by key and place: parsed once, and then only looked up.
#pragma once

#include "family.h"
#include "json.h"
#include "made/key_ids.h"

// What is under a key.
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
    const Json *other;   // then, under another library's name (ConfigKey.also); NULL: none
    bool twice;          // the object has that one more than once, and the last one counts
} Slot;

// Where keys are. A block for all layers may have blocks for kinds of them inside: that of the full
// ones has the next number.
typedef enum {
    AT_NOWHERE,
    AT_BESIDE,   // the text model's config, with what is beside the blocks
    AT_SCALING,  // rope_scaling
    AT_SCALING_FULL,
    AT_PARAMETERS,  // rope_parameters, or a text that is a block by itself
    AT_PARAMETERS_FULL,
    AT_PARAMETERS_SLIDING,
    AT_TEXT_SCALING,  // both in a text_config of the text model's config, which some engines read
    AT_TEXT_SCALING_FULL,
    AT_TEXT_PARAMETERS,
    AT_TEXT_PARAMETERS_FULL,
    AT_CHUNKS,      // dual_chunk_attention_config
    AT_CLASS_FULL,  // the blocks that its class has, by kind of layers
    AT_CLASS_SLIDING,
    AT_LAYER_FULL,  // in per_layer_config, what the first layer of a kind has of its own
    AT_LAYER_SLIDING,
    N_KEY_PLACES
} KeyPlace;

typedef struct {
    const Json *value;  // of any kind; NULL: there is none, and all slots are absent
    Slot slots[N_KEYS];
} PlaceSlots;

// What a text says. Nothing changes it once it is read, and all readers of it share it.
typedef struct {
    const Json *config;        // the text model's config; NULL: none, but a block by itself
    const RopeFamily *family;  // which it names; NULL: none that has a row
    Json *of_class[N_KINDS];   // the blocks of its class; NULL: none
    PlaceSlots at[N_KEY_PLACES];
} ConfigText;

// Reads a config with its family (NULL: none), or (config NULL) a block by itself. NULL with the
// reason when there is no memory.
ConfigText *config_text_read(const Json *config, const Json *alone, const RopeFamily *family,
                             Error *err);
void config_text_free(ConfigText *text);

extern const char key_of_chunks[];  // "dual_chunk_attention_config"

// The slots of an object, which may be anything; and a slot with a member (NULL: absent).
void slots_read(const Json *object, Slot slots[N_KEYS]);
Slot slot_of(const Json *member);
