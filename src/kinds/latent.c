// The definition of latent attention: keys and values are computed from the narrow vector, and then
// cached as in any other model. src/fast/latent.c caches the narrow vector instead.
#include "latent.h"

#include <stdio.h>
#include <string.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"

static const Field fields_of_latent[] = {
    {"q_rank", 608, U32, 0, MAX_WIDTH, IN_PART(LatentConfig, q_rank)},
    {"kv_rank", 612, U32, 0, ROPE_MAX_HEAD_DIM, IN_PART(LatentConfig, kv_rank)},
    {"latent_norm_eps", 616, F64, 0, 1, IN_PART(LatentConfig, norm_eps)},
    {"index_topk", 744, U32, 0, MOST, IN_PART(LatentConfig, indexer[0])},
    {"index_heads", 748, U32, 0, MAX_HEADS, IN_PART(LatentConfig, indexer[1])},
    {"index_dim", 752, U32, 0, ROPE_MAX_HEAD_DIM, IN_PART(LatentConfig, indexer[2])},
    {"latent_bias", 756, U32, 0, 1, IN_PART(LatentConfig, bias)},
};

// All heads have one shape, and a part of each rotates. Other additions to attention are excluded
// because the formulas have no place for them.
static const Rule rules_of_latent[] = {
    {"q_rank latent_norm_eps mscale_in_scores", NEEDS, "kv_rank"},
    {"latent_bias", NEEDS, "kv_rank o_bias"},
    {"qkv_bias qk_norm layer_shapes sliding_rope encoding value_norm attention_gate", EXCLUDES,
     "kv_rank"},
};

static bool check_latent(Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    int rope_dim = c->rotary_dim ? c->rotary_dim : (int)c->head_dim;
    if (c->kinds->latent->indexer[0])
        return fail(err,
                    "index_topk is %d: attention to the keys that an indexer chooses (DeepSeek "
                    "V3.2, GLM-5) went in version 5.0; version 4.0 runs this file",
                    c->kinds->latent->indexer[0]);
    if (!CHECK_RULES(m, rules_of_latent, err)) return false;
    if (c->kinds->latent->kv_rank == 0) return true;
    if (c->n_kv_heads != c->n_heads)
        return fail(err, "n_kv_heads is %d with kv_rank (expected %d, as n_heads)", c->n_kv_heads,
                    c->n_heads);
    return rope_dim < c->head_dim ||
           fail(err, "rotary_dim is %d of head_dim %d with kv_rank (expected less)", rope_dim,
                (int)c->head_dim);
}

static bool check_values(const Model *m, Error *err) {
    return m->config.kinds->latent->kv_rank == 0 ||
           check_no_layer_has(m, LAYER_KEYS_ARE_VALUES, "kv_rank 0", err);
}

// Adds the tensors of latent vectors, and reshapes wq, wk and wv.
static void add_latent_tensors(Model *m, Layer *w, Tensors *t) {
    const ModelConfig *c = &m->config;
    const LatentConfig *l = c->kinds->latent;
    LatentTensors *to = w->kinds->latent;
    int64_t rope_dim = m->rope.rotary_dim;
    const Tensor rows[] = {
        {110, &to->wq_a, ATTENTION, .rows = l->q_rank, .cols = c->dim},
        {115, &to->b_q_a, FLOATS, .rows = l->bias && l->q_rank > 0, .cols = l->q_rank},
        {120, &to->q_a_norm, FLOATS, .rows = l->q_rank > 0, .cols = l->q_rank},
        {140, &to->wkv_a, ATTENTION, .rows = l->kv_rank + rope_dim, .cols = c->dim},
        {145, &to->b_kv_a, FLOATS, .rows = l->bias, .cols = l->kv_rank + rope_dim},
        {150, &to->kv_a_norm, FLOATS, .rows = 1, .cols = l->kv_rank},
    };
    if (l->kv_rank == 0) return;
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
    if (l->q_rank) tensor_at(t, &w->wq)->cols = l->q_rank;
    Tensor *wk = tensor_at(t, &w->wk);
    Tensor *wv = tensor_at(t, &w->wv);
    wk->rows = c->n_heads * (c->head_dim - rope_dim);
    wv->rows = tensor_at(t, &w->wo)->cols;
    wk->cols = wv->cols = l->kv_rank;
    wk->looked_up = wv->looked_up = true;
}

