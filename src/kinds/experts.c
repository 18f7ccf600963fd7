// The definition of layers with experts: their tensors, the router, and the output of the experts
// that it chooses.
#include "experts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../decoder/curves.h"
#include "../decoder/forward.h"
#include "../llama/arithmetic.h"
#include "parts.h"

// ---- the header and the tensors ----

enum { MAX_EXPERTS = 1 << 12 };

static const Field fields_of_experts[] = {
    {"n_experts", 384, U32, 0, MAX_EXPERTS, IN_PART(ExpertsConfig, n)},
    {"n_experts_used", 388, U32, 0, MAX_EXPERTS, IN_PART(ExpertsConfig, n_used)},
    {"expert_hidden_dim", 392, U32, 0, MAX_WIDTH, IN_PART(ExpertsConfig, hidden_dim)},
    {"router", 396, U32, 0, N_ROUTERS - 1, IN_PART(ExpertsConfig, router),
     .version_6 = ROUTER_SIGMOID},
    {"router_bias", 400, U32, 0, 1, IN_PART(ExpertsConfig, router_bias)},
    {"expert_bias", 404, U32, 0, 1, IN_PART(ExpertsConfig, bias)},
    {"experts_beside", 636, U32, 0, 1, IN_PART(ExpertsConfig, beside)},
    {"shared_hidden_dim", 640, U32, 0, MAX_WIDTH, IN_PART(ExpertsConfig, shared_hidden_dim)},
    {"shared_gate", 644, U32, 0, 1, IN_PART(ExpertsConfig, shared_gate)},
    {"router_choice_bias", 648, U32, 0, 1, IN_PART(ExpertsConfig, choice_bias)},
    {"router_groups", 652, U32, 0, MAX_EXPERTS, IN_PART(ExpertsConfig, groups)},
    {"router_groups_used", 656, U32, 0, MAX_EXPERTS, IN_PART(ExpertsConfig, groups_used)},
    {"router_group_best", 660, U32, 0, 2, IN_PART(ExpertsConfig, group_best)},
    {"router_scale", 664, F64, 0, MAX_SCALE, IN_PART(ExpertsConfig, scale)},
    {"router_cap", 672, F64, 0, MAX_SCALE, IN_PART(ExpertsConfig, cap)},
    {"router_renormalizes", 680, U32, 0, 1, IN_PART(ExpertsConfig, renormalizes)},
    {"router_scales_input", 684, U32, 0, 1, IN_PART(ExpertsConfig, scales_input)},
    {"router_eps", 728, F64, 0, 1, IN_PART(ExpertsConfig, sum_eps)},
    {"expert_latent_dim", 740, U32, 0, MAX_WIDTH, IN_PART(ExpertsConfig, latent_dim)},
};

static const Rule rules_of_experts[] = {
    {"n_experts_used expert_hidden_dim router router_bias expert_bias experts_beside "
     "shared_hidden_dim shared_gate router_choice_bias router_groups router_groups_used "
     "router_group_best router_scale router_cap router_renormalizes router_scales_input "
     "router_eps expert_latent_dim",
     NEEDS, "n_experts"},
    {"n_experts", NEEDS, "n_experts_used expert_hidden_dim"},
    {"router_choice_bias router_groups router_renormalizes", NEEDS, "router"},
    {"router_eps", NEEDS, "router_renormalizes"},
    {"router_groups_used router_group_best", NEEDS, "router_groups"},
    {"router_groups", NEEDS, "router_groups_used router_group_best"},
    {"shared_gate experts_beside", NEEDS, "shared_hidden_dim"},
    {"experts_beside", EXCLUDES,
     "shared_gate router_bias layer_norm residual_scale after_norm_eps expert_latent_dim"},
};

