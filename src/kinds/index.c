// A choice of keys, as its definition. The query at i likes the key at j by
//     the sum over heads h of weights[h] * max(0, q[h] . k[j])
// where q and k turn as attention's do, from the first element on, and weights are of the query. The
// published constants 1 / sqrt(dim) and 1 / sqrt(heads) do not change the choice. The best index_topk
// keys are seen, of equals the first ones.
#include "index.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "kinds.h"
#include "rules.h"

// ---- the header and the tensors ----

static const Field fields_of_index[] = {
    {"index_topk", 744, U32, 0, MOST, EXTRA(index.topk)},
    {"index_heads", 748, U32, 0, MAX_HEADS, EXTRA(index.heads)},
    {"index_dim", 752, U32, 0, ROPE_MAX_HEAD_DIM, EXTRA(index.dim)},
};

static const Rule rules_of_index[] = {
    {"index_topk", NEEDS, "index_heads index_dim q_rank kv_rank"},
    {"index_heads index_dim", NEEDS, "index_topk"},
};

static bool check_index(Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    int dim = c->extra->index.dim;
    int turning = c->rotary_dim ? c->rotary_dim : (int)c->head_dim;
    return CHECK_RULES(m, rules_of_index, err) &&
           (dim == 0 || dim >= turning ||
            fail(err, "index_dim is %d, and %d elements turn (expected as many or more)", dim,
                 turning));
}

static bool check_first_layer(Model *m, Cursor *file, Error *err) {
    (void)file;
    return !(m->layers[0].extra->flags & LAYER_SHARES_CHOICE) ||
           fail(err, "impossible header: layer 0 shares the choice of keys of the layer before it");
}

bool layer_chooses(const ModelConfig *c, const Layer *layer) {
    return c->extra->index.topk > 0 && !(layer->extra->flags & LAYER_SHARES_CHOICE);
}

static void list_index(Model *m, Layer *w, Tensors *t) {
    const ModelConfig *c = &m->config;
    const IndexConfig *i = &c->extra->index;
    IndexTensors *to = &w->extra->index;
    int64_t rank = c->extra->latent.q_rank;
    const Tensor rows[] = {
        {151, &to->q, ATTENTION, .rows = (int64_t)i->heads * i->dim, .cols = rank},
        {152, &to->k, ATTENTION, .rows = i->dim, .cols = c->dim},
        {153, &to->k_norm, FLOATS, .rows = 1, .cols = i->dim},
        {154, &to->b_k_norm, FLOATS, .rows = 1, .cols = i->dim},
        {155, &to->weights, ATTENTION, .rows = i->heads, .cols = c->dim},
    };
    if (layer_chooses(c, w)) add_tensors(t, rows, sizeof rows / sizeof rows[0]);
}

// ---- the choice ----

static float *index_key(const Plain *p, int i) {
    int64_t row = (int64_t)p->layer * p->context + i;
    return p->extra->index.keys + row * p->model->config.extra->index.dim;
}

// How much the present query likes the key of token j.
static float liking(const Plain *p, int j) {
    const IndexConfig *c = &p->model->config.extra->index;
    const PlainIndex *made = &p->extra->index;
    const Turns *turns = turns_of(p);
    int n_pairs = turning_pairs(p);
    const float *cosines = turns->cosines + (int64_t)j * n_pairs;
    const float *sines = turns->sines + (int64_t)j * n_pairs;
    const float *key = index_key(p, j);
    float sum = 0;
    for (int h = 0; h < c->heads; h++) {
        memcpy(made->turned, made->q + (int64_t)h * c->dim, c->dim * sizeof(float));
        rope_rotate(made->turned, n_pairs, cosines, sines);
        float score = dot(made->turned, key, c->dim);
        sum += made->weights[h] * fmaxf(score, 0);
    }
    return sum;
}

static int by_falling(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x < y) - (x > y);
}

