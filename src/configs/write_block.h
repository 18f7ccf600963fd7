// The members of a block of settings, as JSON.
#pragma once

#include <stdio.h>

#include "publication.h"

// What a block says besides what its method needs.
typedef struct {
    bool has_share;        // else other keys say what turns
    bool is_beside;        // theta and that share are beside the block
    bool is_whole;         // and also say where all of a head turns
    bool is_bare;          // longrope's lists and nothing else, as Phi-3's was released
    int original;          // of linear: from where its factor counts; 0: max_position_embeddings
    const RopeFile *said;  // whose sections of axes belong into it; NULL: none do
} BlockForm;

// A plan's block in its published form.
void block_put(FILE *out, const RopePlan *published, BlockForm form);
// The share of a head that turns, as a member after others, where that is not all of it.
void block_put_share(FILE *out, const RopePlan *published);
// dual_chunk_attention_config, as a member of its own.
void block_put_chunks(FILE *out, const RopeConfig *config);
// A number as a member after others.
void put_json_number(FILE *out, const char *key, double x);
// The share of `whole` elements that gives `part` of them to readers, who cut the product to a whole
// number.
double block_share_of(int part, int whole);
