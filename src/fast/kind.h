// How models of other kinds join the fast forward pass: as in src/llama/kind.h, by a row of a table.
// LayerSteps, and functions whose name ends in _by_team, are called by the whole team.
#pragma once

#include "transformer.h"

// All functions may be NULL.
typedef struct {
    // Changes the shape of a layer's cache, which has no memory yet.
    void (*shape_cache)(const Model *model, const Layer *layer, KvCache *cache);
    // Takes its arrays from an arena, and may widen the transformer's.
    void (*lay_out)(Transformer *transformer, Arena *arena);
    // Steps on x: on the embeddings, by one thread; for positions; and before and after the two halves
    // of each layer, if its rows are wanted.
    void (*embed)(Transformer *transformer);
    void (*place_by_team)(const Team *team, Transformer *transformer, const int32_t *tokens,
                          int length);
    LayerStep *begin_layer_by_team, *end_layer_by_team;
    // On logits (n_rows, vocab_size).
    void (*end_by_team)(const Team *team, const Transformer *transformer, float *logits,
                        int n_rows);
    // Whether a layer is of this kind, and its steps in place of a Llama's two. If two rows have the
    // layer, the later one's count.
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
