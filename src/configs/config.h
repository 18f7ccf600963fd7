// A config as somebody reads it: an engine, or this program. What all readers share is in this
// record: where they are in the text, what they found, and what is to be said. A key goes from the
// text to a setting by these files, in this order:
//
//   card.c     what people paste, made an object of JSON, and a part of a config made a whole one
//   json.c     that as a table: each member with its value, its line, and whether it was asked for
//   family.c   which family its model is of, and which layers are of which kind
//   keys.c     what a key is, by the rows of keys.json: its place, type, range, who reads it
//   types.c    what a rope_type is: a row each (types.h)
//   layers.c   what differs by layer, and what the block of a kind of layers must not be
//   blocks.c   where settings are: in the text model inside, in a block for each kind of layers
//   find.c     what a method needs: type, head, lengths, theta, factors
//   read_block.c, read.c
//              this program's own reading, from the text to the settings (rope_config.h)
//   remarks.c  what is worth a warning
//   publication.c, write_block.c, write.c
//              the way back: what of a plan others can have, and that as a block or a config (write.h)
//
// This program is STRICT: it refuses a wrong value by its line and key. The exporter asks it by
// --fields. An engine takes what its parser takes, and refuses by an error of its own.
#pragma once

#include <math.h>

#include "family.h"
#include "json.h"
#include "rope_config.h"
#include "types.h"

// ---- card.c: what people paste ----

// A config.json, a block of it, or what a model card shows of one, as an object of JSON.
typedef struct {
    char *text;          // a copy with the same lines, made JSON
    Json *root;          // its table
    const Json *object;  // in it: the config or the block
    char inside[120];    // the keys of the objects that it is in, with / between them
    bool is_config;      // a config or a part of one, rather than a block
    bool is_whole;    // a whole config: braces of its own, no dots, and it says what model it is of
    char mended[80];  // of a whole one: the line, and what there is no JSON; empty: all of it is
} Card;

// Reads a text as in model cards: a fence of backticks around it, lines in front that begin
// with #, members without braces, dots for the rest, a comma after the last member. False with the
// reason when it is no JSON for all that.
bool card_read(Card *card, const char *text, size_t length, Error *err);
void card_free(Card *card);

// What is known of a model beside the text.
typedef struct {
    RopeConfig rope;
    int head_dim, max_positions;
    bool latent;
} Known;

// An object as a whole config. A block alone, or a config without a family, gets what it lacks from
// `model` as a Llama's. The caller frees it. NULL with the reason.
char *config_complete(const Card *card, const Known *model, Error *err);

// ---- keys.c: what a key is ----

