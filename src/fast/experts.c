// Mixtures of experts (mix_experts of forward.c, and experts.c). The router's logits come
// first, from one product.
//
// One row, as in decoding: every thread finds the chosen experts for itself, which is cheaper than
// to wait. Their first products are one set for the team, as their input is the same. Then each
// thread has its share of the rows of all second products. So the weights of the chosen are read
// once, and no others.
//
// Many rows: the rows are gathered by expert, so that the weights of each are read once. A batch is
// an expert with its rows. An expert of many rows multiplies panels, and one of few rows multiplies
// in place. A task is 64 rows of the first two matrices of one batch, and then 64 rows of the third
// matrix of all batches, one after the other. So no two threads write to one number, and sums have
// one order.

#include <math.h>
#include <string.h>

#include "kinds.h"
#include "matmul_private.h"
#include "stream.h"

// An expert and the rows that chose it. Its rows begin at a place of its own in all arrays of
// places.
typedef struct {
    FeedForward weights;
    int64_t first;  // its first place
    int64_t lanes;  // and its first place in in_lanes, if its rows are few
    int n;          // rows
} Batch;

// By what a thread chooses.
typedef struct {
    float *scores;  // (n_experts)
    float *groups;  // (router_groups) scores of groups
    int *open;      // (router_groups_used) the best groups
} Choice;

// What a thread keeps of a single row.
typedef struct {
    Choice choice;         // of any row
    int *chosen;           // (n_used)
    float *weights;        // (n_used) what their answers are multiplied with
    FeedForward *experts;  // (n_used)
    Product *products;     // (n_used)
    Vectors hidden;        // n_used vectors of expert_hidden_dim
} Single;

struct Experts {
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
    float *beside;        // (max_n, dim) what a dense layer beside them makes
    float *shared_gates;  // (max_n) of the expert that every token takes
    float *narrow;        // (max_n, latent_dim) what experts read, and
    float *sums;          // (max_n, latent_dim) the sums of what they make, where that is narrower
};

// ---- the router ----

static bool is_among(const int *numbers, int n, int number) {
    for (int i = 0; i < n; i++)
        if (numbers[i] == number) return true;
    return false;
}

// The k greatest of n scores, the first of equals first.
static void choose_best(const float *scores, int n, int k, int *chosen) {
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int e = 0; e < n; e++) {
            bool is_better = best < 0 || scores[e] > scores[best];
            if (is_better && !is_among(chosen, i, e)) best = e;
        }
        chosen[i] = best;
    }
}

// Puts -inf where an expert is in none of the best groups, by the sum of its best one or two.
static void close_groups(const ModelConfig *m, const Choice *c) {
    int n = m->extra->experts.groups;
    int of_group = m->extra->experts.n / n;
    int best[2] = {0};
    for (int g = 0; g < n; g++) {
        const float *scores = c->scores + g * of_group;
        choose_best(scores, of_group, m->extra->experts.group_best, best);
        c->groups[g] = scores[best[0]];
        if (m->extra->experts.group_best == 2) c->groups[g] += scores[best[1]];
    }
    choose_best(c->groups, n, m->extra->experts.groups_used, c->open);
    for (int e = 0; e < m->extra->experts.n; e++)
        if (!is_among(c->open, m->extra->experts.groups_used, e / of_group))
            c->scores[e] = -INFINITY;
}

// What a logit weighs before weights are divided by a sum.
static float weight_of(const ModelConfig *m, float logit, float max) {
    return m->extra->experts.router == ROUTER_SIGMOID ? 1 / (1 + expf(-logit)) : expf(logit - max);
}

// The experts that a row of logits chooses, and their weights. Where a logit is no number, no
// weight is.
static void choose_fast(const ModelConfig *m, const Layer *layer, const float *logits,
                        const Choice *c, int *chosen, float *weights) {
    const float *bias = layer->extra->experts.choice_bias;
    int n = m->extra->experts.n;
    int k = m->extra->experts.n_used;
    float max = logits[0];
    float all = 0;
    float total = 0;
    for (int e = 1; e < n; e++) max = fmaxf(max, logits[e]);
    for (int e = 0; e < n && m->extra->experts.router == ROUTER_ALL; e++)
        all += weight_of(m, logits[e], max);
    float unit = m->extra->experts.router == ROUTER_ALL ? 1 / all : 1;
    memcpy(c->scores, logits, n * sizeof *logits);
    for (int e = 0; e < n && (bias || m->extra->experts.groups); e++)
        c->scores[e] = unit * weight_of(m, logits[e], max) + (bias ? bias[e] : 0);
    if (m->extra->experts.groups) close_groups(m, c);
    choose_best(c->scores, n, k, chosen);
    for (int i = 0; i < k; i++) {
        weights[i] = unit * weight_of(m, logits[chosen[i]], max);
        total += weights[i];
    }
    if (m->extra->experts.router == ROUTER_CHOSEN) unit = 1 / total;
    else
        unit =
            m->extra->experts.renormalizes ? 1 / (total + expert_sum_eps(&m->extra->experts)) : 1;
    if (m->extra->experts.scale > 0) unit *= (float)m->extra->experts.scale;
    scale_by(weights, all_finite(logits, n) ? unit : NAN, k);
    for (int i = 0; i < k && layer->extra->experts.scales; i++)
        weights[i] *= layer->extra->experts.scales[chosen[i]];
}

