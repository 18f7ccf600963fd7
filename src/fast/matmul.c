// The loops of the products. Few vectors (decode, rows.c): each thread reads its share of the rows
// once, front to back, and multiplies them as they come. Memory is the limit. Many vectors
// (prefill, panels.c): 64 rows of weights are unpacked into a panel, transposed so that a SIMD
// register holds the same column of neighboring rows. A tile of a few vectors and many rows stays
// in registers while a block of columns goes by. So each loaded value is used many times, and
// arithmetic is the limit. This file prepares the vectors and shares out the work.
#include "matmul_private.h"

#include <stdlib.h>
#include <string.h>

#include "../kinds/all.h"
#include "kernels.h"

// The other factor of a matrix: activations rounded to int8 in groups of so many columns, or (0)
// float32.
static int group_of(const Matrix *m) {
    if (m->type == WEIGHT_Q8)
        return m->group_size == Q8_GROUP && !m->groups_cross_rows ? Q8_GROUP : 0;
    return m->type == WEIGHT_Q4 ? Q8_GROUP : is_ggml(m->type) ? PART : 0;
}

// The group of a set of products: the largest, as two groups of 32 may have one scale; 0 if a
// matrix takes float32.
int common_group(const Product *products, int n) {
    int most = PART;
    for (const Product *p = products; p < products + n; p++) {
        int group = group_of(p->matrix);
        int gate = p->gate ? group_of(p->gate) : group;
        if (group == 0 || gate == 0) return 0;
        if (group == Q8_GROUP || gate == Q8_GROUP) most = Q8_GROUP;
    }
    return most;
}

Vectors lay_out_vectors(Arena *arena, int64_t n, int64_t cols, int64_t n_in_place) {
    int64_t blocks = n * super_blocks_of(cols);
    Rounded *rounded = arena_take(arena, blocks, sizeof *rounded);
    int64_t lanes = n_in_place * super_blocks_of(cols);
    InLanes *in_lanes = lanes ? arena_take(arena, lanes, sizeof *in_lanes) : NULL;
    float *normed = arena_take(arena, n * cols, sizeof(float));
    return (Vectors){.rounded = rounded, .in_lanes = in_lanes, .normed = normed};
}

Workspace *workspace_lay_out(Arena *arena, int64_t max_n, int64_t max_cols, int n_threads,
                             bool floats) {
    Workspace *at = arena_take(arena, 1, sizeof *at);
    Workspace w = {.max_n = max_n, .floats = floats};
    w.of_team = lay_out_vectors(arena, max_n, max_cols, 0);
    w.sums = arena_take(arena, 2 * n_threads * max_n, PANEL_ROWS * sizeof(float));
    w.panels = arena_take(arena, n_threads, PANEL_BYTES);
    w.of_threads = arena_take(arena, n_threads, sizeof *w.of_threads);
    for (int i = 0; i < n_threads; i++) {
        Vectors vectors = lay_out_vectors(arena, VECTORS_IN_PLACE, max_cols, VECTORS_IN_PLACE);
        if (w.of_threads) w.of_threads[i] = vectors;
    }
    if (at) *at = w;
    return at;
}

// Sums of the values, for weights with a zero or an offset. starts has them lane by lane, and
// firsts those of a lane's first two, if SUMS_OF_PAIRS uses them.
static void sum_up(Rounded *out, const int32_t *starts, const int32_t *firsts) {
    for (int h = 0; h < 2 * PARTS; h++) {
        const int32_t *s = starts + 4 * h;
        const int32_t sum = s[0] + s[1] + s[2] + s[3];
        const int32_t start = sum / (IN_PAIRS ? PAIRS_UNIT : 1);
        out->half_starts[h] = start;
        out->half_sums[h] = -out->scales[h / 2] * (float)start;
        if (!SUMS_OF_PAIRS) continue;
        const int32_t *f = firsts + 4 * h;
        const int32_t first = f[0] + f[1] + f[2] + f[3];
        out->half_pairs[h][0] = (int16_t)first;
        out->half_pairs[h][1] = (int16_t)(start - first);
    }
    for (int p = 0; p < PARTS; p++) {
        const int32_t *halves = out->half_starts + 2 * p;
        const int32_t start = halves[0] + halves[1];
        out->part_starts[p] = start;
        out->sums[p] = -out->scales[p] * (float)start;
        for (int i = 0; i < 2 && SUMS_OF_PAIRS; i++)
            out->part_pairs[p][i] =
                (int16_t)(out->half_pairs[2 * p][i] + out->half_pairs[2 * p + 1][i]);
    }
}

