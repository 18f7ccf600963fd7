// How models of other kinds join the fast forward pass: as in src/llama/kind.h, by a row of a table.
// A Llama is what is left where no row has anything to say. Functions whose name ends in _by_team
// and LayerSteps are called by the whole team.
#pragma once

#include "transformer.h"

// All functions may be NULL.
typedef struct {
    // Whether only the definition reads such a session.
    bool (*is_plain)(const Model *model, const SessionConfig *config);
    // Changes what a layer keeps of a position, which has no memory yet.
    void (*shape_cache)(const Model *model, const Layer *layer, KvCache *cache);
    // Likewise what it keeps besides, which so many heads meet; yet it keeps nothing.
    void (*shape_second)(const Model *model, const Layer *layer, KvCache *cache, int *n_heads);
    // Takes its arrays from an arena, and changes how wide the transformer's are.
    void (*lay_out)(Transformer *transformer, Arena *arena);
    // Steps on x: the embeddings, by one thread; positions; and each layer, before and behind its
    // two halves, if rows are wanted of it.
    void (*embed)(Transformer *transformer);
    void (*place_by_team)(const Team *team, Transformer *transformer, const int32_t *tokens,
                          int length);
    LayerStep *begin_layer_by_team, *end_layer_by_team;
    // On logits (n_rows, vocab_size).
    void (*end_by_team)(const Team *team, const Transformer *transformer, float *logits,
                        int n_rows);
    // Whether a layer is of this kind, and what it does in a Llama's place: in the first half of a
    // layer, and in the second. Later rows come before earlier ones.
    bool (*has)(const Model *model, const Layer *layer);
    LayerStep *mix_by_team, *feed_by_team;
} FastKind;

typedef struct {
    const FastKind *const *rows;
    int n;
} FastKinds;
extern const FastKinds fast_kinds;
#define EACH_FAST_KIND(k)                                                                          \
    for (const FastKind *const *k = fast_kinds.rows; k < fast_kinds.rows + fast_kinds.n; k++)
