// Copies of a model with other weights, some hundred rows of a matrix at a time, on all threads.
#define _POSIX_C_SOURCE 200809L
#include "quantize.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"
#include "matmul.h"
#include "process.h"

enum { ROWS_AT_A_TIME = 256, ALIGNMENT = 64 };

// The new file. After an error, the writer writes no more bytes, and *err has the reason.
typedef struct {
    FILE *file;
    const char *path;  // its final name
    Model copy;        // the model with the new header
    QuantizeError *errors;
    Error *err;
    bool good;
    size_t offset;
} Writer;

// Writes data at the next multiple of `alignment`.
static void put_bytes(Writer *w, const void *data, size_t n, size_t alignment) {
    static const uint8_t zeros[ALIGNMENT];
    size_t gap = (alignment - w->offset % alignment) % alignment;
    if (w->good && interrupted)
        w->good = fail(w->err, "%s: interrupted; no file was written", w->path);
    if (w->good && (fwrite(zeros, 1, gap, w->file) != gap || fwrite(data, 1, n, w->file) != n))
        w->good = fail(w->err, "%s: cannot write (%s)", w->path, strerror(errno));
    w->offset += gap + n;
}

static float q4_value(float x, float scale) { return rintf(fminf(fmaxf(x / scale, -8), 7)); }

