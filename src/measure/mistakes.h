// Mistakes that converters make, tried on a model that is loaded. Where one of them makes the model
// read better, the model was converted with its opposite.
#pragma once

#include "../base/settings.h"
#include "../kinds/kinds.h"

enum { N_MISTAKES = 12 };

// Each in words that follow "read with".
extern const char *const mistake_words[N_MISTAKES];

// Whether a model that turns by this plan can have it.
bool mistake_applies(int mistake, const Model *model, const RopePlan *plan);

// A copy of a model with a mistake. It shares all weights that the mistake leaves alone.
typedef struct {
    Model model;
    RopePlan plan;
    Arena room;  // for the weights that change
} MistakenModel;

// Makes the copy, which the model must outlive. Call mistake_undo afterwards in any case. False with
// the reason when there is no memory.
bool mistake_make(int mistake, const Model *model, const RopePlan *plan, MistakenModel *mistaken,
                  Error *err);
void mistake_undo(MistakenModel *mistaken);
