// --engines: the engines' readings of a config.
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROPE_CELLS = 5 };

// Whether the engine uses any settings.
static bool is_read(const Reading *r) { return r->verdict < VERDICT_REFUSED && !r->is_odd; }

// Prints, in words below a row, the columns that are not drawn, if they matter.
static void remark_difference(Table *t, const Reading *r) {
    char words[sizeof r->note + 100] = "";
    bool differs = is_read(r) && r->worst_pair >= 0;
    if (differs)
        snprintf(words, sizeof words, "pair %d turns %.4g times as fast", r->worst_pair,
                 r->worst_ratio);
    if (r->note[0]) add_name(words, sizeof words, "; ", r->note);
    const bool is_known = r->verdict != VERDICT_UNSEEN;
    if (is_known && strncmp(reading_looked(r), "run", 3) != 0)  // facts that do not come from a run
        add_name(words, sizeof words, "; ", reading_looked(r));
    if (words[0]) table_remark(t, words);
}

// Prints an engine's reading of one kind of layers: method, s, L, a and the longest text. With
// tabs, further columns have the pair that differs most, and a note.
static void print_reading(Table *t, const Reading *r, int length) {
    const RopeConfig *c = &r->rope;
    bool differs = is_read(r) && r->worst_pair >= 0;
    table_words(t, r->engine);
    table_words(t, r->version);
    if (!t->eyes && r->verdict == VERDICT_UNSEEN) table_unknown(t);
    else if (!t->eyes) table_words(t, reading_looked(r));
    table_words(t, verdict_names[r->verdict]);
    if (r->by_layer) table_words(t, kind_names[r->kind]);
    if (is_read(r)) {
        RopeFreqs f;
        rope_frequencies(c, length, &f);
        table_words(t, settings_method_name(c).text);
        table_number(t, "%.9g", f.scale);
        table_number(t, "%.0f", c->train_ctx);
        table_number(t, "%.9g", f.attention_factor);
        if (r->max_len < 0) table_words(t, "?");
        else table_number_if(t, r->max_len > 0, "%.0f", r->max_len);
    }
    for (int i = 0; !is_read(r) && i < N_ROPE_CELLS; i++) table_unknown(t);
    if (!t->eyes) {
        table_number_if(t, differs, "%.0f", r->worst_pair);
        table_number_if(t, is_read(r), "%.6g", differs ? r->worst_ratio : 1);
        if (r->note[0]) table_words(t, r->note);
        else table_unknown(t);
    }
    table_end_row(t);
    if (t->eyes) remark_difference(t, r);
}

// Prints the notes above the rows, which apply to all engines.
static void print_notes_of_all(Table *t, const RopeFile *file, const Reading *reference,
                               int length) {
    table_note_number(t, "length", "%d", length);
    table_note(t, "facts_of", "%s", ENGINES_DATE);
    table_note(t, "reference", "%s", is_read(reference) ? reference->engine : "none");
    note_layers(t, &reference->layers);
    const ConfigLayers *layers = &reference->layers;
    if (layers->window > 0 && (!layers->n || layers->n_of[KIND_SLIDING] > 0))
        table_note_number(t, "window_sliding", "%d", layers->window);
    if (file->directions[0]) table_note(t, "directions", "%s", file->directions);
    if (!reference->has_rope)
        table_note(t, kind_names[reference->kind], "no RoPE: queries and keys do not rotate");
}

// Notes the value to change if engines end texts before the block does.
static void note_raised(Table *t, const ReadByEngines *what, const char *list, int length,
                        const Readings *readings) {
    const RopeFile *file = what->job->rope_file;
    Raised raised;
    if (!what->as_it_stands || file->refused[0] ||
        !engines_raise(list, file->whole, length, readings, &raised))
        return;
    char words[600], original[100] = "";
    if (raised.original)
        snprintf(original, sizeof original,
                 ", with original_max_position_embeddings %d in its block", raised.original);
    snprintf(words, sizeof words, "max_position_embeddings %d%s: all%s%s serve %d then", raised.most,
             original, raised.n_behind ? " but " : "", raised.behind, length);
    if (!t->eyes) {
        table_note(t, "raise", "%s", words);
        return;
    }
    char line[sizeof words + 10];
    snprintf(line, sizeof line, "raise %s", words);
    table_remark(t, line);
}

static void name_columns(Table *t, bool by_layer) {
    const char *kinds = by_layer ? "layers\t" : "";
    char columns[200];
    snprintf(columns, sizeof columns,
             "engine\tversion\t%sverdict\t%smethod\tscale\ttrain_ctx\tattention_factor\tmax_len",
             t->eyes ? "" : "facts\t", kinds);
    if (!t->eyes) add_name(columns, sizeof columns, "\t", "worst_pair\tworst_ratio\tnote");
    table_columns(t, as_list, columns);
}

bool show_engines(Job *job, Error *err) {
    const ReadByEngines what = read_by_engines(job);
    const char *list = job->options->engines;
    const int length = job->length;
    char with_hf5[1000];
    char words[60];
    int known;
    const bool is_named = list, is_refused = what.as_it_stands && job->rope_file->refused[0];
    snprintf(with_hf5, sizeof with_hf5, "hf5,%s", list ? list : "");
    const bool has_hf5 = list && (strncmp(list, "hf5", 3) == 0 || strcmp(list, "all") == 0);
    if (list && !has_hf5) list = with_hf5;
    Readings *readings = readings_of(&what, list, length, err);
    if (!readings) return false;
    Table t = table_open(job->form);
    t.name_above = true;
    const int alike = readings_alike(readings, &known);
    print_notes_of_all(&t, job->rope_file, readings->reference, length);
    if (what.of_file)
        table_note(&t, "file",
                   "its own keys: llama.cpp, ik_llama.cpp, ollama; the others read a config.json "
                   "that says the same");
    if (is_refused && !t.eyes) table_note(&t, "refused_here", "%s", job->rope_file->refused);
    note_raised(&t, &what, list, length, readings);
    const int n_short = readings_end_texts(readings, length);
    name_columns(&t, readings->of[0].by_layer);
    for (int i = 0; i < readings->n; i++) {
        const Reading *r = &readings->of[i];
        if (r->has_rope) print_reading(&t, r, length);
    }
    table_end(&t);
    const bool differ = alike < known, is_long = !differ && n_short > 0;
    bool is_unsure = known == 0;
    for (int i = 0; is_named && i < readings->n; i++)
        is_unsure = is_unsure || readings->of[i].verdict == VERDICT_UNSEEN;
    if (differ || is_long || is_unsure) job->answer = differ || is_long ? NO : UNDECIDED;
    snprintf(words, sizeof words, "%d of %d engines interpret it the same way", alike, known);
    if (is_long)
        snprintf(words, sizeof words, "%d of %d engines take no text of %d positions", n_short,
                 known, length);
    else if (!differ && is_unsure)
        snprintf(words, sizeof words, "%s was not looked at", known ? "an engine" : "every engine");
    if (is_refused) job->answer = NO;
    if (is_refused) table_reason(&t, "refused", "it is refused here");
    else
        table_reason(&t,
                     differ      ? "differ"
                     : is_long   ? "too-long"
                     : is_unsure ? "not-looked-at"
                                 : "same",
                     words);
    free(readings);
    return true;
}
