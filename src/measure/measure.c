// What measurements share: their length and text, the lines above their tables, and going through the methods.
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/text_io.h"

int measured_length(const Model *model, size_t most) {
    int train_ctx = model->rope.train_ctx, seq_len = model->config.seq_len;
    int four_times = train_ctx <= (1 << 28) ? 4 * train_ctx : train_ctx;
    int length = four_times > seq_len ? four_times : seq_len;
    if (model->learned && length > model->config.encoding_rows) length = model->config.encoding_rows;
    return most < (size_t)length ? (int)most : length;
}

int32_t *measured_text(const char *path, const Model *model, const Tokenizer *tokenizer, size_t *n, Error *err) {
    size_t size;
    int vocab_size = model->config.vocab_size;
    char *text = read_file(path, &size, err);
    if (!text) return NULL;
    int32_t *ids = tokenizer ? tokenizer_encode(tokenizer, text, size, n, err) : parse_ids(path, text, size, n, err);
    free(text);
    for (size_t i = 0; ids && i < *n; i++) {
        if (ids[i] < vocab_size) continue;
        fail(err, "%s: token %d is not in the model's vocabulary of %d", path, (int)ids[i], vocab_size);
        free(ids);
        return NULL;
    }
    return ids;
}

void fill_window(const Measurement *m, int i, int n, int32_t *window) {
    int bos = m->tokenizer ? tokenizer_bos(m->tokenizer) : -1;
    size_t given = (size_t)m->length - (bos >= 0), room = m->n_ids - given;
    size_t start = n > 1 ? (size_t)((double)room * i / (n - 1)) : 0;
    window[0] = bos;
    memcpy(window + (bos >= 0), m->ids + start, given * sizeof *window);
}

Session *open_session(const Options *o, const Model *model, const RopePlan *plan, int context, bool say_memory,
                      Error *err) {
    SessionConfig config = {.rope = plan->rope,
                            .window = plan->window,
                            .sinks = plan->sinks,
                            .all_slide = plan->all_slide,
                            .kv = o->kv,
                            .activations = o->activations};
    config.context = context;
    config.threads = o->threads;
    config.stale_keys = plan->stale_keys;
    Session *s = session_new(model, &config, err);
    size_t cache, bytes = s ? session_bytes(s, &cache) : 0;
    if (s && say_memory)
        fprintf(stderr, "run: %d positions, %.1f MB of memory (%s key-value cache %.1f MB)\n", context,
                (double)bytes / 1e6, kv_type_names[o->kv], (double)cache / 1e6);
    return s;
}

void print_heading(const Measurement *m, Table *t, const char *what) {
    table_note(t, what, "%.200s", m->options->model_path);
    table_note(t, "length", "%d", m->length);
    table_note(t, "train_ctx", "%d", m->plans[0].rope.train_ctx);
    table_note(t, "kv", "%s", kv_type_names[m->options->kv]);
    if (m->options->activations != ACTIVATIONS_INT8)
        table_note(t, "activations", "%s", activations_names[m->options->activations]);
    if (m->options->job != JOB_PPL) return;
    table_note(t, "text", "%.200s", m->options->text_path);
    table_note(t, "samples", "%d", m->options->samples);
}

void show_progress(Method *method, double done) {
    double now = now_seconds(), share = (method->part + done) / method->m->n_plans;
    if (now - method->shown < 0.2) return;
    method->shown = now;
    char text[120], bar[31] = "";
    int cells = method->table->width < 75 ? 10 : 30;
    for (int i = 0; i < cells; i++) bar[i] = share * cells > i ? '#' : '.';
    double left = share > 0 ? (now - method->start) * (1 - share) / share : 0;
    snprintf(text, sizeof text, "%-20.20s [%s] %3.0f%%  %4.0f s left", method->plan->name, bar, 100 * share, left);
    table_bar(method->table, text);
}

bool measure_methods(const Measurement *m, const char *what, const char *columns, TableShape shape, Work *work,
                     void *job, Error *err) {
    int n = m->n_plans;
    Table table = table_open(shape, m->plans[0].rope.train_ctx, m->options->tsv);
    Method method = {.m = m, .table = &table, .start = now_seconds()};
    bool ok = true;
    for (int i = -n; ok && i < n; i++) {  // the first time round for the memory alone
        if (i == 0) {
            print_heading(m, &table, what);
            table_columns(&table, columns);
        }
        method.part = i;
        method.plan = &m->plans[i < 0 ? i + n : i];
        method.session = open_session(m->options, m->model, method.plan, m->length, i == 0, err);
        method.began = now_seconds();
        ok = method.session && (i < 0 || work(job, &method, err));
        session_free(method.session);
        if (!ok || i < 0 || table.moves) continue;
        fflush(stdout);
        fprintf(stderr, "run: %s: %.1f s (%d of %d)\n", method.plan->name, now_seconds() - method.began, i + 1, n);
    }
    table_end(&table);
    return ok;
}
