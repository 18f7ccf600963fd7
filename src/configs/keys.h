// The keys of RoPE in a config: the rows of src/configs/keys.json, which explains each field.
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
    // Bits of rope_types: those that read the key in a block, that cannot do without it, that treat
    // a null as absent, and whose absence causes a warning.
    unsigned types, needed, null, absent_in;
    bool zero, by_layer, misplaced;
    bool saved;                                 // the library writes it, no reader uses it
    bool of_some;                               // only some families read it
    const char *absent, *read_by, *misspelled;  // NULL: none
    // For unverified families: other names of the key, and the values with which layers rotate;
    // NULL: none, and the key does not affect that.
    const char *also, *turns;
} ConfigKey;

// The rows of the table of keys, from KEY_NONE + 1 on.
extern const ConfigKey config_key_rows[N_KEYS];
// The kind of file that an object is, judging from its keys, if it is not a config. NULL: it may be
// one.
const char *config_other_file(const Json *object);
// The key of a name. KEY_NONE: it is not a key.
KeyId config_key(const char *name);
// The key of a place (KEY_AT_...) that a name resembles, which is not a key itself. NULL: none is
// near.
const char *config_key_meant(const char *name, unsigned at);

// A value in a message: a string without its quotes, other values as they are written, cut to this
// size.
typedef struct {
    char text[40];
} Word;
Word config_word(const Json *value);
// The key of a member, in the same way.
Word config_key_word(const Json *member);