// logits (n, n_experts) = router . x + bias, no more than a cap if there is one. Experts beside a
// dense layer have a norm for their router, which stands in the place of the input's.
static void route_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                          Workspace *ws) {
    const ModelConfig *m = e->config;
    Matrix router = {.type = WEIGHT_F32,
                     .rows = m->extra->experts.n,
                     .cols = m->dim,
                     .data = layer->extra->experts.router};
    Product product = {
        .matrix = &router, .bias = layer->extra->experts.router_bias, .out = e->logits};
    product.stride = m->extra->experts.n;
    Input read = *input;
    if (layer->extra->experts.router_norm) read.norm = layer->extra->experts.router_norm;
    matmul_by_team(team, &product, 1, &read, ws);
    float cap = (float)m->extra->experts.cap;
    if (cap <= 0 && !layer->extra->experts.router_norm) return;
    int n = (int)input->n * m->extra->experts.n;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++) {
        if (layer->extra->experts.router_norm) e->logits[i] /= sqrtf((float)m->dim);
        if (cap > 0) e->logits[i] = cap * tanhf(e->logits[i] / cap);
    }
    team_wait(team);
}

// ---- products of an expert ----

// hidden = act(w1 . x + b1) * (w3 . x + b3), of x times the factors if the router's weights
// multiply that
static Product first_products(const ModelConfig *m, const FeedForward *w, const float *factors,
                              float *hidden) {
    Product p = {.matrix = &w->w3, .out = hidden, .stride = m->extra->experts.hidden_dim};
    p.gate = w->w1.rows > 0 ? &w->w1 : NULL;
    p.input_factors = m->extra->experts.scales_input ? factors : NULL;
    p.gate_bias = w->b1;
    p.bias = w->b3;
    p.activation = m->extra->feed_forward.activation;
    return p;
}

// out += factor * (w2 . hidden + b2), or without the factor
static Product last_product(const ModelConfig *m, const FeedForward *w, const float *factors,
                            float *out) {
    Product p = {.matrix = &w->w2, .bias = w->b2, .out = out, .add = true};
    p.stride = expert_width(m);
    p.factors = m->extra->experts.scales_input ? NULL : factors;
    return p;
}

// Up to PANEL_ROWS rows of a product from `row` on.
static void multiply_some(const Product *p, int64_t row, int group, const Vectors *v, float *sums) {
    if (v->n > VECTORS_IN_PLACE) {
        multiply_piece(p, row, group ? multiply_int8_panel : multiply_float_panel, PANEL_ROWS, v,
                       sums);
        return;
    }
    int64_t end = row + PANEL_ROWS < p->matrix->rows ? row + PANEL_ROWS : p->matrix->rows;
    MultiplyRows *multiply = group ? multiply_int8_rows : multiply_float_rows;
    for (; row < end; row += ROWS_IN_PLACE)
        multiply_piece(p, row, multiply, ROWS_IN_PLACE, v, sums);
}

static float *sums_of(const Team *team, const Workspace *ws) {
    return ws->sums + team->number * 2 * ws->max_n * PANEL_ROWS;
}

static int group_for(const Product *p, const Workspace *ws) {
    return ws->floats ? 0 : common_group(p, 1);
}

// ---- one row ----

