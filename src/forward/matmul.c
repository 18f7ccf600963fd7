// How the products are shaped. Few vectors (decode): each thread reads its share of the rows once, front to back, and
// multiplies them as they come; memory is the limit. Many vectors (prefill): 64 rows of weights are unpacked into a
// panel, transposed so that a SIMD register holds the same column of neighbouring rows; a tile of 6 vectors x 64 rows
// is kept in registers while a block of columns goes by, so each loaded value is used 6 or 64 times and arithmetic is
// the limit.
#include "matmul.h"

#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/matrix_units.h"
#include "product.h"

// Ways to multiply: what the weights are, and the functions for few vectors (in place) and for many (panels).
typedef struct {
    int value_bytes;       // of an activation, see product.h
    int offset;            // that weights are stored with when they are multiplied, see product.h
    int scales_per_group;  // of 64 weights; 0: activations stay float32 instead of being rounded to int8
    MultiplyRows *in_place, *panel;
} Way;

enum { FLOAT_WAY, Q8_WAY, Q4_WAY };

static const Way ways[] = {
    [FLOAT_WAY] = {0, 0, 0, multiply_float_rows, multiply_float_panel},  // any, widened
    [Q8_WAY] = {Q8_DOT == PAIRS ? 2 : 1, INT8_OFFSET, 1, multiply_q8_rows, multiply_q8_panel},
    [Q4_WAY] = {Q4_DOT == PAIRS ? 2 : 1, Q4_OFFSET, 2, multiply_q4_rows, multiply_q4_panel},
};

static const Way *way_of(const Matrix *m) {
    bool q8 = m->type == WEIGHT_Q8 && m->group_size == Q8_GROUP && !m->groups_cross_rows;
    return &ways[m->type == WEIGHT_Q4 ? Q4_WAY : q8 ? Q8_WAY : FLOAT_WAY];
}

// The way of a set of products: where matrices are stored in several ways, all are widened.
static const Way *common_way(const Product *products, int n) {
    const Way *way = way_of(products[0].matrix);
    bool alike = true;
    for (const Product *p = products; p < products + n; p++)
        alike = alike && way_of(p->matrix) == way && (!p->gate || way_of(p->gate) == way);
    return alike ? way : &ways[FLOAT_WAY];
}

struct Workspace {
    int64_t max_n;
    bool units;           // there are matrix units
    Vectors *of_threads;  // (n_threads), VECTORS_IN_PLACE of them: each thread makes its own, cheaper than to wait
    Vectors of_team;      // max_n of them
    float *sums;          // (n_threads, 2, max_n, PANEL_ROWS)
    uint8_t *panels;      // (n_threads, PANEL_BYTES)
};

static Vectors lay_out_vectors(Arena *arena, int64_t n, int64_t cols, int corrections, int value_bytes) {
    const int64_t groups = n * groups_of(cols);
    void *values = arena_take(arena, groups, Q8_GROUP * value_bytes);
    return (Vectors){
        .values = values,
        .parts = values,
        .scales = arena_take(arena, 2 * groups + LANES, sizeof(float)),  // LANES at a time are loaded
        .corrections = arena_take(arena, corrections * groups, sizeof(int32_t)),
        .normed = arena_take(arena, n * cols, sizeof(float)),
    };
}

Workspace *workspace_lay_out(Arena *arena, int64_t max_n, int64_t max_cols, int n_threads) {
    const int value_bytes = Q8_DOT == PAIRS ? 2 : 1;
    Workspace *at = arena_take(arena, 1, sizeof *at), w = {.max_n = whole_units(max_n)};
    w.units = matrix_units_allowed();
    w.of_team = lay_out_vectors(arena, w.max_n, max_cols, 2, w.units ? 2 * MAX_PARTS : value_bytes);
    w.sums = arena_take(arena, 2 * n_threads * w.max_n, PANEL_ROWS * sizeof(float));
    w.panels = arena_take(arena, n_threads, PANEL_BYTES);
    w.of_threads = arena_take(arena, n_threads, sizeof *w.of_threads);
    for (int i = 0; i < n_threads; i++) {
        Vectors vectors = lay_out_vectors(arena, VECTORS_IN_PLACE, max_cols, STARTS, value_bytes);
        if (w.of_threads) w.of_threads[i] = vectors;
    }
    if (at) *at = w;
    return at;
}

