// All kinds of models together: the table of their rows, and a model's description.
#pragma once

#include "../decoder/forward.h"

extern const Kinds kinds;

// A model without a file: zeros, and no layers. For model_close.
bool model_unknown(Model *model, Error *err);

// What all kinds have to report of a model (hooks.h): its description, and the bytes of weights
// that one token or many do not read.
void model_describe(const Model *model, Teller *tell, void *whose);
double model_unread_bytes(const Model *model, bool one_token);

// Layers of one's own, which can be changed: a copy that shares the weights, NULL with the reason.
Layer *layers_copied(const Model *model, Error *err);
void layers_free(Layer *layers);
