// A plan as other programs read it: a config, or a block with llama.cpp's options.
#pragma once

#include "publication.h"

// The plan as a whole config in the form that most engines read alike: theta and L are at the top
// level, too, and max_position_embeddings is as far as the settings go. `may_be_bare`: longrope's
// lists may be all of the block. The caller frees it. NULL with the reason where other programs
// have no such method.
char *publish_config(const Publication *publication, bool may_be_bare, Error *err);

// The keys of RoPE alone, as a config of the family p->said->model_type has them, as one object. The
// caller frees it. NULL with the reason, likewise.
char *publish_keys(const Publication *publication, Error *err);

// Prints lines with #: llama.cpp's options, and what has to be beside the block. The last line
// stays open.
void publish_options(const Publication *publication);
// Prints the plan as a rope_scaling block (JSON), or a block for each kind of layers.
void publish_block(const Publication *publication);
