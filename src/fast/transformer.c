// Llama's forward pass, straight down: embedding; for each layer attention and feed-forward, each
// behind an RMS norm and added to the residual stream; a last norm and the classifier. A chunk of n
// positions goes through a layer together, so every activation is a matrix of n rows. Other
// families are the same with a step more, or elsewhere: biases (Qwen2), a norm of each head (Qwen3)
// or of all heads together (OLMo 2), heads that turn in part (Phi-4), layers that do not turn
// (SmolLM3), that slide (Mistral) and that then turn by settings of their own (Gemma 3), norms
// behind attention and feed-forward (OLMo 2), or also there (Gemma 3), GELU and a scale of the
// embedding (Gemma 3), queries that grow with their position (Ministral 3), experts in place of one
// feed-forward layer (Mixtral, Qwen3-MoE), learned sinks (gpt-oss).
//
// plain.c has every step as its definition, for one position:
//     here                        there
//     rmsnorm_of                  rmsnorm; the products take it on their way in
//     add_product_by_team         matmul, and add_normed
//     norm_whole_by_team          norm_heads, where one norm is of all heads
//     matmul_by_team              project and matmul; those of one input are computed together
//     rotate_and_store_by_team    norm_heads and fill_turns: keys are rotated once, when stored
//     attention_by_team           attention, its loop over heads: scores, softmax, mix
//     matmul_by_team, .gate       feed_forward: its first two products, and silu
//     experts_by_team             mix_experts; experts.c
//     states_by_team              gated_delta_rule and short_convolution; states.c
//     transformer_logits          plain_logits
//
// Threads. transformer_forward opens a parallel region for each step: a token, or one layer of a
// prompt's chunk. In it every thread of the team runs the same lines side by side. A function whose
// name ends in _by_team is called by the whole team together, with the same arguments. Each thread
// takes its share of the rows, heads or pairs (team_first, or team_next_task where pieces differ in
// size), and writes nothing that another one writes. At the end it waits for the others
// (team_wait), so the next line can read what all have made. What one thread does for all stands
// behind `team->number == 0`. All other functions belong to the thread that calls them. pace.h says
// how many threads a step gets; a small read runs on the caller alone.
#include "transformer.h"

#include <math.h>
#include <string.h>

#include "process.h"
#include "spread_token.h"
#include "widen.h"

// reads with fewer multiplications are done before other threads have woken
enum { WORTH_A_TEAM = 1 << 20 };

// ---- attention ----

// The angles by which a layer turns, NULL: it does not.
static const Angles *angles_of(const Transformer *t, const Layer *layer) {
    bool is_rope = t->model->config.encoding == ENCODING_ROPE;
    if (!is_rope || layer->flags & LAYER_NOPE) return NULL;
    return layer->flags & LAYER_SLIDING ? &t->sliding : &t->angles;
}

// The norms of k, and of q but for the first `skipped` rows, that go over all heads of a row
// together.
static void norm_whole_by_team(const Team *team, Transformer *t, const Layer *layer, int skipped) {
    int64_t heads = layer->wq.rows;
    int64_t kv = layer->wk.rows;
    float eps = (float)t->model->config.norm_eps;
    int end = team_end(team, t->n);
    for (int row = team_first(team, t->n); row < end; row++) {
        float *q = t->q + row * heads;
        float *k = t->k + row * kv;
        if (kv > 0) rmsnorm_fast(k, k, layer->k_norm, kv, eps);
        if (row >= skipped) rmsnorm_fast(q, q, layer->q_norm, heads, eps);
    }
    team_wait(team);
}

// How the heads of a layer's queries or keys are normed and turned: their width, and how many pairs
// of each turn.
typedef struct {
    int64_t dim, pairs;
    float eps;
    bool norms, norms_late;  // before they turn, or behind that
    const float *norm;       // (dim) NULL: ones
    const float *turns;      // (n, 2, pairs) of the chunk's rows; NULL: they do not turn
} Heads;

