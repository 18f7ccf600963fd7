// Differences from layer to layer: flags, shapes, a missing half, and separate RoPE settings of
// sliding layers.
#pragma once

#include "decoder.h"

// Whether a layer attends, by keys and values of its own or of an earlier layer.
bool layer_attends(const Layer *layer);
// Whether a layer has a first half: it attends, or keeps a state.
bool layer_mixes(const Layer *layer);
// Whether it has a second half: a feed-forward network, or experts.
bool layer_feeds(const Layer *layer);

// The settings by which a layer rotates, of those in `rope` and `sliding`.
const RopeConfig *layer_rope(const Layer *layer, const RopeConfig *rope, const RopeConfig *sliding);

// The factor of the query at `position` of a layer: query_temperature, or 1 where it does not
// count.
double layer_temperature(const Layer *layer, const RopeConfig *rope, int position);

// The last layer with keys of its own. Later layers ask nothing of earlier tokens.
int last_own_layer(const Model *model);

// False with the reason where a layer has a flag that needs `field`, which the header lacks.
bool check_no_layer_has(const Model *model, int flag, const char *field, Error *err);

// Whether a norm without weights comes after RoPE, as in Llama 4, and cancels the attention factor.
// Norm and rotation can then change places, if the factor multiplies the elements that rotate
// before the norm, and not in the rotation.
bool norms_cancel_factor(const ModelConfig *config);

// The window, in the file, of the layers that rotate by the model's `rope`; 0: they see all. Not of
// layers with LAYER_SEES_ALL.
int model_window(const Model *model);

// Width of the values of a head of a layer.
int64_t layer_value_dim(const ModelConfig *config, const Layer *layer);
