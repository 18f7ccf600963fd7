#define _POSIX_C_SOURCE 200809L
#include "quantize.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../forward/kernels.h"

enum { ROWS_AT_A_TIME = 256 };

// Sums over a class of tensors, for its QuantizeError.
typedef struct {
    double worst, differences, weights;  // the largest |difference|, the sums of |difference| and |weight|
    double count;
} Tally;

typedef struct {
    FILE *file;
    const volatile sig_atomic_t *stop;
    size_t offset;
    bool failed;
    int reason;  // errno of the first failure
    WeightType type;
    Tally tallies[N_TENSOR_CLASSES];
} Writer;

static const char *const class_names[N_TENSOR_CLASSES] = {"embedding", "attention", "feed-forward", "classifier"};
enum { EMBEDDING, ATTENTION, FEED_FORWARD, CLASSIFIER };

static void put(Writer *w, const void *data, size_t n) {
    if (*w->stop && !w->failed) w->failed = true, w->reason = EINTR;
    if (n > 0 && !w->failed && fwrite(data, 1, n, w->file) != n) w->failed = true, w->reason = errno;
    w->offset += n;
}

static void put_padding(Writer *w) {
    static const uint8_t zeros[64];
    put(w, zeros, (64 - w->offset % 64) % 64);
}

static void set_u32(uint8_t *p, int x) {
    uint32_t bits = (uint32_t)x;
    memcpy(p, &bits, 4);
}

static void set_f64(uint8_t *p, double x) { memcpy(p, &x, 8); }

static void put_header(Writer *w, const ModelConfig *c, const RopeConfig *r) {
    uint8_t h[256] = {0};
    int n_longrope = r->short_factors ? r->head_dim / 2 : 0;
    set_u32(h, MODEL_MAGIC), set_u32(h + 4, 3), set_u32(h + 8, (int)w->type),
        set_u32(h + 12, w->type == WEIGHT_Q4 ? Q4_GROUP : Q8_GROUP);
    set_u32(h + 16, c->dim), set_u32(h + 20, c->hidden_dim), set_u32(h + 24, c->n_layers), set_u32(h + 28, c->n_heads);
    set_u32(h + 32, c->n_kv_heads), set_u32(h + 36, c->head_dim), set_u32(h + 40, c->vocab_size),
        set_u32(h + 44, c->seq_len);
    set_u32(h + 48, c->shared_classifier), set_u32(h + 52, c->sliding_window);
    // The float that runs, in the shortest decimals that give it: 1e-5f is written as 1e-5 and not as 0.00000999999974738.
    char eps[32];
    snprintf(eps, sizeof eps, "%.7g", (double)c->norm_eps);
    set_f64(h + 56, strtod(eps, NULL));
    set_u32(h + 64, c->bos_id), set_u32(h + 68, c->n_eos);
    for (int i = 0; i < c->n_eos; i++) set_u32(h + 72 + 4 * i, c->eos_ids[i]);
    set_u32(h + 104, r->method), set_u32(h + 108, r->dynamic);
    set_f64(h + 112, r->theta), set_f64(h + 120, r->factor);
    set_u32(h + 128, r->train_ctx), set_u32(h + 132, (int)r->ramp), set_u32(h + 136, r->truncate);
    set_f64(h + 144, r->beta_fast), set_f64(h + 152, r->beta_slow), set_f64(h + 160, r->attention_factor);
    set_f64(h + 168, r->mscale), set_f64(h + 176, r->mscale_all_dim);
    set_f64(h + 184, r->low_freq_factor), set_f64(h + 192, r->high_freq_factor);
    set_u32(h + 200, n_longrope);
    put(w, h, sizeof h);
    put(w, r->short_factors, (size_t)n_longrope * 8);
    put(w, r->long_factors, (size_t)n_longrope * 8);
}

static void put_vector(Writer *w, const float *x, int n) {
    put_padding(w);
    put(w, x, (size_t)n * 4);
}