// n_heads heads of x, which are of this row.
static void rotate_heads(const Heads *of, float *x, int n_heads, int row) {
    const float *turns = of->turns ? of->turns + row * 2 * of->pairs : NULL;
    for (int h = 0; h < n_heads; h++) {
        if (of->norms && !of->norms_late) rmsnorm_fast(x, x, of->norm, of->dim, of->eps);
        if (turns) rope_rotate(x, (int)of->pairs, turns, turns + of->pairs);
        if (of->norms && of->norms_late) rmsnorm_fast(x, x, of->norm, of->dim, of->eps);
        x += of->dim;
    }
}

// The values of a head: of wv, or as the key is before its norm, and normed if the model does.
static void make_value(const Transformer *t, const Layer *layer, const float *key, float *value) {
    const ModelConfig *m = &t->model->config;
    int64_t n = layer_value_dim(m, layer);
    if (layer->flags & LAYER_KEYS_ARE_VALUES) memcpy(value, key, n * sizeof *value);
    if (m->value_norm) rmsnorm_fast(value, value, NULL, n, (float)m->norm_eps);
}

// Norms and rotates the heads of k, and of q but for the first `skipped` rows; stores k and v. A
// thread's share is blocks of the cache, each of one kv head, with the query heads that share the
// kv head.
static void rotate_and_store_by_team(const Team *team, Transformer *t, int index, int skipped) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    const LayerShape *of = &layer->shape;
    int64_t d = of->head_dim;
    Heads queries = {.dim = d, .eps = (float)m->norm_eps, .norm = layer->q_norm};
    queries.norms = layer_norms_heads(layer, m);
    queries.norms_late = m->qk_norm_late;
    if (angles) queries.pairs = angles->n_pairs;
    Heads keys = queries;
    keys.norm = layer->k_norm;
    if (angles) queries.turns = angles->queries;
    if (angles) keys.turns = angles->keys;
    int64_t kv = of->n_kv_heads * d;
    int64_t value_dim = layer_value_dim(m, layer);
    int64_t heads = of->n_heads * d;
    int group = of->n_heads / of->n_kv_heads;
    bool has_keys = of->kv_layer == index;
    int first_block = t->first / KV_BLOCK;
    int n_blocks = (t->first + t->n - 1) / KV_BLOCK - first_block + 1;
    int n = of->n_kv_heads * n_blocks;
    int end = team_end(team, n);
    for (int i = team_first(team, n); i < end; i++) {
        int h = i / n_blocks;
        int block_start = (first_block + i % n_blocks) * KV_BLOCK - t->first;
        int stop = block_start + KV_BLOCK < t->n ? block_start + KV_BLOCK : t->n;
        int start = block_start > 0 ? block_start : 0;
        for (int row = start; row < stop; row++) {
            float *k = t->k + row * kv + h * d;
            float *v = t->v + (row * of->n_kv_heads + h) * value_dim;
            float *q = t->q + row * heads + h * group * d;
            if (has_keys) {
                make_value(t, layer, k, v);
                rotate_heads(&keys, k, 1, row);
                kv_cache_write(&t->caches[index], h, t->first + row, k, v);
            }
            if (row >= skipped) rotate_heads(&queries, q, group, row);
        }
    }
    team_wait(team);
}

