// --why: finds the heads that retrieve a number hidden in a text, those of them that lose it past
// the trained length, the pairs to blame, the effect of a method, and the share of the loss of
// perplexity that comes from heads without distant keys. All of it is measured, on the program's
// own texts.
#include "why_parts.h"

#include <stdlib.h>

#include "../base/names.h"

bool show_why(Job *job, Error *err) {
    const int n = job->length, trained = job->plans->rope.train_ctx;
    Why *w = alloc_array(1, sizeof *w, "what is measured", err);
    if (!w) return false;
    w->job = job;
    w->whole = job->options->whole;
    w->length = (trained < TRAINED_TEXT ? trained : TRAINED_TEXT) / 2 * 2;
    w->control = trained < n && (!w->whole || trained > w->length) ? trained : 0;
    bool ok = model_encoding(job->model) == ENCODING_ROPE ||
              fail(err, "--why is for models with RoPE, and this one knows positions by its encoding "
                        "'%s'",
                   encoding_names[model_encoding(job->model)]);
    ok = ok && (!job->model->config.extra->attention.qk_norm_late ||
                fail(err, "--why: norms of heads come after RoPE in this model, so that no pair turns by "
                          "itself"));
    ok = ok && (n > w->length || fail(err, "--why: -n %d is no longer than the texts within the trained "
                                           "context, of %d (expected more)",
                                      n, w->length));
    ok = ok && head_texts_make(&w->near, job, w->length, false, err) &&
         (!w->whole || head_texts_make(&w->far, job, n, false, err)) &&
         (!w->whole || !w->control || head_texts_make(&w->edge, job, w->control, false, err)) &&
         measure_why(w, err);
    if (ok) {
        table_end(&w->table);  // the bar goes
        tell_why(w);
    }
    head_texts_free(&w->near);
    head_texts_free(&w->edge);
    head_texts_free(&w->far);
    for (int k = 0; k < MOST_TEXTS; k++) session_free(w->sessions[k]);
    survey_close(&w->survey);
    free(w);
    return ok;
}
