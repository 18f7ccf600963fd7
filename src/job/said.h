// What is said of a model's RoPE before a method is asked for: by the model's file, by
// --rope-config in its place, or by --head-dim, --theta and --train-ctx where there is no model.
// The Model itself stays what its file says.
#pragma once

#include "../configs/rope_config.h"
#include "../kinds/kinds.h"

// Kinds of layers: full ones see all positions, sliding ones have a window or settings of RoPE of
// their own.
enum { LAYERS_FULL, LAYERS_SLIDING, N_LAYER_KINDS };

// Which kinds a model has, whether queries and keys turn in any of their layers, and whether the
// sliding ones turn by settings of their own.
typedef struct {
    bool is_there[N_LAYER_KINDS];
    bool turns[N_LAYER_KINDS];
    bool own_sliding;
} LayerKinds;

// model_open, and what other programs' files are called. When it fails there is nothing to close.
bool open_model(const char *path, Model *model, Error *err);

// What the model's file says.
void said_by_model(const Model *model, RopeFile *said);

// What is said without a model. head_dim, theta and train_ctx may be 0: not known.
void said_by_numbers(int head_dim, double theta, int train_ctx, RopeFile *said);

// Puts what the file of --rope-config says in place of what *said holds, and warns of what is
// remarkable in it, unless engines are to read it (`is_read`). These may get a file that fails
// here: then only said->whole and its context are new. False with the reason. `said` must not move
// afterwards, and the caller frees said->whole.
bool said_by_config(const char *path, const Model *model, bool is_read, RopeFile *said, Error *err);
// Warns of what the file says and no reader looks at, engines neither.
void warn_of_unread(const char *path, const RopeFile *said);

// A model whose file says this, for a copy that is written. It shares all that the model owns.
Model model_as_said(const Model *model, const RopeFile *said, struct ModelExtra *extra);

// Below, a model without layers is none, and what is said is all that is known.

// The kinds of layers that there are.
LayerKinds kinds_of_layers(const Model *model, const RopeFile *said);
// The positions that the model is meant for.
int said_context(const RopeFile *said);
// The window of sliding layers; 0: none slide.
int said_window(const Model *model, const RopeFile *said);
