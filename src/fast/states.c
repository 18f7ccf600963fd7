// Layers with a state (src/kinds/states.c), a chunk of rows at a time: the products with weights
// take all rows together, and the recurrence takes a few rows at once. The columns of a head's
// matrix are independent, so a block of them stays in the cache for all rows.

#include <math.h>
#include <string.h>

#include "../decoder/curves.h"
#include "kernels.h"
#include "parts.h"
#include "residual.h"
#include "simd.h"
#include "states.h"

enum {
    CHANNELS = 16,                  // of the convolution, at a time
    MAX_TAPS = 64,                  // of the header
    COLUMNS = 4 * LANES,            // columns of a head's matrix, at a time
    AT_ONCE = LANES == 16 ? 4 : 2,  // rows, and vectors of these columns: AT_ONCE times VECS
    VECS = 2,                       // sums of two kinds stay in registers
};

float *states_of_layer(const States *s, int index) {
    return s->kept + layers_with_state(s->model, index) * state_numbers(&s->model->config);
}

// ---- convolution ----

// Some channels, side by side: the weights (taps, CHANNELS), biases, and the inputs of the rows
// before the first one.
typedef struct {
    float weights[MAX_TAPS][CHANNELS];
    float bias[CHANNELS];
    float past[MAX_TAPS][CHANNELS];
    int taps, n;
} Channels;

// Loads the channels from `first` on, and replaces their past inputs with the last inputs of the n
// rows u.
static void take_channels(Channels *c, const Layer *layer, const ModelConfig *m, float *past,
                          const float *u, int n, int64_t first) {
    int64_t all = state_channels(m);
    int before = m->kinds->states->conv_width - 1;
    c->taps = m->kinds->states->conv_width;
    c->n = all - first < CHANNELS ? (int)(all - first) : CHANNELS;
    for (int i = 0; i < c->n; i++) {
        c->bias[i] = layer->kinds->states->b_conv ? layer->kinds->states->b_conv[first + i] : 0;
        for (int j = 0; j < c->taps; j++)
            c->weights[j][i] = layer->kinds->states->conv[(first + i) * c->taps + j];
    }
    for (int j = 0; j < before; j++)
        memcpy(c->past[j], past + j * all + first, c->n * sizeof *past);
    for (int j = 0; j < before; j++) {
        int row = n - before + j;  // whose input goes there
        const float *from = row >= 0 ? u + row * state_inputs(m) : c->past[n + j];
        memcpy(past + j * all + first, from, c->n * sizeof *past);
    }
}

// The input of `tap` of the channels for a row of u.
static const float *input_of(const Channels *c, const float *u, int64_t stride, int row, int tap) {
    int from = row - c->taps + 1 + tap;
    return from >= 0 ? u + from * stride : c->past[c->taps - 1 + from];
}

// Replaces the rows u (n, stride) of the channels by their convolution, the last row first, because
// later rows read earlier ones.
static void convolve_rows(const Channels *c, float *u, int64_t stride, int n) {
    enum { FULL = CHANNELS / LANES };
    for (int row = n - 1; row >= 0; row--) {
        float *out = u + row * stride;
        if (c->n == CHANNELS) {
            vf sums[FULL];
            UNROLLED (i, FULL) sums[i] = load(c->bias + i * LANES);
            for (int j = 0; j < c->taps; j++) {
                const float *x = input_of(c, u, stride, row, j);
                UNROLLED (i, FULL)
                    sums[i] =
                        multiply_add(load(c->weights[j] + i * LANES), load(x + i * LANES), sums[i]);
            }
            UNROLLED (i, FULL) store(out + i * LANES, sums[i]);
            continue;
        }
        float sums[CHANNELS];
        memcpy(sums, c->bias, sizeof sums);
        for (int j = 0; j < c->taps; j++) {
            const float *x = input_of(c, u, stride, row, j);
            for (int i = 0; i < c->n; i++) sums[i] += c->weights[j][i] * x[i];
        }
        memcpy(out, sums, c->n * sizeof *u);
    }
}

static int channel_blocks(const ModelConfig *m) {
    return (int)((state_channels(m) + CHANNELS - 1) / CHANNELS);
}

void convolve_by_team(const Team *team, States *s, int index, int n, int64_t place) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    int64_t stride = state_inputs(m);
    float *past = states_of_layer(s, index);
    int blocks = channel_blocks(m);
    Channels c = {.taps = 0};
    for (int b = team_first(team, blocks), end = team_end(team, blocks); b < end; b++) {
        int64_t first = (int64_t)b * CHANNELS;
        float *u = s->inputs + place + first;
        take_channels(&c, layer, m, past, u, n, first);
        convolve_rows(&c, u, stride, n);
        for (int row = 0; row < n; row++) silu_all(u + row * stride, c.n);
    }
    team_wait(team);
}