// mixed = attention of one layer for the chunk's queries from row `skipped` on. `watch` takes a
// single query's scores.
static void attend_by_team(const Team *team, Transformer *t, int index, int skipped,
                           const Watch *watch) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const SessionConfig *c = t->config;
    const RopeConfig *rope = layer_rope(layer, c->rope, c->sliding);
    Attention a = {0};
    a.cache = &t->caches[index];
    a.scratch = t->attention;
    a.rope = rope;
    a.layer = index;
    a.n_heads = layer->shape.n_heads;
    a.scale = layer_score_scale(m, layer);
    a.cap = (float)m->score_cap;
    a.grows = !rope->temperature_unturned || layer->flags & LAYER_NOPE;
    a.chunk = layer_chunk(layer, m);
    bool sees_all = layer->flags & LAYER_SEES_ALL && !rope->all_slide;
    a.window = sees_all ? 0 : rope->window;
    a.spread = layer->flags & LAYER_SLIDING ? &in_place : &t->config->spread;
    a.sinks = spread_token(a.spread, rope->sinks);
    a.learned_sinks = layer->sinks;
    a.angles = angles_of(t, layer);
    a.terms = encoding_has_terms(m->encoding) ? &t->terms : NULL;
    a.q = t->q + skipped * layer->wq.rows;
    if (m->kv_rank) a.q = t->latent.queries + skipped * m->n_heads * a.cache->head_dim;
    a.first = t->first + skipped;
    a.n = t->n - skipped;
    a.out = m->kv_rank ? t->latent.mixed : t->mixed;
    a.watch = watch;
    attention_by_team(team, &a);
}

// ---- forward ----

// The n rows x, normed if there are weights for it.
static Input rmsnorm_of(const float *x, int n, const float *weight, const ModelConfig *m) {
    float eps = (float)m->norm_eps;
    return (Input){.x = x, .n = n, .norm = weight, .eps = eps, .centers = m->layer_norm};
}

// Whether what a layer adds is made by itself first: it has a norm with these weights, or a scale.
static bool adds_apart(const ModelConfig *m, const float *norm) {
    return norm || m->residual_scale > 0;
}

// x (n, dim) += t->added, with that normed before if there are weights for it, and scaled.
static void add_normed_by_team(const Team *team, Transformer *t, float *x, int n,
                               const float *norm) {
    const ModelConfig *m = &t->model->config;
    float eps = (float)(m->after_norm_eps > 0 ? m->after_norm_eps : m->norm_eps);
    int end = team_end(team, n);
    for (int row = team_first(team, n); row < end; row++) {
        float *added = t->added + row * m->dim;
        if (norm && m->layer_norm) layernorm_fast(added, added, norm, m->dim, eps);
        else if (norm) rmsnorm_fast(added, added, norm, m->dim, eps);
        if (m->residual_scale > 0) scale_by(added, (float)m->residual_scale, m->dim);
        add_to(x + row * m->dim, added, m->dim);
    }
    team_wait(team);
}

// x (n, dim) += matrix . input + bias (dim or NULL), with the product normed before that if there
// are weights for it.
static void add_product_by_team(const Team *team, Transformer *t, float *x, const Product *product,
                                const Input *input, const float *norm) {
    const ModelConfig *m = &t->model->config;
    Product p = *product;
    bool apart = adds_apart(m, norm);
    int n = (int)input->n;
    p.out = apart ? t->added : x;
    p.stride = m->dim;
    p.add = !apart;
    matmul_by_team(team, &p, 1, input, t->workspace);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}

// A dense feed-forward layer: hidden (n, hidden_dim) = silu(w1 . rmsnorm(x)) * (w3 . rmsnorm(x)), or
// what other activations make of both, or of w3 . rmsnorm(x) alone
static void start_feed_forward_by_team(const Team *team, Transformer *t, const float *x, int n,
                                       const Layer *layer, const float *norm) {
    const ModelConfig *m = &t->model->config;
    const FeedForward *w = &layer->ffn;
    Product w1_w3 = {
        .out = t->hidden,
        .stride = layer->shape.hidden_dim,
        .gate = w->w1.rows > 0 ? &w->w1 : NULL,
        .matrix = &w->w3,
        .gate_bias = w->b1,
        .bias = w->b3,
        .activation = m->activation,
        .xielu = layer->xielu,
    };
    Input input = rmsnorm_of(x, n, norm, m);
    matmul_by_team(team, &w1_w3, 1, &input, t->workspace);
}

