// Mixtures of experts (src/kinds/experts.c). router.c chooses the experts of a row.
//
// One row, as in decoding: every thread finds the chosen experts for itself, which is cheaper than
// a wait. Their first products are one set for the team, as they share their input. Then each
// thread has its share of the rows of all second products. So only the weights of the chosen
// experts are read, and once.
//
// Many rows: the rows are gathered by expert, so that the weights of each are read once. A batch is
// an expert with its rows. An expert of many rows multiplies panels, and one of few rows multiplies
// in place. A task is 64 rows of the first two matrices of one batch, and then 64 rows of the third
// matrix of all batches, one after the other. So no two threads write to one number, and sums have
// one order.
#include <string.h>

#include "../decoder/curves.h"
#include "feed_forward.h"
#include "matmul_private.h"
#include "parts.h"
#include "residual.h"
#include "router.h"

// An expert and the rows that chose it. Its rows have consecutive places in all arrays of places.
typedef struct {
    FeedForward weights;
    int64_t first;  // its first place
    int64_t lanes;  // and its first place in in_lanes, if its rows are few
    int n;          // rows
} Batch;

// A thread's memory for a single row.
typedef struct {
    Choice choice;         // of any row
    int *chosen;           // (n_used)
    float *weights;        // (n_used) the factors of their outputs
    FeedForward *experts;  // (n_used)
    Product *products;     // (n_used)
    Vectors hidden;        // n_used vectors of expert_hidden_dim
} Single;

typedef struct Experts {
    const ModelConfig *config;
    Single *of_threads;  // (n_threads)
    float *logits;       // (max_n, n_experts)
    int *chosen;         // (max_n, n_used)
    float *weights;      // (max_n, n_used)
    float *hidden;       // (max_n * n_used, expert_hidden_dim)
    Batch *batches;      // (n_experts), of which n_batches are in use
    int n_batches;
    int *counts;          // (n_experts) rows of each expert, and then the batch that it is
    int *rows;            // (max_n * n_used) the row at each place
    float *factors;       // (max_n * n_used) its weight
    Vectors vectors;      // all places, of dim or of expert_hidden_dim
    float *beside;        // (max_n, dim) the output of a dense network beside the experts
    float *shared_gates;  // (max_n) of the expert that every token takes
    float *narrow;        // (max_n, latent_dim) the experts' inputs, and
    float *sums;          // (max_n, latent_dim) the sums of their outputs, if these are narrower
} Experts;

// ---- products of an expert ----

// hidden = act(w1 . x + b1) * (w3 . x + b3), of x times the factors if the router's weights
// multiply x
static Product expert_product(const ModelConfig *m, const FeedForward *w, const float *factors,
                              float *hidden) {
    Product p = first_product(m, w, hidden);
    if (m->kinds->experts->scales_input) p.input_factors = factors;
    return p;
}

// out += factor * (w2 . hidden + b2), or without the factor
static Product last_product(const ModelConfig *m, const FeedForward *w, const float *factors,
                            float *out) {
    const ExpertsConfig *c = m->kinds->experts;
    return (Product){
        .out = out,
        .stride = expert_width(m),
        .add = true,
        .matrix = &w->w2,
        .bias = w->b2,
        .factors = c->scales_input ? NULL : factors,
    };
}

// Up to PANEL_ROWS rows of a product from `row` on.
static void multiply_some(const Product *p, int64_t row, int group, const Vectors *v, float *sums) {
    MultiplyRows *of_panels = group ? multiply_int8_panel : multiply_float_panel;
    MultiplyRows *of_rows = group ? multiply_int8_rows : multiply_float_rows;
    int64_t end = row + PANEL_ROWS < p->matrix->rows ? row + PANEL_ROWS : p->matrix->rows;
    if (v->n > VECTORS_IN_PLACE) {
        multiply_piece(p, row, of_panels, PANEL_ROWS, v, sums);
        return;
    }
    for (; row < end; row += ROWS_IN_PLACE) multiply_piece(p, row, of_rows, ROWS_IN_PLACE, v, sums);
}

static float *sums_of(const Team *team, const Workspace *ws) {
    return ws->sums + team->number * 2 * ws->max_n * PANEL_ROWS;
}

