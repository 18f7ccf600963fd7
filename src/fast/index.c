// Attention to chosen keys (src/kinds/index.c), a chunk of rows at a time. The indexer's keys have a
// cache like any others, so attention's products make its scores, under any method and map; a sum
// over heads then takes the place of a softmax. A few queries are in work at a time: the team shares
// the blocks of the past, and then each thread chooses for some of the queries.

#include <math.h>
#include <string.h>

#include "kinds.h"

// ---- keys and queries ----

// Norms, turns and stores the keys of the chunk.
static void store_index_by_team(const Team *team, const Transformer *t, int index) {
    const Index *x = &t->extra->index;
    const Angles *angles = angles_of(t, &t->model->layers[index]);
    const IndexTensors *w = &t->model->layers[index].extra->index;
    int64_t d = t->model->config.extra->index.dim;
    int row, end;
    for (rows_to_store(team, t, &row, &end); row < end; row++) {
        float *key = x->keys + row * d;
        layernorm_fast(key, key, w->k_norm, d, INDEX_EPS);
        add_to(key, w->b_k_norm, d);
        angles_turn_key(angles, row, key);
        kv_cache_write(&t->seconds[index], 0, t->first + row, key, NULL);
    }
    team_wait(team);
}

// ---- likings ----

// likings[row][j] = the sum over heads of weights * max(0, score) for the keys j of a block; -inf for
// those that the query does not see.
static void add_up(const Index *x, const AttentionTask *k, const float *weights, int row, int block,
                   float *likings) {
    int64_t n_heads = k->heads;
    float *out = likings + row * x->n_blocks * KV_BLOCK + (int64_t)block * KV_BLOCK;
    const float *scores = k->scratch->scores;
    memset(out, 0, KV_BLOCK * sizeof *out);
    for (int64_t h = 0; h < n_heads; h++)
        for (int j = 0; j < KV_BLOCK; j++) {
            float score = scores[h * KV_BLOCK + j];
            out[j] += weights[h] * (score > 0 ? score : 0);
        }
    for (int j = 0; j < KV_BLOCK; j++)
        if (scores[j] == -INFINITY) out[j] = -INFINITY;
}

// Of the queries [t0, t0 + n) of the call.
static void like_by_team(const Team *team, const Index *x, const Attention *a, const float *weights,
                         int t0, int n) {
    const AttentionMemory *memory = &a->scratch->threads[team->number];
    int64_t n_heads = a->n_heads;
    int n_blocks = (a->first + t0 + n - 1) / KV_BLOCK + 1;
    enum { BLOCKS = 8 };  // of a task, so that queries are made ready once for them
    int parts = (n_blocks + BLOCKS - 1) / BLOCKS;
    for (int task; (task = team_next_task(team)) < n * parts;) {
        int row = task / parts;
        int begin = task % parts * BLOCKS;
        AttentionTask k = begin_task(a, memory, 0, t0 + row, 1);
        for (int b = begin; b < begin + BLOCKS && b * KV_BLOCK <= a->first + t0 + row; b++) {
            KvBlock block = kv_cache_block(a->cache, 0, b, memory->unpacked);
            score_block(&k, &block, b);
            add_up(x, &k, weights + (t0 + row) * n_heads, row, b, x->likings);
        }
    }
    team_wait(team);
}

// ---- the choice ----