// x (n, dim) += w2 . hidden
static void end_feed_forward_by_team(const Team *team, Transformer *t, float *x, int n,
                                     const Layer *layer) {
    Product w2 = {.matrix = &layer->ffn.w2, .bias = layer->ffn.b2};
    Input input = {.x = t->hidden, .n = n};
    add_product_by_team(team, t, x, &w2, &input, layer->ffn_after);
}

// Of the expert that every token takes: hidden (n, shared_hidden_dim), and the gate of each row.
static void start_shared_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 const Input *input) {
    const ModelConfig *m = &t->model->config;
    const FeedForward *w = &layer->shared;
    Product w1_w3 = {
        .out = t->hidden,
        .stride = m->shared_hidden_dim,
        .gate = &w->w1,
        .matrix = &w->w3,
        .activation = m->activation,
    };
    matmul_by_team(team, &w1_w3, 1, input, t->workspace);
    if (!layer->shared_gate) return;
    Matrix row = {.type = WEIGHT_F32, .rows = 1, .cols = m->dim, .data = layer->shared_gate};
    Product gate = {.out = t->shared_gates, .stride = 1, .matrix = &row};
    matmul_by_team(team, &gate, 1, input, t->workspace);
    int n = (int)input->n;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++)
        t->shared_gates[i] = 1 / (1 + expf(-t->shared_gates[i]));
    team_wait(team);
}

// out (n, dim) += w2 . hidden, by the gates if there are any
static void add_shared_by_team(const Team *team, Transformer *t, const Layer *layer, int n,
                               float *out) {
    Product w2 = {.matrix = &layer->shared.w2, .out = out, .add = true};
    w2.stride = t->model->config.dim;
    if (layer->shared_gate) w2.factors = t->shared_gates;
    Input input = {.x = t->hidden, .n = n};
    matmul_by_team(team, &w2, 1, &input, t->workspace);
}

// t->added (n, dim) = rmsnorm(the dense layer) + rmsnorm(the experts beside it), which read x
// behind norms of their own.
static void mix_beside_by_team(const Team *team, Transformer *t, const float *x, int n,
                               const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    float eps = (float)m->norm_eps;
    Input input = rmsnorm_of(x, n, layer->ffn_norm, m);
    Input of_experts = rmsnorm_of(x, n, layer->experts_norm, m);
    int first = team_first(team, n);
    int end = team_end(team, n);
    memset(t->added + first * m->dim, 0, (end - first) * m->dim * sizeof(float));
    memset(t->beside + first * m->dim, 0, (end - first) * m->dim * sizeof(float));
    start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t->experts, layer, &of_experts, t->added, t->workspace);
    add_shared_by_team(team, t, layer, n, t->beside);
    for (int row = first; row < end; row++) {
        float *added = t->added + row * m->dim;
        float *beside = t->beside + row * m->dim;
        rmsnorm_fast(added, added, layer->experts_after, m->dim, eps);
        rmsnorm_fast(beside, beside, layer->shared_after, m->dim, eps);
        add_to(added, beside, m->dim);
    }
    team_wait(team);
}

// The same of a layer with experts, which add up where there is 0, or to x itself.
static void add_experts_by_team(const Team *team, Transformer *t, float *x, int n,
                                const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    const float *norm = layer->ffn_after;
    if (m->experts_beside) {
        mix_beside_by_team(team, t, x, n, layer);
        add_normed_by_team(team, t, x, n, norm);
        return;
    }
    Input input = rmsnorm_of(x, n, layer->ffn_norm, m);
    bool apart = adds_apart(m, norm);
    float *out = apart ? t->added : x;
    int end = apart ? team_end(team, n) : 0;
    for (int row = team_first(team, n); row < end; row++)
        memset(out + row * m->dim, 0, m->dim * sizeof *out);
    if (m->shared_hidden_dim) start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t->experts, layer, &input, out, t->workspace);
    if (m->shared_hidden_dim) add_shared_by_team(team, t, layer, n, out);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}

