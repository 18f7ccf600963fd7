// --engines and --reading: how engines read a config, and plans of what they read.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../settings/publish.h"
#include "measure.h"

// Whether engines read the file of --rope-config as it stands, and not what is in force as it would
// be published.
static bool is_read_as_it_stands(const Measurement *m) {
    bool has_file = m->rope_file->whole;
    return has_file && !options_say_block(m->options);
}

// Every engine reads config.json by a strict parser of JSON.
static void refuse_all(Reading *readings, int n, const char *not_json) {
    for (Reading *r = readings; r < readings + n; r++) {
        r->refused = true;
        r->verdict = "refused";
        snprintf(r->note, sizeof r->note, "JSONDecodeError: %s", not_json);
    }
}

// See show_engines. The caller frees the *n readings, and the reference behind them.
static Reading *read_by(const Measurement *m, const char *list, int length, int *n, Error *err) {
    bool as_it_stands = is_read_as_it_stands(m);
    const Publication publication = publication_of(m, m->plans);
    char *config = as_it_stands ? strdup(m->rope_file->whole) : publish_config(&publication, true, err);
    Reading *readings = config ? engines_read(list, config, length, NULL, n, err) : NULL;
    bool is_json = !as_it_stands || !m->rope_file->not_json[0];
    if (readings && !is_json) refuse_all(readings, REFERENCE + N_KINDS, m->rope_file->not_json);
    free(config);
    return readings;
}

// What one engine makes of one kind of layers: method, s, L, a and the most positions.
static void write_cells(const Reading *r, int length, char *out, size_t capacity) {
    const RopeConfig *c = &r->rope;
    RopeFreqs f;
    char most[20] = "-";
    rope_frequencies(c, length, &f);
    if (r->max_len > 0) snprintf(most, sizeof most, "%d", r->max_len);
    if (r->max_len < 0) snprintf(most, sizeof most, "?");
    snprintf(out, capacity, "%s\t%.9g\t%d\t%.9g\t%s", settings_method_name(c).text, f.scale, c->train_ctx,
             f.attention_factor, most);
}

// Prints a row. A drawn one has the last three columns in words below it, where they say something.
static void print_reading(Table *t, const Reading *r, int length) {
    char cells[300] = "-\t-\t-\t-\t-", worst[60] = "-\t-", words[sizeof r->note + 100] = "", kind[20] = "";
    if (!r->refused) {
        write_cells(r, length, cells, sizeof cells);
        snprintf(worst, sizeof worst, "-\t1");
        if (r->worst_pair >= 0) snprintf(worst, sizeof worst, "%d\t%.6g", r->worst_pair, r->worst_ratio);
    }
    if (r->by_layer) snprintf(kind, sizeof kind, "%s\t", kind_names[r->kind]);
    const char *verdict = r->refused ? "refused" : r->verdict, *note = r->note[0] ? r->note : "-";
    if (!t->eyes) {
        table_row(t, "%s\t%s\t%s\t%s%s\t%s\t%s", r->engine, r->version, verdict, kind, cells, worst, note);
        return;
    }
    table_row(t, "%s\t%s\t%s\t%s%s", r->engine, r->version, verdict, kind, cells);
    if (!r->refused && r->worst_pair >= 0)
        snprintf(words, sizeof words, "pair %d turns %.4g times as fast", r->worst_pair, r->worst_ratio);
    if (r->note[0]) add_name(words, sizeof words, "; ", r->note);
    if (words[0]) table_remark(t, words);
}

