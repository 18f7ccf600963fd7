// A reading of a config, by an engine or by this program. The record Config has the state that all
// readers share: their place in the text, the settings they found, and their messages. A key goes
// from the text to a setting through these files, in this order:
//
//   card.c     turns pasted text into an object of JSON, and completes a part of a config
//   json.c     parses it into a table: each member with its value and its line
//   family.c   finds the family of the model, and the kind of each layer
//   slots.c    the value of each key, by place: parsed once, then looked up (slots.h)
//   keys.c     the rows of keys.json: the place, type and range of a key, and its readers (keys.h)
//   values.c   the value of a key for a reader, and the messages if it cannot be used
//   types.c    the rope_types, a row each (types.h)
//   layers.c   settings that differ by layer, and checks of the block of a kind of layers
//   blocks.c   finds the settings: in the text model inside, in a block for each kind of layers
//   find.c     the settings that a method needs: type, head, lengths, theta, factors
//   read_block.c, read.c
//              this program's own reading, from the text to the settings (rope_config.h)
//   remarks.c  warnings
//   publication.c, write_block.c, write.c
//              the other direction: a plan for other programs, as a block or a config (write.h)
//
// This program is STRICT: it refuses a wrong value, and names its line and key. The exporter runs
// it with --fields. An engine accepts the values that its parser accepts, and refuses others with
// its own error.
#pragma once

#include <math.h>

#include "keys.h"
#include "rope_config.h"
#include "slots.h"
#include "types.h"

// ---- card.c: pasted settings ----

// A config.json, a block of it, or the part of it that a model card shows, as an object of JSON.
typedef struct {
    char *text;          // a copy with the same lines, changed to JSON
    Json *root;          // the table of its values
    const Json *object;  // in the table: the config or the block
    char inside[120];    // the keys of the objects that it is inside, separated by /
    bool is_config;      // a config or a part of one, rather than a block
    bool is_whole;       // a whole config: it has braces, no dots, and names its model
    char mended[80];     // if whole: the line, and the part that is not JSON; empty: none
} Card;

// Reads a text in the form of model cards: it may have a fence of backticks around it, lines before
// it that begin with #, members without braces, dots for omitted members, and a comma after the
// last member. False with the reason if it is not JSON even so.
bool card_read(Card *card, const char *text, size_t length, Error *err);
void card_free(Card *card);

// The known properties of the model that the text is for.
typedef struct {
    RopeConfig rope;
    int head_dim, max_positions;
    bool latent;
} Known;

// Writes an object as a whole config. A block by itself, or a config without a family, is completed
// from `model` as a Llama's. The caller frees it. NULL with the reason.
char *config_complete(const Card *card, const Known *model, Error *err);

// ---- readers ----

// The differences between a reader and Hugging Face 5 that a flag can express.
enum {
    // `rope_parameters`, and a block's theta and partial_rotary_factor, are not read
    SCALING_ONLY = 1,
    PARAMETERS_FIRST = 2,  // `rope_parameters` wins over `rope_scaling`
    TEXT_CONFIG = 4,       // `text_config` is also read
    TYPE_FIRST = 8,        // `type` wins over `rope_type`
    THROUGH_HF5 = 16,      // transformers 5 reads the config first, and may refuse it
    HAS_LIMIT = 32,        // texts end at max_position_embeddings, unless the engine's function
                           // changes that
    OLD_YARN = 64,         // in a family with only longrope, yarn is an old name of longrope
    // L comes from the block, even if the top level has one; llama3's default is 8192
    L_OF_BLOCK = 128,
    L_OF_MAX = 256,      // longrope's attention factor depends only on max_position_embeddings / L
    NEEDS_FACTOR = 512,  // yarn needs a factor
    // refuses text_config, and a factor of linear without a decimal point
    SERVES = 1024,
    ROUNDS_RAMP = 2048,  // yarn's `truncate` is not read
    OWN_YARN = 4096,     // only the factor and L of yarn's block are read
    // with SCALING_ONLY: `rope_parameters` is read in families that came with transformers 5
    NEW_PARAMETERS = 8192,
    OWN_DEFAULTS = 16384,  // a missing block means no scaling, whatever default the family's class
                           // has
    HAS_BELOW = 32768,     // a release of transformers below the engine may be given
    STRICT = 65536,        // this program's own reader
    // The rope_type mrope is read as default: the positions of a text are the same on its three
    // axes.
    READS_MROPE = 1 << 17,
    // dynamic with an `alpha` is ntk with that factor at every length, as in Hunyuan
    READS_ALPHA = 1 << 18,
    READS_CHUNKS = 1 << 19,  // dual_chunk_attention_config
    OWN_FLAGS = STRICT | OLD_YARN | READS_MROPE | READS_ALPHA | READS_CHUNKS,
};

