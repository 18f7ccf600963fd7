// A plan as other programs read it: a config, or a block with llama.cpp's options.
#pragma once

#include "../kinds/all.h"
#include "../rope_settings.h"
#include "rope_config.h"

// What is published: a plan, and what a config needs to know beside it.
typedef struct {
    // What is published. Where full layers do not turn, its settings are those of the sliding ones,
    // which a config's one block is about.
    RopePlan plan;
    const Model *model;    // whose plan it is; without layers: there is none
    const RopeFile *said;  // what a file said of the model's RoPE: family, layers, their heads
    bool by_layer;         // sliding layers turn by plan.sliding
    bool bare_full;        // full layers do not turn
    int context;           // positions that the model is meant for
    int window;            // of sliding layers; 0: none slide
} Publication;

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
// The longest text that the settings are for.
int publish_reach(const RopeConfig *config);
