// --heads: the tokens that each head attends to, within the trained length and at N with each
// method.
#include "head_texts.h"
#include "show.h"

#include <math.h>
#include <stdio.h>

static void print_heads(Table *t, const Job *job, const Survey *s, const char *method, int length) {
    for (int l = 0; l < s->n_layers; l++) {
        const Layer *layer = &job->model->layers[l];
        for (int h = 0; layer_attends(layer) && h < layer->extra->shape.n_heads; h++) {
            char name[60];
            name_head(s, l, h, name, sizeof name);
            table_words(t, method);
            table_number(t, "%.0f", length);
            table_number(t, "%.0f", l);
            table_number(t, "%.0f", h);
            table_number(t, "%.0f", h / (layer->extra->shape.n_heads / layer->extra->shape.n_kv_heads));
            table_words(t, name);
            for (int k = 0; k < N_SHARES; k++) {
                const Mean *m = share_of(s, l, h, (Share)k);
                table_number_if(t, m->n > 0, k == KEYS_SPREAD ? "%.1f" : "%.3f", mean_of(m));
                if (k >= FAR_SHARE && k <= KEY_SHARE)
                    table_number_if(t, m->n > 1, "%.3f", error_of(m));
            }
            table_end_row(t);
        }
    }
}

// Surveys the texts with a plan, and prints the rows. False with the reason.
static bool show_plan(Job *job, Table *t, const HeadTexts *texts, const RopePlan *plan, int length,
                      Error *err) {
    Survey s;
    if (!survey_open(&s, job->model, job->options->sessions.short_window, err)) return false;
    Session *session = open_session(job, plan, texts->length, false, err);
    const bool ok = session && survey_texts(&s, texts, session, err);
    if (ok) print_heads(t, job, &s, plan->name, length);
    session_free(session);
    survey_close(&s);
    table_end(t);
    return ok;
}

bool show_heads(Job *job, Error *err) {
    const RopePlan *asked = job->plans;
    const int n = job->length, trained = asked->rope.train_ctx;
    const bool whole = job->options->whole;
    int within = trained < TRAINED_TEXT ? trained : TRAINED_TEXT;
    if (within > n) within = n;
    HeadTexts texts = {.n = 0}, far = {.n = 0};
    RopePlan own;
    Table t = table_open(job->form);
    bool ok = reference_plan(job, false, 1, &own, err) &&
              (job->ids ? head_texts_own(&texts, job, err)
                        : head_texts_make(&texts, job, within, true, err));
    const bool reads_far = whole && !job->ids;
    ok = ok && (!reads_far || head_texts_make(&far, job, n, true, err));
    if (ok) {
        print_heading(job, &t, "heads");
        table_note(&t, "near", "%d", job->options->sessions.short_window);
        table_note(&t, "texts", "%d", texts.n);
        table_note(&t, "read", "%s", n <= texts.length ? "as they are"
                                      : whole           ? "whole"
                                                        : "with one jump");
        table_columns(&t, as_list,
                      "method\tlength\tlayer\thead\tkv_head\tkind\tnear\tfirst\tfar\tfar_se\t"
                      "after\tafter_se\tkey\tkey_se\tkeys");
        ok = show_plan(job, &t, &texts, &own, texts.length, err);
    }
    for (int i = 0; ok && i < job->n_plans && n > texts.length; i++) {
        const HeadTexts *read = reads_far ? &far : &texts;
        const RopePlan plan = far_plan(&job->plans[i], read->length, n, reads_far);
        ok = show_plan(job, &t, read, &plan, n, err);
    }
    head_texts_free(&texts);
    head_texts_free(&far);
    return ok;
}