static int panels_of(int64_t rows) { return (int)((rows + PANEL_ROWS - 1) / PANEL_ROWS); }

static int group_for(const Product *p, const Workspace *ws) {
    return ws->floats ? 0 : common_group(p, 1);
}

// ---- one row ----

// Vector i of n that were laid out together, as one vector.
static Vectors vector_at(const Vectors *all, int64_t i, int64_t cols, const float *x) {
    Vectors v = *all;
    v.n = 1;
    v.cols = cols;
    v.x = x;
    v.rounded = all->rounded + i * super_blocks_of(cols);
    v.in_lanes = all->in_lanes + i * super_blocks_of(cols);
    return v;
}

static void run_one_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                            float *out, Workspace *ws) {
    const ModelConfig *m = e->config;
    const ExpertsConfig *c = m->kinds->experts;
    const ExpertsTensors *w = layer->kinds->experts;
    const Single *own = &e->of_threads[team->number];
    int k = c->n_used;
    int64_t wide = c->hidden_dim;
    float *sums = sums_of(team, ws);
    choose_fast(c, w, e->logits, &own->choice, own->chosen, own->weights);
    for (int i = 0; i < k; i++) {
        FeedForward *expert = &own->experts[i];
        *expert = expert_of(&w->all, c->n, own->chosen[i]);
        own->products[i] = expert_product(m, expert, &own->weights[i], e->hidden + i * wide);
    }
    matmul_by_team(team, own->products, k, input, ws);

    int pieces = (int)((expert_width(m) + ROWS_IN_PLACE - 1) / ROWS_IN_PLACE);
    int first = team_first(team, pieces);
    int end = team_end(team, pieces);
    for (int i = 0; i < k; i++) {
        Product p = last_product(m, &own->experts[i], &own->weights[i], out);
        int group = group_for(&p, ws);
        Vectors v = vector_at(&own->hidden, i, wide, e->hidden + i * wide);
        Input hidden = {.x = v.x, .n = 1};
        prepare_vector(&hidden, group, &v, 0);
        MultiplyRows *multiply = group ? multiply_int8_rows : multiply_float_rows;
        for (int64_t piece = first; piece < end; piece++)
            multiply_piece(&p, piece * ROWS_IN_PLACE, multiply, ROWS_IN_PLACE, &v, sums);
    }
    team_wait(team);
}

// ---- many rows ----

// Gives each chosen expert a batch, and each row of these a place.
static void gather(Experts *e, const Layer *layer, int64_t n) {
    const ExpertsConfig *c = e->config->kinds->experts;
    int64_t k = c->n_used;
    int64_t place = 0;
    int64_t lanes = 0;
    memset(e->counts, 0, c->n * sizeof *e->counts);
    for (int64_t i = 0; i < n * k; i++) e->counts[e->chosen[i]]++;
    e->n_batches = 0;
    for (int i = 0; i < c->n; i++) {
        int count = e->counts[i];
        if (count == 0) continue;
        FeedForward expert = expert_of(&layer->kinds->experts->all, c->n, i);
        e->counts[i] = e->n_batches;
        e->batches[e->n_batches++] = (Batch){.weights = expert, .first = place, .lanes = lanes};
        place += count;
        if (count <= VECTORS_IN_PLACE) lanes += count;
    }
    for (int64_t i = 0; i < n * k; i++) {
        Batch *batch = &e->batches[e->counts[e->chosen[i]]];
        int64_t at = batch->first + batch->n++;
        e->rows[at] = (int)(i / k);
        e->factors[at] = e->weights[i];
    }
}

// The vectors of a batch, in this thread's memory.
static Vectors vectors_of(const Team *team, const Experts *e, const Batch *b, int64_t cols,
                          const float *x, const Workspace *ws) {
    Vectors v = e->vectors;
    int64_t blocks = super_blocks_of(cols);
    v.n = b->n;
    v.cols = cols;
    v.x = x;
    v.rounded += b->first * blocks;
    v.in_lanes = v.n <= VECTORS_IN_PLACE ? v.in_lanes + b->lanes * blocks : NULL;
    v.normed += b->first * cols;
    v.panel = ws->panels + team->number * PANEL_BYTES;
    return v;
}