// made (n - skipped, dim) = C * convolution of (B * X), where a row of inputs has B, C and X
static void short_convolution_by_team(const Team *team, States *s, int index, int n, int skipped) {
    const ModelConfig *m = &s->model->config;
    const Layer *layer = &s->model->layers[index];
    int64_t stride = state_inputs(m);
    float *past = states_of_layer(s, index);
    int blocks = channel_blocks(m);
    Channels c = {.taps = 0};
    for (int b = team_first(team, blocks), end = team_end(team, blocks); b < end; b++) {
        int64_t first = (int64_t)b * CHANNELS;
        float *u = s->inputs + first;
        int width = m->dim - first < CHANNELS ? (int)(m->dim - first) : CHANNELS;
        for (int row = 0; row < n; row++)
            for (int i = 0; i < width; i++) u[row * stride + i] *= u[row * stride + 2 * m->dim + i];
        take_channels(&c, layer, m, past, u, n, first);
        convolve_rows(&c, u, stride, n);
        for (int row = skipped; row < n; row++) {
            float *out = s->made + (row - skipped) * m->dim + first;
            for (int i = 0; i < width; i++)
                out[i] = u[row * stride + i] * u[row * stride + m->dim + i];
        }
    }
    team_wait(team);
}

// ---- the delta rule ----

// Queries and keys of length 1, the first ones divided by sqrt(key_dim); betas and decays.
static void prepare_heads_by_team(const Team *team, States *s, const Layer *layer, int n) {
    const ModelConfig *m = &s->model->config;
    int64_t d = m->kinds->states->key_dim;
    int n_keys = m->kinds->states->key_heads;
    int n_heads = m->kinds->states->value_heads;
    int per_row = 2 * n_keys + n_heads;
    int end = team_end(team, n * per_row);
    for (int i = team_first(team, n * per_row); i < end; i++) {
        int64_t row = i / per_row;
        int h = i % per_row;
        float *head = s->inputs + row * state_inputs(m) + h * d;
        float scale = h < n_keys ? 1 / sqrtf((float)d) : 1;
        if (h < 2 * n_keys) {
            scale_by(head, scale / sqrtf(dot_fast(head, head, d) + STATE_EPS), d);
            continue;
        }
        h -= 2 * n_keys;
        float *beta = s->betas + row * n_heads + h;
        float *decay = s->decays + row * n_heads + h;
        float time = softplus(*decay + layer->kinds->states->dt[h]);
        *beta = sigmoid(*beta);
        *decay = expf(-expf(layer->kinds->states->decay[h]) * time);
    }
    team_wait(team);
}

// A head for n rows: its queries and keys (key_dim), and its values, which become its outputs for
// the queries; rows lie a stride apart. Betas and decays lie `heads` apart.
typedef struct {
    int n;
    int64_t key_dim, stride, heads;
    const float *q, *k;
    float *v;
    const float *betas, *decays;
    float *state;  // (key_dim, columns)
    int64_t columns;
} Head;

// How a few consecutive rows depend on one another (arXiv 2406.06484, with the decay of arXiv
// 2412.06464). S0 is the state before them, A_t its remaining factor at row t, and D_st the
// remaining factor at row t of row s's contribution:
//     d_t = beta_t (v_t - A_t S0^T k_t - the sum over s < t of D_st (k_s k_t) d_s)
//     o_t = A_t S0^T q_t + the sum over s <= t of D_st (k_s q_t) d_s
//     S = A S0 + the sum over s of D_s k_s d_s^T
// So S0 is read and written once for all of them.
typedef struct {
    const float *k[AT_ONCE], *q[AT_ONCE];
    float beta[AT_ONCE];
    float left[AT_ONCE];              // A_t
    float keys[AT_ONCE][AT_ONCE];     // [s][t]: D_st (k_s k_t), s < t
    float queries[AT_ONCE][AT_ONCE];  // [s][t]: D_st (k_s q_t), s <= t
    float last[AT_ONCE];              // D_s, to the last one
} RowGroup;

// Computes the dependence of the n rows from `row` on on one another.
ALWAYS_INLINE void relate_rows(RowGroup *r, const Head *h, int row, int n) {
    for (int t = 0; t < n; t++) {
        float decay = h->decays[(row + t) * h->heads];
        r->k[t] = h->k + (row + t) * h->stride;
        r->q[t] = h->q + (row + t) * h->stride;
        r->beta[t] = h->betas[(row + t) * h->heads];
        r->left[t] = t ? r->left[t - 1] * decay : decay;
        r->last[t] = 1;
        for (int s = 0; s < t; s++) r->last[s] *= decay;
        for (int s = 0; s <= t; s++) {
            r->keys[s][t] = s < t ? r->last[s] * dot_fast(r->k[s], r->k[t], h->key_dim) : 0;
            r->queries[s][t] = r->last[s] * dot_fast(r->k[s], r->q[t], h->key_dim);
        }
    }
}

