// A config as this program reads it, by the exporter's rules (export/rope.py): what the parts of
// the reader share. tests/rope_cases.py holds both to the same.
#pragma once

#include "families.h"
#include "rope_config.h"

// The rope_types, and the rows of rope_methods that they stand for.
typedef enum {
    TYPE_PLAIN,
    TYPE_LINEAR,
    TYPE_DYNAMIC,
    TYPE_PROPORTIONAL,
    TYPE_LLAMA3,
    TYPE_YARN,
    TYPE_LONGROPE,
    TYPE_UNKNOWN
} RopeType;
extern const char *const rope_types[TYPE_UNKNOWN];
extern const int rope_type_methods[TYPE_UNKNOWN + 1];

// Reads a list of n numbers above 0 for longrope. False when the block has no such list.
bool config_list(const char *block, const char *key, int n, double *out);

// Whether a number may be missing, null as well, or even zero. A default replaces what is missing
// or null.
typedef enum { REQUIRED, OPTIONAL, NULL_TOO, UNSAID } MayBe;

// The largest number that is taken.
#define CONFIG_LIMIT 1e12

// A block of settings, and the one that it is laid over.
typedef struct {
    const char *object, *under;  // in the text; NULL: none, so no keys
    char inside[48];             // what errors have before a key: "rope_scaling.", or nothing
    char name[48];               // "rope_scaling"
    uint64_t asked[2];  // a bit for each of the first 64 members of the two that was looked for
} Block;

typedef struct {
    const char *text,
        *config;        // the whole text, and the text model's config in it; NULL: none, so no keys
    const char *alone;  // the object of the text where it is a block; NULL: it is none
    Block block;        // the one that is read
    const RopeFamily *family;  // NULL: none
    bool is_llama;             // a whole config without a family or a model: a Llama's
    bool by_kind;              // each kind of layers has a block
    int kind;                  // KIND_... of the layers whose block is read
    RopeType type;
    RopeFile *file;
    RopeConfig *rope;          // of the file, of this kind of layers
    bool keeps_sliding;        // a block by itself is of the full layers of a model with two RoPEs
    int train_ctx;             // as it was given
    int head_dim;              // the model's; 0: there is no model
    int rotary_dims[N_KINDS];  // of which so many turn
    bool good;                 // nothing is wrong so far
    Error *err;                // the first thing that is wrong
} Reader;

// A string of the text without its quotes.
typedef struct {
    char text[40];
} Word;
Word config_word(const char *quoted);

// The line of a place in the text; 1 for what is not in it.
int config_line(const Reader *r, const char *place);
// Notes that an object's key cannot be used, with what was found and what was expected.
void config_reject(Reader *r, const char *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a line to what is worth a warning.
void config_remark(Reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// A key's value, or NULL. A key that is there twice is refused.
const char *config_get(Reader *r, const char *object, const char *key);
// The object of the block that has a key: itself, or what lies under it.
const char *config_object_with(const Reader *r, const char *key);
// The same of the block.
const char *config_block_get(Reader *r, const char *key);
// A key's number above `low`, or, with a `high`, whole and from `low` to `high`. `missing` if it is
// absent and may be.
double config_number(Reader *r, const char *object, const char *key, double missing, int low,
                     int high, MayBe may_be);
// Whether Python takes a value for true.
bool config_is_something(const char *v);
// Whether an object has a block for a kind of layers.
bool config_has_type_blocks(const char *parameters);
// Whether an object has nothing but blocks for kinds of layers.
bool config_has_kinds(const char *object);