// A number that grows with a float. NaN is the least.
static uint32_t in_order(float x) {
    uint32_t bits;
    if (x != x) return 0;
    x += 0.0F;  // -0 counts as 0
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// The `most`-th greatest of n numbers, found by its bytes, the highest first (a radix select). *equals
// becomes how many numbers equal to it are among the `most` greatest.
static uint32_t least_chosen(const uint32_t *numbers, int n, int most, int *equals) {
    uint32_t found = 0;
    uint32_t known = 0;  // the bits of `found` that are
    for (int shift = 24; shift >= 0; shift -= 8) {
        int counts[256] = {0};
        int digit = 255;
        for (int j = 0; j < n; j++)
            if ((numbers[j] & known) == found) counts[numbers[j] >> shift & 255]++;
        while (digit > 0 && counts[digit] < most) most -= counts[digit--];
        found |= (uint32_t)digit << shift;
        known |= 255u << shift;
    }
    *equals = most;
    return found;
}

// Marks the best index_topk of n keys, the first ones among equals.
static void choose_keys_of(const float *likings, int n, int topk, uint32_t *ordered,
                           uint64_t *chosen) {
    int equals;
    for (int j = 0; j < n; j++) ordered[j] = in_order(likings[j]);
    uint32_t least = least_chosen(ordered, n, topk, &equals);
    memset(chosen, 0, blocks_of(n) * sizeof *chosen);
    for (int j = 0; j < n; j++) {
        bool is_in = ordered[j] > least || (ordered[j] == least && equals-- > 0);
        chosen[j / KV_BLOCK] |= (uint64_t)is_in << j % KV_BLOCK;
    }
}

static void choose_by_team(const Team *team, const Index *x, int first, int row, int n) {
    int topk = x->model->config.extra->index.topk;
    int64_t context = x->n_blocks * KV_BLOCK;
    for (int i; (i = team_next_task(team)) < n;) {
        int seen = first + i + 1;
        uint64_t *chosen = x->chosen + (row + i) * x->n_blocks;
        if (seen <= topk) memset(chosen, 0xff, blocks_of(seen) * sizeof *chosen);
        else
            choose_keys_of(x->likings + i * context, seen, topk,
                           x->ordered + team->number * context, chosen);
    }
    team_wait(team);
}

// Stores the indexer's keys of the chunk, and chooses those of its last n_wanted rows. What wq reads
// is there.
static void choose_keys_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    const IndexConfig *c = &t->model->config.extra->index;
    const IndexTensors *w = &layer->extra->index;
    Index *x = &t->extra->index;
    int skipped = t->n - n_wanted;
    int64_t heads = (int64_t)c->heads * c->dim;
    bool chooses = n_wanted > 0 && t->first + t->n > c->topk;
    Input input = rmsnorm_of(t, t->x, t->n, layer->attention_norm);
    Input q_latent = normed_q_latent(t, index);
    const Product of_input[] = {
        {.out = x->keys, .stride = c->dim, .matrix = &w->k},
        {.out = x->weights, .stride = c->heads, .matrix = &w->weights},
    };
    Product queries = {.out = x->queries, .stride = heads, .matrix = &w->q};
    matmul_by_team(team, of_input, chooses ? 2 : 1, &input, t->workspace);
    store_index_by_team(team, t, index);
    if (!chooses) return;
    matmul_by_team(team, &queries, 1, &q_latent, t->workspace);
    const Angles *angles = angles_of(t, layer);
    int n_heads = t->n * c->heads;
    for (int i = team_first(team, n_heads), end = team_end(team, n_heads); i < end; i++)
        angles_turn_query(angles, i / c->heads, x->queries + (int64_t)i * c->dim);
    team_wait(team);

    Attention a = attention_of(t, index, n_wanted);
    Spread alone = *a.spread;  // a crowd of keys is chosen as one is
    alone.crowd = false;
    a.spread = &alone;
    a.cache = &t->seconds[index];
    a.n_heads = c->heads;
    a.scale = 1;
    a.cap = 0;
    a.chosen = NULL;
    a.q = x->queries + skipped * heads;
    for (int row = 0; row < n_wanted; row += AT_ONCE_CHOSEN) {
        int count = n_wanted - row < AT_ONCE_CHOSEN ? n_wanted - row : AT_ONCE_CHOSEN;
        if (a.first + row + count > c->topk)
            like_by_team(team, x, &a, x->weights + (int64_t)skipped * c->heads, row, count);
        choose_by_team(team, x, a.first + row, skipped + row, count);
    }
}

// Latent attention to the chosen keys: the layer's own choice, or that of the last layer before it.
static void mix_index_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Index *x = &t->extra->index;
    bool is_past = t->first + t->n > m->extra->index.topk;
    project_latent_by_team(team, t, index, n_wanted);
    if (layer_chooses(m, &t->model->layers[index])) choose_keys_by_team(team, t, index, n_wanted);
    if (team->number == 0) {
        t->extra->attention.chosen = is_past ? x->chosen : NULL;
        t->extra->attention.chosen_stride = x->n_blocks;
    }
    team_wait(team);
    mix_projected_by_team(team, t, index, n_wanted);
}

// ---- memory ----

static bool has_choice(const Model *model, const Layer *layer) {
    (void)layer;
    return model->config.extra->index.topk > 0;
}

// At least half precision: saving memory here would make the choice between similar keys unreliable.
static void shape_index(const Model *model, const Layer *layer, KvCache *cache, int *n_heads) {
    const IndexConfig *c = &model->config.extra->index;
    if (!layer_chooses(&model->config, layer)) return;
    if (cache->kept != KV_F32) cache->kept = KV_F16;
    cache->n_kv_heads = 1;
    cache->head_dim = cache->value_dim = c->dim;
    cache->values_in_keys = true;
    *n_heads = c->heads;
}

static void lay_out_index_layers(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const IndexConfig *c = &m->extra->index;
    int64_t chunk = t->config->chunk;
    Index *x = &t->extra->index;
    *x = (Index){.model = t->model, .n_blocks = blocks_of(t->config->context)};
    if (c->topk == 0) return;
    int64_t context = x->n_blocks * KV_BLOCK;
    x->queries = arena_take(arena, chunk * c->heads * c->dim, sizeof(float));
    x->keys = arena_take(arena, chunk * c->dim, sizeof(float));
    x->weights = arena_take(arena, chunk * c->heads, sizeof(float));
    x->likings = arena_take(arena, AT_ONCE_CHOSEN * context, sizeof(float));
    x->ordered = arena_take(arena, thread_count() * context, sizeof(uint32_t));
    x->chosen = arena_take(arena, chunk * x->n_blocks, sizeof(uint64_t));
}

const FastKind fast_index = {
    .shape_second = shape_index,
    .lay_out = lay_out_index_layers,
    .has = has_choice,
    .mix_by_team = mix_index_by_team,
};
