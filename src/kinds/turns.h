// RoPE that differs from a Llama's: two kinds of layers with settings of their own, layers that do not
// turn, texts with jumps, and frequencies that depend on the position.
#pragma once

#include "../base/session_config.h"
#include "../llama/forward.h"
#include "../rope_settings.h"

// What the settings in the header leave unsaid: nothing is computed by it.
typedef struct {
    bool original_unsaid;  // the block that they were made from named no trained context
    int named_original;    // of linear: the context that its block named; 0: none, train_ctx
} TurnsConfig;

// The angles of one RoPE. A model has one, or one for its full layers and one for its sliding ones.
typedef struct {
    const RopeConfig *rope;
    const Spread *spread;    // where tokens stand in these layers
    float *cosines, *sines;  // (context, rotary_dim / 2) by which the query turns to meet each key
    float *own_cosines, *own_sines;  // (rotary_dim / 2) by which it turns in front of a norm
    double cancelled;                // the attention factor, where norms cancel it
} Turns;

// What the definition keeps for them.
typedef struct {
    Turns full, sliding;  // `sliding` is for layers with LAYER_SLIDING, `full` for all others
    int *lengths;         // (context) the length when a token was read, for stale keys
} PlainTurns;

// The angles of the present layer, and how many pairs of a head turn by them: none, where it knows
// no positions, or not by RoPE.
const Turns *turns_of(const Plain *plain);
int turning_pairs(const Plain *plain);

// Where token i stands in the present layer: at i, unless the text jumps there.
int place_of(const Plain *plain, int i);

// Where norms of heads come behind RoPE, queries and keys turn by their own positions first: n heads
// of x (n, d).
void turn_heads(const Plain *plain, float *x, int n);
// Where norms cancel the attention factor (norms_cancel_factor), what turns of them is multiplied by
// it.
void take_factor_first(const Plain *plain, float *x, int n);

// False with the reason when a model cannot turn by these settings: where norms come behind RoPE, a
// key is stored as it turned first.
bool model_turns_by(const Model *model, const RopeConfig *rope, Error *err);
