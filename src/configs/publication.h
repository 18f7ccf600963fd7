// How a plan is written for other programs: its settings in their terms, the family whose config
// they go into, and the layout of their block.
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

// A plan as other programs know it: a larger base is plain RoPE with that base, by parts alone is
// yarn without its temperature, and a quotient of temperatures is an attention factor. That of
// sliding layers is likewise theirs.
RopePlan published_form(const RopePlan *plan);
RopePlan published_sliding(const Publication *publication);
// NULL when other programs can have this published form, else why they cannot.
const char *why_unpublished(const Publication *publication, const RopePlan *published);

// Whether the method counts from a length of its own, beside max_position_embeddings.
bool publishes_original(const RopeConfig *config);
// Dual chunk attention, for which configs have a key: of plain frequencies alone.
bool publishes_chunks(const RopeConfig *config);
// The longest text that the settings are for.
int publish_reach(const RopeConfig *config);
// max_position_embeddings beside the block, of a method that has an original length.
int published_positions(const Publication *publication, const RopeConfig *config);

// The family that a file named, or that is nearest to the model. NULL: with layers of two kinds,
// none has what the model has.
const RopeFamily *published_family(const Publication *publication);
// Whether a part of each head is at rest and another turns, by latent attention.
bool publication_is_latent(const Publication *publication);

// How a family writes the settings of two kinds of layers. The older layout, where it can say them,
// is read as it is meant by more engines than the newer one.
typedef enum {
    FORM_NONE,   // there is no such family
    FORM_ONE,    // one block: all layers that turn do so alike
    FORM_OLD,    // rope_scaling is of the full layers, and the sliding ones are plain
    FORM_TYPES,  // a block for each kind in rope_parameters
    FORM_FULL,   // the same, where there are full layers alone
} LayerForm;
LayerForm published_layout(const Publication *publication);