// The further numbers for few vectors, from in_lanes->starts and the rounded vector.
static void fill_lanes(const Rounded *rounded, InLanes *in_lanes) {
    for (int h = 0; h < 2 * PARTS; h++) {
        in_lanes->half_scales[h] = rounded->scales[h / 2];
        in_lanes->half_shorts[h] = (int16_t)rounded->half_starts[h];
        for (int i = 0; i < 2 && SUMS_OF_PAIRS; i++)
            in_lanes->q6_starts[h][i] = (int16_t)(32 * rounded->half_pairs[h][i]);
    }
    for (int g = 0; g < PARTS / 2; g++) in_lanes->group_scales[g] = rounded->scales[2 * g];
    // A product multiplies the numbers there with 0.
    memset(in_lanes->behind, 0, sizeof in_lanes->behind);
}

// Rounds n columns of a vector, at most a super-block, in groups with a scale each. in_lanes may be
// NULL.
static void round_columns(const float *x, int64_t n, int group, Rounded *out, InLanes *in_lanes) {
    const int8_t *values = IN_PAIRS ? out->values + SUPER_BLOCK : out->values;
    int32_t memory[SUPER_BLOCK / 4], firsts[SUPER_BLOCK / 4];
    int32_t *starts = in_lanes ? in_lanes->starts : memory;
    memset(out->values, 0, SUPER_BLOCK);
    for (int first = 0; first < SUPER_BLOCK; first += group) {
        int64_t left = n - first;
        int64_t count = left < group ? left : group;
        float scale = 0;
        if (left > 0) scale = numbers_from_f32(out->values + first, NUMBER_I8, x + first, count);
        int end = (first + group) / PART;
        for (int p = first / PART; p < end; p++) out->scales[p] = scale;
    }
    for (int i = 0; HAS_PAIRS && i < SUPER_BLOCK / (2 * LANES); i++)
        store(out->values + SUPER_BLOCK + 4 * LANES * i, (vf)load_pairs_of_x(out->values, i));
    for (int i = 0; i < REGISTERS; i++) {
        const int8_t *at = values + i * REGISTER * (IN_PAIRS ? 2 : 1);
        const vb ones = (vb){0} + 1;
        vi sums = dot_in_place((vi){0}, ones, at, false);
        store(starts + i * LANES, (vf)-sums);
        vi four = (vi)load_bytes(at);
        if (SUMS_OF_PAIRS)
            store(firsts + i * LANES, (vf) - ((four << 24 >> 24) + (four << 16 >> 24)));
    }
    sum_up(out, starts, firsts);
    if (in_lanes) fill_lanes(out, in_lanes);
}

void prepare_vector(const Input *input, int group, Vectors *v, int64_t t) {
    int64_t row = input->rows ? input->rows[t] : t;
    const float *x = input->x + row * v->cols;
    float *normed = v->normed + t * v->cols;
    if (input->rows && !input->norm) memcpy(normed, x, v->cols * sizeof *x);
    if (input->norm) {
        if (input->centers) layernorm_fast(normed, x, input->norm, v->cols, input->eps);
        else rmsnorm_fast(normed, x, input->norm, v->cols, input->eps);
        x = normed;
    }
    if (group == 0) return;
    for (int64_t i = 0; i < super_blocks_of(v->cols); i++) {
        int64_t first = i * SUPER_BLOCK;
        int64_t left = v->cols - first;
        int64_t at = i * v->n + t;
        int64_t n = left < SUPER_BLOCK ? left : SUPER_BLOCK;
        InLanes *in_lanes = v->in_lanes ? &v->in_lanes[at] : NULL;
        round_columns(x + first, n, group, &v->rounded[at], in_lanes);
    }
}