// In families with FAMILY_BY_TYPE: the layers that a block is for.
typedef enum {
    BY_TYPE,    // each kind has the block of its name; `rope_scaling` overrides the full layers'
    FULL_ONLY,  // `rope_scaling`, or the only block, is for the full layers; the sliding ones are
                // plain
    ONE_BLOCK,  // the only block is for all layers
} BlockLayout;

// The name of the block in the STRICT reader's messages.
typedef struct {
    char name[48];    // "rope_scaling"
    char inside[48];  // prefix of a key in errors: "rope_scaling.", or ""
} BlockName;

// The additional state of this program's own reader.
typedef struct {
    const Json *outer;  // the config that may contain the text model's config
    RopeFile *file;     // the result
    BlockName called;
    RopeConfig model[N_KINDS];  // the settings before, of a model: its head and share are binding
    int model_head;             // 0: there is no model
    int model_sliding_head;     // of the model's sliding layers; 0: the same
    bool keeps_sliding;         // a block by itself is for the full layers of a model with two
                                // RoPEs
    bool is_any;                // the family is unverified
    bool says_theta;            // a key gives theta
    bool asked[N_KEY_PLACES][N_KEYS];  // the keys that were looked up; all others are unused
    bool good;   // no error so far; if false from the start, errors are not reported
    Error *err;  // the first error
} StrictReader;

// A reading of a text: the meaning of the text to an engine, or to this program.
typedef struct {
    // The text and its reader.
    const ConfigText *text;
    const Json *whole;         // the whole text, a wrapper included
    const Json *config;        // the text model's config in it; NULL: none, only a block
    const RopeFamily *family;  // NULL: none, which only the STRICT reader accepts
    unsigned flags;
    BlockLayout layout;
    int kind;                    // KIND_... of the layers
    const ConfigLayers *layers;  // the kinds of the layers; NULL: not known
    bool longrope_alone;         // the family has FAMILY_LONGROPE_ALONE

    // The results.
    KeyPlace block;                              // AT_NOWHERE: there is none
    KeyPlace under;                              // for keys that the block lacks; AT_NOWHERE: none
    const Json *type_member, *rope_type_member;  // of the block, `type` and `rope_type`; NULL: none
    RopeType type;
    bool is_su, was_yarn;  // the rope_type is su; it was yarn, and is longrope
    bool is_mrope;
    double alpha;        // of dynamic; 0: none
    const Json *chunks;  // the object of dual_chunk_attention_config; NULL: none
    double theta;        // used if the block has none
    int trained;         // max_position_embeddings, or its substitute; 0: not known
    int top, inside;  // original_max_position_embeddings at the top level and in the block; 0: none
    double partial;   // the share of a head that rotates
    double head_dim;  // as written
    int own_rotary_dim;    // elements of a head that rotate, if a key gives them; 0: the share
                           // counts
    double hidden, heads;  // hidden_size and num_attention_heads, if head_dim follows from them
    RopeConfig *rope;      // the settings that result

    // Only for an engine.
    struct EngineReader *as;  // in src/engines/reading.h; NULL: this program
    const char *why_plain;    // the reason why its settings are not read; NULL: none
    bool stopped;             // the engine refuses the config, or is unverified
    // Keys whose values are not numbers and count as absent, and whose strings are read as numbers.
    bool passes[N_KEYS], texts[N_KEYS];
    char note[400];  // the reason, or a note

    StrictReader *strict;  // NULL: an engine
} Config;

