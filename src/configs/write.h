// Writes a plan for other programs: as a config, or as a block with llama.cpp's options.
#pragma once

#include "publication.h"

// The plan as a whole config in the form that most engines interpret correctly: theta and L are
// also at the top level, and max_position_embeddings is as long as the settings reach.
// `may_be_bare`: longrope's lists may be the whole block. The caller frees it. NULL with the reason
// if other programs have no such method.
char *publish_config(const Publication *publication, bool may_be_bare, Error *err);

// Only the keys of RoPE, as one object, for a config of the family p->rope_file->model_type. The
// caller frees it. NULL with the reason.
char *publish_keys(const Publication *publication, Error *err);

// Prints lines that begin with #: llama.cpp's options, and the keys that have to be beside the
// block. The last line stays open.
void publish_options(const Publication *publication);
// Prints the plan as a rope_scaling block (JSON), or a block for each kind of layers.
void publish_block(const Publication *publication);