// Vector i of n that were laid out together, alone.
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
    const Single *own = &e->of_threads[team->number];
    int k = m->extra->experts.n_used;
    int64_t wide = m->extra->experts.hidden_dim;
    float *sums = sums_of(team, ws);
    choose_fast(m, layer, e->logits, &own->choice, own->chosen, own->weights);
    for (int i = 0; i < k; i++) {
        own->experts[i] =
            expert_of(&layer->extra->experts.all, m->extra->experts.n, own->chosen[i]);
        own->products[i] =
            first_products(m, &own->experts[i], &own->weights[i], e->hidden + i * wide);
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

// Gives each expert that was chosen a batch, and each row of these a place.
static void gather(Experts *e, const Layer *layer, int64_t n) {
    const ModelConfig *m = e->config;
    int64_t k = m->extra->experts.n_used;
    int64_t place = 0;
    int64_t lanes = 0;
    memset(e->counts, 0, m->extra->experts.n * sizeof *e->counts);
    for (int64_t i = 0; i < n * k; i++) e->counts[e->chosen[i]]++;
    e->n_batches = 0;
    for (int i = 0; i < m->extra->experts.n; i++) {
        int count = e->counts[i];
        if (count == 0) continue;
        e->counts[i] = e->n_batches;
        e->batches[e->n_batches++] =
            (Batch){expert_of(&layer->extra->experts.all, m->extra->experts.n, i), place, lanes, 0};
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

// The vectors of a batch, in this thread's hands.
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
        Product p = first_products(e->config, &b->weights, NULL, NULL);
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
    int64_t wide = m->extra->experts.hidden_dim;
    int panels = (int)((wide + PANEL_ROWS - 1) / PANEL_ROWS);
    for (int task; (task = team_next_task(team)) < e->n_batches * panels;) {
        const Batch *b = &e->batches[task / panels];
        Product p =
            first_products(m, &b->weights, e->factors + b->first, e->hidden + b->first * wide);
        Vectors v = vectors_of(team, e, b, expert_width(m), NULL, ws);
        v.x = v.normed;
        multiply_some(&p, task % panels * (int64_t)PANEL_ROWS, group_for(&p, ws), &v,
                      sums_of(team, ws));
    }
    team_wait(team);
}

static void prepare_hidden_by_team(const Team *team, const Experts *e, const Workspace *ws) {
    int64_t wide = e->config->extra->experts.hidden_dim;
    for (int task; (task = team_next_task(team)) < e->n_batches;) {
        const Batch *b = &e->batches[task];
        Product p = last_product(e->config, &b->weights, NULL, NULL);
        Input rows = {.x = e->hidden + b->first * wide, .n = b->n};
        Vectors v = vectors_of(team, e, b, wide, rows.x, ws);
        for (int t = 0; t < b->n; t++) prepare_vector(&rows, group_for(&p, ws), &v, t);
    }
    team_wait(team);
}

// out (n, dim) += what all batches make of hidden, by panels of its columns.
static void multiply_last_by_team(const Team *team, const Experts *e, float *out,
                                  const Workspace *ws) {
    const ModelConfig *m = e->config;
    int64_t wide = m->extra->experts.hidden_dim;
    int panels = (int)((expert_width(m) + PANEL_ROWS - 1) / PANEL_ROWS);
    for (int task; (task = team_next_task(team)) < panels;)
        for (const Batch *b = e->batches; b < e->batches + e->n_batches; b++) {
            Product p = last_product(m, &b->weights, e->factors + b->first, out);
            p.to = e->rows + b->first;
            Vectors v = vectors_of(team, e, b, wide, e->hidden + b->first * wide, ws);
            multiply_some(&p, task * (int64_t)PANEL_ROWS, group_for(&p, ws), &v, sums_of(team, ws));
        }
    team_wait(team);
}

static void run_many_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                             float *out, Workspace *ws) {
    const ModelConfig *m = e->config;
    int n = (int)input->n;
    int k = m->extra->experts.n_used;
    for (int row = team_first(team, n), end = team_end(team, n); row < end; row++) {
        const float *logits = e->logits + (int64_t)row * m->extra->experts.n;
        choose_fast(m, layer, logits, &e->of_threads[team->number].choice, e->chosen + row * k,
                    e->weights + row * k);
    }
    team_wait(team);
    if (team->number == 0) gather(e, layer, n);
    team_wait(team);
    prepare_rows_by_team(team, e, input, ws);
    multiply_first_by_team(team, e, ws);
    prepare_hidden_by_team(team, e, ws);
    multiply_last_by_team(team, e, out, ws);
}

static void run_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                        float *out, Workspace *ws) {
    if (input->n == 1) run_one_by_team(team, e, layer, input, out, ws);
    else run_many_by_team(team, e, layer, input, out, ws);
}

