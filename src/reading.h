// A config as one engine reads it: what the functions of engines.c find in it, and what they can do to it.
#pragma once

#include "engines.h"

// How an engine differs from Hugging Face 5, where a flag is enough to say it.
enum {
    SCALING_ONLY = 1,      // `rope_parameters` is not read, nor a block's theta and partial_rotary_factor
    PARAMETERS_FIRST = 2,  // `rope_parameters` wins over `rope_scaling`
    TEXT_CONFIG = 4,       // `text_config` is read, too
    TYPE_FIRST = 8,        // `type` wins over `rope_type`
    THROUGH_HF5 = 16,      // transformers 5 reads the config first, and may refuse it
    HAS_LIMIT = 32,        // texts end at max_position_embeddings, unless the function changes it
    PHI3_YARN = 64,        // Phi-3's yarn is an old name of longrope
    L_OF_BLOCK = 128,      // L is the block's, also when the top level has one; llama3's default is 8192
    L_OF_MAX = 256,        // longrope's attention factor is by max_position_embeddings / L alone
    NEEDS_FACTOR = 512,    // yarn needs a factor
    SERVES = 1024,         // refuses text_config, and linear's factor if it is written without a point
    ROUNDS_RAMP = 2048,    // yarn's `truncate` is not read
    OWN_YARN = 4096,       // of yarn's block only the factor and L are read
};

// A family's defaults. A head_dim of 0 is hidden_size / num_attention_heads.
typedef struct {
    const char *model_type, *architecture;
    int max_positions, head_dim;
    double theta;
} RopeFamily;
// The family of a config that json_check has passed, by its model_type or else its architecture. NULL: unknown.
const RopeFamily *rope_family(const char *config);

// The rope_types, and the rows of rope_methods that they stand for.
typedef enum { PLAIN, LINEAR, DYNAMIC, LLAMA3, YARN, LONGROPE, UNKNOWN } RopeType;
extern const char *const rope_types[UNKNOWN];
extern const int rope_type_methods[UNKNOWN + 1];

// Reads a list of n numbers above 0 for longrope. False when the block has no such list.
bool rope_list(const char *block, const char *key, int n, double *out);

typedef struct {
    const char *config, *block;    // JSON objects; block NULL: none
    const char *type, *rope_type;  // the block's members of these names, at their quotes; NULL: none
    const RopeFamily *family;
    bool is_phi3, is_su, was_yarn;  // Phi-3's class; the rope_type is su; it was yarn, and is longrope
    int length, served;             // of the text; that the engine was started with, else `trained`
    double head_dim;                // as written
    int trained;                    // max_position_embeddings
    int top, inside;                // original_max_position_embeddings at the top level and in the block; 0: none
    double partial;                 // the share of a head that turns
    RopeType method;
    const double *one_list;                            // longrope's for texts of any length; NULL: there are two
    RopeConfig *rope;                                  // the reading's
    const char *why_plain, *why_attention, *why_list;  // why something differs; NULL: no reason
    unsigned flags;                                    // of the engine
    Reading *out;
} Config;

// Reads what Hugging Face 5 reads, but for the flags. False with the reason when the config has no family or no head.
bool reading_begin(Config *c, Error *err);
// Completes the reading after the engine's own function. Compares it with a reference, if any, in verdict and note.
void reading_end(Config *c, const Reading *reference);

// Adds to the reading's note.
void note(const Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The engine refuses the config if it `stops`. The first reason counts.
void refuse(Config *c, bool stops, const char *reason);
// The number of an object's member, or `missing` where there is none or null. The engine refuses what is no number.
double number_of(Config *c, const char *object, const char *key, double missing);
// Sets the attention factor, also when the block has one. 0: the method's own.
void multiply_by(Config *c, double a);