static bool check_experts(Model *m, Error *err) {
    const ExpertsConfig *e = m->config.kinds->experts;
    int of_group = e->groups ? e->n / e->groups : e->n;
    int most = e->groups ? e->groups_used * of_group : e->n;
    if (!CHECK_RULES(m, rules_of_experts, err)) return false;
    if (e->n == 0) return true;
    if (m->config.extra->feed_forward.activation == ACTIVATION_XIELU)
        return fail(err, "activation %d with experts (expected 0 to %d)", ACTIVATION_XIELU,
                    ACTIVATION_RELU2);
    if (m->config.extra->residual.norm_place == NORM_PARALLEL)
        return fail(err, "norm_place %d with experts (expected 0 to 2)", NORM_PARALLEL);
    if (e->groups && e->n % e->groups)
        return fail(err, "router_groups is %d, which does not divide %d experts", e->groups, e->n);
    if (e->groups_used > e->groups)
        return fail(err, "router_groups_used is %d of %d groups (expected 1 to %d)", e->groups_used,
                    e->groups, e->groups);
    if (e->group_best > of_group)
        return fail(err, "router_group_best is %d with groups of %d experts (expected 1 or 2)",
                    e->group_best, of_group);
    return e->n_used <= most || fail(err, "n_experts_used is %d of %d experts (expected 1 to %d)",
                                     e->n_used, most, most);
}

static bool check_dense_layers(const Model *m, Error *err) {
    return m->config.kinds->experts->n || check_no_layer_has(m, LAYER_DENSE, "n_experts", err);
}

// Adds the tensors of experts, and drops those of the dense network.
static void add_experts_tensors(Model *m, Layer *w, Tensors *t) {
    const ExpertsConfig *e = m->config.kinds->experts;
    ExpertsTensors *to = w->kinds->experts;
    int64_t dim = m->config.dim, n = e->n, wide = n * e->hidden_dim, shared = e->shared_hidden_dim;
    int64_t narrow = e->latent_dim, own = expert_width(&m->config);
    bool gated = is_gated(&m->config);
    const Tensor rows[] = {
        {400, &to->router, FLOATS, .rows = n, .cols = dim},
        {401, &to->router_bias, FLOATS, .rows = e->router_bias, .cols = n},
        {402, &to->choice_bias, FLOATS, .rows = e->choice_bias, .cols = n},
        {403, &to->router_norm, FLOATS, .rows = e->beside, .cols = dim},
        {404, &to->scales, FLOATS, .rows = e->beside, .cols = n},
        {405, &to->in, FEED_FORWARD, .rows = narrow, .cols = dim},
        {406, &to->all.w1, FEED_FORWARD, .rows = gated * wide, .cols = own, .parts = e->n},
        {407, &to->all.b1, FLOATS, .rows = gated && e->bias, .cols = wide},
        {408, &to->all.w3, FEED_FORWARD, .rows = wide, .cols = own, .parts = e->n},
        {409, &to->all.b3, FLOATS, .rows = e->bias, .cols = wide},
        {410, &to->all.w2, FEED_FORWARD, .rows = n * own, .cols = e->hidden_dim, .parts = e->n},
        {411, &to->all.b2, FLOATS, .rows = e->bias, .cols = n * own},
        {412, &to->out, FEED_FORWARD, .rows = narrow ? dim : 0, .cols = narrow},
        {413, &to->shared.w1, FEED_FORWARD, .rows = gated * shared, .cols = dim},
        {414, &to->shared.w3, FEED_FORWARD, .rows = shared, .cols = dim},
        {415, &to->shared.w2, FEED_FORWARD, .rows = shared ? dim : 0, .cols = shared},
        {416, &to->shared_gate, FLOATS, .rows = e->shared_gate, .cols = dim},
        {417, &to->shared_after, FLOATS, .rows = e->beside, .cols = dim},
        {418, &to->norm, FLOATS, .rows = e->beside, .cols = dim},
        {419, &to->after, FLOATS, .rows = e->beside, .cols = dim},
    };
    if (n == 0 || w->extra->flags & LAYER_DENSE) return;
    insert_tensors(t, rows, sizeof rows / sizeof rows[0]);
    tensor_at(t, &w->w1)->rows = tensor_at(t, &w->w3)->rows = tensor_at(t, &w->w2)->rows = 0;
    tensor_at(t, &w->extra->feed_forward.b1)->rows = 0;
    tensor_at(t, &w->extra->feed_forward.b3)->rows = 0;
    tensor_at(t, &w->extra->feed_forward.b2)->rows = 0;
}

int64_t model_used_width(const ModelConfig *c) {
    const ExpertsConfig *e = c->kinds->experts;
    return e->n ? e->n_used * e->hidden_dim + e->shared_hidden_dim : c->hidden_dim;
}