// VECS vectors of columns, from `first` on, of n rows: a constant, so that all sums are in
// registers.
ALWAYS_INLINE void step_columns(const RowGroup *r, const Head *h, int row, int64_t first, int n) {
    float *state = h->state + first;
    vf d[AT_ONCE][VECS] = {{{0}}};
    vf out[AT_ONCE][VECS] = {{{0}}};
    for (int64_t i = 0; i < h->key_dim; i++) {
        const float *line = state + i * h->columns;
        UNROLLED (t, n) {
            vf key = splat(r->k[t][i]);
            vf query = splat(r->q[t][i]);
            UNROLLED (j, VECS) {
                d[t][j] = multiply_add(key, load(line + j * LANES), d[t][j]);
                out[t][j] = multiply_add(query, load(line + j * LANES), out[t][j]);
            }
        }
    }
    UNROLLED (t, n) {
        float *v = h->v + (row + t) * h->stride + first;
        UNROLLED (j, VECS) {
            vf recalled = splat(r->left[t]) * d[t][j];
            UNROLLED (s, t) recalled = multiply_add(splat(r->keys[s][t]), d[s][j], recalled);
            d[t][j] = splat(r->beta[t]) * (load(v + j * LANES) - recalled);
            out[t][j] *= splat(r->left[t]);
            UNROLLED (s, t + 1)
                out[t][j] = multiply_add(splat(r->queries[s][t]), d[s][j], out[t][j]);
            store(v + j * LANES, out[t][j]);
        }
    }
    UNROLLED (t, n)
        UNROLLED (j, VECS) d[t][j] *= splat(r->last[t]);
    for (int64_t i = 0; i < h->key_dim; i++) {
        float *line = state + i * h->columns;
        UNROLLED (j, VECS) {
            vf new = splat(r->left[n - 1]) * load(line + j * LANES);
            UNROLLED (t, n) new = multiply_add(splat(r->k[t][i]), d[t][j], new);
            store(line + j * LANES, new);
        }
    }
}

ALWAYS_INLINE void step_rows(const Head *h, int row, int64_t first, int n) {
    RowGroup r;
    relate_rows(&r, h, row, n);
    for (int64_t c = 0; c < COLUMNS; c += VECS * LANES) step_columns(&r, h, row, first + c, n);
}

// COLUMNS columns of it, from `first` on.
static void step_block(const Head *h, int64_t first) {
    int row = 0;
    for (; row + AT_ONCE <= h->n; row += AT_ONCE) step_rows(h, row, first, AT_ONCE);
    for (; row < h->n; row++) step_rows(h, row, first, 1);
}

// The columns after the last block.
static void step_rest(const Head *h, int64_t first) {
    for (int row = 0; row < h->n; row++) {
        const float *k = h->k + row * h->stride;
        const float *q = h->q + row * h->stride;
        float *v = h->v + row * h->stride;
        float decay = h->decays[row * h->heads];
        float beta = h->betas[row * h->heads];
        for (int64_t c = first; c < h->columns; c++) {
            float recalled = 0;
            float out = 0;
            float *x = h->state + c;
            for (int64_t i = 0; i < h->key_dim; i++) recalled += k[i] * x[i * h->columns];
            float d = beta * (v[c] - decay * recalled);
            for (int64_t i = 0; i < h->key_dim; i++) {
                x[i * h->columns] = decay * x[i * h->columns] + k[i] * d;
                out += q[i] * x[i * h->columns];
            }
            v[c] = out;
        }
    }
}

// Replaces values by the heads' outputs. A thread's share is blocks of a head's columns.
static void step_heads_by_team(const Team *team, States *s, int index, int n) {
    const ModelConfig *m = &s->model->config;
    int64_t key_dim = m->kinds->states->key_dim;
    int64_t columns = m->kinds->states->value_dim;
    int n_keys = m->kinds->states->key_heads;
    int n_heads = m->kinds->states->value_heads;
    float *states = states_of_layer(s, index) + state_past(m);
    int blocks = (int)((columns + COLUMNS - 1) / COLUMNS);
    for (int task; (task = team_next_task(team)) < n_heads * blocks;) {
        int h = task / blocks;
        int64_t first = task % blocks * COLUMNS;
        const float *q = s->inputs + state_key_head(m, h) * key_dim;
        const Head head = {
            .n = n,
            .key_dim = key_dim,
            .stride = state_inputs(m),
            .heads = n_heads,
            .q = q,
            .k = q + n_keys * key_dim,
            .v = s->inputs + 2 * n_keys * key_dim + h * columns,
            .betas = s->betas + h,
            .decays = s->decays + h,
            .state = states + h * key_dim * columns,
            .columns = columns,
        };
        if (first + COLUMNS <= columns) step_block(&head, first);
        else step_rest(&head, first);
    }
    team_wait(team);
}

