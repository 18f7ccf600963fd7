// Mamba 2 (src/kinds/mamba.c), a chunk of rows at a time. The recurrence takes a few rows at once.
// A_t is the remaining factor, after row t, of the state before them, S0, and D_st that of row s's
// contribution at row t:
//     y_t = A_t S0^T C_t + the sum over s <= t of D_st (B_s C_t) time_s x_s + skip x_t
//     S = A S0 + the sum over s of D_s B_s time_s x_s^T
// So S0 is read once for all of them, and written once. Its columns, one for each element of x, are
// independent, and some of them at a time stay in registers.
#include <math.h>

#include "../decoder/curves.h"
#include "../kinds/mamba.h"
#include "kernels.h"
#include "parts.h"
#include "simd.h"
#include "states.h"

enum {
    MAMBA_ROWS = LANES == 16 ? 8 : 4,    // rows
    MAMBA_VECS = 2,                      // vectors of columns
    MAMBA_COLUMNS = MAMBA_VECS * LANES,  // of a task
};

// Computes each token's time for each head, and its decay of the state.
static void take_times_by_team(const Team *team, States *s, const Layer *layer, int n) {
    const ModelConfig *m = &s->model->config;
    int n_heads = m->kinds->states->value_heads;
    int64_t steps = state_inputs(m) - n_heads;  // their place in a row of inputs
    for (int i = team_first(team, n * n_heads), end = team_end(team, n * n_heads); i < end; i++) {
        int64_t row = i / n_heads;
        int h = i % n_heads;
        float step = s->inputs[row * state_inputs(m) + steps + h];
        float time = softplus(step + layer->kinds->states->dt[h]);
        s->betas[i] = time;
        s->decays[i] = expf(-expf(layer->kinds->states->decay[h]) * time);
    }
    team_wait(team);
}

// A head for n rows: B and C of its group (key_dim), and x, which becomes y; rows lie a stride
// apart. Times and decays are `heads` apart.
typedef struct {
    int n;
    int64_t key_dim, stride, heads;
    const float *b, *c;
    float *x;
    const float *times, *decays;
    float skip;
    float *state;  // (key_dim, columns)
    int64_t columns;
} MambaHead;

// The dependence of a few consecutive rows on one another.
typedef struct {
    const float *b[MAMBA_ROWS], *c[MAMBA_ROWS];
    float left[MAMBA_ROWS];               // A_t
    float reads[MAMBA_ROWS][MAMBA_ROWS];  // [s][t]: D_st (B_s C_t) time_s, s <= t
    float writes[MAMBA_ROWS];             // D_s time_s, to the last row
} MambaRows;

// Computes the dependence of the n rows from `row` on on one another.
ALWAYS_INLINE void relate_mamba_rows(MambaRows *r, const MambaHead *h, int row, int n) {
    for (int t = 0; t < n; t++) {
        float decay = h->decays[(row + t) * h->heads];
        r->b[t] = h->b + (row + t) * h->stride;
        r->c[t] = h->c + (row + t) * h->stride;
        r->left[t] = t ? r->left[t - 1] * decay : decay;
        r->writes[t] = h->times[(row + t) * h->heads];
        for (int s = 0; s < t; s++) r->writes[s] *= decay;
        for (int s = 0; s <= t; s++)
            r->reads[s][t] = r->writes[s] * dot_fast(r->b[s], r->c[t], h->key_dim);
    }
}

// MAMBA_VECS vectors of columns, from `first` on, of n rows: a constant, so that all sums are in
// registers.
ALWAYS_INLINE void step_mamba_columns(const MambaRows *r, const MambaHead *h, int row,
                                      int64_t first, int n) {
    vf read[MAMBA_ROWS][MAMBA_VECS] = {{{0}}};
    vf written[MAMBA_ROWS][MAMBA_VECS] = {{{0}}};
    UNROLLED (t, n)
        UNROLLED (j, MAMBA_VECS) {
            const float *x = h->x + (row + t) * h->stride + first;
            written[t][j] = splat(r->writes[t]) * load(x + j * LANES);
        }
    for (int64_t i = 0; i < h->key_dim; i++) {
        float *line = h->state + i * h->columns + first;
        UNROLLED (j, MAMBA_VECS) {
            vf old = load(line + j * LANES);
            vf new = splat(r->left[n - 1]) * old;
            UNROLLED (t, n) {
                read[t][j] = multiply_add(splat(r->c[t][i]), old, read[t][j]);
                new = multiply_add(splat(r->b[t][i]), written[t][j], new);
            }
            store(line + j * LANES, new);
        }
    }
    // the last row first: x of those before it is still there
    _Pragma(UNROLL) for (int t = n - 1; t >= 0; t--) {
        float *x = h->x + (row + t) * h->stride + first;
        UNROLLED (j, MAMBA_VECS) {
            vf y = splat(r->left[t]) * read[t][j];
            y = multiply_add(splat(h->skip), load(x + j * LANES), y);
            UNROLLED (s, t + 1) {
                const float *other = h->x + (row + s) * h->stride + first;
                y = multiply_add(splat(r->reads[s][t]), load(other + j * LANES), y);
            }
            store(x + j * LANES, y);
        }
    }
}

