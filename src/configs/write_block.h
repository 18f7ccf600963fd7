// The members of a block of settings, as JSON.
#pragma once

#include <stdio.h>

#include "publication.h"

// The contents of a block besides the keys that its method needs.
typedef struct {
    bool has_share;             // the share that rotates is in the block; or other keys give it
    bool is_beside;             // theta and the share are beside the block
    bool is_whole;              // the share is written even if the whole head rotates
    bool is_bare;               // only longrope's lists, as Phi-3 was released
    int original;               // for linear: the length that its factor counts from; 0:
                                // max_position_embeddings
    const RopeFile *rope_file;  // its sections of axes belong in the block; NULL: none do
} BlockForm;

// Writes a plan's block in its published form.
void block_put(FILE *out, const RopePlan *published, BlockForm form);
// Writes the share of a head that rotates as a member after others, unless it is the whole head.
void block_put_share(FILE *out, const RopePlan *published);
// Writes dual_chunk_attention_config as a member.
void block_put_chunks(FILE *out, const RopeConfig *config);
// Writes a number as a member after others.
void put_json_number(FILE *out, const char *key, double x);
// The share of `whole` elements for which readers, who cut the product to a whole number, get
// `part`.
double block_share_of(int part, int whole);
