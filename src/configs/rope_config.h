// How this program reads RoPE's settings in a config.json of Hugging Face, or a block of it.
#pragma once

#include "../../rope.h"
#include "../base/util.h"
#include "family.h"

// What a whole config must have in common with the model that it is tried on.
typedef struct {
    // 0: there is no model, or its layers differ in them
    int dim, n_layers, n_heads, n_kv_heads;
} ModelSizes;

// Numbers that stand in for what a block, or a config of an unknown family, leaves out.
typedef struct {
    int head_dim;
    double theta;
    int train_ctx;
} StandIns;
enum { FILLED_HEAD_DIM = 1, FILLED_THETA = 2, FILLED_TRAIN_CTX = 4 };

// A model's settings before rope_config_parse, then the file's. rope points to the lists, so a
// RopeFile must not move.
typedef struct {
    RopeConfig rope;  // without defaults; theta and lengths of 0 are not known
    // likewise, of sliding layers; as `rope` where these have no settings of their own
    RopeConfig sliding;
    bool by_layer;         // some layers slide, and turn by `sliding`
    bool by_kind;          // each kind of layers has a block of its own
    bool bare_full;        // full layers do not turn
    bool no_rope;          // no layer rotates
    ConfigLayers layers;   // which layers are of which kind; none: not known
    char directions[200];  // that queries see later positions, too, in words; empty: they do not
    LayersWithoutRope without_rope;  // layers without RoPE, where the family lists them
    ModelSizes sizes;      // of the model
    bool latent;           // the model has latent attention: mscale_all_dim scales its scores
    int head_dim;          // of which rope.rotary_dim turn; 0: not known
    int sliding_head_dim;  // of sliding layers, where each kind has its own; 0: head_dim
    int max_positions;     // the model's context; 0: not known
    bool original_unsaid;  // yarn, and no L was named: it is max_position_embeddings
    // An original length in the block, or beside it, of a method that has no use for it but that its
    // factor counts from there; 0: none.
    int named_original;
    bool counts_factor;  // nor is there such a length, and max_positions counts linear's factor already
    bool has_type;  // its block has a rope_type
    // Pairs of a head that turn by time, height and width, of models that see pictures, and whether
    // they lie in turns; zeros: the file says none. In a text all three are the position.
    int axes[3];
    bool axes_in_turns;
    char unused[200];    // keys that its rope_type does not use, with commas between them
    char remarks[2400];  // what else is worth a warning, each with a line's end: contradictions
    char unread[1600];   // those of them about what no reader looks at, engines neither
    char refused[sizeof((Error *)0)
                     ->text];  // why it was refused, for how engines read it; empty: it was not
    bool is_malformed;         // it was for a value that its key cannot have
    char not_json[80];  // of a whole config: what is no JSON, which engines refuse; empty: nothing
    // longrope's lists, of each kind of layers
    double short_factors[N_KINDS][ROPE_MAX_PAIRS], long_factors[N_KINDS][ROPE_MAX_PAIRS];
    const char *model_type;  // the file's; NULL: none that has a row
    bool is_unknown;         // it names a family that has no row
    const char *wrapper;  // the architecture of a model that has the text model inside; NULL: none
    char inside[240];     // the keys of the configs inside one another, with / between them
    StandIns instead;     // given before; zeros: nothing stands in
    unsigned filled;      // which of them were needed: FILLED_...
    char *whole;  // the file as a whole config, for engines_read; the caller frees it; NULL: none
} RopeFile;

// Replaces the settings in `file` by those of a text. A config with a model_type or architectures
// replaces all, with its family's defaults. Else what it does not mention stays. The text is as in
// model cards (card_read). False with the reason, line and key for what is refused, and for heads
// and sizes other than those of `file`. file->whole is then set, too, unless no engine's reading would
// be right.
bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err);

// The length from which the factor of settings counts: L, or where a file says it of its own settings,
// the original length that it names, or L without the factor that it counts.
double rope_config_counts_from(const RopeFile *file, const RopeConfig *rope);

// How readers take a yarn block that names no L, which is then train_ctx, in words.
void rope_config_say_unsaid(int train_ctx, char *out, size_t size);
