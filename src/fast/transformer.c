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
// forward.c has every step as its definition, for one position:
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

#include <string.h>

#include "layer_steps.h"
#include "machine.h"
#include "process.h"
#include "spread_token.h"
#include "widen.h"

// reads with fewer multiplications are done before other threads have woken
enum { WORTH_A_TEAM = 1 << 20 };

// ---- attention ----

// The attention of one layer for the chunk's queries from row `skipped` on.
static Attention attention_of(const Transformer *t, int index, int skipped) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const SessionConfig *c = t->config;
    const RopeConfig *rope = layer_rope(layer, c->rope, c->sliding);
    Attention a = {0};
    a.cache = &t->caches[index];
    a.scratch = t->attention;
    a.rope = rope;
    a.layer = index;
    a.n_heads = layer->extra->shape.n_heads;
    a.scale = layer_score_scale(m, layer);
    a.cap = (float)m->extra->attention.score_cap;
    a.grows = !rope->temperature_unturned || layer->extra->flags & LAYER_NOPE;
    a.chunk = layer_chunk(layer, m);
    bool sees_all = layer->extra->flags & LAYER_SEES_ALL && !rope->all_slide;
    a.window = sees_all ? 0 : rope->window;
    a.spread = layer->extra->flags & LAYER_SLIDING ? &in_place : &t->config->spread;
    a.sinks = spread_token(a.spread, rope->sinks);
    a.learned_sinks = layer->extra->attention.sinks;
    a.angles = angles_of(t, layer);
    a.terms = encoding_has_terms(m->extra->encoding.kind) ? &t->terms : NULL;
    a.q = t->q + skipped * layer->wq.rows;
    if (m->extra->latent.kv_rank)
        a.q = t->latent.queries + skipped * m->n_heads * a.cache->head_dim;
    a.first = t->first + skipped;
    a.n = t->n - skipped;
    a.out = m->extra->latent.kv_rank ? t->latent.mixed : t->mixed;
    return a;
}

// mixed = that. `watch` takes a single query's scores.
static void attend_by_team(const Team *team, Transformer *t, int index, int skipped,
                           const Watch *watch) {
    Attention a = attention_of(t, index, skipped);
    if (t->index.chosen && t->first + t->n > t->model->config.extra->index.topk) {
        a.chosen = t->index.chosen + skipped * t->index.n_blocks;
        a.chosen_stride = t->index.n_blocks;
    }
    a.watch = watch;
    attention_by_team(team, &a);
}

// ---- forward ----

// mixed (n_wanted, rows of wo) times a scale, and times what the gates make of them, which have a
// number for each element or for each head.
static void change_mixed_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 int skipped) {
    const ModelConfig *m = &t->model->config;
    int64_t width = layer->wo.cols;
    int64_t n_gates = layer->extra->attention.wg.rows;
    int n = t->n - skipped;
    if (n_gates == 0 && m->extra->attention.value_scale <= 0) return;
    for (int row = team_first(team, n), end = team_end(team, n); row < end; row++) {
        float *mixed = t->mixed + row * width;
        const float *gates = t->gates + (row + skipped) * n_gates;
        if (m->extra->attention.value_scale > 0)
            scale_by(mixed, (float)m->extra->attention.value_scale, width);
        if (n_gates == 0) continue;
        if (m->extra->attention.gate == GATE_SIGMOID) gate_by_sigmoid(mixed, gates, width);
        else gate_by_softplus(mixed, gates, width / n_gates, width);
    }
    team_wait(team);
}

