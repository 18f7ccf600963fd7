// What the jobs that measure share: models, lengths, texts, warnings, plans, sessions, headings, methods in turn.
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/foreign.h"
#include "../job/text_io.h"

bool measure(const Measurement *m, Answer *answer, Error *err) {
    switch (m->options->job) {
    case JOB_PPL: return measure_perplexity(m, err);
    case JOB_TASKS: return measure_tasks(m, answer, err);
    case JOB_CHECK: return check_model(m, answer, err);
    case JOB_ATTN: return show_attention(m, err);
    case JOB_NEXT: return show_next(m, err);
    case JOB_BENCH: return bench(m, err);
    case JOB_SEARCH: return search(m, NULL, err);
    case JOB_ENGINES: return show_engines(m, answer, err);
    case JOB_ROPE_JSON: return publish_print(&(Publication[]){publication_of(m, m->plans)}[0], err);
    default: return explain(m, err);
    }
}

int length_of_job(const Measurement *m) {
    const Options *o = m->options;
    const Model *model = m->model;
    int seq_len = model->config.seq_len, rows = model->learned ? model->config.encoding_rows : MOST_LENGTH;
    double usual = fmin(fmax(4.0 * model->rope.train_ctx, seq_len), rows);  // past the trained context
    if (o->steps >= 0) return o->steps > 0 ? o->steps : seq_len;
    switch (o->job) {
    case JOB_TEXT: return o->mode == MODE_CHAT ? seq_len : (int)fmin(rows, USUAL_LENGTH);
    case JOB_ATTN:
    case JOB_NEXT: return (int)m->n_ids;
    case JOB_BENCH: return (int)fmin(rows / 2, BENCH_DEPTH);
    case JOB_PPL:
    case JOB_SEARCH: return (int)fmin(usual, (double)m->n_ids + (tokenizer_bos(m->tokenizer) >= 0));
    case JOB_TASKS: return (int)usual;
    default: return seq_len;
    }
}

void print_advice(const Measurement *m, const RopeSettings *methods) {
    Job job = m->options->job;
    bool measures = job != JOB_TEXT && job != JOB_EXPLAIN;
    char others[300] = "";
    Error advice;
    for (int i = 0; i < m->n_plans && !m->model->config.encoding && !m->options->reading; i++) {
        const RopePlan *plan = &m->plans[i];
        int positions = plan->spread ? plan->spread : m->length, row = 0;
        while (!methods[i].of_all && settings_idle(&methods[i], plan, &row, &advice))
            fprintf(stderr, "run: warning: %s\n", advice.text);
        if (!settings_advice(&methods[i], plan, measures ? 0 : positions, &advice) && !methods[i].of_all)
            fprintf(stderr, "run: warning: %s\n", advice.text);
        if (!settings_same_method(&m->file, &plan->rope)) add_name(others, sizeof others, ", ", plan->name);
    }
    if (others[0] && (!measures || job_takes_lists(job)))
        fprintf(stderr, "run: warning: the model was tuned with rope %s, and not with %s\n",
                settings_method_name(&m->file).text, others);
}

size_t window_ids(const Measurement *m) { return (size_t)m->length - (tokenizer_bos(m->tokenizer) >= 0); }

void fill_window(const Measurement *m, int i, int n, int32_t *window) {
    size_t given = window_ids(m), start = n > 1 ? (size_t)((double)(m->n_ids - given) * i / (n - 1)) : 0;
    window[0] = tokenizer_bos(m->tokenizer);
    memcpy(window + m->length - given, m->ids + start, given * sizeof *window);
}

bool plan_for_job(const Measurement *m, const RopeSettings *s, const RopeConfig *start, RopePlan *plan, Error *err) {
    const Options *o = m->options;
    const ModelConfig *c = &m->model->config;
    int positions = o->spread ? o->spread : m->length;
    if (!settings_resolve(s, start, model_window(m->model), positions, plan, err)) return false;
    if (c->sliding_rope &&
        !settings_resolve_sliding(s, &m->sliding, &m->model->sliding, c->sliding_window, positions, plan, err))
        return false;
    if (c->head_dim) plan->head_dim = (int)c->head_dim;
    plan->stale_keys = o->stale_keys;
    plan->spread = o->spread;
    plan->piece = !o->spread || o->piece ? o->piece : USUAL_PIECE;
    plan->crowd = o->crowd;  // from token 1 on: nothing but one BOS is at the beginning of a text
    return true;
}