// ---- values.c: the value of a key for a reader ----

// The slot of a key in a place, and the value of a place (NULL: there is none).
static inline const Slot *config_slot(const Config *c, KeyPlace at, KeyId key) {
    return &c->text->at[at].slots[key];
}
static inline const Json *config_at(const Config *c, KeyPlace at) { return c->text->at[at].value; }
// The place of the block that has a key: the block itself, or the place under it.
static inline KeyPlace config_where(const Config *c, KeyId key) {
    bool is_under = !config_slot(c, c->block, key)->member && config_slot(c, c->under, key)->member;
    return is_under ? c->under : c->block;
}
// The key's member in that place, and beside the blocks. NULL: none.
static inline const Json *config_member(const Config *c, KeyId key) {
    return config_slot(c, config_where(c, key), key)->member;
}
static inline const Json *config_beside(const Config *c, KeyId key) {
    return config_slot(c, AT_BESIDE, key)->member;
}
// The member under a key or, in an unverified family, under another library's name for it. NULL:
// none.
const Json *config_value(const Config *c, KeyPlace at, KeyId key);

// Looks up a key in a place, a key in the block, or a member whose name is not a key. The STRICT
// reader records the lookup, and refuses a key that appears twice.
const Slot *config_ask(Config *c, KeyPlace at, KeyId key);
const Slot *config_ask_block(Config *c, KeyId key);
const Json *config_get(Config *c, const Json *object, const char *name);

// The largest number that is accepted.
#define CONFIG_LIMIT 1e12
// For `missing`: a number without a default. If it is missing, it is refused and becomes 0.
#define REQUIRED NAN

// The number under a key, checked against the key's row for a block of type c->type. `missing` is
// the value if the key is absent, or null where the row allows null. The STRICT reader refuses
// values that the row does not allow; an engine refuses only values that are not numbers.
double config_number(Config *c, KeyPlace at, KeyId key, double missing);
// The number under a key of the block, checked in the same way.
double config_block_number(Config *c, KeyId key, double missing);
// The length under a key in positions, at least `low`; `missing` if the key is absent.
int config_length(Config *c, KeyPlace at, KeyId key, int missing, int low);

