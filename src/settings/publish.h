// A plan as other programs read it: a config, a block with llama.cpp's options, and how many
// engines read these alike.
#pragma once

#include "../core/model.h"
#include "../core/settings.h"
#include "engines.h"
#include "rope_config.h"

// What is published: a plan, and what a config needs to know beside it.
typedef struct {
    const RopePlan *plan;
    const Model *model;    // whose plan it is; without layers: there is none
    const RopeFile *said;  // what a file said of the model's RoPE: family, layers, their heads
    bool by_layer;         // sliding layers turn by plan->sliding
    int context;           // positions that the model is meant for
    int window;            // of sliding layers; 0: none slide
} Publication;

// The plan as a whole config in the form that most engines read alike: theta and L are at the top
// level, too, and max_position_embeddings is as far as the settings go. `may_be_bare`: longrope's
// lists may be all of the block. The caller frees it. NULL with the reason where other programs
// have no such method.
char *publish_config(const Publication *publication, bool may_be_bare, Error *err);

// Prints the plan as a rope_scaling block (JSON). Lines with # have llama.cpp's options, what has
// to stand beside the block, and engines that read it otherwise. False with the reason where other
// programs have no such method.
bool publish_print(const Publication *publication, Error *err);

// The readings of one engine, one for each kind of layers, stand together: how many there are from
// `reading` on.
int reading_kinds(const Reading *reading);
// How many engines read all kinds of layers as the reference does. *known becomes how many
// were looked at.
int readings_alike(const Reading *readings, int n, int *known);
