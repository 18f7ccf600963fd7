// The row of --check that looks for mistakes of converters: does the model read better with one?
// Then it was converted with its opposite. Most are about pairs: our files have the two elements of
// a pair side by side, Hugging Face's have them half of the rotary dimensions apart. So a converter
// moves rows of wq and wk. It may forget that, do it where it is done, do it to one of them alone,
// or within too many rows.
#include "check_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kinds/experts.h"
#include "../kinds/latent.h"

enum {
    MISTAKE_TOKENS = 128,  // of a text that is read with each mistake, at most
    MISTAKE_SAMPLE = 4,    // tokens of a sample: a mistake changes much
};
// The reference's perplexity, in shares of that with one.
static const Limits mistake_limits = {1.02, 1.02};

// The tensors that a mistake changes.
enum {
    QUERIES = 1,
    KEYS = 2,
    BOTH = QUERIES | KEYS,
    ONE_MORE = 4,  // the weights of norms
    ONE_LESS = 8,
    THETAS = 16,  // of full and of sliding layers, which change places
    GATES = 32,   // and their other factor, likewise
};
// The order of a head's rows: as in Hugging Face, or in pairs over those that turn, over half the
// head, or over all of it.
typedef enum { ROWS_IN_HALVES, ROWS_IN_PAIRS, PAIRS_OVER_HALF, PAIRS_OVER_ALL } RowOrder;

enum { N_MISTAKES = 12 };
_Static_assert((int)N_MISTAKES <= (int)MOST_OTHERS, "a row has room for them");
typedef struct {
    unsigned changes;
    RowOrder from, to;
} Mistake;
static const Mistake mistakes[N_MISTAKES] = {
    {BOTH, ROWS_IN_HALVES, ROWS_IN_PAIRS},
    {BOTH, ROWS_IN_PAIRS, ROWS_IN_HALVES},
    {QUERIES, ROWS_IN_HALVES, ROWS_IN_PAIRS},
    {QUERIES, ROWS_IN_PAIRS, ROWS_IN_HALVES},
    {KEYS, ROWS_IN_HALVES, ROWS_IN_PAIRS},
    {KEYS, ROWS_IN_PAIRS, ROWS_IN_HALVES},
    {BOTH, ROWS_IN_PAIRS, PAIRS_OVER_HALF},
    {BOTH, ROWS_IN_PAIRS, PAIRS_OVER_ALL},
    {.changes = ONE_MORE},
    {.changes = ONE_LESS},
    {.changes = THETAS},
    {.changes = GATES},
};
// In words that follow "read with".
static const char *const mistake_words[N_MISTAKES] = {
    "the halves of q and k as pairs",
    "the pairs of q and k as halves",
    "the halves of q as pairs",
    "the pairs of q as halves",
    "the halves of k as pairs",
    "the pairs of k as halves",
    "half of each head turning",
    "all of each head turning",
    "1 + w for the weights w of norms",
    "w - 1 for the weights w of norms",
    "theta of full and sliding layers exchanged",
    "w1 and w3, gate and up, exchanged",
};

// ---- which apply ----

// No converter takes a part that is smaller than half for all.
static bool can_turn_over(RowOrder to, const RopeConfig *rope, int64_t head_dim) {
    if (rope_methods[rope->method].flags & ROPE_USES_LISTS) return false;
    if (to == PAIRS_OVER_ALL) return rope->rotary_dim != head_dim;
    return rope->rotary_dim == head_dim && head_dim % 4 == 0;
}

// Whether rows of wq and wk can be moved together with their scales, and without other rows.
static bool has_movable_rows(const Model *model) {
    const Matrix *wq = &model->layers[0].wq;
    bool good = model_encoding(model) == ENCODING_ROPE;
    // Multi-head latent attention has its turning rows elsewhere.
    good = good && !has_latent_attention(model);
    good = good && !(wq->groups_cross_rows && wq->cols % wq->group_size != 0);
    for (int l = 0; l < model->config.n_layers; l++)
        good = good && !(model->layers[l].extra->flags & LAYER_KEYS_ARE_VALUES);
    return good;
}

static bool has_gates(const Model *model) {
    GatePair pairs[MOST_GATE_PAIRS];
    for (int l = 0; l < model->config.n_layers; l++)
        for (int i = 0, n = gate_pairs(&model->layers[l], pairs); i < n; i++)
            if (pairs[i].w3->data) return true;
    return false;
}

// Whether a model that turns by this plan can have it.
static bool mistake_applies(const Mistake *mistake, const Model *model, const RopePlan *plan) {
    const ModelConfig *m = &model->config;
    const unsigned what = mistake->changes;
    const RowOrder to = mistake->to;
    if (what & (ONE_MORE | ONE_LESS)) return true;
    if (what == GATES) return has_gates(model);
    if (what == THETAS)
        return m->extra->layers.sliding_rope && plan->rope.theta != plan->sliding.theta;
    if (!has_movable_rows(model)) return false;
    if (to != PAIRS_OVER_HALF && to != PAIRS_OVER_ALL) return true;
    return !m->extra->layers.has_shapes && !m->extra->layers.sliding_rope &&
           can_turn_over(to, &plan->rope, m->head_dim);
}

