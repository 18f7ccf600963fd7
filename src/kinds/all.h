// All kinds of models together: the table of their rows, and the functions that go through it.
#pragma once

#include "../decoder/forward.h"

extern const Kinds kinds;

// A model without a file: all zeros, without layers. Free it with model_close. False with the
// reason.
bool model_unknown(Model *model, Error *err);

// Calls `tell` for each line of a model's description (hooks.h). model_unread_bytes returns the
// bytes of the weights that one token, or many tokens, do not need.
void model_describe(const Model *model, Teller *tell, void *whose);
double model_unread_bytes(const Model *model, bool one_token);

// A copy of the model's layers that may be changed, and that shares the weights. Free it with
// layers_free. NULL with the reason.
Layer *layers_copied(const Model *model, Error *err);
void layers_free(Layer *layers);