bool reference_plan(const Measurement *m, bool plain, double times, RopePlan *plan, Error *err) {
    RopeSettings s = {.said = 0};
    if (plain) settings_read_method(&s, "none");
    if (times != 1) settings_say(&s, SET_THETA, fmax(m->file.theta * times, 1.5));
    const ModelConfig *c = &m->model->config;
    const RopeSettings unsaid = {.said = 0};
    if (!settings_resolve(&s, &m->file, model_window(m->model), m->length, plan, err)) return false;
    return !c->sliding_rope ||
           settings_resolve_sliding(&s, &unsaid, &m->file_sliding, c->sliding_window, m->length, plan, err);
}

Publication publication_of(const Measurement *m, const RopePlan *plan) {
    return (Publication){
        .plan = plan,
        .model = m->model,
        .said = m->rope_file,
        .by_layer = m->kinds.own_sliding,
        .context = m->model->config.seq_len,
        .window = m->model->config.sliding_window,
    };
}

bool open_model(const char *path, Model *model, Error *err) {
    return check_native(path, err) && model_open(path, model, err);
}

LayerKinds kinds_of_layers(const Model *model) {
    LayerKinds kinds = {.own_sliding = model->config.sliding_rope};
    for (int l = 0; model->layers && l < model->config.n_layers; l++) {
        int flags = model->layers[l].flags;
        bool has_window = model->config.sliding_window > 0 && !(flags & LAYER_SEES_ALL);
        int kind = has_window || flags & LAYER_SLIDING ? LAYERS_SLIDING : LAYERS_FULL;
        kinds.is_there[kind] = true;
        if (!(flags & LAYER_NOPE)) kinds.turns[kind] = true;
    }
    return kinds;
}

LayerKinds kinds_of_file(const RopeFile *file) {
    const ConfigLayers *layers = &file->layers;
    bool has_full = !file->by_layer || !layers->n || layers->n_of[KIND_FULL];
    return (LayerKinds){.is_there = {has_full, file->by_layer},
                        .turns = {!file->bare_full, file->by_layer},
                        .own_sliding = file->by_layer};
}

// Puts what was read in place of the model's settings. False with the reason where the model's layers are others.
static bool take_settings(const RopeFile *file, bool is_model, Model *model, Error *err) {
    if (is_model && file->by_kind && file->by_layer && !model->config.sliding_rope)
        return fail(err, "another model's config: its sliding layers turn by settings of their own, and the model's "
                         "layers turn alike");
    model->rope = file->rope;
    if (model->config.sliding_rope || (file->by_layer && !is_model)) model->sliding = file->sliding;
    model->config.head_dim = file->head_dim;
    model->config.seq_len = file->max_positions ? file->max_positions : file->rope.train_ctx;
    if (is_model || !file->by_layer) return true;
    model->config.sliding_rope = true;
    model->config.sliding_window = file->layers.window;
    return true;
}

// Prints each line of remarks as a warning.
static void print_remarks(const char *path, const char *remarks) {
    while (*remarks) {
        int n = (int)strcspn(remarks, "\n");
        fprintf(stderr, "run: warning: %s: %.*s\n", path, n, remarks);
        remarks += n + (remarks[n] == '\n');
    }
}