// mixed (n_wanted, rows of wo) times a scale, and times what the gates make of them, which have a
// number for each element or for each head.
static void change_mixed_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 int skipped) {
    const ModelConfig *m = &t->model->config;
    int64_t width = layer->wo.cols;
    int64_t n_gates = layer->wg.rows;
    int n = t->n - skipped;
    if (n_gates == 0 && m->value_scale <= 0) return;
    for (int row = team_first(team, n), end = team_end(team, n); row < end; row++) {
        float *mixed = t->mixed + row * width;
        const float *gates = t->gates + (row + skipped) * n_gates;
        if (m->value_scale > 0) scale_by(mixed, (float)m->value_scale, width);
        if (n_gates == 0) continue;
        if (m->attention_gate == GATE_SIGMOID) gate_by_sigmoid(mixed, gates, width);
        else gate_by_softplus(mixed, gates, width / n_gates, width);
    }
    team_wait(team);
}

// q (n, n_heads * head_dim), k (n, n_kv_heads * head_dim) and v (n, n_kv_heads * value_dim): wq, wk
// and wv @ the input + bias; and if there is a gate, gates (n, rows of wg). Queries and keys are
// normed, by head or all together, and turned by their positions' angles; keys and values go into
// the cache.
static void store_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                          const Input *input) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    int skipped = t->n - n_wanted;
    const Product all[] = {
        {.out = t->k, .stride = layer->wk.rows, .matrix = &layer->wk, .bias = layer->bk},
        {.out = t->v, .stride = layer->wv.rows, .matrix = &layer->wv, .bias = layer->bv},
        {.out = t->q, .stride = layer->wq.rows, .matrix = &layer->wq, .bias = layer->bq},
        {.out = t->gates, .stride = layer->wg.rows, .matrix = &layer->wg, .bias = layer->bg},
    };
    Product asked[4];
    int n = 0;
    for (int i = 0; i < (n_wanted > 0 ? 4 : 2); i++)
        if (all[i].matrix->rows > 0) asked[n++] = all[i];
    if (n > 0) matmul_by_team(team, asked, n, input, t->workspace);
    if (m->qk_norm == QK_NORM_WHOLE) norm_whole_by_team(team, t, layer, skipped);
    rotate_and_store_by_team(team, t, index, skipped);
}

// The same of latent attention: queries as they meet latent keys, and these in the cache.
static void store_latent_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                                 const Input *input) {
    const Layer *layer = &t->model->layers[index];
    const Angles *angles = angles_of(t, layer);
    Latent *l = &t->latent;
    latent_project_by_team(team, l, layer, input, t->q, n_wanted == 0, t->workspace);
    latent_store_by_team(team, l, index, angles, &t->caches[index], t->first, t->n);
    if (n_wanted > 0) latent_absorb_by_team(team, l, layer, angles, t->q, t->n - n_wanted, t->n);
}

// The last steps of a layer on the rows x (n, dim), of which the first is row `skipped` of the
// chunk: its own embedding of the token, and a scale of all.
static void end_layer_by_team(const Team *team, Transformer *t, float *x, int index, int skipped) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    int n = t->n - skipped;
    if (m->per_layer_dim) {
        Input input = {.x = x, .n = n};
        per_layer_gate_by_team(team, &t->per_layer, t->model, index, skipped, &input, t->workspace);
        Product out = {.matrix = &layer->per_layer_out};
        input.x = t->per_layer.gate;
        add_product_by_team(team, t, x, &out, &input, layer->per_layer_after);
    }
    if (!layer->scale) return;
    int end = team_end(team, n);
    for (int row = team_first(team, n); row < end; row++)
        scale_by(x + row * m->dim, *layer->scale, m->dim);
    team_wait(team);
}

