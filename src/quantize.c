// A q8 copy of a model, written as version 3 (docs/format.md).
#define _POSIX_C_SOURCE 200809L
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_AT_A_TIME = 256 };

typedef struct {
    FILE *file;
    size_t offset;
    bool failed;
    int reason;  // errno of the first failure
} Writer;

static void put(Writer *w, const void *data, size_t n) {
    if (!w->failed && fwrite(data, 1, n, w->file) != n) w->failed = true, w->reason = errno;
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

static void set_f64(uint8_t *p, double x) {
    memcpy(p, &x, 8);
}

static void put_header(Writer *w, const ModelConfig *c, const RopeConfig *r, WeightType type) {
    uint8_t h[256] = {0};
    int n_longrope = r->short_factors ? r->head_dim / 2 : 0;
    set_u32(h, MODEL_MAGIC), set_u32(h + 4, 3), set_u32(h + 8, (int)type), set_u32(h + 12, Q8_GROUP);
    set_u32(h + 16, c->dim), set_u32(h + 20, c->hidden_dim), set_u32(h + 24, c->n_layers), set_u32(h + 28, c->n_heads);
    set_u32(h + 32, c->n_kv_heads), set_u32(h + 36, c->head_dim), set_u32(h + 40, c->vocab_size), set_u32(h + 44, c->seq_len);
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

// Rows are quantized by all threads, some hundred at a time, and written in order. The scales are kept until the values
// are written: (cols + 63) / 64 floats a row.
static bool put_matrix(Writer *w, const Matrix *m, Error *err) {
    size_t cols = (size_t)m->cols, groups = (cols + Q8_GROUP - 1) / Q8_GROUP;
    float *scales = alloc_array((size_t)m->rows, groups * sizeof(float), "scales", err);
    float *rows = scales ? alloc_array(ROWS_AT_A_TIME, cols * sizeof(float), "rows to quantize", err) : NULL;
    int8_t *values = rows ? alloc_array(ROWS_AT_A_TIME, cols, "quantized rows", err) : NULL;
    put_padding(w);
    for (int row = 0; values && row < m->rows && !w->failed; row += ROWS_AT_A_TIME) {
        int n = m->rows - row < ROWS_AT_A_TIME ? m->rows - row : ROWS_AT_A_TIME;
#pragma omp parallel for
        for (int i = 0; i < n; i++) {
            float *x = rows + (size_t)i * cols;
            matrix_row(m, row + i, 0, m->cols, x);
            for (size_t g = 0; g < groups; g++) {
                size_t first = g * Q8_GROUP, count = cols - first < Q8_GROUP ? cols - first : Q8_GROUP;
                scales[(size_t)(row + i) * groups + g] = f32_to_i8(values + (size_t)i * cols + first, x + first, count);
            }
        }
        put(w, values, (size_t)n * cols);
    }
    put_padding(w);
    if (values) put(w, scales, (size_t)m->rows * groups * sizeof(float));
    free(values);
    free(rows);
    bool ok = values != NULL;
    free(scales);
    return ok;
}

static bool put_model(Writer *w, const Model *m, WeightType type, Error *err) {
    const ModelConfig *c = &m->config;
    put_header(w, c, &m->rope, type);
    if (!put_matrix(w, &m->embedding, err)) return false;
    for (int l = 0; l < c->n_layers; l++) {
        const Layer *layer = &m->layers[l];
        put_vector(w, layer->attention_norm, c->dim);
        if (!put_matrix(w, &layer->wq, err) || !put_matrix(w, &layer->wk, err) || !put_matrix(w, &layer->wv, err) || !put_matrix(w, &layer->wo, err))
            return false;
        put_vector(w, layer->ffn_norm, c->dim);
        if (!put_matrix(w, &layer->w1, err) || !put_matrix(w, &layer->w3, err) || !put_matrix(w, &layer->w2, err)) return false;
    }
    put_vector(w, m->final_norm, c->dim);
    if (!c->shared_classifier && !put_matrix(w, &m->classifier, err)) return false;
    put_padding(w);
    return true;
}

bool model_quantize(const Model *m, WeightType type, const char *out_path, Error *err) {
    size_t length = strlen(out_path);
    char *temporary = malloc(length + 32);
    if (!temporary) return fail(err, "%s: no memory for a file name", out_path);
    snprintf(temporary, length + 32, "%s.tmp.%ld", out_path, (long)getpid());
    Writer w = {.file = fopen(temporary, "wbx")};
    bool ok = w.file != NULL;
    if (!ok) fail(err, "%s: cannot create (%s)", temporary, strerror(errno));
    if (ok) {
        ok = put_model(&w, m, type, err);
        if (fclose(w.file) != 0 && !w.failed) w.failed = true, w.reason = errno;
        if (ok && w.failed) ok = fail(err, "%s: cannot write (%s)", out_path, strerror(w.reason));
        if (ok && rename(temporary, out_path) != 0) ok = fail(err, "%s: cannot rename to it (%s)", out_path, strerror(errno));
        if (!ok) remove(temporary);
    }
    free(temporary);
    return ok;
}
