// --engines: how engines read a config.
#include "show_engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What one engine makes of one kind of layers: method, s, L, a and the most positions.
static void write_cells(const Reading *r, int length, char *out, size_t capacity) {
    const RopeConfig *c = &r->rope;
    RopeFreqs f;
    char most[20] = "-";
    rope_frequencies(c, length, &f);
    if (r->max_len > 0) snprintf(most, sizeof most, "%d", r->max_len);
    if (r->max_len < 0) snprintf(most, sizeof most, "?");
    snprintf(out, capacity, "%s\t%.9g\t%d\t%.9g\t%s", settings_method_name(c).text, f.scale,
             c->train_ctx, f.attention_factor, most);
}

// Prints a row. A drawn one has the last three columns in words below it, where they say something.
static void print_reading(Table *t, const Reading *r, int length) {
    char cells[300] = "-\t-\t-\t-\t-", worst[60] = "-\t-", words[sizeof r->note + 100] = "",
         kind[20] = "";
    if (!r->refused) {
        write_cells(r, length, cells, sizeof cells);
        snprintf(worst, sizeof worst, "-\t1");
        if (r->worst_pair >= 0)
            snprintf(worst, sizeof worst, "%d\t%.6g", r->worst_pair, r->worst_ratio);
    }
    if (r->by_layer) snprintf(kind, sizeof kind, "%s\t", kind_names[r->kind]);
    const char *verdict = r->refused ? "refused" : r->verdict, *note = r->note[0] ? r->note : "-";
    if (!t->eyes) {
        table_row(t, "%s\t%s\t%s\t%s%s\t%s\t%s", r->engine, r->version, verdict, kind, cells, worst,
                  note);
        return;
    }
    table_row(t, "%s\t%s\t%s\t%s%s", r->engine, r->version, verdict, kind, cells);
    if (!r->refused && r->worst_pair >= 0)
        snprintf(words, sizeof words, "pair %d turns %.4g times as fast", r->worst_pair,
                 r->worst_ratio);
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

// What is told of all engines, above the rows.
static void print_notes_of_all(Table *t, const Reading *readings, int n, int length) {
    const Reading *reference = &readings[REFERENCE];
    table_note(t, "length", "%d", length);
    table_note(t, "facts_of", "%s", ENGINES_DATE);
    table_note(t, "reference", "%s", reference->refused ? "none" : reference->engine);
    note_layers(t, &reference->layers);
    if (reference->by_layer) table_note(t, "window_sliding", "%d", reference->layers.window);
    if (!reference->has_rope)
        table_note(t, kind_names[reference->kind], "no RoPE: queries and keys do not turn");
    note_unknown(t, readings, n);
}

static void name_columns(Table *t, bool by_layer) {
    const char *kinds = by_layer ? "layers\t" : "";
    char columns[200];
    snprintf(columns, sizeof columns,
             "engine\tversion\tverdict\t%smethod\tscale\ttrain_ctx\tattention_factor\tmax_len",
             kinds);
    if (!t->eyes) add_name(columns, sizeof columns, "\t", "worst_pair\tworst_ratio\tnote");
    table_columns(t, columns);
}

bool show_engines(const ReadByEngines *what, const char *list, Answer *answer, Error *err) {
    const int length = what->job->length;
    char with_hf5[1000];
    int n;
    int known;
    snprintf(with_hf5, sizeof with_hf5, "hf5,%s", list ? list : "");
    if (list && strncmp(list, "hf5", 3) != 0) list = with_hf5;
    Reading *readings = readings_of(what, list, length, &n, err);
    if (!readings) return false;
    Table t = table_open(what->job->tsv);
    print_notes_of_all(&t, readings, n, length);
    name_columns(&t, readings[0].by_layer);
    for (int i = 0; i < n; i++) {
        const Reading *r = &readings[i];
        if (r->has_rope && !r->unknown) print_reading(&t, r, length);
    }
    table_end(&t);
    if (readings_alike(readings, n, &known) < known) *answer = NO;
    free(readings);
    return true;
}
