// --engines: how the engines read one config, beside one another.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

static const char COLUMNS[] =
    "engine\tversion\tverdict\tmethod\tscale\ttrain_ctx\tattention_factor\tmax_len\tworst_pair\tworst_ratio\tnote";

// The readings of a list of engines; NULL with the reason.
static Reading *read_by(const Measurement *m, const char *list, int length, int *n, Error *err) {
    char *config = config_for_engines(m, err);
    Reading *readings = config ? engines_read(list, config, length, NULL, n, err) : NULL;
    free(config);
    return readings;
}

static void print_reading(Table *t, const Reading *r, int length) {
    const RopeConfig *c = &r->rope;
    RopeFreqs f;
    char method[MAX_METHOD_NAME], most[20] = "-", worst[60] = "-\t1";
    const char *note = r->note[0] ? r->note : "-";
    if (r->refused) {
        table_row(t, NULL, "%s\t%s\trefused\t-\t-\t-\t-\t-\t-\t-\t%s", r->engine, r->version, note);
        return;
    }
    settings_method_name(c->method, c->dynamic, method, sizeof method);
    rope_frequencies(c, length, &f);
    if (r->max_len) snprintf(most, sizeof most, "%d", r->max_len);
    if (r->worst_pair >= 0) snprintf(worst, sizeof worst, "%d\t%.6g", r->worst_pair, r->worst_ratio);
    table_row(t, NULL, "%s\t%s\t%s\t%s\t%.9g\t%d\t%.9g\t%s\t%s\t%s", r->engine, r->version, r->verdict, method, f.scale,
              c->train_ctx, f.attention_factor, most, worst, note);
}

static int count_same(const Reading *readings, int n) {
    int same = 0;
    for (int i = 0; i < n; i++) same += strcmp(readings[i].verdict, "same") == 0;
    return same;
}

bool show_engines(const Measurement *m, bool *same, Error *err) {
    const char *list = m->options->engines;
    char with_hf5[1000];
    int n;
    snprintf(with_hf5, sizeof with_hf5, "hf5,%s", list ? list : "");
    if (list && strncmp(with_hf5 + 4, "hf5", 3) != 0) list = with_hf5;
    Reading *readings = read_by(m, list, m->length, &n, err);
    if (!readings) return false;
    Table t = table_open(SHAPE_LIST, 0, m->options->tsv);
    table_note(&t, "length", "%d", m->length);
    table_note(&t, "facts_of", "%s", engines_date);
    table_note(&t, "reference", "%s", readings[n].refused ? "none" : readings[n].engine);
    table_columns(&t, COLUMNS);
    for (int i = 0; i < n; i++) print_reading(&t, &readings[i], m->length);
    table_end(&t);
    *same = count_same(readings, n) == n;
    free(readings);
    return true;
}

int engines_alike(const Measurement *m, int *n) {
    Error unused;
    Reading *readings = m->model->config.encoding ? NULL : read_by(m, NULL, m->length, n, &unused);
    if (!readings) *n = 0;
    int alike = count_same(readings, *n);
    free(readings);
    return alike;
}

bool plans_as_read(const Measurement *m, RopePlan **plans, Reading **readings, int *n, Error *err) {
    // Of the settings only those that no block of JSON has can stand beside what an engine reads.
    RopeSettings s = {.rope = m->options->rope.rope, .said = m->options->rope.said};
    const int own = m->model->rope.rotary_dim, length = m->options->spread ? m->options->spread : m->length;
    char method[64];
    int n_read;
    for (int i = 0; i < rope_n_fields; i++)
        if (rope_fields[i].key || rope_fields[i].methods || rope_fields[i].maps) s.said &= ~(1u << i);
    Reading *read = read_by(m, m->options->reading, length, &n_read, err);
    free(*readings);
    free(*plans);
    *readings = read;
    *plans = read ? alloc_array((uint64_t)n_read, sizeof **plans, "plans", err) : NULL;
    *n = *plans ? n_read : 0;
    for (int i = 0; i < *n; i++) {
        const Reading *r = &read[i];
        RopePlan *plan = &(*plans)[i];
        if (r->refused) return fail(err, "--reading: %s refuses this config: %s", r->engine, r->note);
        if (own && r->rope.rotary_dim != own)
            return fail(err, "--reading: %s turns %d elements of a head, and the model's weights are stored for %d",
                        r->engine, r->rope.rotary_dim, own);
        if (!settings_resolve(&s, &r->rope, m->model->config.sliding_window, length, plan, err)) return false;
        settings_method_name(plan->rope.method, plan->rope.dynamic, method, sizeof method);
        snprintf(plan->name, sizeof plan->name, "%s:%s", r->engine, method);
    }
    return *plans;
}
