// A config as somebody reads it: an engine, or this program. What all readers share is in this
// record: where they are in the text, what they found, and what is to be said. A key goes from the
// text to a setting by these files, in this order:
//
//   card.c     what people paste, made an object of JSON, and a part of a config made a whole one
//   json.c     that as a table: each member with its value and its line
//   family.c   which family its model is of, and which layers are of which kind
//   slots.c    what it says under each key, by place: parsed once, then looked up (slots.h)
//   keys.c     what a key is, by the rows of keys.json: its place, type, range, who reads it (keys.h)
//   values.c   a key's value, as the reader takes it, and how it is said that it cannot be used
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

#include "keys.h"
#include "rope_config.h"
#include "slots.h"
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

// ---- who reads ----

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

// What this program's own reading has besides.
typedef struct {
    const Json *outer;  // the config that the text model's may be inside
    RopeFile *file;     // what the text means
    BlockName called;
    RopeConfig model[N_KINDS];  // what was given before: a model's, whose head and share must stay
    int model_head;             // 0: there is no model
    int model_sliding_head;     // of its sliding layers; 0: the same
    bool keeps_sliding;         // a block by itself is of the full layers of a model with two RoPEs
    bool is_any;                // its family is unverified
    bool says_theta;            // a key says theta
    bool asked[N_KEY_PLACES]
              [N_KEYS];  // what was looked for: what else is there means nothing to it
    bool good;           // nothing is wrong so far; if false at first, nothing is said
    Error *err;          // the first thing that is wrong
} StrictReader;

// A reading of a text, by an engine or by this program: what the text means to it.
typedef struct {
    // What is read, and by whom.
    const ConfigText *text;
    const Json *whole;         // all that was given, a wrapper's too
    const Json *config;        // the text model's config in it; NULL: none, but a block by itself
    const RopeFamily *family;  // NULL: none, which the STRICT reader alone takes
    unsigned flags;
    BlockLayout layout;
    int kind;                    // KIND_... of the layers
    const ConfigLayers *layers;  // which there are; NULL: not known
    bool longrope_alone;         // the family has FAMILY_LONGROPE_ALONE

    // What was found.
    KeyPlace block;                              // AT_NOWHERE: there is none
    KeyPlace under;                              // of what the block lacks; AT_NOWHERE: nothing
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
    int own_rotary_dim;    // of a head, where that is said by itself; 0: by the share
    double hidden, heads;  // hidden_size and num_attention_heads, where they made it
    RopeConfig *rope;      // what becomes of it

    // Of an engine.
    struct EngineReader *as;  // in src/engines/reading.h; NULL: this program
    const char *why_plain;    // why its settings are not read; NULL: no reason
    bool stopped;             // it refuses the config, or nobody has looked
    // Keys whose values are no numbers and count as absent, and whose texts are read as numbers.
    bool passes[N_KEYS], texts[N_KEYS];
    char note[400];           // the reason, or what is worth a note

    StrictReader *strict;  // NULL: an engine
} Config;

// ---- values.c: what is under a key, as a reader takes it ----

// What is under a key in a place, and the value of a place (NULL: there is none).
static inline const Slot *config_slot(const Config *c, KeyPlace at, KeyId key) {
    return &c->text->at[at].slots[key];
}
static inline const Json *config_at(const Config *c, KeyPlace at) { return c->text->at[at].value; }
// The place of the block that has a key: itself, or what lies under it.
static inline KeyPlace config_where(const Config *c, KeyId key) {
    bool is_under = !config_slot(c, c->block, key)->member && config_slot(c, c->under, key)->member;
    return is_under ? c->under : c->block;
}
// The member of that under the key, and the one beside the blocks. NULL: none.
static inline const Json *config_member(const Config *c, KeyId key) {
    return config_slot(c, config_where(c, key), key)->member;
}
static inline const Json *config_beside(const Config *c, KeyId key) {
    return config_slot(c, AT_BESIDE, key)->member;
}
// The member under a key or, in an unverified family, another library's name of it. NULL: none.
const Json *config_said(const Config *c, KeyPlace at, KeyId key);

// Looks for a key in a place, in the block, or an object's member of a name that is no key: the STRICT
// reader keeps in mind that it asked, and refuses what is there twice.
const Slot *config_ask(Config *c, KeyPlace at, KeyId key);
const Slot *config_ask_block(Config *c, KeyId key);
const Json *config_get(Config *c, const Json *object, const char *name);