// out (n, dim) += what the chosen experts of a layer make of the n rows of the input, each by its
// weight. The input may be `out` itself. The number of threads does not change the result. Where
// experts read and make narrower vectors, these stand between.
static void experts_by_team(const Team *team, Experts *e, const Layer *layer, const Input *input,
                            float *out, Workspace *ws) {
    const ModelConfig *m = e->config;
    const ExpertsTensors *w = &layer->extra->experts;
    int n = (int)input->n;
    int64_t narrow = m->extra->experts.latent_dim;
    route_by_team(team, e, layer, input, ws);
    if (narrow == 0) {
        run_by_team(team, e, layer, input, out, ws);
        return;
    }
    Product in = {.matrix = &w->in, .out = e->narrow, .stride = narrow};
    Product back = {.matrix = &w->out, .out = out, .stride = m->dim, .add = true};
    Input read = {.x = e->narrow, .n = n};
    Input made = {.x = e->sums, .n = n};
    matmul_by_team(team, &in, 1, input, ws);
    for (int row = team_first(team, n), end = team_end(team, n); row < end; row++)
        memset(e->sums + row * narrow, 0, narrow * sizeof *e->sums);
    team_wait(team);
    run_by_team(team, e, layer, &read, e->sums, ws);
    matmul_by_team(team, &back, 1, &made, ws);
}

// ---- the expert that every token takes, and the others ----

// Of the expert that every token takes: hidden (n, shared_hidden_dim), and the gate of each row.
static void start_shared_by_team(const Team *team, Transformer *t, const Layer *layer,
                                 const Input *input) {
    const ModelConfig *m = &t->model->config;
    const FeedForward *w = &layer->extra->experts.shared;
    const float *shared_gate = layer->extra->experts.shared_gate;
    float *gates = t->extra->experts->shared_gates;
    Product w1_w3 = {
        .out = t->hidden,
        .stride = m->extra->experts.shared_hidden_dim,
        .gate = w->w1.rows > 0 ? &w->w1 : NULL,
        .matrix = &w->w3,
        .activation = m->extra->feed_forward.activation,
    };
    matmul_by_team(team, &w1_w3, 1, input, t->workspace);
    if (!shared_gate) return;
    Matrix row = {.type = WEIGHT_F32, .rows = 1, .cols = m->dim, .data = shared_gate};
    Product gate = {.out = gates, .stride = 1, .matrix = &row};
    matmul_by_team(team, &gate, 1, input, t->workspace);
    int n = (int)input->n;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++)
        gates[i] = 1 / (1 + expf(-gates[i]));
    team_wait(team);
}

// out (n, dim) += w2 . hidden, by the gates if there are any
static void add_shared_by_team(const Team *team, Transformer *t, const Layer *layer, int n,
                               float *out) {
    Product w2 = {.matrix = &layer->extra->experts.shared.w2, .out = out, .add = true};
    w2.stride = t->model->config.dim;
    if (layer->extra->experts.shared_gate) w2.factors = t->extra->experts->shared_gates;
    Input input = {.x = t->hidden, .n = n};
    matmul_by_team(team, &w2, 1, &input, t->workspace);
}

// t->added (n, dim) = rmsnorm(the dense layer) + rmsnorm(the experts beside it), which read x
// behind norms of their own.
static void mix_beside_by_team(const Team *team, Transformer *t, const float *x, int n,
                               const Layer *layer) {
    const ModelConfig *m = &t->model->config;
    Experts *e = t->extra->experts;
    float eps = (float)m->norm_eps;
    Input input = rmsnorm_of(t, x, n, layer->ffn_norm);
    Input of_experts = rmsnorm_of(t, x, n, layer->extra->experts.norm);
    int first = team_first(team, n);
    int end = team_end(team, n);
    memset(t->added + first * m->dim, 0, (end - first) * m->dim * sizeof(float));
    memset(e->beside + first * m->dim, 0, (end - first) * m->dim * sizeof(float));
    start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, e, layer, &of_experts, t->added, t->workspace);
    add_shared_by_team(team, t, layer, n, e->beside);
    for (int row = first; row < end; row++) {
        float *added = t->added + row * m->dim;
        float *beside = e->beside + row * m->dim;
        rmsnorm_fast(added, added, layer->extra->experts.after, m->dim, eps);
        rmsnorm_fast(beside, beside, layer->extra->experts.shared_after, m->dim, eps);
        add_to(added, beside, m->dim);
    }
    team_wait(team);
}

