// Headings, windows of a text, scores, and methods in turn.
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../fast/kernels.h"
#include "../fast/kv_cache.h"

// Keys that queries do not see, though they could.
static void note_hidden(Table *t, const SessionOptions *o) {
    if (o->short_heads) table_note(t, "short_heads", "%.200s", o->short_heads);
    if (o->short_heads) table_note_number(t, "short_window", "%d", o->short_window);
    if (o->best_keys) table_note_number(t, "best_keys", "%d", o->best_keys);
}

void print_heading(const Job *job, Table *t, const char *what) {
    const RopePlan *plan = job->plans;
    const KvType kv = session_config(job, plan, job->length).kv;
    t->train_ctx = plan->rope.train_ctx;
    table_note(t, what, "%.200s", job->options->model_path ? job->options->model_path : "settings");
    table_note_number(t, "length", "%d", job->length);
    if (plan->spread) {
        table_note_number(t, "spread", "%d", plan->spread);
        table_note_number(t, "piece", "%d", plan->piece);
    }
    table_note_number(t, "train_ctx", "%d", t->train_ctx);
    const char *sliding = job->options->asked_sliding.name;
    if (sliding[0]) table_note(t, "rope_sliding", "%s", sliding);
    table_note(t, "kv", "%s", kv_type_names[kv]);
    if (job->options->sessions.floats) table_note(t, "activations", "f32");
    note_hidden(t, &job->options->sessions);
    if (job->options->text_path) table_note(t, "text", "%.200s", job->options->text_path);
}

void spell(const char *piece, size_t n, char *out, size_t capacity) {
    size_t used = 0;
    for (size_t i = 0; i < n && used + 6 < capacity; i++) {
        unsigned char c = (unsigned char)piece[i];
        bool is_shown = c >= ' ' && c != 127 && c != '\\';
        const char *form = is_shown ? "%c" : "\\x%02x";
        used += (size_t)snprintf(out + used, capacity - used, form, c);
    }
    out[used] = '\0';
}

// ---- windows of a text ----

size_t window_ids(const Job *job) {
    const bool has_bos = tokenizer_bos(job->tokenizer) >= 0;
    return (size_t)job->length - has_bos;
}

void fill_window(const Job *job, int i, int n, int32_t *window) {
    size_t given = window_ids(job);
    size_t start = 0;
    if (n > 1) start = (size_t)((double)(job->n_ids - given) * i / (n - 1));
    window[0] = tokenizer_bos(job->tokenizer);
    memcpy(window + job->length - given, job->ids + start, given * sizeof *window);
}

// ---- scores ----

// The sum of n floats in double: a float would lose the small ones among those of a large vocabulary.
// Eight sums side by side, none of which waits for another.
static double sum_in_double(const float *x, int n) {
    double sums[8] = {0};
    double sum = 0;
    for (int i = 0; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) sums[k] += x[i + k];
    for (int i = n - n % 8; i < n; i++) sum += x[i];
    for (int k = 0; k < 8; k++) sum += sums[k];
    return sum;
}

// -ln of the probability that logits (vocab_size) give to `target`. Overwrites the logits.
static double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size);
    float at = logits[target];
    exp_and_sum(logits, vocab_size, max);
    return log(sum_in_double(logits, vocab_size)) + (double)max - (double)at;
}

// nll (span.to - span.from) = -ln p of the ids that are scored. The session has read the ids up to
// the one before the first of them.
static bool score_next(Session *s, Span span, double *nll, Error *err) {
    const int vocab_size = s->model->config.vocab_size;
    const int step = span.length ? s->config.chunk : 1;
    for (int at = span.from; at < span.to; at += step) {
        const int count = span.to - at < step ? span.to - at : step;
        const int length = span.length ? span.length : s->position + 1;
        if (!session_read(s, span.ids + at - 1, count, length, count, err)) return false;
        for (int row = 0; row < count; row += LOGIT_ROWS) {
            const int rows = count - row < LOGIT_ROWS ? count - row : LOGIT_ROWS;
            const int32_t *next = span.ids + at + row;
            double *of_rows = nll + at - span.from + row;
            float *logits = session_logits(s, row, rows, err);
            if (!logits) return false;
#pragma omp parallel for schedule(static) if (rows > 1)
            for (int64_t i = 0; i < rows; i++)
                of_rows[i] = negative_log_likelihood(logits + i * vocab_size, vocab_size, next[i]);
        }
    }
    return true;
}

bool score_behind(Session *s, Span span, double *nll, Error *err) {
    if (!session_read(s, span.ids, span.from - 1, span.length, 0, err)) return false;
    return score_next(s, span, nll, err);
}

bool score_span(Session *s, Span span, double *nll, Error *err) {
    const int lacking = span.from - 1 - s->position;
    const int32_t *next = span.ids + s->position;
    if (!session_read(s, next, lacking, span.length, 0, err)) return false;
    return score_next(s, span, nll, err);
}

// ---- the cache ----

// A layer stores the keys and values of all positions, whatever its window, which only bounds the
// reading. Layers that read an earlier layer's store none.

// Bytes of a layer's cache of so many positions, and of a block after the first.
static uint64_t layer_bytes(const Job *job, const Layer *layer, KvType kv, int positions) {
    KvCache cache = session_layer_cache(job->model, layer, kv, positions);
    Arena count = {0};
    kv_cache_lay_out(&cache, &count);
    return count.used;
}

