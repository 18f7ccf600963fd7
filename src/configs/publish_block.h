// A block of settings as it is written for other programs. Members stand behind others, so that they
// begin with a comma.
#pragma once

#include <stdio.h>

#include "../rope_settings.h"

// A number, with enough digits to be read back the same.
void json_put_number(FILE *out, const char *key, double x);
// Whether the method counts from a length of its own, beside max_position_embeddings.
bool block_has_original(const RopeConfig *c);
// Dual chunk attention, for which configs have a key: of plain frequencies alone. The second writes
// that key without a comma in front.
bool block_has_chunks(const RopeConfig *c);
void block_put_chunks(FILE *out, const RopeConfig *c);
// The share of `whole` elements that gives `part` of them to readers, who cut the product to a whole
// number: of twelve digits, and more than part / whole where that falls short in floating point.
double share_of(int part, int whole);
// The share of a head that turns, where that is not all of it.
void block_put_share(FILE *out, const RopePlan *plan);
// What a block says besides what its method needs.
typedef struct {
    bool has_share;  // else other keys say what turns
    bool is_bare;    // longrope's lists and nothing else, as Phi-3's was released
    int original;    // of linear: from where its factor counts; 0: max_position_embeddings
} BlockForm;
// The block of a published form.
void block_put(FILE *out, const RopePlan *plan, BlockForm form);
