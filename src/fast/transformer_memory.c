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
        const int source = layer->shape.kv_layer;
        if (t->caches) t->caches[l] = (KvCache){0};
        if (layer->flags & LAYER_STATE) continue;
        KvCache own = kv_cache_for(model, layer, t->config->kv, t->config->context);
        if (source == l) kv_cache_lay_out(&own, arena);
        else kv_cache_lay_out(&own, &(Arena){0});
        if (t->caches) t->caches[l] = source == l ? own : t->caches[source];
        attention_need(needs, &own, layer->shape.n_heads);
    }
    return arena->used - before;
}

uint64_t transformer_lay_out(Transformer *t, float *x, Arena *arena) {
    t->x = x;
    const ModelConfig *m = &t->model->config;
    const SessionConfig *c = t->config;
    int64_t chunk = c->chunk;
    int64_t heads = m->n_heads * m->head_dim;
    int64_t kv = m->kv_rank ? 0 : m->n_kv_heads * m->head_dim;
    int64_t values = m->kv_rank ? 0 : m->n_kv_heads * model_value_dim(m);
    int64_t mixed = m->n_heads * model_value_dim(m);
    int64_t widest = m->dim;
    int64_t hidden = m->shared_hidden_dim > m->hidden_dim ? m->shared_hidden_dim : m->hidden_dim;
    if (hidden > widest) widest = hidden;
    if (m->per_layer_dim > widest) widest = m->per_layer_dim;
    int threads = thread_count();
    AttentionNeeds needs = {.max_n = (int)chunk};
    uint64_t cache_bytes = lay_out_caches(t, arena, &needs);
    t->q = arena_take(arena, chunk * heads, sizeof(float));
    t->k = arena_take(arena, chunk * kv, sizeof(float));
    t->v = arena_take(arena, chunk * values, sizeof(float));
    t->mixed = arena_take(arena, chunk * mixed, sizeof(float));
    cache_bytes += states_lay_out(&t->states, arena, t->model, chunk);
    if (m->kv_rank) latent_lay_out(&t->latent, arena, t->model, chunk, threads);
    t->hidden = arena_take(arena, chunk * hidden, sizeof(float));
    t->shared_gates = arena_take(arena, chunk, sizeof(float));
    t->added = NULL;
    if (m->attention_gate) t->gates = arena_take(arena, chunk * mixed, sizeof(float));
    bool norms_added = m->norm_place == NORM_AFTER || m->norm_place == NORM_BOTH;
    bool apart = norms_added || m->residual_scale > 0 || m->experts_beside || m->per_layer_dim;
    if (apart) t->added = arena_take(arena, chunk * m->dim, sizeof(float));
    t->beside = arena_take(arena, m->experts_beside ? chunk * m->dim : 0, sizeof(float));
    per_layer_lay_out(&t->per_layer, arena, m, chunk, threads);
    if (m->sliding_rope) angles_lay_out(&t->sliding, arena, c, c->sliding, &in_place);
    bool is_rope = m->encoding == ENCODING_ROPE;
    if (is_rope) angles_lay_out(&t->angles, arena, c, c->rope, &c->spread);
    else encoding_lay_out(&t->terms, arena, t->model, blocks_of(c->context));
    if (heads > widest) widest = heads;
    if (mixed > widest) widest = mixed;
    if (m->state_kind && state_width(m) > widest) widest = state_width(m);
    if (m->q_rank > widest) widest = m->q_rank;
    t->workspace = workspace_lay_out(arena, chunk, widest, threads, c->floats);
    if (m->n_experts) t->experts = experts_lay_out(arena, m, chunk, threads);
    t->attention = attention_lay_out(arena, &needs, threads);
    return cache_bytes;
}

void transformer_forget_angles(Transformer *t) {
    t->angles.n_blocks = 0;
    t->sliding.n_blocks = 0;
}