// q = wq @ rmsnorm(wq_a @ normed); wq @ normed without q_rank.
static void project_queries(const Plain *p) {
    const LatentConfig *l = p->model->config.kinds->latent;
    const LatentTensors *own = p->w->kinds->latent;
    float *q_latent = p->kinds->latent->q_latent;
    const float *x = p->normed;
    if (l->q_rank) {
        matmul_biased(q_latent, &own->wq_a, p->normed, own->b_q_a, p->row);
        rmsnorm(q_latent, q_latent, own->q_a_norm, l->q_rank, l->norm_eps);
        x = q_latent;
    }
    matmul(p->q, &p->w->wq, x, p->row);
}

static void mix_latent(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    const LatentConfig *l = m->kinds->latent;
    const LatentTensors *own = p->w->kinds->latent;
    const PlainLatent *made = p->kinds->latent;
    int64_t d = m->head_dim;
    int64_t rope_dim = p->model->rope.rotary_dim;
    int64_t nope_dim = d - rope_dim;
    float *k = key_row(p, p->keys, p->i);
    (void)x;
    project_queries(p);

    // latent (kv_rank) is normed. The part of a key that rotates, which all heads share, comes
    // after it and is not normed.
    const float *shared = made->latent + l->kv_rank;
    matmul_biased(made->latent, &own->wkv_a, p->normed, own->b_kv_a, p->row);
    rmsnorm(made->latent, made->latent, own->kv_a_norm, l->kv_rank, l->norm_eps);
    matmul(value_row(p, p->i), &p->w->wv, made->latent, p->row);
    matmul(made->nope, &p->w->wk, made->latent, p->row);

    // k (n_heads, d): the part that rotates, then each head's own part
    for (int h = 0; h < m->n_heads; h++) {
        memcpy(k + h * d, shared, rope_dim * sizeof(float));
        memcpy(k + h * d + rope_dim, made->nope + h * nope_dim, nope_dim * sizeof(float));
    }
    attend(p);
    project_mixed(p);
}

bool has_latent_attention(const Model *m) { return m->config.kinds->latent->kv_rank > 0; }

static bool has_latent(const Model *model, const Layer *layer) {
    (void)layer;
    return has_latent_attention(model);
}

static void lay_out_latent(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    const LatentConfig *l = m->kinds->latent;
    PlainLatent *made = p->kinds->latent;
    int64_t rope_dim = p->model->rope.rotary_dim;
    if (l->kv_rank == 0) return;
    made->q_latent = arena_take(arena, l->q_rank, sizeof(float));
    made->latent = arena_take(arena, l->kv_rank + rope_dim, sizeof(float));
    made->nope = arena_take(arena, m->n_heads * (m->head_dim - rope_dim), sizeof(float));
}

static void describe_latent(const Model *m, Teller *tell, void *whose) {
    int rank = m->config.kinds->latent->kv_rank;
    char words[80];
    snprintf(words, sizeof words, "%d and %d that turn, for all heads", rank, m->rope.rotary_dim);
    if (rank > 0 && m->layers) tell(whose, "cache_latent", words, false);
}

const Kind latent_kind = {
    .parts = {[OF_MODEL] = {sizeof(LatentConfig), offsetof(struct ModelParts, latent)},
              [OF_LAYER] = {sizeof(LatentTensors), offsetof(struct LayerParts, latent)},
              [OF_TEXT] = {sizeof(PlainLatent), offsetof(struct PlainParts, latent)}},
    .fields = fields_of_latent,
    .n_fields = sizeof fields_of_latent / sizeof fields_of_latent[0],
    .check = check_latent,
    .check_layers = check_values,
    .add_tensors = add_latent_tensors,
    .describe = describe_latent,
    .lay_out = lay_out_latent,
    .has = has_latent,
    .mix = mix_latent,
};