// mixed (n_wanted, n_heads * value_dim) = softmax(scale q k) v over all tokens so far, where all rows of
// the input get keys and values; or in a layer with a state what that makes. Returns it.
static const float *mix_by_team(const Team *team, Transformer *t, int index, int n_wanted,
                                const Input *input) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const Watch *watch = &t->config->watch;
    int skipped = t->n - n_wanted;
    if (layer->flags & LAYER_STATE) {
        states_by_team(team, &t->states, index, input, n_wanted, t->workspace);
        return t->states.made;
    }
    if (m->kv_rank) store_latent_by_team(team, t, index, n_wanted, input);
    else store_by_team(team, t, index, n_wanted, input);
    if (n_wanted == 0) return NULL;

    bool is_watched = watch->scores && index == watch->layer;
    if (is_watched) attend_by_team(team, t, index, t->n - 1, watch);
    attend_by_team(team, t, index, skipped, NULL);
    if (m->kv_rank) latent_values_by_team(team, &t->latent, layer, n_wanted, t->mixed);
    change_mixed_by_team(team, t, layer, skipped);
    return t->mixed;
}

// One layer for the n rows of the chunk. All rows get keys and values. The rest is done for the
// last n_wanted rows: in the last layer those whose logits are wanted, in all other layers every
// row.
static void run_layer_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    bool has_state = layer->flags & LAYER_STATE;
    int skipped = t->n - n_wanted;
    float *x = t->x + skipped * m->dim;  // (n_wanted, dim)
    Input input = rmsnorm_of(t->x, t->n, layer->attention_norm, m);
    const float *mixed = mix_by_team(team, t, index, n_wanted, &input);
    if (n_wanted == 0) return;

    // Where both read one norm of the same x, feed-forward begins before attention adds to x.
    bool is_parallel = m->norm_place == NORM_PARALLEL;
    const float *norm = is_parallel ? layer->attention_norm : layer->ffn_norm;
    if (is_parallel) start_feed_forward_by_team(team, t, x, n_wanted, layer, norm);

    // x += wo . mixed
    Product wo = {.matrix = has_state ? &layer->state_out : &layer->wo};
    wo.bias = has_state ? layer->b_state_out : layer->bo;
    input = (Input){.x = mixed, .n = n_wanted};
    add_product_by_team(team, t, x, &wo, &input, layer->attention_after);

    if (layer->router) {
        add_experts_by_team(team, t, x, n_wanted, layer);
    } else {
        if (!is_parallel) start_feed_forward_by_team(team, t, x, n_wanted, layer, norm);
        end_feed_forward_by_team(team, t, x, n_wanted, layer);
    }
    end_layer_by_team(team, t, x, index, skipped);
}

// t->fault.row becomes the first row of x, from `first` on, that has a NaN or an infinity.
static void check_finite_by_team(const Team *team, Transformer *t, int first) {
    int64_t dim = t->model->config.dim;
    int n = t->n - first;
    int end = first + team_end(team, n);
    for (int row = first + team_first(team, n); row < end; row++) {
        if (all_finite(t->x + row * dim, dim)) continue;
#pragma omp critical
        if (row < t->fault.row) t->fault.row = row;
    }
    team_wait(team);
}

// What stands before the first layer: positions, as angles or in the embedding, and embeddings for
// each layer.
static void place_by_team(const Team *team, Transformer *t, const int32_t *tokens, int length) {
    const ModelConfig *m = &t->model->config;
    Input embeddings = {.x = t->x, .n = t->n};
    const Spread *spread = &t->config->spread;
    bool is_rope = m->encoding == ENCODING_ROPE;
    check_finite_by_team(team, t, 0);
    if (is_rope) angles_prepare_by_team(team, &t->angles, t->first, t->n, length);
    if (m->per_layer_dim)
        per_layer_embed_by_team(team, &t->per_layer, t->model, tokens, &embeddings, t->workspace);
    if (m->sliding_rope) angles_prepare_by_team(team, &t->sliding, t->first, t->n, length);
    if (!is_rope) encoding_prepare_by_team(team, &t->terms, spread, t->x, t->first, t->n);
}