// The float16 scale, of 13 around the one that puts the largest value at -8, with the least squared
// error; 0 for zeros.
static float best_q4_scale(const float x[Q4_GROUP]) {
    float extreme = 0;
    float least = INFINITY;
    float best = 0;
    for (int i = 0; i < Q4_GROUP; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    for (int step = -6; step <= 6 && extreme != 0; step++) {
        float scale = extreme / (-8 + 0.15f * (float)step);
        float error = 0;
        uint16_t half;
        numbers_from_f32(&half, NUMBER_F16, &scale, 1);
        numbers_to_f32(&scale, &half, NUMBER_F16, 1);
        for (int i = 0; i < Q4_GROUP; i++) {
            float difference = x[i] - scale * q4_value(x[i], scale);
            error += difference * difference;
        }
        if (error < least) best = scale;
        least = fminf(least, error);
    }
    return best;
}

// docs/format.md has the layout. x has room for its last pack to be filled up with zeros.
static void row_to_q4(float *x, int64_t cols, uint8_t *packs, uint16_t *scales) {
    int64_t n_groups = 2 * groups_of(cols);
    for (int64_t i = cols; i < n_groups * Q4_GROUP; i++) x[i] = 0;
    for (int64_t g = 0; g < n_groups; g++) {
        const float *group = x + g * Q4_GROUP;
        const float scale = best_q4_scale(group);
        uint8_t *pack = packs + g / 2 * (Q4_PACK / 2);
        numbers_from_f32(&scales[g], NUMBER_F16, &scale, 1);
        for (int i = 0; i < Q4_GROUP; i++) {
            int value = scale != 0 ? (int)q4_value(group[i], scale) + 8 : 8;
            pack[i] = (uint8_t)(g % 2 ? pack[i] | value << 4 : value);
        }
    }
}

static QuantizeError both(QuantizeError a, QuantizeError b) {
    return (QuantizeError){fmax(a.worst, b.worst), a.sum + b.sum, a.weights + b.weights,
                           a.count + b.count};
}

static void put_row(const Matrix *to, int64_t i, float *x) {
    int8_t *values = (int8_t *)to->data + i * matrix_row_bytes(to);
    void *scales = (void *)group_scales(to, i, 0);
    float *each = scales;
    int64_t cols = to->cols;
    if (to->type == WEIGHT_F32) memcpy(values, x, cols * sizeof *x);
    else if (to->type == WEIGHT_F16) numbers_from_f32(values, NUMBER_F16, x, cols);
    else if (to->type == WEIGHT_Q4) row_to_q4(x, cols, (uint8_t *)values, scales);
    else
        for (int64_t at = 0; at < cols; at += Q8_GROUP)
            *each++ = numbers_from_f32(values + at, NUMBER_I8, x + at,
                                       cols - at < Q8_GROUP ? cols - at : Q8_GROUP);
}

// Rows that have the type already keep their bytes: rounded once more, those of q4 would change.
static bool is_same_type(const Matrix *from, const Matrix *to) {
    if (from->type != to->type) return false;
    return from->type != WEIGHT_Q8 ||
           (from->group_size == to->group_size && !from->groups_cross_rows);
}

static void copy_row(const Matrix *from, int64_t row, const Matrix *to, int64_t i) {
    int64_t values = matrix_row_bytes(to);
    int64_t scales = matrix_scale_bytes(to) / to->rows;
    memcpy((uint8_t *)to->data + i * values, (const uint8_t *)from->data + row * values, values);
    if (scales) memcpy((uint8_t *)group_scales(to, i, 0), group_scales(from, row, 0), scales);
}

// Writes rows to `to`, reads them back and compares. `floats` has room for each row twice, in whole
// groups of 64.
static void quantize_rows(const Matrix *from, int64_t row, const Matrix *to, float *floats,
                          QuantizeError *errors) {
    int64_t cols = from->cols;
    int64_t stride = groups_of(cols) * Q8_GROUP;
#pragma omp parallel for
    for (int64_t i = 0; i < to->rows; i++) {
        float *before = floats + 2 * i * stride;
        float *after = before + stride;
        matrix_row(from, row + i, 0, cols, before);
        if (is_same_type(from, to)) copy_row(from, row + i, to, i);
        else put_row(to, i, before);
        matrix_row(to, i, 0, cols, after);
        errors[i] = (QuantizeError){0};
        for (int64_t j = 0; j < cols; j++) {
            double difference = fabs((double)before[j] - (double)after[j]);
            errors[i] = both(errors[i],
                             (QuantizeError){difference, difference, fabs((double)before[j]), 1});
        }
    }
}

// All values go first, then all scales. The order of sums does not depend on the number of threads.
static void put_matrix(Writer *w, const Matrix *m, QuantizeError *sum) {
    const ModelConfig *c = &w->copy.config;
    Matrix to = {
        .type = c->weight_type, .rows = m->rows, .cols = m->cols, .group_size = c->group_size};
    uint64_t value_bytes = matrix_row_bytes(&to);
    uint64_t scale_bytes = matrix_scale_bytes(&to);
    uint64_t n_floats = 2 * ROWS_AT_A_TIME * groups_of(m->cols) * Q8_GROUP;
    uint64_t n_values = ROWS_AT_A_TIME * value_bytes;
    QuantizeError errors[ROWS_AT_A_TIME];
    float *floats = alloc_array(n_floats * sizeof(float) + n_values + scale_bytes, 1,
                                "rows to quantize", w->err);
    w->good = floats;
    if (!floats) return;
    uint8_t *values = (uint8_t *)(floats + n_floats);
    uint8_t *scales = values + n_values;
    for (int64_t row = 0; row < m->rows && w->good; row += ROWS_AT_A_TIME) {
        to.rows = m->rows - row < ROWS_AT_A_TIME ? m->rows - row : ROWS_AT_A_TIME;
        to.data = values;
        to.scales = scales + scale_bytes / m->rows * row;
        quantize_rows(m, row, &to, floats, errors);
        for (int i = 0; i < to.rows; i++) *sum = both(*sum, errors[i]);
        put_bytes(w, values, to.rows * value_bytes, ALIGNMENT);
    }
    if (w->good && isinf(sum->worst))
        w->good = fail(w->err, "%s: a weight is too large for %s (above 65504)", w->path,
                       block_types[to.type].name);
    if (scale_bytes) put_bytes(w, scales, scale_bytes, ALIGNMENT);
    free(floats);
}

static void put_tensor(void *writer, const Tensor *t) {
    Writer *w = writer;
    if (!w->good) return;
    if (t->kind != FLOATS) put_matrix(w, t->member, &w->errors[t->kind]);
    else put_bytes(w, *(const float **)t->member, t->rows * t->cols * sizeof(float), ALIGNMENT);
}

static bool is_zero(const uint8_t *p, int from, int to) {
    while (from < to && p[from] == 0) from++;
    return from == to;
}

// Writes the header of a copy: of version 3, or of 4 to 6 when its fields need these. Returns
// its bytes.
static int write_header(Model copy, uint8_t out[HEADER_BYTES]) {
    FieldTable tables[MAX_TABLES];
    int n = model_fields(&copy, tables);
    int rotary_dim = settings_rotary_dim(&copy.rope);
    copy.config.rotary_dim = rotary_dim == copy.config.head_dim ? 0 : rotary_dim;
    copy.config.magic = MAGIC;
    memset(out, 0, HEADER_BYTES);
    int needed = fields_write(tables, n, out);
    if (!is_zero(out, V5_BYTES, HEADER_BYTES)) needed = 6;
    if (needed < 5 && !is_zero(out, V4_BYTES, V5_BYTES)) needed = 5;
    if (needed < 4 && !is_zero(out, V3_FIELDS, V4_BYTES)) needed = 4;
    out[4] = (uint8_t)needed;
    return needed == 6 ? HEADER_BYTES : needed == 5 ? V5_BYTES : V4_BYTES;
}

bool model_quantize(const Model *m, WeightType type, const char *out_path,
                    QuantizeError errors[N_MATRIX_KINDS], Error *err) {
    char temporary[PATH_MAX + 32];  // if it is cut, it is too long to be opened
    uint8_t header[HEADER_BYTES];
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", out_path, (long)getpid());
    Writer w = {fopen(temporary, "wbx"), out_path, *m, errors, err, true, 0};
    const RopeConfig *rope = &w.copy.rope;
    ModelConfig *c = &w.copy.config;
    if (!w.file) return fail(err, "%s: cannot create (%s)", out_path, strerror(errno));
    memset(errors, 0, N_MATRIX_KINDS * sizeof *errors);
    c->version = 3;
    c->weight_type = type;
    c->group_size = type == WEIGHT_Q4 ? Q4_GROUP : type == WEIGHT_Q8 ? Q8_GROUP : 0;
    c->has_types = false;
    c->n_longrope = rope->short_factors ? rope->rotary_dim / 2 : 0;
    put_bytes(&w, header, write_header(w.copy, header), 1);
    if (c->n_longrope) put_bytes(&w, rope->short_factors, c->n_longrope * sizeof(double), 1);
    if (c->n_longrope) put_bytes(&w, rope->long_factors, c->n_longrope * sizeof(double), 1);
    for (int l = 0; c->extra->layers.has_flags && l < c->n_layers; l++)
        put_bytes(&w, &m->layers[l].extra->flags, 1, 1);
    for (int l = 0; c->extra->layers.has_shapes && l < c->n_layers; l++) {
        const LayerShape *of = &m->layers[l].extra->shape;
        const int32_t shape[SHAPE_NUMBERS] = {of->n_heads, of->n_kv_heads, of->head_dim,
                                              of->hidden_dim, of->kv_layer};
        put_bytes(&w, shape, sizeof shape, 1);
    }
    model_visit(&w.copy, put_tensor, &w);
    put_bytes(&w, "", 0, ALIGNMENT);
    if (fclose(w.file) != 0 && w.good)
        w.good = fail(err, "%s: cannot write (%s)", out_path, strerror(errno));
    if (w.good && rename(temporary, out_path) != 0)
        w.good = fail(err, "%s: cannot rename to it (%s)", out_path, strerror(errno));
    if (!w.good) remove(temporary);
    return w.good;
}
