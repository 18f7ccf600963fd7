// Layers that lack a half (half_layers.c of the core): nothing is done there, and nothing kept.
#include "kinds.h"

static bool is_without_first(const Model *model, const Layer *layer) {
    (void)model;
    return !layer_mixes(layer);
}

static bool is_without_second(const Model *model, const Layer *layer) {
    (void)model;
    return !layer_feeds(layer);
}

static void shape_nothing(const Model *model, const Layer *layer, KvCache *cache) {
    if (is_without_first(model, layer)) cache->n_kv_heads = 0;
}

static void nothing_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    (void)team;
    (void)t;
    (void)index;
    (void)n_wanted;
}

const FastKind fast_without_first = {
    .shape_cache = shape_nothing,
    .has = is_without_first,
    .mix_by_team = nothing_by_team,
};

const FastKind fast_without_second = {
    .has = is_without_second,
    .feed_by_team = nothing_by_team,
};