// The last steps of a layer on the rows x (n, dim), of which the first is row `skipped` of the
// chunk: its own embedding of the token, and a scale of all.
static void end_layer_by_team(const Team *team, Transformer *t, float *x, int index, int skipped) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    int n = t->n - skipped;
    if (m->extra->per_layer.dim) {
        Input input = {.x = x, .n = n};
        per_layer_gate_by_team(team, &t->per_layer, t->model, index, skipped, &input, t->workspace);
        Product out = {.matrix = &layer->extra->per_layer.out};
        input.x = t->per_layer.gate;
        add_product_by_team(team, t, x, &out, &input, layer->extra->per_layer.after);
    }
    if (!layer->extra->per_layer.scale) return;
    int end = team_end(team, n);
    for (int row = team_first(team, n); row < end; row++)
        scale_by(x + row * m->dim, *layer->extra->per_layer.scale, m->dim);
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
    if (!layer_mixes(layer)) return NULL;
    if (layer->extra->flags & LAYER_STATE) {
        states_by_team(team, &t->states, index, input, n_wanted, t->workspace);
        return t->states.made;
    }
    if (m->extra->latent.kv_rank) store_latent_by_team(team, t, index, n_wanted, input);
    else store_by_team(team, t, index, n_wanted, input);
    if (layer_chooses(m, layer)) {
        Attention call = attention_of(t, index, skipped);
        Input q_latent = {.x = t->latent.q_latent,
                          .n = input->n,
                          .norm = layer->extra->latent.q_a_norm,
                          .eps = (float)m->extra->latent.norm_eps};
        index_by_team(team, &t->index, index, input, &q_latent, &call, skipped, t->workspace);
    }
    if (n_wanted == 0) return NULL;

    bool is_watched = watch->scores && index == watch->layer;
    if (is_watched) attend_by_team(team, t, index, t->n - 1, watch);
    if (is_watched && watch->query && !m->extra->latent.kv_rank && team->number == 0) {
        const float *queries = t->q + (t->n - 1) * layer->wq.rows;
        const int64_t head_dim = layer->extra->shape.head_dim;
        memcpy(watch->query, queries + watch->head * head_dim, head_dim * sizeof *queries);
    }
    attend_by_team(team, t, index, skipped, NULL);
    if (m->extra->latent.kv_rank)
        latent_values_by_team(team, &t->latent, layer, n_wanted, t->mixed);
    change_mixed_by_team(team, t, layer, skipped);
    return t->mixed;
}

// One layer for the n rows of the chunk. All rows get keys and values. The rest is done for the
// last n_wanted rows: in the last layer those whose logits are wanted, in all other layers every
// row.
static void run_layer_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    bool has_state = layer->extra->flags & LAYER_STATE;
    int skipped = t->n - n_wanted;
    float *x = t->x + skipped * m->dim;  // (n_wanted, dim)
    Input input = rmsnorm_of(t->x, t->n, layer->attention_norm, m);
    const float *mixed = mix_by_team(team, t, index, n_wanted, &input);
    if (n_wanted == 0) return;

    // Where both read one norm of the same x, feed-forward begins before attention adds to x.
    bool is_parallel = m->extra->stream.norm_place == NORM_PARALLEL;
    const float *norm = is_parallel ? layer->attention_norm : layer->ffn_norm;
    if (is_parallel) start_feed_forward_by_team(team, t, x, n_wanted, layer, norm);

    // x += wo . mixed
    Product wo = {.matrix = has_state ? &layer->extra->states.out : &layer->wo};
    wo.bias = has_state ? layer->extra->states.b_out : layer->extra->attention.bo;
    input = (Input){.x = mixed, .n = n_wanted};
    if (layer_mixes(layer))
        add_product_by_team(team, t, x, &wo, &input, layer->extra->stream.attention_after);

    if (!layer_feeds(layer)) {
    } else if (layer->extra->experts.router) {
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
    bool is_rope = m->extra->encoding.kind == ENCODING_ROPE;
    check_finite_by_team(team, t, 0);
    if (is_rope) angles_prepare_by_team(team, &t->angles, t->first, t->n, length);
    if (m->extra->per_layer.dim)
        per_layer_embed_by_team(team, &t->per_layer, t->model, tokens, &embeddings, t->workspace);
    if (m->extra->layers.sliding_rope)
        angles_prepare_by_team(team, &t->sliding, t->first, t->n, length);
    if (!is_rope) encoding_prepare_by_team(team, &t->terms, spread, t->x, t->first, t->n);
}

// x becomes the embeddings of n tokens, normed and scaled where the model has it so.
static void embed(Transformer *t, const int32_t *tokens, int n) {
    const ModelConfig *m = &t->model->config;
    for (int i = 0; i < n; i++) {
        float *x = t->x + i * m->dim;
        matrix_row(&t->model->embedding, tokens[i], 0, m->dim, x);
        if (m->extra->stream.embedding_norm) rmsnorm_fast(x, x, NULL, m->dim, (float)m->norm_eps);
    }
    if (m->extra->stream.embedding_scale > 0)
        scale_by(t->x, (float)m->extra->stream.embedding_scale, n * m->dim);
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
    pace_begin(pace, work * m->n_layers, unhindered_threads);
    embed(t, tokens, n);
    if (first == 0) states_forget(&t->states);
    t->n = n;
    t->first = first;
    t->fault = (Fault){n, -1};
    for (int l = 0; l < m->n_layers && t->fault.row == n; l += layers) {
        double start = now_seconds();
        if (interrupted && n > 1) return (Fault){0, l};
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
        if (m->extra->stream.logit_scale > 0)
            scale_by(some, (float)m->extra->stream.logit_scale, n);
        if (m->extra->stream.logit_cap > 0) cap_all(some, (float)m->extra->stream.logit_cap, n);
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
