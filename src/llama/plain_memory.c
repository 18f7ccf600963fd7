// Where the arrays of the definition lie.
#include "plain.h"

static float *floats(Arena *arena, int64_t rows, int64_t width) {
    return arena_take(arena, rows, width * sizeof(float));
}

static float *vector(Arena *arena, int64_t width) { return floats(arena, width, 1); }

static Turns lay_out_turns(const RopeConfig *rope, const Spread *spread, Arena *arena,
                           int64_t context) {
    Turns t = {.rope = rope, .spread = spread};
    int64_t n_pairs = rope->rotary_dim / 2;
    t.cosines = floats(arena, context, n_pairs);
    t.sines = floats(arena, context, n_pairs);
    t.own_cosines = vector(arena, n_pairs);
    t.own_sines = vector(arena, n_pairs);
    return t;
}

static Routing lay_out_routing(Arena *arena, const ModelConfig *m) {
    Routing r = {.weights = vector(arena, m->n_experts)};
    r.is_chosen = arena_take(arena, m->n_experts, sizeof(bool));
    r.scores = vector(arena, m->n_experts);
    r.group_scores = vector(arena, m->router_groups);
    r.is_open = arena_take(arena, m->router_groups, sizeof(bool));
    return r;
}

// What layers with a state keep, and make of the present token. Returns how wide that is, 0: there
// are no such layers.
static int64_t lay_out_states(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    int64_t n = layers_with_state(p->model, m->n_layers);
    if (n == 0) return 0;
    p->states = floats(arena, n, state_numbers(m));
    p->state_in = vector(arena, state_inputs(m));
    p->state_gate = vector(arena, state_width(m));
    p->state_beta = vector(arena, m->state_value_heads);
    p->state_step = vector(arena, m->state_value_heads);
    return state_width(m);
}

static int64_t greatest(const int64_t *numbers, int n) {
    int64_t found = 0;
    for (int i = 0; i < n; i++)
        if (numbers[i] > found) found = numbers[i];
    return found;
}

uint64_t plain_lay_out(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    const SessionConfig *c = p->config;
    int64_t context = c->context;
    int64_t rows = m->n_layers * context;
    int64_t heads = m->n_heads * m->head_dim;
    int64_t kv = m->n_kv_heads * m->head_dim;
    int64_t value_dim = model_value_dim(m);
    int64_t mixed = m->n_heads * value_dim;
    int64_t rotary_dim = p->model->rope.rotary_dim;
    int64_t of_hidden[] = {m->hidden_dim, m->expert_hidden_dim, m->shared_hidden_dim,
                           m->per_layer_dim};
    int64_t hidden = greatest(of_hidden, 4);
    int64_t own = (int64_t)m->n_layers * m->per_layer_dim;
    bool has_queries = m->encoding == ENCODING_DISENTANGLED;
    bool has_keys = has_queries || m->encoding == ENCODING_TRANSFORMER_XL;
    p->keys = floats(arena, rows, kv);
    p->values = floats(arena, rows, m->n_kv_heads * value_dim);
    int64_t made = lay_out_states(p, arena);
    if (made > mixed) mixed = made;
    uint64_t kept = arena->used;
    if (has_keys) p->distance_keys = floats(arena, rows, kv);
    if (has_queries) p->distance_queries = floats(arena, rows, heads);
    p->lengths = arena_take(arena, context, sizeof(int));
    p->distances = arena_take(arena, rows, sizeof(int));
    p->full = lay_out_turns(c->rope, &c->spread, arena, context);
    if (m->sliding_rope) p->sliding = lay_out_turns(c->sliding, &in_place, arena, context);
    p->scores = vector(arena, context + 1);
    p->normed = vector(arena, m->dim);
    p->added = vector(arena, m->dim);
    p->q = vector(arena, heads);
    p->mixed = vector(arena, mixed);
    p->gates = vector(arena, m->attention_gate ? mixed : 0);
    p->turned = vector(arena, m->head_dim);
    p->q_latent = vector(arena, m->q_rank);
    p->latent = vector(arena, m->kv_rank ? m->kv_rank + rotary_dim : 0);
    p->still = vector(arena, m->kv_rank ? m->n_heads * (m->head_dim - rotary_dim) : 0);
    p->gate = vector(arena, hidden);
    p->up = vector(arena, hidden);
    p->routing = lay_out_routing(arena, m);
    p->expert = vector(arena, m->dim);
    p->expert_input = vector(arena, m->dim);
    p->beside = vector(arena, m->experts_beside ? m->dim : 0);
    p->own = vector(arena, own);
    // A row of any matrix, filled up to whole packs of q4.
    int64_t columns[] = {m->dim, heads, mixed, m->q_rank, m->kv_rank, hidden, own};
    p->row = vector(arena, greatest(columns, 7) + Q4_PACK);
    return kept;
}
