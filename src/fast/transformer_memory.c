// The memory of a forward pass.
#include "kinds.h"

KvCache layer_cache(const Model *model, const Layer *layer, KvType kept, int positions) {
    KvCache c = {.kept = kept, .positions = positions};
    c.n_kv_heads = model->config.n_kv_heads;
    c.head_dim = c.value_dim = model->config.head_dim;
    EACH_FAST_KIND (k)
        if ((*k)->shape_cache) (*k)->shape_cache(model, layer, &c);
    return c;
}

// The same as a session asks for it.
static KvCache cache_asked(KvCache c, const SessionConfig *config) {
    c.rounds = config->rounds_kv;
    c.keys_as = config->keys_as;
    c.values_as = config->values_as;
    if (c.rounds) c.kept = KV_F32;
    return c;
}

// The cache of each layer, and what its attention needs. Returns their bytes.
static uint64_t lay_out_caches(Transformer *t, Arena *arena, AttentionNeeds *needs) {
    const Model *model = t->model;
    int n_layers = model->config.n_layers;
    const SessionConfig *config = t->config;
    t->caches = arena_take(arena, n_layers, sizeof *t->caches);
    uint64_t before = arena->used;
    for (int l = 0; l < n_layers; l++) {
        const Layer *layer = &model->layers[l];
        const int source = layer->extra->shape.kv_layer;
        KvCache own = cache_asked(layer_cache(model, layer, config->kv, config->context), config);
        if (t->caches) t->caches[l] = (KvCache){0};
        if (own.n_kv_heads == 0) continue;
        if (source == l) kv_cache_lay_out(&own, arena);
        else kv_cache_lay_out(&own, &(Arena){0});
        if (t->caches) t->caches[l] = source == l ? own : t->caches[source];
        attention_need(needs, &own, layer->extra->shape.n_heads);
    }
    return arena->used - before;
}

// The halves of each layer: a Llama's, where no kind has others.
static void choose_steps(Transformer *t) {
    for (int l = 0; l < t->model->config.n_layers; l++) {
        t->steps[l] = (struct LayerSteps){mix_attention_by_team, feed_forward_by_team};
        EACH_FAST_KIND (k) {
            if (!(*k)->has || !(*k)->has(t->model, &t->model->layers[l])) continue;
            if ((*k)->mix_by_team) t->steps[l].mix = (*k)->mix_by_team;
            if ((*k)->feed_by_team) t->steps[l].feed = (*k)->feed_by_team;
        }
    }
}

static float *rows_of(Arena *arena, int64_t n, int64_t width) {
    return arena_take(arena, n * width, sizeof(float));
}

static void widen(int64_t *widest, int64_t width) {
    if (width > *widest) *widest = width;
}

uint64_t transformer_lay_out(Transformer *t, float *x, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    int64_t chunk = t->config->chunk;
    int64_t heads = m->n_heads * m->head_dim;
    int threads = thread_count();
    t->x = x;
    t->key_width = t->value_width = m->n_kv_heads * m->head_dim;
    t->mixed_width = heads;
    t->hidden_width = t->used_width = m->hidden_dim;
    t->last_own = last_own_layer(t->model);
    t->widest = m->dim;
    EACH_FAST_KIND (k)
        if ((*k)->lay_out) (*k)->lay_out(t, arena);

    AttentionNeeds needs = {.max_n = (int)chunk};
    uint64_t cache_bytes = lay_out_caches(t, arena, &needs);
    t->q = rows_of(arena, chunk, heads);
    t->k = rows_of(arena, chunk, t->key_width);
    t->v = rows_of(arena, chunk, t->value_width);
    t->mixed = rows_of(arena, chunk, t->mixed_width);
    t->hidden = rows_of(arena, chunk, t->hidden_width);
    t->added = t->adds_apart ? rows_of(arena, chunk, m->dim) : NULL;
    widen(&t->widest, heads);
    widen(&t->widest, t->mixed_width);
    widen(&t->widest, t->hidden_width);
    t->workspace = workspace_lay_out(arena, chunk, t->widest, threads, t->config->floats);
    t->attention = attention_lay_out(arena, &needs, threads);
    t->steps = arena_take(arena, m->n_layers, sizeof *t->steps);
    if (t->steps) choose_steps(t);
    return cache_bytes;
}
