// A plan in the terms of other programs: its settings, the family whose config they go into, and
// the layout of their block.
#pragma once

#include "../kinds/all.h"
#include "../rope_settings.h"
#include "rope_config.h"

// A plan to be published, with the other data that a config needs.
typedef struct {
    // The plan. If full layers do not rotate, it has the settings of the sliding ones, which the
    // config's only block is for.
    RopePlan plan;
    const Model *model;         // the model of the plan; without layers if there is none
    const RopeFile *rope_file;  // the settings in a file of the model: family, layers, their heads
    bool by_layer;              // sliding layers rotate according to plan.sliding
    bool bare_full;             // full layers do not rotate
    int context;                // positions that the model is meant for
    int window;                 // of sliding layers; 0: none slide
} Publication;

// A plan in the terms of other programs: a larger base is plain RoPE with that base, by-parts
// without a temperature is yarn with an attention factor of 1, and a quotient of temperatures is an
// attention factor. published_sliding does the same for sliding layers.
RopePlan published_form(const RopePlan *plan);
RopePlan published_sliding(const Publication *publication);
// NULL if other programs can use this published form, else the reason why they cannot.
const char *why_unpublished(const Publication *publication, const RopePlan *published);

// Whether the method counts from its own length, beside max_position_embeddings.
bool publishes_original(const RopeConfig *config);
// Whether it is dual chunk attention with plain frequencies, for which configs have a key.
bool publishes_chunks(const RopeConfig *config);
// The longest text that the settings are for, in positions.
int publish_reach(const RopeConfig *config);
// max_position_embeddings beside the block, for a method that has an original length.
int published_positions(const Publication *publication, const RopeConfig *config);

// The family that a file names, or the one that is nearest to the model. NULL: the model has two
// kinds of layers, and no family has its features.
const RopeFamily *published_family(const Publication *publication);
// Whether a part of each head does not rotate, because of latent attention.
bool publication_is_latent(const Publication *publication);

// The layout of a family's settings for two kinds of layers. More engines read the older layout
// correctly than the newer one, if it can express the settings.
typedef enum {
    FORM_NONE,   // there is no such family
    FORM_ONE,    // one block: all layers that rotate do so the same way
    FORM_OLD,    // rope_scaling is for the full layers, and the sliding ones are plain
    FORM_TYPES,  // a block for each kind in rope_parameters
    FORM_FULL,   // a block for each kind, where there are only full layers
} LayerForm;
LayerForm published_layout(const Publication *publication);
