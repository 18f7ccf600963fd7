// The memory of a forward pass.
#include "experts.h"
#include "transformer.h"

uint64_t transformer_lay_out(Transformer *t, float *x, Arena *arena) {
    t->x = x;
    const ModelConfig *m = &t->model->config;
    const SessionConfig *c = t->config;
    int64_t chunk = c->chunk;
    int64_t heads = m->n_heads * m->head_dim;
    int64_t kv = m->n_kv_heads * m->head_dim;
    int64_t widest = m->dim;
    int64_t hidden = m->shared_hidden_dim > m->hidden_dim ? m->shared_hidden_dim : m->hidden_dim;
    if (hidden > widest) widest = hidden;
    int threads = thread_count();
    t->cache = (KvCache){
        .type = (Number)c->kv,
        .n_layers = m->n_layers,
        .n_kv_heads = m->n_kv_heads,
        .head_dim = m->head_dim,
        .positions = c->context,
    };
    kv_cache_lay_out(&t->cache, arena);
    uint64_t cache_bytes = arena->used;
    t->q = arena_take(arena, chunk * heads, sizeof(float));
    t->k = arena_take(arena, chunk * kv, sizeof(float));
    t->v = arena_take(arena, chunk * kv, sizeof(float));
    t->mixed = arena_take(arena, chunk * heads, sizeof(float));
    t->hidden = arena_take(arena, chunk * hidden, sizeof(float));
    t->shared_gates = arena_take(arena, chunk, sizeof(float));
    t->added = NULL;
    if (m->attention_gate) t->gates = arena_take(arena, chunk * heads, sizeof(float));
    bool norms_added = m->norm_place == NORM_AFTER || m->norm_place == NORM_BOTH;
    if (norms_added || m->residual_scale > 0) t->added = arena_take(arena, chunk * m->dim, sizeof(float));
    if (m->sliding_rope) angles_lay_out(&t->sliding, arena, c, c->sliding, &in_place);
    bool is_rope = m->encoding == ENCODING_ROPE;
    if (is_rope) angles_lay_out(&t->angles, arena, c, c->rope, &c->spread);
    else encoding_lay_out(&t->terms, arena, t->model, t->cache.n_blocks);
    if (heads > widest) widest = heads;
    t->workspace = workspace_lay_out(arena, chunk, widest, threads, c->floats);
    if (m->n_experts) t->experts = experts_lay_out(arena, m, chunk, threads);
    t->attention = attention_lay_out(arena, &t->cache, m->n_heads, c->chunk, threads);
    return cache_bytes;
}

void transformer_forget_angles(Transformer *t) {
    t->angles.n_blocks = 0;
    t->sliding.n_blocks = 0;
}
