// How kinds of models join the fast forward pass: as in src/llama/hooks.h, with a row for each.
// Functions whose name ends in _by_team, and LayerSteps, are called by the whole team.
#pragma once

#include "transformer.h"

typedef struct FastKind {
    const Kind *of;  // its row of the definition, whose `has` tells the layers of the kind
    KindPart part;   // its own struct of a Transformer, see KindPart: its place in a FastParts
    // All functions may be NULL.
    // Changes the shape of a layer's cache, which has no memory yet.
    void (*shape_cache)(const Model *model, const Layer *layer, KvCache *cache);
    // Takes its arrays from an arena, and may widen the transformer's.
    void (*lay_out)(Transformer *transformer, Arena *arena);
    // Keeps its part of the embeddings x of the chunk's tokens.
    void (*embed_by_team)(const Team *team, Transformer *transformer, const int32_t *tokens);
    // A whole layer, or one of its halves, in place of the decoder's.
    LayerStep *layer_by_team, *mix_by_team, *feed_by_team;
    // Changes the wanted rows of x after both halves of a layer.
    LayerStep *end_layer_by_team;
} FastKind;

// All kinds that the engine knows.
typedef struct FastKinds {
    const FastKind *const *rows;
    int n;
    size_t pointers;  // bytes of a FastParts
} FastKinds;
#define EACH_FAST_KIND(k, known)                                                                   \
    for (const FastKind *const *k = (known)->rows; k < (known)->rows + (known)->n; k++)
// The kinds that have a function.
#define EACH_FAST_KIND_THAT(has, k, known)                                                         \
    EACH_FAST_KIND (k, known)                                                                      \
        if ((*k)->has)
