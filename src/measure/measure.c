// Headings, windows of a text, and methods in turn.
#include "measure.h"

#include <stdio.h>
#include <string.h>

#include "../fast/kv_cache.h"

void print_heading(const Job *job, Table *t, const char *what) {
    const RopePlan *plan = job->plans;
    const KvType kv = session_config(job, plan, job->length).kv;
    t->train_ctx = plan->rope.train_ctx;
    table_note(t, what, "%.200s", job->model_path ? job->model_path : "settings");
    table_note(t, "length", "%d", job->length);
    if (plan->spread) {
        table_note(t, "spread", "%d", plan->spread);
        table_note(t, "piece", "%d", plan->piece);
    }
    if (plan->crowd) table_note(t, "crowd", "yes");
    table_note(t, "train_ctx", "%d", t->train_ctx);
    if (job->sliding->name[0]) table_note(t, "rope_sliding", "%s", job->sliding->name);
    table_note(t, "kv", "%s", kv_type_names[kv]);
    if (job->sessions.floats) table_note(t, "activations", "f32");
    if (job->text_path) table_note(t, "text", "%.200s", job->text_path);
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

// ---- methods in turn ----

void show_progress(const Method *method, double done) {
    double share = (method->part + done) / method->job->n_plans;
    table_progress(method->table, method->plan->name, share);
}

// Whether there is memory for each of the methods.
static bool try_memory(const Job *job, Error *err) {
    for (int i = 0; i < job->n_plans; i++) {
        Session *s = open_session(job, &job->plans[i], job->length, false, err);
        if (!s) return false;
        session_free(s);
    }
    return true;
}

// Measures method number i, whose rows are then seen. Where standard error is apart from the table,
// it says how long that took.
static bool measure_one(const Job *job, const MethodsTable *methods, Table *table, int i,
                        Error *err) {
    Method method = {.job = job, .table = table, .plan = &job->plans[i], .part = i};
    method.session = open_session(job, method.plan, job->length, i == 0, err);
    double began = now_seconds();
    bool ok = method.session && methods->measure(methods->whose, &method, err);
    session_free(method.session);
    table_end(table);
    if (!ok || !table->apart) return ok;
    double took = now_seconds() - began;
    fprintf(stderr, "run: %s: %.1f s (%d of %d)\n", method.plan->name, took, i + 1, job->n_plans);
    return true;
}

bool measure_methods(const Job *job, const MethodsTable *methods, Error *err) {
    Table table = table_open(job->form);
    bool ok = try_memory(job, err);
    if (ok) {
        print_heading(job, &table, methods->what);
        if (methods->samples) table_note(&table, "samples", "%d", methods->samples);
        table_columns(&table, methods->columns);
        fflush(stdout);
    }
    for (int i = 0; ok && i < job->n_plans; i++) ok = measure_one(job, methods, &table, i, err);
    return ok;
}