ALWAYS_INLINE void step_mamba_rows(const MambaHead *h, int row, int64_t first, int n) {
    MambaRows r;
    relate_mamba_rows(&r, h, row, n);
    step_mamba_columns(&r, h, row, first, n);
}

static void step_mamba_block(const MambaHead *h, int64_t first) {
    int row = 0;
    for (; row + MAMBA_ROWS <= h->n; row += MAMBA_ROWS) step_mamba_rows(h, row, first, MAMBA_ROWS);
    for (; row < h->n; row++) step_mamba_rows(h, row, first, 1);
}

// The columns after the last whole block.
static void step_mamba_rest(const MambaHead *h, int64_t first) {
    for (int row = 0; row < h->n; row++) {
        const float *b = h->b + row * h->stride;
        const float *c = h->c + row * h->stride;
        float *x = h->x + row * h->stride;
        float decay = h->decays[row * h->heads];
        float time = h->times[row * h->heads];
        for (int64_t e = first; e < h->columns; e++) {
            float *state = h->state + e;
            float written = time * x[e];
            float y = h->skip * x[e];
            for (int64_t i = 0; i < h->key_dim; i++) {
                float new = decay *state[i * h->columns] + b[i] * written;
                state[i * h->columns] = new;
                y += c[i] * new;
            }
            x[e] = y;
        }
    }
}

// x becomes y. A thread's share is blocks of a head's columns.
static void step_mamba_by_team(const Team *team, States *s, int index, int n) {
    const ModelConfig *m = &s->model->config;
    const StatesConfig *c = m->kinds->states;
    int64_t width = state_width(m);
    int blocks = (c->value_dim + MAMBA_COLUMNS - 1) / MAMBA_COLUMNS;
    float *states = states_of_layer(s, index) + state_past(m);
    for (int task; (task = team_next_task(team)) < c->value_heads * blocks;) {
        int64_t h = task / blocks;
        int64_t first = (int64_t)(task % blocks) * MAMBA_COLUMNS;
        int64_t group = h / (c->value_heads / c->key_heads) * c->key_dim;
        const float *b = s->inputs + 2 * width + group;
        const MambaHead head = {
            .n = n,
            .key_dim = c->key_dim,
            .stride = state_inputs(m),
            .heads = c->value_heads,
            .b = b,
            .c = b + (int64_t)c->key_heads * c->key_dim,
            .x = s->inputs + width + h * c->value_dim,
            .times = s->betas + h,
            .decays = s->decays + h,
            .skip = s->model->layers[index].kinds->mamba->skip[h],
            .state = states + h * c->key_dim * c->value_dim,
            .columns = c->value_dim,
        };
        if (first + MAMBA_COLUMNS <= head.columns) step_mamba_block(&head, first);
        else step_mamba_rest(&head, first);
    }
    team_wait(team);
}

// made (n - skipped, state_width) = rmsnorm of silu(gate) * y, part by part
static void gate_and_norm_by_team(const Team *team, States *s, const Layer *layer, int n,
                                  int skipped) {
    const ModelConfig *m = &s->model->config;
    int64_t width = state_width(m);
    int parts = m->kinds->mamba->norm_groups;
    int64_t part = width / parts;
    int count = (n - skipped) * parts;
    for (int i = team_first(team, count), end = team_end(team, count); i < end; i++) {
        int64_t row = i / parts;
        int64_t at = i % parts * part;
        float *gate = s->inputs + (row + skipped) * state_inputs(m) + at;
        swiglu(gate, gate + width, part);
        rmsnorm_fast(s->made + row * width + at, gate, layer->kinds->states->norm + at, part,
                     (float)m->norm_eps);
    }
    team_wait(team);
}

static void mix_mamba_by_team(const Team *team, Transformer *t, int index, int n_wanted) {
    const Layer *layer = &t->model->layers[index];
    States *s = t->kinds->states;
    Input input = rmsnorm_of(t, t->x, t->n, layer->attention_norm);
    take_inputs_by_team(team, s, index, &input, t->workspace);
    convolve_by_team(team, s, index, t->n, state_width(&t->model->config));
    take_times_by_team(team, s, layer, t->n);
    step_mamba_by_team(team, s, index, t->n);
    gate_and_norm_by_team(team, s, layer, t->n, t->n - n_wanted);
    if (n_wanted > 0) add_made_by_team(team, t, index, n_wanted);
}

// Its memory is shared by all layers with a state.
const FastKind fast_mamba = {
    .of = &mamba_kind,
    .mix_by_team = mix_mamba_by_team,
};