// ---- the copy ----

// The place in pairs over d rows of a head's element e, as in Hugging Face.
static int64_t row_of(int64_t e, int64_t d) {
    if (e >= d) return e;
    return e < d / 2 ? 2 * e : 2 * (e - d / 2) + 1;
}

static int64_t rows_in_pairs(RowOrder order, int64_t rotary_dim, int64_t head_dim) {
    const int64_t rows[] = {0, rotary_dim, head_dim / 2, head_dim};
    return rows[order];
}

// A layer's rows that move: of a matrix, its biases, and the weights of the norm after it.
typedef struct {
    Arena *arena;  // which only counts in a first pass
    RowOrder from, to;
    int64_t rotary_dim, head_dim;
} Move;

static void move_rows(const Move *move, int64_t rows, const void *from, void *to, int64_t bytes) {
    const int64_t size = move->head_dim;
    const int64_t before = rows_in_pairs(move->from, move->rotary_dim, size);
    const int64_t after = rows_in_pairs(move->to, move->rotary_dim, size);
    for (int64_t row = 0; row < rows; row++) {
        int64_t head = row / size * size;
        int64_t source = head + row_of(row - head, before);
        int64_t place = head + row_of(row - head, after);
        memcpy((uint8_t *)to + place * bytes, (const uint8_t *)from + source * bytes,
               (size_t)bytes);
    }
}

static void move_floats(const Move *move, int64_t n, const float **floats) {
    if (!*floats) return;
    float *moved = arena_take(move->arena, (uint64_t)n, sizeof *moved);
    if (!moved) return;
    move_rows(move, n, *floats, moved, sizeof *moved);
    *floats = moved;
}

static void move_matrix(const Move *move, Matrix *m) {
    if (!m->data) return;  // the layer reads another one's keys
    const int64_t row_bytes = matrix_row_bytes(m);
    const int64_t scale_bytes = matrix_scale_bytes(m) / m->rows;
    const uint64_t rows_apart = m->packed ? (uint64_t)m->rows : 0;
    uint8_t *apart = arena_take(move->arena, rows_apart, (uint64_t)row_bytes);
    uint8_t *data = arena_take(move->arena, (uint64_t)m->rows, (uint64_t)row_bytes);
    uint8_t *scales = arena_take(move->arena, (uint64_t)m->rows, (uint64_t)scale_bytes);
    if (!data) return;
    for (int64_t row = 0; m->packed && row < m->rows; row++)
        matrix_blocks(m, row, 0, m->cols / block_columns(m->type), apart + row * row_bytes);
    move_rows(move, m->rows, m->packed ? apart : m->data, data, row_bytes);
    m->packed = false;
    if (scale_bytes > 0) move_rows(move, m->rows, m->scales, scales, scale_bytes);
    m->data = data;
    if (scale_bytes > 0) m->scales = scales;
}

static void change_norm(float change, Arena *arena, int64_t n, const float **norm) {
    if (!*norm) return;
    float *more = arena_take(arena, (uint64_t)n, sizeof *more);
    if (!more) return;
    for (int64_t i = 0; i < n; i++) more[i] = (*norm)[i] + change;
    *norm = more;
}

// A copy of a model with a mistake. It shares all weights that the mistake leaves alone.
typedef struct {
    Model model;
    RopePlan plan;
    Arena room;  // for the weights that change
} MistakenModel;

// Makes the mistake in all layers, with memory from the arena, which counts bytes in a first pass.
static void change_layers(const Mistake *mistake, Arena *arena, MistakenModel *to) {
    Model *model = &to->model;
    const ModelConfig *c = &model->config;
    const unsigned what = mistake->changes;
    const float change = what & ONE_MORE ? 1 : what & ONE_LESS ? -1 : 0;
    const bool is_whole = c->extra->attention.qk_norm == QK_NORM_WHOLE;
    for (int l = 0; l < c->n_layers; l++) {
        Layer *layer = &model->layers[l];
        const RopeConfig *rope = layer_rope(layer, &to->plan.rope, &to->plan.sliding);
        const int64_t head_dim = layer->extra->shape.head_dim;
        AttentionTensors *attention = &layer->extra->attention;
        const int64_t q_norm = is_whole ? layer->wq.rows : head_dim;
        const int64_t k_norm = is_whole ? layer->wk.rows : head_dim;

        const Move move = {arena, mistake->from, mistake->to, rope->rotary_dim, head_dim};
        const bool turns = !(layer->extra->flags & LAYER_NOPE);
        if (what & QUERIES && turns) {
            move_matrix(&move, &layer->wq);
            move_floats(&move, layer->wq.rows, &attention->bq);
            move_floats(&move, q_norm, &attention->q_norm);
        }
        if (what & KEYS && turns) {
            move_matrix(&move, &layer->wk);
            move_floats(&move, layer->wk.rows, &attention->bk);
            move_floats(&move, k_norm, &attention->k_norm);
        }

        if (change != 0) {
            change_norm(change, arena, c->dim, &layer->attention_norm);
            change_norm(change, arena, c->dim, &layer->extra->residual.attention_after);
            change_norm(change, arena, c->dim, &layer->ffn_norm);
            change_norm(change, arena, c->dim, &layer->extra->residual.ffn_after);
            change_norm(change, arena, q_norm, &attention->q_norm);
            change_norm(change, arena, k_norm, &attention->k_norm);
        }

        // Gates change places once, in the second pass.
        GatePair pairs[MOST_GATE_PAIRS];
        const int n_pairs = what & GATES && arena->memory ? gate_pairs(layer, pairs) : 0;
        for (const GatePair *p = pairs; p < pairs + n_pairs; p++) {
            const Matrix gate = *p->w1;
            const float *biases = *p->b1;
            if (!p->w3->data) continue;
            *p->w1 = *p->w3;
            *p->w3 = gate;
            *p->b1 = *p->b3;
            *p->b3 = biases;
        }
    }
    if (change != 0) change_norm(change, arena, c->dim, &model->final_norm);
}

