// The keys of RoPE in a config: the rows of src/configs/keys.json, which says what each word means.
#pragma once

#include "made/key_ids.h"
#include "types.h"

typedef enum {
    KEY_IS_ANY,
    KEY_IS_NUMBER,  // above `low`, at most `high`
    KEY_IS_WHOLE,   // from `low` to `high`
    KEY_IS_FLAG,
    KEY_IS_TEXT,
    KEY_IS_LIST,
    KEY_IS_OBJECT
} KeyType;
enum { KEY_AT_TOP = 1, KEY_AT_BLOCK = 2, KEY_AT_CHUNKS = 4 };
enum {
    TYPE_BIT_DEFAULT = 1 << TYPE_PLAIN,
    TYPE_BIT_LINEAR = 1 << TYPE_LINEAR,
    TYPE_BIT_DYNAMIC = 1 << TYPE_DYNAMIC,
    TYPE_BIT_PROPORTIONAL = 1 << TYPE_PROPORTIONAL,
    TYPE_BIT_LLAMA3 = 1 << TYPE_LLAMA3,
    TYPE_BIT_YARN = 1 << TYPE_YARN,
    TYPE_BIT_LONGROPE = 1 << TYPE_LONGROPE,
};
typedef struct {
    const char *name;
    unsigned at;
    KeyType type;
    double low, high;
    // Bits of rope_types: which read it in a block, which cannot do without it, which take a null
    // for nothing, and which are warned of its absence.
    unsigned types, needed, null, absent_in;
    bool zero, by_layer, misplaced;
    bool saved;                                 // the library writes it itself, and nobody reads it
    bool of_some;                               // some families alone read it
    const char *absent, *read_by, *misspelled;  // NULL: nothing
    // In unverified families: other names of it, and the values with which layers turn;
    // NULL: none, and it says nothing of that.
    const char *also, *turns;
} ConfigKey;

// The rows of the table of keys, from KEY_NONE + 1 on.
extern const ConfigKey config_key_rows[N_KEYS];
// What an object is that is no config, by its keys. NULL: it may be one.
const char *config_other_file(const Json *object);
// The key of a name. KEY_NONE: it is no key.
KeyId config_key(const char *name);
// The key of a place (KEY_AT_...) that a name, which is no key, is written like. NULL: none is near.
const char *config_key_meant(const char *name, unsigned at);

// A value in a message: a string without its quotes, anything else as it is written; cut to the room.
typedef struct {
    char text[40];
} Word;
Word config_word(const Json *value);
// And the key of a member.
Word config_key_word(const Json *member);
