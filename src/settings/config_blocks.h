// Where a config has its blocks of settings, and which layers they are of.
#pragma once

#include "config_reader.h"

// Refuses, by its key, what differs by layer or by position where the family does not read it.
void config_refuse_by_layer(Reader *r);
// Reads which layers are of which kind.
void config_read_layers(Reader *r);
// Finds the block of all layers.
void config_find_block(Reader *r);
// Finds the block of a kind of layers, and what stands for its theta.
void config_find_block_of(Reader *r, int kind, double *theta);