// Makes the copy, which the model must outlive. Its room and its layers are freed in any case.
// False with the reason when there is no memory.
static bool mistake_make(const Mistake *mistake, const Model *model, const RopePlan *plan,
                         MistakenModel *mistaken, Error *err) {
    Arena *arena = &mistaken->room;
    RopePlan *changed = &mistaken->plan;
    *mistaken = (MistakenModel){.model = *model, .plan = *plan};
    mistaken->model.layers = layers_copied(model, err);
    if (!mistaken->model.layers) return false;
    change_layers(mistake, arena, mistaken);
    if (!arena_open(arena, "weights with a mistake", err)) return false;
    change_layers(mistake, arena, mistaken);
    if (mistake->to == PAIRS_OVER_HALF || mistake->to == PAIRS_OVER_ALL)
        changed->rope.rotary_dim = (int)rows_in_pairs(mistake->to, 0, model->config.head_dim);
    if (mistake->changes & THETAS) {
        changed->rope.theta = plan->sliding.theta;
        changed->sliding.theta = plan->rope.theta;
    }
    return true;
}

// ---- conversion: a text that is shorter than a stretch, with each mistake ----

static int mistake_tokens(const Check *c) {
    return c->window < MISTAKE_TOKENS ? c->window : MISTAKE_TOKENS;
}

static int mistakes_tokens(const Check *c, int length) {
    (void)length;
    return N_MISTAKES * mistake_tokens(c);
}

// A text that is shorter than a stretch, by the reference and with each mistake that is open: -ln p
// of its second half.
static bool read_mistakes(Check *c, Row *row, Error *err) {
    const RopePlan *plan = &c->references[c->reference_is];
    const Model *model = c->job->model;
    const int n = mistake_tokens(c);
    double right[MISTAKE_TOKENS];
    double wrong[N_MISTAKES][MISTAKE_TOKENS];
    bool is_read[N_MISTAKES];
    int32_t text[MISTAKE_TOKENS];
    const Span read = {text, n / 2, n, n};
    take_text(c, start_of(c, row->units), n, text);
    bool ok = score_anew(c, c->reference, read, right, err);
    for (int m = 0; ok && m < N_MISTAKES; m++) {
        Row one = {.samples = row->others[m], .verdict = OPEN};
        is_read[m] = mistake_applies(&mistakes[m], model, plan);
        if (is_read[m] && one.samples.n > 0) judge_ratio(&one, mistake_limits);
        is_read[m] = is_read[m] && one.verdict == OPEN;
        if (!is_read[m]) continue;
        MistakenModel other;
        ok = mistake_make(&mistakes[m], model, plan, &other, err);
        const SessionConfig config = timed_config(c, &other.plan, n);
        Session *s = ok ? session_new(&other.model, &config, err) : NULL;
        ok = s && score_anew(c, s, read, wrong[m], err);
        session_free(s);
        arena_close(&other.room);
        layers_free(other.model.layers);
    }
    for (int m = 0; ok && m < N_MISTAKES; m++)
        if (is_read[m])
            add_differences(&row->others[m], right, wrong[m], n - n / 2, MISTAKE_SAMPLE);
    return ok;
}

static void describe_mistake(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    (void)c;
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size,
             "with %s it predicts short texts better: as it is, their perplexity is %s times as "
             "high "
             "(at most %.2f). Wrongly converted?",
             mistake_words[row->other], ratio, row->limit);
}

bool mistake_tells(const Check *c, const Row *mistake) {
    const Row *known = find_row(c, &short_perplexity_row, c->window);
    return mistake->verdict == FAIL && known && known->value / mistake->value <= known->limit;
}

// A mistake that neither harms nor helps tells nothing.
const RowType conversion_row = {
    .name = "conversion",
    .tokens = mistakes_tokens,
    .read = read_mistakes,
    .limits = {1.02, 1.02},
    .n_others = N_MISTAKES,
    .ends_unknown = true,
    .describe = describe_mistake,
    .is_about_model = true,
    .is_required = true,
};