// Of some scales around the one that puts the largest value at -8, the one with the least squared error. Rounded to float16, as it is stored.
static uint16_t best_q4_scale(const float x[Q4_GROUP]) {
    float extreme = 0, least = INFINITY;
    uint16_t best = 0;
    for (int i = 0; i < Q4_GROUP; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    for (int step = -6; step <= 6 && extreme != 0; step++) {
        float scale = extreme / (-8 + 0.15f * (float)step), error = 0;
        uint16_t half;
        f32_to_f16(&half, &scale, 1);
        f16_to_f32(&scale, &half, 1);
        for (int i = 0; i < Q4_GROUP; i++) {
            float difference = x[i] - scale * rintf(fminf(fmaxf(x[i] / scale, -8), 7));
            error += difference * difference;
        }
        if (error < least) least = error, best = half;
    }
    return best;
}

// Packs Q4_PACK values: byte j holds value j in its low half and value j + 32 in its high half, each round(x / scale) + 8.
static void pack_q4(const float x[Q4_PACK], uint8_t out[Q4_PACK / 2], uint16_t scales[2]) {
    memset(out, 0, Q4_PACK / 2);
    for (int half = 0; half < 2; half++) {
        const float *group = x + half * Q4_GROUP;
        float scale;
        scales[half] = best_q4_scale(group);
        f16_to_f32(&scale, &scales[half], 1);
        for (int i = 0; i < Q4_GROUP; i++) {
            int v = scale != 0 ? (int)rintf(fminf(fmaxf(group[i] / scale, -8), 7)) + 8 : 8;
            out[i] |= (uint8_t)(v << 4 * half);
        }
    }
}

// What a quantized row consists of.
typedef struct {
    size_t value_bytes, scale_bytes;
} RowSize;

static RowSize row_size(WeightType type, size_t cols) {
    size_t groups = (cols + Q8_GROUP - 1) / Q8_GROUP;  // of 64 columns in both types
    if (type == WEIGHT_Q4) return (RowSize){groups * Q4_PACK / 2, groups * 2 * sizeof(uint16_t)};
    return (RowSize){cols, groups * sizeof(float)};
}

// `x` has room for its last group of 64 to be filled up with zeros.
static void quantize_row(WeightType type, float *x, size_t cols, uint8_t *values, uint8_t *scales) {
    for (size_t g = 0; g * Q8_GROUP < cols; g++) {
        size_t first = g * Q8_GROUP, count = cols - first < Q8_GROUP ? cols - first : Q8_GROUP;
        if (type == WEIGHT_Q4) {
            for (size_t i = count; i < Q4_PACK; i++) x[first + i] = 0;
            pack_q4(x + first, values + g * (Q4_PACK / 2), (uint16_t *)(void *)scales + 2 * g);
        } else {
            ((float *)(void *)scales)[g] = f32_to_i8((int8_t *)values + first, x + first, count);
        }
    }
}

static void tally_row(Tally *t, const float *before, const float *after, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)before[i] - (double)after[i]);
        t->worst = fmax(t->worst, difference);
        t->differences += difference;
        t->weights += fabs((double)before[i]);
    }
    t->count += (double)n;
}

// Room for quantizing a matrix: some hundred rows at a time, and the scales of all rows, which follow the values in the file.
typedef struct {
    float *before, *after;  // (ROWS_AT_A_TIME, cols in whole groups)
    uint8_t *values, *scales;
    Tally *tallies;  // of the rows at hand
} Room;

static bool get_room(Room *room, const Matrix *m, RowSize size, size_t stride, Error *err) {
    return (room->before = alloc_array(ROWS_AT_A_TIME, stride * sizeof(float), "rows to quantize", err)) &&
           (room->after = alloc_array(ROWS_AT_A_TIME, stride * sizeof(float), "rows to quantize", err)) &&
           (room->values = alloc_array(ROWS_AT_A_TIME, size.value_bytes, "quantized rows", err)) &&
           (room->scales = alloc_array((size_t)m->rows, size.scale_bytes, "scales", err)) &&
           (room->tallies = alloc_array(ROWS_AT_A_TIME, sizeof(Tally), "errors of rows", err));
}

static void free_room(Room *room) {
    free(room->before);
    free(room->after);
    free(room->values);
    free(room->scales);
    free(room->tallies);
}