// The input's rows of each batch become its vectors.
static void prepare_rows_by_team(const Team *team, const Experts *e, const Input *input,
                                 const Workspace *ws) {
    for (int task; (task = team_next_task(team)) < e->n_batches;) {
        const Batch *b = &e->batches[task];
        Product p = expert_product(e->config, &b->weights, NULL, NULL);
        Vectors v = vectors_of(team, e, b, expert_width(e->config), NULL, ws);
        Input rows = *input;
        rows.n = b->n;
        rows.rows = e->rows + b->first;
        for (int t = 0; t < b->n; t++) prepare_vector(&rows, group_for(&p, ws), &v, t);
    }
    team_wait(team);
}

// hidden (places, expert_hidden_dim) of all batches.
static void multiply_first_by_team(const Team *team, const Experts *e, const Workspace *ws) {
    const ModelConfig *m = e->config;
    int64_t wide = m->kinds->experts->hidden_dim;
    int panels = panels_of(wide);
    float *sums = sums_of(team, ws);
    for (int task; (task = team_next_task(team)) < e->n_batches * panels;) {
        const Batch *b = &e->batches[task / panels];
        int64_t row = (int64_t)(task % panels) * PANEL_ROWS;
        float *hidden = e->hidden + b->first * wide;
        Product p = expert_product(m, &b->weights, e->factors + b->first, hidden);
        Vectors v = vectors_of(team, e, b, expert_width(m), NULL, ws);
        v.x = v.normed;
        multiply_some(&p, row, group_for(&p, ws), &v, sums);
    }
    team_wait(team);
}

static void prepare_hidden_by_team(const Team *team, const Experts *e, const Workspace *ws) {
    int64_t wide = e->config->kinds->experts->hidden_dim;
    for (int task; (task = team_next_task(team)) < e->n_batches;) {
        const Batch *b = &e->batches[task];
        Product p = last_product(e->config, &b->weights, NULL, NULL);
        Input rows = {.x = e->hidden + b->first * wide, .n = b->n};
        Vectors v = vectors_of(team, e, b, wide, rows.x, ws);
        for (int t = 0; t < b->n; t++) prepare_vector(&rows, group_for(&p, ws), &v, t);
    }
    team_wait(team);
}

// out (n, dim) += the outputs of all batches for hidden, by panels of its columns.
static void multiply_last_by_team(const Team *team, const Experts *e, float *out,
                                  const Workspace *ws) {
    const ModelConfig *m = e->config;
    int64_t wide = m->kinds->experts->hidden_dim;
    int panels = panels_of(expert_width(m));
    float *sums = sums_of(team, ws);
    for (int task; (task = team_next_task(team)) < panels;)
        for (const Batch *b = e->batches; b < e->batches + e->n_batches; b++) {
            Product p = last_product(m, &b->weights, e->factors + b->first, out);
            p.to = e->rows + b->first;
            Vectors v = vectors_of(team, e, b, wide, e->hidden + b->first * wide, ws);
            multiply_some(&p, (int64_t)task * PANEL_ROWS, group_for(&p, ws), &v, sums);
        }
    team_wait(team);
}

static void run_many_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                             float *out, Workspace *ws) {
    const ExpertsConfig *c = e->config->kinds->experts;
    const Choice *choice = &e->of_threads[team->number].choice;
    int n = (int)input->n;
    for (int row = team_first(team, n), end = team_end(team, n); row < end; row++) {
        const float *logits = e->logits + (int64_t)row * c->n;
        int place = row * c->n_used;
        choose_fast(c, layer->kinds->experts, logits, choice, e->chosen + place,
                    e->weights + place);
    }
    team_wait(team);
    if (team->number == 0) gather(e, layer, n);
    team_wait(team);
    prepare_rows_by_team(team, e, input, ws);
    multiply_first_by_team(team, e, ws);
    prepare_hidden_by_team(team, e, ws);
    multiply_last_by_team(team, e, out, ws);
}

// out (n, expert_width) += the outputs of the chosen experts for the input.
static void run_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                        float *out, Workspace *ws) {
    if (input->n == 1) run_one_by_team(team, e, layer, input, out, ws);
    else run_many_by_team(team, e, layer, input, out, ws);
}

