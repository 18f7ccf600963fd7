// What this program makes sure of in a config's blocks of settings, and of which layers they are.
#pragma once

#include "config_reader.h"

// Refuses, by its key, what differs by layer or by position where the family does not read it.
void config_refuse_by_layer(Config *c);
// Reads which layers are of which kind.
void config_read_layers(Config *c);
// Refuses what the block of the kind of layers must not be, warns of what contradicts it, and names
// it. With a block for each kind, finds the base as well, since that can be wrong, too.
void config_check_block(Config *c);