// x (n_wanted, dim) += what they make, which adds up where there is 0, or in x itself
static void feed_experts_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const ModelConfig *m = &t->model->config;
    const Layer *layer = &t->model->layers[index];
    const float *norm = layer->extra->stream.ffn_after;
    float *x = wanted_rows(t, n_wanted);
    int n = n_wanted;
    if (m->extra->experts.beside) {
        mix_beside_by_team(team, t, x, n, layer);
        add_normed_by_team(team, t, x, n, norm);
        return;
    }
    Input input = rmsnorm_of(t, x, n, layer->ffn_norm);
    bool apart = is_added_apart(m, norm);
    float *out = apart ? t->added : x;
    int end = apart ? team_end(team, n) : 0;
    for (int row = team_first(team, n); row < end; row++)
        memset(out + row * m->dim, 0, m->dim * sizeof *out);
    if (m->extra->experts.shared_hidden_dim) start_shared_by_team(team, t, layer, &input);
    experts_by_team(team, t->extra->experts, layer, &input, out, t->workspace);
    if (m->extra->experts.shared_hidden_dim) add_shared_by_team(team, t, layer, n, out);
    if (apart) add_normed_by_team(team, t, x, n, norm);
}

// ---- memory ----

static Single lay_out_single(Arena *arena, const ModelConfig *m) {
    int64_t k = m->extra->experts.n_used;
    Single s = {.chosen = arena_take(arena, k, sizeof *s.chosen)};
    s.choice.scores = arena_take(arena, m->extra->experts.n, sizeof(float));
    s.choice.groups = arena_take(arena, m->extra->experts.groups, sizeof(float));
    s.choice.open = arena_take(arena, m->extra->experts.groups_used, sizeof(int));
    s.weights = arena_take(arena, k, sizeof *s.weights);
    s.experts = arena_take(arena, k, sizeof *s.experts);
    s.products = arena_take(arena, k, sizeof *s.products);
    s.hidden = lay_out_vectors(arena, k, m->extra->experts.hidden_dim, k);
    return s;
}

// Memory for chunks of up to max_n rows and teams of up to n_threads; NULL from an arena that only
// counts.
static Experts *experts_lay_out(Arena *arena, const ModelConfig *m, int64_t max_n, int n_threads) {
    int64_t k = m->extra->experts.n_used;
    int64_t chosen = max_n * k;
    int64_t most = chosen < m->extra->experts.n ? chosen : m->extra->experts.n;  // batches
    int64_t wide = m->extra->experts.hidden_dim;
    int64_t cols = expert_width(m) > wide ? expert_width(m) : wide;
    int64_t few = chosen < most * VECTORS_IN_PLACE ? chosen : most * VECTORS_IN_PLACE;
    Experts *at = arena_take(arena, 1, sizeof *at);
    Experts e = {.config = m};
    e.logits = arena_take(arena, max_n * m->extra->experts.n, sizeof *e.logits);
    e.chosen = arena_take(arena, chosen, sizeof *e.chosen);
    e.weights = arena_take(arena, chosen, sizeof *e.weights);
    e.hidden = arena_take(arena, chosen * m->extra->experts.hidden_dim, sizeof *e.hidden);
    e.batches = arena_take(arena, most, sizeof *e.batches);
    e.counts = arena_take(arena, m->extra->experts.n, sizeof *e.counts);
    e.rows = arena_take(arena, chosen, sizeof *e.rows);
    e.factors = arena_take(arena, chosen, sizeof *e.factors);
    e.vectors = lay_out_vectors(arena, chosen, cols, few);
    e.narrow = arena_take(arena, max_n * m->extra->experts.latent_dim, sizeof(float));
    e.sums = arena_take(arena, max_n * m->extra->experts.latent_dim, sizeof(float));
    e.beside = arena_take(arena, max_n * (m->extra->experts.beside ? m->dim : 0), sizeof(float));
    e.shared_gates = arena_take(arena, max_n, sizeof(float));
    e.of_threads = arena_take(arena, n_threads, sizeof *e.of_threads);
    for (int i = 0; i < n_threads; i++) {
        Single single = lay_out_single(arena, m);
        if (e.of_threads) e.of_threads[i] = single;
    }
    if (at) *at = e;
    return at;
}

static void lay_out_expert_layers(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const ExpertsConfig *c = &m->extra->experts;
    if (c->n == 0) return;
    t->extra->experts = experts_lay_out(arena, m, t->config->chunk, thread_count());
    if (t->hidden_width < c->shared_hidden_dim) t->hidden_width = c->shared_hidden_dim;
    t->used_width = model_used_width(m);
    if (t->widest < c->latent_dim) t->widest = c->latent_dim;
    if (c->beside) t->adds_apart = true;
}

static bool routes(const Model *model, const Layer *layer) {
    (void)model;
    return layer->extra->experts.router;
}

const FastKind fast_experts = {
    .name = "experts",
    .lay_out = lay_out_expert_layers,
    .has = routes,
    .feed_by_team = feed_experts_by_team,
};