// The numbers of a kind's layers, as "0-4 6-10".
static void list_layers(const ConfigLayers *layers, int kind, char *list, size_t capacity) {
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

// Which engines are left out, since nobody has seen what they make of the config.
static void note_unknown(Table *t, const Reading *readings, int n) {
    char names[200] = "";
    for (int i = 0; i < n; i += reading_kinds(&readings[i]))
        if (readings[i].unknown) add_name(names, sizeof names, ", ", readings[i].engine);
    if (names[0]) table_note(t, "not_known", "%s", names);
}

bool show_engines(const Measurement *m, Answer *answer, Error *err) {
    const char *list = m->options->engines;
    char with_hf5[1000];
    int n, known;
    snprintf(with_hf5, sizeof with_hf5, "hf5,%s", list ? list : "");
    if (list && strncmp(list, "hf5", 3) != 0) list = with_hf5;
    Reading *readings = read_by(m, list, m->length, &n, err);
    if (!readings) return false;
    const Reading *reference = &readings[REFERENCE];
    Table t = table_open(m->options->tsv);
    table_note(&t, "length", "%d", m->length);
    table_note(&t, "facts_of", "%s", ENGINES_DATE);
    table_note(&t, "reference", "%s", reference->refused ? "none" : reference->engine);
    note_layers(&t, &reference->layers);
    if (reference->by_layer) table_note(&t, "window_sliding", "%d", reference->layers.window);
    if (!reference->has_rope) table_note(&t, kind_names[reference->kind], "no RoPE: queries and keys do not turn");
    note_unknown(&t, readings, n);
    const char *kinds = readings[0].by_layer ? "layers\t" : "";
    char columns[200];
    snprintf(columns, sizeof columns, "engine\tversion\tverdict\t%smethod\tscale\ttrain_ctx\tattention_factor\tmax_len",
             kinds);
    if (!t.eyes) add_name(columns, sizeof columns, "\t", "worst_pair\tworst_ratio\tnote");
    table_columns(&t, columns);
    for (int i = 0; i < n; i++)
        if (readings[i].has_rope && !readings[i].unknown) print_reading(&t, &readings[i], m->length);
    table_end(&t);
    if (readings_alike(readings, n, &known) < known) *answer = NO;
    free(readings);
    return true;
}

int engines_alike(const Measurement *m, int *n, bool *as_published) {
    Error unused;
    *as_published = !is_read_as_it_stands(m);
    Reading *readings = m->model->config.encoding ? NULL : read_by(m, NULL, m->length, n, &unused);
    if (!readings) *n = 0;
    int alike = readings_alike(readings, *n, n);
    free(readings);
    return alike;
}

// The plan of an engine's reading, whose kinds of layers stand together from `r` on.
static bool plan_of_reading(const Measurement *m, const RopeSettings *s, const Reading *r, RopePlan *plan, Error *err) {
    static const RopeSettings unsaid = {.said = 0};
    const Reading *full = r->has_rope ? r : r + 1, *sliding = r + reading_kinds(r) - 1;
    int own = m->model->rope.rotary_dim, window = m->model->config.sliding_window;
    if (r->unknown) return fail(err, "--reading: what %s makes of this config is not known", r->engine);
    if (r->refused) return fail(err, "--reading: %s refuses this config: %s", r->engine, r->note);
    if (own && full->rope.rotary_dim != own)
        return fail(err, "--reading: %s turns %d elements of a head, and the model's weights are stored for %d",
                    r->engine, full->rope.rotary_dim, own);
    if (!plan_for_job(m, s, &full->rope, plan, err)) return false;
    snprintf(plan->name, sizeof plan->name, "%s:%s", r->engine, settings_method_name(&plan->rope).text);
    if (!r->by_layer) return true;
    if (!window) window = r->layers.window;
    return settings_resolve_sliding(s, &unsaid, &sliding->rope, window, m->length, plan, err);
}

bool plans_as_read(Measurement *m, Reading **readings, Error *err) {
    // Only settings that no block of JSON has can stand beside what an engine reads.
    RopeSettings s = {.rope = m->options->rope.rope, .said = m->options->rope.said};
    int length = m->options->spread ? m->options->spread : m->length, n;
    for (int i = 0; i < N_ROPE_SETTINGS; i++)
        if (rope_settings[i].key || rope_settings[i].methods || rope_settings[i].maps) s.said &= ~(1u << i);
    Reading *read = read_by(m, m->options->reading, length, &n, err);
    free(*readings);
    free(m->plans);
    *readings = read;
    m->plans = read ? alloc_array((uint64_t)n, sizeof *m->plans, "plans", err) : NULL;
    m->n_plans = 0;
    for (int i = 0; m->plans && i < n; i += reading_kinds(&read[i]))
        if (!plan_of_reading(m, &s, &read[i], &m->plans[m->n_plans++], err)) return false;
    if (m->plans && !m->options->model_path && read[0].by_layer)
        m->kinds = (LayerKinds){
            .is_there = {read[0].kind == KIND_FULL, true}, .turns = {read[0].has_rope, true}, .own_sliding = true};
    return m->plans;
}
