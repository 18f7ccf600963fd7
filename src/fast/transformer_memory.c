// The memory of a forward pass, and the functions that all its steps share.
#include "transformer.h"

#include <string.h>

#include "hooks.h"

Input rmsnorm_of(const Transformer *t, const float *x, int n, const float *weight) {
    float eps = (float)t->model->config.norm_eps;
    return (Input){.x = x, .n = n, .norm = weight, .eps = eps, .centers = t->centers};
}

void rows_to_store(const Team *team, const Transformer *t, int *begin, int *end) {
    int block = t->first / KV_BLOCK;
    int n_blocks = (t->first + t->n - 1) / KV_BLOCK - block + 1;
    int from = (block + team_first(team, n_blocks)) * KV_BLOCK - t->first;
    int to = (block + team_end(team, n_blocks)) * KV_BLOCK - t->first;
    *begin = from > 0 ? from : 0;
    *end = to < t->n ? to : t->n;
}

void transformer_forget_angles(Transformer *t) { t->full.n_blocks = t->sliding.n_blocks = 0; }

// ---- caches ----

KvCache layer_cache(const FastKinds *known, const Model *model, const Layer *layer, KvType kept,
                    int positions) {
    const LayerShape *of = &layer->extra->shape;
    KvCache c = {.kept = kept, .positions = positions};
    c.n_kv_heads = layer_attends(layer) ? of->n_kv_heads : 0;
    c.head_dim = of->head_dim;
    c.value_dim = layer_value_dim(&model->config, layer);
    c.bias = layer->extra->attention.bk;
    c.query_bias = layer->extra->attention.bq;
    c.n_heads = of->n_heads;
    EACH_FAST_KIND_THAT (shape_cache, k, known) (*k)->shape_cache(model, layer, &c);
    return c;
}

// The page is built with ATTENTION_IN_FLOATS, and so is the program that its tests hold it against:
// sums of int8 products depend on where a prompt is cut into chunks, and the page cuts it elsewhere.
#ifdef ATTENTION_IN_FLOATS
enum { ALWAYS_IN_FLOATS = true };
#else
enum { ALWAYS_IN_FLOATS = false };
#endif

bool attends_in_int8(const Transformer *t, const Layer *layer) {
    const SessionConfig *c = t->config;
    bool is_capped = t->model->config.extra->attention.score_cap > 0;
    bool in_floats = ALWAYS_IN_FLOATS || c->floats || c->float_attention;
    return !in_floats && layer->wo.type > WEIGHT_BF16 && !is_capped;
}

// The cache of each layer, and the needs of its attention. Returns their bytes.
static uint64_t lay_out_caches(Transformer *t, Arena *arena, AttentionNeeds *needs) {
    const Model *model = t->model;
    int n_layers = model->config.n_layers;
    const SessionConfig *config = t->config;
    t->caches = arena_take(arena, n_layers, sizeof *t->caches);
    uint64_t before = arena->used;
    for (int l = 0; l < n_layers; l++) {
        const Layer *layer = &model->layers[l];
        const int source = layer->extra->shape.kv_layer;
        KvCache own = layer_cache(t->known, model, layer, config->kv, config->context);
        if (t->caches) t->caches[l] = (KvCache){0};
        if (own.n_kv_heads == 0) continue;
        if (source == l) kv_cache_lay_out(&own, arena);
        else kv_cache_lay_out(&own, &(Arena){0});
        if (t->caches) t->caches[l] = source == l ? own : t->caches[source];
        attention_need(needs, &own, layer->extra->shape.n_heads, attends_in_int8(t, layer));
    }
    return arena->used - before;
}

// ---- all arrays ----

static size_t aligned_16(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t fast_parts_bytes(const FastKinds *known) {
    size_t bytes = aligned_16(known->pointers);
    EACH_FAST_KIND (k, known) bytes += aligned_16((*k)->part.bytes);
    return bytes;
}

struct FastParts *fast_parts_divide(const FastKinds *known, uint8_t *block) {
    uint8_t *at = block + aligned_16(known->pointers);
    EACH_FAST_KIND (k, known) {
        const KindPart *part = &(*k)->part;
        if (part->bytes) memcpy(block + part->place, &at, sizeof at);
        at += aligned_16(part->bytes);
    }
    return (struct FastParts *)(void *)block;
}

static void lay_out_angles_of(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const SessionConfig *c = t->config;
    bool is_cancelled = norms_cancel_factor(m);
    if (model_encoding(t->model) != ENCODING_ROPE) return;
    angles_lay_out(&t->full, arena, c, c->rope, &c->spread, is_cancelled);
    if (m->extra->layers.sliding_rope)
        angles_lay_out(&t->sliding, arena, c, c->sliding, &in_place, is_cancelled);
}

// Finds the kinds' steps of each layer.
static void find_fast_steps(Transformer *t) {
    for (int l = 0; l < t->model->config.n_layers; l++) {
        struct LayerSteps *steps = &t->steps[l];
        *steps = (struct LayerSteps){NULL, NULL, NULL};
        EACH_FAST_KIND_THAT (of->has, k, t->known) {
            if (!(*k)->of->has(t->model, &t->model->layers[l])) continue;
            if ((*k)->layer_by_team) steps->layer = (*k)->layer_by_team;
            if ((*k)->mix_by_team) steps->mix = (*k)->mix_by_team;
            if ((*k)->feed_by_team) steps->feed = (*k)->feed_by_team;
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
    t->key_width = m->n_kv_heads * m->head_dim;
    t->value_width = m->n_kv_heads * model_value_dim(m);
    t->mixed_width = m->n_heads * model_value_dim(m);
    t->hidden_width = t->used_width = m->hidden_dim;
    t->last_own = last_own_layer(t->model);
    t->widest = m->dim;
    t->centers = m->extra->residual.layer_norm;
    t->adds_apart = norms_after(m) || m->extra->residual.residual_scale > 0;
    EACH_FAST_KIND_THAT (lay_out, k, t->known) (*k)->lay_out(t, arena);
    lay_out_angles_of(t, arena);

    AttentionNeeds needs = {.max_n = (int)chunk};
    uint64_t cache_bytes = lay_out_caches(t, arena, &needs);
    t->q = rows_of(arena, chunk, heads);
    t->k = rows_of(arena, chunk, t->key_width);
    t->v = rows_of(arena, chunk, t->value_width);
    t->gates = m->extra->attention.gate ? rows_of(arena, chunk, t->mixed_width) : NULL;
    t->mixed = rows_of(arena, chunk, t->mixed_width);
    t->hidden = rows_of(arena, chunk, t->hidden_width);
    t->added = t->adds_apart ? rows_of(arena, chunk, m->dim) : NULL;
    widen(&t->widest, heads);
    widen(&t->widest, t->mixed_width);
    widen(&t->widest, t->hidden_width);
    t->workspace = workspace_lay_out(arena, chunk, t->widest, threads, t->config->floats);
    t->attention = attention_lay_out(arena, &needs, threads);
    t->steps = arena_take(arena, m->n_layers, sizeof *t->steps);
    if (t->steps) find_fast_steps(t);
    return cache_bytes;
}