// made (n - skipped, state_width) = silu(made) * rmsnorm of each head's output
static void gate_heads_by_team(const Team *team, States *s, const Layer *layer, int n,
                               int skipped) {
    const ModelConfig *m = &s->model->config;
    int64_t d = m->kinds->states->value_dim;
    int n_heads = m->kinds->states->value_heads;
    int count = (n - skipped) * n_heads;
    for (int i = team_first(team, count), end = team_end(team, count); i < end; i++) {
        int64_t row = skipped + i / n_heads;
        float *recalled = s->inputs + (row + 1) * state_inputs(m) - (n_heads - i % n_heads) * d;
        rmsnorm_fast(recalled, recalled, layer->kinds->states->norm, d, (float)m->norm_eps);
        swiglu(s->made + i * d, recalled, d);
    }
    team_wait(team);
}

void take_inputs_by_team(const Team *team, States *s, int index, const Input *input,
                         Workspace *workspace) {
    const StatesTensors *w = s->model->layers[index].kinds->states;
    const Product of_all[] = {
        {.out = s->inputs, .stride = w->in.rows, .matrix = &w->in, .bias = w->b_in},
        {.out = s->betas, .stride = w->beta.rows, .matrix = &w->beta},
        {.out = s->decays, .stride = w->step.rows, .matrix = &w->step},
    };
    matmul_by_team(team, of_all, w->beta.rows > 0 ? 3 : 1, input, workspace);
}

void add_made_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    const StatesTensors *w = layer->kinds->states;
    Product out = {.matrix = &w->out, .bias = w->b_out};
    Input made = {.x = t->kinds->states->made, .n = n_wanted};
    add_product_by_team(team, t, wanted_rows(t, n_wanted), &out, &made,
                        layer->extra->residual.attention_after);
}

// made (n_wanted, state_width) = the gated delta rule of the last n_wanted rows, with inputs
// already computed. The state takes all rows.
static void delta_rule_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    const Matrix *gate = &layer->kinds->states->gate;
    States *s = t->kinds->states;
    Product gates = {.out = s->made, .stride = gate->rows, .matrix = gate};
    Input wanted = rmsnorm_of(t, wanted_rows(t, n_wanted), n_wanted, layer->attention_norm);
    if (n_wanted > 0) matmul_by_team(team, &gates, 1, &wanted, t->workspace);
    convolve_by_team(team, s, index, t->n, 0);
    prepare_heads_by_team(team, s, layer, t->n);
    step_heads_by_team(team, s, index, t->n);
    gate_heads_by_team(team, s, layer, t->n, t->n - n_wanted);
}

static void mix_states_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    bool is_convolution = t->model->config.kinds->states->kind == STATE_CONV;
    States *s = t->kinds->states;
    Input input = rmsnorm_of(t, t->x, t->n, layer->attention_norm);
    take_inputs_by_team(team, s, index, &input, t->workspace);
    if (is_convolution) short_convolution_by_team(team, s, index, t->n, t->n - n_wanted);
    else delta_rule_by_team(team, t, index, n_wanted);
    if (n_wanted > 0) add_made_by_team(team, t, index, n_wanted);
}

// ---- memory ----

static void lay_out_state_layers(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    States *s = t->kinds->states;
    int64_t chunk = t->config->chunk;
    int64_t n = layers_with_state(t->model, m->n_layers);
    *s = (States){.model = t->model};
    if (n == 0) return;
    t->n_kept = n * state_numbers(m);
    t->kept = s->kept = arena_take(arena, t->n_kept, sizeof(float));
    s->inputs = arena_take(arena, chunk * state_inputs(m), sizeof(float));
    s->made = arena_take(arena, chunk * state_width(m), sizeof(float));
    s->betas = arena_take(arena, chunk * m->kinds->states->value_heads, sizeof(float));
    s->decays = arena_take(arena, chunk * m->kinds->states->value_heads, sizeof(float));
    if (t->widest < state_width(m)) t->widest = state_width(m);
}

const FastKind fast_states = {
    .of = &states_kind,
    .part = {sizeof(States), offsetof(struct FastParts, states)},
    .lay_out = lay_out_state_layers,
    .mix_by_team = mix_states_by_team,
};
