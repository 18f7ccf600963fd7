// Layers without RoPE that a config lists or counts, and what their queries are multiplied by.
#pragma once

#include "config_reader.h"

// Reads which layers do not turn into c->file->at_rest, with their temperature and the chunks that
// the others see, in families that have a list of them. Refuses by its key what makes no sense.
void config_read_still(Config *c);