// Rows are quantized by all threads and written in order; so are their errors added up.
static bool put_matrix(Writer *w, const Matrix *m, int tensor_class, Error *err) {
    size_t cols = (size_t)m->cols, stride = (cols + Q8_GROUP - 1) / Q8_GROUP * Q8_GROUP;
    RowSize size = row_size(w->type, cols);
    Room room = {0};
    bool ok = get_room(&room, m, size, stride, err);
    put_padding(w);
    for (int row = 0; ok && row < m->rows && !w->failed; row += ROWS_AT_A_TIME) {
        int n = m->rows - row < ROWS_AT_A_TIME ? m->rows - row : ROWS_AT_A_TIME;
        uint8_t *scales = room.scales + (size_t)row * size.scale_bytes;
        Matrix quantized = {w->type, n, m->cols, room.values, scales, w->type == WEIGHT_Q4 ? Q4_GROUP : Q8_GROUP,
                            false};
#pragma omp parallel for
        for (int i = 0; i < n; i++) {
            float *before = room.before + (size_t)i * stride, *after = room.after + (size_t)i * stride;
            matrix_row(m, row + i, 0, m->cols, before);
            quantize_row(w->type, before, cols, room.values + (size_t)i * size.value_bytes,
                         scales + (size_t)i * size.scale_bytes);
            matrix_row(&quantized, i, 0, m->cols, after);
            room.tallies[i] = (Tally){0};
            tally_row(&room.tallies[i], before, after, cols);
        }
        Tally *sum = &w->tallies[tensor_class];
        for (int i = 0; i < n; i++) {
            sum->worst = fmax(sum->worst, room.tallies[i].worst);
            sum->differences += room.tallies[i].differences;
            sum->weights += room.tallies[i].weights;
            sum->count += room.tallies[i].count;
        }
        put(w, room.values, (size_t)n * size.value_bytes);
    }
    put_padding(w);
    if (ok) put(w, room.scales, (size_t)m->rows * size.scale_bytes);
    free_room(&room);
    return ok;
}

static bool put_model(Writer *w, const Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    put_header(w, c, &m->rope);
    if (!put_matrix(w, &m->embedding, EMBEDDING, err)) return false;
    for (int l = 0; l < c->n_layers; l++) {
        const Layer *layer = &m->layers[l];
        const Matrix *attention[] = {&layer->wq, &layer->wk, &layer->wv, &layer->wo},
                     *feed_forward[] = {&layer->w1, &layer->w3, &layer->w2};
        put_vector(w, layer->attention_norm, c->dim);
        for (int i = 0; i < 4; i++)
            if (!put_matrix(w, attention[i], ATTENTION, err)) return false;
        put_vector(w, layer->ffn_norm, c->dim);
        for (int i = 0; i < 3; i++)
            if (!put_matrix(w, feed_forward[i], FEED_FORWARD, err)) return false;
    }
    put_vector(w, m->final_norm, c->dim);
    if (!c->shared_classifier && !put_matrix(w, &m->classifier, CLASSIFIER, err)) return false;
    put_padding(w);
    return true;
}

bool model_quantize(const Model *m, WeightType type, const char *out_path, const volatile sig_atomic_t *stop,
                    QuantizeError errors[N_TENSOR_CLASSES], Error *err) {
    size_t length = strlen(out_path);
    char *temporary = alloc_array(length + 32, 1, "a file name", err);
    if (!temporary) return false;
    snprintf(temporary, length + 32, "%s.tmp.%ld", out_path, (long)getpid());
    Writer w = {.file = fopen(temporary, "wbx"), .stop = stop, .type = type};
    bool ok = w.file != NULL;
    if (!ok) fail(err, "%s: cannot create (%s)", temporary, strerror(errno));
    if (ok) {
        ok = put_model(&w, m, err);
        if (fclose(w.file) != 0 && !w.failed) w.failed = true, w.reason = errno;
        if (ok && w.failed) ok = fail(err, "%s: cannot write (%s)", out_path, strerror(w.reason));
        if (ok && rename(temporary, out_path) != 0)
            ok = fail(err, "%s: cannot rename to it (%s)", out_path, strerror(errno));
        if (!ok) remove(temporary);
    }
    free(temporary);
    for (int i = 0; i < N_TENSOR_CLASSES; i++) {
        const Tally *t = &w.tallies[i];
        double mean_weight = t->weights > 0 ? t->weights / t->count : 1;
        errors[i] = (QuantizeError){class_names[i], t->worst / mean_weight,
                                    t->count > 0 ? t->differences / t->count / mean_weight : 0};
    }
    return ok;
}
