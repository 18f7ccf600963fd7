// --engines: how engines read a config.
#include "show_engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROPE_CELLS = 5 };

// What one engine makes of one kind of layers: method, s, L, a and the most positions.
static void print_rope(Table *t, const Reading *r, int length) {
    const RopeConfig *c = &r->rope;
    RopeFreqs f;
    rope_frequencies(c, length, &f);
    table_words(t, settings_method_name(c).text);
    table_number(t, "%.9g", f.scale);
    table_number(t, "%.0f", c->train_ctx);
    table_number(t, "%.9g", f.attention_factor);
    if (r->max_len < 0) table_words(t, "?");
    else table_number_if(t, r->max_len > 0, "%.0f", r->max_len);
}

// The columns that are drawn in words below a row, where they say something.
static void remark_difference(Table *t, const Reading *r) {
    char words[sizeof r->note + 100] = "";
    bool differs = !r->refused && r->worst_pair >= 0;
    if (differs)
        snprintf(words, sizeof words, "pair %d turns %.4g times as fast", r->worst_pair,
                 r->worst_ratio);
    if (r->note[0]) add_name(words, sizeof words, "; ", r->note);
    if (words[0]) table_remark(t, words);
}

// The same columns in a pipe.
static void print_last_columns(Table *t, const Reading *r) {
    bool differs = !r->refused && r->worst_pair >= 0;
    table_number_if(t, differs, "%.0f", r->worst_pair);
    table_number_if(t, !r->refused, "%.6g", differs ? r->worst_ratio : 1);
    if (r->note[0]) table_words(t, r->note);
    else table_unknown(t);
}

static void print_reading(Table *t, const Reading *r, int length) {
    table_words(t, r->engine);
    table_words(t, r->version);
    table_words(t, r->refused ? "refused" : r->verdict);
    if (r->by_layer) table_words(t, kind_names[r->kind]);
    if (!r->refused) print_rope(t, r, length);
    for (int i = 0; r->refused && i < N_ROPE_CELLS; i++) table_unknown(t);
    if (!t->eyes) print_last_columns(t, r);
    table_end_row(t);
    if (t->eyes) remark_difference(t, r);
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
    char words[60];
    int n;
    int known;
    snprintf(with_hf5, sizeof with_hf5, "hf5,%s", list ? list : "");
    if (list && strncmp(list, "hf5", 3) != 0) list = with_hf5;
    Reading *readings = readings_of(what, list, length, &n, err);
    if (!readings) return false;
    Table t = table_open(what->job->form);
    print_notes_of_all(&t, readings, n, length);
    name_columns(&t, readings[0].by_layer);
    for (int i = 0; i < n; i++) {
        const Reading *r = &readings[i];
        if (r->has_rope && !r->unknown) print_reading(&t, r, length);
    }
    table_end(&t);
    int alike = readings_alike(readings, n, &known);
    if (alike < known) *answer = NO;
    snprintf(words, sizeof words, "%d of %d engines read it alike", alike, known);
    table_reason(&t, alike < known ? "differ" : "same", words);
    free(readings);
    return true;
}
