// This program's reading of RoPE's settings in a config.json of Hugging Face, or a block of it.
#pragma once

#include "../../rope.h"
#include "../base/util.h"
#include "family.h"

// The sizes that a whole config must have in common with the model it is used with.
typedef struct {
    // 0: there is no model, or the size differs between its layers
    int dim, n_layers, n_heads, n_kv_heads;
} ModelSizes;

// Numbers that replace the ones that a block, or a config of an unknown family, omits.
typedef struct {
    int head_dim;
    double theta;
    int train_ctx;
} StandIns;
enum { FILLED_HEAD_DIM = 1, FILLED_THETA = 2, FILLED_TRAIN_CTX = 4 };

// A model's settings before rope_config_parse, the file's settings after it. `rope` and `sliding`
// point to the lists in this struct, so it must not be moved.
typedef struct {
    RopeConfig rope;  // without defaults; a theta or length of 0 is not known
    // for sliding layers, in the same form; equal to `rope` if they have no settings of their own
    RopeConfig sliding;
    bool by_layer;         // some layers slide, and rotate according to `sliding`
    bool by_kind;          // each kind of layers has its own block
    bool bare_full;        // full layers do not rotate
    bool no_rope;          // no layer rotates
    ConfigLayers layers;   // the kind of each layer; none: not known
    char directions[200];  // in words, that queries also see later positions; empty: they do not
    LayersWithoutRope without_rope;  // layers without RoPE, if the family lists them
    ModelSizes sizes;      // of the model
    bool latent;           // the model has latent attention: mscale_all_dim scales its scores
    int head_dim;          // rope.rotary_dim of its elements rotate; 0: not known
    int sliding_head_dim;  // of sliding layers, if each kind has its own; 0: head_dim
    int max_positions;     // the model's context; 0: not known
    bool original_unsaid;  // a yarn without L: max_position_embeddings counts as L
    // An original length in or beside the block of a method that only uses it as the length that
    // its factor counts from; 0: none.
    int named_original;
    bool counts_factor;  // there is no such length either, and max_positions already includes
                         // linear's factor
    bool has_type;       // the block has a rope_type
    // Pairs of a head that rotate with time, height and width, in models that see pictures, and
    // whether they are interleaved; zeros: the file has none. In a text all three are the position.
    int axes[3];
    bool axes_in_turns;
    char unused[200];    // keys that its rope_type does not use, separated by commas
    char remarks[2400];  // other warnings, each with a newline: contradictions
    char unread[1600];   // the warnings about keys that no engine reads either
    char refused[sizeof((Error *)0)
                     ->text];  // the reason for a refusal, for engines_read; empty: none
    bool is_malformed;         // the refusal was for a value that its key cannot have
    char not_json[80];  // of a whole config: the text that is not JSON, which engines refuse;
                        // empty: none
    // longrope's lists, for each kind of layers
    double short_factors[N_KINDS][ROPE_MAX_PAIRS], long_factors[N_KINDS][ROPE_MAX_PAIRS];
    const char *model_type;  // the file's; NULL: none that has a row
    bool is_unknown;         // it names a family that has no row
    const char *wrapper;     // the architecture of a model that contains the text model; NULL: none
    char inside[240];        // the keys of nested configs, separated by /
    StandIns instead;        // given by the caller; zeros: none
    unsigned filled;         // the ones that were needed: FILLED_...
    char *whole;  // the file as a whole config, for engines_read; the caller frees it; NULL: none
} RopeFile;

// Replaces the settings in `file` by the settings in a text in the form of model cards (card_read).
// A config with a model_type or architectures replaces all settings, with its family's defaults;
// otherwise settings that the text does not mention stay. False with the reason, which has the line
// and the key of the refused value. Heads and sizes that differ from the ones in `file` are also
// refused. file->whole is then set as well, unless all engines would interpret the file wrongly.
bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err);

// The length from which the factor of settings counts: L, or for a file's own settings the original
// length that it names, or L without the factor if L already includes it.
double rope_config_counts_from(const RopeFile *file, const RopeConfig *rope);

// How readers interpret a yarn block without L, in words. train_ctx is the length used instead.
void rope_config_say_no_original(int train_ctx, char *out, size_t size);