bool take_rope_config(const Options *o, Model *model, RopeFile *file, Error *err) {
    bool is_read = o->reading || o->job == JOB_ENGINES;
    file->rope = model->rope;
    file->sliding = model->config.sliding_rope ? model->sliding : model->rope;
    file->by_layer = model->config.sliding_rope;
    file->head_dim = o->model_path ? (int)model->config.head_dim : o->head_dim;
    file->max_positions = o->model_path ? model->config.seq_len : 0;
    size_t length;
    char *text = read_file(o->rope_config, 1 << 20, &length, err);
    bool good = text && (rope_config_parse(file, text, length, err) || fail(err, "%s: %s", o->rope_config, err->text));
    free(text);
    if (!good) {
        if (o->job == JOB_ENGINES) model->config.seq_len = file->max_positions;
        return is_read && file->whole;  // the engines are to refuse it
    }
    if (!is_read) print_remarks(o->rope_config, file->remarks);
    if (file->unused[0] && !is_read)
        fprintf(stderr, "run: %s: not used, since %s: %s\n", o->rope_config,
                file->has_type ? "they mean nothing to the rope_type"
                               : "a block without a rope_type means no scaling, and Hugging Face 4 refuses it",
                file->unused);
    return take_settings(file, o->model_path, model, err) || fail(err, "%s: %s", o->rope_config, err->text);
}

SessionConfig session_config(const Measurement *m, const RopePlan *plan, int context) {
    const Options *o = m->options;
    return (SessionConfig){.rope = plan->rope,
                           .sliding = plan->sliding,
                           .kv = o->kv,
                           .floats = o->activations,
                           .context = context,
                           .threads = o->threads,
                           .plain = o->plain,
                           .stale_keys = plan->stale_keys,
                           .spread = {.length = plan->spread, .piece = plan->piece, .crowd = plan->crowd}};
}

Session *open_session(const Measurement *m, const RopePlan *plan, int context, bool say_memory, Error *err) {
    SessionConfig config = session_config(m, plan, context);
    Session *s = session_new(m->model, &config, err);
    if (!s || !say_memory) return s;
    char over[40] = "positions";
    if (plan->spread) snprintf(over, sizeof over, "tokens over %d positions", plan->spread);
    fprintf(stderr, "run: %d %s, %.1f MB of memory (%s key-value cache %.1f MB)\n", context, over,
            (double)s->arena.used / 1e6, kv_type_names[config.kv], (double)s->cache_bytes / 1e6);
    if (plan->spread && context <= plan->piece)
        fprintf(stderr, "run: warning: %d tokens make one piece of --piece %d, so there is no jump\n", context,
                plan->piece);
    return s;
}

void print_heading(const Measurement *m, Table *t, const char *what) {
    t->train_ctx = m->plans->rope.train_ctx;
    table_note(t, what, "%.200s", m->options->model_path);
    table_note(t, "length", "%d", m->length);
    if (m->plans->spread) table_note(t, "spread", "%d", m->plans->spread);
    if (m->plans->spread) table_note(t, "piece", "%d", m->plans->piece);
    if (m->plans->crowd) table_note(t, "crowd", "yes");
    table_note(t, "train_ctx", "%d", t->train_ctx);
    if (m->sliding.name[0]) table_note(t, "rope_sliding", "%s", m->sliding.name);
    table_note(t, "kv", "%s", kv_type_names[m->options->kv]);
    if (m->options->activations) table_note(t, "activations", "f32");
    if (m->options->text_path) table_note(t, "text", "%.200s", m->options->text_path);
    if (m->options->job == JOB_PPL) table_note(t, "samples", "%d", m->options->samples);
}

void show_progress(const Method *method, double done) {
    table_progress(method->table, method->plan->name, (method->part + done) / method->m->n_plans);
}

bool measure_methods(const Measurement *m, const char *what, const char *columns, Work *work, void *job, Error *err) {
    int n = m->n_plans;
    Table table = table_open(m->options->tsv);
    bool ok = true;
    for (int i = -n; ok && i < n; i++) {  // the first round only tries the memory
        Method method = {m, &table, &m->plans[i < 0 ? i + n : i], .part = i};
        if (i == 0) {
            print_heading(m, &table, what);
            table_columns(&table, columns);
        }
        method.session = open_session(m, method.plan, m->length, i == 0, err);
        double began = now_seconds();
        ok = method.session && (i < 0 || work(job, &method, err));
        session_free(method.session);
        if (!ok || i < 0 || !table.apart) continue;
        fflush(stdout);
        fprintf(stderr, "run: %s: %.1f s (%d of %d)\n", method.plan->name, now_seconds() - began, i + 1, n);
    }
    table_end(&table);
    return ok;
}
