// The memory of a forward pass.
#include "experts.h"
#include "transformer.h"

// The cache of each layer, and what its attention needs. Returns their bytes.
static uint64_t lay_out_caches(Transformer *t, Arena *arena, AttentionNeeds *needs) {
    const Model *model = t->model;
    int n_layers = model->config.n_layers;
    t->caches = arena_take(arena, n_layers, sizeof *t->caches);
    uint64_t before = arena->used;
    for (int l = 0; l < n_layers; l++) {
        const Layer *layer = &model->layers[l];
        const int source = layer->extra->shape.kv_layer;
        if (t->caches) t->caches[l] = (KvCache){0};
        if (!layer_attends(layer)) continue;
        KvCache own = kv_cache_of(model, layer, t->config);
        if (source == l) kv_cache_lay_out(&own, arena);
        else kv_cache_lay_out(&own, &(Arena){0});
        if (t->caches) t->caches[l] = source == l ? own : t->caches[source];
        attention_need(needs, &own, layer->extra->shape.n_heads);
    }
    return arena->used - before;
}

static float *rows_of(Arena *arena, int64_t n, int64_t width) {
    return arena_take(arena, n * width, sizeof(float));
}

static void widen(int64_t *widest, int64_t width) {
    if (width > *widest) *widest = width;
}

uint64_t transformer_lay_out(Transformer *t, float *x, Arena *arena) {
    t->x = x;
    const ModelConfig *m = &t->model->config;
    const SessionConfig *c = t->config;
    int64_t chunk = c->chunk;
    int64_t heads = m->n_heads * m->head_dim;
    int64_t kv = m->extra->latent.kv_rank ? 0 : m->n_kv_heads * m->head_dim;
    int64_t values = m->extra->latent.kv_rank ? 0 : m->n_kv_heads * model_value_dim(m);
    int64_t mixed = m->n_heads * model_value_dim(m);
    int64_t widest = m->dim;
    int64_t hidden = m->hidden_dim;
    widen(&hidden, m->extra->experts.shared_hidden_dim);
    widen(&widest, hidden);
    widen(&widest, m->extra->per_layer.dim);
    int threads = thread_count();
    AttentionNeeds needs = {.max_n = (int)chunk};
    uint64_t cache_bytes = lay_out_caches(t, arena, &needs);
    t->q = rows_of(arena, chunk, heads);
    t->k = rows_of(arena, chunk, kv);
    t->v = rows_of(arena, chunk, values);
    t->mixed = rows_of(arena, chunk, mixed);
    cache_bytes += index_lay_out(&t->index, arena, t->model, c, &needs, threads);
    cache_bytes += states_lay_out(&t->states, arena, t->model, chunk);
    if (m->extra->latent.kv_rank) latent_lay_out(&t->latent, arena, t->model, chunk, threads);
    t->hidden = rows_of(arena, chunk, hidden);
    t->shared_gates = arena_take(arena, chunk, sizeof(float));
    t->added = NULL;
    if (m->extra->attention.gate) t->gates = rows_of(arena, chunk, mixed);
    bool norms_added =
        m->extra->stream.norm_place == NORM_AFTER || m->extra->stream.norm_place == NORM_BOTH;
    bool apart = norms_added || m->extra->stream.residual_scale > 0 || m->extra->experts.beside ||
                 m->extra->per_layer.dim;
    if (apart) t->added = rows_of(arena, chunk, m->dim);
    t->beside = rows_of(arena, chunk, m->extra->experts.beside ? m->dim : 0);
    per_layer_lay_out(&t->per_layer, arena, m, chunk, threads);
    bool is_cancelled = norms_cancel_factor(m);
    if (m->extra->layers.sliding_rope)
        angles_lay_out(&t->sliding, arena, c, c->sliding, &in_place, is_cancelled);
    bool is_rope = m->extra->encoding.kind == ENCODING_ROPE;
    if (is_rope) angles_lay_out(&t->angles, arena, c, c->rope, &c->spread, is_cancelled);
    else encoding_lay_out(&t->terms, arena, t->model, blocks_of(c->context));
    widen(&widest, heads);
    widen(&widest, mixed);
    widen(&widest, m->extra->latent.q_rank);
    widen(&widest, m->extra->states.kind ? state_width(m) : 0);
    widen(&widest, m->extra->experts.latent_dim);
    t->workspace = workspace_lay_out(arena, chunk, widest, threads, c->floats);
    if (m->extra->experts.n) t->experts = experts_lay_out(arena, m, chunk, threads);
    t->attention = attention_lay_out(arena, &needs, threads);
    return cache_bytes;
}

void transformer_forget_angles(Transformer *t) {
    t->angles.n_blocks = 0;
    t->sliding.n_blocks = 0;
}
