// The scores and weights that one head gives to every key, for the last query of a prompt.
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attn_pairs.h"

// Prints the cells that the row of a key and the row of a sink have in common.
static void print_score(Table *table, double score, double weight, const char *text) {
    table_number(table, "%.6f", score);
    table_number(table, "%.9g", weight);
    table_words(table, text);
    table_end_row(table);
}

// Prints the keys that the query sees: all whose score is not -infinity.
static void print_keys(const Job *job, const Session *s) {
    const Watch *watch = &s->config.watch;
    const float *scores = watch->scores;
    const int n = (int)job->n_ids;
    const float *sinks = s->model->layers[watch->layer].extra->attention.sinks;
    const double sink = sinks ? (double)sinks[watch->head] : -INFINITY;  // a score without a key
    const int last = session_place(s, n - 1);
    double max = sink;
    double total = 0;
    for (int i = 0; i < n; i++) max = fmax(max, scores[i]);
    for (int i = 0; i < n; i++) total += exp(scores[i] - max);
    total += exp(sink - max);
    Table table = table_open(job->form);
    print_heading(job, &table, "attention");
    table_note(&table, "method", "%s", job->plans->name);
    table_note_number(&table, "layer", "%d", watch->layer);
    table_note_number(&table, "head", "%d", watch->head);
    table_columns(&table, as_list, "position\tdistance\tscore\tweight\ttoken");
    for (int i = 0; i < n; i++) {
        if (scores[i] == -INFINITY) continue;
        char text[MAX_SPELLED];
        size_t length;
        const int32_t before = i > 0 ? job->ids[i - 1] : -1;
        const char *piece = tokenizer_decode(job->tokenizer, before, job->ids[i], &length);
        spell(piece, length, text, sizeof text);
        table_number(&table, "%.0f", session_place(s, i));
        table_number(&table, "%.0f", last - session_place(s, i));
        print_score(&table, scores[i], exp(scores[i] - max) / total, text);
    }
    if (sink > -INFINITY) {
        table_words(&table, "-");
        table_words(&table, "-");
        print_score(&table, sink, exp(sink - max) / total, "(sink)");
    }
    table_end(&table);
}

bool show_attention(Job *job, Error *err) {
    const int layer = job->options->attn.head[0];
    const int head = job->options->attn.head[1];
    const int n = (int)job->n_ids;
    const int layers = job->model->config.n_layers;
    const int heads = layer < layers ? job->model->layers[layer].extra->shape.n_heads
                                     : job->model->config.n_heads;
    if (layer >= layers || (heads > 0 && head >= heads))
        return fail(err, "--attn %d.%d: the model has layers 0 to %d and %sheads 0 to %d", layer,
                    head, layers - 1, layer < layers ? "there " : "", heads - 1);
    if (!layer_attends(&job->model->layers[layer]))
        return fail(err, "--attn %d.%d: layer %d %s, and does not attend", layer, head, layer,
                    layer_mixes(&job->model->layers[layer]) ? "keeps a state"
                                                            : "feeds forward alone");
    float *scores = alloc_array(job->n_ids, sizeof *scores, "scores", err);
    if (!scores) return false;
    Session *s = open_session(job, job->plans, n, true, err);
    if (s) s->config.watch = (Watch){.layer = layer, .head = head, .scores = scores};
    bool ok = s && session_read(s, job->ids, n, n, 1, err);
    if (ok && job->options->attn.by_pairs) ok = show_pairs(job, s, layer, head, err);
    else if (ok) print_keys(job, s);
    session_free(s);
    free(scores);
    return ok;
}
