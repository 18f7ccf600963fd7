// --engines: how the engines read one config, beside one another.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

static const char COLUMNS[] =
    "engine\tversion\tverdict\tmethod\tscale\ttrain_ctx\tattention_factor\tmax_len\tworst_pair\tworst_ratio\tnote";

// The readings of a list of engines, behind hf5's and hf4's; which of the two the others are measured by.
typedef struct {
    Reading readings[2 + MOST_READINGS];
    const Reading *reference;
    int n, length;
} Readings;

// The readings, which the caller frees; NULL with the reason.
static Readings *read_all(const Measurement *m, const char *list, Error *err) {
    char names[MOST_READINGS][40], *config = config_for_engines(m, err);
    const int n = engines_list(list, names, err), length = m->length;
    Readings *r = config && n ? alloc_array(1, sizeof *r, "readings", err) : NULL;
    bool ok = r && engine_read("hf5", config, length, &r->readings[0], err) &&
              engine_read("hf4", config, length, &r->readings[1], err);
    for (int i = 0; ok && i < n; i++) ok = engine_read(names[i], config, length, &r->readings[2 + i], err);
    free(config);
    if (!ok) {
        free(r);
        return NULL;
    }
    r->reference = &r->readings[r->readings[0].refused && !r->readings[1].refused];
    r->n = n;
    r->length = length;
    return r;
}

static const char *verdict_of(const Readings *r, int i, int *pair, double *ratio) {
    return engine_verdict(&r->readings[i], r->reference, r->length, pair, ratio);
}

static void print_reading(Table *t, const Readings *r, int i) {
    const Reading *one = &r->readings[i];
    const RopeConfig *c = &one->rope;
    RopeFreqs f = {.n_pairs = 0};
    int pair;
    double ratio;
    char method[MAX_METHOD_NAME], numbers[200] = "-\t-\t-\t-", most[20] = "-", worst[60] = "-\t1";
    const char *verdict = verdict_of(r, i, &pair, &ratio);
    settings_method_name(c->method, c->dynamic, method, sizeof method);
    if (!one->refused) rope_frequencies(c, r->length, &f);
    if (!one->refused)
        snprintf(numbers, sizeof numbers, "%s\t%.9g\t%d\t%.9g", method, f.scale, c->train_ctx, f.attention_factor);
    if (one->max_len && !one->refused) snprintf(most, sizeof most, "%d", one->max_len);
    if (one->refused) snprintf(worst, sizeof worst, "-\t-");
    if (pair >= 0) snprintf(worst, sizeof worst, "%d\t%.6g", pair, ratio);
    table_row(t, NULL, "%s\t%s\t%s\t%s\t%s\t%s\t%s", one->engine, one->version, verdict, numbers, most, worst,
              one->note[0] ? one->note : "-");
}

bool show_engines(const Measurement *m, bool *same, Error *err) {
    Readings *r = read_all(m, m->options->engines, err);
    if (!r) return false;
    Table t = table_open(SHAPE_LIST, 0, m->options->tsv);
    table_note(&t, "length", "%d", m->length);
    table_note(&t, "facts_of", "%s", engines_date);
    table_note(&t, "reference", "%s", r->reference->refused ? "none" : r->reference->engine);
    table_columns(&t, COLUMNS);
    const bool has_hf5 = strcmp(r->readings[2].engine, "hf5") == 0;
    int pair;
    double ratio;
    for (int i = has_hf5 ? 2 : 0; i < 2 + r->n; i++) {
        if (i == 1) continue;  // hf4, which nobody asked for
        print_reading(&t, r, i);
        *same = *same && strcmp(verdict_of(r, i, &pair, &ratio), "same") == 0;
    }
    table_end(&t);
    free(r);
    return true;
}

int engines_alike(const Measurement *m, int *n) {
    Error unused;
    Readings *r = m->model->config.encoding ? NULL : read_all(m, NULL, &unused);
    int alike = 0, pair;
    double ratio;
    *n = r ? r->n : 0;
    for (int i = 2; i < 2 + *n; i++) alike += strcmp(verdict_of(r, i, &pair, &ratio), "same") == 0;
    free(r);
    return alike;
}

// Of the settings only those that no block of JSON has can stand beside what an engine reads.
static RopeSettings beside_block(const RopeSettings *said) {
    RopeSettings s = settings_nothing_said;
    for (int i = 0; i < rope_n_fields; i++) {
        const Option *f = &rope_fields[i];
        if (!(said->said >> i & 1) || f->key || f->methods || f->maps) continue;
        settings_say(&s, f->option, field_value(&said->rope, f));
    }
    return s;
}

RopePlan *plans_as_read(const Measurement *m, int *n, Error *err) {
    char names[MOST_READINGS][40], method[64], *config = config_for_engines(m, err);
    const RopeSettings s = beside_block(&m->options->rope);
    const int own = m->model->rope.rotary_dim, length = m->options->spread ? m->options->spread : m->length;
    *n = engines_list(m->options->reading, names, err);
    // The lists of the plans lie behind them.
    RopePlan *plans = *n && config ? alloc_array((uint64_t)*n, sizeof *plans + sizeof(Reading), "plans", err) : NULL;
    Reading *readings = plans ? (Reading *)(void *)(plans + *n) : NULL;
    bool ok = plans;
    for (int i = 0; ok && i < *n; i++) {
        Reading *r = &readings[i];
        RopePlan *plan = &plans[i];
        ok = engine_read(names[i], config, length, r, err);
        if (ok && r->refused) ok = fail(err, "--reading: %s refuses this config: %s", names[i], r->note);
        if (ok && own && r->rope.rotary_dim != own)
            ok = fail(err, "--reading: %s turns %d elements of a head, and the model's weights are stored for %d",
                      names[i], r->rope.rotary_dim, own);
        ok = ok && settings_resolve(&s, &r->rope, m->model->config.sliding_window, length, plan, err);
        settings_method_name(plan->rope.method, plan->rope.dynamic, method, sizeof method);
        snprintf(plan->name, sizeof plan->name, "%s:%s", names[i], method);
    }
    free(config);
    if (ok) return plans;
    free(plans);
    return NULL;
}
