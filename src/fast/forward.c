// The forward pass of any decoder, in order: embedding; for each layer attention and feed-forward,
// each of a norm and added to the residual stream; a last norm and the classifier. A chunk of n
// positions goes through a layer together, so every activation is a matrix of n rows. A step that
// some models replace belongs to a kind (hooks.h), and is called in the step's place.
//
// src/decoder/forward.c has every step by its definition, for one position; a kind's definition is
// a file of src/kinds with the same name:
//     here                         there
//     rmsnorm_of                   norm_input; the products take it on their way in
//     project_heads_by_team        project_heads; attention turns the queries that it takes
//     attend_by_team               attend; attention.c has its loops: scores, softmax, mix
//     add_mixed_by_team            project_mixed, add_to_residual
//     start_feed_forward_by_team   feed_forward_of; the activation is a part of the product
//     add_product_by_team          matmul, add_to_residual
//     transformer_logits           decoder_logits
//
// Threads. transformer_forward opens a parallel region for each step: a token, or one layer of a
// prompt's chunk. In it every thread of the team runs the same lines side by side. A function whose
// name ends in _by_team is called by the whole team together, with the same arguments. Each thread
// takes its share of the rows, heads or pairs (team_first, or team_next_task where pieces differ in
// size), and writes only its own outputs. At the end it waits for the others (team_wait), so the
// next line can read the outputs of all. Work by one thread for all is guarded by `team->number ==
// 0`. All other functions belong to the thread that calls them. pace.h says how many threads a step
// gets; a small read runs only on the caller.
#include "forward.h"

#include <string.h>

#include "attention_layer.h"
#include "feed_forward.h"
#include "hooks.h"
#include "machine.h"
#include "process.h"
#include "rope_layers.h"

// reads with fewer multiplications are done before other threads have woken
enum { WORTH_A_TEAM = 1 << 20 };

// ---- a layer ----

void mix_half_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    LayerStep *other = t->steps[index].mix;
    if (other) {  // a state (Qwen3-Next, LFM2), latent attention (DeepSeek)
        other(team, t, index, n_wanted);
        return;
    }
    project_heads_by_team(team, t, index, n_wanted);
    if (n_wanted == 0) return;
    attend_by_team(team, t, index, n_wanted);
    add_mixed_by_team(team, t, index, n_wanted);
}

// Whether both halves of a layer read one norm (Cohere 2).
static bool has_one_norm(const Transformer *t) {
    return t->model->config.extra->residual.norm_place == NORM_PARALLEL;
}

void feed_half_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    LayerStep *other = t->steps[index].feed;
    if (other) {  // experts (Mixtral, gpt-oss)
        other(team, t, index, n_wanted);
        return;
    }
    if (!has_one_norm(t)) start_feed_forward_by_team(team, t, index, n_wanted, layer->ffn_norm);
    end_feed_forward_by_team(team, t, index, n_wanted);
}

// One layer for the n rows of the chunk. All rows get keys and values. The rest is done for the
// last n_wanted rows: in the layers before the last one with its own keys every row, from there on
// the rows with wanted logits.
static void run_layer_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    bool feeds = layer_feeds(layer) && n_wanted > 0;  // a half may be missing (Nemotron-H)
    LayerStep *other = t->steps[index].layer;
    if (other) {  // streams beside the residual stream (Gemma 3n)
        other(team, t, index, n_wanted);
        return;
    }
    // With one norm for both halves, feed-forward begins before attention adds to x.
    if (feeds && has_one_norm(t))
        start_feed_forward_by_team(team, t, index, n_wanted, layer->attention_norm);
    if (layer_mixes(layer)) mix_half_by_team(team, t, index, n_wanted);
    if (n_wanted == 0) return;
    if (feeds) feed_half_by_team(team, t, index, n_wanted);
    EACH_FAST_KIND_THAT (end_layer_by_team, k, t->known)
        (*k)->end_layer_by_team(team, t, index, n_wanted);
}

// ---- the pass ----

// x (n, dim) = the rows of the embedding of the chunk's tokens, normed, times a scale (Gemma,
// Granite). The fault is the first row with a NaN or an infinity.
static void embed(Transformer *t, const int32_t *tokens) {
    const ModelConfig *m = &t->model->config;
    const ResidualConfig *r = &m->extra->residual;
    t->fault = (Fault){t->n, -1};
    for (int i = 0; i < t->n; i++) {
        float *x = t->x + i * m->dim;
        matrix_row(&t->model->embedding, tokens[i], 0, m->dim, x);
        if (r->embedding_norm) rmsnorm_fast(x, x, NULL, m->dim, (float)m->norm_eps);
        if (r->embedding_scale > 0) scale_by(x, (float)r->embedding_scale, m->dim);
        if (i < t->fault.row && !all_finite(x, m->dim)) t->fault.row = i;
    }
}