int gate_pairs(Layer *w, GatePair pairs[MOST_GATE_PAIRS]) {
    FeedForwardTensors *dense = &w->extra->feed_forward;
    FeedForward *all = &w->kinds->experts->all;
    FeedForward *shared = &w->kinds->experts->shared;
    int n = 0;
    pairs[n++] = (GatePair){&w->w1, &w->w3, &dense->b1, &dense->b3};
    pairs[n++] = (GatePair){&all->w1, &all->w3, &all->b1, &all->b3};
    pairs[n++] = (GatePair){&shared->w1, &shared->w3, &shared->b1, &shared->b3};
    return n;
}

int64_t expert_width(const ModelConfig *c) {
    int64_t latent_dim = c->kinds->experts->latent_dim;
    return latent_dim ? latent_dim : c->dim;
}

float expert_sum_eps(const ExpertsConfig *c) { return c->sum_eps > 0 ? (float)c->sum_eps : 1e-20f; }

// Part i of a matrix whose rows are cut into n equal parts.
static Matrix part_of(const Matrix *m, int n, int64_t i) {
    Matrix part = *m;
    int64_t bytes = matrix_row_bytes(m) * (m->rows / n);
    int64_t scale_bytes = matrix_scale_bytes(m) / n;
    part.rows = m->rows / n;
    part.data = (const uint8_t *)m->data + i * bytes;
    if (m->scales) part.scales = (const uint8_t *)m->scales + i * scale_bytes;
    return part;
}

static const float *biases_of(const float *all, const Matrix *part, int64_t i) {
    return all ? all + i * part->rows : NULL;
}

FeedForward expert_of(const FeedForward *all, int n, int i) {
    FeedForward own = {0};
    own.w1 = part_of(&all->w1, n, i);
    own.w2 = part_of(&all->w2, n, i);
    own.w3 = part_of(&all->w3, n, i);
    own.b1 = biases_of(all->b1, &own.w1, i);
    own.b2 = biases_of(all->b2, &own.w2, i);
    own.b3 = biases_of(all->b3, &own.w3, i);
    return own;
}

// ---- the router ----

// The number of the highest score that has not been chosen yet; the smaller number if two are
// equal.
static int best_of(const float *scores, const bool *is_chosen, int n) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (is_chosen[e]) continue;
        if (best < 0 || scores[e] > scores[best]) best = e;
    }
    return best;
}

static void choose(const float *scores, int n, int n_used, bool *is_chosen) {
    for (int e = 0; e < n; e++) is_chosen[e] = false;
    for (int k = 0; k < n_used; k++) {
        int best = best_of(scores, is_chosen, n);
        is_chosen[best] = true;
    }
}

// logits (n_experts) = router @ x + bias, limited by the cap if there is one
static void route(const ModelConfig *m, const ExpertsTensors *w, const float *x, float *logits) {
    float cap = (float)m->kinds->experts->cap;
    for (int e = 0; e < m->kinds->experts->n; e++) {
        const float *row = w->router + e * m->dim;
        logits[e] = dot(row, x, m->dim);
        if (w->router_bias) logits[e] += w->router_bias[e];
        if (cap > 0) logits[e] = capped(logits[e], cap);
    }
}

// The sum of the best one or two of n scores.
static float sum_of_best(const float *scores, int n, int n_best) {
    float first = -INFINITY;
    float second = -INFINITY;
    for (int e = 0; e < n; e++) {
        float score = scores[e];
        if (score > first) {
            second = first;
            first = score;
        } else if (score > second) {
            second = score;
        }
    }
    return n_best == 2 ? first + second : first;
}

// Marks the best groups as open. Experts in the other groups cannot be chosen.
static void open_best_groups(const ExpertsConfig *c, PlainExperts *r) {
    int n = c->groups;
    int of_group = c->n / n;
    for (int g = 0; g < n; g++) {
        r->group_scores[g] = sum_of_best(r->scores + g * of_group, of_group, c->group_best);
    }
    choose(r->group_scores, n, c->groups_used, r->is_open);
    for (int e = 0; e < c->n; e++) {
        if (!r->is_open[e / of_group]) r->scores[e] = -INFINITY;
    }
}