// x becomes the embeddings of n tokens, normed and scaled where the model has it so.
static void embed(Transformer *t, const int32_t *tokens, int n) {
    const ModelConfig *m = &t->model->config;
    for (int i = 0; i < n; i++) {
        float *x = t->x + i * m->dim;
        matrix_row(&t->model->embedding, tokens[i], 0, m->dim, x);
        if (m->embedding_norm) rmsnorm_fast(x, x, NULL, m->dim, (float)m->norm_eps);
    }
    if (m->embedding_scale > 0) scale_by(t->x, (float)m->embedding_scale, n * m->dim);
}

Fault transformer_forward(Transformer *t, const int32_t *tokens, int n, int first, int length,
                          int n_logits) {
    const ModelConfig *m = &t->model->config;
    int64_t dim = m->dim;
    int64_t of_token = model_used_width(m) * dim + (first + n) * dim / 2;
    int64_t work = n * of_token;  // of a layer, about
    bool is_worth_it = work * m->n_layers >= WORTH_A_TEAM;
    int layers = n == 1 ? m->n_layers : 1;  // of one parallel region
    Pace *pace = n == 1 ? &t->decoding : &t->reading;
    embed(t, tokens, n);
    if (first == 0) states_forget(&t->states);
    t->n = n;
    t->first = first;
    t->fault = (Fault){n, -1};
    for (int l = 0; l < m->n_layers && t->fault.row == n; l += layers) {
        double start = now_seconds();
#pragma omp parallel num_threads(is_worth_it ? pace_threads(pace) : 1)
        {
            Team team = team_join(&t->team);
            if (l == 0) place_by_team(&team, t, tokens, length);
            for (int i = l; i < l + layers && t->fault.row == n; i++) {
                int n_wanted = i == m->n_layers - 1 ? n_logits : n;
                run_layer_by_team(&team, t, i, n_wanted);
                check_finite_by_team(&team, t, n - n_wanted);
                if (team.number == 0) t->fault.layer = i;
            }
        }
        // The last layer of a prompt makes few rows only.
        bool is_whole = layers > 1 || l < m->n_layers - 1;
        if (is_worth_it && is_whole)
            pace_step(pace, work * layers, now_seconds() - start, processor_seconds);
    }
    return t->fault;
}

// Scales and caps the logits (n_rows, vocab_size); a thread's share is columns.
static void change_logits_by_team(const Team *team, const ModelConfig *m, float *logits,
                                  int n_rows) {
    int first = team_first(team, m->vocab_size);
    int n = team_end(team, m->vocab_size) - first;
    for (int row = 0; row < n_rows; row++) {
        float *some = logits + (int64_t)row * m->vocab_size + first;
        if (m->logit_scale > 0) scale_by(some, (float)m->logit_scale, n);
        if (m->logit_cap > 0) cap_all(some, (float)m->logit_cap, n);
    }
    team_wait(team);
}

void transformer_logits(Transformer *t, const float *x, int n_rows, float *logits) {
    const ModelConfig *m = &t->model->config;
    Input input = rmsnorm_of(x, n_rows, t->model->final_norm, m);
    Product classifier = {
        .out = logits,
        .stride = m->vocab_size,
        .matrix = &t->model->classifier,
    };
    bool is_worth_it = n_rows * m->dim * m->vocab_size >= WORTH_A_TEAM;
    int threads = n_rows == 1 ? t->decoding.size : t->reading.size;
    if (!is_worth_it) threads = 1;
    (void)threads;  // a compiler without OpenMP has no use for it
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&t->team);
        matmul_by_team(&team, &classifier, 1, &input, t->workspace);
        change_logits_by_team(&team, m, logits, n_rows);
    }
}