// Vector t, which is x, as int8 in groups of 64, and the corrections for weights that are stored with this offset.
static void round_vector(const float *x, int offset, Vectors *v, int64_t t) {
    const bool in_place = v->n <= VECTORS_IN_PLACE;
    const int n_scales = v->scales_per_group;
    for (int64_t g = 0; g < v->groups; g++) {
        int64_t left = v->cols - g * Q8_GROUP, n = left < Q8_GROUP ? left : Q8_GROUP, at = t * v->groups + g;
        int8_t values[Q8_GROUP] = {0}, *out = v->values + at * Q8_GROUP * v->value_bytes;
        float scale = f32_to_i8(values, x + g * Q8_GROUP, n) * (v->value_bytes == 1 ? 1 : 1.0f / PAIRS_UNIT);
        if (!in_place) v->scales[g * v->n + t] = scale;
        else memset(v->corrections + at * STARTS, 0, STARTS * sizeof *v->corrections);
        for (int64_t i = 0; i < n_scales; i++) {
            const int64_t columns = Q8_GROUP / n_scales;
            int32_t sum = offset ? sum_i8(values + i * columns, columns) : 0;
            v->corrections[in_place ? at * STARTS + i * (STARTS / 2) : (g * n_scales + i) * v->n + t] = -offset * sum;
            if (in_place) v->scales[at * n_scales + i] = scale;
        }
        if (v->value_bytes == 1) memcpy(out, values, sizeof values);
        else
            for (int i = 0; i < Q8_GROUP / (2 * LANES); i++) store(out + 4 * LANES * i, (vf)load_pairs_of_x(values, i));
    }
}

static void prepare_vector(const Input *input, const Way *way, Vectors *v, int64_t t) {
    const float *x = input->x + t * v->cols;
    if (input->norm) {
        rmsnorm(v->normed + t * v->cols, x, input->norm, v->cols, input->eps);
        x = v->normed + t * v->cols;
    }
    if (way->scales_per_group > 0) round_vector(x, way->offset, v, t);
    else if (v->by_units) split_row(v->parts, MAX_PARTS, t, whole_units(v->n), x, v->cols);
}

// The input's vectors as the matrix takes them: few are made by every thread for itself, many by the team together.
static Vectors prepare_by_team(const Team *team, const Input *input, int64_t cols, const Way *way,
                               const Workspace *ws) {
    const bool in_place = input->n <= VECTORS_IN_PLACE;
    Vectors v = in_place ? ws->of_threads[team->number] : ws->of_team;
    v.panel = ws->panels + team->number * PANEL_BYTES;
    v.n = input->n;
    v.cols = cols;
    v.groups = groups_of(cols);
    v.x = input->norm ? v.normed : input->x;
    v.by_units = ws->units && v.n >= UNIT_ROWS && cols % UNIT == 0;
    v.value_bytes = way->value_bytes;
    v.scales_per_group = way->scales_per_group;
    int first = 0, end = input->n;
    if (!in_place) team_share(team, input->n, &first, &end);
    for (int t = first; t < end; t++) prepare_vector(input, way, &v, t);
    if (!in_place) team_wait(team);
    return v;
}

// One piece of work: rows [row, row + n_rows) of a product, whose sums (n, width) come from `multiply`.
static void multiply_piece(const Product *p, int64_t row, MultiplyRows *multiply, int width, const Vectors *v,
                           float *sums) {
    int64_t left = p->matrix->rows - row, n_rows = left < width ? left : width;
    float *gates = sums + whole_units(v->n) * width;  // units write whole ones
    if (p->gate) multiply(p->gate, row, n_rows, v, gates);
    for (int64_t t = 0; t < v->n; t++)  // where the result goes comes into the cache meanwhile
        for (int64_t r = 0; r < n_rows; r += 16) __builtin_prefetch(p->out + t * p->stride + row + r, 1);
    multiply(p->matrix, row, n_rows, v, sums);
    for (int64_t t = 0; t < v->n; t++) {
        float *out = p->out + t * p->stride + row, *result = sums + t * width;
        if (p->gate) {
            swiglu(gates + t * width, result, n_rows);
            result = gates + t * width;
        }
        for (int64_t r = 0; p->bias && r < n_rows; r++) result[r] += p->bias[row + r];
        if (p->add)
            for (int64_t r = 0; r < n_rows; r++) out[r] += result[r];
        else memcpy(out, result, n_rows * sizeof *out);
    }
}

static int pieces_of(const Product *p, int width) { return (p->matrix->rows + width - 1) / width; }

void matmul_by_team(const Team *team, const Product *products, int n_products, const Input *input, Workspace *ws) {
    const Way *way = common_way(products, n_products);
    const bool in_place = input->n <= VECTORS_IN_PLACE;
    const int width = in_place ? ROWS_IN_PLACE : PANEL_ROWS;
    Vectors vectors = prepare_by_team(team, input, products[0].matrix->cols, way, ws);
    MultiplyRows *multiply = in_place ? way->in_place : way->panel;
    float *sums = ws->sums + team->number * 2 * ws->max_n * PANEL_ROWS;
    int piece, end, pieces = 0;
    for (int p = 0; p < n_products; p++) pieces += pieces_of(&products[p], width);
    team_share(team, pieces, &piece, &end);  // few vectors: neighbours, so that a thread reads one stretch of memory
    if (!in_place) piece = team_next_task(team);  // panels go to who is free
    for (; piece < (in_place ? end : pieces); piece = in_place ? piece + 1 : team_next_task(team)) {
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