// The input's vectors as the matrix takes them. Few are prepared by every thread for itself, many
// by the team together.
static Vectors prepare_by_team(const Team *team, const Input *input, int64_t cols, int group,
                               const Workspace *ws) {
    bool in_place = input->n <= VECTORS_IN_PLACE;
    Vectors v = in_place ? ws->of_threads[team->number] : ws->of_team;
    v.panel = ws->panels + team->number * PANEL_BYTES;
    v.n = input->n;
    v.cols = cols;
    v.x = input->norm ? v.normed : input->x;
    int n = input->n;
    int first = in_place ? 0 : team_first(team, n);
    int end = in_place ? n : team_end(team, n);
    for (int t = first; t < end; t++) prepare_vector(input, group, &v, t);
    if (!in_place) team_wait(team);
    return v;
}

// The address in `out` of row `row` of a product with vector t.
static float *place_in_out(const Product *p, int64_t t, int64_t row) {
    int64_t to = p->to ? p->to[t] : t;
    return p->out + to * p->stride + row;
}

// gates (n) = activation(gates) * x (n)
static void gate_by(int activation, float *gates, const float *x, int64_t n) {
    if (activation == ACTIVATION_CLAMPED) clamped_glu(gates, x, n);
    else if (activation == ACTIVATION_GELU) geglu(gates, x, n);
    else swiglu(gates, x, n);
}

void multiply_piece(const Product *p, int64_t row, MultiplyRows *multiply, int width,
                    const Vectors *v, float *sums) {
    int64_t left = p->matrix->rows - row;
    int64_t n_rows = left < width ? left : width;
    float *gates = sums + v->n * width;
    if (p->gate) multiply(p->gate, row, n_rows, v, gates);
    for (int64_t t = 0; t < v->n; t++) {  // brings the output into the cache for the sums below
        const float *out = place_in_out(p, t, row);
        for (int64_t r = 0; r < n_rows; r += 16) __builtin_prefetch(out + r, 1);
    }
    multiply(p->matrix, row, n_rows, v, sums);
    for (int64_t t = 0; t < v->n; t++) {
        float *out = place_in_out(p, t, row);
        float *result = sums + t * width;
        if (p->input_factors) scale_by(result, p->input_factors[t], n_rows);
        if (p->bias) add_to(result, p->bias + row, n_rows);
        if (p->gate) {
            float *gate = gates + t * width;
            if (p->input_factors) scale_by(gate, p->input_factors[t], n_rows);
            if (p->gate_bias) add_to(gate, p->gate_bias + row, n_rows);
            gate_by(p->activation, gate, result, n_rows);
            result = gate;
        }
        if (p->activation == ACTIVATION_RELU2) relu2_all(result, n_rows);
        if (p->activation == ACTIVATION_XIELU) xielu_all(result, p->xielu, n_rows);
        if (p->factors) scale_by(result, p->factors[t], n_rows);
        if (p->add) add_to(out, result, n_rows);
        else memcpy(out, result, n_rows * sizeof *out);
    }
}

static int pieces_of(const Product *p, int width) { return (p->matrix->rows + width - 1) / width; }

void matmul_by_team(const Team *team, const Product *products, int n_products, const Input *input,
                    Workspace *ws) {
    int group = ws->floats ? 0 : common_group(products, n_products);
    bool in_place = input->n <= VECTORS_IN_PLACE;
    int width = in_place ? ROWS_IN_PLACE : PANEL_ROWS;
    Vectors vectors = prepare_by_team(team, input, products[0].matrix->cols, group, ws);
    MultiplyRows *of_rows = group ? multiply_int8_rows : multiply_float_rows;
    MultiplyRows *of_panels = group ? multiply_int8_panel : multiply_float_panel;
    MultiplyRows *multiply = in_place ? of_rows : of_panels;
    float *sums = ws->sums + team->number * 2 * ws->max_n * PANEL_ROWS;
    int pieces = 0;
    for (int p = 0; p < n_products; p++) pieces += pieces_of(&products[p], width);
    int end = in_place ? team_end(team, pieces) : pieces;
    // With few vectors a thread's rows are neighbors, one stretch of memory. Panels go to the
    // thread that is free.
    int piece = in_place ? team_first(team, pieces) : team_next_task(team);
    for (; piece < end; piece = in_place ? piece + 1 : team_next_task(team)) {
        const Product *p = products;
        int in_product = piece;
        while (in_product >= pieces_of(p, width)) {
            in_product -= pieces_of(p, width);
            p++;
        }
        multiply_piece(p, (int64_t)in_product * width, multiply, width, &vectors, sums);
    }
    team_wait(team);
}