// The largest number that is taken.
#define CONFIG_LIMIT 1e12
// In place of a missing number for which nothing can count: it is refused, and 0 then.
#define REQUIRED NAN

// The number of a key by its row, for a block of c->type; `missing` counts for one that is not
// there, or null where the row takes that. The STRICT reader refuses what the row does not allow,
// an engine what is no number.
double config_number(Config *c, KeyPlace at, KeyId key, double missing);
// The same of the block.
double config_block_number(Config *c, KeyId key, double missing);
// A key's length in positions, from `low` on; `missing` if it is absent.
int config_length(Config *c, KeyPlace at, KeyId key, int missing, int low);

// Whether Python takes a value for true.
bool config_is_something(const Json *value);
// Whether a value gives layers or positions a RoPE of their own. Nothing does not, and neither do a
// list of ones and a list of one word.
bool config_is_by_layer(const Json *value);
// An engine refuses the config if it `stops`. The first reason counts.
void config_refuse(Config *c, bool stops, const char *reason);
// Adds to the note of an engine's reading.
void config_note(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The STRICT reader notes that an object's key cannot be used, with what was found and what was
// expected.
void config_reject(Config *c, const Json *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// The same of a key in a place.
void config_reject_key(Config *c, KeyPlace at, KeyId key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a warning: a line that is printed, while the config is run.
void config_remark(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a line about a key that neither this program nor any engine reads.
void config_unread(Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- blocks.c: the text model, and where its settings are ----

// Whether an object has a block for a kind of the family's layers.
bool config_has_type_blocks(const RopeFamily *family, const Json *parameters);
// Whether an object has nothing but blocks for kinds of layers.
bool config_has_kinds(const Json *object);

// Begins to read a text, whose family is c->family: as Hugging Face 5, which has its layout.
void config_open(Config *c, const ConfigText *text);
// Warns of blocks and thetas beside the text model's config, in what it is inside.
void config_remark_outside(Config *c, const Json *whole);
// Whether the reader does not see `rope_parameters`, with the theta and share of a head in it.
bool config_sees_scaling_only(const Config *c);
// The block of settings, and what lies under it.
void config_find_block(Config *c);
// The block that counts for the full layers where these have one of their own, or all layers one.
KeyPlace config_full_block(const Config *c);

// ---- find.c: what a method needs of a config ----

static inline bool config_type_has(const Config *c, unsigned type_flag) {
    return type_rows[c->type].flags & type_flag;
}

static inline bool config_is_strict(const Config *c) { return c->flags & STRICT; }

static inline bool config_is_of(const Config *c, FamilyWords family_flag) {
    return c->family && c->family->flags & family_flag;
}

// A number under a key, or in the list there that has one for each layer: that of the first layer
// of the kind.
double config_number_of_kind(Config *c, KeyId key, double missing);

// Whether a number that the text leaves out (FILLED_...) may come from file->instead, as only a block
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
bool config_has_no_rope(const Config *c);
// The key that says so of an unverified family. KEY_NONE: none does.
KeyId config_says_no_rope(const Config *c);
// How much of a head turns, by the share: elements, or with proportional pairs.
void config_turn(const Config *c, int head_dim);
// Reads one of longrope's lists of n numbers above 0. False when there is no such list.
bool config_find_list(Config *c, KeyId key, int n, double *out);

// ---- layers.c: what differs by layer ----

// Refuses, by its key, what differs by layer or by position where the family does not read it.
void config_refuse_by_layer(Config *c);
// Reads which layers are of which kind.
void config_read_layers(Config *c);
// Refuses what the block of the kind of layers must not be, warns of what contradicts it, and names
// it. With a block for each kind, finds the base as well, since that can be wrong, too.
void config_check_block(Config *c);

// ---- read_block.c: a block's settings, checked ----

// Reads the block of a kind of layers into the file, and warns of what is worth it.
void config_read_block(Config *c, int kind);

// ---- remarks.c: what is worth a warning ----

// Notes the keys of a place that the block's type does not use, which nobody asked for, and refuses
// those that no type has.
void config_check_keys(Config *c, KeyPlace at);
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
void config_remark_no_rope(Config *c);
void config_remark_no_theta(Config *c);