void choose_experts(const ModelConfig *m, const ExpertsTensors *w, const float *x,
                    PlainExperts *r) {
    const ExpertsConfig *c = m->kinds->experts;
    int n = c->n;
    float *weights = r->weights;
    route(m, w, x, weights);
    bool is_good = all_finite(weights, n);
    for (int e = 0; e < n; e++) r->scores[e] = weights[e];
    if (c->router == ROUTER_ALL) softmax(weights, n);
    for (int e = 0; e < n && c->router == ROUTER_SIGMOID; e++) weights[e] = sigmoid(weights[e]);
    bool by_weight = w->choice_bias || c->groups;
    for (int e = 0; e < n && by_weight; e++) {
        r->scores[e] = weights[e];
        if (w->choice_bias) r->scores[e] += w->choice_bias[e];
    }
    if (c->groups) open_best_groups(c, r);
    choose(r->scores, n, c->n_used, r->is_chosen);

    float sum = 0;
    for (int e = 0; e < n; e++) {
        if (r->is_chosen[e]) sum += weights[e];
        else if (c->router == ROUTER_CHOSEN) weights[e] = -INFINITY;
    }
    if (c->router == ROUTER_CHOSEN) softmax(weights, n);
    if (c->renormalizes) scale_all(weights, 1 / (sum + expert_sum_eps(c)), n);
    if (c->scale > 0) scale_all(weights, (float)c->scale, n);
    if (!is_good) scale_all(weights, NAN, n);
}

// ---- the output of the experts ----

// sum (n) += weight * expert e of x (n), or expert e of weight * x
static void add_expert(Plain *p, int e, const float *x, float *sum, int64_t n) {
    const ExpertsConfig *c = p->model->config.kinds->experts;
    const ExpertsTensors *w = p->w->kinds->experts;
    PlainExperts *r = p->kinds->experts;
    FeedForward expert = expert_of(&w->all, c->n, e);
    float weight = r->weights[e];
    if (w->scales) weight *= w->scales[e];
    memcpy(r->input, x, n * sizeof(float));
    if (c->scales_input) scale_all(r->input, weight, n);
    feed_forward_of(p, &expert, r->input, r->made);
    add(sum, c->scales_input ? 1 : weight, r->made, n);
}

// added (dim) = the sum of the chosen experts' outputs for plain->normed. With latent_dim their
// input is in @ normed, and the result is out @ their sum (Nemotron 3).
static void add_chosen(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const ExpertsTensors *w = p->w->kinds->experts;
    PlainExperts *r = p->kinds->experts;
    int64_t latent_dim = m->kinds->experts->latent_dim;
    int64_t n = expert_width(m);
    const float *x = latent_dim ? r->narrow : p->normed;
    float *sum = latent_dim ? r->sum : p->added;
    if (latent_dim) matmul(r->narrow, &w->in, p->normed, p->row);
    memset(sum, 0, n * sizeof(float));
    for (int e = 0; e < m->kinds->experts->n; e++) {
        if (r->is_chosen[e]) add_expert(p, e, x, sum, n);
    }
    if (latent_dim) matmul(p->added, &w->out, sum, p->row);
}

// added (dim) = the sum of the chosen experts and of the shared expert, whose output is multiplied
// by its gate if it has one.
static void mix_experts(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const ExpertsTensors *w = p->w->kinds->experts;
    float *made = p->kinds->experts->made;
    choose_experts(m, w, p->normed, p->kinds->experts);
    add_chosen(p);
    if (m->kinds->experts->shared_hidden_dim == 0) return;
    float weight = w->shared_gate ? sigmoid(dot(w->shared_gate, p->normed, m->dim)) : 1;
    feed_forward_of(p, &w->shared, p->normed, made);
    add(p->added, weight, made, m->dim);
}

// added (dim) = rmsnorm(the dense layer of normed) + rmsnorm(the experts). The router and the
// experts have their own norms of x (dim).
static void mix_beside(Plain *p, const float *x) {
    const ModelConfig *m = &p->model->config;
    const ExpertsTensors *w = p->w->kinds->experts;
    float *beside = p->kinds->experts->beside;
    feed_forward_of(p, &w->shared, p->normed, beside);
    rmsnorm(beside, beside, w->shared_after, m->dim, m->norm_eps);
    rmsnorm(p->normed, x, w->router_norm, m->dim, m->norm_eps);
    scale_all(p->normed, 1 / sqrtf((float)m->dim), m->dim);
    choose_experts(m, w, p->normed, p->kinds->experts);
    rmsnorm(p->normed, x, w->norm, m->dim, m->norm_eps);
    add_chosen(p);
    rmsnorm(p->added, p->added, w->after, m->dim, m->norm_eps);
    add(p->added, 1, beside, m->dim);
}

