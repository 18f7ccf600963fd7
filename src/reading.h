// A config on its way through one engine: what the functions of engines.c find in it, and what they can do to it.
#pragma once

#include "engines.h"

// What an engine does otherwise than Hugging Face 5, where a word is enough for it.
enum {
    SCALING_ONLY = 1,      // `rope_parameters` is not read, nor a theta or a part that stands in a block
    PARAMETERS_FIRST = 2,  // `rope_parameters` wins over `rope_scaling`
    TEXT_CONFIG = 4,       // what stands in `text_config` counts, too
    TYPE_FIRST = 8,        // `type` wins over `rope_type`
    THROUGH_HF5 = 16,      // transformers 5 reads the config first, and refuses what it does not know
    HAS_LIMIT = 32,        // texts end at max_position_embeddings, unless the function says more
    PHI3_YARN = 64,        // Phi-3's yarn is an old name of longrope
    L_OF_BLOCK = 128,      // the original length is the block's, whatever the top level says; llama3's may be 8192
    L_OF_MAX = 256,        // longrope's temperature is by max_position_embeddings / L alone
    NEEDS_FACTOR = 512,    // yarn's factor has to be a number
    SERVES = 1024,         // no text_config, and linear's factor is written with a point
    ROUNDS_RAMP = 2048,    // yarn's `truncate` is not read
    OWN_YARN = 4096,       // nothing of yarn's block is read but the factor and L
};

// What a family's class fills in where its config says nothing; a head_dim of 0 is hidden_size / num_attention_heads.
typedef struct {
    const char *model_type, *architecture;
    int max_positions, head_dim;
    double theta;
} RopeFamily;
// The family of a config that json_check has passed, by its model_type or else its architecture; NULL: none of ours.
const RopeFamily *rope_family(const char *config);

// The rope_types, and the rows of rope_methods that they stand for.
typedef enum { PLAIN, LINEAR, DYNAMIC, LLAMA3, YARN, LONGROPE, UNKNOWN } RopeType;
extern const char *const rope_types[UNKNOWN];
extern const int rope_type_methods[UNKNOWN + 1];

// Reads one of longrope's lists, n numbers above 0. False when the block has no such list.
bool rope_list(const char *block, const char *key, int n, double *out);

typedef struct {
    const char *config, *block;     // JSON objects; block NULL: none
    const char *type, *rope_type;   // the block's members of these names, at their quotes; NULL: none
    const RopeFamily *family;       // what the config's class fills in
    bool is_phi3, is_su, was_yarn;  // Phi-3's class; the rope_type is su; it was yarn, and is longrope
    int length, served;             // of the text; that the engine was started with, or else `trained`
    double head_dim;                // as it is written
    int trained;                    // max_position_embeddings
    int top, inside;                // original_max_position_embeddings at the top level and in the block; 0: none
    double partial;                 // the share of a head that turns
    RopeType method;                // in force
    const double *one_list;         // longrope's for texts of any length, NULL: there are two
    RopeConfig *rope;               // the reading's, as the block has it
    const char *why_plain, *why_attention, *why_list;  // of what is otherwise, in a few words; NULL: nothing to say
    unsigned flags;                                    // of the engine
    Reading *out;
} Config;

// What Hugging Face 5 finds where the flags say. False with the reason when the config has no family or no head.
bool reading_begin(Config *c, Error *err);
// Completes the reading when its engine has had its say: the verdict beside a reference, and what is otherwise.
void reading_end(Config *c, const Reading *reference);

// Adds to what is said of the engine.
void note(const Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The engine stops here, if so. The first reason counts.
void refuse(Config *c, bool stops, const char *reason);
// The number of an object's member, or `missing` where there is none or null.
double number_of(Config *c, const char *object, const char *key, double missing);
// cos and sin are multiplied by `a`, 0: by the method's own factor, whatever the block says.
void multiply_by(Config *c, double a);