// This thread's rows of x (n, width) become zeros.
static void clear_rows(const Team *team, float *x, int n, int64_t width) {
    int first = team_first(team, n);
    int64_t rows = team_end(team, n) - first;
    memset(x + first * width, 0, rows * width * sizeof *x);
}

// out (n, dim) += the outputs of a layer's chosen experts for the n rows of the input, each times
// its weight. The input may be `out` itself. The number of threads does not change the result. If
// input and output of experts are narrower, these are in e->narrow and e->sums.
static void experts_by_team(const Team *team, const Transformer *t, const Layer *layer,
                            const Input *input, float *out) {
    const ExpertsTensors *w = layer->kinds->experts;
    Experts *e = t->kinds->experts;
    Workspace *ws = t->workspace;
    int n = (int)input->n;
    int64_t narrow = t->model->config.kinds->experts->latent_dim;
    route_by_team(team, t, layer, input, e->logits);
    if (narrow == 0) {
        run_by_team(team, e, layer, input, out, ws);
        return;
    }
    Product in = {.matrix = &w->in, .out = e->narrow, .stride = narrow};
    Product back = {.matrix = &w->out, .out = out, .stride = w->out.rows, .add = true};
    Input read = {.x = e->narrow, .n = n};
    Input made = {.x = e->sums, .n = n};
    matmul_by_team(team, &in, 1, input, ws);
    clear_rows(team, e->sums, n, narrow);
    team_wait(team);
    run_by_team(team, e, layer, &read, e->sums, ws);
    matmul_by_team(team, &back, 1, &made, ws);
}

// ---- the expert that every token takes, and the others ----

// Of the expert that every token takes: hidden (n, shared_hidden_dim), and the gate of each row.
static void start_shared_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 const Input *input) {
    const ModelConfig *m = &t->model->config;
    const FeedForward *w = &layer->kinds->experts->shared;
    const float *shared_gate = layer->kinds->experts->shared_gate;
    float *gates = t->kinds->experts->shared_gates;
    int n = (int)input->n;
    Product w1_w3 = first_product(m, w, t->hidden);
    matmul_by_team(team, &w1_w3, 1, input, t->workspace);
    if (!shared_gate) return;
    Matrix row = {.type = WEIGHT_F32, .rows = 1, .cols = m->dim, .data = shared_gate};
    Product gate = {.out = gates, .stride = 1, .matrix = &row};
    matmul_by_team(team, &gate, 1, input, t->workspace);
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++)
        gates[i] = sigmoid(gates[i]);
    team_wait(team);
}

// out (n, dim) += w2 . hidden, by the gates if there are any
static void add_shared_by_team(const Team *team, Transformer *t, const Layer *layer, int n,
                               float *out) {
    const ExpertsTensors *w = layer->kinds->experts;
    Product w2 = {
        .out = out,
        .stride = t->model->config.dim,
        .add = true,
        .matrix = &w->shared.w2,
        .factors = w->shared_gate ? t->kinds->experts->shared_gates : NULL,
    };
    Input input = {.x = t->hidden, .n = n};
    matmul_by_team(team, &w2, 1, &input, t->workspace);
}

// t->added (n, dim) = rmsnorm(the dense layer) + rmsnorm(the experts beside it), which read x
// through norms of their own.
static void mix_beside_by_team(const Team *team, Transformer *t, const float *x, int n,
                               const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    const ExpertsTensors *w = layer->kinds->experts;
    float *all_beside = t->kinds->experts->beside;
    float eps = (float)m->norm_eps;
    Input input = rmsnorm_of(t, x, n, layer->ffn_norm);
    Input of_experts = rmsnorm_of(t, x, n, w->norm);
    clear_rows(team, t->added, n, m->dim);
    clear_rows(team, all_beside, n, m->dim);
    start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t, layer, &of_experts, t->added);
    add_shared_by_team(team, t, layer, n, all_beside);
    for (int row = team_first(team, n), end = team_end(team, n); row < end; row++) {
        float *added = t->added + row * m->dim;
        float *beside = all_beside + row * m->dim;
        rmsnorm_fast(added, added, w->after, m->dim, eps);
        rmsnorm_fast(beside, beside, w->shared_after, m->dim, eps);
        add_to(added, beside, m->dim);
    }
    team_wait(team);
}