static void feed_experts(Plain *p, const float *x) {
    if (p->w->kinds->experts->router_norm) mix_beside(p, x);
    else mix_experts(p);
}

static bool has_experts(const Model *model, const Layer *layer) {
    (void)model;
    return layer->kinds->experts->router;
}

static void lay_out_experts(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    const ExpertsConfig *e = m->kinds->experts;
    PlainExperts *r = p->kinds->experts;
    r->weights = arena_take(arena, e->n, sizeof(float));
    r->is_chosen = arena_take(arena, e->n, sizeof(bool));
    r->scores = arena_take(arena, e->n, sizeof(float));
    r->group_scores = arena_take(arena, e->groups, sizeof(float));
    r->is_open = arena_take(arena, e->groups, sizeof(bool));
    int64_t own = expert_width(m);
    r->narrow = arena_take(arena, e->latent_dim, sizeof(float));
    r->sum = arena_take(arena, e->latent_dim, sizeof(float));
    r->input = arena_take(arena, own, sizeof(float));
    // also the output of the shared expert
    r->made = arena_take(arena, own < m->dim ? m->dim : own, sizeof(float));
    r->beside = arena_take(arena, m->dim, sizeof(float));
    if (p->hidden_width < e->hidden_dim) p->hidden_width = e->hidden_dim;
    if (p->hidden_width < e->shared_hidden_dim) p->hidden_width = e->shared_hidden_dim;
}

static void describe_experts(const Model *m, Teller *tell, void *whose) {
    static const char *const routers[N_ROUTERS] = {
        [ROUTER_CHOSEN] = "softmax over the chosen",
        [ROUTER_ALL] = "softmax over all",
        [ROUTER_SIGMOID] = "sigmoids",
    };
    const ExpertsConfig *e = m->config.kinds->experts;
    char words[1024] = "", number[16];
    if (e->n == 0) return;
    snprintf(words, sizeof words, "%d in a layer, a token takes %d", e->n, e->n_used);
    tell(whose, "experts", words, false);
    tell(whose, "router", routers[e->router], false);
    words[0] = 0;
    for (int l = 0; m->layers && l < m->config.n_layers; l++) {
        snprintf(number, sizeof number, "%d", l);
        if (m->layers[l].extra->flags & LAYER_DENSE) add_name(words, sizeof words, " ", number);
    }
    if (words[0]) tell(whose, "dense_layers", words, false);
}

bool model_has_experts(const Model *m) { return m->config.kinds->experts->n > 0; }
bool experts_have_bias(const Model *m) { return m->config.kinds->experts->bias; }
bool router_has_bias(const Model *m) { return m->config.kinds->experts->router_bias; }

// The bytes of the experts that one token does not use.
static double unread_experts(const Model *m, bool one_token) {
    const ExpertsConfig *e = m->config.kinds->experts;
    double bytes = 0;
    if (e->n == 0 || !one_token) return 0;
    for (int l = 0; l < m->config.n_layers; l++) {
        const FeedForward *all = &m->layers[l].kinds->experts->all;
        if (!m->layers[l].kinds->experts->router) continue;
        bytes += (double)(matrix_bytes(&all->w1) + matrix_bytes(&all->w3) + matrix_bytes(&all->w2));
    }
    return bytes * (e->n - e->n_used) / e->n;
}

const Kind experts_kind = {
    .parts = {[OF_MODEL] = {sizeof(ExpertsConfig), offsetof(struct ModelParts, experts)},
              [OF_LAYER] = {sizeof(ExpertsTensors), offsetof(struct LayerParts, experts)},
              [OF_TEXT] = {sizeof(PlainExperts), offsetof(struct PlainParts, experts)}},
    .fields = fields_of_experts,
    .n_fields = sizeof fields_of_experts / sizeof fields_of_experts[0],
    .check = check_experts,
    .check_layers = check_dense_layers,
    .add_tensors = add_experts_tensors,
    .describe = describe_experts,
    .unread_bytes = unread_experts,
    .lay_out = lay_out_experts,
    .has = has_experts,
    .feed = feed_experts,
};