// Marks the `most` greatest of n scores, of equals the first ones. NaN counts as the least.
static void mark_best(PlainIndex *made, int n, int most) {
    if (n <= most) {
        for (int j = 0; j < n; j++) made->is_chosen[j] = true;
        return;
    }
    for (int j = 0; j < n; j++) {
        if (!(made->scores[j] >= -FLT_MAX)) made->scores[j] = -FLT_MAX;
        made->sorted[j] = made->scores[j];
    }
    qsort(made->sorted, n, sizeof(float), by_falling);
    float last = made->sorted[most - 1];
    int above = 0;
    for (int j = 0; j < n; j++) above += made->scores[j] > last;
    int equals = most - above;
    for (int j = 0; j < n; j++) {
        made->is_chosen[j] = made->scores[j] > last || (made->scores[j] == last && equals-- > 0);
    }
}

// Chooses keys for the present token, whose q_latent and normed are there.
static void choose_keys(Plain *p) {
    const IndexConfig *c = &p->model->config.extra->index;
    const IndexTensors *w = &p->w->extra->index;
    PlainIndex *made = &p->extra->index;
    float *key = index_key(p, p->i);
    matmul(key, &w->k, p->normed, p->row);
    layernorm(key, key, w->k_norm, c->dim, INDEX_EPS);
    add(key, 1, w->b_k_norm, c->dim);
    if (p->i < c->topk) {
        mark_best(made, p->i + 1, c->topk);
        return;
    }
    matmul(made->q, &w->q, p->extra->latent.q_latent, p->row);
    matmul(made->weights, &w->weights, p->normed, p->row);
    for (int j = 0; j <= p->i; j++) made->scores[j] = query_sees(p, j) ? liking(p, j) : -FLT_MAX;
    mark_best(made, p->i + 1, c->topk);
}

// Latent attention that sees the chosen keys: of the layer's own choice, or of the last one before.
static void mix_index(Plain *p, float *x) {
    read_normed(p, x, p->w->attention_norm);
    project_queries(p);
    if (layer_chooses(&p->model->config, p->w)) choose_keys(p);
    p->extra->attention.is_open = p->extra->index.is_chosen;
    mix_latent(p, x);
    p->extra->attention.is_open = NULL;
}

static bool has_index(const Plain *p, const Layer *layer) {
    (void)layer;
    return p->model->config.extra->index.topk > 0;
}

static void lay_out_index(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    const IndexConfig *c = &m->extra->index;
    PlainIndex *made = &p->extra->index;
    if (c->topk == 0) return;
    made->keys = arena_take(arena, (int64_t)m->n_layers * p->context, c->dim * sizeof(float));
    made->q = arena_take(arena, (int64_t)c->heads * c->dim, sizeof(float));
    made->weights = arena_take(arena, c->heads, sizeof(float));
    made->turned = arena_take(arena, c->dim, sizeof(float));
    made->scores = arena_take(arena, p->context, sizeof(float));
    made->sorted = arena_take(arena, p->context, sizeof(float));
    made->is_chosen = arena_take(arena, p->context, sizeof(bool));
}

static void describe_index(const Model *m, Teller *tell, void *whose) {
    char words[120];
    int topk = m->config.extra->index.topk, sharing = 0;
    if (topk == 0 || !m->layers) return;
    for (int l = 0; l < m->config.n_layers; l++)
        sharing += (m->layers[l].extra->flags & LAYER_SHARES_CHOICE) != 0;
    int used = snprintf(words, sizeof words, "%d at most, of all that are before a query", topk);
    if (sharing > 0)
        snprintf(words + used, sizeof words - used, "; %d of %d layers take the choice of another",
                 sharing, (int)m->config.n_layers);
    tell(whose, "keys_chosen", words, false);
}

const Kind index_kind = {
    .fields = fields_of_index,
    .n_fields = sizeof fields_of_index / sizeof fields_of_index[0],
    .check = check_index,
    .read_tables = check_first_layer,
    .add_tensors = list_index,
    .describe = describe_index,
    .lay_out = lay_out_index,
    .has = has_index,
    .mix = mix_index,
};
