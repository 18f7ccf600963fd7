// What may differ from layer to layer: flags, shapes, and RoPE by settings of its own in layers that
// slide.
#pragma once

#include "../base/session_config.h"
#include "../llama/model.h"

// A layer sees past a sliding window; neither its queries nor its keys turn; they turn by the
// sliding layers' settings; it has no experts, though others have; its values are what wk makes,
// before norms and RoPE; it has no learned sinks, though others have; it keeps a state, and does not
// attend.
enum {
    LAYER_SEES_ALL = 1,
    LAYER_NOPE = 2,
    LAYER_SLIDING = 4,
    LAYER_DENSE = 8,
    LAYER_KEYS_ARE_VALUES = 16,
    LAYER_WITHOUT_SINKS = 32,
    LAYER_STATE = 64,
};

// What the header and the tables behind it have of a layer.
typedef struct {
    int n_heads;  // 0: it does not attend, and feeds forward alone
    int n_kv_heads;
    int head_dim;
    int hidden_dim;  // of a dense feed-forward layer; 0: it has none, nor experts
    int kv_layer;    // whose keys and values it reads: its own, or those of an earlier layer
} LayerShape;
enum { SHAPE_NUMBERS = 5 };  // in the file, int32 each

typedef struct {
    bool has_flags;          // flags of each layer (n_layers), a byte each
    bool has_shapes;         // shapes of each (n_layers), five numbers each; else the header's
    bool sliding_rope;       // layers with LAYER_SLIDING turn by settings of their own
    RopeConfig sliding;      // as the file has them, without defaults filled in; else zeros
    int sliding_rotary_dim;  // elements of a head that turn there; 0: as many as elsewhere
} LayersConfig;

// Whether a layer has keys and values: its own, or those of another one.
bool layer_attends(const Layer *layer);

// The settings by which a layer turns, of those in `rope` and `sliding`.
const RopeConfig *layer_rope(const Layer *layer, const RopeConfig *rope, const RopeConfig *sliding);

// What the query at `position` of a layer is multiplied by: query_temperature, where that counts.
double layer_temperature(const Layer *layer, const RopeConfig *rope, int position);

// The last layer that reads no other's keys: of those behind it a token asks nothing of earlier ones.
int last_own_layer(const Model *model);

// Whether a layer has the model's heads and width, and no flags.
bool layer_is_usual(const Model *model, const Layer *layer);

// Whether a norm without weights comes behind RoPE, as Llama 4 has it, and cancels the attention
// factor. Norm and turn can then change places, if what turns is multiplied by the factor before
// the norm, and not by the turn.
bool norms_cancel_factor(const ModelConfig *config);

// The window that the layers turning by a model's `rope` have in its file; 0: they see all. Not in
// layers with LAYER_SEES_ALL.
int model_window(const Model *model);

// Width of the values of a head of a layer.
int64_t layer_value_dim(const ModelConfig *config, const Layer *layer);

// ---- half_layers.c: layers of one step ----

// Whether a layer has a first half: it attends, or keeps a state.
bool layer_mixes(const Layer *layer);
// Whether it has a second half.
bool layer_feeds(const Layer *layer);
