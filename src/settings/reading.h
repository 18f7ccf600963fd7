// A config as one engine reads it: what the functions of engines.c find in it, and what they can do
// to it.
#pragma once

#include "config_reader.h"
#include "engines.h"

// How an engine differs from Hugging Face 5, where a flag is enough to say it.
enum {
    SCALING_ONLY =
        1,  // `rope_parameters` is not read, nor a block's theta and partial_rotary_factor
    PARAMETERS_FIRST = 2,  // `rope_parameters` wins over `rope_scaling`
    TEXT_CONFIG = 4,       // `text_config` is read, too
    TYPE_FIRST = 8,        // `type` wins over `rope_type`
    THROUGH_HF5 = 16,      // transformers 5 reads the config first, and may refuse it
    HAS_LIMIT = 32,        // texts end at max_position_embeddings, unless the function changes it
    PHI3_YARN = 64,        // Phi-3's yarn is an old name of longrope
    L_OF_BLOCK =
        128,         // L is the block's, also when the top level has one; llama3's default is 8192
    L_OF_MAX = 256,  // longrope's attention factor is by max_position_embeddings / L alone
    NEEDS_FACTOR = 512,  // yarn needs a factor
    SERVES = 1024,  // refuses text_config, and linear's factor if it is written without a point
    ROUNDS_RAMP = 2048,  // yarn's `truncate` is not read
    OWN_YARN = 4096,     // of yarn's block only the factor and L are read
    NEW_PARAMETERS =
        8192,  // with SCALING_ONLY: families that came with transformers 5 have `rope_parameters` read
    HAS_BELOW = 32768,     // a release of transformers may be told
    OWN_DEFAULTS = 16384,  // a missing block means no scaling, whatever the family's class has
};

// In families with FAMILY_BY_TYPE: whose settings a block has.
typedef enum {
    BY_TYPE,    // each kind has the block of its name; `rope_scaling` is laid over the full layers'
    FULL_ONLY,  // `rope_scaling`, or one block, is of the full layers; the sliding ones are plain
    ONE_BLOCK,  // one block is of all layers
} BlockLayout;

typedef struct {
    const char *whole;           // the config as it was given, a wrapper's too
    const char *config, *block;  // JSON objects; block NULL: none
    const char *under;           // an object for what the block lacks; NULL: none
    const char *type,
        *rope_type;  // the block's members of these names, at their quotes; NULL: none
    const RopeFamily *family;
    int kind;  // KIND_... of the layers
    BlockLayout layout;
    bool is_wrapped;  // the config is a wrapper's text_config
    bool is_phi3, is_su,
        was_yarn;        // Phi-3's class; the rope_type is su; it was yarn, and is longrope
    double hf5;          // the release of transformers that reads the config first
    double theta;        // where none is written
    int length, served;  // of the text; that the engine was started with, else `trained`
    double head_dim;     // as written
    int trained;         // max_position_embeddings
    int top, inside;  // original_max_position_embeddings at the top level and in the block; 0: none
    double partial;   // the share of a head that turns
    RopeType method;
    const double *one_list;  // longrope's for texts of any length; NULL: there are two
    RopeConfig *rope;        // the reading's
    const char *why_plain, *why_attention, *why_list;  // why something differs; NULL: no reason
    const char *why_theta, *why_grows;
    unsigned flags;  // of the engine
    Reading *out;
} Config;

typedef struct {
    const char *name, *version;
    const char *first, *last;  // the releases for which the facts hold
    void (*prepares)(
        Config *config);  // before the block is found, its layout above all; NULL: nothing
    void (*reads)(Config *config);  // what it does otherwise than hf5
    unsigned flags;
    const char *by_layer;  // the version of which the facts about newer families are
    const char *unknown;   // families of which nothing is known
} Engine;
extern const Engine engines[];
extern const int n_engines;

// Whether the family is none of those whose layers are alike, which were looked at first.
bool reading_is_new(const Config *c);

// Finds the text model's config, its family and its layers. False with the reason when there is no
// family.
bool reading_open(Config *c, const char *config, Error *err);
// Reads what Hugging Face 5 reads, but for the flags and the layout. False with the reason when
// there is no head.
bool reading_begin(Config *c, Error *err);
// Completes the reading after the engine's own function.
void reading_end(Config *c);

// The value of a key of the block, or of what lies under it. NULL: none.
const char *reading_member(const Config *c, const char *key);
// Adds to the reading's note.
void reading_note(const Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The engine refuses the config if it `stops`. The first reason counts.
void reading_refuse(Config *c, bool stops, const char *reason);
// The number of an object's member, or `missing` where there is none or null. The engine refuses
// what is no number.
double reading_number(Config *c, const char *object, const char *key, double missing);
// The same of the block, or of what lies under it.
double reading_block_number(Config *c, const char *key, double missing);
// Sets the attention factor, also when the block has one. 0: the method's own.
void reading_multiply_by(Config *c, double a);
// Nothing is scaled, for a reason, if `is_off`.
void reading_switch_off(Config *c, bool is_off, const char *why);
// Texts of any length turn by one of longrope's lists, for a reason.
void reading_choose_list(Config *c, bool is_long, const char *why);
// Ministral 3's queries: 1 + beta ln(1 + floor(p / L)) times as large at position p.
void reading_take_growth(Config *c);
// Which layers slide by their period: that of the config if `is_written`, else the family's.
void reading_read_layers(Config *c, bool is_written);

// Whether a value is there, and neither null nor false.
bool reading_is_on(const char *value);

// ---- verdict.c ----

// Compares a complete reading with a reference: its verdict, its note and the worst pair. Nothing
// is to compare without a reference (NULL), or where the engine refuses the config.
void reading_judge(const Config *c, const Reading *reference);

// ---- engine_gguf.c ----

// The converter of llama.cpp writes a block of the full layers, and the base of the sliding ones.
void engine_prepare_gguf(Config *c);
void engine_llama_cpp(Config *c);
void engine_ik_llama_cpp(Config *c);

// ---- engine_others.c ----

void engine_prepare_mlx_lm(Config *c);
void engine_mlx_lm(Config *c);
void engine_prepare_exllamav3(Config *c);
void engine_exllamav3(Config *c);
void engine_exllamav2(Config *c);