// Whether the value is true in Python.
bool config_is_something(const Json *value);
// Whether a value gives different layers or positions different RoPEs. An empty value does not, and
// neither does a list of ones or a list that repeats one word.
bool config_is_by_layer(const Json *value);
// Makes an engine refuse the config, if `stops`. The first reason counts.
void config_refuse(Config *c, bool stops, const char *reason);
// Adds to the note of an engine's reading.
void config_note(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Makes the STRICT reader reject a key of an object, with the value that was found and the values
// that were expected.
void config_reject(Config *c, const Json *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Rejects a key in a place, in the same way.
void config_reject_key(Config *c, KeyPlace at, KeyId key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a warning, a line that is printed. The config is used nevertheless.
void config_remark(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a warning about a key that is read neither by this program nor by any engine.
void config_unread(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- blocks.c: the text model, and the place of its settings ----

// Whether an object has a block for a kind of layers of the family.
bool config_has_type_blocks(const RopeFamily *family, const Json *parameters);
// Whether all members of an object are blocks for kinds of layers.
bool config_has_kinds(const Json *object);

// Starts a reading of a text for the family c->family, with the block layout of Hugging Face 5.
void config_open(Config *c, const ConfigText *text);
// Warns of blocks and thetas outside the text model's config, in the configs that it is inside.
void config_remark_outside(Config *c, const Json *whole);
// Whether the reader does not see `rope_parameters`, nor its theta and share of a head.
bool config_sees_scaling_only(const Config *c);
// Finds the block of settings, and the block under it.
void config_find_block(Config *c);
// The block that counts for the full layers, whether it is theirs or for all layers.
KeyPlace config_full_block(const Config *c);

// ---- find.c: the settings that a method needs ----

static inline bool config_type_has(const Config *c, unsigned type_flag) {
    return type_rows[c->type].flags & type_flag;
}

static inline bool config_is_strict(const Config *c) { return c->flags & STRICT; }

static inline bool config_is_of(const Config *c, FamilyWords family_flag) {
    return c->family && c->family->flags & family_flag;
}

// The number under a key; from a list with a number for each layer, the number of the first layer
// of the kind.
double config_number_of_kind(Config *c, KeyId key, double missing);

// Whether a number that the text omits (FILLED_...) may come from file->instead, which is allowed
// for a block and for a config of an unknown family. If so, it is recorded as filled.
bool config_fills(Config *c, unsigned number);

// The functions from here on use the results of the functions above them: a block needs the layout
// and the kind of layers, the other settings need a block.

// Finds max_position_embeddings.
void config_find_most(Config *c);
// Finds c->theta, the theta that counts if the block has none. It has the family's or the model's
// theta before.
void config_find_base(Config *c);
void config_find_type(Config *c);
// Find the share of a head that rotates, and the size of a head.
void config_find_share(Config *c);
void config_find_head(Config *c);
// Finds L, the original length.
void config_find_original(Config *c);
void config_find_theta(Config *c);
void config_find_factor(Config *c);
// Finds the attention factor, and the fields that only this method has.
void config_find_fields(Config *c);
// Finds the alpha of dynamic; if there is one, config_take_alpha makes it the factor of ntk at
// every length.
void config_find_alpha(Config *c);
void config_take_alpha(Config *c);
// Finds the chunks of dual chunk attention, and sets the map dca with plain frequencies if the
// reader knows them.
void config_find_chunks(Config *c);
// Whether queries grow with their position: in some families, and according to a block without a
// family that has the keys.
bool config_grows(const Config *c);
// Finds the growth of Ministral 3's queries: a factor of 1 + beta ln(1 + floor(p / L)) at position
// p.
void config_find_growth(Config *c);

// The type with the given name.
RopeType config_type_named(const Config *c, const Json *name);
// Sets a missing factor to the length over L, if the type allows that.
void config_fill_factor(Config *c);
// Whether no layer rotates.
bool config_has_no_rope(const Config *c);
// The key of an unverified family that makes this so. KEY_NONE: none.
KeyId config_says_no_rope(const Config *c);
// Sets how much of a head rotates, according to the share: elements, or for proportional, pairs.
void config_turn(const Config *c, int head_dim);
// Reads one of longrope's lists of n positive numbers. False if there is no such list.
bool config_find_list(Config *c, KeyId key, int n, double *out);

// ---- layers.c: settings that differ by layer ----

// Refuses keys whose values differ by layer or by position, if the family does not read them.
void config_refuse_by_layer(Config *c);
// Reads the kind of each layer.
void config_read_layers(Config *c);
// Refuses wrong forms of the block of the kind of layers, warns of contradictions, and names the
// block. If each kind has a block, also finds the base, since that can be wrong as well.
void config_check_block(Config *c);

// ---- read_block.c: a block's settings, checked ----

// Reads the block of a kind of layers into the file, with its warnings.
void config_read_block(Config *c, int kind);

// ---- remarks.c: warnings ----

// Notes the keys in a place that the type of the block does not use and no function asked for.
// Refuses keys that no type has.
void config_check_keys(Config *c, KeyPlace at);
// Refuses a key of the table that appears twice in an object: in the config, in the configs that it
// is inside, or in its blocks.
void config_refuse_repeated(Config *c);
// Warn of contradictions in a block that was read; of keys that a block lacks; of keys in the wrong
// place; and of assumptions about an unverified family.
void config_remark_contradictions(Config *c);
void config_remark_absent(Config *c);
void config_remark_lost(Config *c);
void config_remark_any(Config *c);
// Warns of keys about positions that mean nothing to the family.
void config_remark_unread(Config *c);
// Warn of a block with scaling in a model where no layer rotates; and of a missing theta, if a null
// would mean that none rotates.
void config_remark_no_rope(Config *c);
void config_remark_no_theta(Config *c);