static uint64_t layer_block_bytes(const Job *job, const Layer *layer, KvType kv) {
    return layer_bytes(job, layer, kv, 2 * KV_BLOCK) - layer_bytes(job, layer, kv, KV_BLOCK);
}

double cache_bytes_read(const Job *job, KvType kv, double positions) {
    double bytes = 0;
    for (int l = 0; l < job->model->config.n_layers; l++) {
        const Layer *layer = &job->model->layers[l];
        const RopeConfig *rope = layer_rope(layer, &job->plans->rope, &job->plans->sliding);
        bool sees_all =
            rope->window == 0 || (layer->extra->flags & LAYER_SEES_ALL && !rope->all_slide);
        double seen = sees_all ? positions : fmin(positions, (double)rope->window + rope->sinks);
        bytes += (double)layer_block_bytes(job, layer, kv) / KV_BLOCK * seen;
    }
    return bytes;
}

static void tell_table(void *t, const char *key, const char *words, bool is_number) {
    if (is_number) table_note_number(t, key, "%s", words);
    else table_note(t, key, "%s", words);
}

void note_model(Table *t, const Job *job) {
    const Model *m = job->model;
    const ModelConfig *c = &m->config;
    const KvType kv = job->options->sessions.kv;
    double of_block = 0;
    double whole = 0;
    int borrowing = 0;
    model_describe(m, tell_table, t);
    if (!m->layers) return;
    for (int l = 0; l < c->n_layers; l++) {
        const Layer *layer = &m->layers[l];
        if (layer->extra->shape.kv_layer != l) {
            borrowing++;
            continue;
        }
        of_block += (double)layer_block_bytes(job, layer, kv);
        whole += (double)layer_bytes(job, layer, kv, job->length);
    }
    double read = cache_bytes_read(job, kv, job->length);
    table_note(t, "cache", "%s", kv_type_names[kv]);
    table_note_number(t, "cache_token_bytes", "%.0f", of_block / KV_BLOCK);
    table_note_number(t, "cache_bytes", "%.0f", whole);
    if (borrowing) table_note_number(t, "cache_borrowing_layers", "%d", borrowing);
    if (read < of_block / KV_BLOCK * job->length)
        table_note_number(t, "cache_read_bytes", "%.0f", read);
}

// ---- layers ----

void list_layers(const ConfigLayers *layers, int kind, char *list, size_t capacity) {
    char one[24];
    *list = '\0';
    for (int i = 0; i < layers->n; i++) {
        int last = i;
        if (layers->kinds[i] != kind) continue;
        while (last + 1 < layers->n && layers->kinds[last + 1] == kind) last++;
        snprintf(one, sizeof one, last > i ? "%d-%d" : "%d", i, last);
        add_name(list, capacity, " ", one);
        i = last;
    }
}

void note_layers(Table *t, const ConfigLayers *layers) {
    static const char *const keys[] = {"layers_full", "layers_sliding", "layers_linear"};
    char list[200];
    bool differ = layers->n_of[KIND_FULL] < layers->n;
    for (int kind = 0; differ && kind <= KIND_OTHER; kind++) {
        list_layers(layers, kind, list, sizeof list);
        bool has_room = !t->eyes || strlen(list) < 60;  // at a terminal the full layers are enough
        if (list[0] && has_room) table_note(t, keys[kind], "%s", list);
    }
}

// ---- methods in turn ----

void show_progress(const Method *method, double done) {
    double share = (method->part + done) / method->job->n_plans;
    table_progress(method->table, method->plan->name, share);
}

// Measures method number i, whose rows are then seen. Where standard error is apart from the table,
// it says how long that took.
static bool measure_one(const Job *job, const MethodsTable *methods, Table *table, int i,
                        Error *err) {
    Method method = {.job = job, .table = table, .plan = &job->plans[i], .part = i};
    method.session = open_session(job, method.plan, job->length, i == 0, err);
    double began = now_seconds();
    bool ok = method.session && methods->measure(methods->whose, &method, err);
    if (ok && job->options->sessions.stepwise) say_read_anew(method.session);
    session_free(method.session);
    table_end(table);
    if (!ok || !table->apart) return ok;
    double took = now_seconds() - began;
    fprintf(stderr, "run: %s: %.1f s (%d of %d)\n", method.plan->name, took, i + 1, job->n_plans);
    return true;
}

bool measure_methods(const Job *job, const MethodsTable *methods, Error *err) {
    Table table = table_open(job->form);
    for (int i = 0; i < job->n_plans; i++) {  // is there memory for each of them?
        Session *s = open_session(job, &job->plans[i], job->length, false, err);
        if (!s) return false;
        session_free(s);
    }
    print_heading(job, &table, methods->what);
    if (methods->samples) table_note_number(&table, "samples", "%d", methods->samples);
    if (methods->note) methods->note(methods->whose, &table);
    table_columns(&table, methods->shape, methods->columns);
    fflush(stdout);
    bool ok = true;
    for (int i = 0; ok && i < job->n_plans; i++) ok = measure_one(job, methods, &table, i, err);
    if (ok && methods->end) methods->end(methods->whose, &table);
    return ok;
}
