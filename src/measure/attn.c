// The scores and weights that one head gives to every key, for the last query of a prompt.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

void spell(const char *piece, size_t n, char *out, size_t capacity) {
    size_t used = 0;
    for (size_t i = 0; i < n && used + 6 < capacity; i++) {
        unsigned char c = (unsigned char)piece[i];
        bool shown = c >= 32 && c != 127 && c != '\\';
        used += (size_t)snprintf(out + used, capacity - used, shown ? "%c" : "\\x%02x", c);
    }
    out[used] = '\0';
}

static void print_keys(const Measurement *m, const Session *s, const float *scores) {
    int n = (int)m->n_ids, last = session_place(s, n - 1);
    double max = -INFINITY, total = 0;
    char text[MAX_SPELLED];
    size_t length;
    Table table = table_open(m->options->tsv);
    for (int i = 0; i < n; i++) max = fmax(max, scores[i]);
    for (int i = 0; i < n; i++) total += exp(scores[i] - max);
    print_heading(m, &table, "attention");
    table_note(&table, "method", "%s", m->plans->name);
    table_note(&table, "layer", "%d", m->options->attn[0]);
    table_note(&table, "head", "%d", m->options->attn[1]);
    table_columns(&table, "position\tdistance\tscore\tweight\ttoken");
    for (int i = 0; i < n; i++) {
        if (scores[i] == -INFINITY) continue;  // outside the window
        const char *piece = tokenizer_decode(m->tokenizer, i > 0 ? m->ids[i - 1] : -1, m->ids[i], &length);
        spell(piece, length, text, sizeof text);
        table_row(&table, "%d\t%d\t%.6f\t%.9g\t%s", session_place(s, i), last - session_place(s, i), scores[i],
                  exp(scores[i] - max) / total, text);
    }
    table_end(&table);
}

bool show_attention(const Measurement *m, Error *err) {
    int layer = m->options->attn[0], head = m->options->attn[1], n = (int)m->n_ids;
    int layers = m->model->config.n_layers, heads = m->model->config.n_heads;
    if (layer >= layers || head >= heads)
        return fail(err, "--attn %d.%d: the model has layers 0 to %d and heads 0 to %d", layer, head, layers - 1,
                    heads - 1);
    float *scores = alloc_array(m->n_ids, sizeof *scores, "scores", err);
    Session *s = scores ? open_session(m, m->plans, n, true, err) : NULL;
    if (s) s->config.watch = (Watch){layer, head, scores};
    bool ok = s && session_read(s, m->ids, n, n, 1, err);
    if (ok) print_keys(m, s, scores);
    session_free(s);
    free(scores);
    return ok;
}