// x (n_wanted, dim) += their outputs, which are summed in a cleared array, or in x itself
static void feed_experts_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const float *norm = layer->extra->residual.ffn_after;
    float *x = wanted_rows(t, n_wanted);
    int n = n_wanted;
    if (m->kinds->experts->beside) {
        mix_beside_by_team(team, t, x, n, layer);
        add_normed_by_team(team, t, x, n, norm);
        return;
    }
    Input input = rmsnorm_of(t, x, n, layer->ffn_norm);
    bool has_shared = m->kinds->experts->shared_hidden_dim;
    bool apart = is_added_apart(m, norm);
    float *out = apart ? t->added : x;
    if (apart) clear_rows(team, out, n, m->dim);
    if (has_shared) start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t, layer, &input, out);
    if (has_shared) add_shared_by_team(team, t, layer, n, out);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}

// ---- memory ----

static Single lay_out_single(Arena *arena, const ExpertsConfig *c) {
    return (Single){
        .choice = choice_lay_out(arena, c),
        .chosen = arena_take(arena, c->n_used, sizeof(int)),
        .weights = arena_take(arena, c->n_used, sizeof(float)),
        .experts = arena_take(arena, c->n_used, sizeof(FeedForward)),
        .products = arena_take(arena, c->n_used, sizeof(Product)),
        .hidden = lay_out_vectors(arena, c->n_used, c->hidden_dim, c->n_used),
    };
}

// Memory for a chunk of rows.
static Experts experts_lay_out(Arena *arena, const ModelConfig *m, int64_t max_n) {
    const ExpertsConfig *c = m->kinds->experts;
    int n_threads = thread_count();
    int64_t chosen = max_n * c->n_used;
    int64_t most = chosen < c->n ? chosen : c->n;  // batches
    int64_t cols = expert_width(m) > c->hidden_dim ? expert_width(m) : c->hidden_dim;
    int64_t few = chosen < most * VECTORS_IN_PLACE ? chosen : most * VECTORS_IN_PLACE;
    Experts e = {.config = m};
    e.logits = arena_take(arena, max_n * c->n, sizeof *e.logits);
    e.chosen = arena_take(arena, chosen, sizeof *e.chosen);
    e.weights = arena_take(arena, chosen, sizeof *e.weights);
    e.hidden = arena_take(arena, chosen * c->hidden_dim, sizeof *e.hidden);
    e.batches = arena_take(arena, most, sizeof *e.batches);
    e.counts = arena_take(arena, c->n, sizeof *e.counts);
    e.rows = arena_take(arena, chosen, sizeof *e.rows);
    e.factors = arena_take(arena, chosen, sizeof *e.factors);
    e.vectors = lay_out_vectors(arena, chosen, cols, few);
    e.narrow = arena_take(arena, max_n * c->latent_dim, sizeof *e.narrow);
    e.sums = arena_take(arena, max_n * c->latent_dim, sizeof *e.sums);
    e.beside = arena_take(arena, max_n * (c->beside ? m->dim : 0), sizeof *e.beside);
    e.shared_gates = arena_take(arena, max_n, sizeof *e.shared_gates);
    e.of_threads = arena_take(arena, n_threads, sizeof *e.of_threads);
    for (int i = 0; i < n_threads; i++) {
        Single single = lay_out_single(arena, c);
        if (e.of_threads) e.of_threads[i] = single;
    }
    return e;
}

static void lay_out_expert_layers(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const ExpertsConfig *c = m->kinds->experts;
    if (c->n == 0) return;
    *t->kinds->experts = experts_lay_out(arena, m, t->config->chunk);
    if (t->hidden_width < c->shared_hidden_dim) t->hidden_width = c->shared_hidden_dim;
    t->used_width = model_used_width(m);
    if (t->widest < c->latent_dim) t->widest = c->latent_dim;
    if (c->beside) t->adds_apart = true;
}

const FastKind fast_experts = {
    .of = &experts_kind,
    .part = {sizeof(Experts), offsetof(struct FastParts, experts)},
    .lay_out = lay_out_expert_layers,
    .feed_by_team = feed_experts_by_team,
};