// The steps before the first layer: kinds' own embeddings, and the angles.
static void begin_by_team(const Team *team, Transformer *t, const int32_t *tokens, int length) {
    EACH_FAST_KIND_THAT (embed_by_team, k, t->known) (*k)->embed_by_team(team, t, tokens);
    prepare_angles_by_team(team, t, length);
}

// Whether this thread's share of the wanted rows, the output of layer number `index`, is without a
// NaN or an infinity; if not, t->fault is the first such row. No thread waits for the findings of
// others. A single token is every thread's share, so all find the same, and x keeps its values
// until all have come to the next layer's first wait. A prompt's chunk has a parallel region for
// each layer, at whose end all meet.
static bool check_finite(const Team *team, Transformer *t, int index, int n_wanted) {
    int64_t dim = t->model->config.dim;
    const float *x = wanted_rows(t, n_wanted);
    bool is_alone = t->n == 1;
    int end = is_alone ? n_wanted : team_end(team, n_wanted);
    for (int row = is_alone ? 0 : team_first(team, n_wanted); row < end; row++) {
        if (all_finite(x + row * dim, dim)) continue;
        int in_chunk = t->n - n_wanted + row;
#pragma omp critical
        if (in_chunk < t->fault.row) t->fault = (Fault){in_chunk, index};
        return false;
    }
    return true;
}

Fault transformer_forward(Transformer *t, const int32_t *tokens, int n, int first, int length,
                          int n_logits) {
    const ModelConfig *m = &t->model->config;
    int64_t dim = m->dim;
    int64_t of_token = t->used_width * dim + (first + n) * dim / 2;
    int64_t work = n * of_token;  // of a layer, about
    bool is_worth_it = work * m->n_layers >= WORTH_A_TEAM;
    int layers = n == 1 ? m->n_layers : 1;  // of one parallel region
    Pace *pace = n == 1 ? &t->decoding : &t->reading;
    pace_begin(pace, work * m->n_layers, unhindered_threads);
    t->n = n;
    t->first = first;
    if (first == 0 && t->n_kept) memset(t->kept, 0, t->n_kept * sizeof *t->kept);
    embed(t, tokens);
    for (int l = 0; l < m->n_layers && t->fault.row == n; l += layers) {
        double start = now_seconds();
        if (interrupted && n > 1) return (Fault){0, l};
#pragma omp parallel num_threads(is_worth_it ? pace_threads(pace) : 1)
        {
            Team team = team_join(&t->team);
            if (l == 0) begin_by_team(&team, t, tokens, length);
            bool is_finite = true;
            for (int i = l; i < l + layers && is_finite; i++) {
                int n_wanted = i < t->last_own ? n : n_logits;
                run_layer_by_team(&team, t, i, n_wanted);
                is_finite = check_finite(&team, t, i, n_wanted);
            }
        }
        // The last layers of a prompt compute only few rows.
        bool is_whole = layers > 1 || l < t->last_own;
        if (is_worth_it && is_whole)
            pace_step(pace, work * layers, now_seconds() - start, processor_seconds);
    }
    return t->fault;
}

// logits (n_rows, vocab_size) times a scale (Granite, Cohere), capped (Gemma 2). A thread's share
// is columns.
static void scale_logits_by_team(const Team *team, const Transformer *t, float *logits,
                                 int n_rows) {
    const ModelConfig *m = &t->model->config;
    const ResidualConfig *r = &m->extra->residual;
    int first = team_first(team, m->vocab_size);
    int n = team_end(team, m->vocab_size) - first;
    for (int row = 0; row < n_rows; row++) {
        float *some = logits + (int64_t)row * m->vocab_size + first;
        if (r->logit_scale > 0) scale_by(some, (float)r->logit_scale, n);
        if (r->logit_cap > 0) cap_all(some, (float)r->logit_cap, n);
    }
    team_wait(team);
}

void transformer_logits(Transformer *t, const float *x, int n_rows, float *logits) {
    const ModelConfig *m = &t->model->config;
    Input input = rmsnorm_of(t, x, n_rows, t->model->final_norm);
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
        scale_logits_by_team(&team, t, logits, n_rows);
    }
}
