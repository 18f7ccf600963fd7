// Which model a config is of.
#pragma once

#include "card.h"
#include "config_reader.h"

// Whether a config says of which family its model is.
bool config_names_family(const char *config);
// Refuses a family that is not known, and says what can be done: its settings alone, with the
// numbers that they need.
void config_reject_family(Config *c);
// A whole config of another model is a mistake, even where the head is the same: refuses sizes that
// are not c->file's, if that has a model's. No engine's reading would be right then.
void config_check_sizes(Config *c);
// An object as a whole config. A block alone, or a config without a family, gets what it lacks from
// `model` as a Llama's. The caller frees it. NULL with the reason.
char *config_complete(const Card *card, const RopeFile *model, Error *err);