// A key of RoPE in a config: a row of src/configs/keys.json, which says what each word means.
typedef enum {
    KEY_ANY,
    KEY_NUMBER,  // above `low`, at most `high`
    KEY_WHOLE,   // from `low` to `high`
    KEY_FLAG,
    KEY_TEXT,
    KEY_LIST,
    KEY_OBJECT
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

// How a reader differs from Hugging Face 5, where a flag is enough to say it.
enum {
    // `rope_parameters` is not read, nor a block's theta and partial_rotary_factor
    SCALING_ONLY = 1,
    PARAMETERS_FIRST = 2,  // `rope_parameters` wins over `rope_scaling`
    TEXT_CONFIG = 4,       // `text_config` is read, too
    TYPE_FIRST = 8,        // `type` wins over `rope_type`
    THROUGH_HF5 = 16,      // transformers 5 reads the config first, and may refuse it
    HAS_LIMIT = 32,        // texts end at max_position_embeddings, unless the function changes it
    OLD_YARN = 64,         // in a family with longrope alone, yarn is an old name of it
    // L is the block's, also when the top level has one; llama3's default is 8192
    L_OF_BLOCK = 128,
    L_OF_MAX = 256,      // longrope's attention factor is by max_position_embeddings / L alone
    NEEDS_FACTOR = 512,  // yarn needs a factor
    // refuses text_config, and linear's factor if it is written without a point
    SERVES = 1024,
    ROUNDS_RAMP = 2048,  // yarn's `truncate` is not read
    OWN_YARN = 4096,     // of yarn's block only the factor and L are read
    // with SCALING_ONLY: families that came with transformers 5 have `rope_parameters` read
    NEW_PARAMETERS = 8192,
    OWN_DEFAULTS = 16384,  // a missing block means no scaling, whatever the family's class has
    HAS_BELOW = 32768,     // a release of transformers may be told
    STRICT = 65536,        // this program
    // The rope_type mrope is read as default: a text's positions are equal on its three axes.
    READS_MROPE = 1 << 17,
    // dynamic with an `alpha` is ntk by that factor at every length, as in Hunyuan
    READS_ALPHA = 1 << 18,
    READS_CHUNKS = 1 << 19,  // dual_chunk_attention_config
    OWN_FLAGS = STRICT | OLD_YARN | READS_MROPE | READS_ALPHA | READS_CHUNKS,
};

// In families with FAMILY_BY_TYPE: whose settings a block has.
typedef enum {
    BY_TYPE,    // each kind has the block of its name; `rope_scaling` is laid over the full layers'
    FULL_ONLY,  // `rope_scaling`, or one block, is of the full layers; the sliding ones are plain
    ONE_BLOCK,  // one block is of all layers
} BlockLayout;

// How the STRICT reader names the block in what it says.
typedef struct {
    char name[48];    // "rope_scaling"
    char inside[48];  // what errors have before a key: "rope_scaling.", or nothing
} BlockName;

typedef struct {
    // What is read, and by whom.
    const Json *whole;         // all that was given, a wrapper's too
    const Json *outer;         // the config that it may be inside
    const Json *config;        // the text model's config in it; NULL: none, so no keys
    const Json *alone;         // the object of a text that is a block by itself; NULL: it is not
    const RopeFamily *family;  // NULL: none, which the STRICT reader alone takes
    Json *of_class[N_KINDS];   // the blocks that its class has; NULL: none
    unsigned flags;
    BlockLayout layout;
    int kind;                    // KIND_... of the layers
    const ConfigLayers *layers;  // which there are; NULL: not known
    bool longrope_alone;         // the family has FAMILY_LONGROPE_ALONE

    // What was found.
    const Json *block;                           // an object; NULL: none
    const Json *under;                           // an object for what the block lacks; NULL: none
    const Json *type_member, *rope_type_member;  // of the block, `type` and `rope_type`; NULL: none
    RopeType type;
    bool is_su, was_yarn;  // the rope_type is su; it was yarn, and is longrope
    bool is_mrope;
    double alpha;        // of dynamic; 0: none
    const Json *chunks;  // the object of dual_chunk_attention_config; NULL: none
    double theta;        // where the block has none
    int trained;         // max_position_embeddings, or what counts in its place; 0: not known
    int top, inside;  // original_max_position_embeddings at the top level and in the block; 0: none
    double partial;   // the share of a head that turns
    double head_dim;  // as written
    int own_rotary_dim;  // of a head, where that is said by itself; 0: by the share
    double hidden, heads;  // hidden_size and num_attention_heads, where they made it
    RopeConfig *rope;      // what becomes of it

    // Of an engine.
    struct EngineReader *as;  // in src/engines/reading.h; NULL: this program
    const char *why_plain;    // why its settings are not read; NULL: no reason
    bool stopped;             // it refuses the config, or nobody has looked
    char note[400];           // the reason, or what is worth a note

    // Of the STRICT reader.
    BlockName called;
    RopeFile *file;
    RopeConfig model[N_KINDS];  // what was given before: a model's, whose head and share must stay
    int model_head;             // 0: there is no model
    int model_sliding_head;     // of its sliding layers; 0: the same
    bool keeps_sliding;         // a block by itself is of the full layers of a model with two RoPEs
    bool is_any;                // its family is unverified
    bool says_theta;            // a key says theta
    bool good;                  // nothing is wrong so far; if false at first, nothing is said
    Error *err;                 // the first thing that is wrong
} Config;

// ---- keys.c: looking up ----

// A value in a message: a string without its quotes, anything else as it is written; cut to the room.
typedef struct {
    char text[40];
} Word;
Word config_word(const Json *value);
// And the key of a member.
Word config_key_word(const Json *member);

// The member of an object under a key, or NULL. The STRICT reader refuses a key that is there twice,
// and keeps in mind that it was asked for.
const Json *config_get(Config *c, const Json *object, const char *key);
// The object of the block that has a key: itself, or what lies under it.
const Json *config_object_with(const Config *c, const char *key);
// The member of that under the key. NULL: none. The second counts as asking for it.
const Json *config_member(const Config *c, const char *key);
const Json *config_block_get(Config *c, const char *key);

// The rows of the table of keys.
extern const ConfigKey *const config_key_rows;
extern const int n_config_keys;
// What an object is that is no config, by its keys. NULL: it may be one.
const char *config_other_file(const Json *object);
// The row of a key. NULL: there is none.
const ConfigKey *config_key(const char *name);
// The key of a place (KEY_AT_...) that a name, which is no key, is written like. NULL: none is near.
const char *config_key_meant(const char *name, unsigned at);

// The name under which an object has a key: its own, or another, in an unverified family.
const char *config_name_in(const Config *c, const Json *object, const char *key, Word *room);

// The largest number that is taken.
#define CONFIG_LIMIT 1e12
// In place of a missing number for which nothing can count: it is refused, and 0 then.
#define REQUIRED NAN

// The number of a key by its row, for a block of c->type; `missing` counts for one that is not
// there, or null where the row takes that. The STRICT reader refuses what the row does not allow,
// an engine what is no number.
double config_number(Config *c, const Json *object, const char *key, double missing);
// A key's length in positions, from `low` on; `missing` if it is absent.
int config_length(Config *c, const Json *object, const char *key, int missing, int low);

// Whether Python takes a value for true.
bool config_is_something(const Json *value);
// Whether a value gives layers or positions a RoPE of their own. Nothing does not, and neither do a
// list of ones and a list of one word.
bool config_is_by_layer(const Json *value);
// Whether an object has a block for a kind of the family's layers.
bool config_has_type_blocks(const RopeFamily *family, const Json *parameters);
// Whether an object has nothing but blocks for kinds of layers.
bool config_has_kinds(const Json *object);

// An engine refuses the config if it `stops`. The first reason counts.
void config_refuse(Config *c, bool stops, const char *reason);
// Adds to the note of an engine's reading.
void config_note(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The STRICT reader notes that an object's key cannot be used, with what was found and what was
// expected.
void config_reject(Config *c, const Json *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a warning: a line that is printed, while the config is run.
void config_remark(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a line about a key that neither this program nor any engine reads.
void config_unread(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- blocks.c: the text model, and where its settings are ----

// Finds the text model's config in c->config, and its family by what `named` says (NULL: none), or the
// first of all if `is_first`. Its layout is that of Hugging Face 5. False with the reason when there is
// no memory; config_close frees what it takes.
bool config_find_family(Config *c, const Json *named, bool is_first, Error *err);
void config_close(Config *c);
// Whether the reader does not see `rope_parameters`, with the theta and share of a head in it.
bool config_sees_scaling_only(const Config *c);
// The block of settings, and what lies under it.
void config_find_block(Config *c);

// ---- find.c: what a method needs of a config ----

extern const char key_of_original[];  // of L: "original_max_position_embeddings"
extern const char key_of_chunks[];    // "dual_chunk_attention_config"

static inline bool config_type_has(const Config *c, unsigned type_flag) {
    return type_rows[c->type].flags & type_flag;
}

static inline bool config_is_strict(const Config *c) { return c->flags & STRICT; }

static inline bool config_is_of(const Config *c, FamilyWords family_flag) {
    return c->family && c->family->flags & family_flag;
}

// A number under a key, or in the list there that has one for each layer: that of the first layer
// of the kind.
double config_number_of_kind(Config *c, const char *key, double missing);

// Whether a number that the text leaves out (FILLED_...) may come from c->file->instead, as only a block
// and a config of an unknown family may; it then counts as filled.
bool config_fills(Config *c, unsigned number);

// Functions from here on go on with what those above them found: a block needs the layout and the
// kind of layers, the rest a block.

// max_position_embeddings.
void config_find_most(Config *c);
// Finds the theta that counts for a missing one of the block: c->theta, which has the family's or the
// model's before.
void config_find_base(Config *c);
void config_find_type(Config *c);
// The share of a head that turns, and the head.
void config_find_share(Config *c);
void config_find_head(Config *c);
// L.
void config_find_original(Config *c);
void config_find_theta(Config *c);
void config_find_factor(Config *c);
// The attention factor, and the fields of the method alone.
void config_find_fields(Config *c);
// The alpha of dynamic; and ntk with it as the factor at every length, where there is one.
void config_find_alpha(Config *c);
void config_take_alpha(Config *c);
// The chunks of dual chunk attention: the map dca of plain frequencies, where the reader knows them.
void config_find_chunks(Config *c);
// Whether queries grow with their position: in some families, and by a block that says so and is of
// none.
bool config_grows(const Config *c);
// Ministral 3's queries: 1 + beta ln(1 + floor(p / L)) times as large at position p.
void config_find_growth(Config *c);

// The type that a string is the name of.
RopeType config_type_named(const Config *c, const Json *name);
// A factor that is missing is the length over L, where the type allows that.
void config_fill_factor(Config *c);
// Whether no layer turns.
bool config_is_still(const Config *c);
// The key that says so of an unverified family. NULL: none does.
const ConfigKey *config_says_still(const Config *c);
// How much of a head turns, by the share: elements, or with proportional pairs.
void config_turn(const Config *c, int head_dim);
// Reads one of longrope's lists of n numbers above 0. False when there is no such list.
bool config_find_list(Config *c, const char *key, int n, double *out);

// ---- layers.c: what differs by layer ----

// Refuses, by its key, what differs by layer or by position where the family does not read it.
void config_refuse_by_layer(Config *c);
// Reads which layers are of which kind.
void config_read_layers(Config *c);
// Refuses what the block of the kind of layers must not be, warns of what contradicts it, and names
// it. With a block for each kind, finds the base as well, since that can be wrong, too.
void config_check_block(Config *c);

// ---- read_block.c: a block's settings, checked ----

// Reads the block of a kind of layers into c->file, and warns of what is worth it.
void config_read_block(Config *c, int kind);

// ---- remarks.c: what is worth a warning ----

// Notes the keys of an object that the block's type does not use, which nobody asked for, and refuses
// those that no type has.
void config_check_keys(Config *c, const Json *object);
// Refuses a key of the table that an object has twice: the config, in what it is inside, or in its
// objects of settings.
void config_refuse_repeated(Config *c);
// Warn of what a block that was read contradicts or lacks; of keys that are lost where they are; and
// of what was taken for granted of an unverified family.
void config_remark_contradictions(Config *c);
void config_remark_absent(Config *c);
void config_remark_lost(Config *c);
void config_remark_any(Config *c);
// Warns of keys that speak of positions and mean nothing to the family.
void config_remark_unread(Config *c);
// Warns of a block that scales, where no layer turns; and of a missing theta, where a null would say
// that none does.
void config_remark_still(Config *c);
void config_remark_no_theta(Config *c);
